//! Turns as the log records them.

use serde::{Deserialize, Serialize};

use super::decision::{Decision, Stage};
use crate::id::{RunId, Seq, TurnHandle, TurnId};
use crate::space::ThreadKey;
use crate::time::Timestamp;

/// A turn that begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTurn {
    /// The turn's id.
    pub id: TurnId,
    /// The thread of the turn.
    pub thread: ThreadKey,
    /// The input in its writer's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// The run that the turn belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Whether the turn runs in the background, with nobody waiting for it (M7.11.7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The last commit that the turn's decisions knew of. Reading as of this commit shows what the turn saw.
    pub as_of: Seq,
    /// The decisions before the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Whether nothing was left to do.
    pub complete: bool,
    /// The decisions after the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// The hash of the first body of the export (M7.6.47).
    pub export: String,
    /// The number of entries that the turn touched.
    pub touched: u64,
    /// The commit up to which the export describes the turn.
    pub as_of: Seq,
}

/// How a turn ended, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnEnded {
    /// When the turn ended.
    pub at: Timestamp,
    /// The commit that ended the turn.
    pub seq: Seq,
    /// How the turn ended.
    pub end: TurnEnd,
}

/// A turn in its current form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// The turn's handle in its space.
    pub handle: TurnHandle,
    /// When the turn began.
    pub started_at: Timestamp,
    /// The commit that began the turn.
    pub started_seq: Seq,
    /// The turn as it began.
    pub begun: NewTurn,
    /// How the turn ended, once it has ended.
    pub ended: Option<TurnEnded>,
}

impl Turn {
    /// Builds the turn that `new` becomes.
    #[must_use]
    pub fn begun(new: NewTurn, handle: TurnHandle, seq: Seq, at: Timestamp) -> Self {
        Self {
            handle,
            started_at: at,
            started_seq: seq,
            begun: new,
            ended: None,
        }
    }

    /// Ends the turn unless it has ended already; returns whether this call ended it.
    pub fn end(&mut self, end: TurnEnd, seq: Seq, at: Timestamp) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.ended = Some(TurnEnded { at, seq, end });
        true
    }

    /// All decisions of the turn, in order.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        let after = self.ended.iter().flat_map(|ended| &ended.end.decisions);
        self.begun.decisions.iter().chain(after)
    }

    /// The decision of `stage`.
    #[must_use]
    pub fn decision(&self, stage: Stage) -> Option<&Decision> {
        self.decisions().find(|decision| decision.stage == stage)
    }
}

/// A query for turns, newest first. A field that is not set restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnQuery {
    /// Only turns in this thread.
    pub thread: Option<ThreadKey>,
    /// Only turns of this run.
    pub run: Option<RunId>,
    /// Only turns that have ended, or only those that have not.
    pub ended: Option<bool>,
    /// Only turns that had ended as of this commit.
    pub ended_by: Option<Seq>,
    /// Only turns begun at this instant or later.
    pub from: Option<Timestamp>,
    /// Only turns begun before this instant.
    pub until: Option<Timestamp>,
    /// Only turns older than the one with this number.
    pub before: Option<u64>,
    /// The maximum number of turns; 0 means 100.
    pub limit: u32,
}

impl TurnQuery {
    /// The maximum number of turns in the answer. It is one more than any list shows, so that the maker of a list knows
    /// whether there are more.
    #[must_use]
    pub fn limit(&self) -> u32 {
        match self.limit {
            0 => 100,
            limit => limit.min(crate::query::MAX_LIMIT + 1),
        }
    }

    /// Whether `turn` matches the query, regardless of the limit.
    #[must_use]
    pub fn matches(&self, turn: &Turn) -> bool {
        self.thread.as_ref().is_none_or(|thread| *thread == turn.begun.thread)
            && self.run.is_none_or(|run| turn.begun.run == Some(run))
            && self.ended.is_none_or(|ended| turn.ended.is_some() == ended)
            && self
                .ended_by
                .is_none_or(|by| turn.ended.as_ref().is_some_and(|ended| ended.seq <= by))
            && self.from.is_none_or(|from| turn.started_at >= from)
            && self.until.is_none_or(|until| turn.started_at < until)
            && self.before.is_none_or(|before| turn.handle.0 < before)
    }
}
