//! What a program relies on that has the engine inside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod embedded;
mod library;
