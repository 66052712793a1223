//! Which plans of models wait for a person's approval, and what follows from the answer (E9.14).

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use super::state::{JournalError, Run};
use crate::event::Event;
use crate::node::{Move, NodeId, NodeState};
use crate::plan::{self, HUMAN, Task, Work};
use crate::result::StopReason;
use crate::spend::in_dollars;

/// The number of model calls that a step of a plan is estimated to take: a decision, some work, the end.
const CALLS_A_STEP: u64 = 3;

/// Which plans of models wait for a person's approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanGate {
    /// No plans.
    #[default]
    Never,
    /// The plan of the run itself.
    Root,
    /// The plans on this many levels from the top; the run's own plan is level 1.
    Depth(u32),
    /// All plans.
    Always,
    /// Plans with an estimated cost above this many millionths of a US dollar, and all plans if prices are unknown.
    Cost(u64),
}

impl fmt::Display for PlanGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Root => f.write_str("root"),
            Self::Depth(levels) => write!(f, "depth<={levels}"),
            Self::Always => f.write_str("always"),
            Self::Cost(micro) => write!(f, "if_cost>{}", in_dollars(*micro)),
        }
    }
}

impl FromStr for PlanGate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("{text:?} is none of never, root, depth<=N, always, if_cost>USD");
        let text = text.trim();
        if let Some(levels) = text.strip_prefix("depth<=") {
            return levels.trim().parse().map(Self::Depth).map_err(|_| invalid());
        }
        if let Some(usd) = text.strip_prefix("if_cost>") {
            return micro_usd(usd).map(Self::Cost).ok_or_else(invalid);
        }
        match text {
            "never" => Ok(Self::Never),
            "root" => Ok(Self::Root),
            "always" => Ok(Self::Always),
            _ => Err(invalid()),
        }
    }
}

/// Converts dollars as people write them into millionths; `None` if the text is not an amount.
#[must_use]
pub fn micro_usd(text: &str) -> Option<u64> {
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_number = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    if whole.is_empty() && part.is_empty() || !is_number(whole) || !is_number(part) || part.len() > 6 {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(part)
}

impl PlanGate {
    /// The value in the first event of a run.
    #[must_use]
    pub fn to_json(self) -> Value {
        json!(self.to_string())
    }
}

impl Run {
    /// The gate that the run's submitter set, from the run variable.
    pub(super) fn gate_in(variable: &Value) -> PlanGate {
        let text = variable.get("plan_gate").and_then(Value::as_str);
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Whether the plan that a model made for node `index` has to wait for approval.
    pub(super) fn is_gated(&self, index: usize, steps: &Value) -> bool {
        match self.gate {
            PlanGate::Never => false,
            PlanGate::Root => self.nodes[index].parent.is_none(),
            PlanGate::Depth(levels) => self.plans_around(index) < levels,
            PlanGate::Always => true,
            PlanGate::Cost(limit) => self.estimated_cost(steps).is_none_or(|cost| cost > limit),
        }
    }

    /// The estimated cost of a plan in millionths of a dollar: three calls for each of its steps, at the average cost
    /// of the run's calls so far. `None` if the cost of one of these is unknown, or the price of a model that the plan
    /// needs.
    fn estimated_cost(&self, steps: &Value) -> Option<u64> {
        let equipment = self.equipment.as_deref()?;
        let steps = super::agent::read_steps(steps).ok()?;
        let has_price = |task: &&Task| match (&task.work, task.executor.as_deref()) {
            (Work::Do(_) | Work::Plan(_), _) | (Work::Model, Some(HUMAN)) => true,
            (Work::Model, None) => equipment.executor.price.is_some(),
            (Work::Model, Some(name)) => {
                let named = equipment.executors.get(name);
                named.is_some_and(|named| named.model.price.is_some())
            }
        };
        let spent = self.purse()?.spent;
        let is_priced = equipment.planner.price.is_some() && spent.unpriced_calls == 0;
        if !is_priced || !plan::tasks_of(&steps).iter().all(has_price) {
            return None;
        }
        let cost_per_call = spent.micro_usd.div_ceil(spent.model_calls.max(1));
        let count = u64::from(plan::count_nodes(&steps));
        Some(cost_per_call.saturating_mul(CALLS_A_STEP).saturating_mul(count))
    }

    /// Holds back the steps of a plan that was just made.
    pub(super) fn hold_steps(&mut self, index: usize) {
        let members = self.nodes[index].plan.as_ref().map(|plan| plan.members.clone());
        for member in members.unwrap_or_default() {
            if self.nodes[member].state == NodeState::Created {
                self.nodes[member].waits_left += 1;
                self.ready.remove(&member);
            }
        }
        self.gated.insert(index);
    }

    /// Takes in that a plan that waited was approved: its steps may begin.
    pub(super) fn plan_approved(&mut self, node: NodeId) -> Result<(), JournalError> {
        let index = self.gated_at(node, "plan_approved")?;
        self.step_to(node, Move::Expand)?;
        self.replace_previous_plan(index);
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.interim_proposal = None;
        }
        let members = self.nodes[index].plan.as_ref().map(|plan| plan.members.clone());
        for member in members.unwrap_or_default() {
            // A step that was cancelled meanwhile still holds back what follows it.
            if self.nodes[member].waits_left > 0 {
                self.release(member);
            }
        }
        self.settle_if_done(index);
        Ok(())
    }

    /// Takes in that a plan that waited was rejected, and why and by whom: the one before it counts again.
    pub(super) fn plan_rejected(
        &mut self,
        node: NodeId,
        version: u32,
        (reason, by): (&str, &str),
    ) -> Result<(), JournalError> {
        let index = self.gated_at(node, "plan_rejected")?;
        self.step_to(node, Move::Replan)?;
        let plan = self.nodes[index].plan.as_deref();
        let new_steps: Vec<usize> = plan.map_or_else(Vec::new, |plan| {
            let kept = &self.frames[plan.frame].kept;
            let members = plan.members.iter().copied();
            members.filter(|member| !kept.contains(member)).collect()
        });
        for step in new_steps {
            self.supersede(step, version);
        }
        self.revert_plan(index);
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.plan_was_rejected(by, reason);
        }
        self.make_ready(index);
        Ok(())
    }

    fn gated_at(&mut self, node: NodeId, event: &'static str) -> Result<usize, JournalError> {
        let index = self.index(node)?;
        let state = self.nodes[index].state.as_str();
        if self.gated.remove(&index) {
            Ok(index)
        } else {
            Err(JournalError::Transition { node, state, event })
        }
    }

    /// The event when no other plan follows a rejected one: the result of an earlier plan, or else the start of doing
    /// the task directly (E9.8). Where nobody is there to approve, the task is not done.
    pub(super) fn without_approved_plan(&self, index: usize) -> Event {
        let nobody = self.has_nobody().then_some(StopReason::NeedsInput);
        if self.agent(index).is_some_and(|agent| agent.proposal.is_some()) {
            return self.conclusion(index, nobody);
        }
        let is_ok = |child: &usize| self.nodes[*child].is_ok();
        if self.nodes[index].children.iter().any(is_ok) {
            return self.rolled_up(index, nobody);
        }
        if let Some(reason) = nobody {
            return self.failed_event(index, reason, "its plan was not approved");
        }
        Event::Decided {
            node: self.nodes[index].id,
            by: "plan_rejected".to_owned(),
            reason: "its plan was rejected".to_owned(),
            tests: None,
            first: None,
            executor: None,
        }
    }
}
