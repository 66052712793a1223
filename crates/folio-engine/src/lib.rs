//! Plans, and a run as a fold over its events.
//!
//! Everything in this crate computes. What a run is owed is derived from what was recorded ([`run::Run::due`]); a runner
//! carries it out and records what became of it as an [`event::Event`]; [`run::Run::apply`] folds the event in. So a run
//! whose driver died is owed exactly what its journal says.
//!
//! - [`plan`]: the plan language, read from YAML or JSON with every error at its place
//! - [`argument`]: what the arguments of tools may hold
//! - [`template`]: text and values that are filled in when a step is due
//! - [`run`]: the fold itself
//! - [`projection`]: the pages that each event writes
//! - [`node`], [`event`], [`result`]: what a tree is made of, what can happen to it, what comes out
//! - [`talk`], [`spend`]: what models are asked and answer, and what that uses up

pub mod argument;
pub mod event;
mod lines;
pub mod node;
mod output;
pub mod plan;
pub mod projection;
pub mod result;
pub mod run;
pub mod spend;
pub mod talk;
pub mod template;

pub use event::Event;
pub use node::{NodeId, NodeState};
pub use result::{Evidence, Failure, Finding, Given, NodeResult, Outcome, Output, Severity, StopReason, Verdict};
pub use run::{Action, CallAction, CallAnswer, CallOutcome, Limits, NodeKind, NodeView, Run};
