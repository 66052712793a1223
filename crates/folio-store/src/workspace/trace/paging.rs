//! Where a timeline goes on.

use data_encoding::HEXLOWER;
use folio_memory::canonical::digest_of;
use folio_memory::{Seq, SpaceName, Timestamp};

use super::{TraceEntry, TraceQuery};
use crate::error::StoreError;

/// What lines are in the order of. Lines of one commit have the same, and so may notes.
type Key = (Timestamp, Seq, bool);

fn key_of(line: &TraceEntry) -> Key {
    (line.at, line.seq, !line.is_logged)
}

/// In which direction a timeline is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From its end, to what came before.
    Back,
    /// From where is said, to what came after.
    On,
}

/// The line that an answer ended with, in the direction in which it is read, and how many that are where it is were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    key: Key,
    given: usize,
}

impl Edge {
    /// When it was.
    pub(super) fn at(self) -> Timestamp {
        self.key.0
    }

    /// How many lines that are where it is were given.
    pub(super) fn given(self) -> usize {
        self.given
    }

    /// Whether `line` may come after it: it is not on the other side.
    pub(super) fn reaches(self, way: Way, line: &TraceEntry) -> bool {
        match way {
            Way::Back => key_of(line) <= self.key,
            Way::On => key_of(line) >= self.key,
        }
    }

    /// As it is handed out with a timeline that is bound like this.
    fn to_text(self, bound: &str) -> String {
        let (at, seq, is_note) = self.key;
        let (at, kind, given) = (at.as_nanos(), if is_note { 'n' } else { 'l' }, self.given);
        format!("{bound}.{at}.{seq}.{kind}.{given}")
    }

    /// Reads what was handed out with it.
    pub(super) fn parse(text: &str, bound: &str) -> Result<Self, StoreError> {
        let no_cursor = || StoreError::no_cursor(text);
        let parts: Vec<&str> = text.split('.').collect();
        let [of, at, seq, kind, given] = parts[..] else {
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
        if of == bound {
            let key = (at, seq, is_note);
            Ok(Self { key, given })
        } else {
            Err(StoreError::Invalid(format!(
                "the cursor {text:?} belongs to another query"
            )))
        }
    }
}

/// What a cursor is bound to: the space and everything of the query but where to go on and how far.
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

/// Puts `lines` in order, takes out those that `edge` says were given, and cuts what is more than `limit`. Where there is more, what
/// goes on after the rest.
pub(super) fn part(
    lines: &mut Vec<TraceEntry>,
    (way, edge): (Way, Option<Edge>),
    limit: usize,
    bound: &str,
) -> Option<String> {
    // Stable, so that lines of one commit, and notes made at one instant, stay in their order.
    lines.sort_by_key(key_of);
    let same = |lines: &[TraceEntry], key: Key| match way {
        Way::Back => lines.iter().rev().take_while(|line| key_of(line) == key).count(),
        Way::On => lines.iter().take_while(|line| key_of(line) == key).count(),
    };
    let given = edge.map_or(0, |edge| same(lines, edge.key).min(edge.given));
    let count = lines.len();
    let goes_on = count - given > limit;
    match way {
        Way::Back => {
            lines.truncate(count - given);
            lines.drain(..lines.len().saturating_sub(limit));
        }
        Way::On => {
            lines.drain(..given);
            lines.truncate(limit);
        }
    }
    let last = match way {
        Way::Back => lines.first(),
        Way::On => lines.last(),
    };
    let key = key_of(last.filter(|_| goes_on)?);
    let here = lines.iter().filter(|line| key_of(line) == key).count();
    let before = edge.filter(|edge| edge.key == key).map_or(0, |edge| edge.given);
    let next = Edge {
        key,
        given: here + before,
    };
    Some(next.to_text(bound))
}
