//! A store in a vector, just faithful enough for the rules of the workspace. The contract suite tests what a store
//! promises.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::run::RunSummary;
use folio_memory::id::{EntryRef, PageRef, Ref, RunRef, TurnRef};
use folio_memory::{
    Change, Clock, Entry, EntryHandle, EntryId, EntryQuery, IdSource, KeptPolicy, Link, ListAnswer, NoteQuery,
    NotesKept, Page, PageHandle, PageQuery, RunId, Seq, SpaceName, Timestamp, TraceNote, Turn, TurnQuery,
};
use ulid::Ulid;

use crate::access::KeptToken;
use crate::commit::{BlobHash, Commit, Committed, CommittedEntry, Expected};
use crate::copy::CopiedCommit;
use crate::error::StoreError;
use crate::parts::{CommittedParts, Parts};
use crate::store::{Checkup, Journal, LogRow, MemoryMark, OwnerId, Revision, RunCommits, RunQuery, RunRow, Store};
use crate::upkeep::{Compacted, Compaction, Residue, WatchAnswer, WatchPlace, WatchQuery};

#[derive(Debug, Default)]
pub(super) struct FakeStore {
    state: Mutex<State>,
    /// Commits that somebody else makes just before the next ones, newest first.
    pub(super) rivals: Mutex<Vec<Commit>>,
    /// Commits that somebody else makes just after the next lists, newest first.
    pub(super) meanwhile: Mutex<Vec<Commit>>,
    /// Whether marks of changes are kept; every commit sets them.
    pub(super) has_marks: AtomicBool,
    /// How many callers count live entries now, and the most at one time.
    pub(super) counting: (AtomicUsize, AtomicUsize),
    /// How often the document of the policy was read.
    pub(super) policies_read: AtomicUsize,
    /// How often another server has taken over.
    failovers: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    log: Vec<LogRow>,
    entries: BTreeMap<EntryId, Entry>,
    pages: Vec<Page>,
    keys: HashMap<String, Committed>,
    policy: KeptPolicy,
    notes: Vec<TraceNote>,
}

impl FakeStore {
    pub(super) fn log(&self) -> Vec<LogRow> {
        self.state.lock().unwrap().log.clone()
    }

    /// Lets another server take over that has only the first `kept` commits.
    pub(super) fn fail_over(&self, kept: usize) {
        self.state.lock().unwrap().log.truncate(kept);
        self.failovers.fetch_add(1, Ordering::SeqCst);
    }
}

impl State {
    fn commit(&mut self, commit: Commit) -> Result<Committed, StoreError> {
        if let Some(done) = commit.idempotency_key.as_ref().and_then(|key| self.keys.get(key)) {
            return Ok(Committed {
                replayed: true,
                ..done.clone()
            });
        }
        let seq = Seq(self.log.len() as u64 + 1);
        let (at, run) = (commit.at, None);
        let mut done = Committed {
            seq,
            at,
            replayed: false,
            entries: Vec::new(),
            pages: Vec::new(),
            run,
        };
        for expected in &commit.expected {
            if let Expected::Policy(expected) = *expected
                && expected != self.policy.version
            {
                let found = self.policy.version;
                return Err(StoreError::OtherPolicy { found, expected });
            }
        }
        for change in &commit.record.changes {
            match change {
                Change::EnsurePage(new) => {
                    if !self.pages.iter().any(|page| page.id == new.id) {
                        let handle = PageHandle(self.pages.len() as u64 + 1);
                        self.pages.push(Page::added((**new).clone(), handle, seq, at));
                    }
                    let page = self.pages.iter().find(|page| page.id == new.id).unwrap();
                    done.pages.push((page.id, page.handle));
                }
                Change::AddEntry(new) => {
                    assert!(
                        self.pages.iter().any(|page| page.id == new.page),
                        "an entry without a page"
                    );
                    let handle = EntryHandle(self.entries.len() as u64 + 1);
                    self.entries
                        .insert(new.id, Entry::added((**new).clone(), handle, seq, at));
                    done.entries.push(CommittedEntry {
                        id: new.id,
                        handle,
                        version: 1,
                        changed: true,
                        conflicts: Vec::new(),
                    });
                }
                Change::PatchEntry {
                    entry,
                    fields,
                    expected_version,
                    ..
                } => {
                    let entry = self.entries.get_mut(entry).unwrap();
                    let changed = !entry.is_unchanged_by(fields);
                    if let Some(expected) = expected_version.filter(|expected| *expected != entry.version && changed) {
                        let (entry, found) = (entry.handle.to_string(), entry.version);
                        return Err(StoreError::StaleVersion { entry, found, expected });
                    }
                    if changed {
                        entry.patch(fields, seq, at);
                    }
                    let (id, handle, version) = (entry.id, entry.handle, entry.version);
                    done.entries.push(CommittedEntry {
                        id,
                        handle,
                        version,
                        changed,
                        conflicts: Vec::new(),
                    });
                }
                Change::SetPolicy { expected_version, .. } => {
                    let found = self.policy.version;
                    let mut policy = self.policy.clone();
                    let is_changed = policy.apply(change, seq);
                    if let Some(expected) = expected_version.filter(|expected| is_changed && *expected != found) {
                        return Err(StoreError::StalePolicy { found, expected });
                    }
                    self.policy = policy;
                }
                Change::RegisterType { .. } => drop(self.policy.apply(change, seq)),
                _ => panic!("no test needs it"),
            }
        }
        if let Some(key) = &commit.idempotency_key {
            self.keys.insert(key.clone(), done.clone());
        }
        let Commit {
            actor,
            idempotency_key,
            record,
            ..
        } = commit;
        self.log.push(LogRow {
            seq,
            at,
            actor,
            idempotency_key,
            record,
        });
        Ok(done)
    }
}

