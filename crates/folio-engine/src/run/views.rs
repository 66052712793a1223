//! What callers see of a run: its parts, its nodes, and their states.

use std::collections::{BTreeMap, HashSet};

use folio_memory::{RunId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::limits::Limits;
use super::state::Run;
use super::tree::{NodeKind, NodeView, ROOT};
use crate::event::Event;
use crate::node::{NodeId, NodeState};
use crate::plan::Plan;
use crate::result::{NodeResult, Outcome};
use crate::spend::{Purse, Spend};

/// What a list shows of a run beside its status, so that nobody has to fold its journal for that.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunSummary {
    /// What the run has used.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub spent: Spend,
    /// Whether the whole run is paused, and has not ended.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub paused: bool,
    /// How many things the run asks people: questions and approvals.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub asks: u32,
    /// How often in a row the run's driver was gone while something was under way, without any outcome since.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub broken_off: u32,
    /// Whether everything in the run waits, for people or for a time, or is paused: whoever drives it has nothing to do
    /// before `due_at`. Versions that did not write this leave it out.
    #[serde(default, skip_serializing_if = "folio_memory::is_default")]
    pub waits: bool,
    /// Until when it waits; `None` if only people can end its waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// The run that it was forked from, if it is a fork. Versions that did not write this leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<RunId>,
    /// The path of the node before which the fork began, if it is one; empty for the run as a whole. Versions that did
    /// not write this leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_at: Option<String>,
}

impl RunSummary {
    /// Whether nothing in the run goes on before somebody continues what is paused: the whole run, or the last of its
    /// parts that have not ended.
    #[must_use]
    pub fn stands_paused(&self) -> bool {
        self.paused || (self.waits && self.due_at.is_none() && self.asks == 0)
    }

    /// The same without what a plan says, for a run that is to be forgotten: only figures and ids.
    #[must_use]
    pub fn without_words(self) -> Self {
        Self {
            forked_at: None,
            ..self
        }
    }

    /// How often a run that breaks off again and again is resumed automatically: what it does may be what kills its
    /// processes.
    pub const BROKEN_OFF_MAX: u32 = 5;

    /// Whether the run continues only if somebody asks for it (E9.9).
    #[must_use]
    pub fn needs_manual_resume(&self) -> bool {
        self.broken_off >= Self::BROKEN_OFF_MAX
    }

    /// Whether the run has nothing to do at `now`: nobody is missed if nobody drives it (E9.9).
    #[must_use]
    pub fn waits_at(&self, now: Timestamp) -> bool {
        self.waits && self.due_at.is_none_or(|due_at| due_at > now)
    }
}

impl Run {
    /// The status of a run that has not ended.
    pub const RUNNING: &str = "running";

    /// The status of a run that somebody had forgotten after it ended.
    pub const FORGOTTEN: &str = "forgotten";

    /// All values of a run's status. Only parts of a run can be skipped.
    pub const STATUSES: [&str; 6] = [
        Self::RUNNING,
        Outcome::Ok.as_str(),
        Outcome::Partial.as_str(),
        Outcome::Failed.as_str(),
        Outcome::Cancelled.as_str(),
        Self::FORGOTTEN,
    ];

