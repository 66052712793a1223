//! What is due for a task that a model does, by its stage (E9.3, E9.6, E9.8, E9.10).

use std::sync::Arc;

use folio_memory::Timestamp;

use super::stuck::Stuck;
use super::{Agent, Equipment, ModelSpec, NamedExecutor, REJECTIONS_MAX, Stage};
use crate::event::Event;
use crate::node::NodeId;
use crate::plan::HUMAN;
use crate::result::{Outcome, StopReason};
use crate::run::action::Action;
use crate::run::limit_met::{NODES_RULE, TOKENS_RULE};
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::run::tree::NodeKind;
use crate::run::waiting::DueAction;
use crate::talk::{ModelRole, Purpose, Stop};

/// The default for the most levels of nested plans that models may make (E9.10).
const DEPTH_DEFAULT: u32 = 3;
/// The estimated tokens by which the prompt of a step is longer than that of its task: what it is part of, and its own
/// criteria.
const STEP_TOLD: u64 = 500;

impl Run {
    /// What is due for node `index`; `None` if it is a call and there is no room for one.
    pub(in crate::run) fn due_of_agent(&self, index: usize, now: Timestamp, has_room: bool) -> Option<DueAction> {
        let id = self.nodes[index].id;
        let Some(agent) = self.agent(index) else {
            // A task that does not say what it is about is not done: a name that the check of the plan accepted may be
            // missing in what an item or a result holds.
            match self.unfillable_words(index) {
                Err(BodyNeeded(hash)) => return Some(Action::Load(hash).into()),
                Ok(Some(problem)) => {
                    return Some(self.failed_event(index, StopReason::InvalidInput, problem).into());
                }
                Ok(None) => {}
            }
            // The task's time begins when it is briefed. A person needs no room.
            return (has_room || self.is_for_person_at(index)).then(|| Action::Brief(id).into());
        };
        if let Some(reason) = self.why_model_failed(index) {
            return Some(Event::PassedOn { node: id, reason }.into());
        }
        if let Some((purpose, reply)) = &agent.unread {
            let event = self.reply_event(index, *purpose, reply, now);
            return Some(self.with_note_on_tools(index, event).into());
        }
        if let Some((purpose, failure)) = &agent.unanswered {
            return Some(self.no_answer_event(index, *purpose, failure).into());
        }
        match agent.stage {
            Stage::Deciding => match self.leaf_rule(index) {
                Some((rule, reason)) => Some(self.with_note_on_tools(index, decided(id, rule, reason)).into()),
                None => self.ask(index, Purpose::Decide, now, has_room),
            },
            Stage::Working if self.is_for_person_at(index) => Some(self.hand_over_action(index, now).into()),
            Stage::Working => match self.question_left_event(index, now) {
                Some(question) => Some(question.into()),
                None => self.ask(index, Purpose::Work, now, has_room),
            },
            Stage::Children | Stage::Aggregating => {
                if self.members(index).next().is_none() {
                    return Some(self.rolled_up(index, None).into());
                }
                if self.nodes[index].kind == NodeKind::RollUp {
                    return self.ask(index, Purpose::RollUp, now, has_room);
                }
                if let Some(parts) = self.parts_due(index) {
                    let again = self.roll_ups_again(index, &parts);
                    return Some(Event::RollUps { node: id, parts, again }.into());
                }
                self.ask(index, Purpose::Aggregate, now, has_room)
            }
            Stage::Verifying => self.next_check_action(index, now, has_room),
            // After a person rejected a plan, one more may be made, if plans are left (E9.8, E9.14). The rejected steps
            // have to end before anything follows.
            Stage::Replanning if agent.is_rejected && self.has_unskipped(index) => None,
            Stage::Replanning if agent.is_rejected && !self.may_plan_after_rejection(index) => {
                Some(self.without_approved_plan(index).into())
            }
            Stage::Replanning => self.ask(index, Purpose::Replan, now, has_room),
            // A program is not started again only to report what it did. Nor is what is kept of a limit used to report on
            // nothing: the tasks around it need it (E9.10).
            Stage::HandingBack
                if self.works_alone(index, ModelRole::Executor) || self.has_nothing_to_hand_back(index) =>
            {
                Some(self.rolled_up(index, None).into())
            }
            Stage::HandingBack => self.ask(index, Purpose::HandBack, now, has_room),
        }
    }