fn missing(what: &'static str, name: impl ToString) -> StoreError {
    StoreError::NotFound {
        what,
        name: name.to_string(),
    }
}

#[async_trait]
impl Store for FakeStore {
    fn location(&self) -> String {
        "fake".to_owned()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let mut state = self.state.lock().unwrap();
        if let Some(rival) = self.rivals.lock().unwrap().pop() {
            state.commit(rival)?;
        }
        state.commit(commit)
    }

    async fn commit_parts(&self, _: Parts) -> Result<CommittedParts, StoreError> {
        panic!("no test needs it")
    }

    async fn head(&self, _: &SpaceName) -> Result<Seq, StoreError> {
        Ok(Seq(self.state.lock().unwrap().log.len() as u64))
    }

    async fn latest(&self, _: &SpaceName) -> Result<Timestamp, StoreError> {
        Ok(self.log().last().map_or(Timestamp::MIN, |row| row.at))
    }

    async fn changes(&self, _: &SpaceName, since: Seq, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        let log = self.log();
        Ok(log
            .into_iter()
            .filter(|row| row.seq > since)
            .take(limit as usize)
            .collect())
    }

    fn lineage(&self) -> u64 {
        self.failovers.load(Ordering::SeqCst)
    }

    async fn wait(&self, space: &SpaceName, since: Seq) -> Result<Seq, StoreError> {
        loop {
            let head = self.head(space).await?;
            if head > since {
                return Ok(head);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn entries(
        &self,
        _: &SpaceName,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, StoreError> {
        let mut state = self.state.lock().unwrap();
        let mut items: Vec<_> = state
            .entries
            .values()
            .filter(|entry| query.matches(entry, now))
            .cloned()
            .collect();
        items.sort_by(|a, b| query.compare(a, b));
        let total = items.len();
        let from: usize = query.cursor.as_ref().map_or(0, |cursor| cursor.parse().unwrap());
        let to = total.min(from + query.limit() as usize);
        let next = (to < total).then(|| to.to_string());
        let items = items[from..to].to_vec();
        let as_of = Seq(state.log.len() as u64);
        if let Some(commit) = self.meanwhile.lock().unwrap().pop() {
            state.commit(commit)?;
        }
        Ok(ListAnswer {
            returned: items.len(),
            items,
            total: total as u64,
            next,
            as_of,
            scores: Vec::new(),
            at_least: false,
        })
    }

    async fn memory_mark(&self, _: &SpaceName, _: Timestamp) -> Result<Option<MemoryMark>, StoreError> {
        let head = self.state.lock().unwrap().log.len() as u64;
        let mark = MemoryMark {
            number: head,
            pages: head,
            since: Seq(head),
            as_of: Seq(head),
        };
        Ok(self.has_marks.load(Ordering::Relaxed).then_some(mark))
    }

    async fn entry(&self, _: &SpaceName, entry: EntryRef) -> Result<Entry, StoreError> {
        let state = self.state.lock().unwrap();
        let is_it = |found: &&Entry| match entry {
            Ref::Id(id) => found.id == id,
            Ref::Handle(handle) => found.handle == handle,
        };
        state
            .entries
            .values()
            .find(is_it)
            .cloned()
            .ok_or_else(|| missing("entry", entry))
    }

    async fn history(&self, _: &SpaceName, entry: EntryId) -> Result<Vec<Revision>, StoreError> {
        let mut revisions = Vec::new();
        for row in self.log() {
            for change in &row.record.changes {
                let is_its = match change {
                    Change::AddEntry(new) => new.id == entry,
                    Change::PatchEntry { entry: changed, .. } => *changed == entry,
                    _ => false,
                };
                if is_its {
                    let version = u32::try_from(revisions.len()).unwrap() + 1;
                    revisions.push(Revision {
                        seq: row.seq,
                        at: row.at,
                        actor: row.actor.clone(),
                        version,
                        change: change.clone(),
                        reason: row.record.reason.clone(),
                    });
                }
            }
        }
        Ok(revisions)
    }

    async fn pages(&self, _: &SpaceName, query: &PageQuery) -> Result<Vec<Page>, StoreError> {
        let state = self.state.lock().unwrap();
        let wanted = |page: &&Page| {
            query.parent.is_none_or(|parent| page.fields.parent == Some(parent))
                && query.after.is_none_or(|after| page.handle.0 > after)
        };
        Ok(state
            .pages
            .iter()
            .filter(wanted)
            .take(query.limit() as usize)
            .cloned()
            .collect())
    }

    async fn page_count(&self, space: &SpaceName, query: &PageQuery) -> Result<u64, StoreError> {
        Ok(self.pages(space, query).await?.len() as u64)
    }

    async fn page(&self, _: &SpaceName, page: PageRef) -> Result<Page, StoreError> {
        let state = self.state.lock().unwrap();
        let is_it = |found: &&Page| match page {
            Ref::Id(id) => found.id == id,
            Ref::Handle(handle) => found.handle == handle,
        };
        state
            .pages
            .iter()
            .find(is_it)
            .cloned()
            .ok_or_else(|| missing("page", page))
    }

    async fn links(&self, _: &SpaceName, _: &str) -> Result<Vec<Link>, StoreError> {
        panic!("no test needs it")
    }

    async fn kept_links(&self, _: &SpaceName, _: Vec<Link>) -> Result<HashSet<Link>, StoreError> {
        panic!("no test needs it")
    }

    async fn ended(&self, _: &SpaceName, by: Timestamp, limit: u32) -> Result<Vec<(EntryId, Timestamp)>, StoreError> {
        let state = self.state.lock().unwrap();
        let ends = state
            .entries
            .values()
            .filter_map(|entry| Some((entry.id, folio_memory::lifecycle::ends_at(&entry.fields)?)));
        let mut ended: Vec<_> = ends.filter(|(_, end)| *end <= by).collect();
        ended.sort_by_key(|(id, end)| (*end, *id));
        ended.truncate(limit as usize);
        Ok(ended)
    }

    async fn policy(&self, _: &SpaceName) -> Result<KeptPolicy, StoreError> {
        Ok(self.state.lock().unwrap().policy.clone())
    }

    async fn newer_policy(&self, _: &SpaceName, known: u32) -> Result<Option<KeptPolicy>, StoreError> {
        let policy = self.state.lock().unwrap().policy.clone();
        let newer = (policy.version > known).then_some(policy);
        self.policies_read
            .fetch_add(usize::from(newer.is_some()), Ordering::SeqCst);
        Ok(newer)
    }

    async fn blob(&self, _: &SpaceName, _: &BlobHash) -> Result<Vec<u8>, StoreError> {
        panic!("no test needs it")
    }

    async fn turns(&self, _: &SpaceName, _: &TurnQuery) -> Result<Vec<Turn>, StoreError> {
        panic!("no test needs it")
    }

    /// No turn ever begins here.
    async fn turn(&self, _: &SpaceName, turn: TurnRef) -> Result<Turn, StoreError> {
        Err(missing("turn", turn))
    }

    async fn runs(&self, _: &SpaceName, _: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        panic!("no test needs it")
    }

    async fn run(&self, _: &SpaceName, _: RunRef) -> Result<RunRow, StoreError> {
        panic!("no test needs it")
    }

    async fn run_heads(&self, _: &SpaceName, _: Vec<RunId>) -> Result<Vec<(RunId, Seq)>, StoreError> {
        panic!("no test needs it")
    }

    async fn written_names(&self, _: &SpaceName, _: RunId) -> Result<Vec<String>, StoreError> {
        panic!("no test needs it")
    }

    async fn runs_so_far(&self, _: &SpaceName, _: Vec<RunId>) -> Result<Vec<(RunId, RunSummary)>, StoreError> {
        panic!("no test needs it")
    }

    async fn journal_part(&self, _: &SpaceName, _: RunId, _: Seq, _: usize) -> Result<Journal, StoreError> {
        panic!("no test needs it")
    }

    async fn run_commits(&self, _: &SpaceName, _: RunId, _: Seq, _: usize) -> Result<RunCommits, StoreError> {
        panic!("no test needs it")
    }

    async fn claim_run(&self, _: &SpaceName, _: RunId, _: &OwnerId) -> Result<u64, StoreError> {
        panic!("no test needs it")
    }

    async fn release_run(&self, _: &SpaceName, _: RunId, _: u64) -> Result<(), StoreError> {
        panic!("no test needs it")
    }

    fn release_owner(&self, _: &OwnerId) {
        panic!("no test needs it")
    }

    async fn append_trace(&self, _: &SpaceName, notes: &[TraceNote], _: NotesKept) -> Result<(), StoreError> {
        self.state.lock().unwrap().notes.extend(notes.iter().cloned());
        Ok(())
    }

    async fn notes(&self, _: &SpaceName, query: &NoteQuery) -> Result<Vec<TraceNote>, StoreError> {
        let state = self.state.lock().unwrap();
        let mut notes: Vec<_> = state.notes.iter().filter(|note| query.matches(note)).cloned().collect();
        if query.since.is_none() {
            notes.drain(..notes.len().saturating_sub(query.limit));
        }
        notes.truncate(query.limit);
        Ok(notes)
    }

    async fn watched(&self, _: &SpaceName, query: &WatchQuery) -> Result<WatchAnswer, StoreError> {
        let state = self.state.lock().unwrap();
        let of = |entry: &Entry| {
            let watched = folio_memory::keeping::watched(entry).into_iter();
            let found = watched.filter(|watched| watched.what == query.what && watched.at <= query.until);
            found
                .map(|watched| ((watched.at, entry.handle), entry.id))
                .collect::<Vec<_>>()
        };
        let after = query.after.map(|after| (after.at, after.entry));
        let all = state.entries.values().flat_map(of);
        let mut found: Vec<_> = all.filter(|(place, _)| Some(*place) > after).collect();
        found.sort_unstable();
        let goes_on = found.len() > query.limit as usize;
        found.truncate(query.limit as usize);
        let next = found.last().filter(|_| goes_on);
        let next = next.map(|((at, entry), _)| WatchPlace { at: *at, entry: *entry });
        let entries = found.iter().map(|(_, id)| state.entries[id].clone()).collect();
        Ok(WatchAnswer { entries, next })
    }

    async fn live_observations(&self, _: &SpaceName, now: Timestamp, _: u64) -> Result<u64, StoreError> {
        let counting = self.counting.0.fetch_add(1, Ordering::Relaxed) + 1;
        self.counting.1.fetch_max(counting, Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.counting.0.fetch_sub(1, Ordering::Relaxed);
        let state = self.state.lock().unwrap();
        let live = state
            .entries
            .values()
            .filter(|entry| entry.state(now) == folio_memory::State::Live);
        Ok(live.count() as u64)
    }

    async fn compact(&self, _: &SpaceName, _: Compaction) -> Result<Compacted, StoreError> {
        Ok(Compacted::default())
    }

    async fn forget_notes(&self, _: &SpaceName, _: Vec<String>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn erase_run_part(&self, _: &SpaceName, _: RunId, _: Seq) -> Result<Option<Seq>, StoreError> {
        Ok(None)
    }

    async fn write_anew(&self) -> Result<Residue, StoreError> {
        Ok(Residue::default())
    }

    async fn scrub(&self, _: &SpaceName, _: Vec<String>) -> Result<Residue, StoreError> {
        Ok(Residue::default())
    }

    async fn spaces(&self) -> Result<Vec<SpaceName>, StoreError> {
        panic!("no test needs it")
    }

    async fn take_over(&self, _: &SpaceName, _: Vec<CopiedCommit>) -> Result<Seq, StoreError> {
        panic!("no test needs it")
    }

    async fn keep_token(&self, _: KeptToken) -> Result<(), StoreError> {
        panic!("no test needs it")
    }

    async fn tokens(&self) -> Result<Vec<KeptToken>, StoreError> {
        panic!("no test needs it")
    }

    async fn check(&self) -> Result<Checkup, StoreError> {
        panic!("no test needs it")
    }

    async fn back_up(&self, _: &std::path::Path) -> Result<(), StoreError> {
        panic!("no test needs it")
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Clone, Default)]
pub(super) struct StillClock(pub(super) Arc<Mutex<Timestamp>>);

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// Ids that count up.
#[derive(Debug, Default)]
pub(super) struct CountingIds(Mutex<u128>);

impl IdSource for CountingIds {
    fn next(&self, now: Timestamp) -> Ulid {
        let mut last = self.0.lock().unwrap();
        *last += 1;
        Ulid::from_parts(u64::try_from(now.as_millis()).unwrap(), *last)
    }
}
