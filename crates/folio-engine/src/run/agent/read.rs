//! From a model's reply to the event that it comes to (E9.3, E9.13). What it comes to is recorded, so that a later version
//! that reads replies differently folds old journals as they were.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::discriminant;
use std::time::Duration;

use folio_memory::Timestamp;
use serde_json::{Map, Value};

use super::Said;
use super::due::checked;
use super::object::{noted, remarked};
use super::people::normalised;
use super::plan::Draft;
use super::schema::{ASK_PERSON, FINISH};
use crate::event::{Event, LeafTests, Proposal, Question};
use crate::node::NodeId;
use crate::plan::{Check, Criterion, HUMAN};
use crate::result::{Finding, Outcome, Output, Severity, StopReason, Verdict};
use crate::run::call_in_words;
use crate::run::state::Run;
use crate::run::tree::NodeKind;
use crate::talk::{ModelRole, Purpose, Reply, Stop, Wanted};

/// Why a task is not `ok` that says it is.
const NOTHING_DONE: &str = " (no call that it wanted went well)";
/// Characters of what steps came to, in the notes of what they were put together to.
const WHY_CHARS: usize = 400;
/// Why nothing follows from an answer of which nothing can be made.
pub(super) const UNREAD: &str = "what the model answered could not be read";
/// Calls of tools that one reply may want.
const CALLS_MAX: usize = 16;
/// The longest time that an answer of a person is waited for if a time is said: what is longer is no time.
const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Run {
    /// What follows from the reply that node `index` has.
    pub(super) fn reading(&self, index: usize, purpose: Purpose, reply: &Reply, now: Timestamp) -> Event {
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

    /// The model will not: it is not asked again (E9.13).
    fn declined(&self, index: usize, purpose: Purpose, reply: &Reply) -> Event {
        let notes = match reply.text.trim() {
            "" => "the model would not do it".to_owned(),
            why => format!("the model would not do it: {}", cut(why, 400)),
        };
        match purpose {
            Purpose::Judge => self.unjudged_for(index, StopReason::Refused, &notes),
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan | Purpose::HandBack => {
                self.without_model_for(index, purpose, StopReason::Refused, &notes)
            }
            Purpose::Decide | Purpose::Work => self.failing(index, StopReason::Refused, notes),
        }
    }

    pub(super) fn rejected_for(&self, index: usize, problems: Vec<String>) -> Option<Event> {
        self.may_reject(index).then(|| Event::Rejected {
            node: self.nodes[index].id,
            problems,
        })
    }

    fn read_decision(&self, index: usize, reply: &Reply) -> Event {
        let node = self.nodes[index].id;
        let direct = |by: &str, reason: String, tests, first| Event::Decided {
            node,
            by: by.to_owned(),
            reason,
            tests,
            first,
            executor: None,
        };
        // A model that calls a tool instead of answering wants to do it.
        if let Some(first) = reply.calls.first() {
            let event = || direct("model", String::new(), None, Some(first.clone()));
            return self.plan_instead(index).unwrap_or_else(event);
        }
        let read = match self.object_of(index, Purpose::Decide, reply) {
            Ok(read) => read,
            Err(problems) => {
                return self.rejected_for(index, problems).unwrap_or_else(|| {
                    direct(
                        "unparseable",
                        "the model's decision could not be read".to_owned(),
                        None,
                        None,
                    )
                });
            }
        };
        let answer = &read.value;
        let reason = remarked(text_of(answer, "reason"), read.remark());
        let test = |name: &str| answer.get(name).and_then(Value::as_bool);
        let tests = match (
            test("low_complexity"),
            test("resources_available"),
            test("criteria_testable"),
        ) {
            (Some(low_complexity), Some(resources_available), Some(criteria_testable)) => Some(LeafTests {
                low_complexity,
                resources_available,
                criteria_testable,
            }),
            _ => None,
        };
        let first = answer.get("action").and_then(|action| first_action(action, reply));
        match answer.get("decision").and_then(Value::as_str) {
            Some("execute") if let Some(event) = self.plan_instead(index) => event,
            Some("execute") => match self.chosen(index, answer) {
                Ok(None) => direct("model", reason, tests, first),
                Ok(Some((executor, works_alone))) => Event::Decided {
                    node,
                    by: "model".to_owned(),
                    reason,
                    tests,
                    // A program has tools of its own.
                    first: first.filter(|_| !works_alone),
                    executor: Some(executor),
                },
                // What cannot be mended is done by the usual one.
                Err(problem) => self
                    .rejected_for(index, vec![problem])
                    .unwrap_or_else(|| direct("model", reason, tests, first)),
            },
            Some("plan") => match self.draft_plan(index, &answer["steps"], &[]) {
                Draft::Good(steps) => Event::Planned {
                    node,
                    version: 1,
                    awaits: self.is_gated(index, &steps),
                    steps,
                    reason,
                    tests,
                    kept: Vec::new(),
                },
                Draft::Pointless(rule, why) => direct(rule, why, tests, None),
                Draft::Again => direct("plan_again", "the plan was tried before".to_owned(), tests, None),
                Draft::Wrong(problems) => self.rejected_for(index, problems).unwrap_or_else(|| {
                    direct(
                        "unparseable",
                        "the model's plan was wrong each time".to_owned(),
                        tests,
                        None,
                    )
                }),
            },
            _ => {
                let problems = vec!["decision is neither execute nor plan".to_owned()];
                self.rejected_for(index, problems).unwrap_or_else(|| {
                    direct(
                        "unparseable",
                        "the model's decision could not be read".to_owned(),
                        tests,
                        first,
                    )
                })
            }
        }
    }

    /// What the model is told that would do directly what is to be planned, as long as it is told so (E9.3).
    fn plan_instead(&self, index: usize) -> Option<Event> {
        if !self.wants_plan(index) {
            return None;
        }
        let problem = "a plan is wanted for this: answer with decision plan, and its steps";
        self.rejected_for(index, vec![problem.to_owned()])
    }

    /// Whom a decision says to do it, and whether that is a program; or what is wrong with that. Of a task that names somebody nothing is chosen.
    fn chosen(&self, index: usize, answer: &Value) -> Result<Option<(String, bool)>, String> {
        let name = text_of(answer, "executor");
        let names: Vec<&str> = self.executors_to_choose(index).collect();
        if name.is_empty() || names.is_empty() {
            return Ok(None);
        }
        let executors = self.equipment.as_deref().map(|equipment| &equipment.executors);
        if name == HUMAN && names.contains(&HUMAN) {
            return Ok(Some((name, true)));
        }
        match executors.and_then(|executors| executors.get(&name)) {
            Some(named) => Ok(Some((name, named.model.program.is_some()))),
            None => Err(format!(
                "unknown executor {name:?}: there is {}; without one the usual executor does it",
                names.join(", ")
            )),
        }
    }

    fn read_work(&self, index: usize, reply: &Reply, now: Timestamp) -> Event {
        let node = self.nodes[index].id;
        if reply.calls.is_empty() && self.works_alone(index, ModelRole::Executor) {
            return self.read_alone(index, reply);
        }
        if let Some(finish) = reply.calls.iter().find(|call| call.tool == FINISH) {
            return self.read_finish(index, finish, reply);
        }
        if reply.calls.is_empty() {
            let problem = match reply.stop {
                Stop::Length => {
                    "the answer reached its limit before a call was complete: write less, a large text in several calls"
                }
                Stop::Done | Stop::Refusal => "nothing is called: call a tool, or finish with the result",
            };
            if let Some(event) = self.rejected_for(index, vec![problem.to_owned()])
                && (reply.text.trim().is_empty() || self.agent(index).is_some_and(|agent| agent.rejections == 0))
            {
                return event;
            }
            // What it wrote is what there is (E9.13).
            let reason = Some(StopReason::Unparseable);
            return self.proposed(index, (Outcome::Partial, reason), &reply.text, &Value::Null, "");
        }
        if let Some(ask) = reply.calls.iter().find(|call| call.tool == ASK_PERSON)
            && let Some(event) = self.read_question(index, ask, reply, now)
        {
            return event;
        }
        let mut refused = BTreeMap::new();
        let mut calls: Vec<Wanted> = Vec::new();
        for call in &reply.calls {
            match self.refusal_of(index, call, &calls) {
                Some(why) => drop(refused.insert(call.id.clone(), why)),
                None => calls.push(call.clone()),
            }
        }
        // A limit on calls of tools is a limit of the task.
        if let Some(reason) = calls
            .first()
            .and_then(|_| self.refused_by_budget(index, &crate::spend::Spend::TOOL_CALL, false))
        {
            return Event::Spent { node, reason };
        }
        Event::Wants { node, calls, refused }
    }

    /// What a program that worked by itself says of its task, which is checked as every answer is (E9.13, E9.17).
    fn read_alone(&self, index: usize, reply: &Reply) -> Event {
        let read = self.object_of(index, Purpose::Work, reply);
        match read.and_then(|read| Ok((read.status()?, read))) {
            Ok((status, read)) => {
                let how = (status, read.stop_reason());
                self.proposed(index, how, &text_of(&read.value, "notes"), &read.value, read.remark())
            }
            Err(problems) => self.rejected_for(index, problems).unwrap_or_else(|| {
                let reason = Some(StopReason::Unparseable);
                self.proposed(index, (Outcome::Partial, reason), &reply.text, &Value::Null, "")
            }),
        }
    }

    /// Why a call is not made, in words for the model.
    fn refusal_of(&self, index: usize, call: &Wanted, beside: &[Wanted]) -> Option<String> {
        if beside.len() >= CALLS_MAX {
            return Some(format!("not called: at most {CALLS_MAX} calls at a time"));
        }
        let Some(tool) = self.equipment.as_ref().and_then(|equipment| equipment.tool(&call.tool)) else {
            if call.tool == ASK_PERSON {
                return self
                    .answer_known(call)
                    .or_else(|| Some("not asked: ask one question at a time".to_owned()));
            }
            let known = self
                .equipment
                .as_ref()
                .map(|e| e.tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>());
            return Some(format!(
                "there is no tool {}; there are {}, {FINISH}",
                call.tool,
                known.unwrap_or_default().join(", ")
            ));
        };
        if !call.args.is_object() && !call.args.is_null() {
            return Some(format!("the arguments of {} are not an object", call.tool));
        }
        if beside
            .iter()
            .any(|other| other.tool == call.tool && other.args == call.args)
        {
            return Some("not called: the same call stands twice in one answer".to_owned());
        }
        if !tool.writes
            && let Some(id) = self.done_before(index, call)
        {
            return Some(format!(
                "not called again: the same call was made before and nothing was changed since; its result is that of call {id}"
            ));
        }
        None
    }

    /// The same call, if it was answered well and nothing was changed since (seed 000: no identical action twice).
    fn done_before(&self, index: usize, call: &Wanted) -> Option<NodeId> {
        let agent = self.agent(index)?;
        for said in agent.talk.iter().rev() {
            let Said::Result { node, .. } = said else { continue };
            let node = &self.nodes[*node];
            let Some(crate::plan::Step::Task(task)) = &node.step else {
                continue;
            };
            let crate::plan::Work::Do(made) = &task.work else {
                continue;
            };
            let tool = self.equipment.as_ref().and_then(|equipment| equipment.tool(&made.tool));
            if tool.is_none_or(|tool| tool.writes) {
                return None;
            }
            if node.is_ok() && made.tool == call.tool && made.args == call.args {
                return Some(node.id);
            }
        }
        None
    }

    fn answer_known(&self, call: &Wanted) -> Option<String> {
        let question = call.args.get("question").and_then(Value::as_str)?;
        let fact = self.answers.get(&normalised(question))?;
        Some(fact.said.clone())
    }

    /// The question that a model has for a person; `None` if it was answered before, or is none.
    fn read_question(&self, index: usize, call: &Wanted, reply: &Reply, now: Timestamp) -> Option<Event> {
        let node = self.nodes[index].id;
        let text = call.args.get("question").and_then(Value::as_str).map(str::trim)?;
        // Other calls of the same reply come first; the model asks again.
        if text.is_empty() || reply.calls.len() > 1 || self.answer_known(call).is_some() {
            return None;
        }
        if !self.equipment.as_ref().is_some_and(|equipment| equipment.has_person) {
            return None;
        }
        let options = call.args.get("options").and_then(Value::as_array);
        let options = options
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .take(16)
            .map(str::to_owned);
        Some(Event::Questioned {
            node,
            question: Box::new(Question {
                call: call.id.clone(),
                text: cut(text, 2_000),
                options: options.collect(),
                default: call.args.get("default").and_then(Value::as_str).map(str::to_owned),
                deadline: time_of(call).map(|time| now.plus(time)),
            }),
        })
    }

    fn read_finish(&self, index: usize, call: &Wanted, reply: &Reply) -> Event {
        let beside = beside_finish(call, reply);
        if !beside.is_empty()
            && let Some(event) = self.rejected_for(
                index,
                vec!["finish stands beside other calls: call it alone".to_owned()],
            )
        {
            return event;
        }
        let args = &call.args;
        let notes = match text_of(args, "notes") {
            notes if notes.is_empty() => reply.text.trim().to_owned(),
            notes => notes,
        };
        let unread = (Outcome::Partial, Some(StopReason::Unparseable));
        match finished(args, &notes) {
            Ok(status) if beside.is_empty() => {
                let bounded = self.bounded_by_calls(index, status);
                let remark = if bounded == status { "" } else { NOTHING_DONE };
                self.proposed(index, (bounded, None), &notes, args, remark)
            }
            // What it says is done may be what was not called.
            Ok(status) => {
                let how = (status.max(Outcome::Partial), unread.1);
                self.proposed(index, how, &notes, args, &beside)
            }
            Err(problems) => self.rejected_for(index, problems).unwrap_or_else(|| {
                // What it wrote is what there is (E9.13).
                let written = match args {
                    _ if !notes.is_empty() => notes,
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                self.proposed(index, unread, &written, &Value::Null, &beside)
            }),
        }
    }

    /// A task whose every call was refused or failed is not done, whatever it says of itself: somebody else has to say so (E9.7).
    fn bounded_by_calls(&self, index: usize, status: Outcome) -> Outcome {
        let calls = self.nodes[index].children.iter().map(|child| &self.nodes[*child]);
        let mut results = calls
            .filter(|child| child.kind == NodeKind::Action)
            .map(|call| call.result.as_ref());
        let any = self.agent(index).is_some_and(|agent| agent.denied) || results.clone().next().is_some();
        let one_went_well = results.any(|result| result.is_some_and(|result| result.status == Outcome::Ok));
        if any && !one_went_well && !self.is_judged(index) {
            status.max(Outcome::Partial)
        } else {
            status
        }
    }

    /// Whether a judge has to find that node `index` is done before it is.
    fn is_judged(&self, index: usize) -> bool {
        let is_one = |criterion: &Criterion| criterion.required && criterion.check == Check::Judge;
        !self.is_step_of_model(index) && self.criteria_of(index).iter().any(is_one)
    }

    /// Whether node `index` is in a plan that a model made.
    fn is_step_of_model(&self, index: usize) -> bool {
        let mut around = self.and_around(index).skip(1);
        around.any(|at| self.nodes[at].kind == NodeKind::Model)
    }

    fn read_result(&self, index: usize, reply: &Reply) -> Event {
        let read = self.object_of(index, Purpose::Aggregate, reply);
        let (said, read) = match read.and_then(|read| Ok((read.status()?, read))) {
            Ok(read) => read,
            Err(problems) => {
                let unread = || self.without_model_for(index, Purpose::Aggregate, StopReason::Unparseable, UNREAD);
                return self.rejected_for(index, problems).unwrap_or_else(unread);
            }
        };
        // No better than the steps are.
        let rolled = self.roll_up(index);
        let status = if rolled.status == Outcome::Ok {
            said
        } else {
            said.max(Outcome::Partial)
        };
        let reason = (status != Outcome::Ok).then_some(rolled.stop_reason).flatten();
        let how = (status, reason.or(read.stop_reason()));
        let mut remark = read.remark().to_owned();
        if status != said {
            let _ = write!(remark, " (its steps are not all ok: {})", cut(&rolled.notes, WHY_CHARS));
        }
        self.proposed(index, how, &text_of(&read.value, "notes"), &read.value, &remark)
    }

    fn read_hand_back(&self, index: usize, reply: &Reply) -> Event {
        let reason = self.agent(index).and_then(|agent| agent.spent);
        let how = (Outcome::Partial, reason);
        match self.object_of(index, Purpose::HandBack, reply) {
            Ok(read) => self.proposed(index, how, &text_of(&read.value, "notes"), &read.value, read.remark()),
            Err(_) if reply.text.trim().is_empty() => {
                self.without_model_for(index, Purpose::HandBack, StopReason::Unparseable, UNREAD)
            }
            Err(_) => self.proposed(index, how, &reply.text, &Value::Null, ""),
        }
    }

    /// What an answer with output, evidence and findings of its own comes to, with a remark on how it was read.
    fn proposed(
        &self,
        index: usize,
        (status, stop_reason): (Outcome, Option<StopReason>),
        notes: &str,
        answer: &Value,
        remark: &str,
    ) -> Event {
        let mut checked = self.checked_evidence(index, answer.get("evidence"));
        let (mut notes, output) = noted(notes, answer);
        notes = remarked(notes, remark);
        if checked.removed > 0 {
            let _ = write!(
                notes,
                " ({} references that name nothing were left out)",
                checked.removed
            );
        }
        if checked.evidence.is_empty() && self.agent(index).is_some_and(super::Agent::has_plan) {
            checked.evidence = self.roll_up(index).evidence;
        }
        // Who says that going on cannot help says that it cannot be done; who only says that it failed says no more than that (E9.4).
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
                output: Output::of(output),
                evidence: checked.evidence,
                claims: self.claims(index, answer),
            }),
        }
    }

    /// What an answer says of criteria that a model wrote for a step of its own plan. A judge looks at the criteria of whoever
    /// wanted the task done; these are the means to them.
    fn claims(&self, index: usize, answer: &Value) -> Vec<Verdict> {
        if !self.is_step_of_model(index) {
            return Vec::new();
        }
        let said = answer.get("criteria").and_then(Value::as_array);
        let claim = |criterion: &Criterion| {
            let said = said.into_iter().flatten();
            let mut of_it = said.filter(|claim| claim.get("id").and_then(Value::as_str) == Some(criterion.id.as_str()));
            let finding = match of_it.next() {
                Some(claim) if claim.get("met").and_then(Value::as_bool) == Some(true) => Finding::Met,
                Some(claim) => Finding::Unmet(gap_of(claim, "whoever did it does not say what is missing")),
                None => Finding::Unverifiable("whoever did it says nothing of it".to_owned()),
            };
            Verdict {
                criterion: criterion.id.clone(),
                required: criterion.required,
                finding,
            }
        };
        let criteria = self.criteria_of(index);
        criteria
            .iter()
            .filter(|criterion| criterion.check == Check::Judge)
            .map(claim)
            .collect()
    }

    fn read_verdicts(&self, index: usize, reply: &Reply) -> Event {
        let answer = match self.object_of(index, Purpose::Judge, reply) {
            Ok(read) => read.value,
            Err(problems) => {
                return self.rejected_for(index, problems).unwrap_or_else(|| {
                    self.unjudged_for(
                        index,
                        StopReason::Unparseable,
                        "what the judge answered could not be read",
                    )
                });
            }
        };
        let Some(agent) = self.agent(index) else {
            return self.unjudged(index, "the task is gone");
        };
        let given = answer["verdicts"].as_array().cloned().unwrap_or_default();
        // What a person is asked about is not for a judge to say.
        let judged = agent.open_criteria().filter(|criterion| !self.asks_person(criterion));
        let verdicts = judged.map(|criterion| {
            let of_it = |said: &&Value| said.get("criterion").and_then(Value::as_str) == Some(criterion.id.as_str());
            let mut findings = given.iter().filter(of_it).map(finding_of);
            let finding = match findings.next() {
                _ if criterion.check == Check::Human => Finding::Unverifiable("nobody was asked".to_owned()),
                // Who says two things of one criterion has said neither.
                Some(first) if findings.any(|other| discriminant(&other) != discriminant(&first)) => {
                    Finding::Unverifiable("the judge contradicts itself".to_owned())
                }
                Some(finding) => finding,
                None => Finding::Unverifiable("the judge said nothing of it".to_owned()),
            };
            Verdict {
                criterion: criterion.id.clone(),
                required: criterion.required,
                finding,
            }
        });
        checked(self.nodes[index].id, verdicts.collect())
    }

    /// What is wrong with an answer that wants another plan, besides its steps (E9.8).
    fn mistakes_of_replan(&self, index: usize, answer: &Value) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        if text_of(answer, "root_cause").is_empty() {
            problems.push("`root_cause` says nothing: say why the plan did not reach what was wanted".to_owned());
        }
        let names: Vec<Vec<String>> = self
            .kept_steps(index, &[])
            .iter()
            .map(|kept| self.names_of(*kept).to_vec())
            .collect();
        for name in dropped_in(answer) {
            if !names.iter().any(|known| known.contains(&name)) {
                let known: Vec<&str> = names.iter().map(|known| known[0].as_str()).collect();
                problems.push(format!(
                    "drop names {name}, which is no step that ended ok; those are {}",
                    if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    }
                ));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn read_replan(&self, index: usize, reply: &Reply) -> Event {
        let node = self.nodes[index].id;
        let without = |reason| {
            if self.has_rejected_plan(index) {
                self.without_approved_plan(index)
            } else {
                self.conclusion(index, reason)
            }
        };
        let unread = || self.without_model_for(index, Purpose::Replan, StopReason::Unparseable, UNREAD);
        let read = self.object_of(index, Purpose::Replan, reply);
        let read = match read.and_then(|read| self.mistakes_of_replan(index, &read.value).map(|()| read)) {
            Ok(read) => read,
            Err(problems) => {
                return self.rejected_for(index, problems).unwrap_or_else(unread);
            }
        };
        let answer = &read.value;
        if answer.get("give_up").and_then(Value::as_bool) == Some(true) {
            return without(None);
        }
        let kept = self.kept_steps(index, &dropped_in(answer));
        let version = self.nodes[index]
            .plan
            .as_ref()
            .map_or(1, |plan| plan.version.saturating_add(1));
        match self.draft_plan(index, &answer["steps"], &kept) {
            Draft::Good(steps) => {
                let (cause, changes) = (text_of(answer, "root_cause"), text_of(answer, "changes"));
                Event::Planned {
                    node,
                    version,
                    awaits: self.is_gated(index, &steps),
                    steps,
                    reason: remarked(format!("{cause} {changes}"), read.remark()),
                    tests: None,
                    kept: self.ids_of(&kept),
                }
            }
            // The same once more leads nowhere (E9.8).
            Draft::Again => without(Some(StopReason::Loop)),
            Draft::Pointless(_, why) => self
                .rejected_for(index, vec![why])
                .unwrap_or_else(|| without(Some(StopReason::Loop))),
            Draft::Wrong(problems) => self.rejected_for(index, problems).unwrap_or_else(unread),
        }
    }
}

