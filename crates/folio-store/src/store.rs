//! The seam to a database: one write, a few reads, and a wake-up.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::run::SoFar;
use folio_engine::{Event, Run};
use folio_memory::id::{EntryRef, PageRef, RunHandle, RunRef, TurnRef};
use folio_memory::{
    Actor, Change, Clock, Entry, EntryId, EntryQuery, KeptPolicy, Link, ListAnswer, NoteQuery, NotesKept, Page,
    PageQuery, RunId, Seq, SpaceName, Timestamp, TraceNote, Turn, TurnQuery,
};
use serde::Serialize;

use crate::access::KeptToken;
use crate::commit::{BlobHash, Commit, Committed, Record};
use crate::copy::CopiedCommit;
use crate::error::StoreError;
use crate::parts::{CommittedParts, Parts};
use crate::system::SystemClock;
use crate::upkeep::{Compacted, Compaction, Residue, WatchAnswer, WatchQuery};

/// One row of the log: a commit as it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRow {
    /// Its number.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// Its key, if it had one.
    pub idempotency_key: Option<String>,
    /// What it did.
    pub record: Record,
}

/// One change of one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// The commit.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// The entry's version after it.
    pub version: u32,
    /// What changed.
    pub change: Change,
    /// Why, in the writer's words.
    pub reason: Option<String>,
}

/// A run, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunRow {
    /// For ever.
    #[serde(rename = "run_id")]
    pub id: RunId,
    /// In its space.
    pub handle: RunHandle,
    /// One line.
    pub title: String,
    /// `running`, or how it ended: `ok`, `partial`, `failed`, `cancelled`.
    pub status: String,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When its journal last grew.
    pub updated_at: Timestamp,
    /// The commit at which its journal ends.
    pub head: Seq,
    /// Whether a living process drives it.
    pub driven: bool,
    /// Whether anybody has ever driven it. Until then, whoever submitted it may be about to.
    #[serde(skip)]
    pub was_driven: bool,
}

impl RunRow {
    /// Whether its last event is recorded: nobody drives it any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.status != Run::RUNNING
    }
}

/// A question for runs, newest first.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    /// In one of these statuses; empty restricts nothing.
    pub status: Vec<String>,
    /// Older than the run with this number.
    pub before: Option<u64>,
    /// How many at most; 0 means 100.
    pub limit: u32,
}

impl RunQuery {
    /// Runs that have not ended, `limit` of them.
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
    /// The events with the instant of the commit that recorded them.
    pub events: Vec<(Timestamp, Event)>,
    /// The last commit that was read.
    pub head: Seq,
    /// Whether that was the last there was. Otherwise more can be read after `head`.
    pub is_whole: bool,
    /// Bytes of the records that were read for it.
    pub bytes: usize,
}

/// After how many bytes of what a run's commits say a part of its journal ends. What is read of them is in memory many times as large.
pub const JOURNAL_PART_BYTES: usize = 1 << 20;

/// After how many bytes of records an answer to [`Store::changes`] ends. What is read of them is in memory some times as large.
pub const CHANGES_BYTES: usize = 4 << 20;

/// Names a process that drives runs. Drawn once a process.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerId(pub String);

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What lists of memory tell, at some moment: as long as the number is the same, they tell the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryMark {
    /// Names it; of one open store only.
    pub number: u64,
    /// Names what stands on pages of runs, as far as anybody but the run itself wrote it: as long as it is the same, a run finds on its pages
    /// what it wrote, and what it found there before.
    pub pages: u64,
    /// The last commit that may have changed what they tell.
    pub since: Seq,
    /// The last commit that was there when somebody asked.
    pub as_of: Seq,
}

/// What the doctor found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Checkup {
    /// What was looked at, with counts.
    pub checked: Vec<String>,
    /// What is wrong; empty is healthy.
    pub problems: Vec<String>,
}

impl Checkup {
    /// Most problems that are told; beyond, one knows that it is bad.
    pub const PROBLEMS_MAX: usize = 20;

    /// Whether as many problems are known as are told.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.problems.len() >= Self::PROBLEMS_MAX
    }
}

