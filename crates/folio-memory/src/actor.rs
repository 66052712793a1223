//! Actors: who did something, and how far to believe it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{RunId, TurnId};

/// The role of an actor toward memory (M7.7). It decides what the actor may do.
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
    /// Tidies after a turn.
    Reflector,
    /// Tidies at any time what has ended or is old.
    Cleaner,
    /// Shortens history.
    Compactor,
    /// A program that speaks for a model.
    Client,
    /// A person.
    Human,
}

impl Role {
    /// Every role, in the order of the table of permissions.
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

    /// Parses a name that [`Self::as_str`] returns.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// The role's name in its written form.
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

/// The actor who makes a commit. Set by the interface from the connection, never taken from the content (M7.3.31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The actor's role.
    pub role: Role,
    /// The actor's name: a tool, a user, a program. Empty if the role alone identifies the actor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The turn in which the actor acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The run in which the actor acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

impl Actor {
    /// Creates an actor in `role`, outside any run.
    #[must_use]
    pub fn new(role: Role, name: impl Into<String>) -> Self {
        Self {
            role,
            name: name.into(),
            turn: None,
            run: None,
        }
    }

    /// Returns the actor within `run`.
    #[must_use]
    pub fn in_run(self, run: RunId) -> Self {
        Self { run: Some(run), ..self }
    }

    /// Returns the actor within `turn`.
    #[must_use]
    pub fn in_turn(self, turn: TurnId) -> Self {
        Self {
            turn: Some(turn),
            ..self
        }
    }

    /// The name of the actor in a trace: its name, or its role if there is none.
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
    /// Who wrote the entry according to its commit: the role, and the name if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The tool that reported it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The turn in which it was written.
    #[serde(default, rename = "turn_id", skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The run in which it was written.
    #[serde(default, rename = "run_id", skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The node of the run's tree, by its engine id.
    #[serde(default, rename = "node_id", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The array of the tool's response that contained it: `observations` or `scratch_page_writes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

impl Source {
    /// Whether no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How far to believe content. Ordered: derived content is only as trustworthy as its weakest source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// From an imported file.
    Imported,
    /// From a tool that reads what strangers wrote.
    ToolExternal,
    /// From a tool that reads the user's own data.
    ToolInternal,
    /// From a model.
    Model,
    /// From a person.
    User,
}
