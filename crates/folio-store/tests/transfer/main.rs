//! Memory as files: scratchbooks in the format of seed 003, and whole spaces as lines.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod books;
mod foreign;
#[path = "../house/mod.rs"]
mod house;
mod links;
mod refused;
mod spaces;
mod whole;
