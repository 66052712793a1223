//! The text of a plan as a tree that knows the place of every value.

use std::fmt;
use std::ops::Deref;

use folio_memory::excerpt::cut;
use serde_json::{Map, Number, Value};

use super::errors::{PlanError, code};
use super::{Place, json, yaml};

/// How deeply lists and objects may be nested.
pub(super) const DEPTH_MAX: usize = 64;
/// The longest text, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;
/// The most values, counting those that an alias repeats each time.
pub(super) const VALUES_MAX: usize = 200_000;
/// The most characters of a number that a message shows.
const NUMBER_CHARS: usize = 40;

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) tree: Tree,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(WrittenNumber),
    String(String),
    List(Vec<Node>),
    Object(Vec<Entry>),
}

/// A number together with how it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WrittenNumber {
    number: Number,
    /// How it was written, if it would not be printed the same way.
    spelling: Option<Box<str>>,
}

impl WrittenNumber {
    pub(super) fn new(number: Number, written: &str) -> Self {
        let spelling = (number.to_string() != written).then(|| written.into());
        Self { number, spelling }
    }

    /// How it was written, if printing the number gives another text: `007` becomes 7.
    pub(super) fn spelling(&self) -> Option<&str> {
        self.spelling.as_deref()
    }
}

impl From<Number> for WrittenNumber {
    fn from(number: Number) -> Self {
        Self { number, spelling: None }
    }
}

impl Deref for WrittenNumber {
    type Target = Number;

    fn deref(&self) -> &Number {
        &self.number
    }
}

impl fmt::Display for WrittenNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) value: Node,
}

impl Node {
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.tree {
            Tree::Object(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// The items, if this is a list.
    pub(super) fn items(&self) -> Option<&[Self]> {
        match &self.tree {
            Tree::List(items) => Some(items),
            _ => None,
        }
    }

    /// Whether the value equals the text or number `text`.
    pub(super) fn equals_text(&self, text: &str) -> bool {
        match &self.tree {
            Tree::String(own) => own == text,
            Tree::Number(number) => number.to_string() == text,
            Tree::Null | Tree::Bool(_) | Tree::List(_) | Tree::Object(_) => false,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        match &self.tree {
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Number(number) => Value::Number(number.number.clone()),
            Tree::String(text) => Value::String(text.clone()),
            Tree::List(items) => items.iter().map(Self::to_json).collect(),
            Tree::Object(entries) => {
                let entries = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
                let mut entries: Map<_, _> = entries.collect();
                entries.sort_keys();
                Value::Object(entries)
            }
        }
    }

    /// The tree of a value that was never text; every place is 1:1.
    pub(super) fn of_json(value: &Value) -> Self {
        let place = START;
        let tree = match value {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Number(number) => Tree::Number(number.clone().into()),
            Value::String(text) => Tree::String(text.clone()),
            Value::Array(items) => Tree::List(items.iter().map(Self::of_json).collect()),
            Value::Object(entries) => Tree::Object(
                entries
                    .iter()
                    .map(|(key, value)| Entry {
                        key: key.clone(),
                        place,
                        value: Self::of_json(value),
                    })
                    .collect(),
            ),
        };
        Self { place, tree }
    }

    /// The kind of value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.tree {
            Tree::Null => "nothing",
            Tree::Bool(_) => "a boolean",
            Tree::Number(_) => "a number",
            Tree::String(_) => "a text",
            Tree::List(_) => "a list",
            Tree::Object(_) => "an object",
        }
    }
}

pub(super) const START: Place = Place { line: 1, column: 1 };

/// A tree, and the mistakes that did not prevent reading it.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) root: Node,
    pub(super) errors: Vec<PlanError>,
}

/// Reads YAML or JSON.
pub(super) fn read(text: &str) -> Result<Reading, PlanError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the plan has {} bytes; at most {TEXT_BYTES_MAX} are read", text.len());
        return Err(unreadable(START, message));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml::read(text);
    }
    // YAML includes nearly all of JSON, but not its surrogate pairs, and its messages about JSON are confusing. If a
    // text is neither, the reader that got further reports the mistake.
    json::read(text).or_else(|as_json| {
        yaml::read(text).map_err(|as_yaml| {
            if as_yaml.place > as_json.place {
                as_yaml
            } else {
                as_json
            }
        })
    })
}

pub(super) fn unreadable(place: Place, message: impl Into<String>) -> PlanError {
    PlanError {
        code: code::UNREADABLE,
        place,
        path: String::new(),
        message: message.into(),
        hint: None,
    }
}

/// The message that a whole number would lose digits.
pub(super) fn too_many_digits(number: &str) -> String {
    let number = cut(number, NUMBER_CHARS);
    format!("`{number}` has more digits than a number keeps{AS_A_TEXT}")
}

/// What can be done about that where a text may stand.
pub(super) const AS_A_TEXT: &str = "; put it in quotes to keep all of them as a text";

pub(super) fn duplicate_key(place: Place, key: &str, first: Place) -> PlanError {
    PlanError {
        code: code::DUPLICATE_KEY,
        place,
        path: String::new(),
        message: format!("the key `{key}` is already at {first}"),
        hint: None,
    }
}

pub(super) fn too_deep(place: Place) -> PlanError {
    unreadable(
        place,
        format!("lists and objects are nested more than {DEPTH_MAX} deep"),
    )
}

pub(super) fn too_many(place: Place) -> PlanError {
    unreadable(
        place,
        format!("there are more than {VALUES_MAX} values, repeated ones counted each time"),
    )
}
