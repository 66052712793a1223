//! From the results of children to the result of their parent.

use std::sync::Arc;

use folio_memory::excerpt::cut;
use serde_json::Value;

use super::agent::repair::too_deep_to_keep;
use super::agent::verify::checked;
use super::conclude::{proposed, push_note};
use super::criteria::CheckFinding;
use super::scope::BodyNeeded;
use super::state::Run;
use super::tree::{Cancel, Node, NodeKind};
use crate::event::Event;
use crate::node::NodeId;
use crate::plan::{Criterion, Step, Work};
use crate::result::{Evidence, Finding, NodeResult, Outcome, Output, Severity, StopReason, Verdict, counts_in_words};
use crate::template;

/// The most failures of members that the notes of a parent tell.
const FAILURES_TOLD: usize = 3;

/// What a parent still needs before its result can be written.
#[derive(Debug)]
pub(super) enum Aggregation {
    /// Nothing: this event records the result.
    Done(Box<Event>),
    /// An output has to be read first.
    Needs(BodyNeeded),
}

impl Run {
    /// The result of a node whose children all have one; or, if somebody has to check it, its proposed result.
    pub(super) fn aggregate(&self, index: usize) -> Aggregation {
        let node = &self.nodes[index];
        let event = |mut result| {
            self.give_reason(index, &mut result, StopReason::CriteriaUnmet);
            Aggregation::Done(Box::new(Event::Finished {
                node: node.id,
                result: Box::new(result),
            }))
        };
        if let Some(kept) = self.late_result(index) {
            return event(kept);
        }
        let mut result = self.roll_up(index);
        if node.kind != NodeKind::Plan {
            return event(result);
        }
        let (output, criteria) = match &node.step {
            None => (self.plan.output.as_ref(), self.plan.criteria.as_slice()),
            Some(Step::Task(task)) => match &task.work {
                Work::Plan(plan) => (plan.output.as_ref(), task.criteria.as_slice()),
                _ => (None, task.criteria.as_slice()),
            },
            Some(_) => (None, [].as_slice()),
        };
        if node.cancel.is_some() {
            return event(result);
        }
        let (mut value, mut is_unwritten) = (Arc::new(Value::Null), false);
        if let Some(output) = output {
            let references = template::references(output).unwrap_or_default();
            let scope = match self.inner_scope(index, &references, Vec::new()) {
                Ok(scope) => scope,
                Err(needed) => return Aggregation::Needs(needed),
            };
            let rendered = self.templates.render_value(output, &scope);
            let rendered = rendered.map_err(|error| error.to_string());
            match rendered.and_then(|rendered_value| too_deep_to_keep(&rendered_value).map_or(Ok(rendered_value), Err))
            {
                Ok(rendered) => value = Arc::new(rendered),
                // The steps that it reads may have failed; the result then is about that.
                Err(error) => {
                    push_note(&mut result.notes, &format!("its output cannot be made: {error}"));
                    result.status = result.status.max(Outcome::Partial);
                    is_unwritten = true;
                }
            }
        }
        let is_asked = matches!(result.status, Outcome::Ok | Outcome::Partial) && self.is_checked_by_others(criteria);
        if !is_asked && let Err(needed) = self.verify(index, criteria, &mut result, &value) {
            return Aggregation::Needs(needed);
        }
        if node.step.is_none() {
            match self.report_on(&result, &value) {
                Err(needed) => return Aggregation::Needs(needed),
                Ok(Some(Err(error))) => {
                    push_note(&mut result.notes, &format!("its report cannot be written: {error}"));
                    result.status = result.status.max(Outcome::Partial);
                    is_unwritten = true;
                }
                Ok(Some(Ok(_)) | None) => {}
            }
        }
        result.output = Output::of(value);
        // Whoever is asked about the rest cannot change this.
        if is_unwritten {
            self.give_reason(index, &mut result, StopReason::InvalidInput);
        }
        if is_asked {
            return Aggregation::Done(Box::new(proposed(node.id, result)));
        }
        event(result)
    }

    fn verify(
        &self,
        index: usize,
        criteria: &[Criterion],
        result: &mut NodeResult,
        value: &Value,
    ) -> Result<(), BodyNeeded> {
        if criteria.is_empty() {
            return Ok(());
        }
        let scope = self.criteria_scope(index, criteria, result, value)?;
        // Commands do not run for a failed result: that it is not what was wanted is known already.
        result.verdicts = self.verdicts(index, criteria, &scope, result, value, &[]);
        let criteria = self.criteria_in_words(index, criteria, (&*result, value));
        self.apply_verdicts_to_status(index, &criteria, result);
        Ok(())
    }

