//! `kill -9` at any moment of a run: it goes on where it was, in the next process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod checks;
mod models;
#[path = "../models_support/mod.rs"]
mod models_support;
#[path = "../only_run/mod.rs"]
mod only_run;
mod run;
