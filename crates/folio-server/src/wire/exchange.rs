//! What became of a tool's answer, and what it may see.

use folio::Timestamp;
use folio::memory::tool_exchange::{ContextItem, Correction, Rejection};
use folio::store::workspace::Ingested;
use schemars::JsonSchema;
use serde::Serialize;

use super::observation::Observation;

/// What became of the items of an answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TakenIn {
    /// What is an entry now.
    pub stored: Vec<Stored>,
    /// What was not taken, and why.
    pub rejected: Vec<Rejection>,
    /// What was put right.
    pub warnings: Vec<Correction>,
    /// How many of the stored ones were there before.
    #[serde(default, skip_serializing_if = "folio::memory::is_default")]
    pub replayed: usize,
    /// How many wait until the store can be written.
    #[serde(default, skip_serializing_if = "folio::memory::is_default")]
    pub spooled: usize,
}

/// An item as it is kept now.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Stored {
    /// What it became: an `observation`, or of `memory_writes` a `note`.
    pub kind: &'static str,
    /// As it stands.
    #[serde(flatten)]
    pub item: Observation,
}

impl TakenIn {
    /// `ingested` as programs read it.
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
            replayed: ingested.replayed,
            spooled: ingested.spooled,
        }
    }
}

/// What a tool may see of what it asked for.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Seen {
    /// What the tool may see, best first.
    pub scratch_page_context: Vec<ContextItem>,
}

impl Seen {
    /// `found` as seed 004 writes it.
    pub fn of(found: Vec<ContextItem>) -> Self {
        Self {
            scratch_page_context: found,
        }
    }
}
