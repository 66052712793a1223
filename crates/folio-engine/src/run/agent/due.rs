//! What a task that a model does is owed, by its stage (E9.3, E9.6, E9.8, E9.10).

use std::sync::Arc;
use std::time::Duration;

use folio_memory::Timestamp;
use serde_json::Value;

use super::compact::{CompactAction, Compaction};
use super::read::cut;
use super::{Agent, Equipment, ModelSpec, NamedExecutor, REJECTIONS_MAX, SENT_BACK_MAX, Stage, answer};
use crate::event::{Event, Proposal};
use crate::node::NodeId;
use crate::plan::{Check, Criterion};
use crate::result::{Finding, NodeResult, Outcome, Output, Severity, StopReason, Verdict};
use crate::run::due::Action;
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::run::tree::NodeKind;
use crate::spend::Spend;
use crate::talk::{Message, ModelRole, Purpose, Stop, ToolOffer};

/// Calls of models that one task may take for itself.
const TURNS_MAX: u32 = 40;
/// Rounds in a row in which nothing that was wanted could be called.
const REFUSALS_MAX: u32 = 3;
/// Levels of plans that models may make inside one another, unless the plan says otherwise (E9.10).
const DEPTH_DEFAULT: u32 = 3;
/// Tokens that a plan, one child and the end of both need at the least; with less, a task is done directly.
const TOKENS_TO_PLAN: u64 = 8_000;
/// Why a model is not asked whose price nobody knows, and what helps.
const UNPRICED: &str = "its budget limits dollars, and nobody knows what the model costs: give it a price in a file of prices, or begin the run with \
`folio run --allow-unpriced`";
/// Characters of why no model did something, in the notes of what came out without one.
const WHY_CHARS: usize = 400;
/// Answers are never given less room than this.
const ANSWER_TOKENS_MIN: u32 = 64;

/// A call of a model that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct AskAction {
    /// For which node.
    pub node: NodeId,
    /// Which call of the node, from 1. The same as before if the driver died while the call was under way.
    pub call: u32,
    /// What for.
    pub purpose: Purpose,
    /// Everything that the model reads, in order.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    pub tools: Arc<[ToolOffer]>,
    /// The JSON Schema of its answer; `None` if it answers by calling tools.
    pub answer_schema: Option<Arc<Value>>,
    /// The most tokens that it may answer with.
    pub answer_tokens: u32,
    /// How free it is, from 0; `None` for the provider's own default.
    pub temperature: Option<f32>,
    /// What the call may come to.
    pub reserved: Spend,
    /// How many models of the role are passed over, because they were of no help: whoever is asked stands in for them (E9.13).
    pub passed: u32,
    /// The executor that the task names, or whoever decided on it, if whoever drives the run has it (E9.17).
    pub executor: Option<String>,
    /// Whether a program is started that works by itself: if nobody sees its end, nobody knows what it did.
    pub is_opaque: bool,
    /// The session in which the program was at work on this when its driver died: it goes on with that (E9.17).
    pub session: Option<String>,
    /// Whether a person, or a rule that a person made, allowed that program to be started here.
    pub allowed: bool,
    /// How long it may take; who works by itself has a limit of its own.
    pub timeout: Duration,
    /// How long one attempt at its task may take, whoever does it, if the task says so.
    pub attempt: Option<Duration>,
    /// The same for the same call, however often it is made.
    pub idempotency_key: String,
}

/// What a model that is to be asked for something comes to.
enum Asking {
    /// It is asked.
    Ask(Box<AskAction>),
    /// Some of what was said is put away first.
    Compact(Box<CompactAction>),
    /// It is not, because of this limit.
    Over(StopReason),
    /// It is not, because dollars are limited and nobody knows what it costs.
    Unpriced,
}

impl AskAction {
    /// The event that records its beginning.
    #[must_use]
    pub fn asked(&self) -> Event {
        Event::Asked {
            node: self.node,
            call: self.call,
            purpose: self.purpose,
            reserved: self.reserved,
            is_opaque: self.is_opaque,
        }
    }
}

