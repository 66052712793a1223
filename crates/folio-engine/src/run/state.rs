//! The state of a run, and how each event changes it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use folio_memory::{RunId, Timestamp};
use serde_json::Value;

use super::agent::{Equipment, Facts};
use super::approval::{ApprovalRequest, AskFirst, Rule};
use super::bodies::Bodies;
use super::changes::Changes;
use super::gate::PlanGate;
use super::idle::RunTime;
use super::inherit::Inherited;
use super::limit_met::LimitKind;
use super::limits::Limits;
use super::narrow::OwnLimits;
use super::ready::Ready;
use super::resources::{Declared, Elsewhere, ReadOnlyTools, Resources};
use super::scope::BodyNeeded;
use super::tree::{Cancel, Frame, Node, NodeKind};
use crate::event::{Event, FORMAT, SetAside};
use crate::node::{Move, NodeId, NodeState};
use crate::plan::{self, Plan, Step, Work};
use crate::result::{NodeResult, Outcome, Output, StopReason};
use crate::spend::{Allowance, Purse, Spend};
use crate::template::Templates;

/// A run: the fold of its events.
///
/// A cheap value until [`Event::RunStarted`] is applied. The cost of an event is proportional to what it changes: its
/// node, the node's dependents and, for an expansion, the new children; nothing depends on the size of the tree.
#[derive(Debug)]
pub struct Run {
    pub(super) id: RunId,
    pub(super) templates: Arc<Templates>,
    pub(super) goal: String,
    pub(super) plan: Arc<Plan>,
    pub(super) inputs: Arc<Value>,
    pub(super) run_variable: Arc<Value>,
    pub(super) limits: Limits,
    pub(super) own_limits: OwnLimits,
    pub(super) time: RunTime,
    pub(super) started_at: Option<Timestamp>,
    pub(super) nodes: Vec<Node>,
    pub(super) frames: Vec<Frame>,
    pub(super) by_id: HashMap<NodeId, usize>,
    /// Nodes that may begin, in the order in which they were made.
    pub(super) ready: Ready,
    /// Nodes of lists that were planned anew, each with the node that an earlier version made for the same item.
    pub(super) inherited: BTreeMap<usize, Inherited>,
    /// Nodes that will not begin, or only need their result recorded.
    pub(super) skipped: BTreeSet<usize>,
    /// Nodes that begin no more of their children.
    pub(super) halted: BTreeSet<usize>,
    /// Nodes whose children all have results.
    pub(super) settled: BTreeSet<usize>,
    /// Nodes whose call is under way, in this process or one that died.
    pub(super) executing: BTreeSet<usize>,
    /// Nodes whose call is to be stopped.
    pub(super) stopping: BTreeSet<usize>,
    /// Nodes that wait for their next attempt.
    pub(super) parked: BTreeSet<(Timestamp, usize)>,
    /// The cache of outputs that are kept beside the journal. Not derived from the journal.
    pub(super) bodies: Bodies,
    pub(super) finished: BTreeMap<Outcome, u32>,
    /// Those of these that another version of a plan superseded.
    pub(super) superseded: BTreeMap<Outcome, u32>,
    pub(super) cancel_requests: u32,
    /// The models that may be asked, if the driver has any. Not derived from the journal.
    pub(super) equipment: Option<Arc<Equipment>>,
    /// Nodes that wait for a person's answer.
    pub(super) unanswered: BTreeSet<usize>,
    /// The answers of people, by question.
    pub(super) answers: Facts,
    /// What changed, and when.
    pub(super) changes: Changes,
    /// What memory held when a task was last briefed.
    pub(super) last_briefed_memory: Arc<str>,
    /// The number of calls that models wanted, and of roll-ups: nodes that belong to no plan.
    pub(super) actions: usize,
    /// The number of plans that replaced others.
    pub(super) replans: u32,
    /// Nodes for which a model was asked for another plan, until that plan is made or the node ends.
    pub(super) replanning: BTreeSet<usize>,
    /// Which plans wait for a person's approval, as the run's submitter set it.
    pub(super) gate: PlanGate,
    /// Nodes whose plan waits for approval.
    pub(super) gated: BTreeSet<usize>,
    /// Calls that a person was asked to approve, until their nodes have ended.
    pub(super) asked_about: BTreeMap<usize, ApprovalRequest>,
    /// Rules for calls that need no further approval.
    pub(super) rules: Vec<Rule>,
    /// Which calls wait for approval, if somebody is there to give it. Not derived from the journal.
    pub(super) asks_first: Option<AskFirst>,
    /// The names of the resources that calls under way write.
    pub(super) taken: Resources,
    /// The names that each of these calls holds, by node.
    pub(super) writing: BTreeMap<usize, Vec<String>>,
    /// What calls write, if the driver provides it. Not derived from the journal.
    pub(super) declared: Option<Declared>,
    /// Which tools only read, if the driver provides it. Not derived from the journal.
    pub(super) looking: Option<ReadOnlyTools>,
    /// What calls of other runs write, if the driver provides it. Not derived from the journal.
    pub(super) elsewhere: Option<Elsewhere>,
    /// The number of subtrees that are paused.
    pub(super) paused: u32,
    pub(super) pauses: u32,
    /// How often an approval was requested, something was approved or rejected, or limits were changed.
    pub(super) steered: u32,
    /// How often in a row the run was resumed with something under way, without any outcome since.
    pub(super) broken_off: u32,
    /// Who last paused the whole run.
    pub(super) paused_by: Box<str>,
    /// The blocks in the logs of tasks under way whose names could occur again, by node.
    pub(super) blocks: HashMap<usize, Vec<String>>,
    /// The limits that stopped something, by the reported reason, with the nodes that have them.
    pub(super) limits_met: Vec<(StopReason, (usize, LimitKind))>,
    /// The format of the journal's events.
    pub(super) format: u32,
}

