//! Lists, which may continue on another page.

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
    /// The items, in the requested order.
    pub items: Vec<T>,
    /// The number of items in this answer.
    pub returned: usize,
    /// The number of all matches; null where they are not counted.
    pub total: Option<u64>,
    /// Whether more than `total` match: counting stopped at that number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The `cursor` for the next part of the list; null at the end.
    pub next: Option<String>,
    /// The last commit that the answer takes into account.
    pub as_of: u64,
    /// The estimated number of tokens that a model needs to read the items as JSON.
    pub tokens: u64,
}

/// `score` to six significant digits. The rest depends on the order in which a store adds up the words of a search.
fn rounded(score: f64) -> f64 {
    format!("{score:.5e}").parse().unwrap_or(score)
}

impl<T: Serialize> List<T> {
    /// Returns `answer` with its items in their wire form.
    pub fn of<E>(answer: &ListAnswer<E>, item: impl Fn(&E) -> T) -> Self {
        Self::scored(answer, |entry, _| item(entry))
    }

    /// The same, with each item's score if the query had a text.
    pub fn scored<E>(answer: &ListAnswer<E>, item: impl Fn(&E, Option<f64>) -> T) -> Self {
        let scores = answer.scores.iter().map(|score| Some(rounded(*score)));
        let scores = scores.chain(std::iter::repeat(None));
        let items = answer.items.iter().zip(scores);
        let items = items.map(|(entry, score)| item(entry, score)).collect();
        Self {
            at_least: answer.at_least,
            ..Self::new(items, Some(answer.total), answer.next.clone(), answer.as_of.0)
        }
    }

    /// Returns a complete list.
    #[must_use]
    pub fn whole(items: Vec<T>, as_of: u64) -> Self {
        let total = items.len() as u64;
        Self::new(items, Some(total), None, as_of)
    }

    /// Returns the first `limit` of `items`; if there are more, `name` of the last one gives the cursor for the next
    /// part.
    pub fn part(mut items: Vec<T>, limit: u32, as_of: u64, name: impl Fn(&T) -> String) -> Self {
        let limit = limit as usize;
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| has_more).map(name);
        Self::new(items, None, next, as_of)
    }

    /// Sets `total` if these are all items: if the list began without a cursor (`is_start`) and has no next part.
    #[must_use]
    pub fn from_start(self, is_start: bool) -> Self {
        let is_all = is_start && self.next.is_none();
        let total = is_all.then_some(self.returned as u64).or(self.total);
        Self { total, ..self }
    }

    /// Returns the first `limit` of `items`, of which one more was queried: if it is there, more than `limit` match,
    /// and the rest were not counted.
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

/// A `T` serialized to JSON once and then used both to count its tokens and to send it. The JSON is compact, so it is
/// for programs.
#[derive(Debug, Clone)]
pub struct AsJson<T> {
    json: Box<RawValue>,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize> AsJson<T> {
    /// Serializes `value`. A value that cannot be serialized would become null; no type used here has such values.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_have_six_significant_digits_and_small_ones_stay_above_zero() {
        let cases = [
            (1.583_517_022_976_792_8, "1.58352"),
            (1.583_517_022_976_793, "1.58352"),
            (0.000_001_234_567, "1.23457e-6"),
            (12.5, "12.5"),
        ];
        for (score, shown) in cases {
            assert_eq!(serde_json::to_string(&rounded(score)).unwrap(), shown);
        }
    }
}
