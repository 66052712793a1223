//! The journal of a run, read part by part, so memory use does not depend on its length.

use folio_engine::Event;
use folio_memory::{RunId, Seq, Timestamp};
use folio_store::{JOURNAL_PART_BYTES, Workspace};

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