impl Run {
    /// What node `index` is owed: `None` if all there is is a call, and there is no room for one.
    pub(in crate::run) fn due_of_agent(&self, index: usize, now: Timestamp, has_room: bool) -> Option<Action> {
        let id = self.nodes[index].id;
        let Some(agent) = self.agent(index) else {
            // Its time begins with what it is told. People need no room.
            return (has_room || self.is_for_person_at(index)).then_some(Action::Brief(id));
        };
        if let Some(reason) = self.no_help(index) {
            return Some(Action::Record(Event::PassedOn { node: id, reason }));
        }
        if let Some((purpose, reply)) = &agent.unread {
            return Some(Action::Record(self.reading(index, *purpose, reply, now)));
        }
        if let Some((purpose, failure)) = &agent.unanswered {
            return Some(Action::Record(self.without_answer(index, *purpose, failure)));
        }
        match agent.stage {
            Stage::Deciding => match self.leaf_rule(index) {
                Some((rule, reason)) => Some(Action::Record(decided(id, rule, reason))),
                None => self.ask(index, Purpose::Decide, now, has_room),
            },
            Stage::Working if self.is_for_person_at(index) => Some(self.handing_over(index, now)),
            Stage::Working => self.ask(index, Purpose::Work, now, has_room),
            Stage::Children | Stage::Aggregating => {
                if self.members(index).next().is_none() {
                    return Some(Action::Record(self.rolled_up(index, None)));
                }
                if self.nodes[index].kind == NodeKind::RollUp {
                    return self.ask(index, Purpose::RollUp, now, has_room);
                }
                if let Some(parts) = self.parts_due(index) {
                    return Some(Action::Record(Event::RollUps { node: id, parts }));
                }
                self.ask(index, Purpose::Aggregate, now, has_room)
            }
            Stage::Verifying => self.verifying(index, now, has_room),
            // A plan that a person rejected may have one other, if plans are left (E9.8, E9.14).
            Stage::Replanning if agent.is_rejected && !self.may_plan_after_no(index) => {
                Some(Action::Record(self.without_approved_plan(index)))
            }
            Stage::Replanning => self.ask(index, Purpose::Replan, now, has_room),
            // A program is not started once more only to say what it did.
            Stage::HandingBack if self.works_alone(index, ModelRole::Executor) => {
                Some(Action::Record(self.rolled_up(index, None)))
            }
            Stage::HandingBack => self.ask(index, Purpose::HandBack, now, has_room),
        }
    }

    /// Which rule says that node `index` is done directly without asking, and why (E9.3).
    fn leaf_rule(&self, index: usize) -> Option<(&'static str, String)> {
        use super::PlanMode;
        let agent = self.agent(index)?;
        let mode = self.equipment.as_ref().map(|e| e.plan).unwrap_or_default();
        if mode == PlanMode::Never {
            return Some((mode.as_str(), "plans are switched off".to_owned()));
        }
        if agent.task.atomic {
            return Some((
                "atomic",
                "whoever planned it said that it is not to be taken apart".to_owned(),
            ));
        }
        let deepest = self
            .plan
            .budget
            .depth
            .unwrap_or(DEPTH_DEFAULT)
            .min(self.limits.depth_max);
        let (level, deepest) = self.plan_level(index, deepest);
        if level > deepest {
            return Some((
                "depth",
                format!("plans may be {deepest} deep, and it is on level {}", level - 1),
            ));
        }
        if let Some((used, limit)) = self.over_nodes_by(index, 2) {
            return Some(("nodes", format!("{used} of {limit} nodes are used")));
        }
        if let Some(left) = self.tokens_left(index).filter(|left| *left < TOKENS_TO_PLAN) {
            return Some((
                "tokens",
                format!("{left} tokens are left, which is not enough for a plan and a step"),
            ));
        }
        // Plans are made all the same if somebody wants them and there is a model that makes them.
        let may_plan = mode == PlanMode::Always && !self.works_alone(index, ModelRole::Planner);
        if self.works_alone(index, ModelRole::Executor) && !may_plan {
            let whose = if self.is_for_person_at(index) {
                "a person does it"
            } else {
                "a program does it, which takes work apart by itself"
            };
            return Some(("opaque", whose.to_owned()));
        }
        None
    }

    /// Whether node `index` is to be taken apart whatever the model thinks of it: the goal, if plans are always wanted (E9.3).
    pub(super) fn wants_plan(&self, index: usize) -> bool {
        let is_wanted = |equipment: &Arc<Equipment>| equipment.plan == super::PlanMode::Always;
        self.nodes[index].parent.is_none() && self.equipment.as_ref().is_some_and(is_wanted)
    }

