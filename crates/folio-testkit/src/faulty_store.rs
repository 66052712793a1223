//! A store that fails on demand.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use folio_engine::run::RunSummary;
use folio_memory::goals::{GoalNames, LinkedCounts};
use folio_memory::id::{EntryRef, PageRef, RunRef, TurnRef};
use folio_memory::page_tree::ParentOf;
use folio_memory::{
    Clock, Entry, EntryId, EntryQuery, KeptPolicy, Link, ListAnswer, NoteQuery, NotesKept, Page, PageHandle, PageId,
    PageQuery, RunId, Seq, SpaceName, Timestamp, TraceNote, Turn, TurnQuery,
};
use folio_store::access::KeptToken;
use folio_store::copy::CopiedCommit;
use folio_store::store::Checkup;
use folio_store::{
    BlobHash, Commit, Committed, CommittedParts, Compacted, Compaction, Journal, LogParts, LogRow, MemoryMark, OwnerId,
    Parts, Residue, Revision, RunCommits, RunQuery, RunRow, Store, StoreError, WatchAnswer, WatchQuery,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Barrier, Notify, watch};

/// The way in which a commit fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written, and the caller is told that the outcome is unknown.
    NotWritten,
    /// It is written, and the caller is told that the outcome is unknown.
    WrittenUnanswered,
    /// From this commit on, everything fails and nothing is written: the store is gone.
    Gone,
}

/// A store that fails the chosen commits, and passes everything else on.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Mutex<Arc<dyn Store>>,
    /// How often another store has taken the place of the first.
    failovers: AtomicU64,
    state: Mutex<State>,
    /// How often somebody has asked what a run writes.
    written_names: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    commits: u64,
    histories: u64,
    journals: u64,
    links: u64,
    entries: u64,
    /// How many commits of the log were read.
    rows: usize,
    listed: usize,
    faults: BTreeMap<u64, Fault>,
    is_gone: bool,
    fails_notes: bool,
    stalls_notes: bool,
    fails_policies: bool,
    fails_claims: bool,
    stalls_runs: bool,
    stalls_heads: bool,
    /// Of how many runs the summaries were asked.
    summaries: usize,
    /// How many of the next reads of journals fail.
    journals_to_fail: u32,
    held: Option<(Work, Arc<Gate>)>,
    /// How many of the next commits wait for each other.
    meeting: Option<(usize, Arc<Barrier>)>,
    /// What happens to commits whose key has this prefix.
    keyed: Option<(&'static str, Keyed)>,
}

/// An operation at which a store can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A run was claimed, but the caller has not got the answer yet.
    Claim,
    /// It is about to overwrite what was erased.
    Scrub,
    /// A commit is about to be made; whoever makes it has read what it depends on.
    Commit,
    /// A commit was made, but the caller has not got the answer yet.
    Committed,
}

/// A gate at which an operation waits until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    come: Notify,
    may: Notify,
}

impl Gate {
    /// Waits until an operation has reached the gate.
    pub async fn wait_until_reached(&self) {
        self.come.notified().await;
    }

    /// Lets the operation continue.
    pub fn open(&self) {
        self.may.notify_one();
    }

    async fn pass(&self) {
        self.come.notify_one();
        self.may.notified().await;
    }
}

#[derive(Debug, Clone, Copy)]
enum Keyed {
    Refused,
    Lost,
}

