//! Tools through the program: their answers, those of servers, and the web.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answers;
mod http_get;
mod login;
mod mcp_tools;
#[path = "../support/mod.rs"]
mod support;
