//! From the answer of a tool to the event that records it (E9.4).

use std::sync::Arc;
use std::time::Duration;

use folio_memory::excerpt::MORE;
use folio_memory::{Timestamp, json_fits};
use serde_json::Value;

use super::action::CallAction;
use super::agent::Stage;
use super::call::used_up;
use super::scope::{BodyNeeded, result_value};
use super::state::Run;
use super::tree::Cancel;
use crate::event::{Event, Proposal};
use crate::node::NodeId;
use crate::plan::{Criterion, Observe, Step, Task};
use crate::result::{Evidence, Failure, Finding, NodeResult, Outcome, Output, Severity, StopReason};
use crate::spend::Spend;
use crate::template::{self, Scope};

/// The notes of a call that was stopped, if nothing better is known.
pub(super) const MAY_HAVE_CHANGED: &str = "stopped while it was running; it may have taken effect";

/// The notes of a stopped call whose tool is known to only read.
pub(super) const CHANGES_NOTHING: &str = "stopped while it was running; it changes nothing";

/// The most elements for which one rule reports why they give no observation.
const PROBLEMS_MAX: usize = 8;

/// How a call ended, as its caller saw it.
#[derive(Debug, Clone, PartialEq)]
pub enum CallOutcome {
    /// It answered.
    Answered(CallAnswer),
    /// It failed.
    Failed {
        /// Why the call failed.
        failure: Failure,
        /// What the call returned nevertheless, such as an exit code; null if nothing.
        output: Arc<Value>,
    },
    /// It was stopped.
    Stopped {
        /// Whether the call may have taken effect, by the effect of its tool (E9.12).
        may_have_changed: bool,
    },
    /// It had begun when its driver died, and its tool, when asked, does not know how it ended either.
    Lost(Box<CallAction>),
}

impl From<Failure> for CallOutcome {
    /// A failure without any output.
    fn from(failure: Failure) -> Self {
        let output = Arc::new(Value::Null);
        Self::Failed { failure, output }
    }
}

/// What a call answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallAnswer {
    /// The value.
    pub output: Arc<Value>,
    /// One line for people.
    pub notes: String,
    /// What supports it.
    pub evidence: Vec<Evidence>,
}

impl Run {
    /// The event that records how a call ended: another attempt, the node's result, a question to a person (E9.12), or
    /// a proposed result if a judge, a person or the runner has to check it (E9.6), so that what was done is not lost
    /// whatever happens to the check (E9.9).
    ///
    /// A failure is hard if permission or a key was refused, if nobody knows what the call did, or if a later step
    /// reads the result; otherwise it is soft (E9.4).
    #[must_use]
    pub fn conclude(&self, node: NodeId, outcome: CallOutcome, duration: Duration, now: Timestamp) -> Event {
        let Some((index, task)) = self.task(node) else {
            return finished(
                node,
                NodeResult::failed(Severity::Hard, StopReason::InvalidInput, "there is no such task"),
            );
        };
        let attempt = self.nodes[index].attempt;
        let cancel = self.nodes[index].cancel;
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let result = match outcome {
            CallOutcome::Stopped { may_have_changed } => self.stopped_call(index, may_have_changed),
            CallOutcome::Failed { mut failure, output } => {
                if cancel.is_none() && failure.may_retry && attempt < task.retry.max_attempts {
                    let retry_at = now.plus(task.retry.pause_before(attempt + 1));
                    // An attempt after the deadline would be of no use, and one that no budget allows is not made.
                    let refused = self.refused_by_budget(index, &Spend::TOOL_CALL, false);
                    let is_in_time = self.deadline_around(index).is_none_or(|deadline| retry_at < deadline);
                    if refused.is_none() && is_in_time {
                        return Event::AttemptFailed {
                            node,
                            attempt,
                            failure,
                            retry_at,
                        };
                    }
                    // A limit that stops the attempts is one that can be raised (E9.10). A worse reason stays.
                    if failure.reason == StopReason::RetriesExhausted {
                        failure.reason = refused.unwrap_or(StopReason::Deadline);
                    }
                    let why = refused.map_or_else(|| "the time is over before another attempt".to_owned(), used_up);
                    push_note(&mut failure.message, &why);
                }
                self.failed_call(index, failure, output)
            }
            CallOutcome::Lost(call) => return self.call_lost(&call),
            CallOutcome::Answered(answer) => {
                if cancel.is_none()
                    && self.is_checked_by_others(&task.criteria)
                    && json_fits(&answer.output, self.output_bytes_max(index))
                {
                    let result = NodeResult {
                        output: Output::of(answer.output),
                        evidence: answer.evidence,
                        duration_us,
                        ..NodeResult::new(Outcome::Ok, answer.notes)
                    };
                    return proposed(node, result);
                }
                self.answered(index, task, answer)
            }
        };
        finished(
            node,
            NodeResult {
                attempts: attempt,
                duration_us,
                ..result
            },
        )
    }

