//! What a tool answers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tool::ToolRequest;

/// Whether a call did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did.
    Ok,
    /// It did not, or not all of it; [`ToolResponse::error`] says why. There may be outputs all the same.
    Error,
}

/// Sorts failures by what the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request is wrong: change it.
    InvalidArgs,
    /// What it names does not exist: name something else.
    NotFound,
    /// A permission forbids it: trying again cannot help.
    Denied,
    /// Something outside does not work at the moment: try later.
    Unavailable,
    /// The answer or the input is over a limit: ask for less.
    TooLarge,
    /// It took longer than it may.
    TimedOut,
    /// It was tried and went wrong.
    Failed,
    /// Nobody knows whether it did what it was asked: its answer was lost, and trying again may do it twice.
    Unknown,
    /// The caller gave up on it.
    Cancelled,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolError {
    /// A stable word for programs, such as `path_outside_root`.
    pub code: String,
    /// What the caller does next.
    pub kind: FailureKind,
    /// What was tried, on what, and what went wrong. One line, lower case, no full stop.
    pub message: String,
    /// What to try, one per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

impl ToolError {
    /// A failure without hints.
    pub fn new(kind: FailureKind, code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            kind,
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// Adds what the caller can try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The arguments are wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidArgs, "invalid_args", message)
    }

    /// The caller gave up on the call.
    pub fn cancelled() -> Self {
        Self::new(
            FailureKind::Cancelled,
            "cancelled",
            "the call was cancelled before it was done",
        )
    }
}

/// A page that an entry is to be appended to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageTarget {
    /// The page of the branch that the calling node works in.
    OwnBranch,
    /// The main page of the run.
    Main,
    /// The page with this handle.
    Handle(String),
    /// The page of this run with this title; made if there is none.
    Titled(String),
}

/// An entry that the tool proposes for a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageAppend {
    /// Where it goes.
    pub page: PageTarget,
    /// One line; may be empty.
    pub title: String,
    /// Markdown.
    pub body: String,
    /// Tags of the entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Something that an answer rests on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EvidenceRef {
    /// `file`, `url` or `tool_call`.
    pub kind: String,
    /// What names it: a path as `list` shows it, an address, a request id.
    pub id: String,
    /// Hash of its content, as `sha256:` and hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The part that matters, such as `L10-L20`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<String>,
}

/// How much of an answer was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// Bytes that are in the answer.
    pub kept_bytes: u64,
    /// Bytes that there were.
    pub total_bytes: u64,
}

/// What a tool answers to one request.
///
/// Everything besides `outputs` is a *proposal*: the caller checks it and commits it together with the
/// outcome of the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResponse {
    /// The request that this answers.
    pub request_id: String,
    /// Whether it worked.
    pub status: ToolStatus,
    /// The result, as the tool's description says. Null when there is none.
    #[serde(default)]
    pub outputs: Value,
    /// One line for people.
    #[serde(default)]
    pub notes: String,
    /// Why it failed; present exactly when `status` is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// Observations for the scratch page.
    #[serde(default)]
    pub observations: Vec<Value>,
    /// Observations that the tool was told to store, rather than noticed.
    #[serde(default)]
    pub scratch_page_writes: Vec<Value>,
    /// Facts for long-term memory.
    #[serde(default)]
    pub memory_writes: Vec<Value>,
    /// Entries for pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub page_appends: Vec<PageAppend>,
    /// What the answer rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceRef>,
    /// Present when bytes were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
}

impl ToolResponse {
    /// The answer of a call that worked.
    pub fn ok(request: &ToolRequest, outputs: Value, notes: impl Into<String>) -> Self {
        Self {
            request_id: request.request_id.clone(),
            status: ToolStatus::Ok,
            outputs,
            notes: notes.into(),
            error: None,
            observations: Vec::new(),
            scratch_page_writes: Vec::new(),
            memory_writes: Vec::new(),
            page_appends: Vec::new(),
            evidence: Vec::new(),
            truncated: None,
        }
    }

    /// The answer of a call that failed and has nothing to show.
    pub fn failed(request: &ToolRequest, error: ToolError) -> Self {
        Self::failed_with(request, error, Value::Null)
    }

    /// The answer of a call that failed, with what it has to show (the output of a program that ended
    /// with an error).
    pub fn failed_with(request: &ToolRequest, error: ToolError, outputs: Value) -> Self {
        let notes = error.message.clone();
        Self {
            status: ToolStatus::Error,
            error: Some(error),
            ..Self::ok(request, outputs, notes)
        }
    }

    /// Whether the call worked.
    pub fn is_ok(&self) -> bool {
        self.status == ToolStatus::Ok
    }

    /// The answer as a model reads it: status, notes, outputs, and the error with its hints.
    pub fn for_model(&self) -> Value {
        let mut answer = json!({
            "status": self.status,
            "notes": self.notes,
            "outputs": self.outputs,
        });
        if let (Some(error), Value::Object(fields)) = (&self.error, &mut answer) {
            fields.insert("error".to_owned(), json!(error));
        }
        answer
    }
}
