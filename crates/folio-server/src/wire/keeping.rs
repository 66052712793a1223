//! What was brought in, and what was forgotten.

use folio::memory::{Entry, EntryKind};
use folio::store::Residue;
use folio::store::workspace::Imported;
use schemars::JsonSchema;
use serde::Serialize;

/// What was, or would be, forgotten.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Forgot {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The entries, without what they said.
    pub forgotten: Vec<Named>,
    /// Items of tools that are no entries yet.
    pub waiting: usize,
    /// Whether it was asked for before under the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// What was searched afterwards, and what is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residue: Option<Residue>,
}

/// An entry without what it says.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Named {
    /// For people and models: `e42`, `p7`, `r3`, `t5`.
    pub handle: String,
    /// For ever.
    pub observation_id: String,
    /// What sort of content it holds.
    pub kind: EntryKind,
    /// The registered type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// When it was added.
    pub created_at: String,
}

impl Named {
    /// `entry` by its names.
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

/// What was, or would be, brought in.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Received {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// How much.
    #[serde(flatten)]
    pub imported: Imported,
}
