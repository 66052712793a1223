//! Entries of a file that say what superseded them, where that is neither here nor in the file.

use folio_memory::{Change, EntryId, FieldChange};

use super::super::{Workspace, WorkspaceError, Write};
use super::incoming::{Incoming, Whereabouts};
use super::report::Fate;

/// How many entries are changed in one commit.
const BATCH: usize = 512;

impl Workspace {
    /// Drops what superseded an entry, where that is missing: no list would show the entry, although nothing took its
    /// place. What supersedes an entry mostly follows after it, so this is known only at the end.
    pub(super) async fn drop_missing_successors(&self, incoming: &mut Incoming<'_>) -> Result<(), WorkspaceError> {
        let mut changes = Vec::new();
        for (entry, by, name) in std::mem::take(&mut incoming.superseded) {
            let is_taken_in = matches!(incoming.entries.get(&by), Some(Whereabouts::Here | Whereabouts::New));
            if is_taken_in
                || self.stored_entry_if_there(by).await?.is_some()
                || !self.is_hidden_by(incoming, entry, by).await?
            {
                continue;
            }
            let message = format!("superseded_by was removed: {by} is neither here nor in the file");
            incoming.report.remark(Fate::Changed, &name, "item_adapted", message);
            changes.push(Change::PatchEntry {
                entry,
                fields: vec![FieldChange::SupersededBy(None)],
                expected_version: None,
                base_version: None,
            });
        }
        if incoming.options.dry_run {
            return Ok(());
        }
        for batch in changes.chunks(BATCH) {
            let write = Write {
                reason: Some("what superseded it was not brought in".to_owned()),
                ..Write::of(batch.to_vec())
            };
            self.record(incoming.actor, write).await?;
        }
        Ok(())
    }

    /// Whether `entry` is here, or was brought in, and says that `by` superseded it.
    async fn is_hidden_by(&self, incoming: &Incoming<'_>, entry: EntryId, by: EntryId) -> Result<bool, WorkspaceError> {
        Ok(match incoming.entries.get(&entry) {
            Some(Whereabouts::New) => !incoming.is_erased(entry),
            Some(Whereabouts::Here) => {
                let here = self.stored_entry_if_there(entry).await?;
                here.is_some_and(|here| here.fields.superseded_by == Some(by) && here.fields.erased.is_none())
            }
            Some(Whereabouts::Nowhere) | None => false,
        })
    }
}
