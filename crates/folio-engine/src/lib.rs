//! Plans, and a run as a fold over its events.
//!
//! Everything in this crate is computation. What a run needs next is derived from its journal ([`run::Run::due`]); a
//! runner does it and records the outcome as an [`event::Event`]; [`run::Run::apply`] folds the event into the state.
//! So a run whose driver died needs exactly what its journal says.
//!
//! - [`plan`]: the plan language, read from YAML or JSON with every error located
//! - [`argument`]: what the arguments of tools may hold, checked in plans and in calls
//! - [`json_schema`]: JSON Schemas, applied within a bound
//! - [`template`]: text and values that are filled in when a step is due
//! - [`run`]: the fold itself
//! - [`projection`]: the pages that each event writes
//! - [`node`], [`event`], [`result`]: what a run's tree is made of, what can happen to it, what it produces
//! - [`talk`], [`spend`]: what models are asked and answer, and what that costs

pub mod argument;
pub mod event;
mod expression;
pub mod json_schema;
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
pub use result::{Evidence, Failure, Finding, NodeResult, Outcome, Output, OutputTree, Severity, StopReason, Verdict};
pub use run::{Action, CallAction, CallAnswer, CallOutcome, Limits, NodeKind, NodeView, Run};