/// Why a journal cannot be folded. It was not written by a correct runner, or by a newer one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// A newer version wrote the journal.
    #[error("the journal has event format {found}; this version of folio knows formats up to {FORMAT}")]
    TooNew {
        /// The format of the journal.
        found: u32,
    },
    /// The first event is not the start of the run, or a later one is.
    #[error("the journal does not begin with exactly one run_started")]
    Start,
    /// The plan in the journal cannot be read.
    #[error("the plan in the journal cannot be read: {0}")]
    Plan(String),
    /// An event names a node that does not exist.
    #[error("the journal names node {0}, which does not exist at that point")]
    UnknownNode(NodeId),
    /// An event is not allowed in the state of its node.
    #[error("node {node} is {state} and cannot be {event}")]
    Transition {
        /// The node.
        node: NodeId,
        /// The state of the node.
        state: &'static str,
        /// The event.
        event: &'static str,
    },
}

impl JournalError {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooNew { .. } => "run_too_new",
            Self::Start | Self::Plan(_) | Self::UnknownNode(_) | Self::Transition { .. } => "run_unreadable",
        }
    }
}

impl Run {
    /// The run `id`, before its first event.
    #[must_use]
    pub fn new(id: RunId, templates: Arc<Templates>) -> Self {
        Self {
            id,
            templates,
            goal: String::new(),
            plan: Arc::new(no_plan()),
            inputs: Arc::new(Value::Null),
            run_variable: Arc::new(Value::Null),
            limits: Limits::default(),
            own_limits: OwnLimits::default(),
            time: RunTime::default(),
            started_at: None,
            nodes: Vec::new(),
            frames: Vec::new(),
            by_id: HashMap::new(),
            ready: Ready::default(),
            inherited: BTreeMap::new(),
            skipped: BTreeSet::new(),
            halted: BTreeSet::new(),
            settled: BTreeSet::new(),
            executing: BTreeSet::new(),
            stopping: BTreeSet::new(),
            parked: BTreeSet::new(),
            bodies: Bodies::default(),
            finished: BTreeMap::new(),
            superseded: BTreeMap::new(),
            cancel_requests: 0,
            equipment: None,
            unanswered: BTreeSet::new(),
            answers: Facts::default(),
            changes: Changes::default(),
            last_briefed_memory: Arc::default(),
            actions: 0,
            replans: 0,
            replanning: BTreeSet::new(),
            gate: PlanGate::default(),
            gated: BTreeSet::new(),
            asked_about: BTreeMap::new(),
            rules: Vec::new(),
            asks_first: None,
            taken: Resources::default(),
            writing: BTreeMap::new(),
            declared: None,
            looking: None,
            elsewhere: None,
            paused: 0,
            pauses: 0,
            steered: 0,
            broken_off: 0,
            paused_by: Box::default(),
            blocks: HashMap::new(),
            limits_met: Vec::new(),
            format: 0,
        }
    }

