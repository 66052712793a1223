//! How parts of a run are stopped, or wait to be tried again: what has a result keeps it, what is running is told to
//! end, and the rest does not begin (E9.5, E9.11).

use std::collections::BTreeSet;

use folio_memory::Timestamp;

use super::conclude::{CHANGES_NOTHING, MAY_HAVE_CHANGED};
use super::state::Run;
use super::tree::{Cancel, NodeKind};
use crate::event::Event;
use crate::node::{Move, NodeState};
use crate::plan::OnHard;
use crate::result::{Failure, NodeResult, Outcome, StopReason};
use crate::talk::ModelRole;

impl Run {
    /// Makes node `index` wait until it is tried again, because of `failure`.
    pub(super) fn park(&mut self, index: usize, until: Timestamp, failure: &Failure) {
        self.parked.insert((until, index));
        let node = &mut self.nodes[index];
        node.retry_at = Some(until);
        node.parked_for = failure.message.as_str().into();
    }

    /// Ends the wait of node `index` for another attempt.
    pub(super) fn unpark(&mut self, index: usize) {
        if let Some(retry_at) = self.nodes[index].retry_at.take() {
            self.parked.remove(&(retry_at, index));
        }
    }

    /// The result of node `index`, which has nothing to show and was stopped for `why`. A node whose own time is over
    /// has failed, as at any other limit (E9.10), because nobody asked to stop it; nodes that were stopped with it are
    /// cancelled.
    pub(super) fn stopped_result(&self, index: usize, why: Cancel, notes: &str) -> NodeResult {
        let parent_cancel = self.nodes[index].parent.and_then(|parent| self.nodes[parent].cancel);
        if why == Cancel::ByDeadline && parent_cancel != Some(Cancel::ByDeadline) {
            NodeResult::failed(self.severity_of(index, why.reason()), why.reason(), notes)
        } else {
            NodeResult::stopped(Outcome::Cancelled, why.reason(), notes)
        }
    }

