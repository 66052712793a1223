//! Cursors of the items of a scratchbook.

use folio_memory::scratchbook::BookPlace;

use super::{Fields, Snapshot, to_text};
use crate::error::StoreError;

/// Where a list of items continues.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BookCursor {
    pub(crate) snapshot: Snapshot,
    /// How many items matched at the first page.
    pub(crate) total: u64,
    pub(crate) after: BookPlace,
}

impl BookCursor {
    /// The cursor as handed out.
    pub(crate) fn to_text(self, binding: &str) -> String {
        let Snapshot { as_of, at } = self.snapshot;
        to_text(binding, &[&as_of, &at.as_nanos(), &self.total, &self.after.to_text()])
    }

    /// Parses a cursor that was issued for the query with this binding.
    ///
    /// # Errors
    ///
    /// `Invalid` if it was issued for another query or is not a cursor.
    pub(crate) fn parse(text: &str, binding: &str) -> Result<Self, StoreError> {
        let mut fields = Fields::of(text);
        let cursor = Self {
            snapshot: fields.snapshot()?,
            total: fields.next()?,
            after: fields.rest_as(BookPlace::parse)?,
        };
        fields.end(binding)?;
        Ok(cursor)
    }
}
