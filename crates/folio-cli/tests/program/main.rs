//! The program itself: help, settings, mistakes, and a machine that has no room.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod adversity;
mod mistakes;
mod program;
mod readme;
#[path = "../support/mod.rs"]
mod support;
mod trust;