/// What is said of the calls that stand beside `finish` and are not made; nothing if it stands alone.
fn beside_finish(finish: &Wanted, reply: &Reply) -> String {
    let others = reply.calls.iter().filter(|call| !std::ptr::eq(*call, finish));
    let mut words: Vec<String> = others
        .map(|call| cut(&call_in_words(&call.tool, &call.args), 100))
        .take(CALLS_MAX)
        .collect();
    if reply.stop == Stop::Length {
        words.push("one that was cut off".to_owned());
    }
    if words.is_empty() {
        return String::new();
    }
    format!(" (calls that stood beside finish were not made: {})", words.join("; "))
}

/// The steps that an answer wants no more.
fn dropped_in(answer: &Value) -> Vec<String> {
    let dropped = answer.get("drop").and_then(Value::as_array);
    let names = dropped.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// What is missing, as an answer says of a criterion; `other` if it says nothing.
fn gap_of(said: &Value, other: &str) -> String {
    match text_of(said, "gap") {
        gap if gap.is_empty() => other.to_owned(),
        gap => gap,
    }
}

/// What a judge says of one criterion.
fn finding_of(said: &Value) -> Finding {
    match said.get("finding").and_then(Value::as_str) {
        Some("met") => Finding::Met,
        Some("unmet") => Finding::Unmet(gap_of(said, "the judge does not say what is missing")),
        Some("unverifiable") => Finding::Unverifiable(gap_of(said, "the judge does not say why")),
        _ => Finding::Unverifiable("the judge said nothing of it".to_owned()),
    }
}

/// The first action of a decision: a tool and its arguments, which may be written as JSON in a text.
fn first_action(action: &Value, reply: &Reply) -> Option<Wanted> {
    let tool = action.get("tool").and_then(Value::as_str)?.trim();
    if tool.is_empty() {
        return None;
    }
    let args = match action.get("args") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
        Some(args) => args.clone(),
        None => Value::Object(Map::new()),
    };
    let id = reply
        .calls
        .first()
        .map_or_else(|| "first".to_owned(), |call| call.id.clone());
    Some(Wanted {
        id,
        tool: tool.to_owned(),
        args,
    })
}

