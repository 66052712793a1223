//! How parts of a run are stopped, or wait until they are tried again: what has a result keeps it, what runs is told to end, and the rest does not begin (E9.5, E9.11).

use std::collections::BTreeSet;

use folio_memory::Timestamp;

use super::state::Run;
use super::tree::{Cancel, NodeKind};
use crate::node::{Move, NodeState};
use crate::result::{Failure, NodeResult, Outcome};

impl Run {
    /// Node `index` waits until it is tried again, because of `failure`.
    pub(super) fn park(&mut self, index: usize, until: Timestamp, failure: &Failure) {
        self.parked.insert((until, index));
        let node = &mut self.nodes[index];
        node.retry_at = Some(until);
        node.parked_for = failure.message.as_str().into();
    }

    /// Node `index` waits for no other attempt any more.
    pub(super) fn unpark(&mut self, index: usize) {
        if let Some(retry_at) = self.nodes[index].retry_at.take() {
            self.parked.remove(&(retry_at, index));
        }
    }

    /// What node `index` came to, of which nothing is there and which was stopped for `why`. Whoever had the time that is over has failed, as at
    /// any other limit (E9.10); nobody wanted it stopped, and what was stopped with it is cancelled.
    pub(super) fn stopped(&self, index: usize, why: Cancel, notes: &str) -> NodeResult {
        let around = self.nodes[index].parent.and_then(|parent| self.nodes[parent].cancel);
        if why == Cancel::ByDeadline && around != Some(Cancel::ByDeadline) {
            NodeResult::failed(self.severity_of(index, why.reason()), why.reason(), notes)
        } else {
            NodeResult::stopped(Outcome::Cancelled, why.reason(), notes)
        }
    }

    /// Whether `container` needs only some of its members to be `ok` and may still have so many: then one that failed hard holds nobody
    /// back, for the others are there to do without it (E9.5).
    pub(super) fn has_enough_left(&self, container: usize) -> bool {
        let node = &self.nodes[container];
        node.enough_ok()
            .is_some_and(|enough| node.children_ok + node.children_left >= enough)
    }

    /// Begins no more children of `container`: those that have not begun are skipped.
    pub(super) fn halt(&mut self, container: usize) {
        if std::mem::replace(&mut self.nodes[container].halted, true) {
            return;
        }
        self.halted.insert(container);
        for child in self.nodes[container].children.clone() {
            if self.nodes[child].state == NodeState::Created || self.is_asked_to_begin(child) {
                self.skip(child);
            }
        }
    }

    /// What stands in a container that begins no more, was opened before that, and of which nothing has begun: it does not begin, either (E9.5).
    /// Looked at when something is due, because earlier versions let it begin, and what has begun goes on.
    pub(super) fn held_back(&self) -> BTreeSet<usize> {
        let containers = self.halted.iter();
        let children = containers.flat_map(|container| &self.nodes[*container].children);
        let is_ending = |child: &usize| self.skipped.contains(child) || self.settled.contains(child);
        let children = children.copied().filter(|child| !is_ending(child));
        children.filter(|child| self.is_only_opened(*child)).collect()
    }

    /// Whether node `index` has not begun, whatever holds it together or whoever was asked about it.
    pub(super) fn is_to_begin(&self, index: usize) -> bool {
        self.nodes[index].state == NodeState::Created || self.is_asked_to_begin(index) || self.is_only_opened(index)
    }

    /// Whether node `index` holds steps together none of which has begun.
    fn is_only_opened(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        node.state == NodeState::RunningChildren && node.cancel.is_none() && !self.has_begun(index)
    }

    /// Whether anything that is no mere opening has begun at node `index` or below it.
    fn has_begun(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        match node.kind {
            NodeKind::Plan | NodeKind::Parallel | NodeKind::Sequence | NodeKind::ForEach => {
                node.agent.is_some() || node.children.iter().any(|child| self.has_begun(*child))
            }
            NodeKind::Call | NodeKind::Model | NodeKind::Action | NodeKind::RollUp => {
                node.started_at.is_some() || node.agent.is_some()
            }
        }
    }

    /// Whether a person is asked, or has said, whether the call of node `index` may begin, and it has not.
    fn is_asked_to_begin(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        node.state == NodeState::WaitingInput && node.started_at.is_none() && self.asked_about.contains_key(&index)
    }

    pub(super) fn skip(&mut self, index: usize) {
        self.ready.remove(&index);
        self.skipped.insert(index);
    }

    pub(super) fn cancel_children(&mut self, container: usize, why: Cancel) {
        for child in self.nodes[container].children.clone() {
            self.cancel(child, why);
        }
    }

    /// Stops a subtree: what has a result keeps it, what runs is to be stopped, the rest does not begin.
    pub(super) fn cancel(&mut self, top: usize, why: Cancel) {
        let mut stack = vec![top];
        while let Some(index) = stack.pop() {
            let node = &mut self.nodes[index];
            if node.is_terminal() || node.cancel.is_some() {
                continue;
            }
            node.cancel = Some(why);
            self.gated.remove(&index);
            self.inherited.remove(&index);
            let node = &mut self.nodes[index];
            let before = node.state;
            if let Some(next) = before.next(Move::Cancel) {
                node.state = next;
            }
            stack.extend(&node.children);
            match before {
                _ if self.executing.contains(&index) => drop(self.stopping.insert(index)),
                NodeState::RunningChildren => self.settle_if_done(index),
                // A model that waits for its calls: they are stopped first.
                NodeState::Executing if self.nodes[index].children_left > 0 => drop(self.ready.remove(&index)),
                _ => {
                    self.ready.remove(&index);
                    self.skipped.insert(index);
                }
            }
            self.unpark(index);
        }
    }
}
