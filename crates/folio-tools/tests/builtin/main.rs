//! The built-in tools, through the registry as the engine calls them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod confinement;
mod files;
mod git;
mod git_hostile;
mod grep;
mod http_get;
mod limits;
mod mistakes;
mod registry;
mod shell;
mod small_tools;
#[path = "../support/mod.rs"]
mod support;
mod write;
