//! What the arguments of tools may hold. A plan is held against it before a run, and every call in it, so both take the same.

use folio_memory::excerpt::cut;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

/// Characters of a text that a message shows.
const SHOWN_CHARS: usize = 40;

/// The shape of one argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgKind {
    /// Any JSON value.
    Any,
    /// A string. A number is accepted too: a template that prints a version makes one.
    Text,
    /// A string, or a list of strings.
    Texts,
    /// A whole number that is not negative. A string of digits is accepted too: templates make those.
    Count,
    /// The same up to this number.
    UpTo(u64),
    /// A number, or a string that holds one.
    Number,
    /// `true` or `false`, or a string that says so.
    Flag,
    /// A list.
    List,
    /// An object.
    Object,
    /// One of a few words.
    OneOf(Vec<String>),
}

/// What an argument is to what its tool wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    /// It is taken as it is.
    AsIs,
    /// This is meant, and taken in its place.
    Meant(Value),
    /// It is not taken.
    Wrong,
}

impl ArgKind {
    /// Shorthand for [`ArgKind::OneOf`].
    pub fn one_of(words: &[&str]) -> Self {
        Self::OneOf(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// The JSON Schema of such an argument, for whoever is to write one. More than that is taken: see [`fit`](Self::fit).
    #[must_use]
    pub fn schema(&self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Text => json!({"type": "string"}),
            Self::Texts => {
                json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
            }
            Self::Count => json!({"type": "integer", "minimum": 0}),
            Self::UpTo(most) => json!({"type": "integer", "minimum": 0, "maximum": most}),
            Self::Number => json!({"type": "number"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::List => json!({"type": "array"}),
            Self::Object => json!({"type": "object"}),
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
        }
    }

    /// Whether `value` is taken for such an argument, as it is or as what is meant by it.
    #[must_use]
    pub fn fit(&self, value: &Value) -> Fit {
        let fits = match self {
            Self::Any => true,
            Self::Text => value.is_string(),
            Self::Texts => match value {
                Value::String(_) => true,
                Value::Array(items) => items.iter().all(Value::is_string),
                _ => false,
            },
            Self::Count => value.is_u64(),
            Self::UpTo(most) => value.as_u64().is_some_and(|number| number <= *most),
            Self::Number => value.is_number(),
            Self::Flag => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
            Self::OneOf(words) => value
                .as_str()
                .is_some_and(|given| words.iter().any(|word| word == given)),
        };
        if fits {
            return Fit::AsIs;
        }
        let meant = match (self, value) {
            (Self::Count, Value::String(text)) => text.trim().parse::<u64>().ok().map(Value::from),
            (Self::Count, Value::Number(number)) => whole(number).map(Value::from),
            (Self::UpTo(most), value) => match Self::Count.fit(value) {
                Fit::Meant(number) if number.as_u64().is_some_and(|number| number <= *most) => Some(number),
                _ => None,
            },
            (Self::Number, Value::String(text)) => number(text.trim()),
            (Self::Flag, Value::String(text)) => flag(text.trim()),
            (Self::Text, Value::Number(number)) => Some(Value::String(number.to_string())),
            _ => None,
        };
        meant.map_or(Fit::Wrong, Fit::Meant)
    }

    /// Why `value` is not taken for the argument `name`.
    #[must_use]
    pub fn refusal(&self, name: &str, value: &Value) -> String {
        let wanted = match self {
            Self::Any => "any value".to_owned(),
            Self::Text => "a string".to_owned(),
            Self::Texts => "a string or a list of strings".to_owned(),
            Self::Count => "a whole number that is not negative".to_owned(),
            Self::UpTo(most) => format!("a whole number from 0 to {most}"),
            Self::Number => "a number".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::List => "a list".to_owned(),
            Self::Object => "an object".to_owned(),
            Self::OneOf(words) => one_of(words),
        };
        format!("`{name}` is {wanted}, not {}", brief(value))
    }
}

/// What is wrong with the arguments of a call that has to give exactly one of `names`, in words. Null is as good as nothing.
///
/// # Errors
///
/// `Missing` if it gives none of them, `Several` if it gives more than one.
pub fn check_choice(names: &[String], args: &Map<String, Value>) -> Result<(), Choice> {
    let is_given = |name: &&String| args.get(*name).is_some_and(|value| !value.is_null());
    let words = || {
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        one_of(&quoted)
    };
    match names.iter().filter(is_given).count() {
        0 if !names.is_empty() => Err(Choice::Missing(format!("{} has to be given", words()))),
        0 | 1 => Ok(()),
        _ => Err(Choice::Several(format!("only {} can be given", words()))),
    }
}

/// How a call fails to give exactly one of some arguments, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// It gives none of them.
    Missing(String),
    /// It gives more than one.
    Several(String),
}

/// `args` with what is meant by texts where `schema` wants a number or a truth value: a template makes `"20"` where 20 is meant. `None` if
/// nothing changes.
#[must_use]
pub fn as_meant(schema: &Value, args: &Map<String, Value>) -> Option<Map<String, Value>> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let meant = |(name, value): (&String, &Value)| {
        let text = value.as_str()?.trim();
        let meant = match properties.get(name)?.get("type")?.as_str()? {
            "integer" => text.parse::<i64>().ok().map(Value::from),
            "number" => number(text),
            "boolean" => flag(text),
            _ => None,
        };
        Some((name.clone(), meant?))
    };
    let meant: Vec<(String, Value)> = args.iter().filter_map(meant).collect();
    if meant.is_empty() {
        return None;
    }
    let mut changed = args.clone();
    changed.extend(meant);
    Some(changed)
}

/// What a value is, with its article, for messages.
#[must_use]
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// `a`, `a or b`, `a, b or c`.
pub fn one_of<S: AsRef<str>>(words: &[S]) -> String {
    match words {
        [] => "there is none".to_owned(),
        [only] => format!("it is {}", only.as_ref()),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("one of {} or {}", most.join(", "), last.as_ref())
        }
    }
}

/// The value itself if it is short, so that a message shows what was given.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
        Value::String(text) => Value::from(cut(text, SHOWN_CHARS)).to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// `20.0`, which some languages write for 20.
fn whole(number: &Number) -> Option<u64> {
    let text = number.to_string();
    text.strip_suffix(".0")?.parse().ok()
}

fn number(text: &str) -> Option<Value> {
    text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number)
}

fn flag(text: &str) -> Option<Value> {
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => None,
    }
}