/// How long an answer to the question of `call` is waited for; as long as it takes if that is not said.
fn time_of(call: &Wanted) -> Option<Duration> {
    let minutes = call
        .args
        .get("minutes")
        .and_then(Value::as_f64)
        .filter(|minutes| *minutes >= 0.0)?;
    Duration::try_from_secs_f64(minutes * 60.0)
        .ok()
        .filter(|time| *time <= WAIT_MAX)
}

/// How bad a failure is, as whoever failed says.
fn severity_of(answer: &Value) -> Option<Severity> {
    match answer.get("severity").and_then(Value::as_str)? {
        "hard" => Some(Severity::Hard),
        "soft" => Some(Severity::Soft),
        _ => None,
    }
}

/// What an answer says of how it went: well, if it says nothing of that. A word that is none of those that there are is no success, but
/// a mistake to be put right (E9.13).
pub(super) fn status_of(answer: &Value) -> Result<Outcome, String> {
    let said = match answer.get("status") {
        None | Some(Value::Null) => return Ok(Outcome::Ok),
        Some(said) => said,
    };
    match said.as_str().map(str::to_lowercase).as_deref().map(str::trim) {
        Some("ok" | "done" | "success") => Ok(Outcome::Ok),
        Some("partial" | "incomplete") => Ok(Outcome::Partial),
        Some("failed" | "fail" | "failure") => Ok(Outcome::Failed),
        _ => Err(format!(
            "status is {}; it is \"ok\", \"partial\" or \"failed\"",
            cut(&said.to_string(), 100)
        )),
    }
}

/// How a task went, as the arguments of `finish` say, with what else was said as its notes; or what is wrong with them.
fn finished(args: &Value, notes: &str) -> Result<Outcome, Vec<String>> {
    if !args.is_object() {
        return Err(vec![format!("the arguments of {FINISH} are not a JSON object")]);
    }
    if notes.is_empty() && args.get("output").is_none_or(Value::is_null) {
        return Err(vec!["`notes` is missing: say what came out".to_owned()]);
    }
    status_of(args).map_err(|problem| vec![problem])
}

pub(super) fn text_of(answer: &Value, key: &str) -> String {
    match answer.get(key) {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

pub(super) fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        text.to_owned()
    } else {
        text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
    }
}