    /// Whether a limit stops node `index` before its model has called anything or written a word, and before a person
    /// has told it anything.
    fn has_nothing_to_hand_back(&self, index: usize) -> bool {
        let is_untouched = |agent: &Agent| {
            let is_by_limit = agent.spent.is_some_and(StopReason::is_limit);
            is_by_limit && agent.offloaded_summary.is_empty() && agent.remarks(1).is_empty()
        };
        self.nodes[index].children.is_empty()
            && self.agent(index).is_some_and(is_untouched)
            && !self.was_told_by_people(index)
    }

    /// Reads what a model answered before node `index` was paused, or while it is: the answer was paid for, and would
    /// be lost with anything that ends the task (E9.9, E9.14). What follows from it waits.
    pub(in crate::run) fn reading_while_paused(&self, index: usize, now: Timestamp) -> Option<Action> {
        let is_unread = |agent: &&Agent| agent.unread.is_some() || agent.unanswered.is_some();
        self.agent(index).filter(is_unread)?;
        let action = self.due_of_agent(index, now, false)?.action;
        matches!(action, Action::Record(_)).then_some(action)
    }

    /// The rule by which node `index` is done directly without asking, and why (E9.3).
    fn leaf_rule(&self, index: usize) -> Option<(&'static str, String)> {
        use super::PlanMode;
        let agent = self.agent(index)?;
        let mode = self.equipment.as_ref().map(|e| e.plan).unwrap_or_default();
        if mode == PlanMode::Never {
            return Some((mode.as_str(), "planning is disabled".to_owned()));
        }
        if agent.task.atomic {
            return Some(("atomic", "its plan marks it as atomic".to_owned()));
        }
        let (level, max_level) = self.plan_level(index, self.deepest_of_models());
        if level > max_level {
            return Some((
                "depth",
                format!("plans may be nested {max_level} deep, and it is on level {}", level - 1),
            ));
        }
        if let Some((used, limit)) = self.over_nodes_by(index, 2) {
            return Some((NODES_RULE, format!("{used} of {limit} nodes are used")));
        }
        if self.least_around(index, self.limits.children_max, |budget| budget.children) == 0 {
            return Some(("children", "its plan may not have any steps".to_owned()));
        }
        if let Some((left, needed)) = self.too_few_tokens_to_plan(index) {
            return Some((
                TOKENS_RULE,
                format!("{left} tokens are left, but a plan and one step need {needed}"),
            ));
        }
        // A plan is made all the same if one is always wanted and there is a model to make it.
        let may_plan = mode == PlanMode::Always && !self.works_alone(index, ModelRole::Planner);
        if self.works_alone(index, ModelRole::Executor) && !may_plan {
            let explanation = if self.is_for_person_at(index) {
                "a person executes it"
            } else {
                "it is executed by a program that splits work by itself"
            };
            return Some(("opaque", explanation.to_owned()));
        }
        None
    }

    /// `event`, which as the decision on node `index` says so if a program does a task whose tools are limited, because
    /// a person named the program or made it the usual executor.
    fn with_note_on_tools(&self, index: usize, mut event: Event) -> Event {
        if let Event::Decided {
            reason, executor: None, ..
        } = &mut event
            && self.tool_scope(index).is_narrow()
            && self.is_filled_by_program(index, ModelRole::Executor)
        {
            reason.push_str("; `tools` does not limit it, because a program has tools of its own");
        }
        event
    }

    /// The deepest level for plans of models, according to the plan of the run.
    pub(super) fn deepest_of_models(&self) -> u32 {
        let planned_depth = self.plan.budget.depth.unwrap_or(DEPTH_DEFAULT);
        planned_depth.min(self.limits.depth_max)
    }

    /// The tokens left for node `index`, and the tokens needed to split it up and do one step, if the latter are more:
    /// the call that decides, one of the same size for the step, and one for its work, each with what is set aside for
    /// it now. What is kept for the end does not count as left (E9.3).
    fn too_few_tokens_to_plan(&self, index: usize) -> Option<(u64, u64)> {
        let left = self.tokens_left(index)?;
        let role = |role: ModelRole| {
            let (model, _) = self.model_for(index, role)?;
            Some(u64::from(model.window) + u64::from(model.answer_tokens))
        };
        // No call costs more than its window, so nothing has to be counted if that much is left.
        let max_needed = role(ModelRole::Planner)?.saturating_mul(2) + role(ModelRole::Executor)?;
        if left >= max_needed {
            return None;
        }
        let (decide, work) = (
            self.tokens_of(index, Purpose::Decide)?,
            self.tokens_of(index, Purpose::Work)?,
        );
        let needed = decide.saturating_mul(2).saturating_add(work).saturating_add(STEP_TOLD);
        (left < needed).then_some((left, needed))
    }

