//! Runs in a shared store, whose server loses something, and whose processes write the same.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lost;
mod written;
#[path = "../written_support/mod.rs"]
mod written_support;
