//! The interface of every store, implemented by the server.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use folio_engine::run::RunSummary;
use folio_memory::goals::{GoalNames, LinkedCounts};
use folio_memory::id::{EntryRef, PageRef, RunRef, TurnRef};
use folio_memory::page_tree::ParentOf;
use folio_memory::{
    Clock, Entry, EntryId, EntryQuery, KeptPolicy, Link, ListAnswer, NoteQuery, NotesKept, Page, PageHandle, PageId,
    PageQuery, RunId, Seq, SpaceName, Timestamp, TraceNote, Turn, TurnQuery,
};
use tokio::time::Instant;

use super::at_work::{MOMENT_WITH_LOCKS, within};
use super::claim::Wanted;
use super::patience::Wait;
use super::reach::Call;
use super::wake::POLL_INTERVAL;
use super::{
    PostgresStore, blob, check, commit, compact, entry, erase, journal, link, linked, list, log_parts, page, patiently,
    policy, residue, run, token, trace, turn, watch, written,
};
use crate::access::KeptToken;
use crate::commit::{BlobHash, Commit, Committed};
use crate::copy::CopiedCommit;
use crate::error::StoreError;
use crate::linked::{with_counts_by_reading, with_terms};
use crate::parts::{CommittedParts, Parts};
use crate::prepare::Prepared;
use crate::silence::DRIVER_RECHECK_PAUSE;
use crate::store::{
    Checkup, Journal, LogParts, LogRow, OwnerId, Revision, RunCommits, RunQuery, RunRow, Store, one_by_one,
};
use crate::upkeep::{Compacted, Compaction, Residue, WatchAnswer, WatchQuery};

/// The session, or an early return of `$none` if the space does not exist.
macro_rules! or_none {
    ($session:expr, $none:expr) => {
        match $session.as_deref() {
            Some(session) => session,
            None => return Ok($none),
        }
    };
}

