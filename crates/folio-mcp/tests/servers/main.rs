//! Servers of others: how they fail, over HTTP, and behind a login.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod faults;
mod http;
mod login;
#[path = "../support/mod.rs"]
mod support;
