//! Memory as a person and as a program see it: observations, pages, turns, and how a space is kept small.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod evict;
mod keeping;
mod life;
mod observations;
mod offload;
mod pages;
mod policy;
mod search;
#[path = "../support/mod.rs"]
mod support;
mod texts;
mod tokens;
mod turns;
