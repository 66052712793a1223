//! What a tool answers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tool::ToolRequest;

/// Whether a call did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The call did what it was asked.
    Ok,
    /// The call failed, wholly or in part; [`ToolResponse::error`] says why. There may be outputs all the same.
    Error,
}

/// The kinds of failures, by what the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request is wrong: change it.
    InvalidArgs,
    /// What the request names does not exist: name something else.
    NotFound,
    /// A permission forbids the call: trying again cannot help.
    Denied,
    /// Something outside of Folio does not work at the moment: try later.
    Unavailable,
    /// The answer or the input is over a limit: ask for less.
    TooLarge,
    /// The call took longer than it may.
    TimedOut,
    /// The call was carried out and failed.
    Failed,
    /// It is unknown whether the call took effect: its answer was lost, and trying again may do it twice.
    Unknown,
    /// The caller gave up on the call.
    Cancelled,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolError {
    /// A stable word for programs, such as `path_outside_root`.
    pub code: String,
    /// The kind of failure, which tells the caller what to do next.
    pub kind: FailureKind,
    /// What was tried, on what, and what went wrong. One line, lower case, no full stop.
    pub message: String,
    /// Hints on what to try, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

impl ToolError {
    /// Returns an error without hints.
    pub fn new(kind: FailureKind, code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            kind,
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// Adds a hint on what the caller can try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns an error for wrong arguments.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidArgs, "invalid_args", message)
    }

    /// Returns an error for a call that the caller gave up on.
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
    /// The page of this run with this title; created if there is none.
    Titled(String),
}

/// An entry that the tool proposes for a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageAppend {
    /// The page that the entry is appended to.
    pub page: PageTarget,
    /// The title: one line, may be empty.
    pub title: String,
    /// The text of the entry, in markdown.
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
    /// The identifier: a path as `list` shows it, an address, or a request id.
    pub id: String,
    /// The hash of the content, as `sha256:` and hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The part that matters, such as `L10-L20`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<String>,
}

/// How much of an answer was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// The number of bytes in the answer.
    pub kept_bytes: u64,
    /// The number of bytes before truncation.
    pub total_bytes: u64,
}

/// What a tool answers to one request.
///
/// The observations, writes and page entries are *proposals*: the caller checks them and commits them together with
/// the outcome of the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResponse {
    /// The request that this answers.
    pub request_id: String,
    /// Whether the call worked.
    pub status: ToolStatus,
    /// The result, as the tool's description says. Null when there is none.
    #[serde(default)]
    pub outputs: Value,
    /// One line for people.
    #[serde(default)]
    pub notes: String,
    /// Why the call failed; present exactly when `status` is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// Observations for the scratch page.
    #[serde(default)]
    pub observations: Vec<Value>,
    /// Observations that the tool was told to store, as opposed to those that it noticed.
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
    /// How much was kept; present when bytes were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
}

impl ToolResponse {
    /// Returns the answer of a call that worked.
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

    /// Returns the answer of a call that failed and has no outputs.
    pub fn failed(request: &ToolRequest, error: ToolError) -> Self {
        Self::failed_with(request, error, Value::Null)
    }

    /// Returns the answer of a call that failed but has outputs, such as those of a program that ended with an error.
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