    fn stopped_call(&self, index: usize, may_have_changed: bool) -> NodeResult {
        let effect = if may_have_changed {
            MAY_HAVE_CHANGED
        } else {
            CHANGES_NOTHING
        };
        if let Some(why) = self.nodes[index].cancel {
            return self.stopped_result(index, why, effect);
        }
        // A tool that ends its call as cancelled, which nobody had asked for, has failed.
        let reason = if may_have_changed {
            StopReason::OutcomeUnknown
        } else {
            StopReason::RetriesExhausted
        };
        let notes = format!("its tool ended it as cancelled, although nobody had cancelled it: {effect}");
        NodeResult::failed(self.severity_of(index, reason), reason, notes)
    }

    fn failed_call(&self, index: usize, failure: Failure, output: Arc<Value>) -> NodeResult {
        let severity = self.severity_of(index, failure.reason);
        let mut result = NodeResult::failed(severity, failure.reason, failure.message);
        result.code = Some(failure.code);
        let limit = self.output_bytes_max(index);
        if json_fits(&output, limit) {
            result.output = Output::of(output);
        } else {
            let left_out = format!("; what it gave has more than the {limit} bytes that the budget allows");
            result.notes.push_str(&left_out);
        }
        result
    }

    fn answered(&self, index: usize, task: &Task, answer: CallAnswer) -> NodeResult {
        let mut result = NodeResult::new(Outcome::Ok, answer.notes);
        result.evidence = answer.evidence;
        match self.criteria_scope(index, &task.criteria, &result, &answer.output) {
            Ok(scope) => result.verdicts = self.verdicts(index, &task.criteria, &scope, &result, &answer.output, &[]),
            // The results that a criterion reads are cached, or the node would not have begun.
            Err(BodyNeeded(hash)) => result.notes = format!("{} (the body {hash} is missing)", result.notes),
        }
        let criteria = self.criteria_in_words(index, &task.criteria, (&result, &answer.output));
        self.apply_verdicts_to_status(index, &criteria, &mut result);
        self.give_reason(index, &mut result, StopReason::CriteriaUnmet);
        let limit = self.output_bytes_max(index);
        if !json_fits(&answer.output, limit) {
            let notes = format!("its output has more than the {limit} bytes that the budget allows");
            let severity = self.severity_of(index, StopReason::BudgetBytes);
            return NodeResult::failed(severity, StopReason::BudgetBytes, notes);
        }
        result.output = Output::of(answer.output);
        result
    }

    /// Whether the call of node `index` has answered and its result is being checked.
    pub(super) fn has_answered(&self, index: usize) -> bool {
        let agent = self.nodes[index].agent.as_deref();
        agent.is_some_and(|agent| agent.stage == Stage::Verifying && agent.proposal.is_some())
    }

    /// The result of such a call that was stopped for `why`: what it did is done, and remains (E9.11).
    pub(super) fn stopped_when_done(&self, index: usize, why: Cancel) -> NodeResult {
        let mut result = self.stopped_result(index, why, "done, and stopped while it was checked");
        if let Some(proposal) = self.nodes[index]
            .agent
            .as_deref()
            .and_then(|agent| agent.proposal.as_deref())
        {
            if !proposal.notes.is_empty() {
                result.notes = format!("{}: {}", result.notes, proposal.notes);
            }
            result.output.clone_from(&proposal.output);
            result.evidence.clone_from(&proposal.evidence);
            result.duration_us = proposal.duration_us;
        }
        result
    }

