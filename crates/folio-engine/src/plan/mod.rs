//! The plan language: what a plan is, how it is read from YAML or JSON with all its mistakes at once, and
//! the graph that follows from it.
//!
//! [`parse`] reads a text into a [`Plan`]; [`Graph::of`] says which of its steps waits for which;
//! [`check_inputs`] brings what a run is started with to the types that the plan asks for. [`schema`] is the
//! JSON schema of all of it, for editors, for models and for people.

mod budget;
mod criterion;
mod cursor;
mod cycle;
mod decode;
mod document;
mod duration;
mod errors;
mod graph;
mod inputs;
mod json;
mod keys;
mod nearest;
mod parse;
mod reads;
mod slug;
mod spanned;
mod step;
mod validate;
mod yaml;

pub use budget::{Budget, Retry};
pub use criterion::{Check, Criterion};
pub use document::{InputKind, InputSpec, PLAN_VERSION, Plan, Report};
pub use errors::{CODES, Place, PlanError, PlanErrors};
pub use graph::{Graph, GraphNode};
pub use inputs::{InputError, check_inputs};
pub use parse::{Known, KnownTool, Limits, from_value, parse};
pub use slug::{SLUG_CHARS_MAX, Slug, SlugError};
pub use step::{Call, ForEach, Group, Join, MAX_ITEMS_DEFAULT, Observe, OnHard, Sequence, Step, SubPlan, Task, Work};

/// The JSON schema of plan files (draft 2020-12).
pub fn schema() -> &'static str {
    include_str!("plan.schema.json")
}