    /// Sets which models may be asked and which tools they may call. Without it, a task that needs a model fails.
    pub fn equip(&mut self, equipment: Arc<Equipment>) {
        self.equipment = Some(equipment);
    }

    /// The models that may be asked, and their tools.
    #[must_use]
    pub fn equipment(&self) -> Option<&Arc<Equipment>> {
        self.equipment.as_ref()
    }

    pub(super) fn index(&self, id: NodeId) -> Result<usize, JournalError> {
        self.by_id.get(&id).copied().ok_or(JournalError::UnknownNode(id))
    }

    /// Folds one event in. `at` is the time of the commit that recorded it.
    ///
    /// # Errors
    ///
    /// If the journal cannot be right. The state is then as before this event, except after [`JournalError::Plan`].
    pub fn apply(&mut self, at: Timestamp, event: &Event) -> Result<(), JournalError> {
        Self::expect_known(event)?;
        // Answers from before this event are obsolete.
        drop(self.lacking());
        if self.nodes.is_empty() != matches!(event, Event::RunStarted { .. }) {
            return Err(JournalError::Start);
        }
        self.end_idle_time(at);
        let limits = self.limits_of(event);
        self.fold(at, event)?;
        self.begin_idle_time(at);
        if let Some((reason, met)) = limits {
            self.note_limits(reason, met);
        }
        self.count_bytes(event);
        self.count_block(event);
        self.count_breaks(event);
        Ok(())
    }

    /// An event that only says that something begins does not show progress: it is repeated each time the run is
    /// resumed.
    fn count_breaks(&mut self, event: &Event) {
        match event {
            Event::Resumed { in_flight } if in_flight.is_empty() => {}
            Event::Resumed { .. } => self.broken_off = self.broken_off.saturating_add(1),
            Event::Started { .. }
            | Event::Asked { .. }
            | Event::Compacting { .. }
            | Event::SessionBegan { .. }
            | Event::Checked { begins: Some(_), .. }
            | Event::FormatRaised { .. } => {}
            _ => self.broken_off = 0,
        }
    }

    /// Refuses an event that announces a format newer than this version knows.
    pub(super) fn expect_known(event: &Event) -> Result<(), JournalError> {
        match event {
            Event::RunStarted { format, .. } | Event::FormatRaised { format } if *format > FORMAT => {
                Err(JournalError::TooNew { found: *format })
            }
            _ => Ok(()),
        }
    }

