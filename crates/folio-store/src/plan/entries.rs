//! What a commit does to entries; `erasing` is about their content.

use folio_memory::keeping::watched;
use folio_memory::terms::terms_of;
use folio_memory::{Entry, EntryHandle, EntryId, FieldChange, NewEntry, history};

use super::{Facts, Plan, PlannedEntry};
use crate::error::{StoreError, not_found};
use crate::place::Place;

impl<'c, F: Facts> Plan<'_, 'c, F> {
    pub(super) fn add_entry(&mut self, new: &'c NewEntry, fields_json: &'c str) -> Result<(), F::Failure> {
        if self.find_entry(new.id)?.is_some() {
            return Err(StoreError::Invalid(format!("entry {} exists already", new.id)).into());
        }
        let page = self.page_place(new.page)?;
        self.ends.entries += 1;
        let place = Place::of(self.space, self.ends.entries);
        let new_entry = Some((new, fields_json, page));
        let planned = PlannedEntry {
            place,
            new: new_entry,
            entry: None,
            old_terms: Vec::new(),
            old_watched: Vec::new(),
            is_changed: false,
        };
        let index = self.entries.add(new.id, planned);
        self.named_entries.push((new.id, index, true, Vec::new()));
        Ok(())
    }

    pub(super) fn patch_entry(
        &mut self,
        id: EntryId,
        changes: &[FieldChange],
        expected: Option<u32>,
        base: Option<u32>,
    ) -> Result<(), F::Failure> {
        let index = self.find_entry(id)?.ok_or_else(|| not_found("entry", id))?;
        let (seq, at) = (self.seq, self.at);
        let found = self.current(index, id)?;
        let (handle, version) = (found.handle, found.version);
        let is_changed = !found.is_unchanged_by(changes);
        if let Some(expected) = expected.filter(|expected| is_changed && *expected != version) {
            return Err(StoreError::StaleVersion {
                entry: handle.to_string(),
                found: version,
                expected,
            }
            .into());
        }
        let mut conflicts = Vec::new();
        if is_changed {
            if let Some(base) = base.filter(|base| *base < version) {
                let found = found.clone();
                let changed = self.facts.changed_since(&found, base)?;
                conflicts = history::conflicts(&found, changes, base, |field| changed.get(field).copied());
            }
            let entry = self.current(index, id)?;
            refuse_if_final(entry, changes)?;
            entry.patch(changes, seq, at);
            self.entries.items[index].is_changed = true;
        }
        self.named_entries.push((id, index, is_changed, conflicts));
        Ok(())
    }

    /// The entry number `index` of this commit, as its changes so far make it.
    pub(super) fn current(&mut self, index: usize, id: EntryId) -> Result<&mut Entry, F::Failure> {
        let (seq, at) = (self.seq, self.at);
        let planned = &mut self.entries.items[index];
        let handle = EntryHandle(planned.place.number());
        Ok(match (&mut planned.entry, planned.new) {
            (Some(entry), _) => entry,
            (none, Some((new, ..))) => none.insert(Entry::added(new.clone(), handle, seq, at)),
            (none, None) => {
                let found = self
                    .facts
                    .entry(id, planned.place)?
                    .ok_or_else(|| not_found("entry", id))?;
                planned.old_terms = terms_of(&found.fields);
                planned.old_watched = watched(&found);
                none.insert(found)
            }
        })
    }

    /// The index of an entry in this commit; `None` if there is no such entry.
    pub(super) fn find_entry(&mut self, id: EntryId) -> Result<Option<usize>, F::Failure> {
        if let Some(index) = self.entries.by_id.get(&id) {
            return Ok(Some(*index));
        }
        let found = self.facts.entry_place(id)?;
        Ok(found.map(|place| {
            let planned = PlannedEntry {
                place,
                new: None,
                entry: None,
                old_terms: Vec::new(),
                old_watched: Vec::new(),
                is_changed: false,
            };
            self.entries.add(id, planned)
        }))
    }
}

/// Refuses `changes` that would lead `entry` out of a state that is final.
fn refuse_if_final(entry: &Entry, changes: &[FieldChange]) -> Result<(), StoreError> {
    let handle = entry.handle;
    let mut status = entry.fields.status;
    for change in changes {
        if let FieldChange::Status(next) = change {
            if !status.may_become(*next) {
                return Err(StoreError::Invalid(format!("{handle} is {status}, which is final")));
            }
            status = *next;
        }
    }
    if entry.fields.erased.is_some() {
        return Err(StoreError::Invalid(format!(
            "the content of {handle} was erased, which is final"
        )));
    }
    Ok(())
}
