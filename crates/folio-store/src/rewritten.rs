//! Records of the log from which something is removed.

use std::collections::BTreeSet;

use folio_engine::Run;
use folio_memory::id::RunHandle;
use folio_memory::keeping::Eraser;
use folio_memory::{Change, FieldChange};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::StoreError;
use crate::fold::{hashes_in, record_json};

/// How many commits of a forgotten run are rewritten at a time, and how many bytes their records have together: others
/// wait as long to write.
pub(crate) const RUN_PART_COMMITS: u32 = 1_000;
pub(crate) const RUN_PART_BYTES: usize = 4 << 20;

/// When a body seems to have come of which something was erased that named it, and of which it is not known yet whether
/// anything else names it: later than everything, so that it is not dropped for its age. That is looked up for all bodies
/// of a run together, because it takes a search through the whole log.
pub(crate) const SET_ASIDE: i64 = i64::MAX;

/// Refuses to erase what the run with the number `number` says unless its `status` says that it was forgotten: somebody
/// may still read its journal.
///
/// # Errors
///
/// `Invalid`.
pub(crate) fn must_be_forgotten(number: u64, status: &str) -> Result<(), StoreError> {
    if status == Run::FORGOTTEN {
        return Ok(());
    }
    let run = RunHandle(number);
    Err(StoreError::Invalid(format!(
        "{run} is {status}; only what a forgotten run says is erased"
    )))
}

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
            Change::EraseEntry { .. } | Change::EraseTurn { .. } | Change::EraseRun { .. } => true,
            Change::PatchEntry { fields, .. } => fields.iter().any(is_by_rule),
            _ => false,
        };
        !self.changes.iter().any(says_why_it_went) && self.rest.remove("reason").is_some()
    }

    pub(crate) fn is_of_run(&self) -> bool {
        self.rest.contains_key("run")
    }

    /// Removes what the record says of its run, if `eraser` erases that: its title and its events. What stays is that it
    /// began, by which format, and the figures that lists show. Returns whether anything was removed.
    fn forget_events(&mut self, eraser: &Eraser) -> bool {
        let Some(Value::Object(append)) = self.rest.get_mut("run") else {
            return false;
        };
        let id = append.get("run").and_then(Value::as_str).and_then(|id| id.parse().ok());
        if !id.is_some_and(|id| eraser.erases_run(id)) {
            return false;
        }
        let had_title = append.remove("title").is_some();
        let so_far = append.get_mut("so_far").and_then(Value::as_object_mut);
        let had_place = so_far.is_some_and(|so_far| so_far.remove("forked_at").is_some());
        let events = append.get("events").and_then(Value::as_array);
        let left: Vec<Value> = events
            .and_then(|events| blank_beginning(events.first()?))
            .into_iter()
            .collect();
        let had_events = events.is_some_and(|events| *events != left);
        append.insert("events".to_owned(), left.into());
        had_title || had_place || had_events
    }
}

/// `event` without what it says, if it is the one by which a run began: whoever reads the log finds there that the run
/// exists.
fn blank_beginning(event: &Value) -> Option<Value> {
    let is_beginning = event["event"] == "run_started";
    let blank = json!({
        "event": "run_started",
        "format": event["format"],
        "goal": "",
        "plan": null,
        "inputs": {},
    });
    is_beginning.then_some(blank)
}

/// A record without the content of what was erased.
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
        is_changed |= record.forget_events(eraser);
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
