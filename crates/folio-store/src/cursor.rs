//! Cursors: where the next part of an answer begins.
//!
//! All have one form: what they are bound to, then their fields, joined by dots. They are read by the program that
//! issued them, or by one of the same version: they last as long as somebody reads a list, and no longer.
//!
//! - [`list`]: of lists of entries
//! - [`search`]: of searches for a text
//! - [`book`]: of the items of a scratchbook
//! - [`timeline`]: of the trace

pub(crate) mod book;
pub(crate) mod list;
pub(crate) mod search;
pub(crate) mod timeline;

use std::fmt::Display;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use folio_memory::canonical_json;
use folio_memory::excerpt::cut;
use folio_memory::{EntryQuery, Seq, SpaceName, Timestamp};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::StoreError;

/// The most characters of a text that an error quotes because it is not a cursor of the query.
const QUOTED_CHARS: usize = 128;

/// The state of memory that the first page of a list showed. All later pages show the same one (M7.2.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The last commit that counts.
    pub(crate) as_of: Seq,
    /// The time at which expiry is judged: an entry that expires between two pages is on both or on neither.
    pub(crate) at: Timestamp,
}

impl Snapshot {
    /// The state that an answer to `query` at `now` shows: that of its `first` page; otherwise that of the commit for
    /// which it asks; otherwise `newest`, the last commit that can be shown. No state lies in the future.
    pub(crate) fn shown(first: Option<Self>, query: &EntryQuery, newest: Seq, now: Timestamp) -> Self {
        let as_of = first.map(|first| first.as_of).or(query.as_of).unwrap_or(newest);
        Self {
            as_of: as_of.min(newest),
            at: first.map_or(now, |first| first.at).min(now),
        }
    }

    /// Whether this is a past state that `query` asks for by its commit, so that expiry has to be judged by the time
    /// of that commit. `head` is the last commit.
    pub(crate) fn is_requested_past(&self, query: &EntryQuery, head: Seq) -> bool {
        query.cursor.is_none() && query.as_of.is_some() && self.as_of < head
    }

    /// The state in the cursor `text` of a list, search or scratchbook.
    pub(crate) fn in_cursor(text: &str) -> Option<Self> {
        Fields::of(text).snapshot().ok()
    }
}

/// What a cursor is bound to: the space and all of the query except its cursor and limit.
///
/// # Errors
///
/// `Invalid` if the query cannot be expressed in JSON.
pub(crate) fn binding(name: &SpaceName, query: &EntryQuery) -> Result<String, StoreError> {
    let query = EntryQuery {
        cursor: None,
        limit: 0,
        ..query.clone()
    };
    binding_of(&(name, query))
}

fn binding_of(bound_to: &impl Serialize) -> Result<String, StoreError> {
    let text = canonical_json(bound_to).map_err(|error| StoreError::Invalid(error.to_string()))?;
    Ok(HEXLOWER.encode(&Sha256::digest(text.as_bytes())[..8]))
}

/// A cursor as text. No field but the last may contain a dot.
fn to_text(binding: &str, fields: &[&dyn Display]) -> String {
    let mut text = binding.to_owned();
    for field in fields {
        text.push_str(&format!(".{field}"));
    }
    text
}

/// The fields of a cursor, read one after the other.
struct Fields<'t> {
    text: &'t str,
    binding: &'t str,
    /// What has not been read, if there is more.
    rest: Option<&'t str>,
}

impl<'t> Fields<'t> {
    fn of(text: &'t str) -> Self {
        let (binding, rest) = match text.split_once('.') {
            Some((binding, rest)) => (binding, Some(rest)),
            None => (text, None),
        };
        Self { text, binding, rest }
    }

    /// The next field, as `parse` understands it.
    fn next_as<T>(&mut self, parse: impl FnOnce(&'t str) -> Option<T>) -> Result<T, StoreError> {
        let rest = self.rest.ok_or_else(|| self.is_no_cursor())?;
        let (field, rest) = match rest.split_once('.') {
            Some((field, rest)) => (field, Some(rest)),
            None => (rest, None),
        };
        self.rest = rest;
        parse(field).ok_or_else(|| self.is_no_cursor())
    }

    fn next<T: FromStr>(&mut self) -> Result<T, StoreError> {
        self.next_as(|field| field.parse().ok())
    }

    fn instant(&mut self) -> Result<Timestamp, StoreError> {
        self.next().map(Timestamp::from_nanos)
    }

    fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot {
            as_of: Seq(self.next()?),
            at: self.instant()?,
        })
    }

    /// All remaining fields, as `parse` understands them.
    fn rest_as<T>(&mut self, parse: impl FnOnce(&'t str) -> Option<T>) -> Result<T, StoreError> {
        let rest = self.rest.take().and_then(parse);
        rest.ok_or_else(|| self.is_no_cursor())
    }

    fn is_at_end(&self) -> bool {
        self.rest.is_none()
    }

    /// Checks that nothing is left, and that the cursor was issued for the query with this binding.
    fn end(self, binding: &str) -> Result<(), StoreError> {
        if self.rest.is_some() {
            return Err(self.is_no_cursor());
        }
        if self.binding != binding {
            let quoted = cut(self.text, QUOTED_CHARS);
            return Err(StoreError::Invalid(format!(
                "the cursor {quoted:?} belongs to another query"
            )));
        }
        Ok(())
    }

    fn is_no_cursor(&self) -> StoreError {
        StoreError::Invalid(format!("{:?} is not a cursor", cut(self.text, QUOTED_CHARS)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn cursor_binding_ignores_the_key_order_of_a_context_value() {
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
