//! What the arguments of tools may hold. The same check applies to a plan before it runs and to every call in it.

use std::fmt;
use std::sync::Arc;

use folio_memory::excerpt::cut;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use crate::template::is_template;

/// The most characters of a text that a message shows.
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
    /// A list of strings. Numbers in it are accepted too.
    Words,
    /// A whole number that is not negative. A string of digits is accepted too: templates make those.
    Count,
    /// The same, up to this number.
    UpTo(u64),
    /// The same, from this number on.
    From(u64),
    /// A number, or a string that holds one.
    Number,
    /// The same, within these bounds (inclusive).
    Within(u64, u64),
    /// `true` or `false`, also as a string.
    Flag,
    /// A list.
    List,
    /// An object.
    Object,
    /// One of a few words.
    OneOf(Vec<String>),
}

/// How well a value fits an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    /// It is accepted unchanged.
    AsIs,
    /// It stands for this value, which is used instead.
    Meant(Value),
    /// It is not accepted.
    Wrong,
}

impl ArgKind {
    /// Shorthand for [`ArgKind::OneOf`].
    pub fn one_of(choices: &[&str]) -> Self {
        Self::OneOf(choices.iter().map(|word| (*word).to_owned()).collect())
    }

    /// The JSON Schema of such an argument, for whoever writes one. More is accepted than it says: see
    /// [`fit`](Self::fit).
    #[must_use]
    pub fn schema(&self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Text => json!({"type": "string"}),
            Self::Texts => {
                json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
            }
            Self::Words => json!({"type": "array", "items": {"type": "string"}}),
            Self::Count => json!({"type": "integer", "minimum": 0}),
            Self::From(min) => json!({"type": "integer", "minimum": min}),
            Self::Within(min, max) => json!({"type": "number", "minimum": min, "maximum": max}),
            Self::UpTo(max) => json!({"type": "integer", "minimum": 0, "maximum": max}),
            Self::Number => json!({"type": "number"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::List => json!({"type": "array"}),
            Self::Object => json!({"type": "object"}),
            Self::OneOf(choices) => json!({"type": "string", "enum": choices}),
        }
    }

    /// Whether `value` is accepted for such an argument, and as which value.
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
            Self::Words => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            Self::Count => value.is_u64(),
            Self::From(min) => value.as_u64().is_some_and(|number| number >= *min),
            Self::Within(min, max) => is_within(value, *min, *max),
            Self::UpTo(max) => value.as_u64().is_some_and(|number| number <= *max),
            Self::Number => value.is_number(),
            Self::Flag => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
            Self::OneOf(choices) => value
                .as_str()
                .is_some_and(|text| choices.iter().any(|word| word == text)),
        };
        if fits {
            return Fit::AsIs;
        }
        let coerced = match (self, value) {
            (Self::Count, Value::String(text)) => text.trim().parse::<u64>().ok().map(Value::from),
            (Self::Count, Value::Number(number)) => parse_whole_float(number).map(Value::from),
            (Self::UpTo(_) | Self::From(_), value) => self.coerced_within_bounds(Self::Count.fit(value)),
            (Self::Within(..), value) => self.coerced_within_bounds(Self::Number.fit(value)),
            (Self::Words, Value::Array(items)) => {
                let texts = items.iter().map(|item| match Self::Text.fit(item) {
                    Fit::AsIs => Some(item.clone()),
                    Fit::Meant(text) => Some(text),
                    Fit::Wrong => None,
                });
                texts.collect::<Option<Vec<_>>>().map(Value::Array)
            }
            (Self::Number, Value::String(text)) => number(text.trim()),
            (Self::Flag, Value::String(text)) => flag(text.trim()),
            (Self::Text, Value::Number(number)) => Some(Value::String(number.to_string())),
            _ => None,
        };
        coerced.map_or(Fit::Wrong, Fit::Meant)
    }

    /// The value that was meant, judged without the bounds, if it keeps to the bounds.
    fn coerced_within_bounds(&self, without: Fit) -> Option<Value> {
        match without {
            Fit::Meant(number) if self.fit(&number) == Fit::AsIs => Some(number),
            _ => None,
        }
    }

    /// Why `value` is not accepted for the argument `name`.
    #[must_use]
    pub fn refusal(&self, name: &str, value: &Value) -> String {
        let expected = match self {
            Self::Any => "any value".to_owned(),
            Self::Text => "a string".to_owned(),
            Self::Texts => "a string or a list of strings".to_owned(),
            Self::Words => "a list of strings".to_owned(),
            Self::Count => "a whole number that is not negative".to_owned(),
            Self::From(min) => format!("a whole number from {min} on"),
            Self::Within(min, max) => format!("a number from {min} to {max}"),
            Self::UpTo(max) => format!("a whole number from 0 to {max}"),
            Self::Number => "a number".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::List => "a list".to_owned(),
            Self::Object => "an object".to_owned(),
            Self::OneOf(choices) => choice_of(choices),
        };
        // In a list, one item is at fault.
        let bad_item = match (self, value) {
            (Self::Texts | Self::Words, Value::Array(items)) => {
                let is_text = |item: &Value| item.is_string() || *self == Self::Words && item.is_number();
                items.iter().position(|item| !is_text(item)).map(|at| (at, &items[at]))
            }
            _ => None,
        };
        match bad_item {
            Some((at, item)) => format!("`{name}` is {expected}, and its item {} is {}", at + 1, brief(item)),
            None => format!("`{name}` is {expected}, not {}", brief(value)),
        }
    }
}

