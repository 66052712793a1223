//! The answer to a write: what was written, and the values corrected on input.

use folio::memory::Warning;
use folio::memory::history::FieldConflict;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of a write.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Written{T}")]
pub struct Written<T> {
    /// What was written, in its current state.
    #[serde(flatten)]
    pub item: T,
    /// Values that were corrected on input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Fields that this write overwrote although somebody else had changed them in the meantime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<FieldConflict>,
    /// Whether an earlier call with the same key had written it already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl<T> Written<T> {
    /// Returns `item` with the corrections made on input.
    pub fn of(item: T, warnings: &[Warning], replayed: bool) -> Self {
        Self {
            item,
            warnings: warnings.to_vec(),
            conflicts: Vec::new(),
            replayed,
        }
    }

    /// Sets the conflicting changes that the write overwrote.
    pub fn over(self, conflicts: &[FieldConflict]) -> Self {
        Self {
            conflicts: conflicts.to_vec(),
            ..self
        }
    }
}
