//! Decisions: what a stage of a turn decided, and on which entries.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entry::Entry;
use crate::id::{EntryHandle, EntryId};

/// A stage of a turn (M7.11.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// Decides how urgent an input is.
    Router,
    /// Decides whether an input is clear.
    Clarifier,
    /// Decides the order of the work.
    Executor,
    /// Decides whether the work is complete.
    Evaluator,
    /// Decides what is archived and what is learned.
    Reflector,
}

impl Stage {
    /// The stage's name in its written and stored form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Clarifier => "clarifier",
            Self::Executor => "executor",
            Self::Evaluator => "evaluator",
            Self::Reflector => "reflector",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An entry that a decision rests on, in the version that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Used {
    /// The entry's handle.
    pub handle: EntryHandle,
    /// The entry's id.
    #[serde(rename = "observation_id")]
    pub id: EntryId,
    /// The version that was read.
    pub version: u32,
}

impl Used {
    /// Creates the reference to `entry` as it was read.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self {
            handle: entry.handle,
            id: entry.id,
            version: entry.version,
        }
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.handle, self.version)
    }
}

/// What a stage decided. It is kept in the log with the turn, so that "which observation changed which decision" can be
/// answered for as long as the log is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The stage that decided.
    pub stage: Stage,
    /// The result, in one word: `high`, `clear`, `complete` …
    pub verdict: String,
    /// The reasons, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The entries that made a difference, sorted and without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<Used>,
}

impl Decision {
    /// Creates a decision of `stage`; `used` is sorted and deduplicated.
    #[must_use]
    pub fn new(stage: Stage, verdict: impl Into<String>, reasons: Vec<String>, mut used: Vec<Used>) -> Self {
        used.sort_unstable();
        used.dedup();
        Self {
            stage,
            verdict: verdict.into(),
            reasons,
            used,
        }
    }
}
