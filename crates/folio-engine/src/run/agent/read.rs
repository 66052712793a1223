//! From a model's reply to the event that results (E9.3, E9.13). The result is recorded, so that a later version that
//! reads replies differently folds old journals unchanged.

use std::fmt::Write as _;
use std::mem::discriminant;
use std::sync::Arc;

use folio_memory::Timestamp;
use folio_memory::excerpt::cut;
use serde_json::Value;

use super::fields::{claim_of, criterion_in, finding_of, finished, mistakes_in, severity_of, status_of, text_of};
use super::object::{NotesAndOutput, notes_and_output, with_remark};
use super::verify::checked;
use super::wanted_calls::CALLS_MAX;
use super::{Equipment, Judging};
use crate::event::{Event, Proposal};
use crate::plan::{Check, Criterion, criterion_meant};
use crate::projection::notes_entry;
use crate::result::{Finding, Outcome, Output, Severity, StopReason, Verdict};
use crate::run::call_in_words;
use crate::run::state::Run;
use crate::run::tree::NodeKind;
use crate::talk::{Purpose, Reply, Stop, Wanted};

/// Why a task is not `ok` although it says so.
const NOTHING_DONE: &str = " (none of its tool calls succeeded)";
/// The most characters of the results of steps in the notes of the combined result, and of notes that stand for a gap.
const WHY_CHARS: usize = 400;
/// Why nothing follows from an unreadable answer.
const UNREAD: &str = "the model's answer could not be read";
/// The most characters of what was wrong with it.
pub(super) const WRONG_CHARS: usize = 200;

/// The message that a model's answer could not be read, with the first of its `problems`, for a reader of the result
/// who has not seen what the model was told.
pub(super) fn unreadable_answer_message(problems: &[String]) -> String {
    match problems.first() {
        Some(problem) => format!("{UNREAD}: {}", cut(problem, WRONG_CHARS)),
        None => UNREAD.to_owned(),
    }
}

impl Run {
    /// The event that follows from the reply to node `index`.
    pub(super) fn reply_event(&self, index: usize, purpose: Purpose, reply: &Reply, now: Timestamp) -> Event {
        if reply.stop == Stop::Refusal {
            return self.declined(index, purpose, reply);
        }
        match purpose {
            Purpose::Decide => self.read_decision(index, reply),
            Purpose::Work => self.read_work(index, reply, now),
            Purpose::Aggregate => self.read_result(index, reply),
            Purpose::RollUp => self.read_roll_up(index, reply),
            Purpose::Judge => self.read_verdicts(index, reply),
            Purpose::Replan => self.read_replan(index, reply),
            Purpose::HandBack => self.read_hand_back(index, reply),
        }
    }

    /// The model refuses: it is not asked again (E9.13).
    fn declined(&self, index: usize, purpose: Purpose, reply: &Reply) -> Event {
        let notes = match reply.text.trim() {
            "" => "the model refused".to_owned(),
            why => format!("the model refused: {}", cut(why, 400)),
        };
        match purpose {
            Purpose::Judge => self.unjudged_for(index, StopReason::Refused, &notes),
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan | Purpose::HandBack => {
                self.no_model_answer_event(index, purpose, StopReason::Refused, &notes)
            }
            Purpose::Decide | Purpose::Work => self.failed_with_calls(index, StopReason::Refused, &notes),
        }
    }

    pub(super) fn rejected_event(&self, index: usize, problems: Vec<String>) -> Option<Event> {
        self.may_reject(index).then(|| Event::Rejected {
            node: self.nodes[index].id,
            problems,
        })
    }