/// A place where logs of spaces are kept.
///
/// # What every store promises
///
/// - An acknowledged commit survives `kill -9` and power loss, and is there exactly once, with any number of processes.
/// - Commits of a space are numbered 1, 2, 3 … without gaps; a reader that has seen `n` sees everything up to `n`.
/// - A commit that was refused has changed nothing.
/// - After `Unavailable` from [`Store::commit`] the outcome is unknown; the same idempotency key asks safely again.
/// - Nothing that is asked of one space is answered from another.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Where it is, for messages: a path or an address without secrets.
    fn location(&self) -> String;

    /// What time it is for everybody who writes to it (M7.1.9): the clock of the machine, unless many machines share it.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    /// Counts how often another store has taken the place of the one before, as far as this process knows: a server that may lack the last
    /// commits after a failover, and gives their numbers to others. What was known before may be untrue then.
    fn lineage(&self) -> u64 {
        0
    }

    /// Writes `commit`; durable when this returns.
    ///
    /// Handles and the sequence number are given in the same transaction. Concurrent commits of a process share a
    /// transaction.
    ///
    /// # Errors
    ///
    /// `Conflict` if what is expected does not hold, `NotFound` if an entry or page is not there, `Invalid` if the commit
    /// contradicts itself, `Unavailable` if it cannot be written now: then its outcome is unknown.
    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError>;

    /// Writes the commits that `parts` are, one behind the other, as if they were one: all of them are there, or none, and nobody sees
    /// some of them without the others. They are of one space, to which nobody else writes meanwhile, so whoever gives them
    /// does not write there either, and lets nobody wait. Has but a few of them in memory at one time.
    ///
    /// If the first one was written before, under the same key, nothing is written, and the answer says so.
    ///
    /// # Errors
    ///
    /// As [`Store::commit`], for any of them; `Invalid` if there is none, or `parts` end before their last one.
    async fn commit_parts(&self, parts: Parts) -> Result<CommittedParts, StoreError>;

    /// The number of the last commit of `space`; zero if there is none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn head(&self, space: &SpaceName) -> Result<Seq, StoreError>;

    /// The instant of the last commit of `space`: its own time is no earlier (M7.1.9). The first instant of all if there is none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn latest(&self, space: &SpaceName) -> Result<Timestamp, StoreError>;

    /// Up to `limit` commits of `space` after `since`, in order: at least one, if there is one, and no more once they have about
    /// [`CHANGES_BYTES`]. Empty if there is none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn changes(&self, space: &SpaceName, since: Seq, limit: u32) -> Result<Vec<LogRow>, StoreError>;

    /// Waits until `space` has a commit after `since`, made by this or another process, and returns the last one.
    ///
    /// Returns at once if there is one already. May be dropped at any time.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn wait(&self, space: &SpaceName, since: Seq) -> Result<Seq, StoreError>;

    /// The entries that `query` asks for, as they are at `now`.
    ///
    /// # Errors
    ///
    /// `Invalid` for a cursor that belongs to another query; `Unavailable` or `Corrupt`.
    async fn entries(
        &self,
        space: &SpaceName,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, StoreError>;

    /// The answers to several questions for entries, each at its place. Costs less than asking them one after the other.
    /// Where none looks for words, a database answers them out of one state; of which commit it is, each of them says.
    ///
    /// # Errors
    ///
    /// As [`Store::entries`].
    async fn entries_of_each(
        &self,
        space: &SpaceName,
        queries: Vec<EntryQuery>,
        now: Timestamp,
    ) -> Result<Vec<ListAnswer<Entry>>, StoreError> {
        one_by_one(self, space, &queries, now).await
    }

    /// A mark of what lists of memory tell at `now`; none if nobody keeps account of it, or something changes at this moment.
    ///
    /// Whoever reads after it and finds the same mark later need not read again: neither a commit of any process nor time has changed what
    /// is observed, noted or known, nor the policy, nor which pages belong to a thread. Blocks of logs, steps of plans and the summaries
    /// of runs are no part of it: they change with everything that a run does.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn memory_mark(&self, _space: &SpaceName, _now: Timestamp) -> Result<Option<MemoryMark>, StoreError> {
        Ok(None)
    }

    /// One entry.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    async fn entry(&self, space: &SpaceName, entry: EntryRef) -> Result<Entry, StoreError>;

    /// The revisions of one entry, oldest first.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    async fn history(&self, space: &SpaceName, entry: EntryId) -> Result<Vec<Revision>, StoreError>;

    /// The pages that `query` asks for, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn pages(&self, space: &SpaceName, query: &PageQuery) -> Result<Vec<Page>, StoreError>;

    /// One page.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    async fn page(&self, space: &SpaceName, page: PageRef) -> Result<Page, StoreError>;

    /// How many pages `query` asks for, wherever it goes on and however many it wants.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn page_count(&self, space: &SpaceName, query: &PageQuery) -> Result<u64, StoreError>;

    /// The links that begin or end at `end` (a written id), sorted.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn links(&self, space: &SpaceName, end: &str) -> Result<Vec<Link>, StoreError>;

    /// Those of `links` that are there: of many in one question.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn kept_links(&self, space: &SpaceName, links: Vec<Link>) -> Result<HashSet<Link>, StoreError>;

    /// Up to `limit` entries of `space` whose time is past at `by` without a revision that says so, the first first, each
    /// with the instant at which it ended. What is pinned or archived does not end.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn ended(
        &self,
        space: &SpaceName,
        by: Timestamp,
        limit: u32,
    ) -> Result<Vec<(EntryId, Timestamp)>, StoreError>;

    /// What holds in `space`: that of a new space if nobody has set anything.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn policy(&self, space: &SpaceName) -> Result<KeptPolicy, StoreError>;

    /// The bytes of a body.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Corrupt` if they do not have the hash that they are kept under; `Unavailable`.
    async fn blob(&self, space: &SpaceName, hash: &BlobHash) -> Result<Vec<u8>, StoreError>;

    /// The turns that `query` asks for, newest first.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn turns(&self, space: &SpaceName, query: &TurnQuery) -> Result<Vec<Turn>, StoreError>;

    /// One turn.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    async fn turn(&self, space: &SpaceName, turn: TurnRef) -> Result<Turn, StoreError>;

    /// The runs that `query` asks for, newest first.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn runs(&self, space: &SpaceName, query: &RunQuery) -> Result<Vec<RunRow>, StoreError>;

    /// One run.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    async fn run(&self, space: &SpaceName, run: RunRef) -> Result<RunRow, StoreError>;

    /// Where the journals of `runs` end: of many runs in one question. A run that is not there is left out.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn run_heads(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, Seq)>, StoreError>;

    /// What the last commit of each of `runs` says of it ([`RunAppend::so_far`](crate::RunAppend::so_far)): of many runs in one question. A run
    /// whose last commit says nothing is left out, as one that is not there.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn runs_so_far(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, SoFar)>, StoreError>;

    /// What happened in a run after `since`: at least one commit, if there is one, and no more once they have `bytes`.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    async fn journal_part(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<Journal, StoreError>;

    /// All that happened in a run after `since`. Of a long run that is much: whoever only folds it reads it in parts.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    async fn journal(&self, space: &SpaceName, run: RunId, since: Seq) -> Result<Journal, StoreError> {
        let mut whole = self.journal_part(space, run, since, JOURNAL_PART_BYTES).await?;
        while !whole.is_whole {
            let more = self.journal_part(space, run, whole.head, JOURNAL_PART_BYTES).await?;
            whole.events.extend(more.events);
            whole.bytes += more.bytes;
            (whole.head, whole.is_whole) = (more.head, more.is_whole);
        }
        Ok(whole)
    }

    /// Makes this process (`owner`) the only driver of a run, and returns the fence that its commits must carry.
    ///
    /// Succeeds if nobody drives the run, its driver is dead, or its driver is `owner` already. Each claim has a fence of its own, so that
    /// nothing counts any more that whoever held the run before, also `owner` itself, has on its way here.
    ///
    /// # Errors
    ///
    /// `Conflict` if a living process drives it; `NotFound`; `Unavailable`.
    async fn claim_run(&self, space: &SpaceName, run: RunId, owner: &OwnerId) -> Result<u64, StoreError>;

    /// Gives a run up. Does nothing if `fence` is no longer the current one.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    async fn release_run(&self, space: &SpaceName, run: RunId, fence: u64) -> Result<(), StoreError>;

    /// Keeps notes of what happened besides the log, in the order given, and lets go of what is beyond `kept`.
    ///
    /// Notes are no commits: they have no number, wake nobody, and may be lost when the power fails.
    ///
    /// # Errors
    ///
    /// `Unavailable`: then none of them, or all, are kept.
    async fn append_trace(&self, space: &SpaceName, notes: &[TraceNote], kept: NotesKept) -> Result<(), StoreError>;

    /// The notes that `query` asks for, in the order in which they were kept.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn notes(&self, space: &SpaceName, query: &NoteQuery) -> Result<Vec<TraceNote>, StoreError>;

    /// The entries of `space` that are watched as `query` says, by their instants.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn watched(&self, space: &SpaceName, query: &WatchQuery) -> Result<WatchAnswer, StoreError>;

    /// How many observations of `space` are neither archived nor past their time at `now`. Counts no further than `most`.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn live_observations(&self, space: &SpaceName, now: Timestamp, most: u64) -> Result<u64, StoreError>;

    /// Makes what is kept of `space` smaller. What is answered stays the same, but for tombstones that are given up.
    ///
    /// # Errors
    ///
    /// `Unavailable`: then nothing was done.
    async fn compact(&self, space: &SpaceName, compaction: Compaction) -> Result<Compacted, StoreError>;

    /// Takes away the notes of `space` that say one of `texts`, however it is spelled, or its beginning where the note was cut.
    ///
    /// # Errors
    ///
    /// `Unavailable`: then nothing was done.
    async fn forget_notes(&self, space: &SpaceName, texts: Vec<String>) -> Result<(), StoreError>;

    /// Overwrites what was erased wherever it may still lie in what belongs to the store, whichever space it is of: for whoever does not
    /// know any more what it said, and could not look whether it is gone. Costs as much as writing the store anew.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it cannot be overwritten now.
    async fn write_anew(&self) -> Result<(), StoreError>;

    /// Does what [`Store::forget_notes`] does, overwrites what was erased wherever it may still lie in what belongs to the store, whichever space it is of, and looks
    /// for `texts` in what `space` has and in the bytes of the files. What another space says is neither told nor touched.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it cannot be overwritten now.
    async fn scrub(&self, space: &SpaceName, texts: Vec<String>) -> Result<Residue, StoreError>;

    /// Every space in which there is anything, by their names.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn spaces(&self) -> Result<Vec<SpaceName>, StoreError>;

    /// Writes `commits` of another store as they stand in its log: with their numbers, instants, writers and keys. What comes of
    /// them is what came of them there. The last number, zero of none.
    ///
    /// # Errors
    ///
    /// `StaleSpace` if the first does not follow the last commit of `space`; `Invalid` if they contradict themselves or what
    /// is there; `Unavailable`. Then the first few may have been written, each as a whole.
    async fn take_over(&self, space: &SpaceName, commits: Vec<CopiedCommit>) -> Result<Seq, StoreError>;

    /// Keeps a token of a server; one with its id ends, or is taken back, as this one says.
    ///
    /// # Errors
    ///
    /// `Invalid` if there are too many; `Unavailable`.
    async fn keep_token(&self, token: KeptToken) -> Result<(), StoreError>;

    /// Every token that was kept, whichever space it opens, the oldest first; those, too, that open nothing any more.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn tokens(&self) -> Result<Vec<KeptToken>, StoreError>;

    /// Looks for damage: the file itself, gaps in the numbering, and rows that do not follow from the log.
    ///
    /// # Errors
    ///
    /// `Unavailable`; damage is an answer, not an error.
    async fn check(&self) -> Result<Checkup, StoreError>;

    /// Copies everything, as it is at one moment, into a file at `to` that [`crate::sqlite::restore`] reads. Whole and durable once
    /// it has its name; others go on writing meanwhile.
    ///
    /// # Errors
    ///
    /// `Invalid` if something is there already; `Unavailable`.
    async fn back_up(&self, to: &Path) -> Result<(), StoreError>;

    /// Bytes of its files; `None` if it has none of its own: a database knows better what it takes, and what is in memory is nowhere.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    async fn bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }
}

/// The answers to `queries`, asked one after the other.
pub(crate) async fn one_by_one<S: Store + ?Sized>(
    store: &S,
    space: &SpaceName,
    queries: &[EntryQuery],
    now: Timestamp,
) -> Result<Vec<ListAnswer<Entry>>, StoreError> {
    let mut answers = Vec::with_capacity(queries.len());
    for query in queries {
        answers.push(store.entries(space, query, now).await?);
    }
    Ok(answers)
}
