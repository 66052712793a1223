//! Folio as a service. Over HTTP: a JSON interface under `/v1`, runs as they happen, and a small page to watch them.
//!
//! Parses, checks who may ask, and presents; it holds no rules and converts to wire types of its own. It prints
//! nothing and reads no environment: who starts it says where it listens and when it stops.
//!
//! - [`server`]: bind, serve, stop
//! - `listen`: its connections
//! - `http`: routes, wire types, problems, the guard before them all
//! - [`mcp`]: the tools of a model's memory, over the Model Context Protocol
//! - [`wire`]: the JSON that goes out, for every surface
//! - `submit`, `driving`: what runs are asked for, and those that are driven here
//! - [`callback`]: the page that a browser comes back to after a login elsewhere
//! - `ui`: the page, embedded
//!
//! ```no_run
//! # async fn example(runner: folio::runner::Runner) -> Result<(), folio_server::ServeError> {
//! use folio_server::{ServeOptions, Server};
//!
//! let server = Server::bind(&ServeOptions::default(), runner).await?;
//! let url = server.url();
//! server.run(std::future::pending()).await
//! # }
//! ```

pub mod callback;
mod driving;
mod http;
mod listen;
pub mod mcp;
pub mod server;
mod submit;
mod ui;
pub mod wire;

pub use callback::Callback;
pub use mcp::{Mcp, McpError, McpOptions, ToolSet};
pub use server::{ServeError, ServeOptions, Server, TransferLimits};

/// The description of the interface over HTTP, OpenAPI 3.1: what a server has at `/openapi.json`. The same bytes each time.
#[must_use]
pub fn openapi() -> serde_json::Value {
    http::described().1
}