    pub(super) fn read_finish(&self, index: usize, call: &Wanted, reply: &Reply) -> Event {
        let other_calls = unmade_calls_remark(call, reply);
        let args = &call.args;
        let text = reply.text.trim();
        let notes = match text_of(args, "notes") {
            notes if notes.is_empty() => text.to_owned(),
            notes => notes,
        };
        let unparseable = (Outcome::Partial, Some(StopReason::Unparseable));
        let mut status = finished(args, text);
        // Whatever is wrong with it is said at once. What it says nothing of is asked for once (E9.6, E9.13).
        let stated = status.clone().or_else(|_| status_of(args));
        let stated = stated.ok().filter(|_| args.is_object() && self.is_first_answer(index));
        let mut others = stated.map_or_else(Vec::new, |stated| self.unsaid(index, stated, args));
        if !other_calls.is_empty() && self.may_reject(index) {
            let is_alone = reply.calls.iter().all(|other| other.tool == call.tool);
            let problem = if is_alone {
                "finish was called more than once with different results: call it once"
            } else {
                "finish was called together with other tools: call it alone"
            };
            others.insert(0, problem.to_owned());
        }
        if !others.is_empty() {
            others.extend(status.err().unwrap_or_default());
            status = Err(others);
        }
        match status {
            Ok(status) if other_calls.is_empty() => {
                let bounded = self.cap_status_by_calls(index, status);
                let remark = if bounded == status { "" } else { NOTHING_DONE };
                self.proposed(index, (bounded, None), &notes, args, remark)
            }
            // What it says is done may be in the calls that were not made.
            Ok(status) => {
                let ending = (status.max(Outcome::Partial), unparseable.1);
                self.proposed(index, ending, &notes, args, &other_calls)
            }
            Err(problems) => {
                let form_note = if args.is_object() {
                    wrong_form(&problems)
                } else {
                    String::new()
                };
                self.rejected_event(index, problems).unwrap_or_else(|| {
                    // What it wrote is the result (E9.13).
                    let has_output = args.get("output").is_some_and(|output| !output.is_null());
                    let notes_text = match args {
                        _ if !notes.is_empty() || has_output => notes,
                        Value::String(text) => text.clone(),
                        Value::Null => String::new(),
                        other => other.to_string(),
                    };
                    let ending = match status_of(args) {
                        // That this could not be read is not why it failed.
                        Ok(Outcome::Failed) => (Outcome::Failed, None),
                        _ => unparseable,
                    };
                    self.proposed(index, ending, &notes_text, args, &format!("{form_note}{other_calls}"))
                })
            }
        }
    }

    /// Whether no answer of node `index` was sent back in this stage: what an answer leaves out is asked for once.
    pub(super) fn is_first_answer(&self, index: usize) -> bool {
        self.agent(index).is_some_and(|agent| agent.rejections == 0)
    }

    /// A task whose calls were all refused or failed is at most `partial`, whatever it says, unless a judge decides
    /// whether it is done (E9.7).
    fn cap_status_by_calls(&self, index: usize, status: Outcome) -> Outcome {
        let calls = self.nodes[index].children.iter().map(|child| &self.nodes[*child]);
        let mut results = calls
            .filter(|child| child.kind == NodeKind::Action)
            .map(|call| call.result.as_ref());
        let has_calls = self.agent(index).is_some_and(|agent| agent.denied) || results.clone().next().is_some();
        let one_went_well = results.any(|result| result.is_some_and(|result| result.status == Outcome::Ok));
        if has_calls && !one_went_well && !self.is_judged(index) {
            status.max(Outcome::Partial)
        } else {
            status
        }
    }

    /// Whether somebody other than whoever does node `index` has to confirm that it is done.
    fn is_judged(&self, index: usize) -> bool {
        let needs_judge = |criterion: &Criterion| criterion.required && criterion.check == Check::Judge;
        !self.decides_own_criteria(index) && self.criteria_of(index).iter().any(needs_judge)
    }

    /// Whether node `index` is in a plan that a model made.
    pub(super) fn is_step_of_model(&self, index: usize) -> bool {
        let mut ancestors = self.self_and_ancestors(index).skip(1);
        ancestors.any(|at| self.nodes[at].kind == NodeKind::Model)
    }