impl FaultyStore {
    /// A store that passes everything on to `inner` for now.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner: Mutex::new(inner),
            failovers: AtomicU64::new(0),
            state: Mutex::default(),
            written_names: watch::Sender::default(),
        }
    }

    /// How many parts of journals were read so far.
    #[must_use]
    pub fn journals_read(&self) -> u64 {
        self.state().journals
    }

    /// Of how many runs somebody has asked what their last commits say.
    #[must_use]
    pub fn summaries_asked(&self) -> usize {
        self.state().summaries
    }

    /// How often somebody has asked what a run writes.
    #[must_use]
    pub fn written_names_asked(&self) -> watch::Receiver<u64> {
        self.written_names.subscribe()
    }

    /// How many commits of the log were read.
    #[must_use]
    pub fn rows_read(&self) -> usize {
        self.state().rows
    }

    /// How many entries were read in lists.
    #[must_use]
    pub fn entries_listed(&self) -> usize {
        self.state().listed
    }

    /// Fails the commit with this number, counted from 1 over all spaces, including commits that failed.
    pub fn fail(&self, commit: u64, fault: Fault) {
        self.state().faults.insert(commit, fault);
    }

    /// Fails the next commit.
    pub fn fail_next(&self, fault: Fault) {
        let next = self.commits() + 1;
        self.fail(next, fault);
    }

    /// From now on everything fails, as after [`Fault::Gone`].
    pub fn take_away(&self) {
        self.state().is_gone = true;
    }

    /// Lets `other` take the place of the store, as after a failover.
    pub fn fail_over(&self, other: Arc<dyn Store>) {
        *self.inner.lock() = other;
        self.failovers.fetch_add(1, Ordering::SeqCst);
    }

    /// How many commits were attempted so far.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.state().commits
    }

    /// How many histories of entries were read so far.
    #[must_use]
    pub fn histories(&self) -> u64 {
        self.state().histories
    }

    /// How many reads of links there were so far, and how many of single entries.
    #[must_use]
    pub fn links_and_entries(&self) -> (u64, u64) {
        let state = self.state();
        (state.links, state.entries)
    }

    /// Stops all failures.
    pub fn heal(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.is_gone = false;
        state.fails_notes = false;
        state.stalls_notes = false;
        state.fails_policies = false;
        state.fails_claims = false;
        state.stalls_runs = false;
        state.stalls_heads = false;
        state.journals_to_fail = 0;
        state.keyed = None;
    }

    /// From now on, commits whose key begins with `prefix` are refused as invalid; writes in parts are not.
    pub fn refuse_keyed(&self, prefix: &'static str) {
        self.state().keyed = Some((prefix, Keyed::Refused));
    }

    /// From now on, commits whose key begins with `prefix` are not written, and the caller is told that the outcome is
    /// unknown; writes in parts are written.
    pub fn lose_keyed(&self, prefix: &'static str) {
        self.state().keyed = Some((prefix, Keyed::Lost));
    }

    /// From now on, writing notes of the trace fails.
    pub fn fail_notes(&self) {
        self.state().fails_notes = true;
    }

    /// From now on, writing notes of the trace never returns.
    pub fn stall_notes(&self) {
        self.state().stalls_notes = true;
    }

    /// From now on, reading the policy fails.
    pub fn fail_policies(&self) {
        self.state().fails_policies = true;
    }

    /// From now on, claiming a run fails.
    pub fn fail_claims(&self) {
        self.state().fails_claims = true;
    }

    /// From now on, listing runs never returns.
    pub fn stall_runs(&self) {
        self.state().stalls_runs = true;
    }

    /// From now on, asking where journals end never returns: nobody notices that others wrote to them.
    pub fn stall_heads(&self) {
        self.state().stalls_heads = true;
    }

    /// The next `times` reads of a journal fail.
    pub fn fail_journals(&self, times: u32) {
        self.state().journals_to_fail = times;
    }

    /// Holds the next operation of the kind `work`.
    pub fn hold(&self, work: Work) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        self.state().held = Some((work, Arc::clone(&gate)));
        gate
    }

    /// The next `count` commits wait for each other: none is made before the writers of all of them have read what
    /// theirs depends on.
    pub fn let_commits_meet(&self, count: usize) {
        self.state().meeting = Some((count, Arc::new(Barrier::new(count))));
    }

    /// Waits for the other commits, if this one is to wait for them.
    async fn wait_for_others(&self) {
        let barrier = {
            let mut state = self.state();
            let Some((left, barrier)) = &mut state.meeting else {
                return;
            };
            *left -= 1;
            let barrier = Arc::clone(barrier);
            if *left == 0 {
                state.meeting = None;
            }
            barrier
        };
        barrier.wait().await;
    }

    /// Waits if `work` is to be held.
    async fn wait_if_held(&self, work: Work) {
        let held_work = self.state().held.take_if(|(held, _)| *held == work);
        if let Some((_, gate)) = held_work {
            gate.pass().await;
        }
    }

    fn inner(&self) -> Arc<dyn Store> {
        Arc::clone(&self.inner.lock())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Makes `write`, which counts as one commit, as far as the test wants it made. Its idempotency key is `None` if it
    /// is not known beforehand, as that of a write in parts.
    async fn write<T>(
        &self,
        key: Option<&str>,
        write: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.wait_for_others().await;
        self.wait_if_held(Work::Commit).await;
        let keyed = self.state().keyed;
        match keyed.filter(|(prefix, _)| key.unwrap_or_default().starts_with(prefix)) {
            Some((prefix, Keyed::Refused)) => return Err(StoreError::Invalid(format!("{prefix} is refused here"))),
            Some((_, Keyed::Lost)) => return Err(self.failure(WRITING)),
            None => {}
        }
        match self.next_fault() {
            None => {
                let written = write.await;
                self.wait_if_held(Work::Committed).await;
                written
            }
            Some(Fault::NotWritten | Fault::Gone) => Err(self.failure(WRITING)),
            Some(Fault::WrittenUnanswered) => {
                // Whatever the outcome, the caller is not told.
                drop(write.await);
                Err(self.failure(WRITING))
            }
        }
    }

    /// The fault of the next commit, if any.
    fn next_fault(&self) -> Option<Fault> {
        let mut state = self.state();
        state.commits += 1;
        let number = state.commits;
        let fault = state.faults.remove(&number);
        state.is_gone |= fault == Some(Fault::Gone);
        if state.is_gone { Some(Fault::Gone) } else { fault }
    }

    fn failure(&self, doing: &'static str) -> StoreError {
        let reason = "the test wants it to fail".to_owned();
        StoreError::Unavailable {
            doing,
            location: self.inner().location(),
            reason,
            source: None,
        }
    }

    /// The inner store, unless this one is gone.
    fn inner_unless_gone(&self, doing: &'static str) -> Result<Arc<dyn Store>, StoreError> {
        if self.state().is_gone {
            Err(self.failure(doing))
        } else {
            Ok(self.inner())
        }
    }
}

