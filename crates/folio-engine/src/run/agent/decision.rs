//! From a model's decision about a task, or its plan for it, to the resulting event (E9.3, E9.5, E9.8).

use folio_memory::excerpt::cut;
use serde_json::{Map, Value};

use super::ask::{WHY_CHARS, prefix_notes};
use super::fields::{text_of, word_of};
use super::object::with_remark;
use super::plan::Draft;
use super::read::unreadable_answer_message;
use super::repair::value_in;
use crate::event::{Event, LeafTests};
use crate::node::NodeId;
use crate::plan::HUMAN;
use crate::result::StopReason;
use crate::run::limit_met::NODES_RULE;
use crate::run::state::Run;
use crate::talk::{Purpose, Reply, Wanted};

/// What the notes of a task begin with if its planner saw no other way, before the reason.
const GAVE_UP: &str = "no new plan was made, because going on cannot help";
/// What they begin with if another plan is not carried out, before the reason.
pub(super) const NO_PLAN: &str = "no new plan was made";

/// A decision to do a task directly, as an event records it.
struct Directly<'d> {
    /// Who decided: the model, or a rule.
    by: &'d str,
    reason: String,
    tests: Option<LeafTests>,
    first: Option<Wanted>,
    executor: Option<String>,
}

impl<'d> Directly<'d> {
    fn new(by: &'d str, reason: impl Into<String>) -> Self {
        Self {
            by,
            reason: reason.into(),
            tests: None,
            first: None,
            executor: None,
        }
    }

    fn event(self, node: NodeId) -> Event {
        Event::Decided {
            node,
            by: self.by.to_owned(),
            reason: self.reason,
            tests: self.tests,
            first: self.first,
            executor: self.executor,
        }
    }
}

impl Run {
    pub(super) fn read_decision(&self, index: usize, reply: &Reply) -> Event {
        let node = self.nodes[index].id;
        if let Some(first) = reply.calls.first() {
            let acts = || acts_at_once(first, reply.calls.len() - 1).event(node);
            return self.plan_instead(index).unwrap_or_else(acts);
        }
        let unreadable = Directly::new("unparseable", "the model's decision could not be read");
        let parsed = match self.object_of(index, Purpose::Decide, reply) {
            Ok(parsed) => parsed,
            Err(problems) => return self.reject_or(index, problems, unreadable),
        };
        let answer = &parsed.value;
        let by_model = Directly {
            tests: leaf_tests(answer),
            first: answer.get("action").and_then(|action| first_action(action, reply)),
            ..Directly::new("model", with_remark(text_of(answer, "reason"), parsed.remark()))
        };
        match word_of(answer, "decision").as_deref() {
            Some("execute") => self
                .plan_instead(index)
                .unwrap_or_else(|| self.decide_directly(index, answer, by_model)),
            Some("plan") => self.first_plan(index, answer, by_model),
            _ => {
                let mut problems = vec!["decision must be execute or plan".to_owned()];
                problems.extend(self.mistakes_in_steps(index, answer, &[]));
                let (tests, first) = (by_model.tests, by_model.first);
                self.reject_or(
                    index,
                    problems,
                    Directly {
                        tests,
                        first,
                        ..unreadable
                    },
                )
            }
        }
    }

    /// The event if the model wants the task done directly, by the executor that it chose.
    fn decide_directly(&self, index: usize, answer: &Value, by_model: Directly<'_>) -> Event {
        let decision = match self.chosen(index, answer) {
            Ok(None) => by_model,
            Ok(Some((executor, works_alone))) => Directly {
                executor: Some(executor),
                // A program has its own tools.
                first: by_model.first.filter(|_| !works_alone),
                ..by_model
            },
            // If the answer cannot be corrected, the usual executor does the task.
            Err(problem) => return self.reject_or(index, vec![problem], by_model),
        };
        decision.event(self.nodes[index].id)
    }

