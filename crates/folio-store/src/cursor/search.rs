//! Cursors of searches.
//!
//! How well an entry matches depends on all other entries, so the order by relevance changes with every write, and a
//! position in it means nothing. The cursor therefore carries, in few bytes, which entries were returned, so that
//! nothing is returned twice and nothing that still matches is left out.

use std::collections::BTreeSet;

use data_encoding::BASE64URL_NOPAD;
use folio_memory::{EntryQuery, SpaceName};

use super::{Fields, Snapshot, binding, to_text};
use crate::error::StoreError;

/// The most entries that a cursor remembers: a list by relevance ends there.
const GIVEN_MAX: usize = 10_000;

/// Where a search continues, and the state of memory that it shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SearchCursor {
    pub(crate) snapshot: Snapshot,
    pub(crate) position: Position,
}

/// Where a search continues.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// After the entry with this number.
    After(u64),
    /// With all entries except those with these numbers.
    Given(BTreeSet<u64>),
}

impl Position {
    /// Whether the position is small enough for a cursor.
    pub(crate) fn can_be_written(&self) -> bool {
        match self {
            Self::After(_) => true,
            Self::Given(numbers) => numbers.len() < GIVEN_MAX,
        }
    }
}

impl SearchCursor {
    /// The cursor of `query`, if it has one.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was issued for another query or is not a cursor.
    pub(crate) fn of(name: &SpaceName, query: &EntryQuery) -> Result<Option<Self>, StoreError> {
        match query.cursor.as_deref() {
            Some(text) => Self::parse(text, &binding(name, query)?).map(Some),
            None => Ok(None),
        }
    }

    /// The cursor as text that is bound to a query.
    pub(crate) fn to_text(&self, binding: &str) -> String {
        let Snapshot { as_of, at } = self.snapshot;
        let position = match &self.position {
            Position::After(number) => number.to_string(),
            Position::Given(numbers) => format!("g{}", packed(numbers)),
        };
        to_text(binding, &[&as_of, &at.as_nanos(), &position])
    }

    fn parse(text: &str, binding: &str) -> Result<Self, StoreError> {
        let mut fields = Fields::of(text);
        let cursor = Self {
            snapshot: fields.snapshot()?,
            position: fields.next_as(|position| match position.strip_prefix('g') {
                Some(numbers) => unpacked(numbers).map(Position::Given),
                None => position.parse().ok().map(Position::After),
            })?,
        };
        fields.end(binding)?;
        Ok(cursor)
    }
}

/// The numbers as differences, with seven bits to a byte.
fn packed(numbers: &BTreeSet<u64>) -> String {
    let mut bytes = Vec::new();
    let mut last = 0;
    for number in numbers {
        let mut rest = number - last;
        last = *number;
        while let Some(byte) = u8::try_from(rest & 0x7f).ok().filter(|_| rest > 0x7f) {
            bytes.push(byte | 0x80);
            rest >>= 7;
        }
        bytes.extend(u8::try_from(rest));
    }
    BASE64URL_NOPAD.encode(&bytes)
}

/// Reverses [`packed`].
fn unpacked(text: &str) -> Option<BTreeSet<u64>> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
    let mut numbers = BTreeSet::new();
    let (mut last, mut rest, mut shift) = (0_u64, 0_u64, 0_u32);
    for byte in bytes {
        rest |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            last = last.checked_add(rest)?;
            numbers.insert(last);
            (rest, shift) = (0, 0);
        } else {
            shift += 7;
        }
    }
    (shift == 0 && numbers.len() <= GIVEN_MAX).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use folio_memory::{Seq, Timestamp};

    use super::*;
    use crate::error::ErrorKind;

    fn cursor(position: Position) -> SearchCursor {
        SearchCursor {
            snapshot: Snapshot {
                as_of: Seq(9),
                at: Timestamp::from_millis(-5),
            },
            position,
        }
    }

    fn thousand_numbers() -> Position {
        Position::Given((0..1_000).map(|n| n * 900 + 7).collect())
    }

    #[test]
    fn search_cursor_round_trips_and_is_bound_to_its_query() {
        let given = Position::Given([1, 2, 127, 128, 300, 1 << 40].into());
        for position in [Position::After(7), given] {
            let cursor = cursor(position);
            let text = cursor.to_text("abc");
            assert_eq!(SearchCursor::parse(&text, "abc").unwrap(), cursor);
            assert!(SearchCursor::parse(&text, "abd").is_err());
        }
    }

    #[test]
    fn malformed_search_cursor_is_refused() {
        for text in [
            "",
            "abc",
            "abc.1",
            "abc.1.1",
            "abc.1.1.x",
            "abc.x.1.1",
            "abc.1.1.g_",
            "abc.1.1.ggICAgICAgICAgICAgIA",
            "abc.1.x.1",
            "abc.1.1.1.1",
            "💥",
        ] {
            let error = SearchCursor::parse(text, "abc").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}: {error}");
        }
    }

    #[test]
    fn refusal_of_a_long_cursor_is_short() {
        for text in [cursor(thousand_numbers()).to_text("another"), "7".repeat(10_000)] {
            let error = SearchCursor::parse(&text, "abc").unwrap_err().to_string();
            assert!(error.len() < 200, "{error}");
        }
    }

    #[test]
    fn search_cursor_with_a_thousand_entries_stays_short() {
        assert!(cursor(thousand_numbers()).to_text("abc").len() < 3_000);
    }
}
