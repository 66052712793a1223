//! Cursors of searches.
//!
//! How well an entry matches depends on all other entries, so the order by relevance changes with every write, and a
//! position in it means nothing. The cursor therefore carries, in few bytes, which entries were returned, so that
//! nothing is returned twice and nothing that still matches is left out.

use std::collections::BTreeSet;

use data_encoding::BASE64URL_NOPAD;
use folio_memory::{Entry, EntryQuery, Order, Seq, Timestamp};

use crate::cursor::at_of;
use crate::error::StoreError;
use crate::place::Place;

/// The most entries that a cursor remembers: a list by relevance ends there.
const GIVEN_MAX: usize = 10_000;

/// Where a search continues, and what it sees.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The last commit that counts: entries added later are left out.
    pub(crate) as_of: Seq,
    pub(crate) position: Position,
    /// The time of the first page (M7.2.15). `None` in a cursor of a version that did not include it.
    pub(crate) at: Option<Timestamp>,
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

impl Cursor {
    /// The cursor as text that is bound to a query.
    pub(crate) fn to_text(&self, binding: &str) -> String {
        let position = match &self.position {
            Position::After(number) => number.to_string(),
            Position::Given(numbers) => format!("g{}", packed(numbers)),
        };
        let at = self.at.map(|at| format!(".{}", at.as_nanos())).unwrap_or_default();
        format!("{binding}.{}.{position}{at}", self.as_of)
    }

    /// Parses the output of [`Self::to_text`].
    pub(crate) fn parse(text: &str, binding: &str) -> Result<Self, StoreError> {
        let malformed = || StoreError::no_cursor(text);
        let parts: Vec<_> = text.split('.').collect();
        let (&[bound, as_of, position], at) = parts.split_first_chunk().ok_or_else(malformed)?;
        let at = at_of(at).ok_or_else(malformed)?;
        let as_of = as_of.parse().map(Seq).map_err(|_| malformed())?;
        let position = match position.strip_prefix('g') {
            Some(packed_numbers) => unpacked(packed_numbers).map(Position::Given),
            None => position.parse().ok().map(Position::After),
        };
        let position = position.ok_or_else(malformed)?;
        if bound != binding {
            return Err(StoreError::other_query(text));
        }
        Ok(Self { as_of, position, at })
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

/// An entry that was found.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) place: Place,
    pub(crate) score: f64,
    /// The entry as it was, if it has changed since the state of memory that is asked for.
    pub(crate) before: Option<Box<Entry>>,
}

/// The hits of this page, and where to continue if there are more.
pub(crate) fn part(hits: Vec<Hit>, from: Option<Position>, query: &EntryQuery) -> (Vec<Hit>, Option<Position>) {
    let limit = usize::try_from(query.limit()).unwrap_or(usize::MAX);
    let is_left = |hit: &Hit| match &from {
        None => true,
        Some(Position::After(number)) if query.order == Order::Oldest => hit.place.number() > *number,
        Some(Position::After(number)) => hit.place.number() < *number,
        Some(Position::Given(given_numbers)) => !given_numbers.contains(&hit.place.number()),
    };
    let mut part: Vec<_> = hits.into_iter().filter(is_left).take(limit + 1).collect();
    let has_more = part.len() > limit;
    part.truncate(limit);
    let mut numbers = part.iter().map(|hit| hit.place.number());
    let next = match (query.order, from) {
        (Order::Newest | Order::Oldest, _) => numbers.next_back().map(Position::After),
        (_, Some(Position::Given(mut given_numbers))) => {
            given_numbers.extend(numbers);
            Some(Position::Given(given_numbers))
        }
        _ => Some(Position::Given(numbers.collect())),
    };
    let next = next.filter(|next| has_more && next.can_be_written());
    (part, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn text_cursor_round_trips_and_is_bound_to_its_query() {
        let given = Position::Given([1, 2, 127, 128, 300, 1 << 40].into());
        for (position, at) in [(Position::After(7), None), (given, Some(Timestamp::from_millis(-5)))] {
            let cursor = Cursor {
                as_of: Seq(9),
                position,
                at,
            };
            let text = cursor.to_text("abc");
            let back = Cursor::parse(&text, "abc").unwrap();
            assert_eq!((back.as_of, back.position, back.at), (Seq(9), cursor.position, at));
            assert!(Cursor::parse(&text, "abd").is_err());
        }
    }

    #[test]
    fn malformed_text_cursor_is_refused() {
        for text in [
            "",
            "abc",
            "abc.1",
            "abc.1.x",
            "abc.x.1",
            "abc.1.g_",
            "abc.1.ggICAgICAgICAgICAgIA",
            "abc.1.1.x",
            "abc.1.1.1.1",
            "💥",
        ] {
            let error = Cursor::parse(text, "abc").map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}: {error}");
        }
    }

    #[test]
    fn refusal_of_a_long_cursor_is_short() {
        let position = Position::Given((0..1_000).map(|n| n * 900 + 7).collect());
        let cursor = Cursor {
            as_of: Seq(1),
            position,
            at: None,
        };
        for text in [cursor.to_text("another"), "7".repeat(10_000)] {
            let error = Cursor::parse(&text, "abc").map(drop).unwrap_err().to_string();
            assert!(error.len() < 200, "{error}");
        }
    }

    #[test]
    fn text_cursor_with_a_thousand_entries_stays_short() {
        let given = Position::Given((0..1_000).map(|n| n * 900 + 7).collect());
        assert!(
            Cursor {
                as_of: Seq(1),
                position: given,
                at: None,
            }
            .to_text("abc")
            .len()
                < 3_000
        );
    }
}
