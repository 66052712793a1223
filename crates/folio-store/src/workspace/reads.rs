//! Reads from the store, and redacts what they return: what an older version or another program wrote may hold
//! something that this version would not have stored.

use std::collections::HashMap;

use folio_engine::run::RunSummary;
use folio_memory::id::{EntryRef, PageRef, Ref, RunRef};
use folio_memory::roles::Visibility;
use folio_memory::{
    Entry, EntryId, EntryKind, EntryQuery, Link, ListAnswer, Order, Page, PageId, PageQuery, RunId, Seq, TextMatch,
    TextQuery, Timestamp, TypeRanks,
};

use super::notes::Stopwatch;
use super::redact::recall;
use super::{Workspace, WorkspaceError};
use crate::commit::{BlobHash, Committed};
use crate::error::{ErrorKind, StoreError};
use crate::fold;
use crate::store::{Journal, LogRow, Revision, RunQuery, RunRow};

/// What was read, or `None` if it does not exist: links and decisions may name what has been removed since, and
/// imported entries what is in another store.
pub(super) fn if_there<T, E: Into<WorkspaceError>>(read: Result<T, E>) -> Result<Option<T>, WorkspaceError> {
    match read.map_err(Into::into) {
        Ok(found) => Ok(Some(found)),
        Err(WorkspaceError::Store(StoreError::NotFound { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which entry something is, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPlace {
    /// The permanent id.
    pub id: EntryId,
    /// The kind.
    pub kind: EntryKind,
    /// The page that it is on.
    pub page: PageId,
}

impl Workspace {
    /// Returns the entries that match `query`, as they are now.
    ///
    /// # Errors
    ///
    /// `Invalid` for a cursor of another query, and for a query that names more than [`EntryQuery::check_size`] allows;
    /// `Unavailable` or `Corrupt`.
    pub async fn entries(&self, query: &EntryQuery) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let watch = Stopwatch::start();
        let answer = self.visible_entries(query).await;
        self.note_query(None, query, &watch, &answer);
        answer
    }

    /// Returns the entries that contain all words of `query` or, if there are none, those that contain some of them,
    /// and which of the two it is: a question in a sentence rarely uses only words that occur in an entry. If the query
    /// has more words than are searched for, it returns the entries that contain some of the first ones.
    ///
    /// # Errors
    ///
    /// As [`Workspace::entries`].
    pub async fn search(&self, query: &EntryQuery) -> Result<(ListAnswer<Entry>, TextMatch), WorkspaceError> {
        let words = query.text_query();
        if words.as_ref().is_some_and(TextQuery::is_cut) {
            let looser = EntryQuery {
                text_match: TextMatch::Any,
                ..query.clone()
            };
            return Ok((self.entries(&looser).await?, TextMatch::Any));
        }
        let answer = self.entries(query).await;
        let has_several = words.is_some_and(|words| words.words().len() > 1);
        let is_continued = query.cursor.is_some();
        let is_looser = match &answer {
            Ok(answer) => answer.total == 0 && !is_continued,
            // A cursor of the looser query is not valid for this one.
            Err(error) => is_continued && error.kind() == ErrorKind::Invalid,
        };
        if query.text_match != TextMatch::All || !has_several || !is_looser {
            return Ok((answer?, query.text_match));
        }
        let looser = EntryQuery {
            text_match: TextMatch::Any,
            ..query.clone()
        };
        Ok((self.entries(&looser).await?, TextMatch::Any))
    }

    /// Lists entries for internal use, without a note in the trace.
    ///
    /// # Errors
    ///
    /// `Invalid` if it names more than one query may; otherwise as [`Workspace::entries`].
    pub(super) async fn read_entries(&self, query: &EntryQuery) -> Result<ListAnswer<Entry>, WorkspaceError> {
        self.keep_up().await?;
        self.read_entries_at(query, self.now()).await
    }

    /// The same for lifetimes as they are at `now`.
    pub(super) async fn read_entries_at(
        &self,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        query.check_size()?;
        let query = &*query.including_removed();
        self.keep_up().await?;
        let (store, space) = (&self.inner.store, &self.inner.space);
        self.notice_ended();
        let mut answer = if query.order == Order::Priority && query.ranks == TypeRanks::default() {
            let ranked = EntryQuery {
                ranks: self.policy().await?.types().ranks(),
                ..query.clone()
            };
            store.entries(space, &ranked, now).await?
        } else {
            store.entries(space, query, now).await?
        };
        self.clean_answers(std::slice::from_mut(&mut answer)).await?;
        Ok(answer)
    }

    /// The same for several queries at once, on one state of memory if the store supports that. Queries by priority
    /// must name their ranks.
    pub(super) async fn read_entries_of_each(
        &self,
        queries: Vec<EntryQuery>,
    ) -> Result<Vec<ListAnswer<Entry>>, WorkspaceError> {
        self.keep_up().await?;
        let (store, space, now) = (&self.inner.store, &self.inner.space, self.now());
        self.notice_ended();
        let mut answers = store.entries_of_each(space, queries, now).await?;
        self.clean_answers(&mut answers).await?;
        Ok(answers)
    }

    async fn clean_answers(&self, answers: &mut [ListAnswer<Entry>]) -> Result<(), WorkspaceError> {
        let mode = self.redaction_of_reads().await?;
        if let Some(as_of) = answers.iter().map(|answer| answer.as_of).max() {
            self.inner.notebook.saw(as_of);
        }
        for entry in answers.iter_mut().flat_map(|answer| &mut answer.items) {
            self.inner.recalled.entry(entry, mode);
        }
        Ok(())
    }

    /// Returns one entry.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn entry(&self, entry: EntryRef) -> Result<Entry, WorkspaceError> {
        let watch = Stopwatch::start();
        let answer = match self.read_entry(entry).await {
            Ok(entry) => self.check_entry(&entry).await.map(|()| entry),
            missing => missing,
        };
        self.note_get(&entry.to_string(), &watch, &answer);
        answer
    }

    /// Returns which entry `entry` names, of which kind, and on which page. Its content is not returned, so this needs no
    /// permission to read: an actor may change an entry of its own that it may not read.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn entry_place(&self, entry: EntryRef) -> Result<EntryPlace, WorkspaceError> {
        let Entry { id, kind, page, .. } = self.read_entry(entry).await?;
        Ok(EntryPlace { id, kind, page })
    }

    /// Reads an entry for internal use, without a note in the trace.
    pub(super) async fn read_entry(&self, entry: EntryRef) -> Result<Entry, WorkspaceError> {
        self.keep_up().await?;
        let mut entry = self.inner.store.entry(&self.inner.space, entry).await?;
        self.inner.notebook.saw(entry.updated_seq);
        self.inner.recalled.entry(&mut entry, self.redaction_of_reads().await?);
        Ok(entry)
    }

    /// The same as `committed` left it, for the answer to its writer: others may have changed it since. The answer to
    /// a repeated request shows it as it is now.
    pub(super) async fn entry_after(&self, id: EntryId, committed: &Committed) -> Result<Entry, WorkspaceError> {
        let now = self.read_entry(Ref::Id(id)).await?;
        if committed.replayed || now.updated_seq <= committed.seq {
            return Ok(now);
        }
        let (store, ids) = (&self.inner.store, vec![id]);
        let then = store.entries_as_of(self.space(), ids, committed.seq).await?.pop();
        let Some(mut then) = then else { return Ok(now) };
        self.inner.recalled.entry(&mut then, self.redaction_of_reads().await?);
        Ok(then)
    }

    /// The same for an entry that something else names, which may be gone (M7.6.46).
    pub(super) async fn entry_if_there(&self, id: EntryId) -> Result<Option<Entry>, WorkspaceError> {
        if_there(self.read_entry(Ref::Id(id)).await)
    }

    /// The same as it is stored, not redacted: to compare it, or to decide about it.
    pub(super) async fn stored_entry_if_there(&self, id: EntryId) -> Result<Option<Entry>, WorkspaceError> {
        if_there(self.inner.store.entry(self.space(), Ref::Id(id)).await)
    }

    /// Returns the revisions of one entry, oldest first.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn history(&self, entry: EntryRef) -> Result<Vec<Revision>, WorkspaceError> {
        let entry = self.read_entry(entry).await?;
        self.check_entry(&entry).await?;
        let mut revisions = self.inner.store.history(&self.inner.space, entry.id).await?;
        let mode = self.redaction_of_reads().await?;
        for revision in &mut revisions {
            recall::change(&mut revision.change, mode);
            if let Some(reason) = &mut revision.reason {
                recall::reason(reason, mode);
            }
        }
        Ok(revisions)
    }

    /// Returns one page.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn page(&self, page: PageRef) -> Result<Page, WorkspaceError> {
        let mut page = self.inner.store.page(&self.inner.space, page).await?;
        self.check_page(&page).await?;
        recall::page(&mut page, self.redaction_of_reads().await?);
        Ok(page)
    }

    /// Returns the pages that match `query`, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn pages(&self, query: &PageQuery) -> Result<Vec<Page>, WorkspaceError> {
        let Some(query) = self.visibility().await?.restrict_pages(query) else {
            return Ok(Vec::new());
        };
        let mut pages = self.inner.store.pages(&self.inner.space, &query).await?;
        let mode = self.redaction_of_reads().await?;
        for page in &mut pages {
            recall::page(page, mode);
        }
        Ok(pages)
    }

    /// Returns how many pages match `query`, of those that the asker may see.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn page_count(&self, query: &PageQuery) -> Result<u64, WorkspaceError> {
        match self.visibility().await?.restrict_pages(query) {
            Some(query) => Ok(self.inner.store.page_count(&self.inner.space, &query).await?),
            None => Ok(0),
        }
    }

    /// Returns the links that begin or end at `end` (an id as text), sorted.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn links(&self, end: &str) -> Result<Vec<Link>, WorkspaceError> {
        self.check_end(end).await?;
        Ok(self.inner.store.links(&self.inner.space, end).await?)
    }

    /// Returns the bytes of a body.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn blob(&self, hash: &BlobHash) -> Result<Vec<u8>, WorkspaceError> {
        self.require_space_read("bodies")?;
        self.read_blob(hash).await
    }

    /// The same for internal use, where the asker may read what refers to the body.
    pub(super) async fn read_blob(&self, hash: &BlobHash) -> Result<Vec<u8>, WorkspaceError> {
        let bytes = self.inner.store.blob(&self.inner.space, hash).await?;
        Ok(recall::bytes(bytes, self.redaction_of_reads().await?))
    }

    /// Returns the seq of the last commit; zero if there is none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn head(&self) -> Result<Seq, WorkspaceError> {
        let head = self.inner.store.head(&self.inner.space).await?;
        self.inner.notebook.saw(head);
        Ok(head)
    }

    /// Returns up to `limit` commits after `since`, in order.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn changes(&self, since: Seq, limit: u32) -> Result<Vec<LogRow>, WorkspaceError> {
        self.require_space_read("the log")?;
        let mut rows = self.inner.store.changes(&self.inner.space, since, limit).await?;
        let mode = self.redaction_of_reads().await?;
        for row in &mut rows {
            recall::record(&mut row.record, mode);
        }
        Ok(rows)
    }

    /// Waits until there is a commit after `since` and returns the last one.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn wait(&self, since: Seq) -> Result<Seq, WorkspaceError> {
        Ok(self.inner.store.wait(&self.inner.space, since).await?)
    }

    /// Returns the runs that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, WorkspaceError> {
        self.require_space_read("the runs")?;
        Ok(self.inner.store.runs(&self.inner.space, query).await?)
    }

    /// Like [`Workspace::runs`], as part of a larger answer: for an asker that may not read the whole space, there are
    /// none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn runs_in_sight(&self, query: &RunQuery) -> Result<Vec<RunRow>, WorkspaceError> {
        match self.visibility().await? {
            Visibility::Space => Ok(self.inner.store.runs(&self.inner.space, query).await?),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns what lists show of `runs` beside their rows. A run whose last event was written by an older version is
    /// left out.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn runs_so_far(&self, runs: &[RunRow]) -> Result<HashMap<RunId, RunSummary>, WorkspaceError> {
        self.require_space_read("the runs")?;
        let ids = runs.iter().map(|row| row.id).collect();
        let summaries = self.inner.store.runs_so_far(&self.inner.space, ids).await?;
        Ok(summaries.into_iter().collect())
    }

    /// Returns one run.
    ///
    /// # Errors
    ///
    /// `NotFound`, also if the run was forgotten; `Unavailable` or `Corrupt`.
    pub async fn run(&self, run: RunRef) -> Result<RunRow, WorkspaceError> {
        let run = self.inner.store.run(&self.inner.space, run).await?;
        self.check_run(run.id).await?;
        fold::refuse_forgotten(run.handle.0, &run.status)?;
        Ok(run)
    }

    /// Returns the events of a run after `since`.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn journal(&self, run: RunId, since: Seq) -> Result<Journal, WorkspaceError> {
        self.check_run(run).await?;
        Ok(self.inner.store.journal(&self.inner.space, run, since).await?)
    }
}
