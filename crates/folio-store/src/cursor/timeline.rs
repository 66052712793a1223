//! Cursors of the trace.

use folio_memory::{Seq, SpaceName, Timestamp};

use super::{Fields, binding_of, to_text};
use crate::error::StoreError;
use crate::workspace::TraceQuery;

/// What a timeline is sorted by: the instant of a line, its commit, and whether it is a note. Lines of one commit have
/// the same key, and so may notes.
pub(crate) type LineKey = (Timestamp, Seq, bool);

/// The last line of an answer in reading direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimelineCursor {
    pub(crate) key: LineKey,
    /// How many lines with this key were returned.
    pub(crate) given: usize,
}

impl TimelineCursor {
    /// The instant of the line.
    pub(crate) fn at(self) -> Timestamp {
        self.key.0
    }

    /// The cursor as handed out.
    pub(crate) fn to_text(self, binding: &str) -> String {
        let (at, seq, is_note) = self.key;
        to_text(binding, &[&at.as_nanos(), &seq, &is_note, &self.given])
    }

    /// Parses a cursor that was issued for the query with this binding.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was issued for another query or is not a cursor.
    pub(crate) fn parse(text: &str, binding: &str) -> Result<Self, StoreError> {
        let mut fields = Fields::of(text);
        let cursor = Self {
            key: (fields.instant()?, Seq(fields.next()?), fields.next()?),
            given: fields.next()?,
        };
        fields.end(binding)?;
        Ok(cursor)
    }
}

/// What a cursor of the trace is bound to: the space and all of the query except its cursor and limit.
///
/// # Errors
///
/// `Invalid` if the query cannot be expressed in JSON.
pub(crate) fn binding(space: &SpaceName, query: &TraceQuery) -> Result<String, StoreError> {
    let TraceQuery {
        run,
        turn,
        entry,
        component,
        since,
        limit: _,
        cursor: _,
    } = query;
    let (run, entry) = (run.map(|run| run.to_string()), entry.map(|entry| entry.to_string()));
    binding_of(&(space, run, turn, entry, component, since))
}
