//! Turns from end to end (seeds 002 and 004): observations in one change what is done in a later one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod advisor;
mod context;
mod export;
mod goals;
mod learning;
mod lifetime;
mod parallel;
mod scene;
mod sessions;
mod stages;
mod threads;
mod touched;
