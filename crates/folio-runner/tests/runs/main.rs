//! Runs as whoever drives them sees them: how they go on, wait, fail, are forked and read again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ahead;
mod beside;
#[path = "../cases/mod.rs"]
mod cases;
mod elsewhere;
mod fork;
mod formats;
mod given_up;
mod here;
mod in_space;
mod leftovers;
mod locks;
mod lost;
#[path = "../models_support/mod.rs"]
mod models_support;
mod outage;
mod outputs;
mod panics;
mod replay;
mod room;
mod run;
