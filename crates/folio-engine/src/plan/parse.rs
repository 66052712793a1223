//! From text to plan.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::decode::decode;
use super::markdown;
use super::spanned::{self, Node};
use super::validate::validate;
use super::{Plan, PlanError, PlanErrors, ToolNames};
use crate::argument::{ArgKind, CallCheck};

/// What a plan may refer to, and how large it may be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// The tools by name; if `None`, the names of tools and arguments are not checked.
    pub tools: Option<BTreeMap<String, KnownTool>>,
    /// The servers that `SERVER.TOOL` may name, including those whose tools are not known at the moment; if `None`,
    /// they are not checked.
    pub servers: Option<BTreeSet<String>>,
    /// The allowed values of `executor`; if `None`, they are not checked.
    pub executors: Option<BTreeSet<String>>,
    /// The executors that are programs with tools of their own: they do no task whose tools are limited. A person who
    /// writes a plan may decide otherwise, and then it is empty.
    pub programs: BTreeSet<String>,
    /// Whether the executor may not be a person: a model that plans may give people only the tasks meant for them
    /// (E9.17).
    pub without_person: bool,
    /// The limits on its size.
    pub limits: Limits,
    /// The names of results from outside that its templates and `needs` may read.
    pub before: BTreeSet<String>,
    /// The ids of criteria from outside that its steps may satisfy.
    pub criteria: BTreeSet<String>,
    /// The criteria by id that a plan for a task has to cover: some step must satisfy each of them. If set, every step
    /// that a model does needs criteria of its own or one of these (E9.1, E9.6).
    pub to_meet: Option<BTreeMap<String, String>>,
    /// The `tools` of the steps around it: its own steps may use only tools that all of these lists name.
    pub tools_around: Vec<ToolNames>,
}

/// What the check of a plan needs to know about a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownTool {
    /// The arguments that must be given.
    pub required: Vec<String>,
    /// The arguments that may be given.
    pub optional: Vec<String>,
    /// Arguments of which exactly one must be given; all of them are also in `optional`.
    pub one_of: Vec<String>,
    /// What arguments may hold, by name; an argument that is not listed may hold anything.
    pub kinds: BTreeMap<String, ArgKind>,
    /// A further check of a call in which every single argument is acceptable.
    pub check: Option<CallCheck>,
    /// The JSON Schema of the arguments, for a tool that comes with one; it replaces all of the fields above.
    pub schema: Option<Value>,
    /// The JSON Schema of the output of a call, as far as it is known.
    pub output: Option<Value>,
    /// Whether a call may change something outside the run.
    pub writes: bool,
}

/// The limits on the size of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How deeply plans may be nested; the plan itself counts as the first level.
    pub depth: u32,
    /// The most branches of one parallel group.
    pub children: u32,
    /// The largest `max_items` of a `for_each`.
    pub items: u32,
    /// The most steps in all, including those of sub-plans.
    pub steps: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 8,
            children: 64,
            items: 10_000,
            steps: 10_000,
        }
    }
}

/// Reads a plan from YAML or JSON, or its steps from markdown ([`super::to_markdown`]), and checks it.
///
/// # Errors
///
/// The mistakes that can be found, in the order of the text, at most [`MISTAKES_LISTED`](super::MISTAKES_LISTED). For a
/// text that is not YAML or JSON at all, only one.
pub fn parse(text: &str, known: &Known) -> Result<Plan, PlanErrors> {
    let text = without_mark(text);
    if markdown::is_markdown(text) {
        let steps = markdown::read(text, &[]).map_err(PlanErrors::first_of)?;
        return check(&steps, Vec::new(), Some(known)).map_err(PlanErrors::first_of);
    }
    let reading = spanned::read(text).map_err(|error| PlanErrors::first_of(vec![error]))?;
    check(&reading.root, reading.errors, Some(known)).map_err(PlanErrors::first_of)
}

/// `text` without the byte order mark that some editors write first.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads a plan from a value and checks it, like [`parse`], but the place of every mistake is 1:1.
///
/// # Errors
///
/// As [`parse`].
pub fn from_value(value: &Value, known: &Known) -> Result<Plan, PlanErrors> {
    check(&Node::of_json(value), Vec::new(), Some(known)).map_err(PlanErrors::first_of)
}

/// Checks the plan at `root`. Returns every mistake, including `errors`, in the order of the text.
pub(super) fn check(root: &Node, mut errors: Vec<PlanError>, known: Option<&Known>) -> Result<Plan, Vec<PlanError>> {
    let mut draft = decode(root);
    if let Some(known) = known {
        validate(&mut draft, root, known);
    }
    errors.append(&mut draft.faults.errors);
    if errors.is_empty() {
        return Ok(draft.plan);
    }
    errors.sort_by(|a, b| (a.place, &a.path, a.code).cmp(&(b.place, &b.path, b.code)));
    errors.dedup();
    Err(errors)
}

/// Reads a stored plan. It was checked when it was stored, and rules may have become stricter since then, so only its
/// form is checked.
///
/// # Errors
///
/// Every mistake in its form.
pub fn from_stored(value: &Value) -> Result<Plan, PlanErrors> {
    check(&Node::of_json(value), Vec::new(), None).map_err(PlanErrors::first_of)
}

/// Like [`from_stored`].
impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_stored(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
