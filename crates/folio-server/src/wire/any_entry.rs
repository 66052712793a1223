//! An entry whose kind the caller did not choose.

use folio::memory::scratchbook::ScratchItem;
use folio::memory::{Entry, EntryKind, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::observation::Observation;

/// An entry of any kind, in the shape that its kind has everywhere.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyEntry {
    /// An observation.
    Observation(Box<Observation>),
    /// An entry of any other kind.
    Item(Box<ScratchItem>),
}

impl AnyEntry {
    /// Describes `entry` as it is at `now`.
    pub fn of(entry: &Entry, now: Timestamp) -> Self {
        match entry.kind {
            EntryKind::Observation => Self::Observation(Box::new(Observation::of(entry, now))),
            _ => Self::Item(Box::new(ScratchItem::of(entry))),
        }
    }
}
