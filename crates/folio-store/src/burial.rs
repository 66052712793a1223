//! Decides which purged entries are dropped except for their numbers, and what is left of the commits that mention
//! them. The stores look the entries up and write the outcome; the decision is the same in all of them.

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::keeping::ErasedFor;
use folio_memory::{Change, Entry, EntryId, Seq, Timestamp};

use crate::commit::{Folded, Record};
use crate::rewritten::Rewritten;

/// Entries that are dropped together.
#[derive(Debug)]
pub(crate) struct Burial {
    until: Timestamp,
    /// The highest number of any entry. That entry keeps its row, so that its number is not assigned again.
    last: u64,
    gone: BTreeMap<EntryId, u64>,
}

/// What becomes of a commit.
#[derive(Debug)]
pub(crate) enum RemainingCommit {
    /// The commit mentions none of the dropped entries and stays as it is.
    Whole,
    /// This part of the commit is left.
    Part(Rewritten),
    /// Nothing is left but the numbers of this many entries that the commit had added.
    Numbers(u64),
}

impl Burial {
    /// An empty burial of content that was purged at `until` or before.
    pub(crate) fn new(until: Timestamp, last: u64) -> Self {
        Self {
            until,
            last,
            gone: BTreeMap::new(),
        }
    }

    /// Whether `entry` may be dropped, provided that the entries added with it may be, too.
    pub(crate) fn can_drop(&self, entry: &Entry) -> bool {
        let is_purged = entry.fields.erased.is_some_and(|why| why != ErasedFor::Forgotten);
        is_purged && entry.updated_at <= self.until && entry.handle.0 != self.last
    }

    /// Drops `entries`. Each of them may be dropped together with the entries that were added with it.
    pub(crate) fn drop_entries(&mut self, entries: &[Entry]) {
        self.gone.extend(entries.iter().map(|entry| (entry.id, entry.handle.0)));
    }

    /// Whether entry `id` is dropped.
    pub(crate) fn has(&self, id: EntryId) -> bool {
        self.gone.contains_key(&id)
    }

    /// The numbers of the dropped entries.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.gone.values().copied()
    }

    /// What is left of the commit with the record `record`.
    pub(crate) fn left_of(&self, mut record: Rewritten) -> RemainingCommit {
        let before = record.changes.len();
        let adds = |change: &&Change| matches!(change, Change::AddEntry(_));
        let added = record.changes.iter().filter(adds).count() as u64;
        record
            .changes
            .retain(|change| !entry_of(change).is_some_and(|id| self.has(id)));
        if record.changes.is_empty() && !record.is_of_run() {
            RemainingCommit::Numbers(added)
        } else if record.changes.len() < before {
            RemainingCommit::Part(record)
        } else {
            RemainingCommit::Whole
        }
    }
}

/// The entries that the commit with the record `record` added, which are dropped together or not at all; `None` if
/// something else in the commit has to stay.
pub(crate) fn added_together(record: &Rewritten) -> Option<BTreeSet<EntryId>> {
    if record.is_of_run() {
        return None;
    }
    let added = |change: &Change| match change {
        Change::AddEntry(new) => Some(new.id),
        _ => None,
    };
    let ids: BTreeSet<_> = record.changes.iter().filter_map(added).collect();
    // Changes of entries that an earlier commit added stay or go with that commit.
    let is_of_these = |change: &Change| entry_of(change).is_some_and(|id| ids.contains(&id));
    record.changes.iter().all(is_of_these).then_some(ids)
}

/// The entry that `change` adds, changes or erases.
fn entry_of(change: &Change) -> Option<EntryId> {
    match change {
        Change::AddEntry(new) => Some(new.id),
        Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => Some(*entry),
        _ => None,
    }
}

/// The record of commit `seq`, of which only the numbers of `entries` are left. It is merged with the records of
/// neighbouring commits of which the same is true.
pub(crate) fn folded(seq: Seq, entries: u64, before: Option<Folded>, after: Option<Folded>) -> Record {
    let entries_of = |neighbour: Option<Folded>| neighbour.map_or(0, |folded| folded.entries);
    Record {
        folded: Some(Folded {
            from: before.map_or(seq, |folded| folded.from),
            entries: entries + entries_of(before) + entries_of(after),
        }),
        ..Record::of(Vec::new())
    }
}

/// What a record's text says about commits of which nothing else is left; `None` if more is left.
pub(crate) fn folded_in(text: &str) -> Option<Folded> {
    serde_json::from_str::<Record>(text).ok()?.folded
}