    /// Whether node `index` must be split up whatever the model decides: the goal, if plans are always wanted (E9.3).
    pub(super) fn wants_plan(&self, index: usize) -> bool {
        let is_wanted = |equipment: &Arc<Equipment>| equipment.plan == super::PlanMode::Always;
        self.nodes[index].parent.is_none() && self.equipment.as_ref().is_some_and(is_wanted)
    }

    /// Whether a program or a person fills `role` for node `index`.
    pub(super) fn works_alone(&self, index: usize, role: ModelRole) -> bool {
        (role == ModelRole::Executor && self.is_for_person_at(index)) || self.is_filled_by_program(index, role)
    }

    /// Whether a program fills `role` for node `index`.
    pub(in crate::run) fn is_filled_by_program(&self, index: usize, role: ModelRole) -> bool {
        let model = self.model_for(index, role);
        model.is_some_and(|(model, _)| model.program.is_some())
    }

    /// The model that is asked in `role` for node `index`: the usual one, the executor that its task names, or the one
    /// that stands in because these could not help; and how many were passed over.
    pub(in crate::run) fn model_for(&self, index: usize, role: ModelRole) -> Option<(&ModelSpec, u32)> {
        let equipment = self.equipment.as_deref()?;
        let passed = self.agent(index).map_or(0, Agent::passed_over);
        let executor = self.executor_of(index).map(|(_, executor)| executor);
        Some(equipment.model_of(executor, role).fallback_after(passed))
    }

    /// The executor that the task of node `index` names, or else the one that its decision names, if the driver of the
    /// run has it.
    pub(in crate::run) fn executor_of(&self, index: usize) -> Option<(&String, &NamedExecutor)> {
        let agent = self.agent(index)?;
        let name = agent.task.executor.as_ref().or(agent.executor.as_ref())?;
        self.equipment.as_deref()?.executors.get_key_value(name)
    }

    /// The executor that the task of node `index` names and the driver of the run lacks: a person edited the plan in
    /// another process. The usual executor is not asked instead, because nobody chose it for the task.
    pub(super) fn missing_executor(&self, index: usize) -> Option<&str> {
        let name = self.agent(index)?.task.executor.as_deref()?;
        let is_missing = name != HUMAN && self.equipment.is_some() && self.executor_of(index).is_none();
        is_missing.then_some(name)
    }

    /// Who is asked next for node `id`, which a model does: the name of its executor, if it has one, and how many
    /// models were passed over because they could not help (E9.13, E9.17).
    #[must_use]
    pub fn next_assignee(&self, id: NodeId) -> Option<(Option<&str>, u32)> {
        let agent = self.agent(self.index(id).ok()?)?;
        let executor = agent.task.executor.as_deref().or(agent.executor.as_deref());
        Some((executor, agent.passed_over()))
    }

    /// The executors that a decision may choose for node `index`: none if its task names one.
    pub(super) fn executors_to_choose(&self, index: usize) -> impl Iterator<Item = &str> {
        let is_open = self.agent(index).is_some_and(|agent| agent.task.executor.is_none());
        let equipment = self.equipment.as_deref().filter(|_| is_open);
        let scope = self.tool_scope(index);
        equipment
            .into_iter()
            .flat_map(move |equipment| equipment.others(&scope))
    }

    /// Why the model that was asked last for node `index` could not help, if another one can be asked (E9.13).
    fn why_model_failed(&self, index: usize) -> Option<String> {
        let agent = self.agent(index)?;
        let (purpose, why) = match (&agent.unread, &agent.unanswered) {
            (Some((purpose, reply)), _) if reply.stop == Stop::Refusal => (*purpose, "it refused".to_owned()),
            (None, Some((purpose, failure))) => (*purpose, failure.message.clone()),
            _ => return None,
        };
        let (model, _) = self.model_for(index, purpose.role())?;
        let next = model.usable_fallback()?;
        let is_too_long = agent
            .unanswered
            .as_ref()
            .is_some_and(|(_, failure)| failure.reason == StopReason::WindowFull);
        // What does not fit into one window does not fit into a smaller one.
        (!is_too_long || next.window > model.window).then_some(why)
    }

    /// The number of plans around node `index`, both of models and written by people.
    pub(in crate::run) fn plans_around(&self, index: usize) -> u32 {
        let parents = self.self_and_ancestors(index).skip(1);
        let plans = parents.filter(|parent| matches!(self.nodes[*parent].kind, NodeKind::Plan | NodeKind::Model));
        u32::try_from(plans.count()).unwrap_or(u32::MAX)
    }