    /// Whether a program that works by itself stands behind `role` for node `index`, or a person.
    pub(super) fn works_alone(&self, index: usize, role: ModelRole) -> bool {
        let is_program = || {
            let model = self.model_for(index, role);
            model.is_some_and(|(model, _)| model.program.is_some())
        };
        (role == ModelRole::Executor && self.is_for_person_at(index)) || is_program()
    }

    /// The model that is asked in `role` for node `index`: the usual one, the executor that its task names, or whoever stands in for it
    /// because it was of no help; and how many those are.
    pub(in crate::run) fn model_for(&self, index: usize, role: ModelRole) -> Option<(&ModelSpec, u32)> {
        let equipment = self.equipment.as_deref()?;
        let agent = self.agent(index);
        // The last time that an answer is asked for again, somebody else is asked if there is anybody.
        let passed = agent.map_or(0, |agent| {
            agent.passed.max(u32::from(agent.rejections >= REJECTIONS_MAX))
        });
        let named = self.executor_of(index).filter(|_| role == ModelRole::Executor);
        let usual = named.map_or_else(|| equipment.model(role), |(_, named)| &named.model);
        Some(usual.after(passed))
    }

    /// The executor that the task of node `index` names, or else whoever decided on it, if there is one of that name.
    pub(in crate::run) fn executor_of(&self, index: usize) -> Option<(&String, &NamedExecutor)> {
        let agent = self.agent(index)?;
        let name = agent.task.executor.as_ref().or(agent.executor.as_ref())?;
        self.equipment.as_deref()?.executors.get_key_value(name)
    }

    /// The names of whoever may be chosen for node `index` by whoever decides on it: nobody, if its task says who does it.
    pub(super) fn executors_to_choose(&self, index: usize) -> impl Iterator<Item = &str> {
        let is_open = self.agent(index).is_some_and(|agent| agent.task.executor.is_none());
        let equipment = self.equipment.as_deref().filter(|_| is_open);
        equipment.into_iter().flat_map(Equipment::others)
    }

    /// Why whoever was asked last for node `index` was of no help, if somebody else can be asked (E9.13).
    fn no_help(&self, index: usize) -> Option<String> {
        let agent = self.agent(index)?;
        let (purpose, why) = match (&agent.unread, &agent.unanswered) {
            (Some((purpose, reply)), _) if reply.stop == Stop::Refusal => (*purpose, "it would not do it".to_owned()),
            (None, Some((purpose, failure))) => (*purpose, failure.message.clone()),
            _ => return None,
        };
        let (model, _) = self.model_for(index, purpose.role())?;
        let next = model.stands_in()?;
        let is_too_long = agent
            .unanswered
            .as_ref()
            .is_some_and(|(_, failure)| failure.reason == StopReason::WindowFull);
        // What does not fit into one window does not fit into a smaller one.
        (!is_too_long || next.window > model.window).then_some(why)
    }

    /// How many plans node `index` is inside of: those of models, and those that were written.
    pub(in crate::run) fn plans_around(&self, index: usize) -> u32 {
        let parents = self.and_around(index).skip(1);
        let plans = parents.filter(|parent| matches!(self.nodes[*parent].kind, NodeKind::Plan | NodeKind::Model));
        u32::try_from(plans.count()).unwrap_or(u32::MAX)
    }

    /// Nodes that stand in plans: calls that models make are counted for themselves, and the run itself stands in none.
    pub(in crate::run) fn nodes_in_plans(&self) -> usize {
        self.nodes.len().saturating_sub(self.actions + 1)
    }

