//! The program as a server: who has access, what is received besides, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod collector;
mod hangup;
mod server;
#[path = "../support/mod.rs"]
mod support;