    /// Adjusts the status of an `ok` or `partial` result to its verdicts.
    pub(super) fn apply_verdicts_to_status(&self, index: usize, criteria: &[Criterion], result: &mut NodeResult) {
        let text = |id: &str| {
            criteria
                .iter()
                .find(|c| c.id == id)
                .map_or(String::new(), |c| format!(" ({})", c.text))
        };
        // The notes may be the gap: nothing is said twice.
        let said = result.notes.clone();
        let unless_said = |why: &str| {
            let is_said = !why.is_empty() && said.starts_with(why.trim_end_matches(MORE));
            if is_said { String::new() } else { format!(": {why}") }
        };
        let mut gaps = Vec::new();
        let mut doubts = Vec::new();
        for verdict in result.verdicts.iter().filter(|verdict| verdict.required) {
            match &verdict.finding {
                Finding::Met => {}
                Finding::Unmet(gap) => gaps.push(format!(
                    "{}{} is not met{}",
                    verdict.criterion,
                    text(&verdict.criterion),
                    unless_said(gap)
                )),
                Finding::Unverifiable(why) => {
                    doubts.push(format!(
                        "{}{} could not be checked{}",
                        verdict.criterion,
                        text(&verdict.criterion),
                        unless_said(why)
                    ));
                }
            }
        }
        // An unmet required criterion means failure, whether all or only part of the rest was done; a limit that was
        // reached is reported too.
        if matches!(result.status, Outcome::Ok | Outcome::Partial) && !gaps.is_empty() {
            let limit = result.stop_reason.filter(|reason| reason.is_limit());
            result.status = Outcome::Failed;
            result.severity = Some(self.severity_of(index, StopReason::CriteriaUnmet));
            result.stop_reason = Some(limit.unwrap_or(StopReason::CriteriaUnmet));
        } else if result.status == Outcome::Ok && !doubts.is_empty() {
            result.status = Outcome::Partial;
        }
        for line in gaps.into_iter().chain(doubts) {
            push_note(&mut result.notes, &line);
        }
    }

    /// Whether going on can help after node `index` failed for `reason`.
    pub(super) fn severity_of(&self, index: usize, reason: StopReason) -> Severity {
        let node = &self.nodes[index];
        let is_harmful = matches!(
            reason,
            StopReason::PolicyDenied | StopReason::Auth | StopReason::OutcomeUnknown | StopReason::Unsatisfiable
        );
        if is_harmful || (node.needed && !node.optional) {
            Severity::Hard
        } else {
            Severity::Soft
        }
    }

    /// The observations that a task's `observe:` rules make from its result, as a tool would have written them.
    ///
    /// What cannot be filled in is left out, a whole rule or one of its elements; the second list says which and why.
    #[must_use]
    pub fn observations(&self, node: NodeId, result: &NodeResult, output: &Value) -> (Vec<Value>, Vec<String>) {
        let (mut observations, mut problems) = (Vec::new(), Vec::new());
        let Some((index, task)) = self.task(node) else {
            return (observations, problems);
        };
        for (position, rule) in task.observe.iter().enumerate() {
            let missing = self.observe(index, rule, result, output, &mut observations);
            let describe = |(element, why): (Option<usize>, String)| match element {
                Some(element) => format!("observe[{position}][{element}]: {why}"),
                None => format!("observe[{position}]: {why}"),
            };
            let unlisted = missing.len().saturating_sub(PROBLEMS_MAX);
            problems.extend(missing.into_iter().take(PROBLEMS_MAX).map(describe));
            if unlisted > 0 {
                problems.push(format!("observe[{position}]: {unlisted} more elements in the same way"));
            }
        }
        (observations, problems)
    }

