//! From text to plan.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::decode::decode;
use super::markdown;
use super::spanned::{self, Node};
use super::validate::validate;
use super::{Plan, PlanError, PlanErrors};
use crate::argument::{ArgKind, CallCheck};

/// What a plan may refer to and how large it may be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// The tools by name; without it the names of tools and arguments are not checked.
    pub tools: Option<BTreeMap<String, KnownTool>>,
    /// Who may be named as `executor`; without it those names are not checked.
    pub executors: Option<BTreeSet<String>>,
    /// Whether nobody is named who is a person: whoever plans hands people only what they are there for (E9.17).
    pub without_person: bool,
    /// How large it may be.
    pub limits: Limits,
    /// Names of results from outside that its templates and `needs` may read.
    pub before: BTreeSet<String>,
    /// The ids of criteria from outside that its steps may be there to meet.
    pub criteria: BTreeSet<String>,
    /// What a plan for a task has to see to: the criteria, by id, of which each has to be some step's. With it, every step that a model does
    /// needs criteria of its own, or one of those (E9.1, E9.6).
    pub to_meet: Option<BTreeMap<String, String>>,
}

/// What a plan must know of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownTool {
    /// The arguments that must be given.
    pub required: Vec<String>,
    /// The arguments that may be given.
    pub optional: Vec<String>,
    /// Arguments of which exactly one must be given, each of them among the optional ones.
    pub one_of: Vec<String>,
    /// What arguments may hold, by their names; one that is not in it may hold anything.
    pub kinds: BTreeMap<String, ArgKind>,
    /// What else the tool does not take, in a call of which each argument is what it may be.
    pub check: Option<CallCheck>,
    /// The JSON Schema of the arguments, for a tool that comes with one: then what stands before it does not count.
    pub schema: Option<Value>,
    /// The JSON Schema of what a call gives, as far as that is known.
    pub output: Option<Value>,
    /// Whether a call may change something outside.
    pub writes: bool,
}

/// How large a plan may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How many plans may be inside one another, the plan itself being the first.
    pub depth: u32,
    /// How many branches one parallel group may have.
    pub children: u32,
    /// How large `max_items` of a `for_each` may be.
    pub items: u32,
    /// How many steps there may be in all, those of sub-plans included.
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
/// Every mistake that can be found, in the order of the text. Only a text that is not YAML or JSON at all has
/// a single one.
pub fn parse(text: &str, known: &Known) -> Result<Plan, PlanErrors> {
    let text = without_mark(text);
    if markdown::is_markdown(text) {
        let steps = markdown::read(text, &[]).map_err(PlanErrors)?;
        return check(&steps, Vec::new(), Some(known));
    }
    let reading = spanned::read(text).map_err(|error| PlanErrors(vec![error]))?;
    check(&reading.root, reading.errors, Some(known))
}

/// `text` without the mark of the order of bytes that some editors put in front of it.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads a plan from a value and checks it; as [`parse`], but every mistake stands at 1:1.
///
/// # Errors
///
/// As [`parse`].
pub fn from_value(value: &Value, known: &Known) -> Result<Plan, PlanErrors> {
    check(&Node::of_json(value), Vec::new(), Some(known))
}

pub(super) fn check(root: &Node, mut errors: Vec<PlanError>, known: Option<&Known>) -> Result<Plan, PlanErrors> {
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
    Err(PlanErrors(errors))
}

/// Reads a stored plan. It was checked when it was stored, and rules may have become stricter since: only its
/// form is looked at.
///
/// # Errors
///
/// Every mistake of its form.
pub fn from_stored(value: &Value) -> Result<Plan, PlanErrors> {
    check(&Node::of_json(value), Vec::new(), None)
}

/// As [`from_stored`].
impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_stored(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
