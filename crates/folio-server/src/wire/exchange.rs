//! The outcome of ingesting a tool's answer, and what a tool may see of memory.

use folio::Timestamp;
use folio::memory::Warning;
use folio::memory::tool_exchange::{ContextItem, Correction, Rejection};
use folio::store::workspace::Ingested;
use schemars::JsonSchema;
use serde::Serialize;

use super::observation::Observation;

/// The outcome of ingesting an answer, item by item.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TakenIn {
    /// The items that are stored as entries now.
    pub stored: Vec<Stored>,
    /// The items that were rejected, and why.
    pub rejected: Vec<Rejection>,
    /// Values that were corrected on input.
    pub warnings: Vec<Correction>,
    /// Warnings about the turn in which they were written: that it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_warnings: Vec<Warning>,
    /// How many of the stored items had been stored by an earlier call.
    #[serde(default, skip_serializing_if = "folio::memory::is_default")]
    pub replayed: usize,
    /// How many items wait in the outbox until the store can be written.
    #[serde(default, skip_serializing_if = "folio::memory::is_default")]
    pub spooled: usize,
}

/// An item in its stored form.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Stored {
    /// The kind of entry that it became: `observation`, or `note` for an item of `memory_writes`.
    pub kind: &'static str,
    /// The entry in its current state.
    #[serde(flatten)]
    pub item: Observation,
}

impl TakenIn {
    /// Returns `ingested` in its wire form.
    pub fn of(ingested: &Ingested, now: Timestamp) -> Self {
        Self {
            stored: ingested
                .stored
                .iter()
                .map(|entry| Stored {
                    kind: entry.kind.as_str(),
                    item: Observation::of(entry, now),
                })
                .collect(),
            rejected: ingested.rejected.clone(),
            warnings: ingested.warnings.clone(),
            turn_warnings: Vec::new(),
            replayed: ingested.replayed,
            spooled: ingested.spooled,
        }
    }
}

/// The part of memory that a tool asked for and may see.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Seen {
    /// The entries that the tool may see, best match first.
    pub scratch_page_context: Vec<ContextItem>,
}

impl Seen {
    /// Returns `found` in the form of seed 004.
    pub fn of(found: Vec<ContextItem>) -> Self {
        Self {
            scratch_page_context: found,
        }
    }
}
