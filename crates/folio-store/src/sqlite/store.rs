//! The interface of every store, for one file.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::run::RunSummary;
use folio_memory::goals::{GoalNames, LinkedCounts};
use folio_memory::id::{EntryRef, PageRef, RunRef, TurnRef};
use folio_memory::page_tree::ParentOf;
use folio_memory::{
    Entry, EntryId, EntryQuery, KeptPolicy, Link, ListAnswer, NoteQuery, NotesKept, Page, PageHandle, PageId,
    PageQuery, RunId, Seq, SpaceName, Timestamp, TraceNote, Turn, TurnQuery,
};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{Semaphore, mpsc};

use super::job::{ForgottenRunPart, InParts, Job, Next, RunClaim, RunRelease};
use super::trace::Notes;
use super::writer::Writer;
use super::{
    SqliteStore, backup, blob, check, compact, entry, journal, link, linked, list, log_parts, page, policy, run, scope,
    token, trace, turn, watch, written,
};
use crate::access::KeptToken;
use crate::commit::{BlobHash, Commit, Committed};
use crate::copy::CopiedCommit;
use crate::error::StoreError;
use crate::linked::{with_counts_by_reading, with_terms};
use crate::live::is_for_live_entries;
use crate::parts::{self, CommittedParts, Parts};
use crate::prepare::Prepared;
use crate::silence::DRIVER_RECHECK_PAUSE;
use crate::store::{
    Checkup, Journal, LogParts, LogRow, MemoryMark, OwnerId, Revision, RunCommits, RunQuery, RunRow, Store, one_by_one,
};
use crate::upkeep::{Compacted, Compaction, Residue, WatchAnswer, WatchQuery};

/// How many parts of a write are prepared while another one is written.
const PARTS: usize = 2;

/// How many pages can be read in a moment.
const FEW_PAGES: u32 = 20;

/// A claim whose caller waits for it. If the caller stops waiting, what is granted all the same is given up.
struct LeftClaim<'s> {
    store: &'s SqliteStore,
    /// `None` once the caller has the answer.
    claim: Option<RunClaim>,
}

