//! Spans of runs, and what they leave out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod failures;
mod runs;
