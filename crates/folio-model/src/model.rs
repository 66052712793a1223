//! What a model is asked and what it answers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::ModelError;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The rules of the conversation.
    System,
    /// The one who asks.
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
    /// What; may be empty if there are tool calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The calls that the assistant made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
}

/// A call of a tool that a model wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call within its reply.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
}

/// A tool, as a model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDescription {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments.
    pub args_schema: Arc<Value>,
}

/// What a model is asked for. It decides which model is asked, where several are configured.
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
    /// Puts summaries.
    Compactor,
    /// Looks at turns, before the work and after it.
    Advisor,
}

impl Role {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 5] = [
        Self::Planner,
        Self::Executor,
        Self::Judge,
        Self::Compactor,
        Self::Advisor,
    ];

    /// The name as it is written.
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

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What the model is asked for. Not sent to providers.
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
    /// The most tokens that it may answer with. Always set: it is what the budget reserves.
    pub tokens_max: u32,
    /// How free the choice of words is, from 0; `None` for the provider's default. Models that do not know it are not
    /// told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The same for a repeated request, so that a provider that knows it does not charge twice.
    pub idempotency_key: String,
}

/// A piece of an answer, as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of what the model thinks, if it shows that.
    Thought(String),
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// It was done.
    Done,
    /// It wants tools called. Decided by the calls, not by what the provider says.
    ToolCalls,
    /// It reached the most tokens that it may answer with.
    Length,
    /// It will not answer.
    Refusal,
}

/// Tokens that a request cost, as the provider counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Read.
    pub tokens_in: u64,
    /// Of these, read from the provider's cache.
    #[serde(default)]
    pub tokens_cached: u64,
    /// Of these, put into the provider's cache; 0 if the provider does not tell.
    #[serde(default)]
    pub tokens_cache_written: u64,
    /// Written, with those it thought.
    pub tokens_out: u64,
    /// Of these, thought; 0 if the provider does not tell.
    #[serde(default)]
    pub tokens_reasoning: u64,
    /// What it cost in millionths of a US dollar, if it says so itself. Programs do, providers do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

impl Usage {
    /// It, if it can be true. Who reports nothing, or more than there is room for in any window, has not said what was used (E9.10).
    pub(crate) fn possible(self) -> Option<Self> {
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

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// The calls that it wants.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub stop: StopCause,
    /// What it cost; `None` if the provider did not say.
    pub usage: Option<Usage>,
}

/// Where a program that works by itself does so, and for how long.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The folder that a program works in; without one it is not started.
    pub folder: Option<PathBuf>,
    /// Ends it when nobody wants its answer any more.
    pub stop: CancellationToken,
    /// The session in which it was at work on this before, when whoever drove it died: it goes on with that.
    pub session: Option<String>,
    /// Who keeps its session, if it can be given back; without, it is told what to do at once.
    pub sessions: Option<mpsc::Sender<NewSession>>,
    /// Whether it may answer with a call of [`ASK_PERSON`], and is then asked again with what the person said.
    pub has_person: bool,
}

/// The tool by which whoever does a task asks a person; its argument is `question`.
pub const ASK_PERSON: &str = "ask_person";

/// A session of a program that can go on with it when it is started again.
#[derive(Debug)]
pub struct NewSession {
    /// How the program names it.
    pub id: String,
    /// To be told when it is kept. The program is told what to do after that, and never if this is dropped.
    pub kept: oneshot::Sender<()>,
}

/// Who works by itself where a model would only answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker<'a> {
    /// A program of this machine, by the command that starts it.
    Program(&'a [String]),
    /// An agent on another machine, by its address.
    Remote(&'a str),
    /// A tool: whoever has the tools calls it with the text of the request, and does not ask the model.
    Tool {
        /// Its whole name.
        name: &'a str,
        /// Its argument that gets the text.
        argument: &'a str,
    },
}

/// A language model, or whoever stands in for one.
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// Asks, hands on pieces of the answer as they come, and returns the whole.
    ///
    /// # Errors
    ///
    /// By what the caller does next. Retries are the caller's.
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError>;

    /// Who does the work, if it does more than answer: whoever asks it makes sure that it may, as before a call of a tool. `None` for
    /// a model.
    fn worker(&self) -> Option<Worker<'_>> {
        None
    }

    /// What it was set up to be asked and was not, a line each: of scripts, and of what asks them.
    fn left_over(&self) -> Vec<String> {
        Vec::new()
    }

    /// The folder inside of the granted one that such a program wants to work in.
    fn folder(&self) -> Option<&str> {
        None
    }

    /// Tells whoever waits there for an answer to `question`, the id of a call of [`ASK_PERSON`], that none comes. As far as they can be
    /// reached; nobody waits for what they say to it.
    async fn call_off(&self, question: &str) {
        let _asked_nothing = question;
    }

    /// Is told what was answered to `request` by who was asked in its place: the work of an agent that is a tool is a call of that tool.
    fn heard(&self, request: &Request, reply: &Reply) {
        let _keeps_nothing = (request, reply);
    }

    /// As [`Model::reply`], in `place`. A program is ended with all that it started before this returns, another machine is told to
    /// stop; a model that only answers works nowhere, and is not asked any further when the call is dropped.
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