    /// The event if the model wants the task split up. A task whose plan is of no use is done directly.
    fn first_plan(&self, index: usize, answer: &Value, by_model: Directly<'_>) -> Event {
        let node = self.nodes[index].id;
        let Directly { reason, tests, .. } = by_model;
        let directly = match self.draft_plan(index, &answer["steps"], &[]) {
            Draft::Good(steps) => {
                return Event::Planned {
                    node,
                    version: 1,
                    awaits: self.is_gated(index, &steps),
                    steps,
                    reason,
                    tests,
                    kept: Vec::new(),
                };
            }
            Draft::Pointless(rule, why) => Directly::new(rule, why),
            Draft::Again => Directly::new("plan_again", "this plan was already tried"),
            Draft::Wrong(problems) => {
                let unusable = Directly::new("unparseable", "the model's plans were all invalid");
                return self.reject_or(index, problems, Directly { tests, ..unusable });
            }
            Draft::TooLarge(why) => {
                let problems = vec![use_fewer(&why)];
                let too_large = Directly::new(NODES_RULE, why);
                return self.reject_or(index, problems, Directly { tests, ..too_large });
            }
        };
        Directly { tests, ..directly }.event(node)
    }

    /// Sends the answer back because of `problems`, or if that was done too often, does the task directly.
    fn reject_or(&self, index: usize, problems: Vec<String>, directly: Directly<'_>) -> Event {
        self.rejected_event(index, problems)
            .unwrap_or_else(|| directly.event(self.nodes[index].id))
    }

    /// Tells a model that wants to do the task directly that a plan is wanted, as long as it may still be told (E9.3).
    fn plan_instead(&self, index: usize) -> Option<Event> {
        if !self.wants_plan(index) {
            return None;
        }
        let problem = "a plan is required: answer with decision plan and its steps";
        self.rejected_event(index, vec![problem.to_owned()])
    }

    /// The executor that a decision names, and whether it is a program or a person; or what is wrong with the name.
    /// There is no choice for a task that names its executor.
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
            Some(executor) => Ok(Some((name, executor.model.program.is_some()))),
            None => Err(format!(
                "unknown executor {name:?}: use one of {}, or omit it for the default",
                names.join(", ")
            )),
        }
    }

    /// What is wrong with the steps of an answer that has some.
    pub(super) fn mistakes_in_steps(&self, index: usize, answer: &Value, kept: &[usize]) -> Vec<String> {
        let steps = answer.get("steps").filter(|steps| !steps.is_null());
        match steps.map(|steps| self.draft_plan(index, steps, kept)) {
            Some(Draft::Wrong(problems)) => problems,
            Some(Draft::TooLarge(why)) => vec![use_fewer(&why)],
            _ => Vec::new(),
        }
    }

    /// What is wrong with an answer that makes another plan; its steps are looked at only if something else is wrong
    /// (E9.8).
    pub(super) fn mistakes_of_replan(&self, index: usize, answer: &Value) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        if text_of(answer, "root_cause").is_empty() {
            problems.push("`root_cause` is empty: state why the plan did not reach its goal".to_owned());
        }
        let gives_up = answer.get("give_up").and_then(Value::as_bool) == Some(true);
        if !gives_up && text_of(answer, "changes").is_empty() {
            problems.push("`changes` is empty: state what you change".to_owned());
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
                    "drop names {name}, which is not a step that ended ok; those are {}",
                    if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    }
                ));
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        if !gives_up {
            let kept = self.kept_steps(index, &dropped_in(answer));
            problems.extend(self.mistakes_in_steps(index, answer, &kept));
        }
        Err(problems)
    }

    pub(super) fn read_replan(&self, index: usize, reply: &Reply) -> Event {
        let node = self.nodes[index].id;
        let conclude = |reason| {
            if self.has_rejected_plan(index) {
                self.without_approved_plan(index)
            } else {
                self.conclusion(index, reason)
            }
        };
        let reject_for = |problems: Vec<String>, reason: StopReason, why: &str| {
            let fallback = || self.no_model_answer_event(index, Purpose::Replan, reason, why);
            self.rejected_event(index, problems).unwrap_or_else(fallback)
        };
        let reject = |problems: Vec<String>| {
            let why = unreadable_answer_message(&problems);
            reject_for(problems, StopReason::Unparseable, &why)
        };
        let parsed = self.object_of(index, Purpose::Replan, reply);
        let parsed = match parsed.and_then(|parsed| self.mistakes_of_replan(index, &parsed.value).map(|()| parsed)) {
            Ok(parsed) => parsed,
            Err(problems) => return reject(problems),
        };
        let answer = &parsed.value;
        if answer.get("give_up").and_then(Value::as_bool) == Some(true) {
            let cause = text_of(answer, "root_cause");
            return prefix_notes(conclude(None), &format!("{GAVE_UP}: {}", cut(&cause, WHY_CHARS)));
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
                    reason: with_remark(joined(&cause, &changes), parsed.remark()),
                    tests: None,
                    kept: self.ids_of(&kept),
                }
            }
            // The same plan once more leads nowhere (E9.8).
            Draft::Again => {
                let why = format!("{NO_PLAN}: it was the same as one that was carried out");
                prefix_notes(conclude(Some(StopReason::Loop)), &why)
            }
            Draft::Pointless(_, why) => self.rejected_event(index, vec![why.clone()]).unwrap_or_else(|| {
                let why = format!("{NO_PLAN}: {}", cut(&why, WHY_CHARS));
                prefix_notes(conclude(Some(StopReason::Loop)), &why)
            }),
            Draft::Wrong(problems) => reject(problems),
            Draft::TooLarge(why) => reject_for(vec![use_fewer(&why)], StopReason::BudgetNodes, &why),
        }
    }
}

