//! How an edited plan takes the place of the one before it: which steps keep their nodes, and what they wait for now
//! (E9.1, E9.14).

use std::sync::Arc;

use serde_json::Value;

use super::NodeView;
use super::agent::read_steps;
use super::state::{JournalError, Run};
use crate::node::{Move, NodeId, NodeState};
use crate::plan::{self, Graph};

impl Run {
    /// Folds [`Event::PlanEdited`](crate::Event::PlanEdited) in.
    pub(super) fn edited(
        &mut self,
        node: NodeId,
        version: u32,
        steps: &Value,
        kept: &[NodeId],
    ) -> Result<(), JournalError> {
        let steps = read_steps(steps)?;
        let index = self.index(node)?;
        let kept: Vec<usize> = kept.iter().map(|id| self.index(*id)).collect::<Result<_, _>>()?;
        let state = self.nodes[index].state;
        let refused = || JournalError::Transition {
            node,
            state: state.as_str(),
            event: "plan_edited",
        };
        let plan = self.nodes[index].plan.as_ref().filter(|_| state.has_steps_to_come());
        let (frame, members) = plan
            .map(|plan| (plan.frame, plan.members.clone()))
            .ok_or_else(refused)?;
        if state == NodeState::AwaitingApproval {
            self.step_to(node, Move::Expand)?;
            self.gated.remove(&index);
            self.replace_previous_plan(index);
        }
        self.ready.remove(&index);
        self.settled.remove(&index);
        let replaced: Vec<usize> = members.into_iter().filter(|member| !kept.contains(member)).collect();
        let paused = self.paused_parts(&replaced);
        for member in &replaced {
            self.supersede(*member, version);
        }
        self.forget_failures_in(index);
        self.forget_roll_ups(index);
        let graph = Arc::new(Graph::of(&steps));
        let plan = self.nodes[index].plan.as_deref();
        let before = plan.map(|plan| (plan.members_before.clone(), plan.version_before));
        self.lay_out(index, frame, &graph, version, &kept);
        self.inherit_pauses(frame, paused);
        // A plan that waited for approval never took the place of the one before it.
        if state == NodeState::AwaitingApproval
            && let Some(plan) = self.nodes[index].plan.as_deref_mut()
        {
            let (members_before, version_before) = before.unwrap_or_default();
            plan.members_before = members_before;
            if version_before > 0 {
                plan.replaced_version = version_before;
            }
        }
        let whole = self.whole_plan(index);
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.plan_was_edited(version, plan::hash_of(&steps), whole);
        }
        self.settle_if_done(index);
        Ok(())
    }

    /// Takes node `index` out of its plan, because of version `version`. If it has not begun, it never does.
    pub(super) fn supersede(&mut self, index: usize, version: u32) {
        if self.is_open(index) {
            self.nodes[index].dropped_by = version;
        }
        self.mark_superseded(index, &[]);
        if self.nodes[index].state == NodeState::Created || self.is_asked_to_begin(index) {
            self.skip(index);
        }
    }

    /// Marks node `index` as superseded by another version of the plan, whatever its state, and everything in it that
    /// is not `kept`.
    pub(super) fn mark_superseded(&mut self, index: usize, kept: &[usize]) {
        let mut rest = vec![index];
        while let Some(at) = rest.pop() {
            if !kept.contains(&at) && !std::mem::replace(&mut self.nodes[at].superseded, true) {
                let node = &self.nodes[at];
                if let Some(result) = &node.result {
                    *self.superseded.entry(result.status).or_insert(0) += 1;
                }
                rest.extend(&node.children);
                // Nobody continues what never begins; what takes its place is paused instead.
                self.set_paused(at, false);
                self.pauses_to_come.remove(&at);
            }
        }
    }

    /// Makes the steps of `graph` the plan of `owner`: the `kept` steps keep their nodes, and all steps that have not
    /// begun wait for what the new plan says.
    fn lay_out(&mut self, owner: usize, frame: usize, graph: &Arc<Graph>, version: u32, kept: &[usize]) {
        let before = std::mem::take(&mut self.frames[frame].nodes);
        for at in before {
            // Members of a group with lanes wait for nothing else: which member makes room for which does not change
            // (E9.10).
            let mut dependents = std::mem::take(&mut self.nodes[at].dependents);
            dependents.retain(|member| self.has_lanes_around(*member));
            self.nodes[at].dependents = dependents;
        }
        let nodes = self.place_steps(owner, frame, graph, version, kept);
        self.count_waits(graph, &nodes);
        self.begin_free_steps(&nodes);
        let members = graph.roots().map(|root| nodes[root]).collect();
        self.frames[frame].nodes = nodes;
        if let Some(plan) = self.nodes[owner].plan.as_deref_mut() {
            plan.version = version;
            plan.replaced_version = std::mem::replace(&mut plan.members_version, version);
            plan.members_before = std::mem::replace(&mut plan.members, members);
        }
    }

    /// The node of each step of `graph`: the one that it has already, or a new one.
    fn place_steps(
        &mut self,
        owner: usize,
        frame: usize,
        graph: &Arc<Graph>,
        version: u32,
        kept: &[usize],
    ) -> Vec<usize> {
        let place = &mut self.frames[frame];
        place.graph = Arc::clone(graph);
        place.by_slug.clear();
        place.kept.clear();
        let mut nodes: Vec<usize> = Vec::with_capacity(graph.nodes.len());
        for planned in &graph.nodes {
            let slug = planned.slug.as_str();
            let (parent, candidates) = match planned.parent.map(|parent| nodes[parent]) {
                None => (owner, kept),
                Some(parent) => (parent, &*self.nodes[parent].children),
            };
            let existing = candidates.iter().copied().find(|at| self.view(*at).slug() == slug);
            let at = existing.unwrap_or_else(|| self.add_step(parent, frame, planned, version));
            self.nodes[at].needed = planned.needed;
            self.frames[frame].by_slug.insert(planned.slug.clone(), at);
            nodes.push(at);
        }
        nodes
    }

    /// Makes the `nodes` of the steps of `graph` wait for each other as it says. This includes steps that have begun or
    /// ended: they may come after something else now, and what follows them waits for that, too.
    fn count_waits(&mut self, graph: &Graph, nodes: &[usize]) {
        for (planned, at) in graph.nodes.iter().zip(nodes) {
            let group = planned.parent.map(|parent| &self.nodes[nodes[parent]]);
            let container_waits = group.is_some_and(|group| group.started_at.is_none());
            // A failure in a group, or the end of the group, holds its members back whatever happens to the plan around
            // it (E9.5).
            let is_groups_own = group.is_some_and(|group| group.started_at.is_some() || group.is_terminal());
            if !self.has_lanes_around(*at) {
                let waits = u32::try_from(planned.waits.len()).unwrap_or(u32::MAX);
                self.nodes[*at].waits_left = waits.saturating_add(u32::from(container_waits));
                for wait in &planned.waits {
                    self.nodes[nodes[*wait]].dependents.push(*at);
                }
            }
            if self.nodes[*at].state == NodeState::Created {
                self.ready.remove(at);
                if !is_groups_own {
                    self.skipped.remove(at);
                }
            }
        }
    }

    /// Lets those of `nodes` begin that wait for nothing.
    fn begin_free_steps(&mut self, nodes: &[usize]) {
        let free = nodes.iter().copied().filter(|at| self.nodes[*at].waits_left == 0);
        for at in free.collect::<Vec<_>>() {
            if self.may_begin(at) {
                self.make_ready(at);
            } else if self.nodes[at].is_terminal() {
                self.release_all_after(at);
            }
        }
    }

    /// Whether another version of a plan superseded node `index`, or something around it, before it began.
    pub(super) fn is_dropped(&self, index: usize) -> bool {
        self.self_and_ancestors(index).any(|at| self.nodes[at].dropped_by > 0)
    }

    /// The steps of a node whose results counted in the version of its plan before the last, in plan order; the members
    /// of groups follow their group.
    #[must_use]
    pub fn steps_before(&self, id: NodeId) -> Vec<NodeView<'_>> {
        let plan = self.index(id).ok().and_then(|index| self.nodes[index].plan.as_deref());
        let mut rest: Vec<usize> = plan
            .map(|plan| plan.members_before.iter().rev().copied().collect())
            .unwrap_or_default();
        let mut steps = Vec::with_capacity(rest.len());
        while let Some(step) = rest.pop() {
            steps.push(self.view(step));
            if self.nodes[step].kind.is_group() {
                rest.extend(self.nodes[step].children.iter().rev());
            }
        }
        steps
    }

    /// The steps of a node's plan that its last version superseded before they began.
    #[must_use]
    pub fn steps_dropped(&self, node: NodeId) -> Vec<NodeView<'_>> {
        let Ok(index) = self.index(node) else { return Vec::new() };
        let version = self.nodes[index].plan.as_ref().map_or(0, |plan| plan.version);
        let children = self.nodes[index].children.iter().copied();
        children
            .filter(|child| version > 0 && self.nodes[*child].dropped_by == version)
            .map(|child| self.view(child))
            .collect()
    }
}
