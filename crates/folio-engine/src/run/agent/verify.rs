//! The checks of a proposal, and the result of a task after all of them (E9.6, E9.8).

use std::borrow::Cow;
use std::sync::Arc;

use folio_memory::Timestamp;

use super::{Agent, SENT_BACK_MAX};
use crate::event::{CheckBegins, Event, Proposal};
use crate::node::{Move, NodeId};
use crate::plan::{Check, Criterion};
use crate::result::{Finding, NodeResult, Outcome, Severity, StopReason, Verdict};
use crate::run::action::Action;
use crate::run::call::used_up;
use crate::run::criteria::{CheckAction, SHELL, commands_of, spend_of};
use crate::run::scope::BodyNeeded;
use crate::run::state::{JournalError, Run};
use crate::run::tree::NodeKind;
use crate::run::waiting::DueAction;
use crate::talk::Purpose;
use crate::template::is_template;

impl Run {
    /// Whether the observations of `node` follow from its end alone: true for every task except a call that ends with
    /// its answer, whose tool has observations of its own to write.
    #[must_use]
    pub fn is_observed_at_end(&self, node: NodeId) -> bool {
        let is_by_answer = |index: usize| self.nodes[index].kind == NodeKind::Call && self.tally(index).is_none();
        self.task(node)
            .is_some_and(|(index, task)| !task.observe.is_empty() && !is_by_answer(index))
    }

    /// Whether something other than the engine checks any of `criteria`: a judge or a person, if there is one, or the
    /// runner.
    pub(in crate::run) fn is_checked_by_others(&self, criteria: &[Criterion]) -> bool {
        let is_by_others = |criterion: &Criterion| match criterion.check {
            Check::Judge => self.equipment.is_some(),
            Check::Human => self.has_person(),
            Check::Command { .. } | Check::FileExists { .. } => true,
            Check::Regex { .. } | Check::JsonSchema { .. } | Check::ResultNonempty => false,
        };
        criteria.iter().any(is_by_others)
    }

    /// Has the result of a call or a written plan checked in the same way as a model's proposal, if something other
    /// than the engine checks it (E9.6).
    pub(super) fn start_result_check(&mut self, index: usize) {
        if !self.may_be_checked(index) {
            return;
        }
        self.note_end_of_call(index);
        self.executing.remove(&index);
        self.stopping.remove(&index);
        self.settled.remove(&index);
        self.give_back_resources(index);
        let agent = Agent::new(self.task_of_model(index), Arc::default(), None);
        self.nodes[index].agent = Some(Box::new(agent));
    }

    /// Whether node `index` is a call or a plan whose result is not being checked yet.
    pub(super) fn may_be_checked(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        node.agent.is_none() && matches!(node.kind, NodeKind::Call | NodeKind::Plan)
    }

    /// The number of verdicts on the result of node `node`.
    pub(crate) fn verdicts_on(&self, node: NodeId) -> usize {
        let agent = self.index(node).ok().and_then(|index| self.agent(index));
        agent.map_or(0, |agent| agent.verdicts.len())
    }

    /// The next check of a proposal, or what follows when all are done.
    pub(super) fn next_check_action(&self, index: usize, now: Timestamp, has_room: bool) -> Option<DueAction> {
        let agent = self.agent(index)?;
        let proposal = agent.proposal.as_deref()?;
        let open = agent.open_criteria().cloned();
        let (machine, others): (Vec<_>, Vec<_>) = open.partition(|criterion| criterion.check.is_machine());
        let is_judged = self.is_to_be_judged(index, agent, proposal);
        if !machine.is_empty() && is_judged {
            return Some(self.checking(index, &machine, proposal).into());
        }
        if !others.is_empty() && is_judged {
            let is_missing = agent
                .verdicts
                .iter()
                .any(|v| v.required && matches!(v.finding, Finding::Unmet(_)));
            if is_missing {
                let why = "not judged, because another criterion is unmet";
                return Some(self.unverifiable_event(index, why, |_| true).into());
            }
            // A judge comes first, so that a person need not look at an insufficient result.
            if others.iter().any(|criterion| criterion.check != Check::Human) {
                if self.equipment.is_none() {
                    return Some(self.unjudged_event(index, "there is no model to judge it").into());
                }
                return self.ask(index, Purpose::Judge, now, has_room);
            }
            return Some(match others.iter().find(|criterion| self.asks_person(criterion)) {
                Some(criterion) => self.criterion_question(index, criterion, proposal).into(),
                None => self.unjudged_event(index, "nobody was asked").into(),
            });
        }
        let gaps = self.gaps(index);
        let is_wanting = !gaps.is_empty() && agent.spent.is_none();
        if is_wanting && !agent.has_plan() && agent.sent_back < SENT_BACK_MAX && !agent.talk.is_empty() {
            let node = self.nodes[index].id;
            return Some(Event::SentBack { node, gaps }.into());
        }
        if agent.has_plan() && agent.spent.is_none() && (is_wanting || self.has_failed_step(index)) {
            return match self.may_replan(index) {
                Ok(()) => self.ask(index, Purpose::Replan, now, has_room),
                Err(Some(StopReason::Stalled)) => Some(self.after_stalling(index, now).into()),
                Err(reason) => Some(self.conclusion(index, reason).into()),
            };
        }
        Some(self.conclusion(index, None).into())
    }