    /// Gives a `partial` result of node `index` a stop reason, if it has none: that a required criterion is not shown
    /// to be met, or else what kept the worst of its members from being `ok`; `otherwise` if there is nothing like
    /// that.
    pub(super) fn give_reason(&self, index: usize, result: &mut NodeResult, otherwise: StopReason) {
        if result.status != Outcome::Partial || result.stop_reason.is_some() {
            return;
        }
        let is_open = |verdict: &Verdict| verdict.required && verdict.finding != Finding::Met;
        if result.verdicts.iter().any(is_open) {
            result.stop_reason = Some(StopReason::CriteriaUnmet);
            return;
        }
        let node = &self.nodes[index];
        let mut wanting: Vec<&NodeResult> = self
            .results_of_members(index)
            .filter(|(member, result)| !member.optional && !is_uncounted_member(node, result))
            .map(|(_, result)| result)
            .filter(|result| result.status != Outcome::Ok)
            .collect();
        wanting.sort_by_key(|result| match result.status {
            Outcome::Failed => 0,
            Outcome::Partial => 1,
            // These follow from something else.
            Outcome::Ok | Outcome::Skipped | Outcome::Cancelled => 2,
        });
        let reason = wanting.iter().find_map(|result| result.stop_reason);
        result.stop_reason = reason.or(Some(otherwise));
    }

    /// Status and notes from the children alone.
    ///
    /// A group is as bad as its worst required member, hard or soft; one that needs only some of its members is `ok`
    /// once enough are. A plan decides for itself (E9.4): `ok` if every required step is, `partial` if some are, else
    /// failed; and its failure is soft, unless a later step reads its result. A plan in which nothing failed but steps
    /// were cancelled is `partial` if something was done beside them; else it is cancelled, too (E9.11).
    pub(super) fn roll_up(&self, index: usize) -> NodeResult {
        let node = &self.nodes[index];
        let worst = self.required_results(index).map(|result| result.status).max();
        let worst = worst.unwrap_or(Outcome::Ok);
        let mut result = NodeResult::new(worst, self.roll_up_notes(index));
        if let Some(cancel) = node.cancel {
            self.roll_up_cancelled(index, cancel, &mut result);
        } else if matches!(node.kind, NodeKind::Plan | NodeKind::Model | NodeKind::RollUp) {
            self.roll_up_plan(index, worst, &mut result);
        } else if worst != Outcome::Ok {
            self.roll_up_group(index, worst, &mut result);
        }
        result.evidence = self
            .members(index)
            .map(|child| Evidence {
                kind: "node".to_owned(),
                id: self.nodes[child].id.to_string(),
                hash: None,
                span: None,
            })
            .collect();
        result
    }

    fn roll_up_cancelled(&self, index: usize, cancel: Cancel, result: &mut NodeResult) {
        let stopped = self.stopped_result(index, cancel, "");
        if cancel == Cancel::ByDeadline && (self.has_good_member(index) || self.has_completed_step(index)) {
            result.status = Outcome::Partial;
        } else {
            result.status = stopped.status;
            result.severity = stopped.severity;
        }
        result.stop_reason = stopped.stop_reason;
    }

    fn roll_up_plan(&self, index: usize, worst: Outcome, result: &mut NodeResult) {
        if worst > Outcome::Partial {
            result.status = match worst {
                _ if self.has_good_member(index) => Outcome::Partial,
                Outcome::Cancelled if self.has_completed_step(index) => Outcome::Partial,
                Outcome::Cancelled => Outcome::Cancelled,
                _ => Outcome::Failed,
            };
        }
        let ended_as = |outcome| {
            let required = self.required_results(index);
            required.filter(move |child| child.status == outcome)
        };
        match result.status {
            Outcome::Failed => {
                let mut all = ended_as(Outcome::Failed).chain(self.required_results(index));
                let reason = all.find_map(|child| child.stop_reason);
                result.severity = Some(self.severity_of(index, StopReason::UpstreamFailed));
                result.stop_reason = Some(reason.unwrap_or(StopReason::UpstreamFailed));
            }
            Outcome::Cancelled => {
                result.stop_reason = ended_as(Outcome::Cancelled).find_map(|child| child.stop_reason);
            }
            // A reader of the result should know which limit stopped a part of it.
            Outcome::Partial => {
                let mut reasons = self.required_results(index).filter_map(|child| child.stop_reason);
                result.stop_reason = reasons.find(|reason| reason.is_limit());
            }
            Outcome::Ok | Outcome::Skipped => {}
        }
    }

    fn roll_up_group(&self, index: usize, worst: Outcome, result: &mut NodeResult) {
        let mut worst_results = self.required_results(index).filter(|child| child.status == worst);
        if worst != Outcome::Failed {
            result.stop_reason = worst_results.find_map(|child| child.stop_reason);
            return;
        }
        let node = &self.nodes[index];
        let is_hard = self
            .results_of_members(index)
            .any(|(child, result)| !child.optional && result.is_hard() && !is_uncounted_member(node, result));
        result.severity = Some(if is_hard {
            Severity::Hard
        } else {
            self.severity_of(index, StopReason::UpstreamFailed)
        });
        result.stop_reason = worst_results.next().and_then(|child| child.stop_reason);
    }

    /// The members of node `index` that have ended, and their results.
    fn results_of_members(&self, index: usize) -> impl Iterator<Item = (&Node, &NodeResult)> {
        let members = self.members(index).map(|member| &self.nodes[member]);
        members.filter_map(|member| Some((member, member.result.as_ref()?)))
    }

