//! Requests to models, and their replies.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::ModelError;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The rules of the conversation.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub speaker: Speaker,
    /// The text; may be empty if there are tool calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The calls that the assistant made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
}

/// A tool call that a model requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id of the call, unique in its reply.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
}

/// A tool as it is described to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDescription {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments.
    pub args_schema: Arc<Value>,
}

/// What a model is asked to be. It decides which model is asked if several are configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Makes plans, and decides whether a task needs one.
    Planner,
    /// Does the work of a task.
    #[default]
    Executor,
    /// Judges whether a criterion is met.
    Judge,
    /// Writes summaries.
    Compactor,
    /// Looks at turns, before the work and after it.
    Advisor,
}

impl Role {
    /// All roles, in the order in which they are listed.
    pub const ALL: [Self; 5] = [
        Self::Planner,
        Self::Executor,
        Self::Judge,
        Self::Compactor,
        Self::Advisor,
    ];

    /// The name in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Executor => "executor",
            Self::Judge => "judge",
            Self::Compactor => "compactor",
            Self::Advisor => "advisor",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The role that the model is asked in. Not sent to providers.
    #[serde(default)]
    pub role: Role,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDescription>,
    /// The JSON Schema that the answer must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Arc<Value>>,
    /// The maximum number of tokens of the answer. Always set: the budget sets this amount aside.
    pub tokens_max: u32,
    /// The sampling temperature, from 0; `None` for the provider's default. Left out for models that refuse it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The same for a repeated request, so that a provider that supports it does not charge twice.
    pub idempotency_key: String,
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of the model's reasoning, if it shows that.
    Thought(String),
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// It finished its answer.
    Done,
    /// It requests tool calls. Determined by the calls, not by what the provider reports.
    ToolCalls,
    /// It reached the maximum number of tokens.
    Length,
    /// It refused to answer.
    Refusal,
}

/// The tokens of a request and its reply, as the provider counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub tokens_in: u64,
    /// Of the tokens read, those from the provider's cache.
    #[serde(default)]
    pub tokens_cached: u64,
    /// Of the tokens read, those written to the provider's cache; 0 if the provider does not report them.
    #[serde(default)]
    pub tokens_cache_written: u64,
    /// Tokens written, including reasoning.
    pub tokens_out: u64,
    /// Of the tokens written, those for reasoning; 0 if the provider does not report them.
    #[serde(default)]
    pub tokens_reasoning: u64,
    /// The cost in millionths of a US dollar, if reported. Agent programs report it, providers do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

impl Usage {
    /// The usage if it is plausible. A report of nothing read, or of more than fits in any window, does not count as a
    /// report (E9.10).
    pub(crate) fn if_plausible(self) -> Option<Self> {
        self.if_possible().filter(|usage| usage.tokens_in > 0)
    }

    /// The same, also if nothing is said of what was read.
    pub(crate) fn if_possible(self) -> Option<Self> {
        let tokens = self.tokens_in.saturating_add(self.tokens_out);
        let tokens_cached = self.tokens_cached.min(self.tokens_in);
        (1..=u64::from(u32::MAX)).contains(&tokens).then_some(Self {
            tokens_cached,
            tokens_cache_written: self.tokens_cache_written.min(self.tokens_in - tokens_cached),
            tokens_reasoning: self.tokens_reasoning.min(self.tokens_out),
            ..self
        })
    }
}

/// A reply of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// The tool calls that it requests.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub stop: StopCause,
    /// The usage; `None` if the provider did not report it.
    pub usage: Option<Usage>,
    /// What an agent asked to be allowed while it worked, and what it was answered, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
}

impl Reply {
    /// A finished answer in words, or in JSON as text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tool_calls: Vec::new(),
            stop: StopCause::Done,
            usage: None,
            permissions: Vec::new(),
        }
    }

    /// An answer that requests `calls`, each a tool and its arguments; if there are none, an empty text.
    pub fn calls<T: Into<String>>(calls: impl IntoIterator<Item = (T, Value)>) -> Self {
        let calls = calls.into_iter().enumerate().map(|(at, (tool, args))| ToolCall {
            id: format!("call_{}", at + 1),
            tool: tool.into(),
            args,
        });
        let tool_calls: Vec<_> = calls.collect();
        let stop = if tool_calls.is_empty() {
            StopCause::Done
        } else {
            StopCause::ToolCalls
        };
        Self {
            tool_calls,
            stop,
            ..Self::text("")
        }
    }

    /// Adds what the provider counted.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// Where an agent works, and how it is stopped.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The folder that a program works in; without one it is not started.
    pub folder: Option<PathBuf>,
    /// Stops it when its answer is no longer wanted.
    pub stop: CancellationToken,
    /// The session in which it worked on this before its driver died; it continues that session.
    pub session: Option<String>,
    /// Records its session, if it can be continued; without this, it is given the task at once.
    pub sessions: Option<mpsc::Sender<NewSession>>,
    /// Whether it may answer with a call of [`ASK_PERSON`], and is then asked again with the person's answer.
    pub has_person: bool,
}

/// The tool by which an executor asks a person; its argument is `question`.
pub const ASK_PERSON: &str = "ask_person";

/// A session that a program can continue when it is started again.
#[derive(Debug)]
pub struct NewSession {
    /// The program's id of the session.
    pub id: String,
    /// To be notified when the session is recorded. The program is given the task after that, and never if this is
    /// dropped.
    pub kept: oneshot::Sender<()>,
}

/// An agent that works by itself where a model would only answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker<'a> {
    /// A program on this machine, by the command that starts it.
    Program(&'a [String]),
    /// An agent on another machine, by its address.
    Remote(&'a str),
    /// A tool: whoever has the tools calls it with the text of the request, and does not ask the model.
    Tool {
        /// The full name of the tool.
        name: &'a str,
        /// The argument that takes the text.
        argument: &'a str,
    },
}

/// A language model, or something in the place of one.
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// Sends a request, passes on pieces of the answer as they come, and returns the complete reply.
    ///
    /// # Errors
    ///
    /// Classified by what the caller can do about it. The caller decides about retries.
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError>;

    /// The agent that does the work, if it does more than answer: the caller ensures that this is allowed, as before a
    /// tool call. `None` for a model.
    fn worker(&self) -> Option<Worker<'_>> {
        None
    }

    /// What differs from its script: unused cues, and requests that no cue answered; one line each.
    fn left_over(&self) -> Vec<String> {
        Vec::new()
    }

    /// The folder, inside the granted one, that an agent program works in.
    fn folder(&self) -> Option<&str> {
        None
    }

    /// Tells an agent that waits for the answer to `question`, the id of a call of [`ASK_PERSON`], that none will come.
    /// Best effort; the agent's response is ignored.
    async fn call_off(&self, question: &str) {
        let _asked_nothing = question;
    }

    /// Is told the reply to `request` if something else produced it: an agent that is a tool is asked by a call of that
    /// tool.
    fn observe_reply(&self, request: &Request, reply: &Reply) {
        let _keeps_nothing = (request, reply);
    }

    /// Like [`Model::reply`], in `place`. Before this returns, a program is ended with everything that it started, and
    /// an agent on another machine is told to stop. A model that only answers ignores `place`, and stops when the call
    /// is dropped.
    ///
    /// # Errors
    ///
    /// As [`Model::reply`].
    async fn reply_in(
        &self,
        request: &Request,
        place: &Place,
        pieces: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, ModelError> {
        let _works_nowhere = place;
        self.reply(request, pieces).await
    }
}
