//! Which notes of the trace a store keeps, and what of them.

use std::borrow::Cow;

use folio_memory::{NotesKept, Timestamp, TraceNote};

use crate::text_search::without_words;

/// The most notes that one write deletes beyond as many as it adds, so that nobody waits for a large deletion.
const DELETED_AT_A_TIME: u64 = 1_000;

/// The text `note` of a note made at `at`, as it may be stored: without words if something was `forgotten` since, which
/// it may quote.
///
/// # Errors
///
/// If `note` is not the JSON of a note.
pub(crate) fn storable(note: &str, at: Timestamp, forgotten: Option<Timestamp>) -> serde_json::Result<Cow<'_, str>> {
    match forgotten {
        Some(forgotten) if !TraceNote::may_keep_words(at, forgotten) => without_words(note).map(Cow::Owned),
        _ => Ok(Cow::Borrowed(note)),
    }
}

/// The deletion of the oldest notes that are too old, or too many. Notes are numbered in the order of time, give or take
/// a second between processes: the oldest have the smallest numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoteCleanup {
    /// The numbers of the oldest and the newest note.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// How many were added just now.
    pub(crate) added: u64,
    pub(crate) kept: NotesKept,
}

impl NoteCleanup {
    /// The last number that is looked at: what is deleted at a time is bounded.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(DELETED_AT_A_TIME + self.added)
    }

    /// The number up to which notes are deleted, if any are. `old` is the highest number, up to [`NoteCleanup::end`], of
    /// a note that is too old.
    pub(crate) fn deleted_until(&self, old: Option<u64>) -> Option<u64> {
        let surplus = self.last.saturating_sub(self.kept.notes_max).min(self.end());
        let until = old.unwrap_or(0).max(surplus);
        (until >= self.first).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleanup(first: u64, last: u64) -> NoteCleanup {
        NoteCleanup {
            first,
            last,
            added: 10,
            kept: NotesKept {
                notes_max: 100,
                from: Timestamp::default(),
            },
        }
    }

    #[test]
    fn notes_are_deleted_that_are_too_old_or_too_many_but_not_all_at_once() {
        for (first, last, old, expected) in [
            (1, 100, None, None),
            (1, 101, None, Some(1)),
            (1, 100, Some(40), Some(40)),
            (1, 150, Some(40), Some(50)),
            (1, 1_000_000, None, Some(1_011)),
            (500, 550, None, None),
        ] {
            assert_eq!(
                cleanup(first, last).deleted_until(old),
                expected,
                "{first} to {last}, {old:?}"
            );
        }
    }
}
