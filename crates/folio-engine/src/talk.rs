//! What a language model is asked and what it answers, as the engine sees it. The runner talks to the provider.

use std::sync::Arc;

use folio_memory::call_ids::make_ids_unique;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The part that a model plays in a run. Each role may have another model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    /// Decides whether and how a task is split up, and combines the results.
    Planner,
    /// Does a task by calling tools.
    Executor,
    /// Decides whether criteria are met.
    Judge,
}

impl ModelRole {
    /// The role's name as it is written.
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
    /// Whether to do the task or split it up. One reply answers this and brings the first action or the plan (E9.3).
    Decide,
    /// The next action, or the result.
    Work,
    /// The result of the task, combined from those of its steps.
    Aggregate,
    /// Which criteria are met (E9.6).
    Judge,
    /// One result that stands for some of those of a task's steps, because they are too many to be read at once
    /// (E9.16).
    RollUp,
    /// Another plan, because a criterion is unmet or a step failed (E9.8).
    Replan,
    /// What the task has so far: the one call that is left when its budget is used up (E9.10).
    HandBack,
}

impl Purpose {
    /// The role of the model that is asked.
    #[must_use]
    pub fn role(self) -> ModelRole {
        match self {
            Self::Decide | Self::Aggregate | Self::RollUp | Self::Replan => ModelRole::Planner,
            Self::Work | Self::HandBack => ModelRole::Executor,
            Self::Judge => ModelRole::Judge,
        }
    }

    /// Whether it ends a task: a part of each limit is kept for that (E9.10).
    #[must_use]
    pub fn is_last(self) -> bool {
        matches!(self, Self::Aggregate | Self::HandBack)
    }

    /// The purpose's name as it is written.
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

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// Folio, stating the rules.
    System,
    /// The engine, on behalf of whoever wants the task done.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who wrote it.
    pub speaker: Speaker,
    /// What it says.
    pub text: String,
    /// The calls that the model wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Wanted>,
    /// The id of the call that this message answers, if a tool wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
}

impl Message {
    /// A message of the engine.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::plain(Speaker::User, text)
    }

    /// The rules.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self::plain(Speaker::System, text)
    }

    /// A message of the model, with the calls that it wants.
    #[must_use]
    pub fn assistant(text: impl Into<String>, calls: Vec<Wanted>) -> Self {
        Self {
            calls,
            ..Self::plain(Speaker::Assistant, text)
        }
    }

    /// The answer of a tool to the call `id`.
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
    /// The id of the call within its reply.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub args: Value,
}

/// A tool, as it is described to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOffer {
    /// Its name.
    pub name: String,
    /// What it does and what it returns.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments. It is the same for every run, so they share it.
    pub args_schema: Arc<Value>,
    /// Whether a call may change something.
    pub writes: bool,
    /// How much it is needed where there is no room for all tools.
    pub need: Need,
}

/// How much a tool is needed: where a window has no room for all definitions, the least needed are left out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Nothing can be done without it.
    Always,
    /// Most tasks use it, or somebody named it.
    #[default]
    Often,
    /// Few tasks use it, or other tools do the same in more steps.
    Seldom,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It finished, or wants tools called.
    Done,
    /// It reached the most tokens that a reply may have.
    Length,
    /// It refused to answer.
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
    /// What a program that works by itself asked to be allowed, and what it was answered, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
}

impl Reply {
    /// Gives an id of its own to every call that has none or repeats the id of an earlier call ([`make_ids_unique`]).
    pub fn make_call_ids_unique(&mut self) {
        make_ids_unique(self.calls.iter_mut().map(|call| &mut call.id));
    }
}
