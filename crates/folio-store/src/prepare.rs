//! The work on a commit that happens before it enters the writer's queue: validating it by itself, serialising it,
//! packing its bodies.

use folio_engine::Event;
use folio_memory::{Change, EntryFields, PageFields, Seq, SpaceName, Timestamp, TurnId};
use serde::Serialize;

use crate::body::Packed;
use crate::commit::{Commit, Expected, RECORD_FORMAT, Record};
use crate::copy::CopiedCommit;
use crate::error::StoreError;

const KEY_BYTES_MAX: usize = 1024;

/// The most bytes of one record. SQLite's own limit is a little less than a gigabyte.
const RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Values nested more deeply could be written, but not read back.
const DEPTH_MAX: usize = 100;

/// How deeply a value of a new entry or page may be nested: the record, its changes and the change are around it.
pub(crate) const VALUE_DEPTH_MAX: usize = DEPTH_MAX - 3;

/// A commit that is ready to be applied.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) space: SpaceName,
    pub(crate) at: Timestamp,
    pub(crate) key: Option<String>,
    pub(crate) expected: Vec<Expected>,
    pub(crate) record: Record,
    pub(crate) actor_json: String,
    pub(crate) record_json: String,
    /// For each change, the fields of the entry or page that it adds.
    pub(crate) fields_json: Vec<Option<String>>,
    pub(crate) blobs: Vec<Packed>,
    /// The turn in which the commit changes memory, if it does both.
    pub(crate) turn_written: Option<TurnId>,
    /// For a commit of another store: its number there, which it keeps.
    pub(crate) taken_over: Option<Seq>,
}

impl Prepared {
    /// Checks `commit` as far as that is possible without the database.
    ///
    /// # Errors
    ///
    /// `Invalid` if it contradicts itself or could not be read back.
    pub(crate) fn of(commit: Commit) -> Result<Self, StoreError> {
        let Commit {
            space,
            at,
            actor,
            idempotency_key,
            expected,
            record,
            blobs,
        } = commit;
        check_record(&record)?;
        if idempotency_key
            .as_ref()
            .is_some_and(|key| key.is_empty() || key.len() > KEY_BYTES_MAX)
        {
            return Err(StoreError::Invalid(format!(
                "an idempotency key must have 1 to {KEY_BYTES_MAX} bytes"
            )));
        }
        let record_json = json("the record", &record)?;
        if record_json.len() > RECORD_BYTES_MAX {
            let message = format!(
                "a commit of {} bytes is larger than {RECORD_BYTES_MAX}",
                record_json.len()
            );
            return Err(StoreError::Invalid(message));
        }
        if is_too_deep(&record_json) {
            return Err(StoreError::Invalid(format!(
                "a value in the commit is nested deeper than {DEPTH_MAX} levels"
            )));
        }
        Ok(Self {
            space,
            at,
            key: idempotency_key,
            expected,
            actor_json: json("the actor", &actor)?,
            record_json,
            turn_written: actor.turn.filter(|_| record.may_change_memory()),
            fields_json: record.changes.iter().map(fields_json).collect::<Result<_, _>>()?,
            record,
            blobs: blobs.into_iter().map(Packed::of).collect::<Result<_, _>>()?,
            taken_over: None,
        })
    }

    /// Prepares commits of another store, in their order.
    ///
    /// # Errors
    ///
    /// As for [`Prepared::of`].
    pub(crate) fn taken_over(space: &SpaceName, commits: Vec<CopiedCommit>) -> Result<Vec<Self>, StoreError> {
        let prepared = commits.into_iter().map(|CopiedCommit { row, bodies }| {
            let prepared = Self::of(Commit {
                space: space.clone(),
                at: row.at,
                actor: row.actor,
                idempotency_key: row.idempotency_key,
                expected: Vec::new(),
                record: row.record,
                blobs: bodies,
            })?;
            Ok(Self {
                taken_over: Some(row.seq),
                ..prepared
            })
        });
        prepared.collect()
    }

    /// Roughly how many bytes the commit adds to a transaction.
    pub(crate) fn bytes(&self) -> usize {
        self.record_json.len() + self.blobs.iter().map(|blob| blob.bytes.len()).sum::<usize>()
    }
}

/// The stored form of an entry's fields.
pub(crate) fn entry_fields_json(fields: &EntryFields) -> Result<String, StoreError> {
    json("the fields of an entry", fields)
}

/// The stored form of a page's fields.
pub(crate) fn page_fields_json(fields: &PageFields) -> Result<String, StoreError> {
    json("the fields of a page", fields)
}

fn fields_json(change: &Change) -> Result<Option<String>, StoreError> {
    match change {
        Change::AddEntry(new) => entry_fields_json(&new.fields).map(Some),
        Change::EnsurePage(new) => page_fields_json(&new.fields).map(Some),
        _ => Ok(None),
    }
}

fn json(label: &str, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Invalid(format!("{label} cannot be written as JSON: {error}")))
}

fn check_record(record: &Record) -> Result<(), StoreError> {
    if record.format != RECORD_FORMAT {
        let message = format!(
            "a record of format {} cannot be written, only of {RECORD_FORMAT}",
            record.format
        );
        return Err(StoreError::Invalid(message));
    }
    let Some(run) = &record.run else { return Ok(()) };
    let is_start = |event: &Event| matches!(event, Event::RunStarted { .. });
    if run.events.iter().skip(1).any(is_start) {
        return Err(StoreError::Invalid(format!(
            "run {} can only start with its first event",
            run.run
        )));
    }
    if run.title.is_some() && !run.events.first().is_some_and(is_start) {
        return Err(StoreError::Invalid(format!(
            "run {} gets its title with its first event only",
            run.run
        )));
    }
    Ok(())
}

/// Whether values of a JSON text are nested too deeply to be read back.
fn is_too_deep(json: &str) -> bool {
    // Most texts have too few brackets for that, and brackets are counted many bytes at a time.
    let opening = json.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    opening > DEPTH_MAX && depth_of(json) > DEPTH_MAX
}

/// The nesting depth of a JSON text.
fn depth_of(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_MAX, depth_of, is_too_deep};

    #[test]
    fn brackets_inside_json_strings_do_not_count_as_depth() {
        assert_eq!(depth_of(r#"{"a":"[[[{\"[","b":[{}]}"#), 3);
    }

    #[test]
    fn depth_limit_applies_to_nesting_not_to_bracket_count() {
        let nested = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
        assert!(!is_too_deep(&nested(DEPTH_MAX)));
        assert!(is_too_deep(&nested(DEPTH_MAX + 1)));
        let wide = format!("[{}]", vec!["{}"; 2 * DEPTH_MAX].join(","));
        assert!(!is_too_deep(&wide));
    }
}