/// What the author of a plan reads that is too large for the budget of nodes.
fn use_fewer(why: &str) -> String {
    format!("{why}; use fewer")
}

/// The decision of a model that calls a tool instead of answering: it wants to do the task. Only the `first` of its
/// calls is made.
fn acts_at_once(first: &Wanted, others: usize) -> Directly<'static> {
    let reason = match others {
        0 => String::new(),
        1 => "1 more call in the same answer was not made".to_owned(),
        others => format!("{others} more calls in the same answer were not made"),
    };
    Directly {
        first: Some(first.clone()),
        ..Directly::new("model", reason)
    }
}

/// The tests that an answer states, if it states all of them.
fn leaf_tests(answer: &Value) -> Option<LeafTests> {
    let test = |name: &str| answer.get(name).and_then(Value::as_bool);
    Some(LeafTests {
        low_complexity: test("low_complexity")?,
        resources_available: test("resources_available")?,
        criteria_testable: test("criteria_testable")?,
    })
}

/// The `cause` why a plan did not reach its goal, and what `changes`, as two sentences or, if the first has no end, two
/// parts of one.
fn joined(cause: &str, changes: &str) -> String {
    let separator = if cause.ends_with(['.', '!', '?', ';', ':', '…']) {
        " "
    } else {
        "; "
    };
    format!("{cause}{separator}{changes}")
}

/// The steps that an answer drops.
fn dropped_in(answer: &Value) -> Vec<String> {
    let dropped = answer.get("drop").and_then(Value::as_array);
    let names = dropped.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// The first action of a decision: a tool and its arguments, which may be written as JSON in a text.
fn first_action(action: &Value, reply: &Reply) -> Option<Wanted> {
    let tool = action.get("tool").and_then(Value::as_str)?.trim();
    if tool.is_empty() {
        return None;
    }
    let args = match action.get("args") {
        Some(Value::String(text)) => value_in(text).unwrap_or_else(|_| Value::String(text.clone())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_and_changes_of_another_plan_are_told_apart() {
        assert_eq!(joined("no glass", "buy glass first"), "no glass; buy glass first");
        assert_eq!(
            joined("There is no glass.", "Buy some."),
            "There is no glass. Buy some."
        );
    }
}
