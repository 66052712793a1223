//! The versions of an entry, and what each changed.

use folio::Timestamp;
use folio::memory::EntryKind;
use folio::memory::history::{FieldConflict, FieldDiff, Version};
use schemars::JsonSchema;
use serde::Serialize;

/// One version of an entry.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VersionShape {
    /// Its number.
    pub version: u32,
    /// The commit.
    pub seq: u64,
    /// When.
    pub timestamp: Timestamp,
    /// What was done.
    pub operation: &'static str,
    /// Who.
    pub by: String,
    /// Why, in the writer's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is different from the version before; of the first, everything.
    pub changes: Vec<FieldDiff>,
    /// What it wrote over that somebody else had changed meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<FieldConflict>,
}

impl VersionShape {
    /// `version` as programs read it.
    #[must_use]
    pub fn of(version: &Version) -> Self {
        let (mut changes, mut conflicts) = (version.changes.clone(), version.conflicts.clone());
        if version.entry.kind == EntryKind::Observation {
            changes = changes.into_iter().map(FieldDiff::of_observation).collect();
            conflicts = conflicts.into_iter().map(FieldConflict::of_observation).collect();
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