    /// The number of nodes that belong to plans: calls that models make are counted separately, and the run itself
    /// belongs to no plan.
    pub(in crate::run) fn nodes_in_plans(&self) -> usize {
        self.nodes.len().saturating_sub(self.actions + 1)
    }

    /// Whether a required step of the plan failed.
    pub(super) fn has_failed_step(&self, index: usize) -> bool {
        self.members(index).any(|member| {
            let node = &self.nodes[member];
            !node.optional
                && node
                    .result
                    .as_ref()
                    .is_some_and(|result| result.status == Outcome::Failed)
        })
    }

    pub(in crate::run) fn has_rejected_plan(&self, index: usize) -> bool {
        self.agent(index).is_some_and(|agent| agent.is_rejected)
    }

    /// Whether some steps of a rejected plan, or nodes in them, have not been skipped yet.
    fn has_unskipped(&self, index: usize) -> bool {
        let mut rest = self.nodes[index].children.clone();
        rest.retain(|child| self.nodes[*child].dropped_by > 0);
        while let Some(at) = rest.pop() {
            if !self.nodes[at].is_terminal() {
                return true;
            }
            rest.extend(&self.nodes[at].children);
        }
        false
    }

    /// Whether another plan may follow one that a person rejected: once for each task, within the limits of E9.8.
    fn may_plan_after_rejection(&self, index: usize) -> bool {
        let Some(agent) = self.agent(index) else { return false };
        if self.has_nobody() {
            return false;
        }
        let done = u32::try_from(agent.versions.len().saturating_sub(1)).unwrap_or(u32::MAX);
        agent.rejected_plans.len() < 2 && done < self.replans_max(index) && self.has_replan_left(index)
    }

    /// Whether node `index` may plan anew; if not, the reason to give, if there is one (E9.8).
    pub(super) fn may_replan(&self, index: usize) -> Result<(), Option<StopReason>> {
        let Some(agent) = self.agent(index) else {
            return Err(None);
        };
        match agent.stuck {
            Some(Stuck::GoesOn) => return Ok(()),
            Some(Stuck::Stops) => return Err(Some(StopReason::Stalled)),
            None => {}
        }
        let done = u32::try_from(agent.versions.len().saturating_sub(1)).unwrap_or(u32::MAX);
        if done >= self.replans_max(index) || !self.has_replan_left(index) {
            return Err(None);
        }
        // If the second of two versions met no further criterion, a third will not help. One that was rejected met none
        // because nobody carried it out.
        let mut carried_out = agent.versions.iter().rev().filter(|version| !version.is_rejected);
        if let Some(before) = carried_out.nth(1) {
            let met = agent.met();
            if !met.iter().any(|id| !before.met.contains(id)) {
                return Err(Some(StopReason::Stalled));
            }
        }
        Ok(())
    }

    /// The nodes whose results make up that of node `index`; if it was done directly because no plan was approved, its
    /// calls.
    pub(in crate::run) fn members(&self, index: usize) -> impl Iterator<Item = usize> {
        let is_direct = self.agent(index).is_some_and(|agent| agent.is_direct);
        let children = self.nodes[index].children.iter().copied();
        let calls = children.filter(move |child| is_direct && self.nodes[*child].kind == NodeKind::Action);
        calls.chain(self.steps_shown(index).filter(move |_| !is_direct))
    }

    /// The same as people see it: the steps of its last plan, whatever happened to it.
    pub(in crate::run) fn steps_shown(&self, index: usize) -> impl Iterator<Item = usize> {
        let node = &self.nodes[index];
        let members = match &node.plan {
            _ if node.kind == NodeKind::RollUp => &node.gathers[..],
            Some(plan) => &plan.members,
            None => &node.children,
        };
        members.iter().copied()
    }

    /// Whether the limit of the run allows another plan for node `index`, besides those that models are making for
    /// other nodes (E9.8).
    pub(in crate::run) fn has_replan_left(&self, index: usize) -> bool {
        let others = self.replanning.len() - usize::from(self.replanning.contains(&index));
        (self.replans as usize).saturating_add(others) < self.limits.replans_in_run_max as usize
    }

    /// How many times node `index` may plan anew.
    pub(super) fn replans_max(&self, index: usize) -> u32 {
        self.least_around(index, self.limits.replans_max, |budget| budget.replans)
    }

    pub(super) fn may_reject(&self, index: usize) -> bool {
        self.agent(index).is_some_and(|agent| agent.rejections < REJECTIONS_MAX)
    }
}

fn decided(node: NodeId, rule: &str, reason: String) -> Event {
    Event::Decided {
        node,
        by: rule.to_owned(),
        reason,
        tests: None,
        first: None,
        executor: None,
    }
}