    /// Adds the observations of `rule` to `observations`. Returns what could not be filled in, with the element
    /// concerned and the reason.
    fn observe(
        &self,
        index: usize,
        rule: &Observe,
        result: &NodeResult,
        output: &Value,
        observations: &mut Vec<Value>,
    ) -> Vec<(Option<usize>, String)> {
        let own = Arc::new(result_value(self.view(index).slug(), Some(result), output));
        let references = references_of_rule(rule);
        let scope = match self.scope(index, &references, vec![("result".to_owned(), own)]) {
            Ok(scope) => scope,
            Err(BodyNeeded(hash)) => return vec![(None, format!("the body {hash} is missing"))],
        };
        let Some(list) = &rule.for_each else {
            let outcome = self.observe_one(rule, &scope, observations);
            return outcome.err().map(|why| (None, why)).into_iter().collect();
        };
        let items = match self.templates.eval_list(&Value::from(list.as_str()), &scope) {
            Ok(items) => items,
            Err(error) => return vec![(None, error.to_string())],
        };
        let mut missing = Vec::new();
        for (position, item) in items.into_iter().enumerate() {
            let mut scope = scope.clone();
            scope.variables.push(("item".to_owned(), Arc::new(item)));
            scope
                .variables
                .push(("index".to_owned(), Arc::new(Value::from(position))));
            if let Err(why) = self.observe_one(rule, &scope, observations) {
                missing.push((Some(position), why));
            }
        }
        missing
    }

    fn observe_one(&self, rule: &Observe, scope: &Scope, observations: &mut Vec<Value>) -> Result<(), String> {
        let templates = &self.templates;
        if let Some(condition) = &rule.when
            && !templates.eval_condition(condition, scope).map_err(|e| e.to_string())?
        {
            return Ok(());
        }
        let mut observation = serde_json::Map::new();
        observation.insert("type".to_owned(), Value::from(rule.kind.as_str()));
        let text = templates.render_text(&rule.content, scope).map_err(|e| e.to_string())?;
        observation.insert("content".to_owned(), Value::from(text));
        let tags: Result<Vec<_>, _> = rule.tags.iter().map(|tag| templates.render_text(tag, scope)).collect();
        observation.insert("tags".to_owned(), Value::from(tags.map_err(|e| e.to_string())?));
        for (name, value) in [("confidence", &rule.confidence), ("context", &rule.context)] {
            if let Some(value) = value {
                observation.insert(
                    name.to_owned(),
                    templates.render_value(value, scope).map_err(|e| e.to_string())?,
                );
            }
        }
        if let Some(minutes) = rule.ttl_minutes {
            observation.insert("ttl_minutes".to_owned(), Value::from(minutes));
        }
        observations.push(Value::Object(observation));
        Ok(())
    }

    /// The index and task of a node, if it is a task of a plan.
    pub(in crate::run) fn task(&self, node: NodeId) -> Option<(usize, &Task)> {
        let index = self.index(node).ok()?;
        match &self.nodes[index].step {
            Some(Step::Task(task)) => Some((index, task)),
            _ => None,
        }
    }
}

/// Adds `more` to `notes`, after a semicolon unless a sentence ends there.
pub(super) fn push_note(notes: &mut String, more: &str) {
    if notes.ends_with(['.', '!', '?']) {
        notes.push(' ');
    } else if !notes.is_empty() {
        notes.push_str("; ");
    }
    notes.push_str(more);
}

/// The event for a `result` that somebody other than the engine has yet to check (E9.6).
pub(super) fn proposed(node: NodeId, result: NodeResult) -> Event {
    Event::Proposed {
        node,
        proposal: Box::new(Proposal {
            wrote: 0,
            status: result.status,
            stop_reason: result.stop_reason,
            severity: result.severity,
            notes: result.notes,
            whole_notes: None,
            output: result.output,
            evidence: result.evidence,
            claims: Vec::new(),
            duration_us: result.duration_us,
        }),
    }
}

fn finished(node: NodeId, result: NodeResult) -> Event {
    Event::Finished {
        node,
        result: Box::new(result),
    }
}

fn references_of_rule(rule: &Observe) -> template::References {
    let mut all = template::References::default();
    let texts = std::iter::once(rule.content.clone())
        .chain(rule.tags.iter().cloned())
        .map(Value::from);
    let values = texts.chain(rule.confidence.clone()).chain(rule.context.clone());
    let found = values.map(|value| template::references(&value));
    let expressions = rule
        .when
        .iter()
        .chain(&rule.for_each)
        .map(|e| template::references_of_expression(e));
    for found in found.chain(expressions).flatten() {
        all.results.extend(found.results);
        all.all_results |= found.all_results;
    }
    all
}
