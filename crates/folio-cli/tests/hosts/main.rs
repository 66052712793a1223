//! Folio in agent programs: what is set up for them, their hooks, and the Model Context Protocol.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod connect;
mod hooks;
mod mcp;
#[path = "../support/mod.rs"]
mod support;