    fn ask(&self, index: usize, purpose: Purpose, now: Timestamp, has_room: bool) -> Option<Action> {
        let agent = self.agent(index)?;
        let id = self.nodes[index].id;
        // What time is left is for saying what there is (E9.10).
        if self.is_late(index, now) && !self.has_session(index) {
            match purpose {
                Purpose::Decide => {
                    let notes = "not begun, because the time is nearly over";
                    return Some(Action::Record(self.failing(index, StopReason::Deadline, notes)));
                }
                Purpose::Work | Purpose::Replan => {
                    return Some(Action::Record(self.over_budget(index, purpose, StopReason::Deadline)));
                }
                Purpose::Aggregate | Purpose::RollUp | Purpose::Judge | Purpose::HandBack => {}
            }
        }
        if !has_room {
            return None;
        }
        if self.is_untold(index, purpose) {
            return Some(Action::Brief(id));
        }
        if purpose == Purpose::Work {
            let over = if agent.refusals >= REFUSALS_MAX {
                Some(StopReason::Loop)
            } else {
                (agent.calls >= TURNS_MAX).then_some(StopReason::TurnCap)
            };
            if let Some(reason) = over {
                return Some(Action::Record(Event::Spent { node: id, reason }));
            }
        }
        if let Some(failure) = self.session_lost(index, purpose) {
            return Some(Action::Record(self.without_answer(index, purpose, &failure)));
        }
        match self.asking_for(index, purpose) {
            // What was begun and does not fit any more is not handed back as if nothing had been done.
            Ok(Asking::Over(_) | Asking::Unpriced) if self.has_session(index) => {
                Some(Action::Record(self.without_answer(index, purpose, &answer::lost())))
            }
            Ok(Asking::Ask(ask)) => Some(match self.permitted_program(index, *ask) {
                Ok(ask) => Action::Ask(Box::new(ask)),
                Err(event) => Action::Record(*event),
            }),
            Ok(Asking::Compact(compact)) => Some(Action::Compact(compact)),
            Ok(Asking::Unpriced) if matches!(purpose, Purpose::Decide | Purpose::Work) => {
                Some(Action::Record(self.failing(index, StopReason::BudgetUsd, UNPRICED)))
            }
            Ok(Asking::Unpriced) => Some(Action::Record(self.over_budget(index, purpose, StopReason::BudgetUsd))),
            Ok(Asking::Over(reason)) => Some(Action::Record(self.over_budget(index, purpose, reason))),
            Err(BodyNeeded(hash)) => Some(Action::Load(hash)),
        }
    }

    /// The call, or what has to come before it, or the limit that it does not fit into.
    fn asking_for(&self, index: usize, purpose: Purpose) -> Result<Asking, BodyNeeded> {
        let (Some(agent), Some(equipment)) = (self.agent(index), self.equipment.as_ref()) else {
            return Ok(Asking::Over(StopReason::Unsatisfiable));
        };
        let role = purpose.role();
        let Some((model, passed)) = self.model_for(index, role) else {
            return Ok(Asking::Over(StopReason::Unsatisfiable));
        };
        let named = self.executor_of(index).filter(|_| role == ModelRole::Executor);
        let messages = self.messages(index, purpose)?;
        let is_opaque = model.program.is_some();
        let offered =
            (purpose == Purpose::Work && !is_opaque).then(|| equipment.offered(named.map(|(_, named)| named)));
        let tools = offered.map_or_else(Arc::default, |offered| Arc::clone(&offered.tools));
        let tools_cost = offered.map_or(0, |offered| offered.cost);
        let (answer_schema, form_cost) = self.form(index, purpose, model);
        let tokens_in = self.cost_of(index, &messages, model) + tools_cost + form_cost;
        match self.compaction(index, purpose, tokens_in)? {
            Compaction::Needless => {}
            Compaction::Due(compact) => return Ok(Asking::Compact(compact)),
            Compaction::Forbidden => return Ok(Asking::Over(StopReason::WindowFull)),
        }
        let room = u64::from(model.window).saturating_sub(tokens_in);
        if room < u64::from(ANSWER_TOKENS_MIN) {
            return Ok(Asking::Over(StopReason::WindowFull));
        }
        let mut answer_tokens = model.answer_tokens.min(u32::try_from(room).unwrap_or(u32::MAX));
        // What was cut off gets more room once.
        if agent.rejections == 0 && purpose != Purpose::HandBack {
            answer_tokens = answer_tokens.min((model.answer_tokens / 2).max(ANSWER_TOKENS_MIN));
        }
        let is_last = purpose.is_last();
        let set_aside = |answer: u32| {
            model.priced(Spend {
                tokens_in,
                tokens_out: u64::from(answer),
                model_calls: 1,
                ..Spend::default()
            })
        };
        if is_last {
            // The end gets as much room as there is.
            while answer_tokens / 2 >= ANSWER_TOKENS_MIN
                && self.refused_by_budget(index, &set_aside(answer_tokens), true).is_some()
            {
                answer_tokens /= 2;
            }
        }
        let reserved = set_aside(answer_tokens);
        if model.price.is_none() && self.needs_price(index) {
            return Ok(Asking::Unpriced);
        }
        if let Some(reason) = self.refused_by_budget(index, &reserved, is_last) {
            return Ok(Asking::Over(reason));
        }
        if answer_tokens < ANSWER_TOKENS_MIN {
            return Ok(Asking::Over(StopReason::BudgetTokens));
        }
        let is_attempt = matches!(purpose, Purpose::Decide | Purpose::Work);
        let attempt = agent.task.timeout.filter(|_| is_attempt);
        let call = agent.calls + 1;
        let node = self.nodes[index].id;
        Ok(Asking::Ask(Box::new(AskAction {
            node,
            call,
            purpose,
            messages,
            tools,
            answer_schema,
            answer_tokens,
            temperature: (agent.rejections > 0 || role == ModelRole::Judge).then_some(0.0),
            reserved,
            passed,
            executor: named.map(|(name, _)| name.clone()),
            is_opaque,
            session: agent.session_id(),
            allowed: false,
            timeout: attempt.map_or(equipment.timeout, |attempt| attempt.min(equipment.timeout)),
            attempt,
            idempotency_key: format!("{}/{node}/{call}", self.id),
        })))
    }

