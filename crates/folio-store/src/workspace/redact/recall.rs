//! The second line of defence: cleans on reading what an older version or another program stored.

use std::collections::HashSet;

use folio_memory::keeping::Redaction;
use folio_memory::{Change, Entry, EntryId, FieldChange, Page, Turn};
use parking_lot::Mutex;

use super::Cleaner;
use super::commit::{clean_change, clean_decisions, clean_fields};
use super::event::{Renamed, clean_event_with};
use crate::commit::Record;

/// For how many entries it is remembered that they are clean.
const REMEMBERED: usize = 65_536;

/// Cleans what is read, and remembers which entries were clean, so that each is scanned only once.
#[derive(Debug, Default)]
pub(crate) struct Recalled {
    clean: Mutex<(Redaction, HashSet<(EntryId, u32)>)>,
}

impl Recalled {
    /// Takes what `mode` says out of `entry`.
    pub(crate) fn entry(&self, entry: &mut Entry, mode: Redaction) {
        let name = (entry.id, entry.version);
        if mode == Redaction::Off || self.is_clean(name, mode) {
            return;
        }
        let mut cleaner = Cleaner::new(mode);
        clean_fields(&mut cleaner, &mut entry.fields, "body");
        if cleaner.into_warnings().is_empty() {
            self.note(name);
        }
    }

    fn is_clean(&self, name: (EntryId, u32), mode: Redaction) -> bool {
        let mut known = self.clean.lock();
        if known.0 != mode {
            *known = (mode, HashSet::new());
        }
        known.1.contains(&name)
    }

    fn note(&self, name: (EntryId, u32)) {
        let mut known = self.clean.lock();
        if known.1.len() >= REMEMBERED {
            known.1.clear();
        }
        known.1.insert(name);
    }
}

/// Takes what `mode` says out of an entry that is not written yet, as writing and reading it would.
pub(crate) fn unwritten(entry: &mut Entry, mode: Redaction) {
    clean_fields(&mut Cleaner::new(mode), &mut entry.fields, "body");
}

/// Takes what `mode` says out of `page`.
pub(crate) fn page(page: &mut Page, mode: Redaction) {
    let mut cleaner = Cleaner::new(mode);
    let fields = &mut page.fields;
    cleaner.text(&mut fields.title, "title");
    cleaner.tags(&mut fields.tags);
    if let Some(props) = &mut fields.props {
        cleaner.value(props, "props");
    }
}

/// Takes what `mode` says out of `turn`.
pub(crate) fn turn(turn: &mut Turn, mode: Redaction) {
    let mut cleaner = Cleaner::new(mode);
    cleaner.text(&mut turn.begun.input, "input");
    clean_decisions(&mut cleaner, &mut turn.begun.decisions);
    if let Some(ended) = &mut turn.ended {
        clean_decisions(&mut cleaner, &mut ended.end.decisions);
    }
}

/// Takes what `mode` says out of the reason of a commit.
pub(crate) fn reason(reason: &mut String, mode: Redaction) {
    Cleaner::new(mode).text(reason, "reason");
}

/// Takes what `mode` says out of `change`.
pub(crate) fn change(change: &mut Change, mode: Redaction) {
    clean_known(&mut Cleaner::new(mode), change);
}

/// Cleans `change`, but keeps the personal data flagged when it was written: the text with it may be kept beside the
/// entry.
fn clean_known(cleaner: &mut Cleaner, change: &mut Change) {
    let before = match change {
        Change::AddEntry(new) if new.fields.body_ref.is_some() => new.fields.pii.clone(),
        _ => Vec::new(),
    };
    clean_change(cleaner, change);
    if let Change::AddEntry(new) = change {
        new.fields.set(&[FieldChange::PiiFound(before)]);
    }
}

/// Takes what `mode` says out of `record`.
pub(crate) fn record(record: &mut Record, mode: Redaction) {
    let mut cleaner = Cleaner::new(mode);
    for change in &mut record.changes {
        clean_known(&mut cleaner, change);
    }
    if let Some(reason) = &mut record.reason {
        cleaner.text(reason, "reason");
    }
    if let Some(run) = &mut record.run {
        for event in &mut run.events {
            clean_event_with(&mut cleaner, event, &Renamed::new());
        }
    }
}

/// Takes what `mode` says out of `bytes`.
pub(crate) fn bytes(bytes: Vec<u8>, mode: Redaction) -> Vec<u8> {
    Cleaner::new(mode).bytes(&bytes, "body").unwrap_or(bytes)
}