/// The arguments of a call as a plan or a model wrote them. What the templates in a plan evaluate to is not known yet.
#[derive(Debug, Clone, Copy)]
pub struct CallArgs<'a> {
    args: &'a Map<String, Value>,
    has_templates: bool,
}

impl<'a> CallArgs<'a> {
    /// Arguments of a plan, in which strings may be templates.
    #[must_use]
    pub fn in_plan(args: &'a Map<String, Value>) -> Self {
        Self {
            args,
            has_templates: true,
        }
    }

    /// Arguments of a call that is about to be made, in which braces are only braces.
    #[must_use]
    pub fn in_call(args: &'a Map<String, Value>) -> Self {
        Self {
            args,
            has_templates: false,
        }
    }

    /// Whether something is given for `name`, whatever a template evaluates to. Null counts as not given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.args.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether `name` is present, even with null.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.args.contains_key(name)
    }

    /// The value that is given for `name`, if it is known.
    #[must_use]
    pub fn literal(&self, name: &str) -> Option<&'a Value> {
        let value = self.args.get(name).filter(|value| !value.is_null())?;
        (!self.has_templates || !holds_template(value)).then_some(value)
    }

    /// Whether more than one of `names` is surely given. Templates do not count, because they may evaluate to null.
    #[must_use]
    pub fn gives_several<S: AsRef<str>>(&self, names: &[S]) -> bool {
        let is_given = |name: &&S| self.literal(name.as_ref()).is_some();
        names.iter().filter(is_given).count() > 1
    }

    /// The text that is given for `name`, if it is known.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.literal(name)?.as_str()
    }

    /// The texts that are given for `name` and are known: one, or those of a list.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<&'a str> {
        let known = |value: &&Value| !self.has_templates || !holds_template(value);
        match self.args.get(name) {
            Some(Value::Array(items)) => items.iter().filter(known).filter_map(Value::as_str).collect(),
            one => one.into_iter().filter(known).filter_map(Value::as_str).collect(),
        }
    }
}

/// What is wrong with the arguments of a call, and with which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The name of the argument; empty if the mistake concerns several.
    pub argument: String,
    /// Why the tool does not accept it.
    pub why: String,
}

impl Mistake {
    /// A mistake in one argument.
    pub fn of(argument: &str, why: impl Into<String>) -> Self {
        Self {
            argument: argument.to_owned(),
            why: why.into(),
        }
    }

    /// A mistake in several arguments, or a missing one.
    pub fn of_call(why: impl Into<String>) -> Self {
        Self::of("", why)
    }
}

/// Finds mistakes in the known arguments of a call that their declarations do not cover: a pattern that cannot be
/// parsed, or arguments that belong together of which one is missing. It has to be fast: a plan may have thousands of
/// calls.
#[derive(Clone)]
pub struct CallCheck(Arc<Check>);

