//! Cursors: where the next page of a list begins.

use data_encoding::HEXLOWER;
use folio_memory::canonical_json;
use folio_memory::{Confidence, Entry, EntryQuery, Order, Seq, SpaceName, Timestamp};
use sha2::{Digest, Sha256};

use crate::error::StoreError;
use crate::place::LAST_NUMBER;

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
    /// When it was last changed; only in lists by that.
    pub(crate) last_change: Option<(Timestamp, Seq)>,
}

impl After {
    /// The position before the first entry of an answer in an order by age or by last change.
    pub(crate) fn nothing(order: Order) -> Self {
        let number = match order {
            Order::Oldest => 0,
            _ => LAST_NUMBER,
        };
        Self {
            number,
            rank: 0,
            sureness: 0.0,
            last_change: (order == Order::LastChanged).then_some((Timestamp::MAX, Seq(LAST_NUMBER))),
        }
    }

    /// The position of `entry` in an answer to `query`.
    pub(crate) fn of(query: &EntryQuery, entry: &Entry) -> Self {
        Self {
            number: entry.handle.0,
            rank: query.ranks.of(entry.fields.type_name.as_deref()),
            sureness: entry.fields.confidence.map_or(0.0, Confidence::value),
            last_change: (query.order == Order::LastChanged).then_some((entry.updated_at, entry.updated_seq)),
        }
    }

    /// Whether `entry` comes after this position in an answer to `query`.
    pub(crate) fn is_before(&self, query: &EntryQuery, entry: &Entry) -> bool {
        let other = Self::of(query, entry);
        let newer = self.number.cmp(&other.number);
        let order = match query.order {
            Order::Relevance | Order::Newest => newer.reverse(),
            Order::Oldest => newer,
            Order::LastChanged => other.last_change.cmp(&self.last_change).then(newer.reverse()),
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
        let After { rank, sureness, .. } = self.after;
        let number = match self.after.last_change {
            Some((at, seq)) => format!("{}:{}:{seq}", self.after.number, at.as_nanos()),
            None => self.after.number.to_string(),
        };
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
        let (number, last_change) = place_of(number).ok_or_else(no_cursor)?;
        let cursor = Self {
            after: After {
                number,
                last_change,
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

/// The number in a cursor, and the last change if the list is by that.
fn place_of(text: &str) -> Option<(u64, Option<(Timestamp, Seq)>)> {
    let Some((number, change)) = text.split_once(':') else {
        return Some((text.parse().ok()?, None));
    };
    let (at, seq) = change.split_once(':')?;
    let change = (Timestamp::from_nanos(at.parse().ok()?), Seq(seq.parse().ok()?));
    Some((number.parse().ok()?, Some(change)))
}

/// Which of the entries that changed since the first page have to be rebuilt for a page.
///
/// All of them, as long as the total number of matches is unknown. After that, a list by age needs only the entries
/// between the previous page and the last entry of this one. In a list by rank or by last change, these are known only
/// once the entry is rebuilt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RebuildScope {
    order: Order,
    /// The number after which the page begins, if only the entries of the page are wanted.
    after: Option<u64>,
    limit: usize,
}

/// How many numbers are looked at for each entry of a page, to find the page right behind the previous one.
const NUMBERS_PER_ENTRY: u64 = 4;
/// The minimum of such numbers.
const MIN_NUMBERS: u64 = 64;

/// The numbers right behind the previous page of a list by age. Most later pages lie within them, so finding such a
/// page costs the same however long the list is, and whatever it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextNumbers {
    /// The lowest and the highest of them. If the first is higher, there are none.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Whether no entry lies behind them.
    is_rest: bool,
}

impl NextNumbers {
    /// The numbers for up to `limit` entries after `after`, in a space whose last entry has the number `last`. `None`
    /// if the order is not by age, or for a first page.
    pub(crate) fn of(query: &EntryQuery, after: Option<After>, limit: usize, last: u64) -> Option<Self> {
        let after = after?.number;
        let count = NUMBERS_PER_ENTRY.saturating_mul(limit as u64).max(MIN_NUMBERS);
        match query.order {
            Order::Oldest => {
                let to = after.saturating_add(count).min(last);
                let from = after.saturating_add(1);
                Some(Self {
                    from,
                    to,
                    is_rest: to == last,
                })
            }
            Order::Relevance | Order::Newest => {
                let to = after.min(last.saturating_add(1)).saturating_sub(1);
                let from = to.saturating_sub(count - 1).max(1);
                Some(Self {
                    from,
                    to,
                    is_rest: from == 1,
                })
            }
            Order::Priority | Order::LastChanged => None,
        }
    }

    /// Whether `found` entries among these numbers are the whole page, of up to `limit` entries.
    pub(crate) fn have_page(&self, found: usize, limit: usize) -> bool {
        self.is_rest || found >= limit
    }
}

/// How many entries are rebuilt at a time.
const REBUILD_BATCH: usize = 1_000;
/// The minimum for one page: the entries may all be of one commit, which the next batch reads again.
const MIN_REBUILD_BATCH: usize = 200;

impl RebuildScope {
    /// The part for the page with the first `limit` entries after `after`, of `total` matches.
    pub(crate) fn of(query: &EntryQuery, after: Option<After>, total: Option<u64>, limit: usize) -> Self {
        let by_age = !matches!(query.order, Order::Priority | Order::LastChanged);
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