    /// What follows when a call does not fit into the budget.
    fn over_budget(&self, index: usize, purpose: Purpose, reason: StopReason) -> Event {
        let node = self.nodes[index].id;
        match purpose {
            Purpose::Decide | Purpose::Work => Event::Spent { node, reason },
            Purpose::Aggregate | Purpose::HandBack => self.rolled_up(index, Some(reason)),
            Purpose::RollUp => self.rolled_up_alone(index, reason),
            Purpose::Judge => {
                let why = format!("there was no budget left to judge it ({reason})");
                self.unjudged_for(index, reason, &why)
            }
            Purpose::Replan if self.has_rejected_plan(index) => self.without_approved_plan(index),
            Purpose::Replan => self.conclusion(index, Some(reason)),
        }
    }

    /// What follows when a model does not answer, and will not be asked again (E9.13).
    fn without_answer(&self, index: usize, purpose: Purpose, failure: &crate::result::Failure) -> Event {
        match purpose {
            Purpose::Decide | Purpose::Work => self.failing(index, failure.reason, failure.message.clone()),
            Purpose::Judge => {
                let why = format!("the judge did not answer: {}", failure.message);
                self.unjudged_for(index, failure.reason, &why)
            }
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan | Purpose::HandBack => {
                let why = format!("the model did not answer: {}", failure.message);
                self.without_model_for(index, purpose, failure.reason, &why)
            }
        }
    }

    /// What follows when no model does for node `index` what nobody else does either: what there is stands, and its notes say `why`, so
    /// that whoever reads no more than the result knows it (E9.13).
    pub(super) fn without_model_for(&self, index: usize, purpose: Purpose, reason: StopReason, why: &str) -> Event {
        let (event, what) = match purpose {
            Purpose::Replan if self.has_rejected_plan(index) => return self.without_approved_plan(index),
            Purpose::Replan => (self.conclusion(index, Some(reason)), "there is no other plan"),
            Purpose::RollUp => (self.rolled_up_alone(index, reason), "nobody put these together"),
            // The limit is why there is no more; that it was not put into words is no reason to lose what there is (E9.10).
            Purpose::HandBack => {
                let reason = self.agent(index).and_then(|agent| agent.spent);
                (self.rolled_up(index, reason), "nobody put it into words")
            }
            Purpose::Aggregate | Purpose::Decide | Purpose::Work | Purpose::Judge => {
                (self.rolled_up(index, Some(reason)), "nobody put the results together")
            }
        };
        with_first(event, &format!("{what}: {}", cut(why, WHY_CHARS)))
    }

