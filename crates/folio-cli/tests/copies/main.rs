//! Memory that is taken elsewhere: as files, from files of others, and as copies of a store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod backup;
mod damaged;
mod files;
mod import;
mod restore;
#[path = "../support/mod.rs"]
mod support;
mod transfer;
