//! Tools of MCP servers as tools of a run: a client for every server that the settings name.
//!
//! The tool `route` of the server `maps` is `maps.route` in plans, traces and approvals. What a server says about its
//! tools is a hint: a tool that nobody here classified is treated with the most care, and needs approval before it is
//! called (E9.12, E9.14).
//!
//! - [`settings`]: how servers are configured, and what their tools are permitted
//! - [`servers`]: all of them, for a registry
//! - `server`: one server: its connection is made when it is needed, and made again when it is gone
//! - [`login`]: logs people in to a server that requires it
//! - `connection`: one connection, by a program's pipes or by HTTP
//! - `bounded`: the client of HTTP, with a limit on the events of an answer
//! - `incoming`: the output of a program, within limits; `paced`: reads no more of it than the program reads of our
//!   answers
//! - `listed`: turns what a server lists into specifications of tools
//! - `tool`: one tool
//! - `answer`: turns a server's answer into a tool's
//! - `words`: says what went wrong in terms that whoever wrote the settings knows

mod answer;
mod bounded;
mod connection;
pub mod error;
mod incoming;
mod listed;
pub mod login;
mod paced;
mod server;
pub mod servers;
pub mod settings;
mod tool;
mod words;

pub use error::McpError;
pub use login::Login;
pub use servers::{LoginAt, Reached, Servers, ToStart};
pub use settings::{LoginSettings, McpSection, McpSettings};

/// The member of a call's `_meta` that holds its idempotency key. Folio's own server reads it there.
pub const IDEMPOTENCY_KEY: &str = "folio/idempotencyKey";
