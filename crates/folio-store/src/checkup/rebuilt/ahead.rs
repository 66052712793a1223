//! Comparing entries ahead, so that not all that were ever changed are in memory.
//!
//! When the entries that are being rebuilt take too much memory, the store looks up all commits that are recorded as
//! touching one of them, and the check takes these in at once. What matches then is dropped. The check meets those
//! commits again as it reads on: one that is recorded has been taken in, and one that is not must not change anything.
//! What does not match is rebuilt to the end, in case not all its commits are recorded.

use std::collections::{HashMap, HashSet};

use folio_memory::terms::terms_of;
use folio_memory::{Entry, EntryId, Seq};
use serde_json::Value;

use super::super::findings::Findings;
use super::super::problem::Problem;
use super::{Rebuilt, lasting_watches};
use crate::fold;
use crate::place::Touched;
use crate::store::{Checkup, LogRow};

/// How many bytes the entries that are being rebuilt may take, before they are compared ahead.
pub(crate) const HELD_BYTES: usize = 32 * 1024 * 1024;
/// The bytes that the parts of an entry take besides those that are counted.
const PARTS_BYTES: usize = 512;

/// Entries that are being rebuilt.
#[derive(Debug, Default)]
pub(super) struct Held {
    entries: HashMap<EntryId, Entry>,
    /// Those that did not match when they were compared ahead.
    doubtful: HashSet<EntryId>,
    /// What the others take.
    bytes: usize,
}

impl Held {
    pub(super) fn insert(&mut self, entry: Entry) {
        if !self.doubtful.contains(&entry.id) {
            self.bytes += bytes_of(&entry);
        }
        self.entries.insert(entry.id, entry);
    }

    pub(super) fn remove(&mut self, id: EntryId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if !self.doubtful.contains(&id) {
            self.bytes = self.bytes.saturating_sub(bytes_of(&entry));
        }
        Some(entry)
    }

    pub(super) fn into_entries(self) -> Vec<Entry> {
        self.entries.into_values().collect()
    }
}

/// Roughly what `entry` takes in memory.
fn bytes_of(entry: &Entry) -> usize {
    let fields = &entry.fields;
    let json = [&fields.parts, &fields.context, &fields.metadata, &fields.claimed_source];
    let json: usize = json.into_iter().flatten().map(json_bytes).sum();
    size_of::<Entry>() + PARTS_BYTES + fields.title.len() + fields.body.len() + json
}

fn json_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(json_bytes).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| 2 * size_of::<String>() + name.len() + json_bytes(value))
                .sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

impl Rebuilt {
    /// Takes the entries that are to be compared ahead, as of the last commit that was read, if those being rebuilt take
    /// more than `bytes_max`.
    pub(crate) fn take_held(&mut self, bytes_max: usize) -> Option<Vec<Entry>> {
        let held = &mut self.held;
        if held.bytes <= bytes_max {
            return None;
        }
        held.bytes = 0;
        let (doubtful, taken) = std::mem::take(&mut held.entries)
            .into_iter()
            .partition(|(id, _)| held.doubtful.contains(id));
        held.entries = doubtful;
        let taken: HashMap<EntryId, Entry> = taken;
        let mut taken: Vec<_> = taken.into_values().collect();
        taken.sort_unstable_by_key(|entry| entry.handle);
        Some(taken)
    }

    /// Whether one more entry may be rebuilt to the end although it does not match with all its recorded commits. Each of
    /// them makes at least one problem, so once as many are held as problems are reported, the others tell nothing.
    pub(crate) fn may_doubt(&self) -> bool {
        self.held.doubtful.len() < Checkup::PROBLEMS_MAX
    }

    /// Goes on rebuilding `entry` to the end.
    pub(crate) fn doubt(&mut self, entry: Entry) {
        self.held.doubtful.insert(entry.id);
        self.held.insert(entry);
    }

    /// Judges the commits `unrecorded` among `rows`, the last ones read, which name an entry that was compared ahead
    /// and is `stored`; `before` is its state before the first of them. If they changed it, they should be recorded, and
    /// the entry is compared once more.
    pub(crate) fn look_again(
        &mut self,
        (before, stored): (Entry, &Entry),
        unrecorded: &[Seq],
        rows: &[LogRow],
        findings: &mut Findings,
    ) {
        let (id, handle) = (before.id, before.handle);
        let (mut state, mut has_missed) = (Some(before), false);
        let from = unrecorded.first().copied();
        for row in rows.iter().filter(|row| Some(row.seq) >= from) {
            for change in &row.record.changes {
                let changed = fold::changed_entry(change) == Some(id)
                    && fold::fold(&mut state, handle, change, id, row.seq, row.at);
                if changed && unrecorded.contains(&row.seq) {
                    has_missed = true;
                    findings.report(Problem::Touch(Touched::Entry.letter(), handle.0, row.seq));
                }
            }
        }
        if let Some(state) = state.filter(|_| has_missed && self.may_doubt()) {
            self.doubt(state);
            let counts = &mut self.counts;
            counts.terms = counts.terms.saturating_sub(terms_of(&stored.fields).len() as u64);
            counts.watched = counts.watched.saturating_sub(lasting_watches(stored).len() as u64);
        }
    }
}
