//! What a program relies on that has Folio inside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod boundary;
mod close;
mod examples;
mod files;
