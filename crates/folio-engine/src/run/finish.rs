//! The end of a node, and what it sets free: the nodes that waited for it, and its parent once all its children have
//! ended.

use folio_memory::Timestamp;

use super::state::Run;
use super::tree::{Cancel, NodeKind};
use crate::node::NodeState;
use crate::plan::OnHard;
use crate::result::{NodeResult, Outcome};

impl Run {
    /// Ends node `index` with `result`.
    pub(super) fn finish(&mut self, at: Timestamp, index: usize, result: &NodeResult) {
        self.forget_pending(index);
        self.give_back_resources(index);
        self.end_time(index);
        self.note_end_of_call(index);
        self.keep_result(at, index, result);
        if self.nodes[index].waits_left == 0 {
            self.release_all_after(index);
        }
        // Members of a group that never began get a record of their own, so that no node is left without a result.
        // All of them at once: nobody waits for the members of its groups, and the run could end before them.
        let mut below = self.nodes[index].children.clone();
        while let Some(child) = below.pop() {
            if self.is_to_begin(child) {
                self.skip(child);
                below.extend(&self.nodes[child].children);
            }
        }
        if let Some(parent) = self.nodes[index].parent {
            self.child_ended(parent, index, result);
        }
    }

    /// Takes node `index` out of everything that lists what is under way or still to come.
    fn forget_pending(&mut self, index: usize) {
        self.ready.remove(&index);
        self.end_inheriting(index);
        self.skipped.remove(&index);
        self.settled.remove(&index);
        self.halted.remove(&index);
        self.failing.remove(&index);
        self.executing.remove(&index);
        self.stopping.remove(&index);
        self.gated.remove(&index);
        self.replanning.remove(&index);
        self.asked_about.remove(&index);
        self.pauses_to_come.remove(&index);
    }

    fn keep_result(&mut self, at: Timestamp, index: usize, result: &NodeResult) {
        let node = &mut self.nodes[index];
        node.result = Some(NodeResult {
            output: result.output.packed(),
            ..result.clone()
        });
        node.finished_at = Some(at);
        if node.agent.is_some() {
            self.agent_ended(index);
        }
        self.release_set_aside(index);
        *self.finished.entry(result.status).or_insert(0) += 1;
        if self.nodes[index].superseded {
            *self.superseded.entry(result.status).or_insert(0) += 1;
        }
    }

    /// What follows for `parent` from the `result` of its child `index`.
    fn child_ended(&mut self, parent: usize, index: usize, result: &NodeResult) {
        let node = &self.nodes[index];
        // A failed call that a model wanted is for the model to handle, and stops nothing else.
        let stops_others = result.is_hard() && !node.optional && node.kind != NodeKind::Action;
        let container = &mut self.nodes[parent];
        container.children_left = container.children_left.saturating_sub(1);
        container.children_ok += u32::from(result.status == Outcome::Ok);
        if stops_others {
            let on_hard = container.on_hard();
            if self.is_part_of_plan(parent) && !self.has_enough_left(parent) {
                self.failing.insert(parent);
            }
            match on_hard {
                OnHard::Continue => {}
                OnHard::Hold if self.has_enough_left(parent) => {}
                OnHard::Hold => self.halt(parent),
                OnHard::Cancel => self.cancel_children(parent, Cancel::ByParent),
            }
        }
        let container = &self.nodes[parent];
        if container
            .required_ok_count()
            .is_some_and(|enough| container.children_ok >= enough)
        {
            self.cancel_children(parent, Cancel::ByParent);
        }
        self.settle_if_done(parent);
    }

    /// Notes that one thing that `index` waited for has come.
    pub(super) fn release(&mut self, index: usize) {
        let mut released = vec![index];
        while let Some(index) = released.pop() {
            let node = &mut self.nodes[index];
            node.waits_left = node.waits_left.saturating_sub(1);
            if node.waits_left > 0 {
                continue;
            }
            if node.is_terminal() {
                self.release_dependents(index, &mut released);
            } else if self.may_begin(index) {
                self.make_ready(index);
                if self.has_lanes_around(index) {
                    self.hold_for(index);
                }
            }
        }
    }

    /// Notes, for everything that waited for node `index`, that it has ended and itself waits for nothing.
    pub(super) fn release_all_after(&mut self, index: usize) {
        let mut released = Vec::new();
        self.release_dependents(index, &mut released);
        for dependent in released {
            self.release(dependent);
        }
    }

    /// Adds to `released` the nodes that waited for node `index`, which has ended and itself waits for nothing.
    ///
    /// Waiting for a step implies waiting for everything that the step waits for (only the fewest waits are kept), and
    /// the members of a group that never began wait for it too. So a node that ends before its turn holds back what
    /// follows it until its turn has come (E9.1, E9.2).
    fn release_dependents(&mut self, index: usize, released: &mut Vec<usize>) {
        let node = &mut self.nodes[index];
        released.append(&mut node.dependents);
        if node.started_at.is_none() && node.kind.is_group() {
            released.extend(&node.children);
        }
    }

    /// Notes that node `index` only lacks its own result, if all its children have theirs.
    pub(super) fn settle_if_done(&mut self, index: usize) {
        let node = &self.nodes[index];
        if node.kind == NodeKind::Model && node.state != NodeState::Cancelling {
            self.child_of_agent_ended(index);
            return;
        }
        if node.children_left == 0 && matches!(node.state, NodeState::RunningChildren | NodeState::Cancelling) {
            self.settled.insert(index);
        }
    }
}
