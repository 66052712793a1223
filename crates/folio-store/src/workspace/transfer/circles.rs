//! What of a file may lead in a circle, with what is known of the entries here. No entry is asked for twice, and no way that was gone
//! is gone again for every line.

use std::collections::{HashMap, HashSet};

use folio_memory::{EntryId, Link, Relation};

use super::super::work::CIRCLE_MAX;

/// Links between entries, as the store has them and as the file does.
#[derive(Debug, Default)]
pub(super) struct Circles {
    ends: HashMap<(Relation, EntryId), Ends>,
    /// The entries whose links in the store are among them.
    known: HashSet<EntryId>,
    pub(super) successors: Successors,
}

/// What the links of an entry lead to, and what leads to it.
#[derive(Debug, Default)]
struct Ends {
    on: Vec<EntryId>,
    back: Vec<EntryId>,
}

impl Circles {
    /// Notes a link of the file.
    pub(super) fn add(&mut self, rel: Relation, (src, dst): (EntryId, EntryId)) {
        self.ends.entry((rel, src)).or_default().on.push(dst);
        self.ends.entry((rel, dst)).or_default().back.push(src);
    }

    /// Whether the links that the store has of `entry` are known.
    pub(super) fn knows(&self, entry: EntryId) -> bool {
        self.known.contains(&entry)
    }

    /// Notes `links`, which are all that the store has of `entry`. Those of the file may be among them.
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

    /// Looks for a way from the end of a link back to its beginning.
    pub(super) fn search(&self, (src, dst): (EntryId, EntryId)) -> Search {
        Search {
            sides: [Side::from(dst, src), Side::from(src, dst)],
            turn: 0,
        }
    }
}

/// Goes on from the end of a link and back from its beginning, a step each in turn. There is no circle as soon as one of them comes to
/// an end, so that a chain is added to at the cost of its shorter part.
#[derive(Debug)]
pub(super) struct Search {
    sides: [Side; 2],
    turn: usize,
}

#[derive(Debug)]
struct Side {
    goal: EntryId,
    seen: HashSet<EntryId>,
    /// The same, in the order in which they were found.
    found: Vec<EntryId>,
    /// Whose links come next, and which of them.
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
    /// The entry whose links the next step goes by.
    pub(super) fn next(&self) -> Option<EntryId> {
        let side = &self.sides[self.turn];
        side.found.get(side.at.0).copied()
    }

    /// Looks at one link more: whether there is a circle, once that is known. Where very many are connected it is not looked for.
    pub(super) fn step(&mut self, circles: &Circles, rel: Relation) -> Option<bool> {
        let goes_on = self.turn == 0;
        let side = &mut self.sides[self.turn];
        let Some(entry) = side.found.get(side.at.0) else {
            return Some(false);
        };
        if *entry == side.goal {
            return Some(true);
        }
        let ends = circles.ends.get(&(rel, *entry));
        let others = ends.map_or(&[][..], |ends| if goes_on { &ends.on } else { &ends.back });
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

/// What took the place of entries.
#[derive(Debug, Default)]
pub(super) struct Successors {
    /// As the file says: the next one, or one that this leads to by way of others that the file says it of.
    of_file: HashMap<EntryId, EntryId>,
    /// As it is here.
    here: HashMap<EntryId, Option<EntryId>>,
}

/// What has to be known before it can be said what an entry leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// Whether it leads there.
    There(bool),
    /// What took the place of this one, here.
    Ask(EntryId),
}

impl Successors {
    /// Notes that `by` took the place of `entry`, as the file says, which says it of each once.
    pub(super) fn add(&mut self, entry: EntryId, by: EntryId) {
        self.of_file.insert(entry, by);
    }

    /// Notes what took the place of `entry` here, if anything did.
    pub(super) fn learn(&mut self, entry: EntryId, by: Option<EntryId>) {
        self.here.insert(entry, by);
    }

    /// Whether `start` is `goal`, of which the file has not been believed yet, or leads to it.
    pub(super) fn lead(&mut self, start: EntryId, goal: EntryId) -> Leads {
        let (mut at, mut seen, mut way) = (start, HashSet::new(), Vec::new());
        // An earlier version may have brought in a circle: it is gone round once.
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
