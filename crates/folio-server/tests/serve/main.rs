//! The server over real connections.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod events;
mod house;
mod interface;
mod lists;
mod mcp;
mod refusals;
mod server;
mod steer;