    fn read_result(&self, index: usize, reply: &Reply) -> Event {
        let parsed = self.object_of(index, Purpose::Aggregate, reply);
        let (stated_status, parsed) = match parsed.and_then(|parsed| Ok((parsed.status()?, parsed))) {
            Ok(parsed) => parsed,
            Err(problems) => {
                let why = unreadable_answer_message(&problems);
                let fallback = || self.no_model_answer_event(index, Purpose::Aggregate, StopReason::Unparseable, &why);
                return self.rejected_event(index, problems).unwrap_or_else(fallback);
            }
        };
        // The result is no better than those of the steps.
        let rolled = self.roll_up(index);
        let status = match rolled.status {
            Outcome::Ok => stated_status,
            // Nothing failed: there is no result because somebody stopped the steps (E9.11).
            Outcome::Cancelled if stated_status == Outcome::Failed => Outcome::Cancelled,
            _ => stated_status.max(Outcome::Partial),
        };
        let reason = (status != Outcome::Ok).then_some(rolled.stop_reason).flatten();
        let mut ending = (status, reason.or(parsed.stop_reason()));
        let mut remark = parsed.remark().to_owned();
        let mistakes = mistakes_in(&parsed.value);
        let mut problems = mistakes.clone();
        if self.is_first_answer(index) {
            problems.extend(self.unsaid(index, status, &parsed.value));
        }
        if !problems.is_empty()
            && let Some(event) = self.rejected_event(index, problems)
        {
            return event;
        }
        if !mistakes.is_empty() {
            remark.push_str(&wrong_form(&mistakes));
            let parse_reason = (status != Outcome::Failed).then_some(StopReason::Unparseable);
            ending = (status.max(Outcome::Partial), ending.1.or(parse_reason));
        }
        if status != stated_status {
            let _ = write!(
                remark,
                " (not all of its steps are ok: {})",
                cut(&rolled.notes, WHY_CHARS)
            );
        }
        self.proposed(index, ending, &text_of(&parsed.value, "notes"), &parsed.value, &remark)
    }

    fn read_hand_back(&self, index: usize, reply: &Reply) -> Event {
        let reason = self.agent(index).and_then(|agent| agent.spent);
        let ending = (Outcome::Partial, reason);
        // Its name alone does not say what was wrong with the calls.
        let why = reason.filter(|reason| *reason == StopReason::Loop);
        let why = why.and_then(|reason| self.why_stopped(index, reason));
        let why = why.map_or_else(String::new, |why| format!(" (stopped: {why})"));
        match self.object_of(index, Purpose::HandBack, reply) {
            Ok(parsed) => {
                let remark = format!("{}{why}", parsed.remark());
                self.proposed(index, ending, &text_of(&parsed.value, "notes"), &parsed.value, &remark)
            }
            Err(problems) if reply.text.trim().is_empty() => {
                let why = unreadable_answer_message(&problems);
                self.no_model_answer_event(index, Purpose::HandBack, StopReason::Unparseable, &why)
            }
            Err(_) => self.proposed(index, ending, &reply.text, &Value::Null, &why),
        }
    }

    /// The event for an answer with its own output, evidence and claims, with a remark on how it was read.
    pub(super) fn proposed(
        &self,
        index: usize,
        (status, stop_reason): (Outcome, Option<StopReason>),
        notes: &str,
        answer: &Value,
        remark: &str,
    ) -> Event {
        let mut checked = self.checked_evidence(index, answer.get("evidence"));
        let said = cut(notes.trim(), WHY_CHARS);
        let entry = notes_entry(self.id, self.times_asked(self.nodes[index].id), self.nodes[index].id);
        let NotesAndOutput {
            mut notes,
            whole_notes,
            output,
        } = notes_and_output(notes, answer, Some(entry));
        notes = with_remark(notes, remark);
        notes.push_str(&checked.remark());
        if checked.evidence.is_empty() && self.agent(index).is_some_and(super::Agent::has_plan) {
            checked.evidence = self.roll_up(index).evidence;
        }
        // An answer that says that going on cannot help says that the task cannot be done; one that only says that it
        // failed says no more than that (E9.4).
        let severity = severity_of(answer).filter(|_| status == Outcome::Failed);
        let stop_reason = match (status, severity) {
            (Outcome::Failed, Some(Severity::Hard)) => stop_reason.or(Some(StopReason::Unsatisfiable)),
            (Outcome::Failed, _) => stop_reason.or(Some(StopReason::CriteriaUnmet)),
            _ => stop_reason,
        };
        Event::Proposed {
            node: self.nodes[index].id,
            proposal: Box::new(Proposal {
                wrote: 0,
                status,
                stop_reason,
                severity,
                notes,
                whole_notes,
                output: Output::of(output),
                evidence: checked.evidence,
                claims: self.claims(index, status, answer, &said),
                duration_us: 0,
            }),
        }
    }

