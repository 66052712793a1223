//! Which nodes may begin or continue, which of them only wait for room, and in which order they do.

use std::collections::BTreeSet;
use std::collections::btree_set;
use std::iter::Peekable;

use super::state::Run;
use super::tree::NodeKind;

/// Nodes that may begin or continue, in the order in which they were created. Those that need only a call are kept
/// apart: while there is no room for a call, none of them is looked at, however many there are.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Tasks that have begun: some of them may need something read.
    begun: BTreeSet<usize>,
    /// Calls that the models of these tasks want.
    wanted: BTreeSet<usize>,
    /// Nodes that begin without a call: plans, groups, tasks for people.
    opening: BTreeSet<usize>,
    /// Nodes that begin with a call.
    waiting: BTreeSet<usize>,
}

impl Ready {
    pub(super) fn contains(&self, index: &usize) -> bool {
        let sets = [&self.begun, &self.wanted, &self.opening, &self.waiting];
        sets.iter().any(|set| set.contains(index))
    }

    /// Removes the node. Returns whether it was there.
    pub(super) fn remove(&mut self, index: &usize) -> bool {
        let sets = [&mut self.begun, &mut self.wanted, &mut self.opening, &mut self.waiting];
        sets.into_iter().any(|set| set.remove(index))
    }

    /// All of them, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> + '_ {
        let sets = [&self.begun, &self.wanted, &self.opening, &self.waiting];
        sets.into_iter().flatten().copied()
    }

    /// All of them, in the order in which they are considered.
    ///
    /// Nodes that have begun go first: so no more tasks are in memory than there is room for, and their results are
    /// combined before more begin (E9.15).
    pub(super) fn in_order(&self) -> InOrder<'_> {
        InOrder {
            begun: self.begun.iter(),
            wanted: self.wanted.iter(),
            opening: self.opening.iter().peekable(),
            waiting: self.waiting.iter().peekable(),
        }
    }
}

/// The nodes that are still to be considered.
#[derive(Debug)]
pub(super) struct InOrder<'r> {
    begun: btree_set::Iter<'r, usize>,
    wanted: btree_set::Iter<'r, usize>,
    opening: Peekable<btree_set::Iter<'r, usize>>,
    waiting: Peekable<btree_set::Iter<'r, usize>>,
}

impl InOrder<'_> {
    /// The next node that has begun.
    pub(super) fn next_begun(&mut self) -> Option<usize> {
        self.begun.next().copied()
    }

    /// The next of the others; one that needs a call only if there is room.
    pub(super) fn next(&mut self, has_room: bool) -> Option<usize> {
        if !has_room {
            return self.opening.next().copied();
        }
        if let Some(index) = self.wanted.next() {
            return Some(*index);
        }
        let is_opening = match (self.opening.peek(), self.waiting.peek()) {
            (Some(opening), Some(waiting)) => opening < waiting,
            (opening, _) => opening.is_some(),
        };
        let of = if is_opening {
            &mut self.opening
        } else {
            &mut self.waiting
        };
        of.next().copied()
    }
}

impl Run {
    /// Marks that node `index` may begin or continue.
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
            // A task for a person needs no room.
            NodeKind::Model if !is_for_person => &mut ready.waiting,
            NodeKind::Model | NodeKind::Plan | NodeKind::Parallel | NodeKind::Sequence | NodeKind::ForEach => {
                &mut ready.opening
            }
        };
        of.insert(index);
    }
}
