//! The things that a commit names, as it leaves them.

use std::collections::HashMap;

use folio_memory::keeping::Watched;
use folio_memory::{Entry, EntryId, NewEntry, NewPage, Page, Seq, Turn};

use crate::commit::RunAppend;
use crate::place::Place;

/// Things that a commit names, in the order in which it does, each once.
#[derive(Debug)]
pub(crate) struct Planned<K, V> {
    pub(crate) items: Vec<V>,
    pub(crate) by_id: HashMap<K, usize>,
}

/// A page that a commit names.
#[derive(Debug)]
pub(crate) struct PlannedPage<'c> {
    pub(crate) place: Place,
    /// If the commit adds it: as what.
    pub(crate) new: Option<(&'c NewPage, &'c str, Option<Place>)>,
    /// As it will be, once somebody had to look.
    pub(crate) page: Option<Page>,
    pub(crate) is_changed: bool,
}

/// An entry that a commit names.
#[derive(Debug)]
pub(crate) struct PlannedEntry<'c> {
    pub(crate) place: Place,
    /// If the commit adds it: as what, and onto which page.
    pub(crate) new: Option<(&'c NewEntry, &'c str, Place)>,
    /// As it will be; none as long as it is what `new` says.
    pub(crate) entry: Option<Entry>,
    pub(crate) old_terms: Vec<String>,
    pub(crate) old_watched: Vec<Watched>,
    pub(crate) is_changed: bool,
}

/// The run that a commit writes to.
#[derive(Debug)]
pub(crate) struct PlannedRun<'c> {
    pub(crate) append: &'c RunAppend,
    pub(crate) place: Place,
    pub(crate) is_new: bool,
}

/// A turn that a commit names.
#[derive(Debug)]
pub(crate) struct PlannedTurn {
    pub(crate) place: Place,
    pub(crate) turn: Turn,
    pub(crate) is_new: bool,
}

/// An entry whose content goes, and the commit that added it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gone {
    pub(crate) id: EntryId,
    pub(crate) place: Place,
    pub(crate) created: Seq,
}

impl<K: std::hash::Hash + Eq, V> Planned<K, V> {
    /// Notes `item`; its index.
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