    /// [`RUNNING`](Self::RUNNING), or the outcome.
    #[must_use]
    pub fn status(&self) -> &'static str {
        self.result().map_or(Self::RUNNING, |result| result.status.as_str())
    }

    /// What a list shows of the run.
    #[must_use]
    pub fn summary(&self) -> RunSummary {
        let pending = self.count_requests();
        let waits = self.only_waits();
        RunSummary {
            spent: self.nodes.first().map(|root| root.spent).unwrap_or_default(),
            paused: self.is_run_paused(),
            asks: u32::try_from(pending).unwrap_or(u32::MAX),
            broken_off: self.broken_off,
            waits,
            due_at: self.wakes_at().filter(|_| waits),
            forked_from: self.origin("run").and_then(|run| run.parse().ok()),
            forked_at: self.origin("node").map(str::to_owned),
        }
    }

    /// What the first event says of the moment at which it was forked, if it is a fork.
    fn origin(&self, part: &str) -> Option<&str> {
        self.run_variable.get("forked_from")?.get(part)?.as_str()
    }

    /// What the run has used and may use; `None` before it began.
    #[must_use]
    pub fn purse(&self) -> Option<&Purse> {
        self.nodes.first()?.purse.as_deref()
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// What is wanted, in words.
    #[must_use]
    pub fn goal(&self) -> &str {
        &self.goal
    }

    /// The run's plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The inputs, as an object.
    #[must_use]
    pub fn inputs(&self) -> &Value {
        &self.inputs
    }

    /// What templates see as `run`: the run's id as text, the folder that it was submitted from.
    #[must_use]
    pub fn variable(&self) -> &Value {
        &self.run_variable
    }

    /// The run's limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// When the run must have ended, if it has a deadline. If nobody set it, the time since the last event does not
    /// count while the run only waits for people: see [`Self::deadline_of`].
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.time.deadline
    }

    /// Until when `node` may wait for a person: the earliest of the deadlines of its question, of the tasks around it and
    /// of the run; `None` if none of them ends its waiting.
    #[must_use]
    pub fn may_wait_until(&self, node: NodeId) -> Option<Timestamp> {
        let index = self.index(node).ok()?;
        let own = self.self_and_ancestors(index).filter_map(|at| self.own_deadline(at));
        let question = self.agent(index).and_then(|agent| agent.question.as_ref()?.deadline);
        own.chain(self.time.ends_by_itself()).chain(question).min()
    }

    /// The number of nodes that belong to plans: those that count against the limit on nodes.
    #[must_use]
    pub fn planned_nodes(&self) -> usize {
        self.nodes_in_plans()
    }

    /// When the run was started; `None` before that.
    #[must_use]
    pub fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// The format of the journal's events, as far as they were applied; 0 before the run began. A journal with a format
    /// below [`FORMAT`](crate::event::FORMAT) was written by an older version.
    #[must_use]
    pub fn format(&self) -> u32 {
        self.format
    }

    /// The run's result; `None` while it is running.
    #[must_use]
    pub fn result(&self) -> Option<&NodeResult> {
        self.nodes.first().and_then(|root| root.result.as_ref())
    }

    /// How many nodes ended in each way.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<Outcome, u32> {
        &self.finished
    }

    /// How many of these no longer count, because another version of a plan superseded them.
    #[must_use]
    pub fn superseded_counts(&self) -> &BTreeMap<Outcome, u32> {
        &self.superseded
    }

    /// How many nodes ended in each way, with those whose result no longer counts as `replaced`. The run itself is one
    /// of the nodes.
    #[must_use]
    pub fn counts_by_state(&self) -> BTreeMap<&'static str, u32> {
        let superseded_of = |outcome| self.superseded.get(outcome).copied().unwrap_or(0);
        let current = self
            .finished
            .iter()
            .map(|(outcome, count)| (outcome.as_str(), count.saturating_sub(superseded_of(outcome))));
        let superseded = [("replaced", self.superseded.values().sum())];
        current.chain(superseded).filter(|(_, count)| *count > 0).collect()
    }

    /// The number of model calls in the whole run that were repeated because their driver died before it saw their end:
    /// they may have been paid for twice (E9.9).
    #[must_use]
    pub fn repeated_calls(&self) -> u32 {
        let tallies = (0..self.nodes.len()).filter_map(|index| self.tally(index));
        tallies.map(|tally| tally.repeated).sum()
    }

    /// How often somebody asked to stop the run or a part of it.
    #[must_use]
    pub fn cancel_requests(&self) -> u32 {
        self.cancel_requests
    }

    /// The number of nodes created so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the run has no events yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Every node, parents before children and children in the order in which they were created.
    #[must_use]
    pub fn tree(&self) -> Vec<NodeView<'_>> {
        let mut views = Vec::with_capacity(self.nodes.len());
        let mut stack = if self.nodes.is_empty() { Vec::new() } else { vec![0] };
        while let Some(index) = stack.pop() {
            views.push(self.view(index));
            stack.extend(self.nodes[index].children.iter().rev());
        }
        views
    }

    /// Every node in reading order: parents before children, and children as in [`Run::children_as_planned`].
    #[must_use]
    pub fn tree_as_planned(&self) -> Vec<NodeView<'_>> {
        let mut views = Vec::with_capacity(self.nodes.len());
        let mut stack: Vec<NodeView<'_>> = self.node(NodeId::root(self.id())).into_iter().collect();
        while let Some(view) = stack.pop() {
            stack.extend(self.children_as_planned(&view).into_iter().rev());
            views.push(view);
        }
        views
    }

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<NodeView<'_>> {
        self.by_id.get(&id).map(|index| self.view(*index))
    }

    /// The children of a node, in the order in which they were created.
    #[must_use]
    pub fn children(&self, id: NodeId) -> Vec<NodeView<'_>> {
        let Some(index) = self.by_id.get(&id) else {
            return Vec::new();
        };
        self.nodes[*index]
            .children
            .iter()
            .map(|child| self.view(*child))
            .collect()
    }

    /// The children of `view` in the order of its plan, which a later version may have changed. A child that is no
    /// longer in the plan keeps its place among those that were created before and after it.
    #[must_use]
    pub fn children_as_planned(&self, view: &NodeView<'_>) -> Vec<NodeView<'_>> {
        let mut children = self.children(view.id);
        if view.plan_version > 1 {
            let child_ids: HashSet<NodeId> = children.iter().map(|child| child.id).collect();
            let mut steps = self.steps(view.id);
            steps.retain(|step| child_ids.contains(&step.id));
            let planned: HashSet<NodeId> = steps.iter().map(|step| step.id).collect();
            let places = children.iter_mut().filter(|child| planned.contains(&child.id));
            places.zip(steps).for_each(|(place, step)| *place = step);
        }
        children
    }

    /// The steps of a node whose results count: those of its last plan and those kept from earlier ones, in plan order.
    #[must_use]
    pub fn steps(&self, id: NodeId) -> Vec<NodeView<'_>> {
        let Some(index) = self.by_id.get(&id) else {
            return Vec::new();
        };
        let is_step = |member: &usize| !matches!(self.nodes[*member].kind, NodeKind::Action | NodeKind::RollUp);
        self.steps_shown(*index)
            .filter(is_step)
            .map(|member| self.view(member))
            .collect()
    }

    /// The steps that version `version` of a model's plan for `id` created, if it is the last version.
    #[must_use]
    pub fn steps_of_plan(&self, id: NodeId, version: u32) -> Vec<NodeView<'_>> {
        let steps = self.steps(id);
        let is_of_version = |step: &NodeView<'_>| id.child(version, step.slug(), "") == step.id;
        steps.into_iter().filter(is_of_version).collect()
    }

    /// The version of the plan of node `id` that another one replaced last; 0 if none was.
    #[must_use]
    pub fn replaced_plan_version(&self, id: NodeId) -> u32 {
        let plan = self.by_id.get(&id).and_then(|index| self.nodes[*index].plan.as_deref());
        plan.map_or(0, |plan| plan.replaced_version)
    }

    /// What the model that combined the results of [that version](Self::replaced_plan_version) said of it; empty if none
    /// did.
    #[must_use]
    pub fn replaced_plan_summary(&self, id: NodeId) -> &str {
        let replaced = self.replaced_plan_version(id);
        let agent = self.by_id.get(&id).and_then(|index| self.agent(*index));
        let mut versions = agent.map_or(&[][..], |agent| &agent.versions).iter();
        let replaced = versions.find(|version| version.number == replaced);
        replaced.map_or("", |version| &version.came_to)
    }

    /// How often somebody paused or continued the run or a part of it.
    #[must_use]
    pub fn pauses(&self) -> u32 {
        self.pauses
    }

    /// How often an approval was requested, something was approved or rejected, or limits were changed.
    #[must_use]
    pub fn steered(&self) -> u32 {
        self.steered
    }

    /// The node whose path of slugs is `path`; with several versions of a plan, the step of the last one.
    #[must_use]
    pub fn node_at(&self, path: &str) -> Option<NodeView<'_>> {
        self.nodes
            .iter()
            .rposition(|node| &*node.path == path)
            .map(|index| self.view(index))
    }

    /// The node that `name` means: an id, or a path as [`Self::node_at`] takes it; `run` is the root, unless a step is
    /// called so.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<NodeView<'_>> {
        let by_id = name.parse().ok().and_then(|id| self.node(id));
        let found = by_id.or_else(|| self.node_at(name));
        found.or_else(|| (name == ROOT).then(|| self.view(0)))
    }

    /// The nodes whose call has begun and has no outcome.
    #[must_use]
    pub fn in_flight(&self) -> Vec<NodeId> {
        self.executing.iter().map(|index| self.nodes[*index].id).collect()
    }

    /// Whether `event`, which somebody requests, would change nothing: what is to be stopped is being stopped or has
    /// ended, what is to be paused is paused, or what is to continue is not paused (E9.11).
    #[must_use]
    pub fn changes_nothing(&self, event: &Event) -> bool {
        let node = |id: &Option<NodeId>| self.nodes.get(id.map_or(Some(0), |id| self.index(id).ok())?);
        match event {
            Event::CancelRequested { node: id, .. } => {
                node(id).is_some_and(|node| node.is_terminal() || node.cancel.is_some())
            }
            Event::Paused { node: id, .. } => node(id).is_some_and(|node| node.paused),
            Event::Continued { node: id, .. } => node(id).is_some_and(|node| !node.paused),
            _ => false,
        }
    }

    /// The parts of the run that have limits of their own and have not ended, in the order in which they were made.
    pub fn limited_parts(&self) -> impl Iterator<Item = NodeView<'_>> {
        let parts = (1..self.nodes.len()).filter(|index| {
            let node = &self.nodes[*index];
            node.purse.is_some() && node.result.is_none()
        });
        parts.map(|index| self.view(index))
    }

    pub(super) fn view(&self, index: usize) -> NodeView<'_> {
        let (node, tally) = (&self.nodes[index], self.tally(index).unwrap_or_default());
        NodeView {
            id: node.id,
            parent: node.parent.map(|parent| self.nodes[parent].id),
            kind: node.kind,
            path: &node.path,
            depth: node.depth,
            step: node.step.as_ref(),
            optional: node.optional,
            state: self.standing(index),
            attempt: node.attempt,
            started_at: node.started_at,
            finished_at: node.finished_at,
            call: &node.call,
            result: node.result.as_ref(),
            model_calls: tally.calls,
            repeated: tally.repeated,
            plan_version: node.plan.as_ref().map_or(0, |plan| plan.members_version),
            spent: &node.spent,
            purse: node.purse.as_deref(),
            paused: node.paused,
            parked: node.retry_at.map(|until| (until, &*node.parked_for)),
            superseded: node.superseded,
        }
    }

    /// The state of node `index` as callers see it. An approved call no longer waits for a person: it may have to wait
    /// for room, or for another call that writes the same.
    fn standing(&self, index: usize) -> NodeState {
        let node = &self.nodes[index];
        let is_answered = || {
            let request = self.asked_about.get(&index);
            request.is_some_and(|request| request.answer.is_some()) && !self.unanswered.contains(&index)
        };
        match node.state {
            NodeState::WaitingInput if is_answered() && node.agent.is_some() => NodeState::Executing,
            NodeState::WaitingInput if is_answered() => NodeState::Created,
            state => state,
        }
    }
}
