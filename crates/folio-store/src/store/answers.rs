//! What a store is asked for and what it answers, apart from memory itself.

use std::fmt;

use folio_engine::{Event, Run};
use folio_memory::id::RunHandle;
use folio_memory::keeping::RunTombstone;
use folio_memory::{Actor, Change, Entry, EntryHandle, EntryId, RunId, Seq, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::commit::Record;

/// One row of the log: a commit as it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRow {
    /// The commit's number.
    pub seq: Seq,
    /// When the commit was made.
    pub at: Timestamp,
    /// The actor who made it.
    pub actor: Actor,
    /// Its idempotency key, if it has one.
    pub idempotency_key: Option<String>,
    /// What the commit did.
    pub record: Record,
}

/// One change of one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// The commit that made the change.
    pub seq: Seq,
    /// When the change was made.
    pub at: Timestamp,
    /// The actor who made it.
    pub actor: Actor,
    /// The entry's version after it.
    pub version: u32,
    /// What changed.
    pub change: Change,
    /// Why the change was made, in the writer's words.
    pub reason: Option<String>,
}

/// What a log block has in structured parts.
#[derive(Debug, Clone, PartialEq)]
pub struct LogParts {
    /// The entry's permanent id.
    pub id: EntryId,
    /// The entry's handle.
    pub handle: EntryHandle,
    /// The parts. Null if it has none.
    pub parts: Value,
}

impl LogParts {
    /// The parts of `entry`, with the length of the list called `without` in its place.
    #[must_use]
    pub fn of(entry: Entry, without: &str) -> Self {
        let mut parts = entry.fields.parts.unwrap_or_default();
        if let Some(list) = parts.get_mut(without)
            && let Some(items) = list.as_array()
        {
            *list = items.len().into();
        }
        Self {
            id: entry.id,
            handle: entry.handle,
            parts,
        }
    }
}

/// A run, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunRow {
    /// The run's permanent id.
    #[serde(rename = "run_id")]
    pub id: RunId,
    /// The run's handle in its space.
    pub handle: RunHandle,
    /// The run's one-line title.
    pub title: String,
    /// `running`, or how it ended: `ok`, `partial`, `failed`, `cancelled`; or `forgotten`.
    pub status: String,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When its journal last grew.
    pub updated_at: Timestamp,
    /// The commit at which its journal ends.
    pub head: Seq,
    /// Whether a living process drives the run.
    pub driven: bool,
    /// Whether any process has ever driven the run. Until then, the process that submitted it may be about to.
    #[serde(skip)]
    pub was_driven: bool,
    /// If the run was forgotten: what is still known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<Box<ForgottenRun>>,
}

/// What is still known of a run that was forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForgottenRun {
    /// What is left of the run.
    #[serde(flatten)]
    pub left: RunTombstone,
    /// When it was forgotten.
    pub at: Timestamp,
    /// Who had it forgotten.
    pub by: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl RunRow {
    /// Whether the run's last event is recorded, so that nobody drives it any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.status != Run::RUNNING
    }

    /// Whether nobody knows any more what the run said.
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        self.status == Run::FORGOTTEN
    }
}

/// A query for runs, newest first.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    /// Only runs in one of these statuses; empty means any status.
    pub status: Vec<String>,
    /// Only runs older than the run with this number.
    pub before: Option<u64>,
    /// The most runs to return; 0 means 100.
    pub limit: u32,
}

impl RunQuery {
    /// A query for up to `limit` runs that have not ended.
    #[must_use]
    pub fn running(limit: u32) -> Self {
        Self {
            status: vec![Run::RUNNING.to_owned()],
            before: None,
            limit,
        }
    }
}

/// What happened in a run, in order, up to `head`.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    /// The events, each with the time of the commit that recorded it.
    pub events: Vec<(Timestamp, Event)>,
    /// The last commit that was read.
    pub head: Seq,
    /// Whether that was the last commit of the run. Otherwise more can be read after `head`.
    pub is_whole: bool,
    /// The size in bytes of the records that were read.
    pub bytes: usize,
}

/// Commits with the journal of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCommits {
    /// The commits.
    pub commits: Vec<LogRow>,
    /// Whether the last of them is the last one of the run. Otherwise more can be read after it.
    pub is_whole: bool,
}

/// The name of a process that drives runs, drawn once for each process.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerId(pub String);

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Marks what lists of memory show at some moment: as long as the number is the same, they show the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryMark {
    /// Identifies the mark, within one open store only.
    pub number: u64,
    /// Identifies what is on the pages of runs, as far as it was written by anybody but the run itself: as long as this
    /// is the same, a run finds on its pages only what it wrote and what it found there before.
    pub pages: u64,
    /// The last commit that may have changed what the lists show.
    pub since: Seq,
    /// The last commit at the time of the question.
    pub as_of: Seq,
}

/// What the doctor found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Checkup {
    /// What was checked, with counts.
    pub checked: Vec<String>,
    /// What is wrong; empty if the store is healthy.
    pub problems: Vec<String>,
}

impl Checkup {
    /// The most problems that are reported; more would add nothing to the verdict.
    pub const PROBLEMS_MAX: usize = 20;

    /// Whether as many problems were found as are reported.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.problems.len() >= Self::PROBLEMS_MAX
    }
}
