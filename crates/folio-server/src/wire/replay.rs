//! Whether what is stored of a run is what its journal says.

use folio::runner::Replayed;
use folio::store::RunRow;
use schemars::JsonSchema;
use serde::Serialize;

/// What came of folding the journal of a run from its first event.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReplayShape {
    /// The run's handle.
    pub run: String,
    /// The run's permanent id.
    pub run_id: String,
    /// The number of events in the journal.
    pub events: usize,
    /// The number of pages that follow from them.
    pub pages: usize,
    /// The number of entries that follow from them.
    pub entries: usize,
    /// What differs from what is stored, in words; empty if nothing does.
    pub differences: Vec<String>,
    /// Whether the run went on each time that the differences were checked again: then they may be due to what
    /// happened meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}

impl ReplayShape {
    /// Returns what `replayed` says of the run of `row`.
    #[must_use]
    pub fn of(row: &RunRow, replayed: Replayed) -> Self {
        Self {
            run: row.handle.to_string(),
            run_id: row.id.to_string(),
            events: replayed.events,
            pages: replayed.pages,
            entries: replayed.entries,
            differences: replayed.differences,
            goes_on: replayed.goes_on,
        }
    }
}