    /// What an answer claims about criteria that a model wrote for a step of its own plan. A judge decides the criteria
    /// of whoever wanted the task done; these are only means to them, unless the submitter of the run wants all of them
    /// judged. A person who says that the task is done says so of its criteria, too.
    fn claims(&self, index: usize, status: Outcome, answer: &Value, notes: &str) -> Vec<Verdict> {
        if !self.decides_own_criteria(index) {
            return Vec::new();
        }
        let criteria = self.criteria_of(index);
        let is_done_by_person = status == Outcome::Ok && self.is_for_person_at(index);
        let to_verdict = |criterion: &Criterion| {
            let unreadable = || Finding::Unverifiable("the executor's finding cannot be read".to_owned());
            let matching = claims_on(answer, criterion, &criteria);
            let mut findings = matching.map(|claim| claim_of(claim, notes).unwrap_or_else(unreadable));
            let finding = match findings.next() {
                // Two different claims about one criterion count as none.
                Some(first) if findings.any(|other| discriminant(&other) != discriminant(&first)) => {
                    Finding::Unverifiable("the executor contradicts itself".to_owned())
                }
                Some(finding) => finding,
                None if is_done_by_person => Finding::Met,
                None => Finding::Unverifiable("the executor reported no finding".to_owned()),
            };
            Verdict {
                criterion: criterion.id.clone(),
                required: criterion.required,
                finding,
            }
        };
        let claimed = criteria.iter().filter(|criterion| criterion.check == Check::Judge);
        claimed.map(to_verdict).collect()
    }

    /// Whether whoever does task `index` says of its criteria whether they are met, where a judge would.
    fn decides_own_criteria(&self, index: usize) -> bool {
        let is_all = |equipment: &Arc<Equipment>| equipment.judging == Judging::All;
        self.is_step_of_model(index) && !self.equipment.as_ref().is_some_and(is_all)
    }

    /// The mistake of an answer that says that a task is done, and not of each required criterion that nobody else
    /// decides whether it is met. A person answers in plain words.
    fn unclaimed(&self, index: usize, status: Outcome, answer: &Value) -> Option<String> {
        if status != Outcome::Ok || !self.decides_own_criteria(index) || self.is_for_person_at(index) {
            return None;
        }
        let criteria = self.criteria_of(index);
        let is_missing = |criterion: &&Criterion| {
            criterion.required
                && criterion.check == Check::Judge
                && claims_on(answer, criterion, &criteria).next().is_none()
        };
        let missing: Vec<&str> = criteria.iter().filter(is_missing).map(|c| c.id.as_str()).collect();
        let first = missing.first()?;
        Some(format!(
            "criteria says nothing of {}: say of each whether it is met, as in {{\"id\": \"{first}\", \"met\": true}}; if it is \
             not, say the \"gap\"",
            missing.join(", ")
        ))
    }

    /// What an answer that says that a task is done lacks: its claims, and what later steps read of its output.
    pub(super) fn unsaid(&self, index: usize, status: Outcome, answer: &Value) -> Vec<String> {
        let mut problems: Vec<String> = self.unclaimed(index, status, answer).into_iter().collect();
        if status == Outcome::Ok {
            problems.extend(self.unread_lists(index, &answer["output"]));
        }
        problems
    }