impl Drop for LeftClaim<'_> {
    fn drop(&mut self) {
        if let (Some(claim), Some(jobs)) = (self.claim.take(), &self.store.jobs) {
            // Behind the claim, if that is in the queue.
            if let Err(mpsc::error::TrySendError::Full(job)) = jobs.try_send(Job::Unclaim(claim)) {
                let jobs = jobs.clone();
                let waiting = std::thread::Builder::new().spawn(move || jobs.blocking_send(job));
                // Without a thread, the run stays taken as long as its owner lives.
                drop(waiting);
            }
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let prepared = if commit.is_large() {
            let prepared = tokio::task::spawn_blocking(move || Prepared::of(commit)).await;
            prepared
                .map_err(|error| self.unavailable("write to", "the commit was not prepared", Some(Box::new(error))))??
        } else {
            Prepared::of(commit)?
        };
        let prepared = Arc::new(prepared);
        self.write(|answer| Job::Commit(Arc::clone(&prepared), answer)).await
    }

    async fn commit_parts(&self, mut parts: Parts) -> Result<CommittedParts, StoreError> {
        let prepare = async |commit| {
            let prepared = tokio::task::spawn_blocking(move || Prepared::of(commit)).await;
            prepared.map_err(|error| self.unavailable("write to", "a part was not prepared", Some(Box::new(error))))?
        };
        let first = prepare(parts.next().await?.ok_or_else(parts::no_parts_error)?).await?;
        let space = first.space.clone();
        // In memory, readers wait for the writer: nothing is begun before all parts are there.
        let is_in_memory = self.file.is_none();
        let (sender, rest) = mpsc::channel(if is_in_memory { Semaphore::MAX_PERMITS } else { PARTS });
        let feeding = async move {
            while let Some(commit) = parts.next().await? {
                parts::of_one_space(&space, &commit.space)?;
                let next = Next::Part(Box::new(prepare(commit).await?));
                // The receiver reports why it does not want more.
                if sender.send(next).await.is_err() {
                    return Ok(());
                }
            }
            drop(sender.send(Next::End).await);
            Ok(())
        };
        let rest = Mutex::new(rest);
        let writing = self.write(|answer| Job::Parts(Box::new(InParts { first, rest }), answer));
        if is_in_memory {
            feeding.await?;
            return writing.await;
        }
        let (fed, written) = tokio::join!(feeding, writing);
        fed.and(written)
    }

    async fn head(&self, space: &SpaceName) -> Result<Seq, StoreError> {
        self.read_one(space, |conn, space| {
            let Some(space) = space else { return Ok(Seq(0)) };
            Ok(journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head))
        })
        .await
    }

    async fn latest(&self, space: &SpaceName) -> Result<Timestamp, StoreError> {
        self.read_one(space, |conn, space| {
            let Some(space) = space else { return Ok(Timestamp::MIN) };
            Ok(journal::last(conn, space)?.map_or(Timestamp::MIN, |(_, at)| at))
        })
        .await
    }

    async fn changes(&self, space: &SpaceName, since: Seq, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        self.read(space, move |conn, space| {
            let Some(space) = space else { return Ok(Vec::new()) };
            journal::changes(conn, space, since, limit)
        })
        .await
    }

    async fn wait(&self, space: &SpaceName, since: Seq) -> Result<Seq, StoreError> {
        let mut listener = self.wake.listen();
        loop {
            listener.attend();
            let head = self.head(space).await?;
            if head > since {
                return Ok(head);
            }
            listener.ring().await;
        }
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
        // The index answers from memory; what it does not cover is read and sorted, which may take long.
        let is_quick = self.living.is_ready(space) && is_for_live_entries(query);
        let (name, query, living) = (space.clone(), query.clone(), Arc::clone(&self.living));
        let question = move |conn: &Connection, space| list::entries(conn, &living, &name, space, &query, now);
        if is_quick {
            self.read_one(space, question).await
        } else {
            self.read(space, question).await
        }
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
        let (name, living) = (space.clone(), Arc::clone(&self.living));
        self.read(space, move |conn, space| {
            let answers = queries.iter();
            let answers = answers.map(|query| list::entries(conn, &living, &name, space, query, now));
            answers.collect()
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
        self.read(space, move |conn, space| {
            log_parts::list(conn, space, page, without, now)
        })
        .await
    }

    async fn entry(&self, space: &SpaceName, entry: EntryRef) -> Result<Entry, StoreError> {
        self.read_one(space, move |conn, space| entry::read(conn, space, entry))
            .await
    }

    async fn entries_as_of(
        &self,
        space: &SpaceName,
        entries: Vec<EntryId>,
        as_of: Seq,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read(space, move |conn, space| match space {
            Some(space) => journal::entries_as_of(conn, space, &entries, as_of),
            None => Ok(Vec::new()),
        })
        .await
    }

    async fn history(&self, space: &SpaceName, entry: EntryId) -> Result<Vec<Revision>, StoreError> {
        self.read(space, move |conn, space| journal::history(conn, space, entry))
            .await
    }

    async fn histories(&self, space: &SpaceName, entries: &[EntryId]) -> Result<Vec<Vec<Revision>>, StoreError> {
        let entries = entries.to_vec();
        self.read(space, move |conn, space| journal::histories(conn, space, &entries))
            .await
    }

    async fn pages(&self, space: &SpaceName, query: &PageQuery) -> Result<Vec<Page>, StoreError> {
        let query = query.clone();
        // An index leads to these few pages.
        let is_small = (query.run.is_some() || query.thread.is_some()) && query.limit() <= FEW_PAGES;
        let question = move |conn: &Connection, space| page::list(conn, space, &query);
        if is_small {
            self.read_one(space, question).await
        } else {
            self.read(space, question).await
        }
    }

    async fn page_count(&self, space: &SpaceName, query: &PageQuery) -> Result<u64, StoreError> {
        let query = query.clone();
        self.read(space, move |conn, space| page::count(conn, space, &query))
            .await
    }

    async fn page(&self, space: &SpaceName, page: PageRef) -> Result<Page, StoreError> {
        self.read_one(space, move |conn, space| page::read(conn, space, page))
            .await
    }

    async fn page_parents(&self, space: &SpaceName, root: Option<PageHandle>) -> Result<Vec<ParentOf>, StoreError> {
        self.read(space, move |conn, space| page::parents(conn, space, root))
            .await
    }

    async fn memory_mark(&self, space: &SpaceName, now: Timestamp) -> Result<Option<MemoryMark>, StoreError> {
        let marks = Arc::clone(&self.marks);
        self.read_one(space, move |conn, space| {
            let Some(known) = space else { return Ok(None) };
            // No commit announces an entry that expired without a revision.
            if watch::has_ended(conn, known, now)? {
                return Ok(None);
            }
            let as_of = journal::last(conn, known)?.map_or(Seq(0), |(head, _)| head);
            Ok(marks.at(known, as_of))
        })
        .await
    }

    async fn links(&self, space: &SpaceName, end: &str) -> Result<Vec<Link>, StoreError> {
        let end = end.to_owned();
        self.read(space, move |conn, space| link::list(conn, space, &end)).await
    }

    async fn kept_links(&self, space: &SpaceName, links: Vec<Link>) -> Result<HashSet<Link>, StoreError> {
        self.read(space, move |conn, space| link::kept(conn, space, links))
            .await
    }

    async fn linked_counts(
        &self,
        space: &SpaceName,
        goals: Vec<GoalNames>,
        now: Timestamp,
    ) -> Result<Vec<LinkedCounts>, StoreError> {
        let (goals, others) = with_terms(goals);
        let counted = self.read(space, move |conn, space| {
            let Some(space) = space else {
                return Ok(vec![LinkedCounts::default(); goals.len()]);
            };
            let counts = goals
                .iter()
                .map(|(goal, terms)| linked::counts(conn, space, (goal, terms), now));
            counts.collect()
        });
        with_counts_by_reading(self, space, counted.await?, others, now).await
    }

    async fn ended(
        &self,
        space: &SpaceName,
        by: Timestamp,
        limit: u32,
    ) -> Result<Vec<(EntryId, Timestamp)>, StoreError> {
        self.read_one(space, move |conn, space| watch::ended(conn, space, by, limit))
            .await
    }

    async fn policy(&self, space: &SpaceName) -> Result<KeptPolicy, StoreError> {
        self.read_one(space, policy::read).await
    }

    async fn newer_policy(&self, space: &SpaceName, known: u32) -> Result<Option<KeptPolicy>, StoreError> {
        self.read_one(space, move |conn, space| policy::read_newer(conn, space, known))
            .await
    }

    async fn blob(&self, space: &SpaceName, hash: &BlobHash) -> Result<Vec<u8>, StoreError> {
        let hash = hash.clone();
        self.read(space, move |conn, space| blob::read(conn, space, &hash))
            .await
    }

    async fn turns(&self, space: &SpaceName, query: &TurnQuery) -> Result<Vec<Turn>, StoreError> {
        let query = query.clone();
        // A run has few turns.
        let is_quick = query.run.is_some() && query.limit == 1;
        let question = move |conn: &Connection, space| turn::list(conn, space, &query);
        if is_quick {
            self.read_one(space, question).await
        } else {
            self.read(space, question).await
        }
    }

    async fn turn(&self, space: &SpaceName, turn: TurnRef) -> Result<Turn, StoreError> {
        self.read_one(space, move |conn, space| turn::read(conn, space, turn))
            .await
    }

    async fn runs(&self, space: &SpaceName, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let (query, owners) = (query.clone(), Arc::clone(&self.owners));
        self.read(space, move |conn, space| run::list(conn, space, &query, &owners))
            .await
    }

    async fn run(&self, space: &SpaceName, run: RunRef) -> Result<RunRow, StoreError> {
        let owners = Arc::clone(&self.owners);
        self.read_one(space, move |conn, space| run::read(conn, space, run, &owners))
            .await
    }

    async fn run_heads(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, Seq)>, StoreError> {
        self.read(space, move |conn, space| run::heads(conn, space, &runs))
            .await
    }

    async fn written_names(&self, space: &SpaceName, run: RunId) -> Result<Vec<String>, StoreError> {
        let owners = Arc::clone(&self.owners);
        self.read(space, move |conn, space| written::names_of(conn, space, run, &owners))
            .await
    }

    async fn runs_so_far(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, RunSummary)>, StoreError> {
        self.read(space, move |conn, space| run::so_far(conn, space, &runs))
            .await
    }

    async fn journal_part(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<Journal, StoreError> {
        self.read(space, move |conn, space| {
            journal::of_run(conn, space, run, since, bytes)
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
        self.read(space, move |conn, space| {
            journal::commits_of_run(conn, space, run, since, bytes)
        })
        .await
    }

    async fn claim_run(&self, space: &SpaceName, run: RunId, owner: &OwnerId) -> Result<u64, StoreError> {
        let claim = RunClaim {
            space: space.clone(),
            run,
            owner: owner.clone(),
            granted: Arc::default(),
        };
        let mut left = LeftClaim {
            store: self,
            claim: Some(claim.clone()),
        };
        let claimed = loop {
            match self.write(|answer| Job::Claim(claim.clone(), answer)).await {
                Ok(None) => tokio::time::sleep(DRIVER_RECHECK_PAUSE).await,
                Ok(Some(fence)) => break Ok(fence),
                Err(error) => {
                    // A driver that could not write either was not silent for that reason.
                    if matches!(error, StoreError::Unavailable { .. }) {
                        self.owners.forget_silence();
                    }
                    break Err(error);
                }
            }
        };
        left.claim = None;
        claimed
    }

    async fn release_run(&self, space: &SpaceName, run: RunId, fence: u64) -> Result<(), StoreError> {
        let release = RunRelease {
            space: space.clone(),
            run,
            fence,
        };
        self.write(|answer| Job::Release(release, answer)).await
    }

    fn release_owner(&self, owner: &OwnerId) {
        self.owners.release(owner);
    }

    async fn append_trace(&self, space: &SpaceName, notes: &[TraceNote], kept: NotesKept) -> Result<(), StoreError> {
        if notes.is_empty() {
            return Ok(());
        }
        let notes = Notes::of(space, notes, kept)?;
        self.write(|answer| Job::Trace(notes, answer)).await
    }

    async fn notes(&self, space: &SpaceName, query: &NoteQuery) -> Result<Vec<TraceNote>, StoreError> {
        let query = query.clone();
        self.read(space, move |conn, space| trace::list(conn, space, &query))
            .await
    }

    async fn watched(&self, space: &SpaceName, query: &WatchQuery) -> Result<WatchAnswer, StoreError> {
        let query = query.clone();
        self.read(space, move |conn, space| match space {
            Some(space) => watch::entries(conn, space, &query),
            None => Ok(WatchAnswer::default()),
        })
        .await
    }

    async fn live_observations(&self, space: &SpaceName, now: Timestamp, limit: u64) -> Result<u64, StoreError> {
        self.read(space, move |conn, space| match space {
            Some(space) => watch::live(conn, space, now, limit),
            None => Ok(0),
        })
        .await
    }

    async fn compact(&self, space: &SpaceName, compaction: Compaction) -> Result<Compacted, StoreError> {
        let space = space.clone();
        self.write(|answer| Job::Compact(compact::Compact { space, compaction }, answer))
            .await
    }

    async fn forget_notes(&self, space: &SpaceName, texts: Vec<String>) -> Result<(), StoreError> {
        self.forget_in_notes(space, &Arc::new(texts)).await
    }

    async fn erase_run_part(&self, space: &SpaceName, run: RunId, after: Seq) -> Result<Option<Seq>, StoreError> {
        let part = ForgottenRunPart {
            space: space.clone(),
            run,
            after,
        };
        self.write(|answer| Job::EraseRun(part, answer)).await
    }

    async fn write_anew(&self) -> Result<Residue, StoreError> {
        self.clean_up_words().await?;
        self.with_writer(Writer::rewrite_file).await
    }

    async fn scrub(&self, space: &SpaceName, texts: Vec<String>) -> Result<Residue, StoreError> {
        let texts = Arc::new(texts);
        if texts.is_empty() {
            return self.with_writer(Writer::truncate_wal).await;
        }
        // What is left of the texts is searched for afterwards, whether or not a reader prevents this.
        self.clean_up(space, &texts).await?;
        self.with_writer(Writer::truncate_wal).await?;
        let found = self.look_for(space, Arc::clone(&texts)).await?;
        if !found.is_in_free_space {
            return Ok(found.residue);
        }
        // Something was freed before it could be overwritten: in rows that changed long ago.
        self.clean_up(space, &texts).await?;
        self.with_writer(Writer::rewrite_file).await?;
        Ok(self.look_for(space, texts).await?.residue)
    }

    async fn spaces(&self) -> Result<Vec<SpaceName>, StoreError> {
        self.readers.read(scope::spaces).await
    }

    async fn take_over(&self, space: &SpaceName, commits: Vec<CopiedCommit>) -> Result<Seq, StoreError> {
        let space = space.clone();
        let prepared = tokio::task::spawn_blocking(move || Prepared::taken_over(&space, commits));
        let prepared = prepared
            .await
            .map_err(|error| self.unavailable("write to", "the commits were not prepared", Some(Box::new(error))))??;
        self.write(|answer| Job::TakeOver(prepared, answer)).await
    }

    async fn keep_token(&self, token: KeptToken) -> Result<(), StoreError> {
        self.write(|answer| Job::Token(Box::new(token), answer)).await
    }

    async fn tokens(&self) -> Result<Vec<KeptToken>, StoreError> {
        self.readers.read(token::list).await
    }

    async fn check(&self) -> Result<Checkup, StoreError> {
        self.readers.read(check::check).await
    }

    async fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        let (target, to) = (self.target.clone(), to.to_owned());
        // A connection of its own, because copying a whole file does not work within a transaction.
        let copied = tokio::task::spawn_blocking(move || {
            let copied = target.connect_reader().and_then(|conn| {
                conn.pragma_update(None, "query_only", false)?;
                backup::copy_anew(&conn, &to)
            });
            copied.map_err(|failure| failure.into_error("back up", &target.location))
        });
        copied
            .await
            .map_err(|error| self.unavailable("back up", "the copying stopped", Some(Box::new(error))))?
    }

    async fn bytes(&self) -> Result<Option<u64>, StoreError> {
        let Some(file) = self.target.file.clone() else {
            return Ok(None);
        };
        let counted = tokio::task::spawn_blocking(move || {
            let mut log = file.clone().into_os_string();
            log.push("-wal");
            let of_log = std::fs::metadata(log).map_or(0, |log| log.len());
            std::fs::metadata(file).map(|file| file.len() + of_log)
        });
        let failed = |error| self.unavailable("read from", "its size is not known", Some(error));
        let counted = counted.await.map_err(|error| failed(Box::new(error)))?;
        Ok(Some(counted.map_err(|error| failed(Box::new(error)))?))
    }
}
