//! Questions that go straight to the store.

use folio_memory::id::{EntryRef, PageRef, RunRef};
use folio_memory::{Entry, EntryQuery, Link, ListAnswer, Page, PageQuery, RunId, Seq};

use super::{Workspace, WorkspaceError};
use crate::commit::BlobHash;
use crate::store::{Journal, LogRow, Revision, RunQuery, RunRow};

impl Workspace {
    /// The entries that `query` asks for, as they are now.
    ///
    /// # Errors
    ///
    /// `Invalid` for a cursor of another query; `Unavailable` or `Corrupt`.
    pub async fn entries(&self, query: &EntryQuery) -> Result<ListAnswer<Entry>, WorkspaceError> {
        Ok(self.inner.store.entries(&self.inner.space, query, self.now()).await?)
    }

    /// One entry.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn entry(&self, entry: EntryRef) -> Result<Entry, WorkspaceError> {
        Ok(self.inner.store.entry(&self.inner.space, entry).await?)
    }

    /// The revisions of one entry, oldest first.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn history(&self, entry: EntryRef) -> Result<Vec<Revision>, WorkspaceError> {
        let entry = self.entry(entry).await?;
        Ok(self.inner.store.history(&self.inner.space, entry.id).await?)
    }

    /// One page.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn page(&self, page: PageRef) -> Result<Page, WorkspaceError> {
        Ok(self.inner.store.page(&self.inner.space, page).await?)
    }

    /// The pages that `query` asks for, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn pages(&self, query: &PageQuery) -> Result<Vec<Page>, WorkspaceError> {
        Ok(self.inner.store.pages(&self.inner.space, query).await?)
    }

    /// The links that begin or end at `end` (a written id), sorted.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn links(&self, end: &str) -> Result<Vec<Link>, WorkspaceError> {
        Ok(self.inner.store.links(&self.inner.space, end).await?)
    }

    /// The bytes of a body.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn blob(&self, hash: &BlobHash) -> Result<Vec<u8>, WorkspaceError> {
        Ok(self.inner.store.blob(&self.inner.space, hash).await?)
    }

    /// The number of the last commit; zero if there is none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn head(&self) -> Result<Seq, WorkspaceError> {
        Ok(self.inner.store.head(&self.inner.space).await?)
    }

    /// Up to `limit` commits after `since`, in order.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn changes(&self, since: Seq, limit: u32) -> Result<Vec<LogRow>, WorkspaceError> {
        Ok(self.inner.store.changes(&self.inner.space, since, limit).await?)
    }

    /// Waits until there is a commit after `since` and returns the last one.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn wait(&self, since: Seq) -> Result<Seq, WorkspaceError> {
        Ok(self.inner.store.wait(&self.inner.space, since).await?)
    }

    /// The runs that `query` asks for, newest first.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, WorkspaceError> {
        Ok(self.inner.store.runs(&self.inner.space, query).await?)
    }

    /// One run.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn run(&self, run: RunRef) -> Result<RunRow, WorkspaceError> {
        Ok(self.inner.store.run(&self.inner.space, run).await?)
    }

    /// What happened in a run after `since`.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn journal(&self, run: RunId, since: Seq) -> Result<Journal, WorkspaceError> {
        Ok(self.inner.store.journal(&self.inner.space, run, since).await?)
    }
}