    fn fold(&mut self, at: Timestamp, event: &Event) -> Result<(), JournalError> {
        match event {
            Event::RunStarted {
                format,
                goal,
                plan,
                inputs,
                deadline,
                run,
            } => {
                self.format = *format;
                self.start(at, goal, plan, inputs, *deadline, run)
            }
            Event::Expanded {
                node,
                items,
                set_aside,
                limits,
            } => self.expand(at, *node, items, *set_aside, limits.as_deref()),
            Event::Started {
                node,
                attempt,
                call,
                writes,
                limits,
            } => {
                // Earlier versions counted a call that a person allowed to be made once more as another attempt.
                let is_again = self.index(*node).is_ok_and(|at| {
                    let is_counted = self.is_repetition_allowed(at) && self.nodes[at].attempt == *attempt;
                    is_counted || self.nodes[at].state == NodeState::Executing
                });
                let index = self.step_to(*node, Move::Start)?;
                self.take_share(index, limits.as_deref());
                self.ready.remove(&index);
                self.executing.insert(index);
                let node = &mut self.nodes[index];
                node.attempt = *attempt;
                node.parked_for = Box::default();
                node.started_at.get_or_insert(at);
                node.call = call.as_str().into();
                self.begin_time(index);
                if !is_again {
                    self.spend(index, &Spend::TOOL_CALL);
                }
                self.take_resources(index, writes);
                Ok(())
            }
            Event::AttemptFailed {
                node,
                failure,
                retry_at,
                ..
            } => {
                let index = self.step_to(*node, Move::Park)?;
                self.note_end_of_call(index);
                self.executing.remove(&index);
                self.give_back_resources(index);
                self.park(index, *retry_at, failure);
                Ok(())
            }
            Event::Finished { node, result } => {
                let index = self.step_to(*node, Move::Finish)?;
                self.finish(at, index, result);
                Ok(())
            }
            Event::CancelRequested { node, by } => {
                let index = node.map_or(Ok(0), |id| self.index(id))?;
                let why = if by == Self::DEADLINE {
                    Cancel::ByDeadline
                } else {
                    Cancel::ByUser
                };
                self.cancel_requests += 1;
                self.cancel(index, why);
                Ok(())
            }
            Event::FormatRaised { format } => {
                self.format = self.format.max(*format);
                Ok(())
            }
            Event::Resumed { in_flight } => {
                let in_flight: Vec<usize> = in_flight.iter().map(|id| self.index(*id)).collect::<Result<_, _>>()?;
                for index in in_flight {
                    if let Some(pending) = self.nodes[index].agent.as_ref().and_then(|agent| agent.pending) {
                        if pending.is_opaque && !self.has_session(index) {
                            self.lose_call(index, pending.purpose);
                        } else {
                            self.repeat_call(index);
                        }
                        self.executing.remove(&index);
                        self.stopping.remove(&index);
                        match self.nodes[index].cancel {
                            Some(_) => drop(self.skipped.insert(index)),
                            None => self.make_ready(index),
                        }
                        continue;
                    }
                    self.repeat_compaction(index);
                    match self.nodes[index].state {
                        // Commands of checks are run again: they record nothing that would be lost.
                        NodeState::Executing | NodeState::Verifying => self.make_ready(index),
                        // The process that could stop it is gone.
                        NodeState::Cancelling => drop(self.skipped.insert(index)),
                        _ => {}
                    }
                    self.executing.remove(&index);
                    self.stopping.remove(&index);
                }
                Ok(())
            }
            Event::Paused { node, by } => {
                if node.is_none() {
                    self.paused_by = by.as_str().into();
                }
                self.pause(*node, true)
            }
            Event::Continued { node, .. } => self.pause(*node, false),
            Event::LimitsChanged { node, limits, .. } => {
                self.limits_changed(*node, limits)?;
                self.steered += 1;
                Ok(())
            }
            Event::ApprovalAsked { .. }
            | Event::CallApproved { .. }
            | Event::CallRejected { .. }
            | Event::PlanApproved { .. }
            | Event::PlanRejected { .. } => {
                self.apply_approval(event)?;
                self.steered += 1;
                Ok(())
            }
            Event::PlanEdited {
                node,
                version,
                steps,
                kept,
                ..
            } => self.edited(*node, *version, steps, kept),
            of_a_model => self.apply_to_agent(at, of_a_model),
        }
    }

    fn pause(&mut self, node: Option<NodeId>, paused: bool) -> Result<(), JournalError> {
        let index = node.map_or(Ok(0), |id| self.index(id))?;
        self.pauses += 1;
        if std::mem::replace(&mut self.nodes[index].paused, paused) != paused {
            self.paused = if paused {
                self.paused.saturating_add(1)
            } else {
                self.paused.saturating_sub(1)
            };
        }
        Ok(())
    }

    /// Whether no call of node `index` may begin, because it or something around it is paused.
    pub(super) fn is_paused(&self, index: usize) -> bool {
        self.paused > 0 && self.self_and_ancestors(index).any(|at| self.nodes[at].paused)
    }

    /// Whether the whole run is paused, and has not ended.
    #[must_use]
    pub fn is_run_paused(&self) -> bool {
        self.result().is_none() && self.nodes.first().is_some_and(|root| root.paused)
    }

