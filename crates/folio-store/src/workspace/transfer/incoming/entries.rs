//! Brings in entries.

use folio_memory::transfer::{EntryLine, check_entry};
use folio_memory::{Change, Entry, EntryFields, EntryId, Invalid, NewEntry, Status, Trust, Warning};

use super::super::super::{Workspace, WorkspaceError, long_text};
use super::super::circles::Leads;
use super::super::difference;
use super::super::lines::{Lines, TEXT_DAMAGED};
use super::super::merge::AsOf;
use super::super::report::Fate;
use super::{Incoming, Whereabouts, check_depths, twice};

impl Workspace {
    /// Takes in an entry, which the report calls `name`.
    pub(in super::super) async fn import_entry(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        line: EntryLine,
        lines: &mut Lines,
    ) -> Result<(), WorkspaceError> {
        incoming.read.1 += 1;
        let (id, as_of) = (line.id, (line.version, line.updated_at));
        let text = line.fields.body_ref.clone();
        let text = text.as_ref();
        if incoming.entries.contains_key(&id) {
            incoming.report.refuse(&name, &twice());
            return lines.skip_text(id, text).await;
        }
        incoming.entries.insert(id, Whereabouts::Nowhere);
        let Some(page) = self.page_here(incoming, line.page).await? else {
            let message = format!("its page {} does not exist", line.page);
            incoming.report.remark(Fate::Refused, &name, "page_missing", message);
            return lines.skip_text(id, text).await;
        };
        let mut new = Box::new(line.into_new(page));
        let existing = self.stored_entry_if_there(id).await?;
        let warnings = match self.judge_entry(incoming, &name, &mut new, existing.as_ref()).await? {
            Ok(warnings) => warnings,
            Err(invalid) => {
                incoming.report.refuse(&name, &invalid);
                return lines.skip_text(id, text).await;
            }
        };
        if incoming.options.distrusted {
            new.fields.trust = Trust::Imported;
        }
        if let Some(existing) = existing {
            return self.import_again(incoming, &name, as_of, new, &existing, lines).await;
        }
        incoming.report.adapted(&name, &warnings);
        self.import_new(incoming, name, new, lines).await
    }

    /// Takes in an entry that is here as `existing`.
    async fn import_again(
        &self,
        incoming: &mut Incoming<'_>,
        name: &str,
        as_of: AsOf,
        mut new: Box<NewEntry>,
        existing: &Entry,
        lines: &mut Lines,
    ) -> Result<(), WorkspaceError> {
        incoming.entries.insert(new.id, Whereabouts::Here);
        let text = new.fields.body_ref.clone();
        if let Err(invalid) = lines.check_text(new.id, text.as_ref()).await?
            && invalid.code == TEXT_DAMAGED
            && let Some(body) = &mut new.fields.body_ref
        {
            // The text is not the one that the file claims.
            body.hash.clear();
        }
        if let Some(why) = new.fields.erased
            && is_left_empty(&new, existing)
        {
            incoming.tombstones.push((new.id, why));
            incoming.report.present += 1;
            return Ok(());
        }
        if incoming.options.merges() && self.merge(incoming, name, as_of, &new, existing).await? {
            return Ok(());
        }
        let by = async |new: &NewEntry, existing: &Entry| {
            let mut fields = new.fields.clone();
            long_text::shorten(&mut fields);
            Ok(difference::between(&fields, &existing.fields))
        };
        self.compare(name, *new, existing, &mut incoming.report, by).await
    }

    /// Takes in an entry that is not here yet.
    async fn import_new(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        mut new: Box<NewEntry>,
        lines: &mut Lines,
    ) -> Result<(), WorkspaceError> {
        let id = new.id;
        if let Some(why) = new.fields.erased.take() {
            incoming.tombstones.push((id, why));
            new.fields.status = Status::Archived;
        }
        let Some(body) = new.fields.body_ref.clone() else {
            incoming.entries.insert(id, Whereabouts::New);
            incoming.names.insert(id, name);
            incoming.push(Change::AddEntry(new));
            return Ok(());
        };
        self.write_batch(incoming).await?;
        if !incoming.options.dry_run {
            return self.import_long(incoming, name, new, &body, lines).await;
        }
        match lines.check_text(id, Some(&body)).await? {
            Ok(()) => {
                incoming.report.entries += 1;
                incoming.entries.insert(id, Whereabouts::New);
            }
            Err(invalid) => incoming.report.refuse(&name, &invalid),
        }
        Ok(())
    }

    /// Checks that `new` could be written here, where it may exist as `existing`, and brings it into the form that
    /// writing would give it. Returns the corrections.
    async fn judge_entry(
        &self,
        incoming: &mut Incoming<'_>,
        name: &str,
        new: &mut NewEntry,
        existing: Option<&Entry>,
    ) -> Result<Result<Vec<Warning>, Invalid>, WorkspaceError> {
        let EntryFields {
            parts,
            metadata,
            claimed_source,
            ..
        } = &new.fields;
        let values = [
            ("parts", parts),
            ("metadata", metadata),
            ("claimed_source", claimed_source),
        ];
        let policy = self.policy_as_known().await?;
        let checked = check_depths(values).and_then(|()| check_entry(new, policy.types(), self.now()));
        if checked.is_ok()
            && let Some(by) = new.fields.superseded_by
        {
            let is_so_here = existing.is_some_and(|existing| existing.fields.superseded_by == Some(by));
            if !is_so_here && self.leads_back(incoming, by, new.id).await? {
                let message = format!("{by} superseded it, and it superseded {by}");
                return Ok(Err(Invalid::new("supersede_cycle", "superseded_by", message)));
            }
            incoming.circles.successors.add(new.id, by);
            incoming.superseded.push((new.id, by, name.to_owned()));
        }
        Ok(checked)
    }

    /// Whether `by` is `entry`, or its successors lead there.
    async fn leads_back(
        &self,
        incoming: &mut Incoming<'_>,
        by: EntryId,
        entry: EntryId,
    ) -> Result<bool, WorkspaceError> {
        let mut from = by;
        loop {
            match incoming.circles.successors.lead(from, entry) {
                Leads::There(leads_there) => return Ok(leads_there),
                Leads::Ask(last) => {
                    let is_new = incoming.entries.get(&last) == Some(&Whereabouts::New);
                    let here = if is_new {
                        None
                    } else {
                        self.stored_entry_if_there(last).await?
                    };
                    let by = here.and_then(|here| here.fields.superseded_by);
                    incoming.circles.successors.learn(last, by);
                    from = last;
                }
            }
        }
    }
}

/// Whether `existing` is what an interrupted import left of `new`, whose content was erased: added, and not yet erased
/// again.
fn is_left_empty(new: &NewEntry, existing: &Entry) -> bool {
    let mut expected = new.fields.clone();
    expected.status = Status::Archived;
    let is_same = (existing.page, existing.kind) == (new.page, new.kind)
        && difference::between(&expected, &existing.fields).is_empty();
    is_same && existing.fields.erased.is_none()
}