const READING: &str = "read from";
const WRITING: &str = "write to";

#[async_trait]
impl Store for FaultyStore {
    fn location(&self) -> String {
        self.inner().location()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner().clock()
    }

    fn lineage(&self) -> u64 {
        self.inner().lineage() + self.failovers.load(Ordering::SeqCst)
    }

    fn shortage(&self) -> Option<&'static str> {
        self.inner().shortage()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let key = commit.idempotency_key.clone();
        let inner = self.inner();
        self.write(key.as_deref(), inner.commit(commit)).await
    }

    async fn commit_parts(&self, parts: Parts) -> Result<CommittedParts, StoreError> {
        let inner = self.inner();
        self.write(None, inner.commit_parts(parts)).await
    }

    async fn head(&self, space: &SpaceName) -> Result<Seq, StoreError> {
        self.inner_unless_gone(READING)?.head(space).await
    }

    async fn latest(&self, space: &SpaceName) -> Result<Timestamp, StoreError> {
        self.inner_unless_gone(READING)?.latest(space).await
    }

    async fn changes(&self, space: &SpaceName, since: Seq, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        let rows = self.inner_unless_gone(READING)?.changes(space, since, limit).await?;
        self.state().rows += rows.len();
        Ok(rows)
    }

    async fn wait(&self, space: &SpaceName, since: Seq) -> Result<Seq, StoreError> {
        self.inner_unless_gone(READING)?.wait(space, since).await
    }

    async fn memory_mark(&self, space: &SpaceName, now: Timestamp) -> Result<Option<MemoryMark>, StoreError> {
        self.inner_unless_gone(READING)?.memory_mark(space, now).await
    }

    async fn entries(
        &self,
        space: &SpaceName,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, StoreError> {
        let answer = self.inner_unless_gone(READING)?.entries(space, query, now).await?;
        self.state().listed += answer.items.len();
        Ok(answer)
    }

    async fn log_parts(
        &self,
        space: &SpaceName,
        page: PageId,
        without: &'static str,
        now: Timestamp,
    ) -> Result<Vec<LogParts>, StoreError> {
        let store = self.inner_unless_gone(READING)?;
        store.log_parts(space, page, without, now).await
    }

    async fn entry(&self, space: &SpaceName, entry: EntryRef) -> Result<Entry, StoreError> {
        self.state().entries += 1;
        self.inner_unless_gone(READING)?.entry(space, entry).await
    }

    async fn entries_as_of(
        &self,
        space: &SpaceName,
        entries: Vec<EntryId>,
        as_of: Seq,
    ) -> Result<Vec<Entry>, StoreError> {
        let store = self.inner_unless_gone(READING)?;
        store.entries_as_of(space, entries, as_of).await
    }

    async fn history(&self, space: &SpaceName, entry: EntryId) -> Result<Vec<Revision>, StoreError> {
        self.state().histories += 1;
        self.inner_unless_gone(READING)?.history(space, entry).await
    }

    async fn pages(&self, space: &SpaceName, query: &PageQuery) -> Result<Vec<Page>, StoreError> {
        self.inner_unless_gone(READING)?.pages(space, query).await
    }

    async fn page_count(&self, space: &SpaceName, query: &PageQuery) -> Result<u64, StoreError> {
        self.inner_unless_gone(READING)?.page_count(space, query).await
    }

    async fn page(&self, space: &SpaceName, page: PageRef) -> Result<Page, StoreError> {
        self.inner_unless_gone(READING)?.page(space, page).await
    }

    async fn page_parents(&self, space: &SpaceName, root: Option<PageHandle>) -> Result<Vec<ParentOf>, StoreError> {
        self.inner_unless_gone(READING)?.page_parents(space, root).await
    }

    async fn links(&self, space: &SpaceName, end: &str) -> Result<Vec<Link>, StoreError> {
        self.state().links += 1;
        self.inner_unless_gone(READING)?.links(space, end).await
    }

    async fn kept_links(&self, space: &SpaceName, links: Vec<Link>) -> Result<HashSet<Link>, StoreError> {
        self.inner_unless_gone(READING)?.kept_links(space, links).await
    }

    async fn linked_counts(
        &self,
        space: &SpaceName,
        goals: Vec<GoalNames>,
        now: Timestamp,
    ) -> Result<Vec<LinkedCounts>, StoreError> {
        let store = self.inner_unless_gone(READING)?;
        store.linked_counts(space, goals, now).await
    }

    async fn ended(
        &self,
        space: &SpaceName,
        by: Timestamp,
        limit: u32,
    ) -> Result<Vec<(EntryId, Timestamp)>, StoreError> {
        self.inner_unless_gone(READING)?.ended(space, by, limit).await
    }

    async fn policy(&self, space: &SpaceName) -> Result<KeptPolicy, StoreError> {
        if self.state().fails_policies {
            return Err(self.failure(READING));
        }
        self.inner_unless_gone(READING)?.policy(space).await
    }

    async fn newer_policy(&self, space: &SpaceName, known: u32) -> Result<Option<KeptPolicy>, StoreError> {
        if self.state().fails_policies {
            return Err(self.failure(READING));
        }
        self.inner_unless_gone(READING)?.newer_policy(space, known).await
    }

    async fn blob(&self, space: &SpaceName, hash: &BlobHash) -> Result<Vec<u8>, StoreError> {
        self.inner_unless_gone(READING)?.blob(space, hash).await
    }

    async fn turns(&self, space: &SpaceName, query: &TurnQuery) -> Result<Vec<Turn>, StoreError> {
        self.inner_unless_gone(READING)?.turns(space, query).await
    }

    async fn turn(&self, space: &SpaceName, turn: TurnRef) -> Result<Turn, StoreError> {
        self.inner_unless_gone(READING)?.turn(space, turn).await
    }

    async fn runs(&self, space: &SpaceName, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        if self.state().stalls_runs {
            std::future::pending::<()>().await;
        }
        self.inner_unless_gone(READING)?.runs(space, query).await
    }

    async fn run(&self, space: &SpaceName, run: RunRef) -> Result<RunRow, StoreError> {
        self.inner_unless_gone(READING)?.run(space, run).await
    }

    async fn run_heads(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, Seq)>, StoreError> {
        if self.state().stalls_heads {
            std::future::pending::<()>().await;
        }
        self.inner_unless_gone(READING)?.run_heads(space, runs).await
    }

    async fn written_names(&self, space: &SpaceName, run: RunId) -> Result<Vec<String>, StoreError> {
        let names = self.inner_unless_gone(READING)?.written_names(space, run).await;
        self.written_names.send_modify(|asked| *asked += 1);
        names
    }

    async fn runs_so_far(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, RunSummary)>, StoreError> {
        self.state().summaries += runs.len();
        self.inner_unless_gone(READING)?.runs_so_far(space, runs).await
    }

    async fn journal_part(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<Journal, StoreError> {
        let fails = {
            let mut state = self.state();
            state.journals += 1;
            let fails = state.journals_to_fail > 0;
            state.journals_to_fail = state.journals_to_fail.saturating_sub(1);
            fails
        };
        if fails {
            return Err(self.failure(READING));
        }
        self.inner_unless_gone(READING)?
            .journal_part(space, run, since, bytes)
            .await
    }

    async fn run_commits(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<RunCommits, StoreError> {
        self.inner_unless_gone(READING)?
            .run_commits(space, run, since, bytes)
            .await
    }

    async fn claim_run(&self, space: &SpaceName, run: RunId, owner: &OwnerId) -> Result<u64, StoreError> {
        if self.state().fails_claims {
            return Err(self.failure(WRITING));
        }
        let claimed = self.inner_unless_gone(WRITING)?.claim_run(space, run, owner).await;
        self.wait_if_held(Work::Claim).await;
        claimed
    }

    async fn release_run(&self, space: &SpaceName, run: RunId, fence: u64) -> Result<(), StoreError> {
        self.inner_unless_gone(WRITING)?.release_run(space, run, fence).await
    }

    fn release_owner(&self, owner: &OwnerId) {
        self.inner().release_owner(owner);
    }

    async fn append_trace(&self, space: &SpaceName, notes: &[TraceNote], kept: NotesKept) -> Result<(), StoreError> {
        if self.state().stalls_notes {
            std::future::pending::<()>().await;
        }
        if self.state().fails_notes {
            return Err(self.failure(WRITING));
        }
        self.inner_unless_gone(WRITING)?.append_trace(space, notes, kept).await
    }

    async fn notes(&self, space: &SpaceName, query: &NoteQuery) -> Result<Vec<TraceNote>, StoreError> {
        self.inner_unless_gone(READING)?.notes(space, query).await
    }

    async fn watched(&self, space: &SpaceName, query: &WatchQuery) -> Result<WatchAnswer, StoreError> {
        self.inner_unless_gone(READING)?.watched(space, query).await
    }

    async fn live_observations(&self, space: &SpaceName, now: Timestamp, limit: u64) -> Result<u64, StoreError> {
        self.inner_unless_gone(READING)?
            .live_observations(space, now, limit)
            .await
    }

    async fn compact(&self, space: &SpaceName, compaction: Compaction) -> Result<Compacted, StoreError> {
        self.inner_unless_gone(WRITING)?.compact(space, compaction).await
    }

    async fn forget_notes(&self, space: &SpaceName, texts: Vec<String>) -> Result<(), StoreError> {
        self.inner_unless_gone(WRITING)?.forget_notes(space, texts).await
    }

    async fn erase_run_part(&self, space: &SpaceName, run: RunId, after: Seq) -> Result<Option<Seq>, StoreError> {
        self.inner_unless_gone(WRITING)?.erase_run_part(space, run, after).await
    }

    async fn write_anew(&self) -> Result<Residue, StoreError> {
        self.inner_unless_gone(WRITING)?.write_anew().await
    }

    async fn scrub(&self, space: &SpaceName, texts: Vec<String>) -> Result<Residue, StoreError> {
        self.wait_if_held(Work::Scrub).await;
        self.inner_unless_gone(WRITING)?.scrub(space, texts).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceName>, StoreError> {
        self.inner_unless_gone(READING)?.spaces().await
    }

    async fn take_over(&self, space: &SpaceName, commits: Vec<CopiedCommit>) -> Result<Seq, StoreError> {
        let inner = self.inner();
        self.write(None, inner.take_over(space, commits)).await
    }

    async fn keep_token(&self, token: KeptToken) -> Result<(), StoreError> {
        self.inner_unless_gone(WRITING)?.keep_token(token).await
    }

    async fn tokens(&self) -> Result<Vec<KeptToken>, StoreError> {
        self.inner_unless_gone(READING)?.tokens().await
    }

    async fn check(&self) -> Result<Checkup, StoreError> {
        self.inner_unless_gone(READING)?.check().await
    }

    async fn back_up(&self, to: &std::path::Path) -> Result<(), StoreError> {
        self.inner_unless_gone(READING)?.back_up(to).await
    }

    async fn bytes(&self) -> Result<Option<u64>, StoreError> {
        self.inner_unless_gone(READING)?.bytes().await
    }
}

#[cfg(test)]
mod tests {
    use folio_memory::SpaceName;
    use folio_store::sqlite::{OpenOptions, SqliteStore};

    use super::*;
    use crate::contract::scene::Scene;

    #[tokio::test]
    async fn injected_fault_hits_the_chosen_commit() {
        let inner = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
        let faulty = Arc::new(FaultyStore::new(inner));
        let scene = Scene::on(Arc::clone(&faulty) as Arc<dyn Store>);
        faulty.fail(2, Fault::NotWritten);
        faulty.fail(3, Fault::WrittenUnanswered);
        faulty.fail(5, Fault::Gone);
        let mut succeeded = Vec::new();
        for _ in 0..6 {
            succeeded.push(scene.try_commit(Vec::new()).await.is_ok());
        }
        assert_eq!(succeeded, [true, false, false, true, false, false]);
        assert!(scene.store.head(&SpaceName::main()).await.is_err(), "it is gone");
        faulty.heal();
        assert_eq!((scene.head().await, faulty.commits()), (Seq(3), 6));
    }
}