    /// Who paused the whole run; `None` if it is not paused.
    #[must_use]
    pub fn paused_by(&self) -> Option<&str> {
        self.is_run_paused().then_some(&*self.paused_by)
    }

    /// The name, followed by what was wrong, under which a run is paused whose driver failed by a mistake in the
    /// program: every driver after it would fail in the same way.
    pub const BROKEN_DRIVER: &str = "its driver, which panicked";

    /// The name under which a run is cancelled when its time is over.
    pub const DEADLINE: &str = "deadline";

    fn start(
        &mut self,
        at: Timestamp,
        goal: &str,
        plan: &Value,
        inputs: &BTreeMap<String, Value>,
        deadline: Option<Timestamp>,
        run: &Value,
    ) -> Result<(), JournalError> {
        let plan = plan::from_stored(plan).map_err(|errors| JournalError::Plan(errors.to_string()))?;
        self.limits = Limits::of(&plan);
        self.plan = Arc::new(plan);
        goal.clone_into(&mut self.goal);
        self.inputs = Arc::new(
            inputs
                .iter()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        );
        self.run_variable = Arc::new(run.clone());
        self.gate = Self::gate_in(run);
        self.time = RunTime::of(deadline, self.plan.budget.deadline.is_none());
        self.started_at = Some(at);
        let id = NodeId::root(self.id);
        // A goal without a plan is a task that a model splits up or does.
        let kind = if self.plan.steps.is_empty() {
            NodeKind::Model
        } else {
            NodeKind::Plan
        };
        let root = self.add_node(id, None, None, kind, None, Arc::from(""));
        self.nodes[root].purse = Some(Box::new(Purse {
            limit: self.limits.allowance,
            ..Purse::default()
        }));
        self.make_ready(root);
        Ok(())
    }

    /// Moves a node along the table of transitions.
    pub(super) fn step_to(&mut self, id: NodeId, by: Move) -> Result<usize, JournalError> {
        let index = self.index(id)?;
        let state = self.nodes[index].state;
        let refused = |event| JournalError::Transition {
            node: id,
            state: state.as_str(),
            event,
        };
        let next = state.next(by).ok_or_else(|| {
            refused(match by {
                Move::Expand => "expanded",
                Move::Start => "started",
                Move::Park => "attempt_failed",
                Move::Cancel => "cancelled",
                Move::Finish => "finished",
                Move::Decide => "briefed",
                Move::Aggregate => "asked to aggregate",
                Move::Verify => "proposed",
                Move::Replan => "asked to replan",
                Move::Wait => "questioned",
                Move::Gate => "planned",
            })
        })?;
        self.nodes[index].state = next;
        // A parked node that moves no longer waits for its next attempt.
        if state == NodeState::Parked {
            self.unpark(index);
        }
        // Earlier versions began some nodes that would be held back now: what has begun continues.
        if matches!(by, Move::Expand | Move::Decide | Move::Start) {
            self.skipped.remove(&index);
        }
        Ok(index)
    }