    /// Whether what is `proposed` is judged. Nobody has to say that unfinished work is not what was wanted; but for a
    /// plan that failed, whoever combined its results is told what is missing, because another plan may help (E9.8),
    /// unless it was said that none can.
    fn is_to_be_judged(&self, index: usize, agent: &Agent, proposed: &Proposal) -> bool {
        let counts = match proposed.status {
            Outcome::Ok | Outcome::Partial => true,
            Outcome::Failed => {
                let may_help = agent.has_plan() && proposed.severity != Some(Severity::Hard);
                may_help && (self.has_completed_step(index) || !self.has_failed_step(index))
            }
            Outcome::Skipped | Outcome::Cancelled => false,
        };
        counts && agent.spent.is_none()
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
        let commands = commands_of(&calls);
        if commands > 0
            && !self.agent(index).is_some_and(|agent| agent.has_begun_checks)
            && let Some(reason) = self.refused_by_budget(index, &spend_of(commands), false)
        {
            return Action::Record(self.no_calls_left_event(index, reason));
        }
        if let Some(question_event) = calls
            .iter_mut()
            .find_map(|check| self.command_question_event(index, check))
        {
            return Action::Record(question_event);
        }
        if calls.is_empty() {
            let verdicts = self.verdicts(index, machine, &scope, &result, &output, &[]);
            return Action::Record(checked(node, verdicts));
        }
        let writes = self.writes_of_checks(index, &calls);
        Action::Verify(Box::new(CheckAction { node, calls, writes }))
    }

    /// Notes that commands begin to check the result of node `node`.
    pub(super) fn check_begins(&mut self, node: NodeId, begins: &CheckBegins) -> Result<(), JournalError> {
        let index = self.step_to(node, Move::Verify)?;
        self.ready.remove(&index);
        self.executing.insert(index);
        let (_, agent) = self.agent_at(node, "checked")?;
        // Commands that a driver died over are counted already (E9.9).
        if !std::mem::replace(&mut agent.has_begun_checks, true) {
            self.spend(index, &spend_of(begins.commands));
        }
        self.take_resources(index, &begins.writes);
        Ok(())
    }

    /// Notes that the commands have ended, if any had begun.
    pub(super) fn check_ended(&mut self, index: usize) {
        if self.executing.remove(&index) {
            self.note_end_of(SHELL.to_owned());
            self.give_back_resources(index);
            self.make_ready(index);
        }
    }

    /// The verdicts of a task's machine checks, after the runner made those that it was asked for.
    pub(in crate::run) fn checked(&self, index: usize, found: &[crate::run::CheckFinding]) -> Option<Event> {
        let agent = self.agent(index)?;
        let proposal = agent.proposal.as_deref()?;
        let machine = agent.open_criteria().filter(|criterion| criterion.check.is_machine());
        let criteria: Vec<Criterion> = machine.cloned().collect();
        let output = self.value_of(&proposal.output)?;
        let result = NodeResult::new(proposal.status, proposal.notes.clone());
        let scope = self.criteria_scope(index, &criteria, &result, &output).ok()?;
        let verdicts = self.verdicts(index, &criteria, &scope, &result, &output, found);
        Some(checked(self.nodes[index].id, verdicts))
    }