#[cfg(test)]
mod tests {
    use folio_memory::change::NewEntry;
    use folio_memory::entry::EntryFields;
    use folio_memory::id::{EntryHandle, PageId};
    use folio_memory::{EntryKind, FieldChange, Link, Owner, Relation, Status, Trust};

    use super::*;
    use crate::fold;

    const AT: Timestamp = Timestamp::from_nanos(1);

    fn new(name: &str) -> NewEntry {
        NewEntry {
            id: EntryId::derived(&[name]),
            page: PageId::derived(&["page"]),
            kind: EntryKind::Note,
            fields: EntryFields::new(EntryKind::Note, Owner::user(), Trust::User),
        }
    }

    fn add(name: &str) -> Change {
        Change::AddEntry(Box::new(new(name)))
    }

    fn patch(name: &str) -> Change {
        Change::PatchEntry {
            entry: EntryId::derived(&[name]),
            fields: vec![FieldChange::Status(Status::Archived)],
            expected_version: None,
            base_version: None,
        }
    }

    fn record(changes: Vec<Change>) -> Rewritten {
        let text = fold::record_json(&Record::of(changes)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn purged(name: &str, number: u64, why: ErasedFor) -> Entry {
        let mut entry = Entry::added(new(name), EntryHandle(number), Seq(number), AT);
        entry.erase(why, Seq(9), AT);
        entry
    }

    #[test]
    fn entries_added_together_are_removable_if_nothing_else_was_committed() {
        let ids = |names: &[&str]| Some(names.iter().map(|name| EntryId::derived(&[name])).collect());
        assert_eq!(added_together(&record(vec![add("a"), add("b")])), ids(&["a", "b"]));
        assert_eq!(added_together(&record(vec![add("a"), patch("a")])), ids(&["a"]));
        assert_eq!(
            added_together(&record(vec![add("a"), patch("b")])),
            None,
            "b was there before"
        );
        let link = Change::AddLink(Link {
            src: "e1".to_owned(),
            rel: Relation::References,
            dst: "e2".to_owned(),
        });
        assert_eq!(added_together(&record(vec![add("a"), link])), None);
    }

    #[test]
    fn old_tombstone_is_removable_unless_it_is_last_or_forgotten() {
        let burial = Burial::new(AT, 3);
        assert!(burial.can_drop(&purged("a", 2, ErasedFor::Expired)));
        assert!(
            !burial.can_drop(&purged("a", 3, ErasedFor::Expired)),
            "its number would be given again"
        );
        assert!(
            !burial.can_drop(&purged("a", 2, ErasedFor::Forgotten)),
            "that it was forgotten stays"
        );
        assert!(!burial.can_drop(&Entry::added(new("a"), EntryHandle(2), Seq(2), AT)));
        let earlier = Burial::new(Timestamp::from_nanos(0), 3);
        assert!(!earlier.can_drop(&purged("a", 2, ErasedFor::Expired)));
    }

    #[test]
    fn commit_of_removed_entries_keeps_other_changes_or_their_count() {
        let mut burial = Burial::new(AT, 3);
        burial.drop_entries(&[purged("a", 1, ErasedFor::Expired), purged("b", 2, ErasedFor::Expired)]);
        assert_eq!(burial.numbers().collect::<BTreeSet<_>>(), BTreeSet::from([1, 2]));
        assert!(matches!(
            burial.left_of(record(vec![add("a"), add("b"), patch("a")])),
            RemainingCommit::Numbers(2)
        ));
        assert!(matches!(
            burial.left_of(record(vec![patch("c")])),
            RemainingCommit::Whole
        ));
        let RemainingCommit::Part(rest) = burial.left_of(record(vec![patch("a"), patch("c")])) else {
            panic!("something is left");
        };
        assert_eq!(rest.changes.len(), 1);
    }

    #[test]
    fn adjacent_emptied_commits_are_folded_into_one() {
        let neighbour = |from, entries| {
            Some(Folded {
                from: Seq(from),
                entries,
            })
        };
        let of = |record: Record| record.folded.map(|folded| (folded.from.0, folded.entries));
        assert_eq!(of(folded(Seq(5), 2, None, None)), Some((5, 2)));
        assert_eq!(of(folded(Seq(5), 2, neighbour(2, 4), neighbour(6, 1))), Some((2, 7)));
        let text = fold::record_json(&folded(Seq(5), 2, None, None)).unwrap();
        assert_eq!(folded_in(&text).map(|folded| folded.entries), Some(2));
        assert!(folded_in(&fold::record_json(&Record::of(vec![add("a")])).unwrap()).is_none());
    }
}