    /// The result that follows from the steps, or from what a model did, without a model (E9.13).
    pub(in crate::run) fn rolled_up(&self, index: usize, reason: Option<StopReason>) -> Event {
        let mut result = self.roll_up(index);
        if reason.is_some() {
            result.status = result.status.max(Outcome::Partial);
        }
        let agent = self.agent(index);
        // Nothing that it did was put into words.
        if agent.is_some_and(|agent| !agent.has_plan()) {
            result.status = Outcome::Partial;
            result.notes = format!("stopped before it was done; {}", result.notes);
        } else if agent.is_some() {
            // Nobody put them together, so each is told in a line (E9.13).
            result.notes = self.with_table(index, &result.notes);
        }
        let reason = reason.or(agent.and_then(|agent| agent.spent)).or(result.stop_reason);
        Event::Proposed {
            node: self.nodes[index].id,
            proposal: Box::new(Proposal {
                wrote: 0,
                status: result.status,
                stop_reason: reason,
                severity: None,
                notes: result.notes,
                output: Output::null(),
                evidence: result.evidence,
                claims: Vec::new(),
            }),
        }
    }

    /// What is still to be checked of a proposal, or what follows when all of it is.
    fn verifying(&self, index: usize, now: Timestamp, has_room: bool) -> Option<Action> {
        let agent = self.agent(index)?;
        let proposal = agent.proposal.as_deref()?;
        let open = agent.open_criteria().cloned();
        let (machine, others): (Vec<_>, Vec<_>) = open.partition(|criterion| criterion.check.is_machine());
        // Of what was not finished nobody has to say that it is not what was wanted.
        let is_judged = matches!(proposal.status, Outcome::Ok | Outcome::Partial) && agent.spent.is_none();
        if !machine.is_empty() && is_judged {
            return Some(self.checking(index, &machine, proposal));
        }
        if !others.is_empty() && is_judged {
            let is_missing = agent
                .verdicts
                .iter()
                .any(|v| v.required && matches!(v.finding, Finding::Unmet(_)));
            if is_missing {
                let why = "not judged, because something else is missing";
                return Some(Action::Record(self.unverified(index, why, |_| true)));
            }
            // A judge comes first: whoever is asked need not look at what is wanting.
            if others.iter().any(|criterion| criterion.check != Check::Human) {
                if self.equipment.is_none() {
                    return Some(Action::Record(self.unjudged(index, "there is no model to judge it")));
                }
                return self.ask(index, Purpose::Judge, now, has_room);
            }
            return Some(Action::Record(
                match others.iter().find(|criterion| self.asks_person(criterion)) {
                    Some(criterion) => self.asking_about(index, criterion, proposal),
                    None => self.unjudged(index, "nobody was asked"),
                },
            ));
        }
        let gaps = self.gaps(index);
        let is_wanting = !gaps.is_empty() && agent.spent.is_none();
        if is_wanting && !agent.has_plan() && agent.sent_back < SENT_BACK_MAX && !agent.talk.is_empty() {
            let node = self.nodes[index].id;
            return Some(Action::Record(Event::SentBack { node, gaps }));
        }
        if agent.has_plan() && agent.spent.is_none() && (is_wanting || self.has_failed_step(index)) {
            return match self.may_replan(index) {
                Ok(()) => self.ask(index, Purpose::Replan, now, has_room),
                Err(reason) => Some(Action::Record(self.conclusion(index, reason))),
            };
        }
        Some(Action::Record(self.conclusion(index, None)))
    }

    fn checking(&self, index: usize, machine: &[Criterion], proposal: &Proposal) -> Action {
        let node = self.nodes[index].id;
        let output = match self.output_needed(&proposal.output) {
            Ok(output) => output,
            Err(BodyNeeded(hash)) => return Action::Load(hash),
        };
        let result = NodeResult::new(proposal.status, proposal.notes.clone());
        let scope = match self.criteria_scope(index, machine, &result, &output) {
            Ok(scope) => scope,
            Err(BodyNeeded(hash)) => return Action::Load(hash),
        };
        let mut calls = self.check_calls(machine, &scope);
        if let Some(asking) = calls.iter_mut().find_map(|check| self.asking_to_run(index, check)) {
            return Action::Record(asking);
        }
        if calls.is_empty() {
            let verdicts = self.verdicts(machine, &scope, &result, &output, &[]);
            return Action::Record(checked(node, verdicts));
        }
        Action::Verify { node, calls }
    }

