//! The things to which a commit refers, in the state in which it leaves them.

use std::collections::HashMap;

use folio_memory::keeping::Watched;
use folio_memory::{Entry, EntryId, NewEntry, NewPage, Page, Seq, Turn};

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
