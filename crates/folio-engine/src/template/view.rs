//! Converts JSON values to values of the template language and back, without copying what is not read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use folio_memory::excerpt::one_line;
use minijinja::value::{Enumerator, Object, ObjectRepr, Value as Seen, ValueKind};
use minijinja::{Error, ErrorKind, Output, State};
use serde_json::{Map, Number, Value};

use super::source::Source;
use super::{Scope, bounds};
use crate::lines::{data_block, ends_line, without_middle};
use crate::node::NodeId;

/// The detail of an error that says that a limit of size was reached.
pub(super) const TOO_LARGE: &str = "too large";

/// The names under which the formatter finds a [`Told`]. No template can write them.
const TOLD_MAX: &str = "longest excerpt";
const TOLD_REST: &str = "rest of an excerpt";
const TOLD_BREAKS: &str = "breaks of others";
/// The goal and the inputs of the run, under names that no variable of a template can hide.
const GIVEN_GOAL: &str = "goal as given";
const GIVEN_INPUTS: &str = "inputs as given";

/// The most items of an input that a text is compared with.
const ITEMS_COMPARED: usize = 200;

/// How what an expression yields is put into a text that somebody is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// The most characters; more are cut in the middle.
    pub(crate) max: usize,
    /// How the rest is read; empty if the reader cannot read it.
    pub(crate) rest: &'static str,
    pub(crate) breaks: Breaks,
}

impl Told {
    /// Nothing is cut.
    pub(crate) fn whole(breaks: Breaks) -> Self {
        Self {
            max: usize::MAX,
            rest: "",
            breaks,
        }
    }
}

/// What becomes of a text with line breaks, unless it is an input, an item of an input, or the goal: with its lines,
/// whoever wrote it could imitate those that stand around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaks {
    /// It stays as it is.
    Kept,
    /// It is put on one line.
    OneLine,
    /// It is fenced as data that this node is told.
    Fenced(NodeId),
}

/// Everything that the template may name, limited to what it does name, and how much of an expression it puts into the
/// text, if that is limited.
pub(super) fn context(scope: &Scope, source: &Source, told: Option<Told>) -> Seen {
    let results = match source.named_results() {
        // A run can have thousands of results, and a template reads only a few of them.
        Some(names) => {
            let entry = |name: &String| scope.results.get_key_value(name);
            let entries = names.iter().filter_map(entry);
            entries
                .map(|(name, result)| (name.clone(), Arc::clone(result)))
                .collect()
        }
        None => scope.results.clone(),
    };
    Seen::from_object(Root {
        inputs: Arc::clone(&scope.inputs),
        variables: scope.variables.clone(),
        results: Arc::new(Results(results)),
        told,
    })
}

#[derive(Debug)]
struct Root {
    inputs: Arc<Value>,
    variables: Vec<(String, Arc<Value>)>,
    results: Arc<Results>,
    told: Option<Told>,
}

impl Object for Root {
    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Seen> {
        match key {
            "inputs" | GIVEN_INPUTS => Some(Branch::of(&self.inputs)),
            // Of several with this name, the first is that of the run.
            GIVEN_GOAL => {
                let (_, goal) = self.variables.iter().find(|(variable, _)| variable == "goal")?;
                Some(Branch::of(goal))
            }
            "results" => Some(Seen::from_dyn_object(Arc::clone(&self.results))),
            TOLD_MAX => self.told.map(|told| Seen::from(told.max)),
            TOLD_REST => self.told.map(|told| Seen::from(told.rest)),
            TOLD_BREAKS => match self.told?.breaks {
                Breaks::Kept => None,
                Breaks::OneLine => Some(Seen::from("")),
                Breaks::Fenced(node) => Some(Seen::from(node.to_string())),
            },
            name => {
                let (_, value) = self.variables.iter().rev().find(|(variable, _)| variable == name)?;
                Some(Branch::of(value))
            }
        }
    }
}

#[derive(Debug)]
struct Results(BTreeMap<String, Arc<Value>>);

impl Object for Results {
    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        self.0.get(key.as_str()?).map(Branch::of)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.keys().map(|slug| Seen::from(slug.as_str())).collect())
    }
}

/// A list or an object somewhere inside a JSON value.
#[derive(Debug)]
struct Branch {
    root: Arc<Value>,
    path: Vec<Segment>,
}

