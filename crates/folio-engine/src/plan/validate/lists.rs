//! Whether the value that a `for_each` iterates over is a list, as far as that is known before the run: from the type
//! of an input, the fields that every result has, and what a step declares about its output, by its tool or its
//! criteria (E9.1).

use serde_json::Value;

use super::Validator;
use super::names::{Frame, step_named};
use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::{Check, InputKind, Step, Task, Work};

/// The fields of a result other than its output; all of them are texts.
const TEXTS: [&str; 5] = ["task_id", "status", "notes", "severity", "stop_reason"];
/// Schema keywords that make it too complex to be followed here.
const BRANCHES: [&str; 9] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "dependentSchemas",
];

/// One part of a path after a name.
#[derive(Debug, PartialEq)]
enum Part<'r> {
    Key(&'r str),
    Index,
}

impl<'a> Validator<'a> {
    /// Reports an error if what `reference` names is certainly not a list.
    pub(super) fn check_is_list(&mut self, reference: &str, at: &At<'a>, frame: &Frame<'_>) {
        let path = parts(reference);
        let (why, hint) = match path.as_slice() {
            [Part::Key("inputs"), Part::Key(name)] => match self.plan.inputs.get(*name) {
                Some(spec) if spec.kind != InputKind::List => (
                    format!("the input `{name}` is {}, not a list", spec.kind.described()),
                    Some("give the input `type: list`".to_owned()),
                ),
                _ => return,
            },
            [Part::Key("results"), Part::Key(name), rest @ ..] => {
                let Some(step) = step_named(frame, name) else { return };
                match self.why_not_list(step, name, rest) {
                    Some(found) => found,
                    None => return,
                }
            }
            _ => return,
        };
        self.faults.add(at, code::NOT_A_LIST, why).hint = hint;
    }

    /// Why the value at `path` in the result of `step` is certainly not a list, with a hint where there is one; `None`
    /// if that is not certain.
    fn why_not_list(&self, step: &Step, name: &str, path: &[Part<'_>]) -> Option<(String, Option<String>)> {
        let output = match path {
            [] => {
                let hint = format!("its output is `results.{name}.output`");
                return Some((format!("`results.{name}` is a result, not a list"), Some(hint)));
            }
            [Part::Key("output"), rest @ ..] => rest,
            [Part::Key(text)] if TEXTS.contains(text) => {
                return Some((format!("`results.{name}.{text}` is a text, not a list"), None));
            }
            _ => return None,
        };
        match step {
            Step::Task(task) => self
                .declared(task)
                .find_map(|(source, schema)| schema_mismatch(schema, output).map(|(why, hint)| (source, why, hint)))
                .map(|(source, why, hint)| {
                    let hint = hint.map(|key| format!("`results.{name}.output.{key}` is one"));
                    (format!("{source} says that {why}"), hint)
                }),
            Step::Parallel(_) | Step::Sequence(_) if output.is_empty() => {
                let why = format!("`results.{name}.output` has the outputs of its steps by name; it is not a list");
                Some((why, None))
            }
            Step::Parallel(_) | Step::Sequence(_) | Step::ForEach(_) => None,
        }
    }

    /// The schemas declared for the output of `task`, each with who declares it.
    fn declared<'t>(&'t self, task: &'t Task) -> impl Iterator<Item = (String, &'t Value)> {
        let tool = match &task.work {
            Work::Do(call) => self.known.tools.as_ref().and_then(|tools| {
                let schema = tools.get(&call.tool)?.output.as_ref()?;
                Some((format!("the tool `{}`", call.tool), schema))
            }),
            Work::Plan(_) | Work::Model => None,
        };
        let criteria = task.criteria.iter().filter(|criterion| criterion.required);
        let criteria = criteria.filter_map(|criterion| match &criterion.check {
            Check::JsonSchema { schema, of: None } => Some((format!("the criterion `{}`", criterion.id), schema)),
            _ => None,
        });
        tool.into_iter().chain(criteria)
    }
}

/// The parts of a reference; empty if it is more than a path.
fn parts(reference: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for step in reference.trim().split('.') {
        let (key, indexes) = step.split_once('[').map_or((step, ""), |(key, rest)| (key, rest));
        let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if key.is_empty() || !key.chars().all(is_key) {
            return Vec::new();
        }
        parts.push(Part::Key(key));
        if indexes.is_empty() {
            continue;
        }
        for index in indexes.split('[') {
            let Some(index) = index.strip_suffix(']') else {
                return Vec::new();
            };
            let quoted = index
                .strip_prefix(['"', '\''])
                .and_then(|index| index.strip_suffix(['"', '\'']));
            parts.push(quoted.map_or(Part::Index, Part::Key));
        }
    }
    parts
}

/// What `schema` says the value at `path` is, if that is certainly not a list; and the name of a property there that is
/// one, as a hint.
fn schema_mismatch<'s>(schema: &'s Value, path: &[Part<'_>]) -> Option<(String, Option<&'s str>)> {
    let mut at = schema;
    for part in path {
        if is_open(at) {
            return None;
        }
        at = match part {
            Part::Index if may_have_type(at, "array") => at.get("items")?,
            Part::Key(key) if may_have_type(at, "object") => {
                match at.get("properties").and_then(|known| known.get(key)) {
                    Some(inner) => inner,
                    None if at.get("additionalProperties") == Some(&Value::Bool(false)) => {
                        return Some((format!("there is no `{key}`"), list_in(at)));
                    }
                    None => return None,
                }
            }
            Part::Index | Part::Key(_) => return Some((format!("this would be inside {}", kind(at)?), None)),
        };
    }
    if is_open(at) || may_have_type(at, "array") {
        return None;
    }
    let inside = if path.is_empty() { list_in(at) } else { None };
    Some((format!("this is {}, not a list", kind(at)?), inside))
}

/// Whether the schema uses keywords that cannot be followed here.
fn is_open(schema: &Value) -> bool {
    schema
        .as_object()
        .is_none_or(|schema| BRANCHES.iter().any(|word| schema.contains_key(*word)))
}

/// Whether a value of the type `name` may match `schema`, as far as its `type` says.
fn may_have_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => true,
    }
}

/// The types of `schema` in words.
fn kind(schema: &Value) -> Option<String> {
    let word = |name: &str| {
        Some(match name {
            "object" => "an object",
            "string" => "a text",
            "integer" | "number" => "a number",
            "boolean" => "yes or no",
            "null" => "nothing",
            "array" => "a list",
            _ => return None,
        })
    };
    match schema.get("type")? {
        Value::String(one) => word(one).map(str::to_owned),
        Value::Array(several) => {
            let words: Option<Vec<&str>> = several.iter().map(|one| word(one.as_str()?)).collect();
            Some(words?.join(" or "))
        }
        _ => None,
    }
}

/// The name of a property that is a list.
fn list_in(schema: &Value) -> Option<&str> {
    let known = schema.get("properties")?.as_object()?;
    let is_list = |schema: &Value| schema.get("type").is_some() && may_have_type(schema, "array");
    known
        .iter()
        .find_map(|(name, schema)| is_list(schema).then_some(name.as_str()))
}