    /// Whether `container` needs only some of its members to be `ok`, and can still get that many: then a hard failure
    /// holds nobody back, because the others can make up for it (E9.5).
    pub(super) fn has_enough_left(&self, container: usize) -> bool {
        let node = &self.nodes[container];
        node.required_ok_count()
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

    /// The event that ends node `index` as failed.
    pub(super) fn failed_event(&self, index: usize, reason: StopReason, notes: impl Into<String>) -> Event {
        let result = NodeResult::failed(self.severity_of(index, reason), reason, notes);
        Event::Finished {
            node: self.nodes[index].id,
            result: Box::new(result),
        }
    }

    /// The event that ends node `index`, which does not begin, or not go on.
    pub(super) fn skipped_event(&self, index: usize) -> Event {
        let node = &self.nodes[index];
        let result = match self.late_result(index) {
            Some(kept) => kept,
            None => NodeResult {
                attempts: node.attempt,
                ..self.skipped_result(index)
            },
        };
        Event::Finished {
            node: node.id,
            result: Box::new(result),
        }
    }

    fn skipped_result(&self, index: usize) -> NodeResult {
        let node = &self.nodes[index];
        match node.cancel {
            Some(cancel) if self.has_answered(index) => self.stopped_when_done(index, cancel),
            Some(cancel) if node.attempt > 0 && matches!(node.kind, NodeKind::Call | NodeKind::Action) => {
                let notes = match &*node.parked_for {
                    "" if self.is_read_only_call(index) => CHANGES_NOTHING.to_owned(),
                    "" => MAY_HAVE_CHANGED.to_owned(),
                    failure => format!("stopped while it waited for another attempt; the last failed: {failure}"),
                };
                self.stopped_result(index, cancel, &notes)
            }
            Some(cancel) if node.started_at.is_some() => {
                let notes = if self.is_done_by_program(index) {
                    MAY_HAVE_CHANGED
                } else {
                    "stopped before it was finished"
                };
                self.stopped_result(index, cancel, notes)
            }
            Some(cancel) => self.stopped_result(index, cancel, "stopped before it began"),
            None if self.is_dropped(index) => {
                let is_rejected = self.self_and_ancestors(index).any(|at| self.has_rejected_plan(at));
                let happened = if is_rejected { "rejected" } else { "changed" };
                let notes = format!("not begun, because the plan was {happened}");
                NodeResult::stopped(Outcome::Skipped, StopReason::Superseded, notes)
            }
            None => {
                let failed = if self.parent_failed(index) {
                    "the step that it is in failed"
                } else {
                    "an earlier step failed"
                };
                NodeResult::stopped(
                    Outcome::Skipped,
                    StopReason::UpstreamFailed,
                    format!("not begun, because {failed}"),
                )
            }
        }
    }

    /// Whether a program that works alone does the task of node `index`: nobody sees what it did until it says so.
    fn is_done_by_program(&self, index: usize) -> bool {
        self.nodes[index].kind == NodeKind::Model && self.is_filled_by_program(index, ModelRole::Executor)
    }

    /// Whether the parent of node `index` failed, as a group does if none of its members can begin.
    fn parent_failed(&self, index: usize) -> bool {
        let parent = self.nodes[index].parent.map(|parent| &self.nodes[parent]);
        let result = parent.and_then(|parent| parent.result.as_ref());
        result.is_some_and(|result| result.status == Outcome::Failed)
    }

    /// Nodes that do not begin because of a hard failure, although earlier versions let them begin (E9.4, E9.5): what
    /// was opened in a halted container before the halt and in which nothing has begun, and the steps around a group
    /// that will end as failed hard. Determined when due actions are requested, because what has begun continues.
    pub(super) fn held_back(&self) -> BTreeSet<usize> {
        let opened = self.children_of(self.halted.iter().copied());
        let opened = opened.filter(|child| self.is_only_opened(*child));
        let around: BTreeSet<usize> = self.failing.iter().flat_map(|group| self.held_around(*group)).collect();
        let around = self.children_of(around.into_iter());
        // What fails has begun, even if the member that failed never did: somebody rejected its call, for instance.
        let failing: BTreeSet<usize> = self
            .failing
            .iter()
            .flat_map(|group| self.self_and_ancestors(*group))
            .collect();
        let is_held =
            |child: &usize| self.is_to_begin(*child) && !failing.contains(child) && !self.is_inherited(*child);
        let around = around.filter(is_held);
        opened.chain(around).collect()
    }

    /// The children of `containers` that have not been found to end as they are.
    fn children_of(&self, containers: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
        let children = containers.flat_map(|container| &self.nodes[container].children);
        let is_ending = |child: &usize| self.skipped.contains(child) || self.settled.contains(child);
        children.copied().filter(move |child| !is_ending(child))
    }

    /// The containers around `group`, which will end as failed hard, of which no more children begin: the groups around
    /// it up to the plan that they are steps of. A step may need one that ended in the group, and would otherwise begin
    /// before the group has ended. A group that needs only some of its members waits for the end of each.
    pub(super) fn held_around(&self, group: usize) -> Vec<usize> {
        let mut held = Vec::new();
        let mut at = group;
        // A group that somebody cancels ends as cancelled, whatever happened in it.
        let will_fail = |at: usize| !self.nodes[at].optional && self.nodes[at].cancel.is_none();
        while let Some(container) = self.nodes[at].parent.filter(|_| will_fail(at)) {
            let node = &self.nodes[container];
            if node.required_ok_count().is_some() {
                break;
            }
            if node.on_hard() != OnHard::Continue {
                held.push(container);
            }
            if !self.is_part_of_plan(container) {
                break;
            }
            at = container;
        }
        held
    }

    /// Forgets what a hard failure in the plan of `owner` holds back: it holds back nothing in another version.
    pub(super) fn forget_failures_in(&mut self, owner: usize) {
        self.nodes[owner].halted = false;
        self.halted.remove(&owner);
        let is_plan = |at: &usize| !self.is_part_of_plan(*at);
        let is_in = |group: &usize| self.self_and_ancestors(*group).find(is_plan) == Some(owner);
        let failing = self.failing.iter().copied().filter(|group| !is_in(group)).collect();
        self.failing = failing;
    }

    /// Whether node `index` only structures a plan: its members are steps of that plan, or items of a list in it.
    pub(super) fn is_part_of_plan(&self, index: usize) -> bool {
        let kind = self.nodes[index].kind;
        kind.is_group() || kind == NodeKind::ForEach
    }

    /// Whether node `index` has not begun yet, even if it was opened or somebody was asked to approve it.
    pub(super) fn is_to_begin(&self, index: usize) -> bool {
        self.nodes[index].state == NodeState::Created || self.is_asked_to_begin(index) || self.is_only_opened(index)
    }

    /// Whether node `index` only contains other steps, and none of them has begun.
    fn is_only_opened(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        node.state == NodeState::RunningChildren && node.cancel.is_none() && !self.has_begun(index)
    }

    /// Whether anything other than an opening has begun at node `index` or below it.
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

    /// Whether a person was asked to approve the call of node `index`, and it has not begun.
    pub(super) fn is_asked_to_begin(&self, index: usize) -> bool {
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

    /// Stops a subtree: what has a result keeps it, what is running is to be stopped, the rest does not begin.
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
                // A model waits for its calls: these are stopped first.
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
