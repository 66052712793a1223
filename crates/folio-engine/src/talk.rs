//! What a language model is asked and what it answers, as the engine sees it: the runner speaks to the provider.

use std::sync::Arc;

use folio_memory::call_ids::tell_apart;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which model is asked. Each may be another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    /// Decides whether and how a task is taken apart, and puts the results together.
    Planner,
    /// Does a task with tools.
    Executor,
    /// Says whether criteria are met.
    Judge,
}

impl ModelRole {
    /// The name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Executor => "executor",
            Self::Judge => "judge",
        }
    }
}

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Do the task, or take it apart? One call answers both, with the first action or with the plan (E9.3).
    Decide,
    /// The next action, or the result.
    Work,
    /// The result of the task from those of its steps.
    Aggregate,
    /// Which criteria are met (E9.6).
    Judge,
    /// One result that stands for a part of those of a task's steps, because they are too many to be read at once (E9.16).
    RollUp,
    /// Another plan, because a criterion is unmet or a step failed (E9.8).
    Replan,
    /// What there is: the one call that a task has left when its budget is used up (E9.10).
    HandBack,
}

impl Purpose {
    /// Which model is asked.
    #[must_use]
    pub fn role(self) -> ModelRole {
        match self {
            Self::Decide | Self::Aggregate | Self::RollUp | Self::Replan => ModelRole::Planner,
            Self::Work | Self::HandBack => ModelRole::Executor,
            Self::Judge => ModelRole::Judge,
        }
    }

    /// Whether it is the end of a task, for which a part of each limit is kept (E9.10).
    #[must_use]
    pub fn is_last(self) -> bool {
        matches!(self, Self::Aggregate | Self::HandBack)
    }

    /// The name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Work => "work",
            Self::Aggregate => "aggregate",
            Self::RollUp => "roll_up",
            Self::Judge => "judge",
            Self::Replan => "replan",
            Self::HandBack => "hand_back",
        }
    }
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The rules.
    System,
    /// The engine, in the name of whoever wants the task done.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// By whom.
    pub speaker: Speaker,
    /// What.
    pub text: String,
    /// The calls that the model wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Wanted>,
    /// The call that a tool answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
}

impl Message {
    /// Something that the engine says.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::plain(Speaker::User, text)
    }

    /// The rules.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self::plain(Speaker::System, text)
    }

    /// What the model said, and which calls it wanted.
    #[must_use]
    pub fn assistant(text: impl Into<String>, calls: Vec<Wanted>) -> Self {
        Self {
            calls,
            ..Self::plain(Speaker::Assistant, text)
        }
    }

    /// What a tool answered to the call `id`.
    #[must_use]
    pub fn tool(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            answers: Some(id.into()),
            ..Self::plain(Speaker::Tool, text)
        }
    }

    fn plain(speaker: Speaker, text: impl Into<String>) -> Self {
        Self {
            speaker,
            text: text.into(),
            calls: Vec::new(),
            answers: None,
        }
    }
}

/// A call of a tool that a model wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Names the call within its reply.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub args: Value,
}

/// A tool, as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOffer {
    /// Its name.
    pub name: String,
    /// What it does and what it returns.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments. The same for every run, so they have both together.
    pub args_schema: Arc<Value>,
    /// Whether a call may change something.
    pub writes: bool,
    /// How much it is needed where there is no room for all.
    pub need: Need,
}

/// How much a tool is needed: what comes last is left out first where a window has no room for all definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Without it nothing can be done.
    Always,
    /// Most tasks use it, or somebody named it.
    #[default]
    Often,
    /// Few tasks use it, or another tool does the same in more steps.
    Seldom,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was done, or wants tools called.
    Done,
    /// It reached the most tokens that it may answer with.
    Length,
    /// It will not answer.
    Refusal,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The calls that it wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Wanted>,
    /// Why it stopped.
    pub stop: Stop,
}

impl Reply {
    /// Gives a call without an id, and one whose id a call before it has, an id of its own ([`tell_apart`]).
    pub fn name_calls_apart(&mut self) {
        tell_apart(self.calls.iter_mut().map(|call| &mut call.id));
    }
}
