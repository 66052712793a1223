//! Which nodes may begin or go on, and which of them only wait for room.

use std::collections::BTreeSet;

use super::state::Run;
use super::tree::NodeKind;

/// Nodes that may begin, or go on. Those that are owed nothing but a call stand apart: where there is no room for one, nobody looks at
/// them, however many they are.
#[derive(Debug, Default)]
pub(super) struct Ready {
    owed: BTreeSet<usize>,
    waiting: BTreeSet<usize>,
}

impl Ready {
    /// Those that may be owed something without room for a call, in the order in which they were made.
    pub(super) fn owed(&self) -> impl Iterator<Item = usize> {
        self.owed.iter().copied()
    }

    /// Those that wait for room, in the same order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().copied()
    }

    pub(super) fn contains(&self, index: &usize) -> bool {
        self.owed.contains(index) || self.waiting.contains(index)
    }

    /// Whether it was one of them.
    pub(super) fn remove(&mut self, index: &usize) -> bool {
        self.owed.remove(index) || self.waiting.remove(index)
    }
}

impl Run {
    /// Node `index` may begin, or go on.
    pub(super) fn make_ready(&mut self, index: usize) {
        let node = &self.nodes[index];
        // What has an agent may have something to be read. A person needs no room.
        let waits = node.agent.is_none()
            && match node.kind {
                NodeKind::Call | NodeKind::Action | NodeKind::RollUp => true,
                NodeKind::Model => !self.is_for_person_at(index),
                NodeKind::Plan | NodeKind::Parallel | NodeKind::Sequence | NodeKind::ForEach => false,
            };
        let (of, other) = if waits {
            (&mut self.ready.waiting, &mut self.ready.owed)
        } else {
            (&mut self.ready.owed, &mut self.ready.waiting)
        };
        other.remove(&index);
        of.insert(index);
    }
}
