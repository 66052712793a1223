//! A list that may go on.

use std::borrow::Cow;
use std::marker::PhantomData;

use folio::memory::ListAnswer;
use folio::memory::tokens::{Estimate, Tokens as _};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// The shape of every list (M7.2.15).
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "ListOf{T}")]
pub struct List<T> {
    /// What is asked for, in the order that is asked for.
    pub items: Vec<T>,
    /// How many are given.
    pub returned: usize,
    /// How many match altogether; null where that is not counted.
    pub total: Option<u64>,
    /// Whether more than `total` match: so many are counted, and no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// What to ask with, as `cursor`, to go on; null at the end.
    pub next: Option<String>,
    /// The commit up to which the answer knows.
    pub as_of: u64,
    /// What the items cost a model that reads them as JSON, by an estimate.
    pub tokens: u64,
}

impl<T: Serialize> List<T> {
    /// `answer` with its items in their wire form.
    pub fn of<E>(answer: &ListAnswer<E>, item: impl Fn(&E) -> T) -> Self {
        Self::scored(answer, |entry, _| item(entry))
    }

    /// The same where an item says how well it fits what was asked for, if a text was.
    pub fn scored<E>(answer: &ListAnswer<E>, item: impl Fn(&E, Option<f64>) -> T) -> Self {
        let scores = answer.scores.iter().copied().map(Some).chain(std::iter::repeat(None));
        let items = answer.items.iter().zip(scores);
        let items = items.map(|(entry, score)| item(entry, score)).collect();
        Self {
            at_least: answer.at_least,
            ..Self::new(items, Some(answer.total), answer.next.clone(), answer.as_of.0)
        }
    }

    /// All there is.
    #[must_use]
    pub fn whole(items: Vec<T>, as_of: u64) -> Self {
        let total = items.len() as u64;
        Self::new(items, Some(total), None, as_of)
    }

    /// The first `limit` of `items`; if there are more, `name` gives what the next question goes on after.
    pub fn part(mut items: Vec<T>, limit: u32, as_of: u64, name: impl Fn(&T) -> String) -> Self {
        let limit = limit as usize;
        let goes_on = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| goes_on).map(name);
        Self::new(items, None, next, as_of)
    }

    /// The same of a list that may have been gone on with after a `cursor`: if it was not, and does not go on, these are all.
    #[must_use]
    pub fn from_start(self, is_start: bool) -> Self {
        let is_all = is_start && self.next.is_none();
        let total = is_all.then_some(self.returned as u64).or(self.total);
        Self { total, ..self }
    }

    /// The first `limit` of `items`, of which one more was asked for: if it is there, more than `limit` match, and nobody counted them.
    pub fn first(mut items: Vec<T>, limit: u32, as_of: u64) -> Self {
        let limit = limit as usize;
        let at_least = items.len() > limit;
        items.truncate(limit);
        Self {
            at_least,
            ..Self::whole(items, as_of)
        }
    }

    fn new(items: Vec<T>, total: Option<u64>, next: Option<String>, as_of: u64) -> Self {
        let mut json = Vec::new();
        let mut costs = |item: &T| {
            json.clear();
            let written = serde_json::to_writer(&mut json, item).ok();
            let text = written.and_then(|()| std::str::from_utf8(&json).ok());
            text.map_or(0, |text| u64::from(Estimate.count(text)))
        };
        Self {
            returned: items.len(),
            tokens: items.iter().map(&mut costs).sum(),
            items,
            total,
            at_least: false,
            next,
            as_of,
        }
    }
}

/// A `T` that was written as JSON once and is read as often as needed: by who counts its tokens, and by who sends it. Compact, so it is for
/// programs.
#[derive(Debug, Clone)]
pub struct AsJson<T> {
    json: Box<RawValue>,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize> AsJson<T> {
    /// `value`, written. What cannot be written is null, as nothing here is that cannot.
    pub fn of(value: &T) -> Self {
        Self {
            json: serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            of: PhantomData,
        }
    }
}

impl<T> Serialize for AsJson<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl<T: JsonSchema> JsonSchema for AsJson<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
