//! The journal of a run, or the commits with it, read part by part, so memory use does not depend on its length.

use folio_engine::Event;
use folio_memory::{RunId, Seq, Timestamp};
use folio_store::{JOURNAL_PART_BYTES, LogRow, Workspace};

use crate::error::RunnerError;

/// A reader of a journal.
#[derive(Debug)]
pub(crate) struct JournalReader<'w> {
    workspace: &'w Workspace,
    run: RunId,
    head: Seq,
    is_whole: bool,
}

impl<'w> JournalReader<'w> {
    /// Starts at the beginning of the journal.
    pub(crate) fn of(workspace: &'w Workspace, run: RunId) -> Self {
        Self {
            workspace,
            run,
            head: Seq(0),
            is_whole: false,
        }
    }

    /// The last commit that was read.
    pub(crate) fn head(&self) -> Seq {
        self.head
    }

    /// Continues after the last part, where there may be more by now.
    pub(crate) fn continue_reading(&mut self) {
        self.is_whole = false;
    }

    /// The next part; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<(Timestamp, Event)>>, RunnerError> {
        if self.is_whole {
            return Ok(None);
        }
        let (store, space) = (self.workspace.store(), self.workspace.space());
        let part = store
            .journal_part(space, self.run, self.head, JOURNAL_PART_BYTES)
            .await?;
        (self.head, self.is_whole) = (part.head, part.is_whole);
        Ok(Some(part.events))
    }
}

/// A reader of the commits with a journal.
#[derive(Debug)]
pub(crate) struct CommitReader<'w> {
    workspace: &'w Workspace,
    run: RunId,
    head: Seq,
    is_whole: bool,
}

impl<'w> CommitReader<'w> {
    /// Starts with the first commit of the run.
    pub(crate) fn of(workspace: &'w Workspace, run: RunId) -> Self {
        Self {
            workspace,
            run,
            head: Seq(0),
            is_whole: false,
        }
    }

    /// The next commits; `None` after the last ones.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<LogRow>>, RunnerError> {
        if self.is_whole {
            return Ok(None);
        }
        let (store, space) = (self.workspace.store(), self.workspace.space());
        let part = store
            .run_commits(space, self.run, self.head, JOURNAL_PART_BYTES)
            .await?;
        self.is_whole = part.is_whole;
        self.head = part.commits.last().map_or(self.head, |commit| commit.seq);
        Ok(Some(part.commits))
    }
}
