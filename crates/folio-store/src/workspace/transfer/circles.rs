//! Detects cycles that the links of a file would close together with those of the store. No entry is read twice, and no
//! path is followed again for every line.

use std::collections::{HashMap, HashSet};

use folio_memory::{EntryId, Link, Relation};

use crate::plan::CIRCLE_MAX;

/// Links between entries, from the store and from the file.
#[derive(Debug, Default)]
pub(super) struct Circles {
    ends: HashMap<(Relation, EntryId), Ends>,
    /// The entries whose links in the store are included.
    known: HashSet<EntryId>,
    pub(super) successors: Successors,
}

/// The entries that an entry links to, and those that link to it.
#[derive(Debug, Default)]
struct Ends {
    on: Vec<EntryId>,
    back: Vec<EntryId>,
}

impl Circles {
    /// Adds a link of the file.
    pub(super) fn add(&mut self, rel: Relation, (src, dst): (EntryId, EntryId)) {
        self.ends.entry((rel, src)).or_default().on.push(dst);
        self.ends.entry((rel, dst)).or_default().back.push(src);
    }

    /// Whether the store's links of `entry` are included.
    pub(super) fn knows(&self, entry: EntryId) -> bool {
        self.known.contains(&entry)
    }

    /// Adds `links`, which are all that the store has for `entry`. Those of the file may be among them.
    pub(super) fn learn(&mut self, entry: EntryId, links: &[Link]) {
        self.known.insert(entry);
        let name = entry.to_string();
        for rel in [Relation::Blocks, Relation::Supersedes] {
            let links = links.iter().filter(|link| link.rel == rel);
            let ends = self.ends.entry((rel, entry)).or_default();
            for link in links {
                if link.src == name {
                    ends.on.extend(link.dst.parse::<EntryId>());
                }
                if link.dst == name {
                    ends.back.extend(link.src.parse::<EntryId>());
                }
            }
            for side in [&mut ends.on, &mut ends.back] {
                side.sort();
                side.dedup();
            }
        }
    }

    /// Starts a search for a path from the end of a link back to its beginning.
    pub(super) fn search(&self, (src, dst): (EntryId, EntryId)) -> Search {
        Search {
            sides: [Side::from(dst, src), Side::from(src, dst)],
            turn: 0,
        }
    }
}

/// Searches forward from the end of a link and backward from its beginning, one step each in turn. There is no cycle as
/// soon as one side is exhausted, so extending a chain costs only as much as its shorter part.
#[derive(Debug)]
pub(super) struct Search {
    sides: [Side; 2],
    turn: usize,
}

#[derive(Debug)]
struct Side {
    goal: EntryId,
    seen: HashSet<EntryId>,
    /// The same entries in the order in which they were found.
    found: Vec<EntryId>,
    /// The entry whose links come next, and which of its links.
    at: (usize, usize),
}

impl Side {
    fn from(start: EntryId, goal: EntryId) -> Self {
        Self {
            goal,
            seen: HashSet::from([start]),
            found: vec![start],
            at: (0, 0),
        }
    }
}

impl Search {
    /// The entry whose links the next step follows.
    pub(super) fn next(&self) -> Option<EntryId> {
        let side = &self.sides[self.turn];
        side.found.get(side.at.0).copied()
    }

    /// Follows one more link; returns whether there is a cycle as soon as that is known. The search is given up where
    /// very many entries are connected.
    pub(super) fn step(&mut self, circles: &Circles, rel: Relation) -> Option<bool> {
        let is_forward = self.turn == 0;
        let side = &mut self.sides[self.turn];
        let Some(entry) = side.found.get(side.at.0) else {
            return Some(false);
        };
        if *entry == side.goal {
            return Some(true);
        }
        let ends = circles.ends.get(&(rel, *entry));
        let others = ends.map_or(&[][..], |ends| if is_forward { &ends.on } else { &ends.back });
        match others.get(side.at.1) {
            Some(other) => {
                side.at.1 += 1;
                if side.seen.insert(*other) {
                    side.found.push(*other);
                }
            }
            None => side.at = (side.at.0 + 1, 0),
        }
        self.turn = 1 - self.turn;
        let are_many = |side: &Side| side.found.len() > CIRCLE_MAX;
        self.sides.iter().all(are_many).then_some(false)
    }
}

/// What replaced entries.
#[derive(Debug, Default)]
pub(super) struct Successors {
    /// As the file says: the next entry, or one that this leads to by way of others in the file.
    of_file: HashMap<EntryId, EntryId>,
    /// As it is in the store.
    here: HashMap<EntryId, Option<EntryId>>,
}

/// The answer to where an entry leads, or what must be known first.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// Whether it leads there.
    There(bool),
    /// Needs to know what replaced this entry in the store.
    Ask(EntryId),
}

impl Successors {
    /// Adds that `by` replaced `entry` according to the file, which says it only once for each.
    pub(super) fn add(&mut self, entry: EntryId, by: EntryId) {
        self.of_file.insert(entry, by);
    }

    /// Adds what replaced `entry` in the store, if anything did.
    pub(super) fn learn(&mut self, entry: EntryId, by: Option<EntryId>) {
        self.here.insert(entry, by);
    }

    /// Whether `start` is or leads to `goal`, whose successor in the file is not accepted yet.
    pub(super) fn lead(&mut self, start: EntryId, goal: EntryId) -> Leads {
        let (mut at, mut seen, mut way) = (start, HashSet::new(), Vec::new());
        // An earlier version may have brought in a cycle: each entry is visited once.
        while at != goal && seen.insert(at) {
            if let Some(next) = self.of_file.get(&at) {
                way.push(at);
                at = *next;
                continue;
            }
            self.of_file.extend(way.drain(..).map(|entry| (entry, at)));
            match self.here.get(&at) {
                None => return Leads::Ask(at),
                Some(None) => return Leads::There(false),
                Some(Some(next)) => at = *next,
            }
        }
        Leads::There(at == goal)
    }
}

#[cfg(test)]
mod tests;
