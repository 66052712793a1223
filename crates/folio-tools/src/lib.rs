//! The tools that tasks call, within their permissions.
//!
//! A plan step with `do: {tool: NAME, args: {…}}` and a model that calls a tool both end up here: in a [`Registry`] of
//! [`Tool`]s, called with a [`ToolRequest`] and a [`ToolContext`] that holds everything the call may touch. The answer
//! is always a [`ToolResponse`]; a failure is a status in it, never a panic and never a lost reply.
//!
//! This crate never changes a plan and never writes memory: a tool *proposes* observations, page
//! entries and memory writes in its response, and the runner commits them together with the outcome.
//! It reads no clock, no environment variable and no path that was not granted.
//!
//! | module | holds |
//! |---|---|
//! | [`tool`] | the interface: what a tool is, and what it is asked |
//! | [`response`] | what a tool answers |
//! | [`context`] | what a call may touch, and its limits |
//! | [`registry`] | the one guarded way to call a tool |
//! | [`roots`] | granted folders, and paths that cannot leave them |
//! | [`hosts`] | which hosts may be reached over HTTP |
//! | [`folder`] | a folder whose files are read by the same kind of paths as in a space |
//! | [`takeover`] | copies the files of a run for a fork of it |
//! | [`panics`] | panics, as messages |
//! | [`paths`] | any file name as text, and back |
//! | [`builtin`] | the tools that come with Folio, one file each |

pub mod builtin;
pub mod context;
pub mod folder;
pub mod hosts;
pub mod panics;
pub mod paths;
mod patterns;
pub mod registry;
pub mod response;
pub mod results;
pub mod roots;
pub mod takeover;
pub mod tool;

mod arguments;
mod blocking;
mod capture;
mod function;
mod gitignore;
mod globs;
mod language;
mod process;
mod resource;
mod schema;
mod sha256;
mod walk;

/// An address, as [`HostList::allows`] takes it.
pub use reqwest::Url;
/// Fires when a call is cancelled ([`ToolContext::cancel`]).
pub use tokio_util::sync::CancellationToken;

pub use context::{NoScratchbook, ScratchSource, ShellPolicy, ToolContext, ToolLimits};
pub use folder::{Folder, FolderError};
pub use hosts::{HostList, HostRule};
pub use registry::Registry;
pub use response::{EvidenceRef, FailureKind, PageAppend, PageTarget, ToolError, ToolResponse, ToolStatus, Truncated};
pub use results::{NoResults, ResultSource, as_text, field_of};
pub use roots::{Access, Root, RootError, Roots, RunFolder};
pub use schema::schema_problem;
pub use takeover::{TakenOver, Takeover};
pub use tool::{Approval, ArgKind, ArgSpec, CallArgs, Effect, Mistake, Need, Reconciled, Tool, ToolRequest, ToolSpec};