#[derive(Debug, Clone)]
enum Segment {
    Key(Arc<str>),
    Index(usize),
}

impl Branch {
    fn of(root: &Arc<Value>) -> Seen {
        leaf(root).unwrap_or_else(|| {
            Seen::from_object(Self {
                root: Arc::clone(root),
                path: Vec::new(),
            })
        })
    }

    fn current_value(&self) -> &Value {
        let mut value = &*self.root;
        for segment in &self.path {
            let below = match segment {
                Segment::Key(key) => value.get(&**key),
                Segment::Index(at) => value.get(*at),
            };
            value = below.expect("a branch is only made for a value that is there");
        }
        value
    }

    fn below(&self, value: &Value, segment: impl FnOnce() -> Segment) -> Seen {
        leaf(value).unwrap_or_else(|| {
            let mut path = Vec::with_capacity(self.path.len() + 1);
            path.extend_from_slice(&self.path);
            path.push(segment());
            Seen::from_object(Self {
                root: Arc::clone(&self.root),
                path,
            })
        })
    }
}

impl Object for Branch {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        if self.current_value().is_array() {
            ObjectRepr::Seq
        } else {
            ObjectRepr::Map
        }
    }

    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        match self.current_value() {
            Value::Array(items) => {
                let at = key.as_usize()?;
                Some(self.below(items.get(at)?, || Segment::Index(at)))
            }
            _ => self.get_value_by_str(key.as_str()?),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Seen> {
        Some(self.below(self.current_value().as_object()?.get(key)?, || {
            Segment::Key(Arc::from(key))
        }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.current_value() {
            Value::Array(items) => Enumerator::Seq(items.len()),
            // Sorted, so that the output of a template does not depend on the order in which an object was written.
            Value::Object(entries) => {
                let names = entries.keys().collect::<BTreeSet<_>>();
                Enumerator::Values(names.into_iter().map(|key| Seen::from(key.as_str())).collect())
            }
            _ => Enumerator::NonEnumerable,
        }
    }
}

/// Converts what is neither a list nor an object; this is copied.
fn leaf(value: &Value) -> Option<Seen> {
    Some(match value {
        Value::Null => Seen::from(()),
        Value::Bool(value) => Seen::from(*value),
        Value::Number(number) => {
            if let Some(whole) = number.as_u64() {
                Seen::from(whole)
            } else if let Some(whole) = number.as_i64() {
                Seen::from(whole)
            } else {
                Seen::from(number.as_f64()?)
            }
        }
        Value::String(text) => Seen::from(text.as_str()),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// The value of an expression as JSON. Subtracts its size in bytes from `room`.
pub(super) fn to_json(seen: &Seen, room: &mut usize, depth_left: usize) -> Result<Value, Error> {
    let too_large = || Error::new(ErrorKind::InvalidOperation, TOO_LARGE);
    if let Some(branch) = seen.downcast_object_ref::<Branch>() {
        let value = branch.current_value();
        *room = room.checked_sub(json_bytes(value)).ok_or_else(too_large)?;
        let mut value = value.clone();
        value.sort_all_objects();
        return Ok(value);
    }
    let depth_left = depth_left
        .checked_sub(1)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "it is nested too deeply"))?;
    let value = match seen.kind() {
        ValueKind::Undefined => return Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(seen.is_true()),
        ValueKind::Number => Value::Number(number(seen)?),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in seen.try_iter()?.checked() {
                *room = room.checked_sub(2).ok_or_else(too_large)?;
                items.push(to_json(&item?, room, depth_left)?);
            }
            return Ok(Value::Array(items));
        }
        ValueKind::Map => {
            let mut entries = Map::new();
            for key in seen.try_iter()?.checked() {
                let key = key?;
                let entry = to_json(&seen.get_item(&key)?, room, depth_left)?;
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                *room = room.checked_sub(key.len() + 4).ok_or_else(too_large)?;
                entries.insert(key, entry);
            }
            entries.sort_keys();
            return Ok(Value::Object(entries));
        }
        ValueKind::Invalid => {
            seen.clone().try_iter()?;
            Value::Null
        }
        _ => Value::String(seen.as_str().map_or_else(|| seen.to_string(), str::to_owned)),
    };
    *room = room.checked_sub(json_bytes(&value)).ok_or_else(too_large)?;
    Ok(value)
}

fn number(seen: &Seen) -> Result<Number, Error> {
    let whole = || {
        u64::try_from(seen.clone())
            .map(Number::from)
            .or_else(|_| i64::try_from(seen.clone()).map(Number::from))
    };
    if seen.is_integer() {
        return whole()
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, format!("{seen} does not fit into 64 bits")));
    }
    Number::from_f64(f64::try_from(seen.clone())?).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("{seen} is not a number that JSON has"),
        )
    })
}

