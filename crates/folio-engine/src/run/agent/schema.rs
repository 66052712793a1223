//! The forms in which models answer, and the tools that only they have.

use std::sync::{Arc, LazyLock};

use folio_memory::canonical::canonical;
use serde_json::{Map, Value, json};

use crate::talk::Purpose;

/// The tool by which an executor says that it is done.
pub(super) const FINISH: &str = "finish";
/// The tool by which an executor asks a person.
pub(super) const ASK_PERSON: &str = "ask_person";

/// The tools that only executors have. No other tool may have one of these names: models could not call it.
pub const EXECUTOR_TOOLS: [&str; 2] = [FINISH, ASK_PERSON];

// Each form is one value for all requests: otherwise the prompts of many simultaneous tasks would each hold a copy.
static DECISION: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(decision()));
static RESULT: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(result_form()));
static ROLL_UP: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(roll_up()));
static VERDICTS: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(verdicts()));
static OTHER_PLAN: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(other_plan()));

/// The JSON Schema of the answer to `purpose`; `None` if the answer consists of calls of tools, which a program that
/// works alone does not make.
pub(super) fn of(purpose: Purpose, works_alone: bool) -> Option<Arc<Value>> {
    match purpose {
        Purpose::Work => works_alone.then(result),
        Purpose::Decide => Some(Arc::clone(&DECISION)),
        Purpose::Aggregate | Purpose::HandBack => Some(result()),
        Purpose::RollUp => Some(Arc::clone(&ROLL_UP)),
        Purpose::Judge => Some(Arc::clone(&VERDICTS)),
        Purpose::Replan => Some(Arc::clone(&OTHER_PLAN)),
    }
}

/// The form of a task's result.
pub(super) fn result() -> Arc<Value> {
    Arc::clone(&RESULT)
}

/// The form of the answer to `purpose`, or of what ends the work.
fn form_of(purpose: Purpose) -> &'static Value {
    match purpose {
        Purpose::Decide => &DECISION,
        Purpose::Work | Purpose::Aggregate | Purpose::HandBack => &RESULT,
        Purpose::RollUp => &ROLL_UP,
        Purpose::Judge => &VERDICTS,
        Purpose::Replan => &OTHER_PLAN,
    }
}

/// The keys that an answer to `purpose` must have.
pub(super) fn required(purpose: Purpose) -> Vec<&'static str> {
    let keys = form_of(purpose)["required"].as_array().into_iter().flatten();
    keys.filter_map(Value::as_str).collect()
}

/// The part of the form of an answer to `purpose` that `problems` are about: the keys that they name, or all keys if
/// they name none. An executor calls tools, so only the end of its work has a form.
pub(super) fn fragment(purpose: Purpose, problems: &[String]) -> Option<Value> {
    let form = form_of(purpose);
    let is_named = |key: &&String| problems.iter().any(|problem| mentions_key(problem, key));
    let all = || form["properties"].as_object().into_iter().flatten();
    let is_any_named = all().any(|(key, _)| is_named(&key));
    if purpose == Purpose::Work && !is_any_named {
        return None;
    }
    let mut properties: Map<String, Value> = all()
        .filter(|(key, _)| !is_any_named || is_named(key))
        .map(|(key, part)| (key.clone(), part.clone()))
        .collect();
    if let Some(steps) = properties.get_mut("steps") {
        steps["items"] = json!({"anyOf": [step(), list(), {"type": "array", "description": "Parallel steps."}]});
    }
    let keys = required(purpose)
        .into_iter()
        .filter(|key| properties.contains_key(*key));
    let needed: Vec<&str> = keys.collect();
    let mut part = json!({"properties": properties});
    if !needed.is_empty() {
        part["required"] = json!(needed);
    }
    Some(canonical(part))
}

/// Whether `problem` contains `key` as a word.
fn mentions_key(problem: &str, key: &str) -> bool {
    problem
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| word == key)
}

/// The form of a step of a plan.
fn step() -> Value {
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "required": ["id", "title"],
        "properties": {
            "id": {"type": "string"},
            "title": {"type": "string"},
            "description": {"type": "string"},
            "criteria": texts(),
            "satisfies": texts(),
            "needs": texts(),
            "optional": {"type": "boolean"},
            "atomic": {"type": "boolean"},
            "tools": texts(),
            "do": {
                "type": "object",
                "description": "One tool call that needs no model.",
                "required": ["tool"],
                "properties": {"tool": {"type": "string"}, "args": {"type": "object"}}
            },
            "budget_share": {"type": "number"},
        },
    })
}

/// The form of a list whose items each get a step. What is said of the work belongs to that step.
fn list() -> Value {
    json!({
        "type": "object",
        "required": ["id", "title", "for_each", "step"],
        "properties": {
            "id": {"type": "string"},
            "title": {"type": "string"},
            "needs": {"type": "array", "items": {"type": "string"}},
            "optional": {"type": "boolean"},
            "for_each": {"type": "string"},
            "as": {"type": "string"},
            "step": {"type": "object", "description": "A step, with its own criteria."},
        },
    })
}

/// The key without which an answer is of no use.
pub(super) fn needed(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Decide => "decision",
        Purpose::Work | Purpose::Aggregate | Purpose::HandBack | Purpose::RollUp => "notes",
        Purpose::Judge => "verdicts",
        Purpose::Replan => "root_cause",
    }
}

