//! Folio as a service. Over HTTP: a JSON interface under `/v1`, live streams of runs, and a small web page to watch
//! them.
//!
//! This crate parses requests, authenticates callers, and presents results in wire types of its own; it contains no
//! domain rules. It prints nothing and reads no environment: the program that starts it says where it listens and when
//! it stops.
//!
//! - [`server`]: bind, serve, stop
//! - `listen`: the connections
//! - `http`: routes, problems, and the guard before all routes
//! - [`mcp`]: the tools of a model's memory, over the Model Context Protocol
//! - [`wire`]: the types of JSON answers, for every surface
//! - [`run_pages`]: the handles of a run's pages, which some of these types contain
//! - [`run_origins`]: the handles of the runs that others were forked from
//! - [`spaces`]: the served spaces, with a runner for each
//! - `submit`, `driving`: checks of requested runs, and the runs that are driven here
//! - `one_or_more`: fields that take one text or several
//! - [`callback`]: the page to which a browser returns after a login elsewhere
//! - `ui`: the web page, embedded
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
mod held_body;
mod http;
mod listen;
pub mod mcp;
mod one_or_more;
pub mod run_origins;
pub mod run_pages;
pub mod server;
mod shares;
pub mod spaces;
pub mod statuses;
mod submit;
mod ui;
pub mod wire;

pub use callback::Callback;
pub use mcp::{Mcp, McpError, McpOptions, ToolSet};
pub use server::{ServeError, ServeOptions, Server, TransferLimits};
pub use spaces::Spaces;

/// Returns the OpenAPI 3.1 document of the HTTP interface, which a server serves at `/openapi.json`. It is the same
/// every time.
#[must_use]
pub fn openapi() -> serde_json::Value {
    http::document().clone()
}
