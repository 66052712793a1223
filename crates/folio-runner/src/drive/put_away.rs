//! Steps whose entries somebody has archived or erased while their run goes on: that is final, and the run continues
//! without them.

use folio_memory::entry::Status;
use folio_memory::id::Ref;
use folio_memory::{Change, EntryId};
use folio_store::StoreError;

use super::Drive;
use crate::error::RunnerError;

impl Drive {
    /// Removes from `changes` the patches of archived and erased entries, and returns the other patched entries.
    pub(super) fn remove_archived_patches(&self, changes: &mut Vec<Change>) -> Vec<EntryId> {
        let mut patched = Vec::new();
        changes.retain(|change| match change {
            Change::PatchEntry { entry, .. } if self.archived_entries.contains(entry) => false,
            Change::PatchEntry { entry, .. } => {
                patched.push(*entry);
                true
            }
            _ => true,
        });
        patched
    }

    /// Whether a commit that was refused with `error` can be tried again on the current state, without those of
    /// `patched` that were archived or erased.
    pub(super) async fn can_retry_commit(
        &mut self,
        error: &StoreError,
        patched: &[EntryId],
    ) -> Result<bool, RunnerError> {
        match error {
            StoreError::StaleRun { .. } | StoreError::OtherPolicy { .. } | StoreError::WrittenElsewhere { .. } => {
                Ok(true)
            }
            StoreError::Invalid(_) | StoreError::NotFound { .. } => self.note_archived_entries(patched).await,
            _ => Ok(false),
        }
    }

    /// Notes which of `patched` were archived or erased; returns whether any of these were not known.
    async fn note_archived_entries(&mut self, patched: &[EntryId]) -> Result<bool, RunnerError> {
        let mut has_new = false;
        for id in patched {
            let workspace = &self.shared.workspace;
            let read = || workspace.entry(Ref::Id(*id));
            let is_gone = match self.patience.outlast(read).await {
                Ok(entry) => entry.fields.status == Status::Archived || entry.fields.erased.is_some(),
                Err(RunnerError::Store(StoreError::NotFound { .. })) => true,
                Err(error) => return Err(error),
            };
            has_new |= is_gone && self.archived_entries.insert(*id);
        }
        Ok(has_new)
    }
}
