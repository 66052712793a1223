//! What whoever works on a task wants to call, or asks a person (E9.3, E9.11).

use std::collections::BTreeMap;
use std::time::Duration;

use folio_memory::Timestamp;
use folio_memory::excerpt::{cut, fits};
use serde_json::Value;

use super::TalkEntry;
use super::fields::text_of;
use super::object::Missing;
use super::schema::{ASK_PERSON, FINISH};
use crate::event::{Event, Question};
use crate::result::{Outcome, StopReason};
use crate::run::state::Run;
use crate::talk::{ModelRole, Purpose, Reply, Stop, Wanted};

/// The most characters of a question.
const QUESTION_CHARS_MAX: usize = 2_000;
/// The most answers to choose from.
const OPTIONS_MAX: usize = 16;
/// The most permissions in the notes of a result, and the most characters of each.
const PERMISSIONS_NOTED: usize = 8;
const PERMISSION_CHARS: usize = 120;
/// The most calls of tools in one reply.
pub(super) const CALLS_MAX: usize = 16;
/// How often the same reading call may fail before it is refused: what is out of reach for a moment may be there the
/// second time.
const FAILED_LOOKS_MAX: usize = 2;
/// The tool that only lets time pass, after which the same call may give something else.
const WAIT: &str = "wait";
/// The longest time to wait for a person's answer; a longer one is ignored.
const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Run {
    pub(super) fn read_work(&self, index: usize, reply: &Reply, now: Timestamp) -> Event {
        let node = self.nodes[index].id;
        if reply.calls.is_empty() && self.works_alone(index, ModelRole::Executor) {
            return self.read_alone(index, reply);
        }
        if let Some(finish) = reply.calls.iter().find(|call| call.tool == FINISH) {
            return self.read_finish(index, finish, reply);
        }
        if let Some(finish) = self.finish_in_text(index, reply) {
            return self.read_finish(index, &finish, reply);
        }
        if reply.calls.is_empty() {
            let problem = match reply.stop {
                Stop::Length => {
                    "the answer reached its limit before a call was complete: write less, or split a large text over several calls"
                }
                Stop::Done | Stop::Refusal => "no tool was called: call a tool, or call finish with the result",
            };
            if let Some(event) = self.rejected_event(index, vec![problem.to_owned()])
                && (reply.text.trim().is_empty() || self.is_first_answer(index))
            {
                return event;
            }
            // What it wrote is the result (E9.13).
            let reason = Some(StopReason::Unparseable);
            let notes = match (reply.text.trim(), reply.stop) {
                ("", Stop::Length) => "the model's answer reached its limit before a call was complete",
                ("", Stop::Done | Stop::Refusal) => "the model's answer was empty",
                (notes, _) => notes,
            };
            return self.proposed(index, (Outcome::Partial, reason), notes, &Value::Null, "");
        }
        if let [question] = &*reply.calls
            && self.is_to_be_asked(index, question)
        {
            return self.question_event(index, question, now);
        }
        // A question beside other calls is asked after them.
        let asked_later = reply.calls.iter().find(|call| self.is_to_be_asked(index, call));
        let mut refused = BTreeMap::new();
        let mut calls: Vec<Wanted> = Vec::new();
        for call in &reply.calls {
            if asked_later.is_some_and(|question| std::ptr::eq(question, call)) {
                continue;
            }
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

    /// The call of `finish` that a model wrote as text instead, as the object that it consists of, or in a fence or
    /// other text (E9.13). Only a text that states a status is meant as one, and only one that was not cut off.
    pub(super) fn finish_in_text(&self, index: usize, reply: &Reply) -> Option<Wanted> {
        if !reply.calls.is_empty() || reply.stop != Stop::Done {
            return None;
        }
        let answer = self.object_of(index, Purpose::Work, reply).ok()?;
        let args = (answer.missing != Missing::Rest).then_some(answer.value)?;
        args.get("status").is_some_and(Value::is_string).then(|| Wanted {
            id: String::new(),
            tool: FINISH.to_owned(),
            args,
        })
    }

    /// The event for what a program that worked by itself says of its task, which is checked like every answer (E9.13,
    /// E9.17).
    fn read_alone(&self, index: usize, reply: &Reply) -> Event {
        let asked = permissions_remark(&reply.permissions);
        let parsed = self.object_of(index, Purpose::Work, reply);
        let is_first = self.is_first_answer(index);
        let parsed = parsed.and_then(|parsed| Ok((parsed.status()?, parsed)));
        let parsed = parsed.and_then(|(status, parsed)| {
            let problems = self.unsaid(index, status, &parsed.value);
            if problems.is_empty() || !is_first {
                Ok((status, parsed))
            } else {
                Err(problems)
            }
        });
        match parsed {
            Ok((status, parsed)) => {
                let ending = (status, parsed.stop_reason());
                let remark = format!("{}{asked}", parsed.remark());
                self.proposed(index, ending, &text_of(&parsed.value, "notes"), &parsed.value, &remark)
            }
            // Asked for its report once: each time it is started it may do its task again (E9.12).
            Err(problems) if is_first => Event::Rejected {
                node: self.nodes[index].id,
                problems,
            },
            Err(_) => {
                let reason = Some(StopReason::Unparseable);
                self.proposed(index, (Outcome::Partial, reason), &reply.text, &Value::Null, &asked)
            }
        }
    }

    /// Why a call is not made, in words for the model.
    fn refusal_of(&self, index: usize, call: &Wanted, earlier_calls: &[Wanted]) -> Option<String> {
        if earlier_calls.len() >= CALLS_MAX {
            return Some(format!("not called: at most {CALLS_MAX} calls in one answer"));
        }
        let tools = self.tools_at(index);
        let Some(tool) = tools.iter().find(|tool| tool.name == call.tool) else {
            if call.tool == ASK_PERSON {
                return self
                    .answer_known(index, call)
                    .or_else(|| Some(self.why_not_asked(call)));
            }
            let exists = self
                .equipment
                .as_ref()
                .is_some_and(|all| all.tool(&call.tool).is_some());
            let problem = if exists {
                "this task may not use the tool"
            } else {
                "unknown tool"
            };
            let mut known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            if self.has_person() {
                known.push(ASK_PERSON);
            }
            known.push(FINISH);
            return Some(format!(
                "{problem} {}; available: {}",
                cut(&call.tool, 100),
                known.join(", ")
            ));
        };
        if !call.args.is_object() && !call.args.is_null() {
            let text = call.args.as_str().unwrap_or_default();
            return Some(match serde_json::from_str::<Value>(text) {
                Err(error) if !text.trim().is_empty() => {
                    format!("not called: the arguments of {} are not valid JSON: {error}", call.tool)
                }
                _ => format!("the arguments of {} must be an object", call.tool),
            });
        }
        let mistakes = self.mistakes_in(call);
        if !mistakes.is_empty() {
            return Some(format!(
                "not called: invalid arguments for {}: {}",
                call.tool,
                mistakes.join("; ")
            ));
        }
        if earlier_calls
            .iter()
            .any(|other| other.tool == call.tool && other.args == call.args)
        {
            return Some("not called: duplicate of another call in this answer".to_owned());
        }
        if let Some(said) = self.earlier_rejection(index, &call.tool, &call.args) {
            return Some(format!("not called again: {said}"));
        }
        if tool.writes {
            return None;
        }
        let earlier = self.earlier_identical_calls(index, call);
        let earlier_nodes = earlier.iter().map(|at| &self.nodes[*at]);
        if let Some(ok) = earlier_nodes.clone().find(|node| node.is_ok()) {
            let id = ok.id;
            return Some(format!(
                "not called again: the same call was already made and nothing has changed since; see the result of call {id}"
            ));
        }
        let failed = earlier_nodes.filter(|node| node.is_terminal()).count();
        (failed >= FAILED_LOOKS_MAX).then(|| {
            format!("not called again: the same call failed {failed} times and nothing has changed since; try something else")
        })
    }

    /// Why the question of `call` is not asked, in words for the model; where nobody is there, its default holds
    /// (E9.14).
    fn why_not_asked(&self, call: &Wanted) -> String {
        let mistakes = question_mistakes(&call.args);
        if !mistakes.is_empty() {
            return format!("not asked: {}", mistakes.join("; "));
        }
        let text = |key: &str| call.args.get(key).and_then(Value::as_str).map(str::trim);
        if !self.has_nobody() {
            return "not asked: ask one question at a time".to_owned();
        }
        match text("default") {
            Some(default) => format!(
                "nobody is available to answer, so your default applies: {}",
                cut(default, 2_000)
            ),
            None => {
                "not asked: nobody is available to answer; continue without it, or finish and report what is missing"
                    .to_owned()
            }
        }
    }

    /// What the tool of `call` does not accept, as far as that is known before the call.
    fn mistakes_in(&self, call: &Wanted) -> Vec<String> {
        let tools = self
            .equipment
            .as_ref()
            .and_then(|equipment| equipment.known.tools.as_ref());
        let known = tools.and_then(|tools| tools.get(&call.tool));
        known.map_or_else(Vec::new, |known| known.mistakes(&call.args))
    }

    /// The identical calls that were made since something last changed in the run, or the task waited, the latest first
    /// (seed 000: no identical action twice).
    fn earlier_identical_calls(&self, index: usize, call: &Wanted) -> Vec<usize> {
        let mut identical = Vec::new();
        for entry in self.agent(index).iter().flat_map(|agent| agent.talk.iter().rev()) {
            let TalkEntry::Result { node: at, .. } = entry else {
                continue;
            };
            let node = &self.nodes[*at];
            let Some(crate::plan::Step::Task(task)) = &node.step else {
                continue;
            };
            let crate::plan::Work::Do(earlier_call) = &task.work else {
                continue;
            };
            let tool = self
                .equipment
                .as_ref()
                .and_then(|equipment| equipment.tool(&earlier_call.tool));
            if tool.is_none_or(|tool| tool.writes) || earlier_call.tool == WAIT {
                break;
            }
            if earlier_call.tool == call.tool && earlier_call.args == call.args {
                if self.has_changed_since(*at) {
                    break;
                }
                identical.push(*at);
            }
        }
        identical
    }

    /// The answer to the question of `call`, if node `index` need not ask for it: it was given before, and is one of
    /// the options.
    fn answer_known(&self, index: usize, call: &Wanted) -> Option<String> {
        let question = call.args.get("question").and_then(Value::as_str)?;
        let fact = self.answers.known_to(index, question)?;
        let (answer, _) = fact.parts();
        let options = options_of(call);
        (options.is_empty() || options.iter().any(|option| option == answer)).then(|| fact.said.clone())
    }

    /// Whether `call` is a question that a person has to answer: it is valid, was not answered before, and somebody is
    /// there.
    fn is_to_be_asked(&self, index: usize, call: &Wanted) -> bool {
        call.tool == ASK_PERSON
            && self.has_person()
            && question_mistakes(&call.args).is_empty()
            && self.answer_known(index, call).is_none()
    }

    /// The event for a question that a model asked beside other calls, once these have ended (E9.14).
    pub(super) fn question_left_event(&self, index: usize, now: Timestamp) -> Option<Event> {
        let call = self.agent(index)?.open_call()?;
        (call.tool == ASK_PERSON).then(|| self.question_event(index, call, now))
    }

    /// The event for the question that `call` asks a person.
    fn question_event(&self, index: usize, call: &Wanted, now: Timestamp) -> Event {
        let text = |key: &str| call.args.get(key).and_then(Value::as_str);
        Event::Questioned {
            node: self.nodes[index].id,
            question: Box::new(Question {
                call: call.id.clone(),
                text: text("question").unwrap_or_default().trim().to_owned(),
                options: options_of(call),
                default: text("default").map(str::to_owned),
                deadline: call.args.get("minutes").and_then(wait_of).map(|time| now.plus(time)),
            }),
        }
    }
}

/// The remark on what a program asked to be allowed, and what it was answered; empty if it asked for nothing (E9.14).
fn permissions_remark(permissions: &[String]) -> String {
    if permissions.is_empty() {
        return String::new();
    }
    let mut lines: Vec<String> = permissions
        .iter()
        .take(PERMISSIONS_NOTED)
        .map(|line| cut(line, PERMISSION_CHARS))
        .collect();
    if permissions.len() > PERMISSIONS_NOTED {
        lines.push(format!("and {} more", permissions.len() - PERMISSIONS_NOTED));
    }
    format!(" (it asked for permission: {})", lines.join("; "))
}

/// The answers to choose from that the question of `call` names.
fn options_of(call: &Wanted) -> Vec<String> {
    let options = call.args.get("options").and_then(Value::as_array);
    let options = options.into_iter().flatten().filter_map(Value::as_str);
    options.map(str::to_owned).collect()
}

/// What is wrong with the arguments of a question, in words for the model: a person sees all of it or nothing (E9.13).
fn question_mistakes(args: &Value) -> Vec<String> {
    let given = |key: &str| args.get(key).filter(|value| !value.is_null());
    let mut mistakes = Vec::new();
    let question = given("question").and_then(Value::as_str).unwrap_or_default().trim();
    if question.is_empty() {
        mistakes.push("`question` is empty".to_owned());
    } else if !fits(question, QUESTION_CHARS_MAX) {
        mistakes.push(format!("`question` is longer than {QUESTION_CHARS_MAX} characters"));
    }
    let is_text = |option: &Value| option.as_str().is_some_and(|text| !text.trim().is_empty());
    let options = given("options").and_then(Value::as_array);
    match options {
        Some(list) if list.len() > OPTIONS_MAX => {
            mistakes.push(format!("`options` has {} entries, more than {OPTIONS_MAX}", list.len()));
        }
        Some(list) if list.iter().all(is_text) => {}
        None if given("options").is_none() => {}
        _ => mistakes.push("`options` must be a list of texts".to_owned()),
    }
    if let Some(default) = given("default") {
        let is_offered = options.is_none_or(|list| list.is_empty() || list.contains(default));
        if !default.is_string() {
            mistakes.push("`default` must be a text".to_owned());
        } else if !is_offered {
            mistakes.push("`default` is not one of `options`".to_owned());
        }
    }
    if given("minutes").is_some_and(|minutes| wait_of(minutes).is_none()) {
        let max_minutes = WAIT_MAX.as_secs() / 60;
        mistakes.push(format!("`minutes` must be a number from 0 to {max_minutes}"));
    }
    mistakes
}

/// How long to wait for an answer, if `minutes` is a number of them that is allowed.
fn wait_of(minutes: &Value) -> Option<Duration> {
    let minutes = minutes.as_f64().filter(|minutes| *minutes >= 0.0)?;
    let time = Duration::try_from_secs_f64(minutes * 60.0).ok();
    time.filter(|time| *time <= WAIT_MAX)
}