/// `form`, the form of a decision, with a choice of which of `names` does the task; `None` if there are no names.
pub(super) fn with_executors<'n>(form: &Value, names: impl Iterator<Item = &'n str>) -> Option<Value> {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return None;
    }
    let mut form = form.clone();
    form["properties"]["executor"] = json!({
        "type": "string", "enum": names,
        "description": "With execute: the executor, unless it is the default."
    });
    Some(form)
}

fn decision() -> Value {
    json!({
        "type": "object",
        "required": ["decision", "reason", "low_complexity", "resources_available", "criteria_testable"],
        "properties": {
            "decision": {"type": "string", "enum": ["execute", "plan"]},
            "reason": {"type": "string", "description": "One sentence."},
            "low_complexity": {"type": "boolean"},
            "resources_available": {"type": "boolean"},
            "criteria_testable": {"type": "boolean"},
            "action": {
                "type": "object",
                "description": "With execute: the first tool call.",
                "required": ["tool", "args"],
                "properties": {"tool": {"type": "string"}, "args": {"type": "object"}}
            },
            "steps": steps("With plan: the steps in order; an inner list runs in parallel."),
        },
    })
}

fn verdicts() -> Value {
    json!({
        "type": "object",
        "required": ["verdicts"],
        "properties": {
            "verdicts": {
                "type": "array",
                "items": {
                    "type": "object",
                    // All of them, and nothing instead of none: so it can be enforced by every provider.
                    "required": ["criterion", "finding", "gap"],
                    "properties": {
                        "criterion": {"type": "string"},
                        "finding": {"type": "string", "enum": ["met", "unmet", "unverifiable"]},
                        "gap": {"type": ["string", "null"], "description": "What is missing, or why it cannot be verified."}
                    }
                }
            }
        }
    })
}

fn other_plan() -> Value {
    json!({
        "type": "object",
        "required": ["root_cause", "changes"],
        "properties": {
            "root_cause": {"type": "string", "description": "Why the plan did not reach its goal."},
            "changes": {"type": "string", "description": "What you change."},
            "give_up": {"type": "boolean", "description": "True if no other plan can help."},
            "drop": {"type": "array", "items": {"type": "string"}, "description": "Steps that ended ok but are no longer wanted."},
            "steps": steps("The remaining steps; do not repeat those that ended ok."),
        },
    })
}

fn steps(description: &str) -> Value {
    json!({"type": "array", "description": description, "items": {}})
}

fn result_form() -> Value {
    json!({
        "type": "object",
        "required": ["notes"],
        "properties": {
            "status": {"type": "string", "enum": ["ok", "partial", "failed"]},
            "severity": {"type": "string", "enum": ["soft", "hard"], "description": "With failed: hard if continuing with the rest is pointless or harmful; else soft."},
            "notes": {"type": "string", "description": "The outcome, in a few sentences."},
            "output": {"description": "The value that later steps or the user need."},
            "evidence": evidence(),
            "criteria": {
                "type": "array",
                "description": "Your finding on each criterion.",
                "items": {
                    "type": "object",
                    "required": ["id", "met"],
                    "properties": {"id": {"type": "string"}, "met": {"type": "boolean"}, "gap": {"type": "string"}}
                }
            },
        },
    })
}

/// The form of a result that stands for a part of the results.
fn roll_up() -> Value {
    json!({
        "type": "object",
        "required": ["notes"],
        "properties": {
            "notes": {"type": "string", "description": "Outcomes, failures and their causes."},
            "output": {"description": "The values that are still needed."},
            "evidence": evidence(),
        },
    })
}

fn evidence() -> Value {
    json!({
        "type": "array",
        "description": "Support for the result: ids of calls or tasks, files, URLs.",
        "items": {
            "type": "object",
            "required": ["kind", "id"],
            "properties": {
                "kind": {"type": "string", "enum": ["node", "tool_call", "file", "url", "observation"]},
                "id": {"type": "string"},
                "span": {"type": "string"}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(purpose: Purpose, problem: &str) -> Option<Vec<String>> {
        let part = fragment(purpose, &[problem.to_owned()])?;
        Some(part["properties"].as_object().unwrap().keys().cloned().collect())
    }

    #[test]
    fn schema_fragment_has_only_keys_named_by_the_problem_e9_13() {
        let of = |purpose, problem| keys_of(purpose, problem).unwrap_or_default();
        assert_eq!(
            of(Purpose::Decide, "steps[2].needs[0]: there is no step `nobody`"),
            ["steps"]
        );
        assert_eq!(of(Purpose::Replan, "`root_cause` is empty"), ["root_cause"]);
        assert_eq!(of(Purpose::Judge, "there is no JSON object in it"), ["verdicts"]);
        assert_eq!(
            of(Purpose::RollUp, "there is no JSON object in it"),
            ["evidence", "notes", "output"]
        );
        // `give_up` does not count as `give`, and an executor that calls tools need not end.
        assert_eq!(of(Purpose::Replan, "you give too much"), of(Purpose::Replan, "?"));
        assert_eq!(keys_of(Purpose::Work, "there is no tool `echoo`"), None);
        assert_eq!(of(Purpose::Work, "`status` is none of ok, partial, failed"), ["status"]);
    }

    #[test]
    fn every_key_of_a_judgement_is_required_so_that_providers_enforce_it_e9_13() {
        let item = &VERDICTS["properties"]["verdicts"]["items"];
        let keys: Vec<&str> = item["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut required: Vec<&str> = item["required"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        required.sort_unstable();
        assert_eq!(keys, required);
        assert_eq!(super::required(Purpose::Judge), ["verdicts"]);
        // What is not there is null.
        assert_eq!(item["properties"]["gap"]["type"], json!(["string", "null"]));
    }
}
