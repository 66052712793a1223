//! The things to which a commit refers, in the state in which it leaves them.

use std::collections::HashMap;

use folio_memory::keeping::{Eraser, Watched};
use folio_memory::{Entry, EntryId, NewEntry, NewPage, Page, RunId, Seq, Turn, TurnId};

use crate::commit::RunAppend;
use crate::place::Place;

/// Things to which a commit refers, in the order in which it does, each once.
#[derive(Debug)]
pub(crate) struct Planned<K, V> {
    pub(crate) items: Vec<V>,
    pub(crate) by_id: HashMap<K, usize>,
}

/// A page to which a commit refers.
#[derive(Debug)]
pub(crate) struct PlannedPage<'c> {
    pub(crate) place: Place,
    /// If the commit adds the page: its fields.
    pub(crate) new: Option<(&'c NewPage, &'c str, Option<Place>)>,
    /// The state after the commit, once it was looked up.
    pub(crate) page: Option<Page>,
    pub(crate) is_changed: bool,
}

/// An entry to which a commit refers.
#[derive(Debug)]
pub(crate) struct PlannedEntry<'c> {
    pub(crate) place: Place,
    /// If the commit adds the entry: its fields, and the page.
    pub(crate) new: Option<(&'c NewEntry, &'c str, Place)>,
    /// The state after the commit; `None` as long as it is the one in `new`.
    pub(crate) entry: Option<Entry>,
    pub(crate) old_terms: Vec<String>,
    pub(crate) old_watched: Vec<Watched>,
    pub(crate) is_changed: bool,
}

/// The run to which a commit writes.
#[derive(Debug)]
pub(crate) struct PlannedRun<'c> {
    pub(crate) append: &'c RunAppend,
    pub(crate) place: Place,
    pub(crate) is_new: bool,
}

/// A turn to which a commit refers.
#[derive(Debug)]
pub(crate) struct PlannedTurn {
    pub(crate) place: Place,
    pub(crate) turn: Turn,
    pub(crate) is_new: bool,
}

/// An entry whose content is erased, and the commit that added it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErasedEntry {
    pub(crate) id: EntryId,
    pub(crate) place: Place,
    pub(crate) created: Seq,
}

/// A turn whose content is erased, and the commits that began and ended it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErasedTurn {
    pub(crate) id: TurnId,
    pub(crate) began: Seq,
    pub(crate) ended: Option<Seq>,
}

/// A run that is forgotten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErasedRun {
    pub(crate) id: RunId,
    pub(crate) place: Place,
}

/// What is erased.
#[derive(Debug, Clone, Default)]
pub(crate) struct Erased {
    pub(crate) entries: Vec<ErasedEntry>,
    pub(crate) turns: Vec<ErasedTurn>,
    /// Their titles and notes go with the commit, and their journals later, part by part.
    pub(crate) runs: Vec<ErasedRun>,
}

impl Erased {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.turns.is_empty() && self.runs.is_empty()
    }

    pub(crate) fn extend(&mut self, more: &Self) {
        self.entries.extend_from_slice(&more.entries);
        self.turns.extend_from_slice(&more.turns);
        self.runs.extend_from_slice(&more.runs);
    }

    /// The eraser for the entries and the turns.
    pub(crate) fn eraser(&self) -> Eraser {
        let entries = self.entries.iter().map(|entry| entry.id);
        Eraser::of(entries, self.turns.iter().map(|turn| turn.id))
    }

    /// The commits that may contain it, apart from those that changed entries after they were added.
    pub(crate) fn first_commits(&self) -> impl Iterator<Item = Seq> {
        let entries = self.entries.iter().map(|entry| entry.created);
        let turns = self.turns.iter().flat_map(|turn| [Some(turn.began), turn.ended]);
        entries.chain(turns.flatten())
    }
}

impl<K: std::hash::Hash + Eq, V> Planned<K, V> {
    /// Adds `item`; returns its index.
    pub(crate) fn add(&mut self, id: K, item: V) -> usize {
        let index = self.items.len();
        self.items.push(item);
        self.by_id.insert(id, index);
        index
    }
}

impl<K, V> Default for Planned<K, V> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            by_id: HashMap::new(),
        }
    }
}