#[async_trait]
impl Store for PostgresStore {
    fn location(&self) -> String {
        self.inner.target.location.clone()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.clock) as Arc<dyn Clock>
    }

    fn shortage(&self) -> Option<&'static str> {
        self.inner.connections.are_few().then_some(
            "the server takes fewer connections than it was asked for, so requests wait for one another; allow more of \
             them, or ask for fewer with connections=N in the store URL",
        )
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let inner = Arc::clone(&self.inner);
        let prepared = if commit.is_large() {
            let inner = Arc::clone(&inner);
            self.on_threads("write to", async move { inner.prepared(commit).await })
                .await?
        } else {
            Prepared::of(commit)?
        };
        self.on_threads("write to", async move { inner.write(prepared).await })
            .await
    }

    async fn commit_parts(&self, parts: Parts) -> Result<CommittedParts, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_threads("write to", async move { inner.commit_parts(parts).await })
            .await
    }

    async fn head(&self, space: &SpaceName) -> Result<Seq, StoreError> {
        self.read(space, |session, _| async move {
            let session = or_none!(session, Seq(0));
            Ok(commit::ends(session).await?.head)
        })
        .await
    }

    async fn latest(&self, space: &SpaceName) -> Result<Timestamp, StoreError> {
        self.read(space, |session, _| async move {
            let session = or_none!(session, Timestamp::MIN);
            Ok(commit::ends(session).await?.at)
        })
        .await
    }

    async fn changes(&self, space: &SpaceName, since: Seq, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        self.read(space, move |session, _| async move {
            let session = or_none!(session, Vec::new());
            journal::changes(session, since, limit).await
        })
        .await
    }

    async fn wait(&self, space: &SpaceName, since: Seq) -> Result<Seq, StoreError> {
        let wake = &self.inner.wake;
        let mut signal = wake.listen();
        loop {
            signal.mark_unchanged();
            let gaps = wake.gaps();
            let head = self.head(space).await?;
            if head > since {
                return Ok(head);
            }
            let next_look = Instant::now() + POLL_INTERVAL;
            while wake.gaps() == gaps && tokio::time::timeout_at(next_look, signal.changed()).await.is_ok() {
                signal.mark_unchanged();
                let Some(known) = self.inner.known(space) else { break };
                if let Some(head) = wake.heard(known).filter(|head| *head > since) {
                    return Ok(head);
                }
            }
        }
    }

    fn lineage(&self) -> u64 {
        self.inner.lineage.load(Ordering::Acquire)
    }

    async fn entries(
        &self,
        space: &SpaceName,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, StoreError> {
        if query.text.is_some() {
            return self.search(space, query, now).await;
        }
        let (name, query) = (space.clone(), query.clone());
        self.read(space, move |session, inner| {
            let (name, query) = (name.clone(), query.clone());
            async move { list::entries(&inner, session.as_deref(), &name, &query, now).await }
        })
        .await
    }

    async fn entries_of_each(
        &self,
        space: &SpaceName,
        queries: Vec<EntryQuery>,
        now: Timestamp,
    ) -> Result<Vec<ListAnswer<Entry>>, StoreError> {
        if queries.len() < 2 || queries.iter().any(|query| query.text.is_some()) {
            return one_by_one(self, space, &queries, now).await;
        }
        let (name, queries) = (space.clone(), Arc::new(queries));
        self.read(space, move |session, inner| {
            let (name, queries) = (name.clone(), Arc::clone(&queries));
            async move {
                let mut answers = Vec::with_capacity(queries.len());
                for query in &*queries {
                    answers.push(list::entries(&inner, session.as_deref(), &name, query, now).await?);
                }
                Ok(answers)
            }
        })
        .await
    }

    async fn log_parts(
        &self,
        space: &SpaceName,
        page: PageId,
        without: &'static str,
        now: Timestamp,
    ) -> Result<Vec<LogParts>, StoreError> {
        self.read(space, move |session, _| async move {
            log_parts::list(or_none!(session, Vec::new()), page, without, now).await
        })
        .await
    }

    async fn entry(&self, space: &SpaceName, entry: EntryRef) -> Result<Entry, StoreError> {
        self.read(space, move |session, _| async move {
            entry::read(session.as_deref(), entry).await
        })
        .await
    }

    async fn entries_as_of(
        &self,
        space: &SpaceName,
        entries: Vec<EntryId>,
        as_of: Seq,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read(space, move |session, _| {
            let entries = entries.clone();
            async move { journal::entries_as_of(or_none!(session, Vec::new()), &entries, as_of).await }
        })
        .await
    }

    async fn history(&self, space: &SpaceName, entry: EntryId) -> Result<Vec<Revision>, StoreError> {
        self.read(space, move |session, _| async move {
            journal::history(session.as_deref(), entry).await
        })
        .await
    }

    async fn pages(&self, space: &SpaceName, query: &PageQuery) -> Result<Vec<Page>, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { page::list(or_none!(session, Vec::new()), &query).await }
        })
        .await
    }

    async fn page_count(&self, space: &SpaceName, query: &PageQuery) -> Result<u64, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { page::count_of(or_none!(session, 0), &query).await }
        })
        .await
    }

    async fn page(&self, space: &SpaceName, page: PageRef) -> Result<Page, StoreError> {
        self.read(space, move |session, _| async move {
            page::read(session.as_deref(), page).await
        })
        .await
    }

    async fn page_parents(&self, space: &SpaceName, root: Option<PageHandle>) -> Result<Vec<ParentOf>, StoreError> {
        self.read(space, move |session, _| async move {
            page::parents(or_none!(session, Vec::new()), root).await
        })
        .await
    }

    async fn links(&self, space: &SpaceName, end: &str) -> Result<Vec<Link>, StoreError> {
        let end = end.to_owned();
        self.read(space, move |session, _| {
            let end = end.clone();
            async move { link::list(or_none!(session, Vec::new()), &end).await }
        })
        .await
    }

    async fn kept_links(&self, space: &SpaceName, links: Vec<Link>) -> Result<HashSet<Link>, StoreError> {
        let links = Arc::new(links);
        self.read(space, move |session, _| {
            let links = Arc::clone(&links);
            async move { link::kept(or_none!(session, HashSet::new()), &links).await }
        })
        .await
    }

    async fn linked_counts(
        &self,
        space: &SpaceName,
        goals: Vec<GoalNames>,
        now: Timestamp,
    ) -> Result<Vec<LinkedCounts>, StoreError> {
        let (goals, others) = with_terms(goals);
        let goals = Arc::new(goals);
        let counted = self.read(space, move |session, _| {
            let goals = Arc::clone(&goals);
            async move {
                let nothing = vec![LinkedCounts::default(); goals.len()];
                linked::counts(or_none!(session, nothing), &goals, now).await
            }
        });
        with_counts_by_reading(self, space, counted.await?, others, now).await
    }

    async fn ended(
        &self,
        space: &SpaceName,
        by: Timestamp,
        limit: u32,
    ) -> Result<Vec<(EntryId, Timestamp)>, StoreError> {
        self.read(space, move |session, _| async move {
            watch::ended(or_none!(session, Vec::new()), by, limit).await
        })
        .await
    }

    async fn policy(&self, space: &SpaceName) -> Result<KeptPolicy, StoreError> {
        self.read(space, |session, _| async move {
            policy::read(or_none!(session, KeptPolicy::default())).await
        })
        .await
    }

    async fn newer_policy(&self, space: &SpaceName, known: u32) -> Result<Option<KeptPolicy>, StoreError> {
        self.read(space, move |session, _| async move {
            policy::read_newer(or_none!(session, None), known).await
        })
        .await
    }

    async fn blob(&self, space: &SpaceName, hash: &BlobHash) -> Result<Vec<u8>, StoreError> {
        let hash = hash.clone();
        self.read(space, move |session, _| {
            let hash = hash.clone();
            async move { blob::read(session.as_deref(), &hash).await }
        })
        .await
    }

    async fn turns(&self, space: &SpaceName, query: &TurnQuery) -> Result<Vec<Turn>, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { turn::list(or_none!(session, Vec::new()), &query).await }
        })
        .await
    }

    async fn turn(&self, space: &SpaceName, turn: TurnRef) -> Result<Turn, StoreError> {
        self.read(space, move |session, _| async move {
            turn::read(session.as_deref(), turn).await
        })
        .await
    }

    async fn runs(&self, space: &SpaceName, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let query = query.clone();
        self.read(space, move |session, inner| {
            let query = query.clone();
            async move { run::list(or_none!(session, Vec::new()), &query, &inner.owners).await }
        })
        .await
    }

    async fn run(&self, space: &SpaceName, run: RunRef) -> Result<RunRow, StoreError> {
        self.read(space, move |session, inner| async move {
            run::read(session.as_deref(), run, &inner.owners).await
        })
        .await
    }

    async fn run_heads(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, Seq)>, StoreError> {
        let runs = Arc::new(runs);
        self.read(space, move |session, _| {
            let runs = Arc::clone(&runs);
            async move {
                match session.as_deref() {
                    Some(session) => run::heads(session, &runs).await,
                    None => Ok(Vec::new()),
                }
            }
        })
        .await
    }

    async fn written_names(&self, space: &SpaceName, run: RunId) -> Result<Vec<String>, StoreError> {
        self.read(space, move |session, inner| async move {
            written::names_of(or_none!(session, Vec::new()), run, &inner.owners).await
        })
        .await
    }

    async fn runs_so_far(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, RunSummary)>, StoreError> {
        let runs = Arc::new(runs);
        self.read(space, move |session, _| {
            let runs = Arc::clone(&runs);
            async move {
                match session.as_deref() {
                    Some(session) => run::so_far(session, &runs).await,
                    None => Ok(Vec::new()),
                }
            }
        })
        .await
    }

    async fn journal_part(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<Journal, StoreError> {
        self.read(space, move |session, _| async move {
            journal::of_run(session.as_deref(), run, since, bytes).await
        })
        .await
    }

    async fn run_commits(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<RunCommits, StoreError> {
        self.read(space, move |session, _| async move {
            journal::commits_of_run(session.as_deref(), run, since, bytes).await
        })
        .await
    }

    async fn claim_run(&self, space: &SpaceName, run: RunId, owner: &OwnerId) -> Result<u64, StoreError> {
        loop {
            let wanted = Wanted {
                inner: Arc::clone(&self.inner),
                runtime: self.runtime.clone(),
                space: space.clone(),
                run,
                owner: owner.clone(),
            };
            if let Some(granted) = self.on_threads("write to", wanted.claim()).await? {
                return Ok(granted.taken());
            }
            // Nobody is kept from writing meanwhile.
            tokio::time::sleep(DRIVER_RECHECK_PAUSE).await;
        }
    }

    async fn release_run(&self, space: &SpaceName, run: RunId, fence: u64) -> Result<(), StoreError> {
        self.write(space, move |session, _| async move {
            run::release(or_none!(session, ()), run, fence).await
        })
        .await
    }

    fn release_owner(&self, owner: &OwnerId) {
        if self.inner.owners.release(owner) {
            let (inner, owner) = (Arc::clone(&self.inner), owner.0.clone());
            drop(self.runtime.spawn(async move {
                inner.owners.delete_leases(vec![owner], &inner.connections).await;
            }));
        }
    }

    async fn append_trace(&self, space: &SpaceName, notes: &[TraceNote], kept: NotesKept) -> Result<(), StoreError> {
        if notes.is_empty() {
            return Ok(());
        }
        let rows = trace::rows_of(notes)?;
        let (inner, space) = (Arc::clone(&self.inner), space.clone());
        self.on_threads("write to", async move {
            let kept = inner.keep_notes(&space, &rows, kept).await;
            kept.map_err(|failure| failure.into_error("write to", &inner.target.location))
        })
        .await
    }

    async fn notes(&self, space: &SpaceName, query: &NoteQuery) -> Result<Vec<TraceNote>, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { trace::list(or_none!(session, Vec::new()), &query).await }
        })
        .await
    }

    async fn watched(&self, space: &SpaceName, query: &WatchQuery) -> Result<WatchAnswer, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { watch::entries(or_none!(session, WatchAnswer::default()), &query).await }
        })
        .await
    }

    async fn live_observations(&self, space: &SpaceName, now: Timestamp, limit: u64) -> Result<u64, StoreError> {
        self.read(space, move |session, _| async move {
            watch::live(or_none!(session, 0), now, limit).await
        })
        .await
    }

    async fn compact(&self, space: &SpaceName, compaction: Compaction) -> Result<Compacted, StoreError> {
        self.write(space, move |session, _| async move {
            compact::compact(or_none!(session, Compacted::default()), &compaction).await
        })
        .await
    }

    async fn forget_notes(&self, space: &SpaceName, texts: Vec<String>) -> Result<(), StoreError> {
        let texts = Arc::new(texts);
        self.write(space, move |session, _| {
            let texts = Arc::clone(&texts);
            async move { trace::forget_texts(or_none!(session, ()), &texts).await }
        })
        .await
    }

    async fn erase_run_part(&self, space: &SpaceName, run: RunId, after: Seq) -> Result<Option<Seq>, StoreError> {
        self.write(space, move |session, _| async move {
            erase::remove_run_part(session.as_deref(), run, after).await
        })
        .await
    }

    async fn write_anew(&self) -> Result<Residue, StoreError> {
        // No row contains erased content, and the files belong to the server.
        Ok(Residue::default())
    }

    async fn scrub(&self, space: &SpaceName, texts: Vec<String>) -> Result<Residue, StoreError> {
        if texts.is_empty() {
            return Ok(Residue::default());
        }
        self.forget_notes(space, texts.clone()).await?;
        let texts = Arc::new(texts);
        self.read(space, move |session, _| {
            let texts = Arc::clone(&texts);
            async move { residue::search(or_none!(session, Residue::default()), &texts).await }
        })
        .await
    }

    async fn spaces(&self) -> Result<Vec<SpaceName>, StoreError> {
        let inner = Arc::clone(&self.inner);
        let spaces = self.on_threads("read from", async move {
            let wait = Wait::begin();
            let spaces = patiently!(reads inner, wait, { inner.all_spaces(wait).await });
            spaces.map_err(|failure| failure.into_error("read from", &inner.target.location))
        });
        // What has no commit may have a row all the same, for its notes.
        let mut written = Vec::new();
        for space in spaces.await? {
            if self.head(&space).await? > Seq(0) {
                written.push(space);
            }
        }
        Ok(written)
    }

    async fn take_over(&self, space: &SpaceName, commits: Vec<CopiedCommit>) -> Result<Seq, StoreError> {
        let (inner, space) = (Arc::clone(&self.inner), space.clone());
        self.on_threads("write to", async move { inner.take_over(&space, commits).await })
            .await
    }

    async fn keep_token(&self, token: KeptToken) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_threads("write to", async move {
            let wait = Wait::begin();
            let kept = patiently!(inner, wait, {
                let client = inner.connections.take(Call::Writes, wait).await?;
                let keeping = within(MOMENT_WITH_LOCKS, token::keep(&client, &token));
                inner.reach.unless_gone(keeping).await
            });
            kept.map_err(|failure| failure.into_error("write to", &inner.target.location))
        })
        .await
    }

    async fn tokens(&self) -> Result<Vec<KeptToken>, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_threads("read from", async move {
            let wait = Wait::begin();
            let tokens = patiently!(reads inner, wait, {
                let client = inner.connections.take(Call::Reads, wait).await?;
                let listing = within(MOMENT_WITH_LOCKS, token::list(&client));
                inner.reach.unless_gone(listing).await
            });
            tokens.map_err(|failure| failure.into_error("read from", &inner.target.location))
        })
        .await
    }

    async fn check(&self) -> Result<Checkup, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_threads("read from", async move {
            let found = check::check(&inner).await;
            found.map_err(|failure| failure.into_error("read from", &inner.target.location))
        })
        .await
    }

    async fn back_up(&self, _: &Path) -> Result<(), StoreError> {
        let reason = format!(
            "back up {} with PostgreSQL's own tools: pg_dump for its current state, or archived WAL for any point in time",
            self.inner.target.location
        );
        Err(StoreError::Invalid(reason))
    }
}
