//! The kinds of content that an entry holds.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Family;

/// The kind of content that an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// Something that somebody noticed (seeds 002 and 004).
    Observation,
    /// A note of the scratchbook.
    Note,
    /// Something to do, without phases.
    Todo,
    /// Something to do, with a phase and progress.
    Task,
    /// What is wanted (seed 004).
    Goal,
    /// An action that waits for confirmation (seed 004).
    PendingAction,
    /// One step of a plan.
    Step,
    /// One block of an append-only log.
    Log,
    /// A summary of a range of other entries.
    Summary,
}

impl EntryKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Observation,
        Self::Note,
        Self::Todo,
        Self::Task,
        Self::Goal,
        Self::PendingAction,
        Self::Step,
        Self::Log,
        Self::Summary,
    ];

    /// The kind's name in its written and stored form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observation => "observation",
            Self::Note => "note",
            Self::Todo => "todo",
            Self::Task => "task",
            Self::Goal => "goal",
            Self::PendingAction => "pending_action",
            Self::Step => "step",
            Self::Log => "log",
            Self::Summary => "summary",
        }
    }

    /// Parses a name that [`Self::as_str`] returns.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The family of statuses that entries of this kind go through.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Self::Observation | Self::Note | Self::Log | Self::Summary => Family::Knowledge,
            Self::Todo | Self::Task | Self::Goal | Self::PendingAction | Self::Step => Family::Work,
        }
    }

    /// Whether it is an item of a scratchbook: a note, todo or task (seed 003).
    #[must_use]
    pub fn is_item(self) -> bool {
        matches!(self, Self::Note | Self::Todo | Self::Task)
    }

    /// The kinds that are memory in their own right.
    pub fn memory() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_memory())
    }

    /// Whether the kind is memory in its own right, as opposed to what a run writes on its pages.
    #[must_use]
    pub fn is_memory(self) -> bool {
        !matches!(self, Self::Step | Self::Log | Self::Summary)
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
