//! Where a list goes on.

use data_encoding::HEXLOWER;
use folio_memory::canonical_json;
use folio_memory::{Confidence, Entry, EntryQuery, Order, Seq, SpaceName, Timestamp};
use sha2::{Digest, Sha256};

use crate::error::StoreError;

/// Where an answer ended, and the state of memory that it was given from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) after: After,
    pub(crate) as_of: Seq,
    /// The instant that the first page was of: what ends between two pages is on both or on neither (M7.2.15). None from a version that did
    /// not say so.
    pub(crate) at: Option<Timestamp>,
}

/// The last entry that was given, as far as orders look at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct After {
    pub(crate) number: u64,
    pub(crate) rank: u32,
    pub(crate) sureness: f64,
}

impl After {
    /// `entry`, in an answer to `query`.
    pub(crate) fn of(query: &EntryQuery, entry: &Entry) -> Self {
        Self {
            number: entry.handle.0,
            rank: query.ranks.of(entry.fields.type_name.as_deref()),
            sureness: entry.fields.confidence.map_or(0.0, Confidence::value),
        }
    }

    /// Whether `entry` comes after it in an answer to `query`.
    pub(crate) fn is_before(&self, query: &EntryQuery, entry: &Entry) -> bool {
        let other = Self::of(query, entry);
        let newer = self.number.cmp(&other.number);
        let order = match query.order {
            Order::Relevance | Order::Newest => newer.reverse(),
            Order::Oldest => newer,
            Order::Priority => self
                .rank
                .cmp(&other.rank)
                .then_with(|| other.sureness.total_cmp(&self.sureness))
                .then(newer.reverse()),
        };
        order.is_lt()
    }
}

impl Cursor {
    /// As it is handed out.
    pub(crate) fn to_text(self, binding: &str) -> String {
        let After { number, rank, sureness } = self.after;
        let sureness = sureness.to_bits();
        let at = self.at.map(|at| format!(".{}", at.as_nanos())).unwrap_or_default();
        format!("{binding}.{number}.{}.{rank}.{sureness:x}{at}", self.as_of)
    }

    /// Reads what was handed out for the query with this binding.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was not, or is no cursor at all.
    pub(crate) fn parse(text: &str, binding: &str) -> Result<Self, StoreError> {
        let no_cursor = || StoreError::no_cursor(text);
        let parts: Vec<&str> = text.split('.').collect();
        let (&[bound, number, as_of, rank, sureness], at) = parts.split_first_chunk().ok_or_else(no_cursor)?;
        let at = at_of(at).ok_or_else(no_cursor)?;
        let cursor = Self {
            after: After {
                number: number.parse().map_err(|_| no_cursor())?,
                rank: rank.parse().map_err(|_| no_cursor())?,
                sureness: u64::from_str_radix(sureness, 16)
                    .map(f64::from_bits)
                    .map_err(|_| no_cursor())?,
            },
            as_of: Seq(as_of.parse().map_err(|_| no_cursor())?),
            at,
        };
        if bound == binding {
            Ok(cursor)
        } else {
            Err(StoreError::Invalid(format!(
                "the cursor {text:?} belongs to another query"
            )))
        }
    }
}

/// The instant that the last part of a cursor says, if it has one; `None` if that is none, or if there is more.
pub(crate) fn at_of(parts: &[&str]) -> Option<Option<Timestamp>> {
    match parts {
        [] => Some(None),
        [at] => Some(Some(Timestamp::from_nanos(at.parse().ok()?))),
        _ => None,
    }
}

/// What a cursor is bound to: the space and everything of the query but where to go on and how far.
pub(crate) fn binding(name: &SpaceName, query: &EntryQuery) -> Result<String, StoreError> {
    let query = EntryQuery {
        cursor: None,
        limit: 0,
        ..query.clone()
    };
    let text = canonical_json(&(name, query)).map_err(|error| StoreError::Invalid(error.to_string()))?;
    Ok(HEXLOWER.encode(&Sha256::digest(text.as_bytes())[..8]))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_query_is_the_same_query_in_any_order_of_its_keys() {
        let of = |text: &str| {
            let context: Value = serde_json::from_str(text).unwrap();
            let query = EntryQuery {
                context: vec![("a".to_owned(), context)],
                ..EntryQuery::default()
            };
            binding(&SpaceName::main(), &query).unwrap()
        };
        assert_eq!(of(r#"{"b": 1, "a": 2}"#), of(r#"{"a": 2, "b": 1}"#));
    }
}