type Check = dyn Fn(CallArgs<'_>) -> Vec<Mistake> + Send + Sync;

impl CallCheck {
    /// A check that runs `check`.
    pub fn new(check: impl Fn(CallArgs<'_>) -> Vec<Mistake> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    /// The mistakes in `args`.
    #[must_use]
    pub fn mistakes(&self, args: CallArgs<'_>) -> Vec<Mistake> {
        (self.0)(args)
    }
}

impl fmt::Debug for CallCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallCheck")
    }
}

impl PartialEq for CallCheck {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CallCheck {}

/// Whether `value` is a template or contains one.
#[must_use]
pub fn holds_template(value: &Value) -> bool {
    match value {
        Value::String(text) => is_template(text),
        Value::Array(items) => items.iter().any(holds_template),
        Value::Object(fields) => fields.values().any(holds_template),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_within(value: &Value, min: u64, max: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "the bounds of arguments are small")]
    let bounds = min as f64..=max as f64;
    value.as_f64().is_some_and(|number| bounds.contains(&number))
}

/// Checks that a call gives exactly one of `names`. Null counts as not given. A template in a plan may evaluate to
/// null: it suffices where one is needed, and is not too many beside another.
///
/// # Errors
///
/// [`ChoiceError::Missing`] if it gives none of them, [`ChoiceError::Several`] if it gives more than one.
pub fn check_choice(names: &[String], args: CallArgs<'_>) -> Result<(), ChoiceError> {
    let describe_choices = || {
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        choice_of(&quoted)
    };
    if args.gives_several(names) {
        return Err(ChoiceError::Several(format!(
            "only {} can be given",
            describe_choices()
        )));
    }
    if !names.is_empty() && !names.iter().any(|name| args.has(name)) {
        return Err(ChoiceError::Missing(format!("{} has to be given", describe_choices())));
    }
    Ok(())
}

/// How a call fails to give exactly one of some arguments. The text is the message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChoiceError {
    /// It gives none of them.
    Missing(String),
    /// It gives more than one.
    Several(String),
}

/// `args` with texts replaced by what they mean where `schema` wants a number or a truth value, and numbers by their
/// texts where it wants a text: a template produces `"20"` where 20 is meant, or the reverse. `None` if nothing changes.
#[must_use]
pub fn coerce_to_schema(schema: &Value, args: &Map<String, Value>) -> Option<Map<String, Value>> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let coerce = |(name, value): (&String, &Value)| {
        let wanted = properties.get(name)?.get("type")?.as_str()?;
        let coerced = match (wanted, value) {
            ("integer", Value::String(text)) => text.trim().parse::<i64>().ok().map(Value::from),
            ("number", Value::String(text)) => number(text.trim()),
            ("boolean", Value::String(text)) => flag(text.trim()),
            ("string", Value::Number(number)) => Some(Value::from(number.to_string())),
            _ => None,
        };
        Some((name.clone(), coerced?))
    };
    let coerced: Vec<(String, Value)> = args.iter().filter_map(coerce).collect();
    if coerced.is_empty() {
        return None;
    }
    let mut coerced_args = args.clone();
    coerced_args.extend(coerced);
    Some(coerced_args)
}

/// What kind of value it is, with an article, for messages.
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

/// `it is a` for the one word `a`, `one of a, b or c` for several; `there is none` for none.
pub fn one_of<S: AsRef<str>>(choices: &[S]) -> String {
    match choices {
        [] => "there is none".to_owned(),
        [only] => format!("it is {}", only.as_ref()),
        [all_but_last @ .., last] => {
            let all_but_last: Vec<&str> = all_but_last.iter().map(AsRef::as_ref).collect();
            format!("one of {} or {}", all_but_last.join(", "), last.as_ref())
        }
    }
}

/// `a` for one word, `one of a, b or c` for several: what a sentence asks for.
fn choice_of<S: AsRef<str>>(choices: &[S]) -> String {
    match choices {
        [only] => only.as_ref().to_owned(),
        _ => one_of(choices),
    }
}

/// The value itself if it is short, so that a message shows what was given; otherwise what kind it is.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
        Value::String(text) => Value::from(cut(text, SHOWN_CHARS)).to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The whole number written as `20.0`, as some languages do.
fn parse_whole_float(number: &Number) -> Option<u64> {
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
