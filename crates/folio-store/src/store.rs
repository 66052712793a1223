//! The interface of a database: one write, a few reads, and a wake-up.

mod answers;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::run::RunSummary;
use folio_memory::goals::{GoalNames, LinkedCounts};
use folio_memory::id::{EntryRef, PageRef, RunRef, TurnRef};
use folio_memory::page_tree::ParentOf;
use folio_memory::query::MAX_LIMIT;
use folio_memory::{
    Change, Clock, Entry, EntryId, EntryKind, EntryQuery, KeptPolicy, Link, ListAnswer, NoteQuery, NotesKept, Order,
    Page, PageHandle, PageId, PageQuery, RunId, Seq, SpaceName, Timestamp, TraceNote, Turn, TurnQuery,
};

pub use self::answers::{
    Checkup, ForgottenRun, Journal, LogParts, LogRow, MemoryMark, OwnerId, Revision, RunCommits, RunQuery, RunRow,
};
use crate::access::KeptToken;
use crate::commit::{BlobHash, Commit, Committed};
use crate::copy::CopiedCommit;
use crate::error::StoreError;
use crate::fold::marked_as_erased;
use crate::linked::linked_counts_by_reading;
use crate::parts::{CommittedParts, Parts};
use crate::system::SystemClock;
use crate::upkeep::{Compacted, Compaction, Residue, WatchAnswer, WatchQuery};

/// Size in bytes of a run's records after which a part of its journal ends. Once read, they take many times as much
/// memory.
pub const JOURNAL_PART_BYTES: usize = 1 << 20;

/// Size in bytes of records after which an answer to [`Store::changes`] ends. Once read, they take several times as
/// much memory.
pub const CHANGES_BYTES: usize = 4 << 20;

