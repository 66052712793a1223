//! The plan language: what a plan is, how it is read from YAML or JSON with all its mistakes at once, and
//! the graph that follows from it.
//!
//! [`parse`] reads a text into a [`Plan`]; [`Graph::of`] says which of its steps waits for which;
//! [`check_inputs`] brings what a run is started with to the types that the plan asks for. [`schema`] is the
//! JSON schema of all of it, for editors, for models and for people. [`to_markdown`] writes the steps of a plan as people edit
//! them while it is carried out.

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
mod known;
mod markdown;
mod nearest;
mod parse;
mod reads;
mod slug;
mod spanned;
mod step;
mod validate;
mod yaml;

use std::collections::BTreeSet;

use folio_memory::canonical::canonical;
use sha2::{Digest, Sha256};

pub use budget::{Budget, Retry, Share};
pub(crate) use criterion::meant as criterion_meant;
pub use criterion::{Check, Criterion};
pub use document::{InputKind, InputSpec, PLAN_VERSION, Plan, Report};
pub(crate) use edit::{Around, Part, read_edit};
pub use errors::{CODES, Place, PlanError, PlanErrors};
pub use graph::{Graph, GraphNode};
pub use inputs::{InputError, check_inputs};
pub use markdown::{ShownStep, to_markdown, to_yaml_steps};
pub use parse::{Known, KnownTool, Limits, from_stored, from_value, parse};
pub use slug::{SLUG_CHARS_MAX, Slug, SlugError};
pub use step::{
    Call, ForEach, Group, HUMAN, Join, MAX_ITEMS_DEFAULT, Observe, OnHard, Sequence, Step, SubPlan, Task, Work,
};

/// The JSON schema of plan files (draft 2020-12).
pub fn schema() -> &'static str {
    include_str!("plan.schema.json")
}

/// The hash by which plans are told apart: of what their steps say.
pub(crate) fn hash_of(steps: &[Step]) -> String {
    let mut first = [0; 16];
    let text = canonical(serde_json::json!(steps)).to_string();
    first.copy_from_slice(&Sha256::digest(text.as_bytes())[..16]);
    format!("{:032x}", u128::from_be_bytes(first))
}

/// The results of the plan around a list that what is done for each of its items reads in templates.
pub(crate) fn read_by_body(for_each: &ForEach) -> BTreeSet<String> {
    let (mut read, mut own) = (BTreeSet::new(), BTreeSet::new());
    reads::each_member(std::slice::from_ref(&for_each.body), &mut |step| {
        read.extend(reads::outer_results(step));
        own.extend(step.id().map(|id| id.as_str().to_owned()));
    });
    read.difference(&own).cloned().collect()
}

/// The nodes that stand in a plan: its steps, those in groups and sub-plans, and the bodies of lists.
pub(crate) fn count_nodes(steps: &[Step]) -> u32 {
    let inner = steps.iter().map(|step| {
        let below = count_nodes(step.members());
        below.saturating_add(count_nodes(reads::inner_steps(step)))
    });
    inner.fold(u32::try_from(steps.len()).unwrap_or(u32::MAX), u32::saturating_add)
}

/// The nodes that are made at once when whatever `steps` stand in begins: they and the members of groups. What is in a sub-plan, and for the
/// items of a list, is made when that begins.
pub(crate) fn count_made(steps: &[Step]) -> usize {
    let members = steps.iter().map(|step| count_made(step.members()));
    steps.len() + members.sum::<usize>()
}