    /// The event that nobody could say whether the open criteria hold, except those that a person is asked about: this
    /// never counts as met (E9.6).
    pub(super) fn unjudged_event(&self, index: usize, why: &str) -> Event {
        self.unverifiable_event(index, why, |criterion| !self.asks_person(criterion))
    }

    /// The same for `reason`, which the result also gets.
    pub(super) fn unjudged_for(&self, index: usize, reason: StopReason, why: &str) -> Event {
        Event::Checked {
            node: self.nodes[index].id,
            verdicts: self.open_verdicts(index, why, |criterion| !self.asks_person(criterion)),
            limit: Some(reason),
            begins: None,
        }
    }

    /// The event that no calls of tools are left for the commands of checks: nobody can say whether those criteria hold
    /// (E9.10).
    fn no_calls_left_event(&self, index: usize, reason: StopReason) -> Event {
        let is_command = |criterion: &Criterion| matches!(criterion.check, Check::Command { .. });
        Event::Checked {
            node: self.nodes[index].id,
            verdicts: self.open_verdicts(index, &used_up(reason), is_command),
            limit: Some(reason),
            begins: None,
        }
    }

    /// The event that nobody can say whether those open criteria hold that `is_included` selects.
    fn unverifiable_event(&self, index: usize, why: &str, is_included: impl Fn(&Criterion) -> bool) -> Event {
        checked(self.nodes[index].id, self.open_verdicts(index, why, is_included))
    }

    pub(in crate::run) fn open_verdicts(
        &self,
        index: usize,
        why: &str,
        is_included: impl Fn(&Criterion) -> bool,
    ) -> Vec<Verdict> {
        self.agent(index).map_or_else(Vec::new, |agent| {
            unverifiable(agent.open_criteria().filter(|criterion| is_included(criterion)), why)
        })
    }

    /// What is missing, one line for each required criterion that is not met.
    pub(super) fn gaps(&self, index: usize) -> Vec<String> {
        self.findings_in_words(index, |finding| match finding {
            Finding::Unmet(gap) => Some(format!("is not met: {gap}")),
            Finding::Met | Finding::Unverifiable(_) => None,
        })
    }

    /// The same, and one line for each required criterion of which nobody could say whether it is met: another plan may
    /// show that (E9.8).
    pub(super) fn gaps_and_doubts(&self, index: usize) -> Vec<String> {
        self.findings_in_words(index, |finding| match finding {
            Finding::Unmet(gap) => Some(format!("is not met: {gap}")),
            Finding::Unverifiable(why) => Some(format!("could not be checked: {why}")),
            Finding::Met => None,
        })
    }

    /// A line for each finding on a required criterion of node `index` of which `words` says something.
    fn findings_in_words(&self, index: usize, words: impl Fn(&Finding) -> Option<String>) -> Vec<String> {
        let Some(agent) = self.agent(index) else {
            return Vec::new();
        };
        let text = |id: &str| {
            let criterion = agent.task.criteria.iter().find(|c| c.id == id);
            criterion.map_or_else(String::new, |criterion| self.criterion_words(index, criterion))
        };
        let required = agent.verdicts.iter().filter(|verdict| verdict.required);
        required
            .filter_map(|verdict| {
                let said = words(&verdict.finding)?;
                Some(format!("{} ({}) {said}", verdict.criterion, text(&verdict.criterion)))
            })
            .collect()
    }

    /// The result of a task whose proposal has been checked.
    pub(in crate::run) fn conclusion(&self, index: usize, reason: Option<StopReason>) -> Event {
        let node = &self.nodes[index];
        let Some(proposal) = node.agent.as_deref().and_then(|agent| agent.proposal.as_deref()) else {
            return self.rolled_up(index, reason);
        };
        let agent = node.agent.as_deref();
        let verdicts = agent.map(|agent| agent.verdicts.clone()).unwrap_or_default();
        self.concluded(index, proposal, verdicts, reason)
    }

