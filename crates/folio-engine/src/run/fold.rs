//! How each event changes a run. Events of tasks that models do are folded in by `agent/apply`, those that people cause
//! by `edit`, `approval` and `raise`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::Timestamp;
use serde_json::Value;

use super::idle::RunTime;
use super::limits::Limits;
use super::state::{JournalError, Run};
use super::tree::{Cancel, NodeKind};
use crate::event::{Event, FORMAT, SetAside};
use crate::node::{Move, NodeId, NodeState};
use crate::plan::{self, ForEach, Step, Work};
use crate::result::Failure;
use crate::spend::{Allowance, Purse, Spend};

impl Run {
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
        let undriven = match event.may_come_from_outside() {
            true => self.undriven_until(at),
            false => Duration::ZERO,
        };
        self.end_idle_time(at);
        let limits = self.limits_of(event);
        self.fold(at, event)?;
        self.begin_idle_time(at);
        self.time.note_event(at, undriven);
        if let Some((reason, met)) = limits {
            self.note_limits(reason, met);
            self.note_unplanned(event, reason);
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
            Event::Resumed { in_flight, .. } if in_flight.is_empty() => {}
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
            } => self.expand(at, *node, items, set_aside.as_ref(), limits.as_deref()),
            Event::Started {
                node,
                attempt,
                call,
                writes,
                limits,
            } => self.call_started(at, *node, (*attempt, call), writes, limits.as_deref()),
            Event::AttemptFailed {
                node,
                failure,
                retry_at,
                ..
            } => self.attempt_failed(*node, failure, *retry_at),
            Event::Finished { node, result } => {
                let index = self.step_to(*node, Move::Finish)?;
                self.finish(at, index, result);
                Ok(())
            }
            Event::CancelRequested { node, by } => self.cancel_requested(*node, by),
            Event::FormatRaised { format } => {
                self.format = self.format.max(*format);
                Ok(())
            }
            Event::Resumed { in_flight, .. } => {
                self.resumed(in_flight)?;
                self.time.leave_out(event.uncounted());
                Ok(())
            }
            Event::Paused { node, by } => {
                // Whoever names the root means the whole run.
                if node.is_none_or(|node| node == NodeId::root(self.id)) {
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
        // They did not carry a pause over to what took the place of a paused part, either.
        if matches!(by, Move::Decide | Move::Start) && self.took_over_pause.contains(&index) {
            self.set_paused(index, false);
        }
        Ok(index)
    }

    fn expand(
        &mut self,
        at: Timestamp,
        id: NodeId,
        items: &[Value],
        set_aside: Option<&SetAside>,
        limits: Option<&Allowance>,
    ) -> Result<(), JournalError> {
        let index = self.step_to(id, Move::Expand)?;
        self.take_share(index, limits);
        self.ready.remove(&index);
        self.nodes[index].started_at = Some(at);
        self.begin_time(index);
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
            Some(Step::Parallel(_) | Step::Sequence(_)) => self.open_group(index, set_aside),
            Some(Step::ForEach(for_each)) => self.open_list(index, &for_each, items, set_aside),
        }
        self.settle_if_done(index);
        Ok(())
    }

    /// Lets the members of the group `index` begin. They were created with their plan, and only waited for this.
    fn open_group(&mut self, index: usize, set_aside: Option<&SetAside>) {
        let members = self.nodes[index].children.clone();
        self.set_aside(index, set_aside);
        if let Some(lanes) = set_aside.and_then(|set_aside| set_aside.lanes) {
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

    /// Creates the nodes of the list `index`, one for each of `items`.
    fn open_list(&mut self, index: usize, for_each: &ForEach, items: &[Value], set_aside: Option<&SetAside>) {
        let lanes = set_aside.and_then(|set_aside| set_aside.lanes);
        self.make_items(index, for_each, items, lanes);
        self.set_aside(index, set_aside);
        self.inherit_pauses_of_items(index, items);
        if lanes.is_some() {
            for child in self.nodes[index].children.clone() {
                if self.ready.contains(&child) {
                    self.hold_for(child);
                }
            }
        }
    }

    fn call_started(
        &mut self,
        at: Timestamp,
        node: NodeId,
        (attempt, call): (u32, &str),
        writes: &[String],
        limits: Option<&Allowance>,
    ) -> Result<(), JournalError> {
        // Earlier versions counted a call that a person allowed to be made once more as another attempt.
        let is_again = self.index(node).is_ok_and(|at| {
            let is_counted = self.is_repetition_allowed(at) && self.nodes[at].attempt == attempt;
            is_counted || self.nodes[at].state == NodeState::Executing
        });
        let index = self.step_to(node, Move::Start)?;
        self.take_share(index, limits);
        self.ready.remove(&index);
        self.executing.insert(index);
        let node = &mut self.nodes[index];
        node.attempt = attempt;
        node.parked_for = Box::default();
        node.started_at.get_or_insert(at);
        node.call = call.into();
        self.begin_time(index);
        if !is_again {
            self.spend(index, &Spend::TOOL_CALL);
        }
        self.take_resources(index, writes);
        Ok(())
    }

    fn attempt_failed(&mut self, node: NodeId, failure: &Failure, retry_at: Timestamp) -> Result<(), JournalError> {
        let index = self.step_to(node, Move::Park)?;
        self.note_end_of_call(index);
        self.executing.remove(&index);
        self.give_back_resources(index);
        self.park(index, retry_at, failure);
        Ok(())
    }

    fn cancel_requested(&mut self, node: Option<NodeId>, by: &str) -> Result<(), JournalError> {
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

    fn resumed(&mut self, in_flight: &[NodeId]) -> Result<(), JournalError> {
        let in_flight: Vec<usize> = in_flight.iter().map(|id| self.index(*id)).collect::<Result<_, _>>()?;
        for index in in_flight {
            self.resume_node(index);
            self.executing.remove(&index);
            self.stopping.remove(&index);
        }
        Ok(())
    }

    /// Makes due again what node `index` did when its driver died, or gives it up.
    fn resume_node(&mut self, index: usize) {
        if let Some(asked) = self.nodes[index].agent.as_ref().and_then(|agent| agent.pending) {
            if asked.is_opaque && !self.has_session(index) {
                self.lose_call(index, asked.purpose);
            } else {
                self.repeat_call(index);
            }
            match self.nodes[index].cancel {
                Some(_) => drop(self.skipped.insert(index)),
                None => self.make_ready(index),
            }
            return;
        }
        self.repeat_compaction(index);
        match self.nodes[index].state {
            // Commands of checks are run again: they record nothing that would be lost.
            NodeState::Executing | NodeState::Verifying => self.make_ready(index),
            // The process that could stop it is gone.
            NodeState::Cancelling => drop(self.skipped.insert(index)),
            _ => {}
        }
    }

    fn pause(&mut self, node: Option<NodeId>, paused: bool) -> Result<(), JournalError> {
        let index = node.map_or(Ok(0), |id| self.index(id))?;
        self.pauses += 1;
        self.set_paused(index, paused);
        Ok(())
    }

    /// Pauses the subtree of node `index`, or lets it continue.
    pub(super) fn set_paused(&mut self, index: usize, paused: bool) {
        self.took_over_pause.remove(&index);
        if std::mem::replace(&mut self.nodes[index].paused, paused) != paused {
            self.paused = if paused {
                self.paused.saturating_add(1)
            } else {
                self.paused.saturating_sub(1)
            };
        }
    }
}