    fn read_verdicts(&self, index: usize, reply: &Reply) -> Event {
        let answer = match self.object_of(index, Purpose::Judge, reply) {
            Ok(parsed) => parsed.value,
            Err(problems) => {
                return self.rejected_event(index, problems).unwrap_or_else(|| {
                    self.unjudged_for(index, StopReason::Unparseable, "the judge's answer could not be read")
                });
            }
        };
        let Some(agent) = self.agent(index) else {
            return self.unjudged_event(index, "the task no longer exists");
        };
        let items = answer["verdicts"].as_array().cloned().unwrap_or_default();
        // A judge does not decide what a person is asked about.
        let judged = || agent.open_criteria().filter(|criterion| !self.asks_person(criterion));
        let model_criteria = judged().filter(|criterion| criterion.check != Check::Human);
        let problems = mistakes_in_verdicts(&answer["verdicts"], model_criteria, &agent.task.criteria);
        if !problems.is_empty()
            && let Some(event) = self.rejected_event(index, problems)
        {
            return event;
        }
        let verdicts = judged().map(|criterion| {
            let is_of_criterion = |item: &&Value| is_of(item, criterion, &agent.task.criteria);
            let unreadable = || Finding::Unverifiable("the judge's finding cannot be read".to_owned());
            let mut findings = items
                .iter()
                .filter(is_of_criterion)
                .map(|item| finding_of(item).unwrap_or_else(unreadable));
            let finding = match findings.next() {
                _ if criterion.check == Check::Human => Finding::Unverifiable("nobody was asked".to_owned()),
                // Two different findings on one criterion count as none.
                Some(first) if findings.any(|other| discriminant(&other) != discriminant(&first)) => {
                    Finding::Unverifiable("the judge contradicts itself".to_owned())
                }
                Some(finding) => finding,
                None => Finding::Unverifiable("the judge reported no finding".to_owned()),
            };
            Verdict {
                criterion: criterion.id.clone(),
                required: criterion.required,
                finding,
            }
        });
        checked(self.nodes[index].id, verdicts.collect())
    }
}

/// What is wrong with the `verdicts` of a judge: each of `criteria` needs one that can be read.
fn mistakes_in_verdicts<'c>(
    verdicts: &Value,
    criteria: impl Iterator<Item = &'c Criterion>,
    all: &[Criterion],
) -> Vec<String> {
    let Some(items) = verdicts.as_array() else {
        return vec!["`verdicts` must be a list".to_owned()];
    };
    let mistake = |criterion: &Criterion| {
        let mut matching = items.iter().filter(|item| is_of(item, criterion, all));
        match matching.next() {
            None => Some(format!("verdicts: none for {}", criterion.id)),
            Some(item) if finding_of(item).is_none() => Some(format!(
                "verdicts: the finding on {} is {}; it must be \"met\", \"unmet\" or \"unverifiable\"",
                criterion.id,
                cut(&item["finding"].to_string(), 100)
            )),
            Some(_) => None,
        }
    };
    criteria.filter_map(mistake).collect()
}

/// The remark on a result that is accepted although it is not in the form that was asked for.
fn wrong_form(problems: &[String]) -> String {
    let problems = cut(&problems.join("; "), WRONG_CHARS);
    format!(" (not in the required form: {problems})")
}

/// What `answer`, the result of a task with the criteria `all`, claims about `criterion`.
fn claims_on<'v>(answer: &'v Value, criterion: &Criterion, all: &[Criterion]) -> impl Iterator<Item = &'v Value> {
    let claims = answer.get("criteria").and_then(Value::as_array).into_iter().flatten();
    claims.filter(move |claim| is_of(claim, criterion, all))
}

/// Whether `item` names `criterion`, one of `all`.
fn is_of(item: &Value, criterion: &Criterion, all: &[Criterion]) -> bool {
    let ids = all.iter().map(|criterion| criterion.id.as_str());
    let name = criterion_in(item);
    name.and_then(|name| criterion_meant(name, ids)) == Some(criterion.id.as_str())
}

/// The remark on the calls beside `finish`, which are not made; empty if there are none.
fn unmade_calls_remark(finish: &Wanted, reply: &Reply) -> String {
    let is_other = |call: &&Wanted| (&call.tool, &call.args) != (&finish.tool, &finish.args);
    let others = reply.calls.iter().filter(is_other);
    let mut descriptions: Vec<String> = others
        .map(|call| cut(&call_in_words(&call.tool, &call.args), 100))
        .take(CALLS_MAX)
        .collect();
    if reply.stop == Stop::Length {
        descriptions.push("one that was cut off".to_owned());
    }
    if descriptions.is_empty() {
        return String::new();
    }
    format!(
        " (calls made together with finish were not executed: {})",
        descriptions.join("; ")
    )
}
