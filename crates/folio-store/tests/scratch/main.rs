//! The scratch page from end to end: what is recorded, seen, listed and traced (seeds 002 and 004).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../house/mod.rs"]
mod house;
mod scratch;
mod seed_002;
mod seed_004_tools;
mod sight;
mod trace;
