//! The plan language: what a plan is, how it is read from YAML or JSON with all its mistakes reported at once, and the
//! graph that follows from it.
//!
//! [`parse`] reads a text into a [`Plan`]; [`Graph::of`] says which of its steps waits for which; [`check_inputs`]
//! converts the inputs of a run to the types that the plan declares. [`schema`] is the JSON schema of plan files, for
//! editors, models and people. [`to_markdown`] writes the steps of a plan in the form in which people edit them during
//! a run.

mod budget;
mod criterion;
mod cursor;
mod cycle;
mod decode;
mod document;
mod duration;
mod edit;
mod emit;
mod errors;
mod graph;
mod inputs;
mod json;
mod keys;
mod markdown;
mod nearest;
mod output_reads;
mod parse;
pub(crate) mod reads;
mod slug;
mod spanned;
mod step;
mod tool_mistakes;
mod tools;
mod validate;
mod yaml;

use std::collections::BTreeSet;

use folio_memory::canonical::canonical;
use sha2::{Digest, Sha256};

pub use budget::{Budget, NODES_MAX, Retry, Share};
pub(crate) use criterion::resolve_criterion_id as criterion_meant;
pub use criterion::{Check, Criterion};
pub use document::{HERE, InputKind, InputSpec, PLAN_VERSION, Plan, Report};
pub(crate) use edit::{EditTarget, Part, read_edit, version_in};
pub use errors::{CODES, MISTAKES_LISTED, Place, PlanError, PlanErrors};
pub use graph::{Graph, GraphNode};
pub use inputs::{InputError, check_inputs};
pub(crate) use markdown::WAITING;
pub use markdown::{ShownStep, to_markdown, to_yaml_steps};
pub(crate) use output_reads::{OutputReads, not_lists, output_reads};
pub use parse::{Known, KnownTool, Limits, from_stored, from_value, parse};
pub use slug::{SLUG_CHARS_MAX, Slug, SlugError};
pub(crate) use step::is_generated_id;
pub use step::{
    Call, ForEach, Group, HUMAN, Join, MAX_ITEMS_DEFAULT, Observe, OnHard, Sequence, Step, SubPlan, Task, Work,
    tasks_of,
};
pub(crate) use tools::RESULT_READ;
pub use tools::{ToolNames, names_tool};

/// The JSON schema of plan files (draft 2020-12).
pub fn schema() -> &'static str {
    include_str!("plan.schema.json")
}

/// The hash that tells plans apart. It covers the content of their steps.
pub(crate) fn hash_of(steps: &[Step]) -> String {
    let mut first = [0; 16];
    let text = canonical(serde_json::json!(steps)).to_string();
    first.copy_from_slice(&Sha256::digest(text.as_bytes())[..16]);
    format!("{:032x}", u128::from_be_bytes(first))
}

/// The results of the surrounding plan that the body of a `for_each` reads in templates.
pub(crate) fn results_read_by_body(for_each: &ForEach) -> BTreeSet<String> {
    let (mut read_names, mut own_names) = (BTreeSet::new(), BTreeSet::new());
    reads::each_member(std::slice::from_ref(&for_each.body), &mut |step| {
        read_names.extend(reads::outer_results(step));
        own_names.extend(step.id().map(|id| id.as_str().to_owned()));
    });
    read_names.difference(&own_names).cloned().collect()
}

/// The number of nodes written in a plan: its steps, those in groups and sub-plans, and the bodies of `for_each`.
pub(crate) fn count_nodes(steps: &[Step]) -> u32 {
    let inner = steps.iter().map(|step| {
        let below = count_nodes(step.members());
        below.saturating_add(count_nodes(reads::inner_steps(step)))
    });
    inner.fold(u32::try_from(steps.len()).unwrap_or(u32::MAX), u32::saturating_add)
}

/// The number of nodes that are created at once when the plan of `steps` begins: the steps and the members of groups.
/// Nodes of a sub-plan, and of the items of a list, are created when that step begins.
pub(crate) fn count_initial_nodes(steps: &[Step]) -> usize {
    let members = steps.iter().map(|step| count_initial_nodes(step.members()));
    steps.len() + members.sum::<usize>()
}
