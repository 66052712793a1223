//! Cursors: where the next page of a list begins.

use data_encoding::HEXLOWER;
use folio_memory::canonical_json;
use folio_memory::{Confidence, Entry, EntryQuery, Order, Seq, SpaceName, Timestamp};
use sha2::{Digest, Sha256};

use crate::error::StoreError;

/// Where the last answer ended, and the state of memory from which it was given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) after: After,
    pub(crate) as_of: Seq,
    /// The time of the first page: an entry that expires between two pages is on both or on neither (M7.2.15). `None`
    /// in a cursor of a version that did not include it.
    pub(crate) at: Option<Timestamp>,
    /// How many entries matched at the first page, counted once for all pages. `None` in a cursor of a version that
    /// counted for every page.
    pub(crate) total: Option<u64>,
}

/// The last entry that was returned, with what the orders compare.
#[derive(Debug, Clone, Copy)]
pub(crate) struct After {
    pub(crate) number: u64,
    pub(crate) rank: u32,
    pub(crate) sureness: f64,
}

impl After {
    /// The position of `entry` in an answer to `query`.
    pub(crate) fn of(query: &EntryQuery, entry: &Entry) -> Self {
        Self {
            number: entry.handle.0,
            rank: query.ranks.of(entry.fields.type_name.as_deref()),
            sureness: entry.fields.confidence.map_or(0.0, Confidence::value),
        }
    }

    /// Whether `entry` comes after this position in an answer to `query`.
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
    /// The cursor as the text that callers receive.
    pub(crate) fn to_text(self, binding: &str) -> String {
        let After { number, rank, sureness } = self.after;
        let sureness = sureness.to_bits();
        let at = self.at.map(|at| format!(".{}", at.as_nanos()));
        let total = self.total.filter(|_| at.is_some()).map(|total| format!(".{total}"));
        let (at, total) = (at.unwrap_or_default(), total.unwrap_or_default());
        format!("{binding}.{number}.{}.{rank}.{sureness:x}{at}{total}", self.as_of)
    }

    /// Parses a cursor that was issued for the query with this binding.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was issued for another query or is not a cursor.
    pub(crate) fn parse(text: &str, binding: &str) -> Result<Self, StoreError> {
        let no_cursor = || StoreError::no_cursor(text);
        let parts: Vec<&str> = text.split('.').collect();
        let (&[bound, number, as_of, rank, sureness], rest) = parts.split_first_chunk().ok_or_else(no_cursor)?;
        let (at, total) = match rest {
            [at, total] => (std::slice::from_ref(at), Some(total.parse().map_err(|_| no_cursor())?)),
            at => (at, None),
        };
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
            total,
        };
        if bound == binding {
            Ok(cursor)
        } else {
            Err(StoreError::other_query(text))
        }
    }
}

/// Which of the entries that changed since the first page have to be rebuilt for a page.
///
/// All of them, as long as the total number of matches is unknown. After that, a list by age needs only the entries
/// between the previous page and the last entry of this one. In a list by rank, the rank of an entry is known only once
/// it is rebuilt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RebuildScope {
    order: Order,
    /// The number after which the page begins, if only the entries of the page are wanted.
    after: Option<u64>,
    limit: usize,
}

/// How many entries are rebuilt at a time.
const REBUILD_BATCH: usize = 1_000;
/// The minimum for one page: the entries may all be of one commit, which the next batch reads again.
const MIN_REBUILD_BATCH: usize = 200;

impl RebuildScope {
    /// The part for the page with the first `limit` entries after `after`, of `total` matches.
    pub(crate) fn of(query: &EntryQuery, after: Option<After>, total: Option<u64>, limit: usize) -> Self {
        let by_age = query.order != Order::Priority;
        let after = after.filter(|_| by_age && total.is_some());
        Self {
            order: query.order,
            after: after.map(|after| after.number),
            limit,
        }
    }

    /// The part of `changed`, which is sorted by number, that may belong to the page.
    pub(crate) fn of_changed<'c, T>(&self, changed: &'c [T], number: impl Fn(&T) -> u64) -> &'c [T] {
        match (self.after, self.order) {
            (None, _) => changed,
            (Some(after), Order::Oldest) => &changed[changed.partition_point(|one| number(one) <= after)..],
            (Some(after), _) => &changed[..changed.partition_point(|one| number(one) < after)],
        }
    }

    /// The same in chunks, in the order of the list.
    pub(crate) fn chunks<'c, T>(&self, changed: &'c [T]) -> Box<dyn Iterator<Item = &'c [T]> + Send + 'c>
    where
        T: Sync,
    {
        let size = self.after.map_or(REBUILD_BATCH, |_| self.limit.max(MIN_REBUILD_BATCH));
        match self.order {
            Order::Oldest => Box::new(changed.chunks(size)),
            _ => Box::new(changed.rchunks(size)),
        }
    }

    /// Whether the page, which has `items` so far, is full before any entry of `chunk` comes.
    pub(crate) fn ends_before<T>(&self, chunk: &[T], items: &[Entry], number: impl Fn(&T) -> u64) -> bool {
        let last = items
            .last()
            .filter(|_| self.after.is_some() && items.len() >= self.limit);
        last.is_some_and(|last| match self.order {
            Order::Oldest => chunk.first().is_some_and(|first| number(first) > last.handle.0),
            _ => chunk.last().is_some_and(|first| number(first) < last.handle.0),
        })
    }
}

/// The time of the first page, which the cursor `text` of any list or search carries.
pub(crate) fn time_in(text: &str) -> Option<Timestamp> {
    let parts: Vec<&str> = text.split('.').collect();
    // Those of a search are shorter.
    let ([_, _, _, at] | [_, _, _, _, _, at] | [_, _, _, _, _, at, _]) = parts[..] else {
        return None;
    };
    at_of(&[at]).flatten()
}

/// The time in the last part of a cursor, if there is such a part; `None` if the part is malformed or more follows.
pub(crate) fn at_of(parts: &[&str]) -> Option<Option<Timestamp>> {
    match parts {
        [] => Some(None),
        [at] => Some(Some(Timestamp::from_nanos(at.parse().ok()?))),
        _ => None,
    }
}

/// What a cursor is bound to: the space and all of the query except its cursor and limit.
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
