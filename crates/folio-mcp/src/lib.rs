//! Tools of MCP servers as tools of a run: a client of every server that the settings name.
//!
//! A tool of the server `maps` that is called `route` is `maps.route` in plans, traces and approvals. What a server says of
//! itself is a hint: of a tool that nobody here classified the most careful is thought, and a person is asked before it is
//! called (E9.12, E9.14).
//!
//! - [`settings`]: how servers are named, and what is granted to their tools
//! - [`servers`]: all of them, for a registry
//! - `server`: one of them: its connection is made when it is needed, and made again when it is gone
//! - [`login`]: how somebody logs in to a server that wants it
//! - `connection`: one connection, by a program's pipes or by HTTP
//! - `incoming`: what a program says, within a limit; `paced`: no more of it than it reads of our answers
//! - `listed`: from what a server lists to what a tool tells of itself
//! - `tool`: one tool
//! - `answer`: from a server's answer to a tool's
//! - `words`: what went wrong, in words that whoever wrote the settings knows

mod answer;
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
