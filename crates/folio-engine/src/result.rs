//! What a node came to (E9.4), and what supports it (E9.7).

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::output::{Given, Inline, Output};

/// How a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All that was wanted.
    Ok,
    /// Some of it.
    Partial,
    /// Not begun, because something before it failed.
    Skipped,
    /// Stopped on request.
    Cancelled,
    /// Not what was wanted.
    Failed,
}

impl Outcome {
    /// The name as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Partial => "partial",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether going on can help after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It may: whoever puts the results together decides.
    Soft,
    /// It cannot, or it may do harm: later steps of the same plan are not begun.
    Hard,
}

/// Why a node ended as it did. Grows; a reader treats an unknown one as "see the notes".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// A required criterion was not met, or whoever did it says that what was wanted was not reached.
    CriteriaUnmet,
    /// Every attempt failed.
    RetriesExhausted,
    /// Permission was refused.
    PolicyDenied,
    /// What was asked for makes no sense.
    InvalidInput,
    /// It cannot be done here.
    Unsatisfiable,
    /// A limit on nodes was reached.
    BudgetNodes,
    /// A limit on depth was reached.
    BudgetDepth,
    /// A limit on the children of one group was reached.
    BudgetChildren,
    /// A limit on bytes was reached.
    BudgetBytes,
    /// A limit on tokens was reached.
    BudgetTokens,
    /// A limit on money was reached.
    BudgetUsd,
    /// A limit on calls of models was reached.
    BudgetModelCalls,
    /// A limit on calls of tools was reached.
    BudgetToolCalls,
    /// What was said does not fit into the model's window, and may not be put away, or could not be.
    WindowFull,
    /// A model's key was refused.
    Auth,
    /// A model would not do it.
    Refused,
    /// What a model answered could not be read.
    Unparseable,
    /// A model took more turns than a task may.
    TurnCap,
    /// It went round in circles.
    Loop,
    /// Plan after plan, and nothing more of what is wanted was met.
    Stalled,
    /// Somebody has to answer a question, and nobody is there.
    NeedsInput,
    /// Another plan took its place.
    Superseded,
    /// The time was up.
    Deadline,
    /// It began, and nobody knows what became of it.
    OutcomeUnknown,
    /// Something before it failed.
    UpstreamFailed,
    /// A person or program asked for it.
    CancelledByUser,
    /// Its group had no more need of it.
    CancelledByParent,
}

impl StopReason {
    /// Whether it is a limit of a budget or of time that was reached (E9.10).
    #[must_use]
    pub fn is_limit(self) -> bool {
        matches!(
            self,
            Self::BudgetNodes
                | Self::BudgetDepth
                | Self::BudgetChildren
                | Self::BudgetBytes
                | Self::BudgetTokens
                | Self::BudgetUsd
                | Self::BudgetModelCalls
                | Self::BudgetToolCalls
                | Self::Deadline
        )
    }

    /// The name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CriteriaUnmet => "criteria_unmet",
            Self::RetriesExhausted => "retries_exhausted",
            Self::PolicyDenied => "policy_denied",
            Self::InvalidInput => "invalid_input",
            Self::Unsatisfiable => "unsatisfiable",
            Self::BudgetNodes => "budget_nodes",
            Self::BudgetDepth => "budget_depth",
            Self::BudgetChildren => "budget_children",
            Self::BudgetBytes => "budget_bytes",
            Self::BudgetTokens => "budget_tokens",
            Self::BudgetUsd => "budget_usd",
            Self::BudgetModelCalls => "budget_model_calls",
            Self::BudgetToolCalls => "budget_tool_calls",
            Self::WindowFull => "window_full",
            Self::Auth => "auth",
            Self::Refused => "refused",
            Self::Unparseable => "unparseable",
            Self::TurnCap => "turn_cap",
            Self::Loop => "loop",
            Self::Stalled => "stalled",
            Self::NeedsInput => "needs_input",
            Self::Superseded => "superseded",
            Self::Deadline => "deadline",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::UpstreamFailed => "upstream_failed",
            Self::CancelledByUser => "cancelled_by_user",
            Self::CancelledByParent => "cancelled_by_parent",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an attempt failed, as the tool or the runner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable name.
    pub code: String,
    /// What was tried, on what, and why it failed.
    pub message: String,
    /// The stop reason that it leads to when there is no other attempt.
    pub reason: StopReason,
    /// Whether another attempt may help.
    pub may_retry: bool,
}

/// A reference to what supports a result. Results bubble up by reference, so their size does not grow with depth (H9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// `node`, `file`, `url`, `tool_call`, `observation`.
    pub kind: String,
    /// What is referred to.
    pub id: String,
    /// The hash of its content when it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Which part of it: `12-40` for lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<String>,
}

/// What was found of one criterion (E9.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The criterion's id.
    pub criterion: String,
    /// Whether the node's status depends on it.
    pub required: bool,
    /// What was found.
    pub finding: Finding,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It holds.
    Met,
    /// It does not, and this is what is missing.
    Unmet(String),
    /// Nobody could tell. Never counts as met.
    Unverifiable(String),
}

/// What a node came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    /// How it ended.
    pub status: Outcome,
    /// Whether going on can help; only a failure has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// Why it ended so, unless it is simply done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The stable name of why its last call failed, as the tool or the runner says, if it came to nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A few lines for people and later steps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The value for later steps.
    #[serde(default, skip_serializing_if = "Output::is_null")]
    pub output: Output,
    /// What supports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What was found of its criteria.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// Calls made for it, its own only.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub attempts: u32,
    /// How long its last call took.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub duration_us: u64,
    /// Bytes of texts that its last call wrote into memory, besides what follows from the journal (E9.10).
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub wrote: u64,
}

impl NodeResult {
    /// A result with `status` and `notes` and nothing else.
    #[must_use]
    pub fn new(status: Outcome, notes: impl Into<String>) -> Self {
        Self {
            status,
            severity: None,
            stop_reason: None,
            code: None,
            notes: notes.into(),
            output: Output::null(),
            evidence: Vec::new(),
            verdicts: Vec::new(),
            attempts: 0,
            duration_us: 0,
            wrote: 0,
        }
    }

    /// A failure.
    #[must_use]
    pub fn failed(severity: Severity, reason: StopReason, notes: impl Into<String>) -> Self {
        Self {
            severity: Some(severity),
            stop_reason: Some(reason),
            ..Self::new(Outcome::Failed, notes)
        }
    }

    /// Something that was not begun or not finished, and why.
    #[must_use]
    pub fn stopped(status: Outcome, reason: StopReason, notes: impl Into<String>) -> Self {
        Self {
            stop_reason: Some(reason),
            ..Self::new(status, notes)
        }
    }

    /// Whether it failed so that going on cannot help.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.severity == Some(Severity::Hard)
    }
}
