//! Which nodes may begin or go on, which of them only wait for room, and who comes first.

use std::collections::BTreeSet;
use std::collections::btree_set;
use std::iter::Peekable;

use super::state::Run;
use super::tree::NodeKind;

/// Nodes that may begin, or go on, in the order in which they were made. Those that are owed nothing but a call stand apart: where there is
/// no room for one, nobody looks at them, however many they are.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Tasks that have begun: they may have something to be read.
    begun: BTreeSet<usize>,
    /// Calls that those want.
    wanted: BTreeSet<usize>,
    /// What begins without a call: plans, groups, tasks for people.
    opening: BTreeSet<usize>,
    /// What begins with a call.
    waiting: BTreeSet<usize>,
}

impl Ready {
    pub(super) fn contains(&self, index: &usize) -> bool {
        let sets = [&self.begun, &self.wanted, &self.opening, &self.waiting];
        sets.iter().any(|set| set.contains(index))
    }

    /// Whether it was one of them.
    pub(super) fn remove(&mut self, index: &usize) -> bool {
        let sets = [&mut self.begun, &mut self.wanted, &mut self.opening, &mut self.waiting];
        sets.into_iter().any(|set| set.remove(index))
    }

    /// All of them, in the order in which they are looked at.
    ///
    /// Who has begun goes on before anybody begins: of many tasks no more are in memory than there is room for, and what is there is put
    /// together before there is more (E9.15).
    pub(super) fn in_order(&self) -> InOrder<'_> {
        InOrder {
            begun: self.begun.iter(),
            wanted: self.wanted.iter(),
            opening: self.opening.iter().peekable(),
            waiting: self.waiting.iter().peekable(),
        }
    }
}

/// Those that are still to be looked at.
#[derive(Debug)]
pub(super) struct InOrder<'r> {
    begun: btree_set::Iter<'r, usize>,
    wanted: btree_set::Iter<'r, usize>,
    opening: Peekable<btree_set::Iter<'r, usize>>,
    waiting: Peekable<btree_set::Iter<'r, usize>>,
}

impl InOrder<'_> {
    /// The next one that has begun.
    pub(super) fn next_begun(&mut self) -> Option<usize> {
        self.begun.next().copied()
    }

    /// The next one of the others; of those that wait for room only if there is some.
    pub(super) fn next(&mut self, has_room: bool) -> Option<usize> {
        if !has_room {
            return self.opening.next().copied();
        }
        if let Some(index) = self.wanted.next() {
            return Some(*index);
        }
        let opens = match (self.opening.peek(), self.waiting.peek()) {
            (Some(opening), Some(waiting)) => opening < waiting,
            (opening, _) => opening.is_some(),
        };
        let of = if opens { &mut self.opening } else { &mut self.waiting };
        of.next().copied()
    }
}

impl Run {
    /// Node `index` may begin, or go on.
    pub(super) fn make_ready(&mut self, index: usize) {
        self.ready.remove(&index);
        if self.is_inherited(index) {
            return;
        }
        let is_for_person = self.is_for_person_at(index);
        let (node, ready) = (&self.nodes[index], &mut self.ready);
        let of = match node.kind {
            _ if node.agent.is_some() => &mut ready.begun,
            NodeKind::Action => &mut ready.wanted,
            NodeKind::Call | NodeKind::RollUp => &mut ready.waiting,
            // A person needs no room.
            NodeKind::Model if !is_for_person => &mut ready.waiting,
            NodeKind::Model | NodeKind::Plan | NodeKind::Parallel | NodeKind::Sequence | NodeKind::ForEach => {
                &mut ready.opening
            }
        };
        of.insert(index);
    }
}