/// The approximate size of `value` as JSON in bytes; exact for texts without escapes.
pub(super) fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + json_bytes(item)).sum::<usize>(),
        Value::Object(entries) => {
            2 + entries
                .iter()
                .map(|(key, entry)| key.len() + 4 + json_bytes(entry))
                .sum::<usize>()
        }
    }
}

/// The approximate size of a value in bytes, if it is a part of the JSON that the template was given.
pub(super) fn bytes_of_branch(seen: &Seen) -> Option<usize> {
    seen.downcast_object_ref::<Branch>()
        .map(|branch| json_bytes(branch.current_value()))
}

/// Writes a value into text: lists and objects as compact JSON.
pub(super) fn format_value(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Seen) -> Result<(), Error> {
    let text = match value.kind() {
        ValueKind::None => "null".to_owned(),
        // Written as in JSON and shells.
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => compact_json(value)?,
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        // All other values are short.
        _ => return minijinja::escape_formatter(out, state, value),
    };
    let text = match state.lookup(TOLD_MAX).and_then(|max| max.as_usize()) {
        Some(max) if text.len() > max && !is_input(state, value) => {
            let rest = state.lookup(TOLD_REST).unwrap_or_default();
            without_middle(text, max, rest.as_str().unwrap_or_default())
        }
        _ => text,
    };
    let text = match state.lookup(TOLD_BREAKS) {
        Some(breaks) if text.contains(ends_line) && !is_given(state, value) => {
            without_breaks(text, breaks.as_str().unwrap_or_default())
        }
        _ => text,
    };
    // The output may be kept, as by `{% set x %}`.
    bounds::spend(state, text.len())?;
    out.write_str(&text).map_err(Error::from)
}

/// Whether `value` is one of the inputs, unchanged.
fn is_input(state: &State<'_, '_>, value: &Seen) -> bool {
    let Some(inputs) = state.lookup(GIVEN_INPUTS) else {
        return false;
    };
    let mut names = inputs.try_iter().into_iter().flatten();
    names.any(|name| inputs.get_item(&name).is_ok_and(|input| input == *value))
}

/// Whether `value` is a text that the user of the run gave: an input, an item of one, or the goal.
fn is_given(state: &State<'_, '_>, value: &Seen) -> bool {
    if state.lookup(GIVEN_GOAL).is_some_and(|goal| goal == *value) || is_input(state, value) {
        return true;
    }
    let Some(inputs) = state.lookup(GIVEN_INPUTS).filter(|_| value.kind() == ValueKind::String) else {
        return false;
    };
    let is_in = |list: Seen| {
        let items = list.try_iter().into_iter().flatten().take(ITEMS_COMPARED);
        items
            .filter(|item| item.kind() == ValueKind::String)
            .any(|item| item == *value)
    };
    let mut names = inputs.try_iter().into_iter().flatten();
    names.any(|name| {
        let input = inputs.get_item(&name).ok();
        input.filter(|input| input.kind() == ValueKind::Seq).is_some_and(is_in)
    })
}

/// A `text` of several lines as data that `node` is told, or on one line if no node is named.
fn without_breaks(text: String, node: &str) -> String {
    match node.parse() {
        Err(_) => one_line(&text),
        // A line end after the only line ends what is written around it.
        Ok(_) if !text.trim().contains(ends_line) => text,
        Ok(node) => format!("\n{}\n", data_block(node, text.trim_end_matches(ends_line))),
    }
}

/// The filter `json`.
pub(super) fn compact_json_filter(value: &Seen) -> Result<String, Error> {
    compact_json(value)
}

pub(super) fn compact_json(value: &Seen) -> Result<String, Error> {
    let mut room = super::OUTPUT_BYTES_MAX;
    Ok(to_json(value, &mut room, super::DEPTH_MAX)?.to_string())
}

/// The kind of a value, for messages.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