/// How often somebody who waits checks whether another store has taken the place of the one that was read.
const LINEAGE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A place where logs of spaces are kept.
///
/// # What every store promises
///
/// - An acknowledged commit survives `kill -9` and power loss, and is there exactly once, with any number of processes.
/// - Commits of a space are numbered 1, 2, 3 … without gaps; a reader that has seen `n` sees everything up to `n`.
/// - A refused commit has changed nothing.
/// - After `Unavailable` from [`Store::commit`] the outcome is unknown; it is safe to repeat it with the same
///   idempotency key.
/// - A question about one space is never answered from another.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Where the store is, for messages: a path, or an address without secrets.
    fn location(&self) -> String;

    /// The clock that applies to all who write to the store (M7.1.9): that of the machine, unless many machines share
    /// the store.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    /// Counts how often, as far as this process knows, another store has taken the place of the previous one: after a
    /// failover, a server may lack the last commits and assign their numbers again. Anything known from before may then
    /// be wrong.
    fn lineage(&self) -> u64 {
        0
    }

    /// Returns once the [`lineage`](Store::lineage) is another one than `known`. Whoever waits for a commit waits for
    /// this as well: the log may have become shorter than it was.
    async fn wait_for_other_lineage(&self, known: u64) {
        while self.lineage() == known {
            tokio::time::sleep(LINEAGE_CHECK_INTERVAL).await;
        }
    }

    /// What the store lacks to work as well as it could, for people; `None` if nothing is known.
    fn shortage(&self) -> Option<&'static str> {
        None
    }

    /// Writes `commit`, which is durable when this returns.
    ///
    /// Handles and the sequence number are assigned in the same transaction. Concurrent commits of a process share a
    /// transaction.
    ///
    /// # Errors
    ///
    /// `Conflict` if a precondition does not hold, `NotFound` if an entry or page does not exist, `Invalid` if the
    /// commit contradicts itself, `Unavailable` if it cannot be written now: then its outcome is unknown.
    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError>;

    /// Writes the commits that `parts` yields, one after the other, as if they were one: all or none of them are
    /// written, and nobody sees some of them without the others. All belong to one space, to which nobody else can
    /// write meanwhile. So the sender must not write to that space either, and must send without delay. Only a few
    /// parts are in memory at a time.
    ///
    /// If the first part was written before under the same key, nothing is written, and the answer says so.
    ///
    /// # Errors
    ///
    /// As for [`Store::commit`], for any of the parts; `Invalid` if there is no part, or `parts` end before the last
    /// one.
    async fn commit_parts(&self, parts: Parts) -> Result<CommittedParts, StoreError>;

    /// The number of the last commit of `space`; zero if there is none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn head(&self, space: &SpaceName) -> Result<Seq, StoreError>;

    /// The time of the last commit of `space`, before which no later commit is dated (M7.1.9). The earliest possible
    /// time if there is none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn latest(&self, space: &SpaceName) -> Result<Timestamp, StoreError>;

    /// Up to `limit` commits of `space` after `since`, in order: at least one, if there is one, and no more once their
    /// records have about [`CHANGES_BYTES`]. Empty if there is none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn changes(&self, space: &SpaceName, since: Seq, limit: u32) -> Result<Vec<LogRow>, StoreError>;

    /// Waits until `space` has a commit after `since`, made by this or another process, and returns the last one.
    ///
    /// Returns at once if there is one already. Cancel-safe.
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

    /// The answers to several entry queries, in the order of the queries. Cheaper than one query after the other. If
    /// none of them searches for words, a database answers them all from one state; each answer says from which commit.
    ///
    /// # Errors
    ///
    /// As for [`Store::entries`].
    async fn entries_of_each(
        &self,
        space: &SpaceName,
        queries: Vec<EntryQuery>,
        now: Timestamp,
    ) -> Result<Vec<ListAnswer<Entry>>, StoreError> {
        one_by_one(self, space, &queries, now).await
    }

    /// A mark of what lists of memory show at `now`; `None` if the store does not keep track of it, or something is
    /// changing right now.
    ///
    /// A caller that reads after it and later finds the same mark need not read again: neither a commit of any process
    /// nor the passing of time has changed observations, notes or knowledge, the policy, or which pages belong to a
    /// thread. Blocks of logs, steps of plans and the summaries of runs are not covered, because they change with
    /// everything that a run does.
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

    /// Those of `entries` that existed at commit `as_of`, as they were then, in no order. Cheaper than the history of
    /// each, because a commit that touched many of them is read once.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn entries_as_of(
        &self,
        space: &SpaceName,
        entries: Vec<EntryId>,
        as_of: Seq,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut found = Vec::with_capacity(entries.len());
        for id in entries {
            match self.entry(space, EntryRef::Id(id)).await {
                Ok(entry) if entry.updated_seq <= as_of => found.push(entry),
                Ok(entry) => found.extend(fold_until(&entry, self.history(space, id).await?, as_of)),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The revisions of one entry, oldest first.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    async fn history(&self, space: &SpaceName, entry: EntryId) -> Result<Vec<Revision>, StoreError>;

    /// The revisions of each of `entries`, as [`Store::history`] tells them one by one. All of them are in memory at once.
    ///
    /// # Errors
    ///
    /// As [`Store::history`].
    async fn histories(&self, space: &SpaceName, entries: &[EntryId]) -> Result<Vec<Vec<Revision>>, StoreError> {
        let mut all = Vec::with_capacity(entries.len());
        for entry in entries {
            all.push(self.history(space, *entry).await?);
        }
        Ok(all)
    }

    /// The structured parts of the log blocks on `page` that are neither archived nor expired at `now` nor superseded,
    /// oldest first; empty if there is no such page. Instead of the list called `without`, which may be long, they have
    /// its length. A database reads no texts for it.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn log_parts(
        &self,
        space: &SpaceName,
        page: PageId,
        without: &'static str,
        now: Timestamp,
    ) -> Result<Vec<LogParts>, StoreError> {
        let mut query = EntryQuery {
            page: Some(page),
            kinds: vec![EntryKind::Log],
            order: Order::Oldest,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let mut all = Vec::new();
        loop {
            let answer = self.entries(space, &query, now).await?;
            all.extend(answer.items.into_iter().map(|entry| LogParts::of(entry, without)));
            query.cursor = answer.next;
            if query.cursor.is_none() {
                return Ok(all);
            }
        }
    }

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

    /// The number of pages that match `query`, regardless of its cursor and limit.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn page_count(&self, space: &SpaceName, query: &PageQuery) -> Result<u64, StoreError>;

    /// Which page contains each page, in no order: of `root` and all pages below it or, without a root, of all pages of
    /// `space`. A database reads nothing else of them.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn page_parents(&self, space: &SpaceName, root: Option<PageHandle>) -> Result<Vec<ParentOf>, StoreError> {
        let mut query = PageQuery::default();
        let (mut handles, mut parents) = (HashMap::new(), Vec::new());
        loop {
            let pages = self.pages(space, &query).await?;
            query.after = pages.last().map(|page| page.handle.0);
            if pages.is_empty() {
                break;
            }
            // A page comes after the one that contains it.
            for page in pages {
                handles.insert(page.id, page.handle);
                let parent = page.fields.parent.and_then(|parent| handles.get(&parent).copied());
                let page = page.handle;
                parents.push(ParentOf { page, parent });
            }
        }
        let Some(root) = root else { return Ok(parents) };
        let mut below = HashSet::from([root]);
        parents.retain(|place| {
            let is_below = place.page == root || place.parent.is_some_and(|parent| below.contains(&parent));
            is_below && (below.insert(place.page) || place.page == root)
        });
        Ok(parents)
    }

    /// The links that begin or end at `end` (a written id), sorted.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn links(&self, space: &SpaceName, end: &str) -> Result<Vec<Link>, StoreError>;

    /// Those of `links` that exist, looked up together.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn kept_links(&self, space: &SpaceName, links: Vec<Link>) -> Result<HashSet<Link>, StoreError>;

    /// How many entries are linked to each of `goals`, in the order of the goals, as they are at `now`: those that have
    /// a name of it in their context, as [`GoalNames::queries`] find them, without those of its own kind, and the
    /// evidence for it. A database counts them without reading them.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn linked_counts(
        &self,
        space: &SpaceName,
        goals: Vec<GoalNames>,
        now: Timestamp,
    ) -> Result<Vec<LinkedCounts>, StoreError> {
        linked_counts_by_reading(self, space, &goals, now).await
    }

    /// Up to `limit` entries of `space` whose lifetime has ended at `by` although no revision says so, in the order in
    /// which they ended, each with the time at which it did. Pinned and archived entries do not end.
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

    /// The policy of `space`; that of a new space if none has been set.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn policy(&self, space: &SpaceName) -> Result<KeptPolicy, StoreError>;

    /// The policy of `space` if its version is above `known`, and `None` otherwise: then its document, which may be
    /// long, is neither read nor parsed.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn newer_policy(&self, space: &SpaceName, known: u32) -> Result<Option<KeptPolicy>, StoreError>;

    /// The bytes of a body.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Corrupt` if the bytes do not match the hash under which they are kept; `Unavailable`.
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

    /// The ends of the journals of `runs`, looked up together. A run that does not exist is left out.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn run_heads(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, Seq)>, StoreError>;

    /// The names of what calls of `run` write ([`Expected::Writes`](crate::Expected::Writes)), as long as its driver is
    /// there: those for which a commit of another run is refused. Empty if there is no such run.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn written_names(&self, space: &SpaceName, run: RunId) -> Result<Vec<String>, StoreError>;

    /// What the last commit of each of `runs` says of the run ([`RunAppend::so_far`](crate::RunAppend::so_far)), looked
    /// up together. A run whose last commit says nothing, or that does not exist, is left out.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn runs_so_far(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, RunSummary)>, StoreError>;

    /// The events of a run after `since`: those of at least one commit, if there is one, and no more once their records
    /// have `bytes`.
    ///
    /// # Errors
    ///
    /// `NotFound`; `RunForgotten`; `Unavailable` or `Corrupt`.
    async fn journal_part(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<Journal, StoreError>;

    /// All events of a run after `since`. A long run has many: a caller that only folds them should read the journal in
    /// parts.
    ///
    /// # Errors
    ///
    /// As for [`Store::journal_part`].
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

    /// The commits with the journal of a run after `since`, with what else they did and who made them: at least one, if
    /// there is one, and no more once their records have `bytes`.
    ///
    /// # Errors
    ///
    /// As for [`Store::journal_part`].
    async fn run_commits(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<RunCommits, StoreError>;

    /// Makes this process (`owner`) the only driver of a run, and returns the fence that its commits must carry.
    ///
    /// Succeeds if nobody drives the run, its driver is dead, or its driver is `owner` already. Each claim gets a fence
    /// of its own, so that writes still on their way from an earlier claim, even one of `owner` itself, no longer
    /// count. If the caller stops waiting, the run is given up should the claim be granted all the same.
    ///
    /// # Errors
    ///
    /// `Conflict` if a living process drives it; `NotFound`; `RunForgotten`; `Unavailable`.
    async fn claim_run(&self, space: &SpaceName, run: RunId, owner: &OwnerId) -> Result<u64, StoreError>;

    /// Releases a run. Does nothing if `fence` is no longer the current one.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    async fn release_run(&self, space: &SpaceName, run: RunId, fence: u64) -> Result<(), StoreError>;

    /// Frees what the store keeps for `owner`, which claims nothing from now on. Whatever it still drives may be claimed
    /// by others: at once in one file, and elsewhere as soon as the server was told, or after its lease.
    fn release_owner(&self, owner: &OwnerId);

    /// Keeps notes of the trace, in the order given, and drops those beyond `kept`.
    ///
    /// Notes are not commits: they have no number, wake nobody, and may be lost in a power failure.
    ///
    /// # Errors
    ///
    /// `Unavailable`: then either none or all of them are kept.
    async fn append_trace(&self, space: &SpaceName, notes: &[TraceNote], kept: NotesKept) -> Result<(), StoreError>;

    /// The notes that `query` asks for, in the order in which they were kept.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn notes(&self, space: &SpaceName, query: &NoteQuery) -> Result<Vec<TraceNote>, StoreError>;

    /// The entries of `space` that are watched as `query` says, in the order of their times.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn watched(&self, space: &SpaceName, query: &WatchQuery) -> Result<WatchAnswer, StoreError>;

    /// The number of observations of `space` that are neither archived nor expired at `now`. Counts no further than
    /// `limit`.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn live_observations(&self, space: &SpaceName, now: Timestamp, limit: u64) -> Result<u64, StoreError>;

    /// Makes the stored data of `space` smaller. Answers stay the same, except for tombstones that are dropped.
    ///
    /// # Errors
    ///
    /// `Unavailable`: then nothing was done.
    async fn compact(&self, space: &SpaceName, compaction: Compaction) -> Result<Compacted, StoreError>;

    /// Deletes the notes of `space` that contain one of `texts`, in any spelling, or its beginning where the note was
    /// cut.
    ///
    /// # Errors
    ///
    /// `Unavailable`: then nothing was done.
    async fn forget_notes(&self, space: &SpaceName, texts: Vec<String>) -> Result<(), StoreError>;

    /// Erases from the log what the forgotten `run` said: its events and the names of its pages, together with bodies
    /// that nothing else refers to, and its notes. Does a part at a time, beginning after commit `after`, and returns
    /// where the next part begins; `None` if that was the last one. Its entries and turns are erased by commits.
    ///
    /// What was erased already is passed over, so an interrupted caller begins anew.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` unless a commit has marked the run as forgotten ([`Change::EraseRun`]); `Unavailable`:
    /// then nothing of this part was done.
    async fn erase_run_part(&self, space: &SpaceName, run: RunId, after: Seq) -> Result<Option<Seq>, StoreError>;

    /// Overwrites erased content wherever it may still lie in what belongs to the store, in all spaces. Meant for
    /// callers that no longer know what the content was and cannot check whether it is gone. Costs as much as writing
    /// the whole store anew. The answer names what could not be overwritten, because others still read it.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it cannot be overwritten now.
    async fn write_anew(&self) -> Result<Residue, StoreError>;

    /// Does what [`Store::forget_notes`] does, overwrites erased content wherever it may still lie in what belongs to
    /// the store, in all spaces, and searches for `texts` in the rows of `space` and in the bytes of the files. What
    /// other spaces contain is neither reported nor changed.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it cannot be overwritten now.
    async fn scrub(&self, space: &SpaceName, texts: Vec<String>) -> Result<Residue, StoreError>;

    /// All spaces with a commit, by name. A space begins to exist with its first commit: notes of the trace alone, of
    /// what somebody looked for or was refused in it, do not make one.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn spaces(&self) -> Result<Vec<SpaceName>, StoreError>;

    /// Writes `commits` of another store as they are in its log, with their numbers, times, actors and keys, and with
    /// the same outcome as there. Returns the last number, or zero if there are no commits.
    ///
    /// # Errors
    ///
    /// `StaleSpace` if the first commit does not follow the last one of `space`; `Invalid` if the commits contradict
    /// themselves or the data; `Unavailable`. In each case the first few may have been written, each as a whole.
    async fn take_over(&self, space: &SpaceName, commits: Vec<CopiedCommit>) -> Result<Seq, StoreError>;

    /// Keeps an access token of a server. If its id is known, only sets when that token expires and whether it is
    /// revoked.
    ///
    /// # Errors
    ///
    /// `Invalid` if there are too many; `Unavailable`.
    async fn keep_token(&self, token: KeptToken) -> Result<(), StoreError>;

    /// All access tokens, whichever space they open, oldest first, including those that are no longer valid.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    async fn tokens(&self) -> Result<Vec<KeptToken>, StoreError>;

    /// Looks for damage: in the file itself, gaps in the numbering, and rows that do not follow from the log.
    ///
    /// # Errors
    ///
    /// `Unavailable`; damage is an answer, not an error.
    async fn check(&self) -> Result<Checkup, StoreError>;

    /// Copies everything, as it is at one moment, into a file at `to` that [`crate::sqlite::restore`] reads. The file
    /// is complete and durable once it has its name; others can write to the store meanwhile.
    ///
    /// # Errors
    ///
    /// `Invalid` if `to` exists already; `Unavailable`.
    async fn back_up(&self, to: &Path) -> Result<(), StoreError>;

    /// The size of the store's files; `None` if it has no files of its own: a database server knows its size better,
    /// and a store in memory has none.
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

/// `entry` as its `revisions` up to commit `as_of` made it; `None` if it did not exist then.
fn fold_until(entry: &Entry, revisions: Vec<Revision>, as_of: Seq) -> Option<Entry> {
    let mut state: Option<Entry> = None;
    for revision in revisions.into_iter().take_while(|revision| revision.seq <= as_of) {
        match (revision.change, &mut state) {
            (Change::AddEntry(new), state) => {
                *state = Some(Entry::added(*new, entry.handle, revision.seq, revision.at));
            }
            (Change::PatchEntry { fields, .. }, Some(state)) => state.patch(&fields, revision.seq, revision.at),
            (Change::EraseEntry { why, .. }, Some(state)) => {
                state.erase(why, revision.seq, revision.at);
            }
            _ => {}
        }
    }
    state.map(|state| marked_as_erased(state, entry.fields.erased))
}
