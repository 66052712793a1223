//! Runs through the program: started, shown, steered, left and resumed, forked, forgotten.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod forget_run;
mod forks;
mod left;
mod parts;
mod run;
mod steer;
#[path = "../support/mod.rs"]
mod support;
