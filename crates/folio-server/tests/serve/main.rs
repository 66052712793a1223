//! The server over real connections.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod away;
mod claims;
mod client;
mod compare;
mod crowded;
mod events;
mod exchange;
mod house;
mod interface;
mod keys;
mod life;
mod lists;
mod mcp;
mod observations;
mod openapi;
mod pages;
mod policy;
mod refusals;
mod roles;
mod scratchbook;
mod server;
mod spaces;
mod start;
mod steer;
mod transfer;
mod turns;
