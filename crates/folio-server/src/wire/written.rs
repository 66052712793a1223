//! What came of a write: the thing itself, and what was put right on the way.

use folio::memory::Warning;
use folio::memory::history::FieldConflict;
use schemars::JsonSchema;
use serde::Serialize;

/// Something that was written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Written{T}")]
pub struct Written<T> {
    /// As it stands now.
    #[serde(flatten)]
    pub item: T,
    /// What was put right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What it wrote over that somebody else had changed meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<FieldConflict>,
    /// Whether an earlier call with the same key wrote it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl<T> Written<T> {
    /// `item` with what was put right on the way to it.
    pub fn of(item: T, warnings: &[Warning], replayed: bool) -> Self {
        Self {
            item,
            warnings: warnings.to_vec(),
            conflicts: Vec::new(),
            replayed,
        }
    }

    /// The same, which wrote over `conflicts`.
    pub fn over(self, conflicts: &[FieldConflict]) -> Self {
        Self {
            conflicts: conflicts.to_vec(),
            ..self
        }
    }
}