    /// The results of the members that node `index` needs.
    fn required_results(&self, index: usize) -> impl Iterator<Item = &NodeResult> {
        let node = &self.nodes[index];
        // An optional member is needed after all where not enough of the others succeeded (E9.5).
        let lacks_some = node.required_ok_count().is_some_and(|enough| node.children_ok < enough);
        self.results_of_members(index)
            .filter(move |(child, result)| (lacks_some || !child.optional) && !is_uncounted_member(node, result))
            .map(|(_, result)| result)
    }

    fn has_good_member(&self, index: usize) -> bool {
        self.required_results(index)
            .any(|result| matches!(result.status, Outcome::Ok | Outcome::Partial))
    }

    /// Whether some step of the plan of node `index` was done, including those in its groups and lists, whatever
    /// happened to the rest.
    pub(super) fn has_completed_step(&self, index: usize) -> bool {
        let members: Vec<usize> = self.members(index).collect();
        let steps = self.without_groups(&members, true).into_iter();
        let mut required = steps.map(|step| &self.nodes[step]).filter(|node| !node.optional);
        required.any(|node| {
            node.result
                .as_ref()
                .is_some_and(|result| result.status <= Outcome::Partial)
        })
    }

    /// For example `5 ok, 1 failed; survey/files: no such folder`: the counts, and the first failures by name.
    ///
    /// A member that only groups others is not named: what failed in it is.
    fn roll_up_notes(&self, index: usize) -> String {
        let mut notes = self.counts_of_members(index);
        // If all of it was cancelled, so were its members.
        let is_all_cancelled = self.nodes[index].cancel.is_some();
        let is_told = |result: &NodeResult| !is_all_cancelled || result.status != Outcome::Cancelled;
        let members = self.members(index);
        let told = members.filter(|child| self.nodes[*child].result.as_ref().is_some_and(is_told));
        let failures = told.filter_map(|child| self.failure_in_words(child));
        for failure in failures.take(FAILURES_TOLD) {
            push_note(&mut notes, &failure);
        }
        notes
    }

    /// Member `index` of something that is rolled up, if it failed, is partial or was cancelled: its path and the first
    /// line of its notes. Of a group or a plan whose notes only roll up those of its own members, what they say of
    /// these; of a list the counts as well.
    fn failure_in_words(&self, index: usize) -> Option<String> {
        let node = &self.nodes[index];
        let result = node.result.as_ref()?;
        let is_of_members = match node.kind {
            NodeKind::Parallel | NodeKind::Sequence => true,
            // What is missing in the plan itself has to carry its name.
            NodeKind::Plan => result.verdicts.is_empty(),
            _ => false,
        };
        let inside = is_of_members.then(|| {
            result
                .notes
                .strip_prefix(&*self.counts_of_members(index))?
                .strip_prefix("; ")
        });
        match (inside.flatten(), result.status) {
            (Some(inside), Outcome::Failed | Outcome::Partial | Outcome::Cancelled)
                if inside.starts_with(&*node.path) =>
            {
                Some(first_line(inside))
            }
            // Of a group that is as bad as its members, the members are named.
            (_, Outcome::Partial | Outcome::Cancelled) if !node.kind.is_group() => {
                Some(format!("{}: {}", node.path, first_line(&result.notes)))
            }
            (_, Outcome::Failed) => Some(format!("{}: {}", node.path, first_line(&result.notes))),
            _ => None,
        }
    }

    /// How the members of node `index` ended: `5 ok, 1 failed`.
    fn counts_of_members(&self, index: usize) -> String {
        if self.members(index).next().is_none() {
            return "nothing to do".to_owned();
        }
        let results = self
            .members(index)
            .filter_map(|child| self.nodes[child].result.as_ref());
        counts_in_words(results.map(|result| (result.status, 1)))
    }

    /// The event that records what the runner found when it made the checks that a node's criteria needed.
    ///
    /// `None` if the node is not waiting for checks.
    #[must_use]
    pub fn check_findings_event(&self, node: NodeId, found: &[CheckFinding]) -> Option<Event> {
        let index = self.index(node).ok()?;
        let has_begun = self.executing.contains(&index);
        if self.nodes[index].agent.is_none() || !(has_begun || self.ready.contains(&index)) {
            return None;
        }
        if has_begun && self.nodes[index].cancel.is_some() {
            return Some(self.skipped_event(index));
        }
        // What a criterion reads may have to be read again first; the checks are then due anew.
        let empty_event = || has_begun.then(|| checked(node, Vec::new()));
        self.checked(index, found).or_else(empty_event)
    }
}

/// Whether a member's `result` does not count in the result of a `group` that need not wait for all members: once
/// enough have succeeded, any other result, earlier or later; and always the result of a member that was stopped
/// because it was not needed (E9.5).
fn is_uncounted_member(group: &Node, result: &NodeResult) -> bool {
    group.required_ok_count().is_some_and(|enough| {
        let has_enough = group.children_ok >= enough && result.status != Outcome::Ok;
        has_enough || result.stop_reason == Some(StopReason::CancelledByParent)
    })
}

fn first_line(text: &str) -> String {
    cut(text.lines().next().unwrap_or_default(), 200)
}
