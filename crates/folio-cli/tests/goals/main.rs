//! Runs whose tasks models, agent programs and people do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agents;
mod cassettes;
mod fanout;
mod goals;
mod human;
#[path = "../support/mod.rs"]
mod support;