    fn expand(
        &mut self,
        at: Timestamp,
        id: NodeId,
        items: &[Value],
        set_aside: Option<SetAside>,
        limits: Option<&Allowance>,
    ) -> Result<(), JournalError> {
        let index = self.step_to(id, Move::Expand)?;
        self.take_share(index, limits);
        self.ready.remove(&index);
        self.nodes[index].started_at = Some(at);
        self.begin_time(index);
        let lanes = set_aside.and_then(|set_aside| set_aside.lanes);
        match self.nodes[index].step.clone() {
            None => {
                let plan = Arc::clone(&self.plan);
                self.make_plan(index, &plan.steps, 1, &[]);
            }
            Some(Step::Task(task)) => {
                if let Work::Plan(sub) = &task.work {
                    self.make_plan(index, &sub.steps, 1, &[]);
                }
            }
            Some(Step::Parallel(_) | Step::Sequence(_)) => {
                // The members were created with their plan; they only waited for this.
                let members = self.nodes[index].children.clone();
                self.set_aside(index, set_aside);
                if let Some(lanes) = lanes {
                    let startable: Vec<usize> = members
                        .iter()
                        .copied()
                        .filter(|member| self.may_begin(*member))
                        .collect();
                    self.keep_lanes(&startable, lanes);
                }
                for member in members {
                    self.release(member);
                }
            }
            Some(Step::ForEach(for_each)) => {
                self.make_items(index, &for_each, items, lanes);
                self.set_aside(index, set_aside);
                if lanes.is_some() {
                    for child in self.nodes[index].children.clone() {
                        if self.ready.contains(&child) {
                            self.hold_for(child);
                        }
                    }
                }
            }
        }
        self.settle_if_done(index);
        Ok(())
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

    /// Adds to `released` the nodes that waited for node `index`, which has ended and itself waits for nothing.
    ///
    /// Waiting for a step implies waiting for everything that the step waits for (only the fewest waits are kept), and
    /// the members of a group that never began wait for it too. So a node that ends before its turn holds back what
    /// follows it until its turn has come (E9.1, E9.2).
    pub(super) fn release_dependents(&mut self, index: usize, released: &mut Vec<usize>) {
        let node = &mut self.nodes[index];
        released.append(&mut node.dependents);
        if node.started_at.is_none() && node.kind.is_group() {
            released.extend(&node.children);
        }
    }

    fn finish(&mut self, at: Timestamp, index: usize, result: &NodeResult) {
        self.ready.remove(&index);
        self.inherited.remove(&index);
        self.skipped.remove(&index);
        self.settled.remove(&index);
        self.halted.remove(&index);
        self.executing.remove(&index);
        self.stopping.remove(&index);
        self.gated.remove(&index);
        self.replanning.remove(&index);
        self.asked_about.remove(&index);
        self.give_back_resources(index);
        self.end_time(index);
        self.note_end_of_call(index);
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
        let node = &self.nodes[index];
        *self.finished.entry(result.status).or_insert(0) += 1;
        if node.superseded {
            *self.superseded.entry(result.status).or_insert(0) += 1;
        }
        let (parent, optional, is_action) = (node.parent, node.optional, node.kind == NodeKind::Action);
        if self.nodes[index].waits_left == 0 {
            let mut released = Vec::new();
            self.release_dependents(index, &mut released);
            for dependent in released {
                self.release(dependent);
            }
        }
        // Members of a group that never began get a record of their own, so that no node is left without a result.
        for child in self.nodes[index].children.clone() {
            if self.is_to_begin(child) {
                self.skip(child);
            }
        }
        let Some(parent) = parent else { return };
        let container = &mut self.nodes[parent];
        container.children_left = container.children_left.saturating_sub(1);
        container.children_ok += u32::from(result.status == Outcome::Ok);
        // A failed call that a model wanted is for the model to handle, and stops nothing else.
        if result.is_hard() && !optional && !is_action {
            match container.on_hard() {
                plan::OnHard::Continue => {}
                plan::OnHard::Hold if self.has_enough_left(parent) => {}
                plan::OnHard::Hold => self.halt(parent),
                plan::OnHard::Cancel => self.cancel_children(parent, Cancel::ByParent),
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

    /// The value of an output, or which output has to be read first.
    pub(super) fn output_needed(&self, output: &Output) -> Result<Arc<Value>, BodyNeeded> {
        match output {
            Output::Inline(inline) => Ok(inline.value()),
            Output::Blob { hash, bytes } => {
                let cached = self.bodies.output(hash, *bytes);
                cached.ok_or_else(|| BodyNeeded(hash.clone()))
            }
        }
    }

    /// The value of an output of the run, if it is in the journal or cached.
    #[must_use]
    pub fn value_of(&self, output: &Output) -> Option<Arc<Value>> {
        self.output_needed(output).ok()
    }
}

/// The plan of a run before its first event.
fn no_plan() -> Plan {
    Plan {
        version: plan::PLAN_VERSION,
        title: String::new(),
        goal: String::new(),
        description: String::new(),
        inputs: BTreeMap::new(),
        criteria: Vec::new(),
        budget: plan::Budget::default(),
        steps: Vec::new(),
        report: None,
        output: None,
    }
}
