//! Cursors of lists of entries.

use folio_memory::{Confidence, Entry, EntryQuery, Order, Seq, SpaceName, Timestamp};

use super::{Fields, Snapshot, binding, to_text};
use crate::error::StoreError;
use crate::place::LAST_NUMBER;

/// Where a list of entries continues.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ListCursor {
    pub(crate) snapshot: Snapshot,
    /// How many entries matched at the first page, counted once for all pages.
    pub(crate) total: u64,
    pub(crate) after: After,
}

impl ListCursor {
    /// The cursor of `query`, if it has one.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was issued for another query or is not a cursor.
    pub(crate) fn of(name: &SpaceName, query: &EntryQuery) -> Result<Option<Self>, StoreError> {
        // Most lists begin without a cursor, and need no binding.
        match query.cursor.as_deref() {
            Some(text) => Self::parse(text, &binding(name, query)?).map(Some),
            None => Ok(None),
        }
    }

    /// The cursor as the text that callers receive.
    pub(crate) fn to_text(self, binding: &str) -> String {
        let Snapshot { as_of, at } = self.snapshot;
        let After {
            number, rank, sureness, ..
        } = self.after;
        let (at, sureness) = (at.as_nanos(), format!("{:x}", sureness.to_bits()));
        let text = to_text(binding, &[&as_of, &at, &self.total, &number, &rank, &sureness]);
        match self.after.last_change {
            Some((at, seq)) => to_text(&text, &[&at.as_nanos(), &seq]),
            None => text,
        }
    }

    fn parse(text: &str, binding: &str) -> Result<Self, StoreError> {
        let mut fields = Fields::of(text);
        let snapshot = fields.snapshot()?;
        let total = fields.next()?;
        let after = After {
            number: fields.next()?,
            rank: fields.next()?,
            sureness: fields.next_as(|bits| u64::from_str_radix(bits, 16).ok().map(f64::from_bits))?,
            last_change: if fields.is_at_end() {
                None
            } else {
                Some((fields.instant()?, Seq(fields.next()?)))
            },
        };
        fields.end(binding)?;
        Ok(Self { snapshot, total, after })
    }
}

/// The last entry that was returned, with what the orders compare.
#[derive(Debug, Clone, Copy, PartialEq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_cursor_round_trips_and_is_bound_to_its_query() {
        let last_change = Some((Timestamp::from_millis(-5), Seq(4)));
        for (last_change, sureness) in [(None, 0.75), (last_change, f64::MAX)] {
            let cursor = ListCursor {
                snapshot: Snapshot {
                    as_of: Seq(9),
                    at: Timestamp::from_millis(7),
                },
                total: 12,
                after: After {
                    number: 3,
                    rank: u32::MAX,
                    sureness,
                    last_change,
                },
            };
            let text = cursor.to_text("abc");
            assert_eq!(ListCursor::parse(&text, "abc").unwrap(), cursor);
            assert!(ListCursor::parse(&text, "abd").is_err());
            assert!(ListCursor::parse(&format!("{text}.1"), "abc").is_err());
        }
    }
}
