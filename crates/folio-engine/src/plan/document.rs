//! The plan as a whole.

use std::collections::BTreeMap;

use folio_memory::excerpt::cut;
use serde::Serialize;
use serde_json::Value;

use super::{Budget, Criterion, Step};

/// The version of the plan language that this crate reads and writes.
pub const PLAN_VERSION: u32 = 1;
/// The name of the folder that a run was started from, in paths. Tools may read it if no input is a path.
pub const HERE: &str = "here";

/// A plan: what is wanted, from which inputs, and the steps to get there.
///
/// `Serialize` gives the authored form without default values: reading it back gives an equal plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The version of the plan language.
    pub version: u32,
    /// The title, in a few words (a template that may name inputs).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What is wanted (a template that may name inputs).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub goal: String,
    /// Anything else that a reader should know (a template that may name inputs).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The inputs that a run is started with.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, InputSpec>,
    /// What must hold for the result of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
    /// Limits of the whole run.
    #[serde(skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What people read in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// The value that programs read in the end (templates).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

impl Plan {
    /// The names and values of the inputs of kind `path` that `inputs` has, in the order of their names. Each names a
    /// folder that tools may read, or a file in it.
    pub fn paths_in<'a>(&'a self, inputs: &'a Value) -> impl Iterator<Item = (&'a str, &'a str)> {
        let paths = self.inputs.iter().filter(|(_, spec)| spec.kind == InputKind::Path);
        paths.filter_map(|(name, _)| Some((name.as_str(), inputs.get(name)?.as_str()?)))
    }

    /// A goal without steps: a model plans them, or does what is wanted directly.
    pub fn of_goal(goal: &str) -> Self {
        let first = goal.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
        Self {
            version: PLAN_VERSION,
            title: cut(first, 80),
            goal: goal.to_owned(),
            description: String::new(),
            inputs: BTreeMap::new(),
            criteria: Vec::new(),
            budget: Budget::default(),
            steps: Vec::new(),
            report: None,
            output: None,
        }
    }
}

/// One input of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputSpec {
    /// The kind of value that it takes.
    #[serde(rename = "type")]
    pub kind: InputKind,
    /// What the input is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The value that is used if none is given. An input without a default is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// The kind of value that an input takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// Any text.
    #[default]
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// The path of a file or a folder.
    Path,
    /// A list.
    List,
    /// An object.
    Object,
}

/// What people read when a run has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Its heading (a template).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Its text in markdown (a template).
    pub body: String,
}