    /// The result of a task with this `proposal`, whose `verdicts` say whether it is what was wanted.
    pub(in crate::run) fn concluded(
        &self,
        index: usize,
        proposal: &Proposal,
        verdicts: Vec<Verdict>,
        reason: Option<StopReason>,
    ) -> Event {
        let node = &self.nodes[index];
        let agent = node.agent.as_deref();
        let mut result = NodeResult::new(proposal.status, proposal.notes.clone());
        result.output = proposal.output.clone();
        result.evidence.clone_from(&proposal.evidence);
        result.verdicts = verdicts;
        result.stop_reason = reason.or(agent.and_then(|agent| agent.spent)).or(proposal.stop_reason);
        if result.status == Outcome::Failed {
            result.severity = Some(self.reported_severity(index, proposal.severity, reason));
            result.stop_reason = Some(result.stop_reason.unwrap_or(StopReason::CriteriaUnmet));
        }
        let unjudged = agent.and_then(|agent| agent.unjudged);
        let (stated_reason, final_reason) = (result.stop_reason, result.stop_reason.or(unjudged));
        let criteria = self.criteria_of(index);
        // Criteria whose texts name nothing need no output to be read again.
        let names_some = criteria.iter().any(|criterion| is_template(&criterion.text));
        let output = names_some.then(|| self.value_of(&proposal.output)).flatten();
        let criteria = match &output {
            Some(output) => self.criteria_in_words(index, &criteria, (&result, output)),
            None => Cow::Borrowed(&*criteria),
        };
        self.apply_verdicts_to_status(index, &criteria, &mut result);
        if result.status != Outcome::Ok {
            result.stop_reason = result.stop_reason.or(final_reason);
        }
        let is_unmet = |verdict: &Verdict| verdict.required && matches!(verdict.finding, Finding::Unmet(_));
        if result.verdicts.iter().any(is_unmet) {
            // A model's plan with some work done is not nothing: its parent sees what there is (E9.8).
            let is_of_model = node.kind != NodeKind::Plan && agent.is_some_and(Agent::has_plan);
            let has_some = is_of_model && self.members(index).any(|member| self.nodes[member].is_ok());
            result.status = if has_some { Outcome::Partial } else { Outcome::Failed };
            result.severity = (!has_some).then(|| self.reported_severity(index, proposal.severity, None));
            // A missing judgement is not the reason for an unmet criterion, unless a limit caused it.
            let limit = unjudged.filter(|reason| reason.is_limit());
            // Nor is what a written plan came to otherwise.
            let stated = stated_reason.filter(|reason| node.kind != NodeKind::Plan || reason.is_limit());
            result.stop_reason = Some(stated.or(limit).unwrap_or(StopReason::CriteriaUnmet));
        }
        self.give_reason(index, &mut result, StopReason::CriteriaUnmet);
        result.attempts = match node.kind {
            NodeKind::Call => node.attempt,
            _ => agent.map_or(0, |agent| agent.calls),
        };
        result.duration_us = proposal.duration_us;
        Event::Finished {
            node: node.id,
            result: Box::new(result),
        }
    }

    /// The severity of a failure that whoever did the task reports, with the severity that it `stated`, if any: soft,
    /// unless it says otherwise, later steps need the result, or the engine's own `reason` makes it hard. Failures of
    /// its steps make nothing hard here: whoever combines them decides (E9.4).
    fn reported_severity(&self, index: usize, stated: Option<Severity>, reason: Option<StopReason>) -> Severity {
        let computed = self.severity_of(index, reason.unwrap_or(StopReason::CriteriaUnmet));
        // A later step that reads the result cannot do without it, whatever was said.
        computed.max(stated.unwrap_or(Severity::Soft))
    }
}

/// Verdicts that nobody can say whether `criteria` hold.
pub(in crate::run) fn unverifiable<'c>(criteria: impl IntoIterator<Item = &'c Criterion>, why: &str) -> Vec<Verdict> {
    let criteria = criteria.into_iter();
    let verdict = |criterion: &Criterion| Verdict {
        criterion: criterion.id.clone(),
        required: criterion.required,
        finding: Finding::Unverifiable(why.to_owned()),
    };
    criteria.map(verdict).collect()
}

/// The event with findings on criteria.
pub(in crate::run) fn checked(node: NodeId, verdicts: Vec<Verdict>) -> Event {
    Event::Checked {
        node,
        verdicts,
        limit: None,
        begins: None,
    }
}
