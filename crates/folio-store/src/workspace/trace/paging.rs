//! Cursors of a timeline.

use data_encoding::HEXLOWER;
use folio_memory::canonical::digest_of;
use folio_memory::{Seq, SpaceName, Timestamp};

use super::{TraceEntry, TraceQuery};
use crate::error::StoreError;

/// The sort key of lines. Lines of one commit have the same key, and so may notes.
type Key = (Timestamp, Seq, bool);

fn key_of(line: &TraceEntry) -> Key {
    (line.at, line.seq, !line.is_logged)
}

/// The direction in which a timeline is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From its end backwards.
    Back,
    /// From a given commit on.
    On,
}

/// The last line of an answer in reading direction, and how many lines with the same key were returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    key: Key,
    given: usize,
}

impl Edge {
    /// The instant of the line.
    pub(super) fn at(self) -> Timestamp {
        self.key.0
    }

    /// How many lines with the same key were returned.
    pub(super) fn given(self) -> usize {
        self.given
    }

    /// Whether `line` may come after the edge in reading direction.
    pub(super) fn reaches(self, way: Way, line: &TraceEntry) -> bool {
        match way {
            Way::Back => key_of(line) <= self.key,
            Way::On => key_of(line) >= self.key,
        }
    }

    /// The cursor as handed out, bound to the query `bound`.
    fn to_text(self, bound: &str) -> String {
        let (at, seq, is_note) = self.key;
        let (at, kind, given) = (at.as_nanos(), if is_note { 'n' } else { 'l' }, self.given);
        format!("{bound}.{at}.{seq}.{kind}.{given}")
    }

    /// Reads a cursor that [`Edge::to_text`] made for the same query.
    pub(super) fn parse(text: &str, bound: &str) -> Result<Self, StoreError> {
        let no_cursor = || StoreError::no_cursor(text);
        let parts: Vec<&str> = text.split('.').collect();
        let [query_binding, at, seq, kind, given] = parts[..] else {
            return Err(no_cursor());
        };
        let at = at.parse().map(Timestamp::from_nanos).map_err(|_| no_cursor())?;
        let seq = seq.parse().map(Seq).map_err(|_| no_cursor())?;
        let is_note = match kind {
            "n" => true,
            "l" => false,
            _ => return Err(no_cursor()),
        };
        let given = given.parse().map_err(|_| no_cursor())?;
        if query_binding == bound {
            let key = (at, seq, is_note);
            Ok(Self { key, given })
        } else {
            Err(StoreError::other_query(text))
        }
    }
}

/// A hash to which a cursor is bound: of the space and everything in the query except the cursor and the limit.
pub(super) fn bound(space: &SpaceName, query: &TraceQuery) -> String {
    let parts = [
        space.to_string(),
        query.run.map(|run| run.to_string()).unwrap_or_default(),
        query.turn.map(|turn| turn.to_string()).unwrap_or_default(),
        query.entry.map(|entry| entry.to_string()).unwrap_or_default(),
        query.component.clone().unwrap_or_default(),
        query.since.map(|since| since.to_string()).unwrap_or_default(),
    ];
    HEXLOWER.encode(&digest_of(parts.iter().map(String::as_bytes))[..8])
}

/// Sorts `lines`, removes those that were returned before by `edge`, and cuts the rest to `limit`. Returns the cursor
/// if there are more.
pub(super) fn part(
    lines: &mut Vec<TraceEntry>,
    (way, edge): (Way, Option<Edge>),
    limit: usize,
    bound: &str,
) -> Option<String> {
    // The sort is stable, so that lines of one commit, and notes made at one instant, keep their order.
    lines.sort_by_key(key_of);
    let same = |lines: &[TraceEntry], key: Key| match way {
        Way::Back => lines.iter().rev().take_while(|line| key_of(line) == key).count(),
        Way::On => lines.iter().take_while(|line| key_of(line) == key).count(),
    };
    let skipped = edge.map_or(0, |edge| same(lines, edge.key).min(edge.given));
    let count = lines.len();
    let has_more = count - skipped > limit;
    match way {
        Way::Back => {
            lines.truncate(count - skipped);
            lines.drain(..lines.len().saturating_sub(limit));
        }
        Way::On => {
            lines.drain(..skipped);
            lines.truncate(limit);
        }
    }
    let last = match way {
        Way::Back => lines.first(),
        Way::On => lines.last(),
    };
    let key = key_of(last.filter(|_| has_more)?);
    let here = lines.iter().filter(|line| key_of(line) == key).count();
    let before = edge.filter(|edge| edge.key == key).map_or(0, |edge| edge.given);
    let next = Edge {
        key,
        given: here + before,
    };
    Some(next.to_text(bound))
}
