//! Merges what somebody changed in a file since it was written here: between an entry as it was then, as the file has
//! it, and as it is now.

use folio_memory::id::Ref;
use folio_memory::{Change, Entry, EntryFields, EntryKind, FieldChange, NewEntry, Status, Timestamp};

use super::super::patch::{Guard, Trying};
use super::super::redact::{self, recall};
use super::super::{Workspace, WorkspaceError, long_text};
use super::difference::between;
use super::incoming::Incoming;
use super::report::Fate;
use crate::error::StoreError;

/// The version and time of an entry when the file was written, as the file says.
pub(super) type AsOf = (u32, Timestamp);

impl Workspace {
    /// Applies to `existing` what somebody changed in the file, field by field, and reports the outcome. Returns
    /// whether that was possible: the file must be based on a version that the entry had here, and the entry must be of
    /// a kind that can be changed.
    ///
    /// A field that was changed here since, too, stays as it is here, and so do fields that cannot be written.
    pub(super) async fn merge(
        &self,
        incoming: &mut Incoming<'_>,
        name: &str,
        as_of: AsOf,
        new: &NewEntry,
        existing: &Entry,
    ) -> Result<bool, WorkspaceError> {
        if !is_changed_at_all(existing) || (existing.page, existing.kind) != (new.page, new.kind) {
            return Ok(false);
        }
        let Some(base_fields) = self.as_it_was(existing, as_of).await? else {
            return Ok(false);
        };
        let mut imported_entry = new.clone();
        redact::clean_new(&mut imported_entry, None, self.redaction().await?);
        long_text::shorten(&mut imported_entry.fields);
        let mut imported = imported_entry.fields;
        // Empty lines that somebody leaves below a text, or before a section that begins there, are no change of it.
        if imported.body_ref.is_none()
            && imported.body.trim_end_matches('\n') == base_fields.body.trim_end_matches('\n')
        {
            imported.body.clone_from(&base_fields.body);
        }
        let (changed_here, differing) = (
            between(&base_fields, &existing.fields),
            between(&imported, &existing.fields),
        );
        let (mut changes, mut merged_fields, mut skipped_fields) = (Vec::new(), Vec::new(), Vec::new());
        for field in between(&imported, &base_fields)
            .into_iter()
            .filter(|field| differing.contains(field))
        {
            // A file may say less of whom to believe, but not more.
            let change = change_of(field, &imported)
                .filter(|change| !matches!(change, FieldChange::Trust(trust) if *trust > existing.fields.trust));
            match change {
                Some(change) if !changed_here.contains(&field) => {
                    changes.push(change);
                    merged_fields.push(field);
                }
                _ => skipped_fields.push(field),
            }
        }
        if !changes.is_empty() && !incoming.options.dry_run {
            let guard = Guard {
                expected_version: Some(existing.version),
                reason: Some("changed in a file".to_owned()),
                ..Guard::default()
            };
            let patch_changes = |_: &Entry| Ok((changes.clone(), Vec::new()));
            let entry = Ref::Id(existing.id);
            match self
                .try_patch(incoming.actor, entry, guard, Trying::to("update"), &[], patch_changes)
                .await
            {
                Ok(_) => {}
                Err(WorkspaceError::Invalid(invalid)) => {
                    incoming.report.refuse(name, &invalid);
                    return Ok(true);
                }
                // Somebody is changing it right now; bringing in the same file again finds the result.
                Err(WorkspaceError::Stale { .. }) => skipped_fields.append(&mut merged_fields),
                Err(error) => return Err(error),
            }
        }
        let report = &mut incoming.report;
        if merged_fields.is_empty() && skipped_fields.is_empty() {
            report.present += 1;
        }
        if !merged_fields.is_empty() {
            let message = format!(
                "{} is now as the file says: {}",
                existing.handle,
                merged_fields.join(", ")
            );
            report.remark(Fate::Merged, name, "merged", message);
        }
        if !skipped_fields.is_empty() {
            let message = format!(
                "{} stays as it is; the file differs in: {}",
                existing.handle,
                skipped_fields.join(", ")
            );
            report.remark(Fate::Differs, name, "differs", message);
        }
        Ok(true)
    }

    /// The fields of `entry` at an earlier version, if the log still has it and it is from the same instant: another
    /// store counts its own versions.
    async fn as_it_was(&self, entry: &Entry, (version, at): AsOf) -> Result<Option<EntryFields>, WorkspaceError> {
        let revisions = match self.inner.store.history(self.space(), entry.id).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            revisions => revisions?,
        };
        let mode = self.redaction_of_reads().await?;
        let mut state: Option<Entry> = None;
        for mut revision in revisions.into_iter().filter(|revision| revision.version <= version) {
            recall::change(&mut revision.change, mode);
            match (revision.change, &mut state) {
                (Change::AddEntry(new), None) => {
                    state = Some(Entry::added(*new, entry.handle, revision.seq, revision.at));
                }
                (Change::PatchEntry { fields, .. }, Some(state)) => state.patch(&fields, revision.seq, revision.at),
                _ => return Ok(None),
            }
        }
        let state = state.filter(|state| (state.version, state.updated_at) == (version, at));
        Ok(state.map(|state| state.fields))
    }
}

/// Whether anybody may change the content of `entry`: pages are only added to, and archived or forgotten entries stay
/// as they are.
fn is_changed_at_all(entry: &Entry) -> bool {
    let is_kind = matches!(
        entry.kind,
        EntryKind::Observation | EntryKind::Note | EntryKind::Todo | EntryKind::Task
    );
    is_kind && entry.fields.status != Status::Archived && entry.fields.erased.is_none()
}

/// The change that sets the field `name` to its value in `fields`, if a file may change it. A text that is kept beside
/// its entry stays.
fn change_of(name: &str, fields: &EntryFields) -> Option<FieldChange> {
    let fields = fields.clone();
    match name {
        "title" => Some(FieldChange::Title(fields.title)),
        "body" if fields.body_ref.is_none() => Some(FieldChange::Body(fields.body)),
        "status" => Some(FieldChange::Status(fields.status)),
        "confidence" => fields.confidence.map(FieldChange::Confidence),
        "tags" => Some(FieldChange::Tags(fields.tags)),
        "owner" => Some(FieldChange::Owner(fields.owner)),
        "context" => Some(FieldChange::Context(fields.context)),
        "metadata" => Some(FieldChange::Metadata(fields.metadata)),
        "phase" => Some(FieldChange::Phase(fields.phase)),
        "progress" => Some(FieldChange::Progress(fields.progress)),
        "trust" => Some(FieldChange::Trust(fields.trust)),
        _ => None,
    }
}
