//! Who did something, and how far it may be believed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{RunId, TurnId};

/// What somebody is to the memory (M7.7). Decides what they may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// A tool that a task called.
    Tool,
    /// Carries out one task.
    Executor,
    /// Drafts plans and keeps the tree.
    Planner,
    /// Chooses where an input goes.
    Router,
    /// Asks when something is unclear.
    Clarifier,
    /// Judges what came back.
    Evaluator,
    /// Tidies up after a turn.
    Reflector,
    /// Tidies up at any time: what has ended, what is old.
    Cleaner,
    /// Shortens history.
    Compactor,
    /// A program that speaks for a model.
    Client,
    /// A person.
    Human,
}

impl Role {
    /// Every role, in the order of the table that says what each may do.
    pub const ALL: [Self; 11] = [
        Self::Tool,
        Self::Executor,
        Self::Planner,
        Self::Router,
        Self::Clarifier,
        Self::Evaluator,
        Self::Reflector,
        Self::Cleaner,
        Self::Compactor,
        Self::Client,
        Self::Human,
    ];

    /// Reads what [`Self::as_str`] gives.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// The name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Executor => "executor",
            Self::Planner => "planner",
            Self::Router => "router",
            Self::Clarifier => "clarifier",
            Self::Evaluator => "evaluator",
            Self::Reflector => "reflector",
            Self::Cleaner => "cleaner",
            Self::Compactor => "compactor",
            Self::Client => "client",
            Self::Human => "human",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who makes a commit. Stamped by the surface from the connection, never taken from the content (M7.3.31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// In which role.
    pub role: Role,
    /// Under which name: a tool, a user, a program. Empty if the role says it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// In which turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// In which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

impl Actor {
    /// Somebody in `role`, outside any run.
    #[must_use]
    pub fn new(role: Role, name: impl Into<String>) -> Self {
        Self {
            role,
            name: name.into(),
            turn: None,
            run: None,
        }
    }

    /// The same, within `run`.
    #[must_use]
    pub fn in_run(self, run: RunId) -> Self {
        Self { run: Some(run), ..self }
    }

    /// The same, within `turn`.
    #[must_use]
    pub fn in_turn(self, turn: TurnId) -> Self {
        Self {
            turn: Some(turn),
            ..self
        }
    }

    /// What a trace calls somebody: the name, or the role if there is none.
    #[must_use]
    pub fn source_name(&self) -> &str {
        if self.name.is_empty() {
            self.role.as_str()
        } else {
            &self.name
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            f.write_str(self.role.as_str())
        } else {
            write!(f, "{}:{}", self.role, self.name)
        }
    }
}

/// Where an entry came from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Source {
    /// Who wrote it, as the commit knows: the role, and the name if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The tool, if one said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The turn.
    #[serde(default, rename = "turn_id", skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The run.
    #[serde(default, rename = "run_id", skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The node of the run's tree, by its engine id.
    #[serde(default, rename = "node_id", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The array of a tool's response that it stood in: `observations` or `scratch_page_writes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

impl Source {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How far content may be believed. Ordered: what is derived is as trustworthy as its weakest source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// From a file that somebody gave us.
    Imported,
    /// From a tool that reads what strangers wrote.
    ToolExternal,
    /// From a tool that reads what we own.
    ToolInternal,
    /// From a model.
    Model,
    /// From a person.
    User,
}