    /// The verdicts of a task's machine checks, after the runner made those that it was asked for.
    pub(in crate::run) fn checked(&self, index: usize, found: &[crate::run::CheckFinding]) -> Option<Event> {
        let agent = self.agent(index)?;
        let proposal = agent.proposal.as_deref()?;
        let machine = agent.open_criteria().filter(|criterion| criterion.check.is_machine());
        let criteria: Vec<Criterion> = machine.cloned().collect();
        let output = self.output_value(&proposal.output)?;
        let result = NodeResult::new(proposal.status, proposal.notes.clone());
        let scope = self.criteria_scope(index, &criteria, &result, &output).ok()?;
        let verdicts = self.verdicts(&criteria, &scope, &result, &output, found);
        Some(checked(self.nodes[index].id, verdicts))
    }

    /// Nobody could say whether what is still open holds, but for what a person is asked about: that never counts as met (E9.6).
    pub(super) fn unjudged(&self, index: usize, why: &str) -> Event {
        self.unverified(index, why, |criterion| !self.asks_person(criterion))
    }

    /// The same for `reason`, which the result has, too.
    pub(super) fn unjudged_for(&self, index: usize, reason: StopReason, why: &str) -> Event {
        Event::Checked {
            node: self.nodes[index].id,
            verdicts: self.open_verdicts(index, why, |criterion| !self.asks_person(criterion)),
            limit: Some(reason),
        }
    }

    /// Of the open criteria that are among `which`, nobody can say whether they hold.
    fn unverified(&self, index: usize, why: &str, which: impl Fn(&Criterion) -> bool) -> Event {
        checked(self.nodes[index].id, self.open_verdicts(index, why, which))
    }

    fn open_verdicts(&self, index: usize, why: &str, which: impl Fn(&Criterion) -> bool) -> Vec<Verdict> {
        self.agent(index).map_or_else(Vec::new, |agent| {
            let open = agent.open_criteria().filter(|criterion| which(criterion));
            open.map(|criterion| Verdict {
                criterion: criterion.id.clone(),
                required: criterion.required,
                finding: Finding::Unverifiable(why.to_owned()),
            })
            .collect()
        })
    }

    /// What is missing, a line for each required criterion that is not met.
    pub(super) fn gaps(&self, index: usize) -> Vec<String> {
        let Some(agent) = self.agent(index) else {
            return Vec::new();
        };
        let text = |id: &str| {
            agent
                .task
                .criteria
                .iter()
                .find(|c| c.id == id)
                .map_or("", |c| c.text.as_str())
        };
        let unmet = agent.verdicts.iter().filter(|verdict| verdict.required);
        unmet
            .filter_map(|verdict| match &verdict.finding {
                Finding::Unmet(gap) => Some(format!(
                    "{} ({}) is not met: {gap}",
                    verdict.criterion,
                    text(&verdict.criterion)
                )),
                Finding::Met | Finding::Unverifiable(_) => None,
            })
            .collect()
    }

    /// Whether a step failed that the plan needs.
    fn has_failed_step(&self, index: usize) -> bool {
        self.members(index).any(|member| {
            let node = &self.nodes[member];
            !node.optional
                && node
                    .result
                    .as_ref()
                    .is_some_and(|result| result.status == Outcome::Failed)
        })
    }

    pub(super) fn has_rejected_plan(&self, index: usize) -> bool {
        self.agent(index).is_some_and(|agent| agent.is_rejected)
    }

    /// Whether there may be another plan after a person rejected one: once for a task, within the numbers of E9.8.
    fn may_plan_after_no(&self, index: usize) -> bool {
        let Some(agent) = self.agent(index) else { return false };
        let done = u32::try_from(agent.versions.len().saturating_sub(1)).unwrap_or(u32::MAX);
        agent.rejected_plans.len() < 2
            && done < self.replans_max(index)
            && self.replans < self.limits.replans_in_run_max
    }

    /// Whether node `index` may plan anew; if not, the reason to give if there is one (E9.8).
    pub(super) fn may_replan(&self, index: usize) -> Result<(), Option<StopReason>> {
        let Some(agent) = self.agent(index) else {
            return Err(None);
        };
        let done = u32::try_from(agent.versions.len().saturating_sub(1)).unwrap_or(u32::MAX);
        if done >= self.replans_max(index) || self.replans >= self.limits.replans_in_run_max {
            return Err(None);
        }
        // Two versions without a criterion that was not met before: a third will not help.
        if let [.., before, _] = agent.versions.as_slice() {
            let met = agent.met();
            if !met.iter().any(|id| !before.met.contains(id)) {
                return Err(Some(StopReason::Stalled));
            }
        }
        Ok(())
    }

