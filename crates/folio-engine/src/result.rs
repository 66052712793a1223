//! What a node produced (E9.4), and what supports it (E9.7).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::output::{Inline, Output, OutputTree};

/// How a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything that was wanted was done.
    Ok,
    /// Some of it was done.
    Partial,
    /// It was not begun, because something before it failed.
    Skipped,
    /// It was stopped on request.
    Cancelled,
    /// What was wanted was not done.
    Failed,
}

/// How often each outcome occurs among `outcomes`, each given with a number of nodes: `5 ok, 1 failed`. Empty if none
/// does.
pub(crate) fn counts_in_words(outcomes: impl Iterator<Item = (Outcome, u32)>) -> String {
    let mut counts: BTreeMap<Outcome, u32> = BTreeMap::new();
    for (outcome, count) in outcomes {
        *counts.entry(outcome).or_default() += count;
    }
    let words: Vec<String> = [
        Outcome::Ok,
        Outcome::Partial,
        Outcome::Failed,
        Outcome::Skipped,
        Outcome::Cancelled,
    ]
    .iter()
    .filter_map(|outcome| {
        let count = *counts.get(outcome)?;
        (count > 0).then(|| format!("{count} {outcome}"))
    })
    .collect();
    words.join(", ")
}

impl Outcome {
    /// The outcome's name as it is written.
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
    /// It may help: whoever combines the results decides.
    Soft,
    /// It cannot help, or it may do harm: later steps of the same plan do not begin.
    Hard,
}

/// Why a node ended as it did. More reasons may be added; a reader treats an unknown one as "see the notes".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// A required criterion was not met, or whoever did the task says that what was wanted was not reached.
    CriteriaUnmet,
    /// Every attempt failed.
    RetriesExhausted,
    /// Permission was refused.
    PolicyDenied,
    /// The request makes no sense.
    InvalidInput,
    /// It cannot be done here.
    Unsatisfiable,
    /// The limit on nodes was reached.
    BudgetNodes,
    /// The limit on depth was reached.
    BudgetDepth,
    /// The limit on the children of one group was reached.
    BudgetChildren,
    /// The limit on bytes was reached.
    BudgetBytes,
    /// A limit on tokens was reached.
    BudgetTokens,
    /// The limit on money was reached.
    BudgetUsd,
    /// The limit on calls of models was reached.
    BudgetModelCalls,
    /// The limit on calls of tools was reached.
    BudgetToolCalls,
    /// The conversation does not fit into the model's window, and may not or could not be offloaded.
    WindowFull,
    /// The API key for a model was refused.
    Auth,
    /// A model refused the task.
    Refused,
    /// What a model answered could not be read.
    Unparseable,
    /// A model took more turns than a task may take.
    TurnCap,
    /// The task went round in circles.
    Loop,
    /// Plan after plan was tried, and no further criterion was met.
    Stalled,
    /// Somebody has to answer a question, and nobody is there.
    NeedsInput,
    /// Another plan took its place.
    Superseded,
    /// The time limit was reached.
    Deadline,
    /// It began, and nobody knows how it ended.
    OutcomeUnknown,
    /// Something before it failed.
    UpstreamFailed,
    /// A person or program asked for the cancellation.
    CancelledByUser,
    /// Its group no longer needed it.
    CancelledByParent,
}

impl StopReason {
    /// Whether the reason is a limit of a budget or of time that was reached (E9.10).
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

    /// The reason's name as it is written.
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

/// Why an attempt failed, according to the tool or the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The stable code of the failure.
    pub code: String,
    /// What was tried, on what, and why it failed.
    pub message: String,
    /// The stop reason that results if no other attempt follows.
    pub reason: StopReason,
    /// Whether another attempt may help.
    pub may_retry: bool,
}

/// A reference to what supports a result. Results are passed up by reference, so their size does not grow with depth
/// (H9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The kind of reference: `node`, `file`, `url`, `tool_call`, `observation`.
    pub kind: String,
    /// What is referred to.
    pub id: String,
    /// The hash of its content at the time it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The part of it that is meant: `12-40` for lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<String>,
}

/// The finding for one criterion (E9.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The id of the criterion.
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
    /// The criterion is met.
    Met,
    /// The criterion is not met, and this is what is missing.
    Unmet(String),
    /// Nobody could tell, for this reason. Never counts as met.
    Unverifiable(String),
}

/// What a node produced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    /// How it ended.
    pub status: Outcome,
    /// Whether going on can help; only a failure has a severity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// Why it ended so; `None` if it is simply done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The stable code of its last call's failure, as the tool or the runner reports it, if that failure is the result.
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
    /// The findings for its criteria.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// The number of calls made for this node itself, without its children.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub attempts: u32,
    /// How long its last call took, in microseconds.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub duration_us: u64,
    /// Bytes of text that its last call wrote into memory, beyond what follows from the journal (E9.10).
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

    /// A failure with its severity and reason.
    #[must_use]
    pub fn failed(severity: Severity, reason: StopReason, notes: impl Into<String>) -> Self {
        Self {
            severity: Some(severity),
            stop_reason: Some(reason),
            ..Self::new(Outcome::Failed, notes)
        }
    }

    /// The result of a node that did not begin or did not finish, and why.
    #[must_use]
    pub fn stopped(status: Outcome, reason: StopReason, notes: impl Into<String>) -> Self {
        Self {
            stop_reason: Some(reason),
            ..Self::new(status, notes)
        }
    }

    /// Whether it failed in a way that going on cannot help.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.severity == Some(Severity::Hard)
    }
}
