//! A turn as the log has it.

use serde::{Deserialize, Serialize};

use super::decision::{Decision, Stage};
use crate::id::{RunId, Seq, TurnHandle, TurnId};
use crate::space::ThreadKey;
use crate::time::Timestamp;

/// A turn to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTurn {
    /// Its id.
    pub id: TurnId,
    /// In which thread.
    pub thread: ThreadKey,
    /// What came in, in its writer's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// The run that it is the turn of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Whether nobody waits for it (M7.11.7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The last commit that its decisions knew of. A turn that reads at it sees what it saw then.
    pub as_of: Seq,
    /// What was decided before the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Whether nothing was left to do.
    pub complete: bool,
    /// What was decided after the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// The hash of the export's first body (M7.6.47).
    pub export: String,
    /// How many entries the turn touched.
    pub touched: u64,
    /// The commit that the export describes: all that the turn did up to it.
    pub as_of: Seq,
}

/// How a turn ended, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnded {
    /// When.
    pub at: Timestamp,
    /// The commit that ended it.
    pub seq: Seq,
    /// What came of it.
    pub end: TurnEnd,
}

/// A turn as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// In its space.
    pub handle: TurnHandle,
    /// When it began.
    pub started_at: Timestamp,
    /// The commit that began it.
    pub started_seq: Seq,
    /// What it is.
    pub begun: NewTurn,
    /// How it ended, once it has.
    pub ended: Option<TurnEnded>,
}

impl Turn {
    /// The turn that `new` becomes.
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

    /// Ends it. A turn ends once: whether this did it.
    pub fn end(&mut self, end: TurnEnd, seq: Seq, at: Timestamp) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.ended = Some(TurnEnded { at, seq, end });
        true
    }

    /// All its decisions, in order.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        let after = self.ended.iter().flat_map(|ended| &ended.end.decisions);
        self.begun.decisions.iter().chain(after)
    }

    /// What `stage` decided.
    #[must_use]
    pub fn decision(&self, stage: Stage) -> Option<&Decision> {
        self.decisions().find(|decision| decision.stage == stage)
    }
}

/// A question for turns, newest first. What is left out restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnQuery {
    /// In this thread.
    pub thread: Option<ThreadKey>,
    /// Of this run.
    pub run: Option<RunId>,
    /// Only those that have ended, or only those that have not.
    pub ended: Option<bool>,
    /// Only those that had ended with this commit.
    pub ended_by: Option<Seq>,
    /// Begun at this instant or later.
    pub from: Option<Timestamp>,
    /// Begun before this instant.
    pub until: Option<Timestamp>,
    /// Older than the turn with this number.
    pub before: Option<u64>,
    /// How many at most; 0 means 100.
    pub limit: u32,
}

impl TurnQuery {
    /// The number of turns that an answer gives at most; one more than any list has, so that whoever makes one knows whether there are
    /// more.
    #[must_use]
    pub fn limit(&self) -> u32 {
        match self.limit {
            0 => 100,
            limit => limit.min(crate::query::MAX_LIMIT + 1),
        }
    }

    /// Whether `turn` is part of the answer, the limit aside.
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
