//! The outcomes of importing and of forgetting.

use folio::memory::id::TurnHandle;
use folio::memory::{Entry, EntryKind};
use folio::store::Residue;
use folio::store::workspace::Imported;
use schemars::JsonSchema;
use serde::Serialize;

/// The entries that were forgotten, or that a dry run would forget.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Forgot {
    /// Whether this was a dry run, so nothing was erased.
    pub dry_run: bool,
    /// The entries, without their content.
    pub forgotten: Vec<Named>,
    /// The handles of turns whose input and reasons are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<String>,
    /// The number of matching items of tools that wait in the outbox.
    pub waiting: usize,
    /// Whether an earlier call with the same key did it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// What was searched for residue afterwards, and what was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residue: Option<Residue>,
}

/// The handles of `turns`, for [`Forgot::turns`].
#[must_use]
pub fn names_of_turns(turns: &[TurnHandle]) -> Vec<String> {
    turns.iter().map(TurnHandle::to_string).collect()
}

/// An entry without its content.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Named {
    /// The entry's handle, such as `e42`.
    pub handle: String,
    /// The entry's permanent id.
    pub observation_id: String,
    /// The entry's kind.
    pub kind: EntryKind,
    /// The registered type of the observation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// When the entry was added.
    pub created_at: String,
}

impl Named {
    /// Returns the names of `entry`.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self {
            handle: entry.handle.to_string(),
            observation_id: entry.id.to_string(),
            kind: entry.kind,
            type_name: entry.fields.type_name.clone(),
            created_at: entry.created_at.to_string(),
        }
    }
}

/// What was imported, or what a dry run would import.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Received {
    /// Whether this was a dry run, so nothing was written.
    pub dry_run: bool,
    /// The counts of the import.
    #[serde(flatten)]
    pub imported: Imported,
}