    /// The result of a task whose proposal is checked.
    pub(super) fn conclusion(&self, index: usize, reason: Option<StopReason>) -> Event {
        let node = &self.nodes[index];
        let Some(proposal) = node.agent.as_deref().and_then(|agent| agent.proposal.as_deref()) else {
            return self.rolled_up(index, reason);
        };
        let agent = node.agent.as_deref();
        let mut result = NodeResult::new(proposal.status, proposal.notes.clone());
        result.output = proposal.output.clone();
        result.evidence.clone_from(&proposal.evidence);
        result.verdicts = agent.map(|agent| agent.verdicts.clone()).unwrap_or_default();
        result.stop_reason = reason.or(agent.and_then(|agent| agent.spent)).or(proposal.stop_reason);
        if result.status == Outcome::Failed {
            result.severity = Some(self.severity_said(index, proposal.severity, reason));
            result.stop_reason = Some(result.stop_reason.unwrap_or(StopReason::CriteriaUnmet));
        }
        let unjudged = agent.and_then(|agent| agent.unjudged);
        let (said, stopped) = (result.stop_reason, result.stop_reason.or(unjudged));
        self.judge(index, &self.criteria_of(index), &mut result);
        if result.status != Outcome::Ok {
            result.stop_reason = result.stop_reason.or(stopped);
        }
        if !self.gaps(index).is_empty() {
            // A plan of which something was done is not nothing: its parent sees what there is (E9.8).
            let has_some =
                agent.is_some_and(Agent::has_plan) && self.members(index).any(|member| self.nodes[member].is_ok());
            result.status = if has_some { Outcome::Partial } else { Outcome::Failed };
            result.severity = (!has_some).then(|| self.severity_said(index, proposal.severity, None));
            // That nobody judged the rest is not why this is missing, unless there was no more of something.
            let limit = unjudged.filter(|reason| reason.is_limit());
            result.stop_reason = Some(said.or(limit).unwrap_or(StopReason::CriteriaUnmet));
        }
        result.attempts = match node.kind {
            NodeKind::Call => node.attempt,
            _ => agent.map_or(0, |agent| agent.calls),
        };
        Event::Finished {
            node: node.id,
            result: Box::new(result),
        }
    }

    /// How bad a failure is that whoever did the task tells, with the severity that it `said` of it, if any: soft, unless it says
    /// otherwise, the rest needs the result, or a `reason` of the engine's own makes it hard. What its steps failed of makes nothing
    /// hard here: whoever puts them together decides (E9.4).
    fn severity_said(&self, index: usize, said: Option<Severity>, reason: Option<StopReason>) -> Severity {
        let ruled = self.severity_of(index, reason.unwrap_or(StopReason::CriteriaUnmet));
        // A later step that reads it cannot do without it, whatever is said.
        ruled.max(said.unwrap_or(Severity::Soft))
    }

    /// The nodes whose results make up that of node `index`.
    pub(in crate::run) fn members(&self, index: usize) -> impl Iterator<Item = usize> {
        let node = &self.nodes[index];
        let members = match &node.plan {
            _ if node.kind == NodeKind::RollUp => &node.gathers[..],
            Some(plan) => &plan.members,
            None => &node.children,
        };
        members.iter().copied()
    }

    /// Times that node `index` may plan anew.
    fn replans_max(&self, index: usize) -> u32 {
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

/// `event` with `words` before the notes of what it says that came out.
fn with_first(mut event: Event, words: &str) -> Event {
    let notes = match &mut event {
        Event::Proposed { proposal, .. } => &mut proposal.notes,
        Event::Finished { result, .. } => &mut result.notes,
        _ => return event,
    };
    let semicolon = if notes.is_empty() { "" } else { "; " };
    notes.insert_str(0, &format!("{words}{semicolon}"));
    event
}

/// What was found of criteria.
pub(super) fn checked(node: NodeId, verdicts: Vec<Verdict>) -> Event {
    Event::Checked {
        node,
        verdicts,
        limit: None,
    }
}
