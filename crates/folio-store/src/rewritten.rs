//! Records of the log from which something is removed.

use std::collections::BTreeSet;

use folio_memory::keeping::Eraser;
use folio_memory::{Change, FieldChange};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::StoreError;
use crate::fold::{hashes_in, record_json};

/// A record from which something is removed. Its changes are parsed; everything else stays as it was written, so the
/// events of a run stay the same whichever version wrote them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rewritten {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<Change>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Rewritten {
    /// Removes the fingerprint of the request, against which guesses about the erased content could be tested.
    pub(crate) fn forget_request(&mut self) {
        self.rest.remove("request");
    }

    /// Removes the commit's reason, which may reveal the erased content. Reasons for erasing content, and rules by
    /// which something was archived, are kept. Returns whether anything was removed.
    pub(crate) fn forget_reason(&mut self) -> bool {
        let is_by_rule = |field: &FieldChange| matches!(field, FieldChange::ArchivedFor(Some(_)));
        let says_why_it_went = |change: &Change| match change {
            Change::EraseEntry { .. } | Change::EraseTurn { .. } => true,
            Change::PatchEntry { fields, .. } => fields.iter().any(is_by_rule),
            _ => false,
        };
        !self.changes.iter().any(says_why_it_went) && self.rest.remove("reason").is_some()
    }

    pub(crate) fn is_of_run(&self) -> bool {
        self.rest.contains_key("run")
    }
}

/// A record without the content of erased entries.
#[derive(Debug)]
pub(crate) struct CleanedRecord {
    /// The record as JSON.
    pub(crate) text: String,
    /// The hashes of the bodies that it named before and no longer names.
    pub(crate) bodies: BTreeSet<String>,
}

impl CleanedRecord {
    /// The record `text` without what `eraser` removes; `None` if it has nothing of that. Its reason and the fingerprint
    /// of its request go as well: both may reveal what was removed.
    ///
    /// # Errors
    ///
    /// Why `text` cannot be read; or that the rest cannot be written as JSON.
    pub(crate) fn of(text: &str, eraser: &mut Eraser) -> serde_json::Result<Option<Result<Self, StoreError>>> {
        let mut record: Rewritten = serde_json::from_str(text)?;
        let mut is_changed = false;
        for change in &mut record.changes {
            is_changed |= eraser.clean(change);
        }
        is_changed |= record.forget_reason();
        if !is_changed {
            return Ok(None);
        }
        record.forget_request();
        Ok(Some(record_json(&record).map(|rest| Self {
            bodies: hashes_in(text).difference(&hashes_in(&rest)).cloned().collect(),
            text: rest,
        })))
    }
}
