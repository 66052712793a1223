//! The versions of an entry, and what each of them changed.

use folio::Timestamp;
use folio::memory::EntryKind;
use folio::memory::history::{FieldConflict, FieldDiff, Version};
use schemars::JsonSchema;
use serde::Serialize;

/// One version of an entry.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VersionShape {
    /// The number of the version.
    pub version: u32,
    /// The commit that made it.
    pub seq: u64,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The operation that made it.
    pub operation: &'static str,
    /// Who made it.
    pub by: String,
    /// The reason that the writer gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The differences from the version before; for the first version, all fields.
    pub changes: Vec<FieldDiff>,
    /// Fields that it overwrote although somebody else had changed them in the meantime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<FieldConflict>,
}

impl VersionShape {
    /// Returns `version` in its wire form.
    #[must_use]
    pub fn of(version: &Version) -> Self {
        let (mut changes, mut conflicts) = (version.changes.clone(), version.conflicts.clone());
        if version.entry.kind == EntryKind::Observation {
            changes = changes.into_iter().map(FieldDiff::with_observation_names).collect();
            conflicts = conflicts
                .into_iter()
                .map(FieldConflict::with_observation_names)
                .collect();
        }
        Self {
            version: version.entry.version,
            seq: version.seq.0,
            timestamp: version.at,
            operation: version.operation,
            by: version.actor.to_string(),
            reason: version.reason.clone(),
            changes,
            conflicts,
        }
    }
}
