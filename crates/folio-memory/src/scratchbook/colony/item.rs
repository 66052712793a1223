//! Converting one item between the format of seed 003 and an entry.

use serde_json::{Map, Value, json};

use super::super::fields::{MAX_PHASE_BYTES, MAX_TITLE_BYTES};
use super::super::page_of;
use super::Item;
use crate::actor::{Source, Trust};
use crate::change::NewEntry;
use crate::entry::{Entry, EntryFields, EntryKind, Family, ImportedTimes, Owner, State, Status, Tag, check_text};
use crate::excerpt::{cut, one_line};
use crate::id::EntryId;
use crate::space::{SpaceName, ThreadKey};
use crate::time::Timestamp;
use crate::warning::{Invalid, Warning};

/// The key of `claimed_source` under which an entry keeps the original values of the seed's format.
const ORIGINAL_VALUES_KEY: &str = "scratchbook_item";

/// The maximum size of an original value that is kept beside the item, in bytes.
const GIVEN_BYTES: usize = 16 * 1024;

/// An imported item in the form of a scratchbook.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// The entry to add, not pinned yet.
    pub new: NewEntry,
    /// Warnings about corrected values.
    pub changed: Vec<Warning>,
}

/// Converts `item` to an entry for the scratchbook of `thread` at `now`. The same item gives the same id.
///
/// # Errors
///
/// The first field that cannot be corrected: an unknown kind or status, no content, an empty id, a text that is too
/// long.
pub fn take_in(
    item: &Item,
    space: &SpaceName,
    thread: &ThreadKey,
    source: &Source,
    now: Timestamp,
) -> Result<Incoming, Invalid> {
    if item.id.is_empty() {
        return Err(Invalid::new("item_malformed", "id", "is empty"));
    }
    let kind = match item.kind.as_str() {
        "note" => EntryKind::Note,
        "todo" => EntryKind::Todo,
        "task" => EntryKind::Task,
        other => {
            let message = format!("{other:?} is not note, todo or task");
            return Err(Invalid::new("kind_invalid", "kind", message));
        }
    };
    let mut fields = EntryFields::new(kind, Owner::agent(), Trust::Imported);
    let mut changed = Changed::default();
    check_text(&item.body, "body")?;
    fields.body.clone_from(&item.body);
    fields.title = changed.title(item)?;
    fields.status = changed.status(item, kind)?;
    fields.tags = changed.tags(&item.tags);
    if kind == EntryKind::Task {
        fields.phase = changed.phase(item.phase.as_deref());
        fields.progress = changed.progress(item.progress);
    } else if item.phase.is_some() || item.progress.is_some() {
        changed.note("phase", &item.phase, &Value::Null, "only a task has phase and progress");
        changed.note("progress", &item.progress, &Value::Null, "");
    }
    fields.brought = Some(changed.times(item, now));
    fields.source = source.clone();
    let (page, _) = page_of(space, thread);
    let id = match item.id.parse::<EntryId>() {
        Ok(parsed_id) if parsed_id.to_string() == item.id => parsed_id,
        _ => EntryId::derived(&["scratchbook_item", space.as_str(), &thread.0, &item.id]),
    };
    if id.to_string() != item.id || !changed.given.is_empty() {
        let mut origin = Map::from_iter([("id".to_owned(), json!(item.id))]);
        if !changed.given.is_empty() {
            origin.insert("given".to_owned(), Value::Object(changed.given));
        }
        fields.claimed_source = Some(json!({ORIGINAL_VALUES_KEY: origin}));
    }
    let new = NewEntry { id, page, kind, fields };
    let changed = changed.warnings;
    Ok(Incoming { new, changed })
}

/// Converts `entry`, which has its whole text, to an item in the format of the seed at `now`. Original values of an
/// imported item are restored unless they were changed here.
#[must_use]
pub fn item_of(entry: &Entry, now: Timestamp) -> Item {
    let fields = &entry.fields;
    let is_task = entry.kind == EntryKind::Task;
    let origin = fields
        .claimed_source
        .as_ref()
        .and_then(|claimed| claimed.get(ORIGINAL_VALUES_KEY));
    let id = origin.and_then(|origin| origin.get("id")).and_then(Value::as_str);
    let nanos = |at: Timestamp| u64::try_from(at.as_nanos()).unwrap_or(0);
    let item = Item {
        body: fields.body.clone(),
        created_at_nanoseconds: nanos(entry.created_at),
        id: id.map_or_else(|| entry.id.to_string(), str::to_owned),
        kind: entry.kind.as_str().to_owned(),
        phase: fields.phase.clone().filter(|_| is_task),
        progress: fields.progress.filter(|_| is_task),
        status: seed_status(entry, now).to_owned(),
        tags: fields.tags.iter().map(ToString::to_string).collect(),
        title: fields.title.clone(),
        updated_at_nanoseconds: nanos(entry.updated_at),
    };
    match origin.and_then(|origin| origin.get("given")).and_then(Value::as_object) {
        Some(given_values) => restore_given_values(item, given_values, entry, now),
        None => item,
    }
}

/// Restores each of the `given_values` of `item` if the value derived from it still stands in `entry`.
fn restore_given_values(item: Item, given_values: &Map<String, Value>, entry: &Entry, now: Timestamp) -> Item {
    let Ok(Value::Object(mut values)) = serde_json::to_value(&item) else {
        return item;
    };
    // The space, thread and source do not affect the fields.
    let (space, thread, source) = (SpaceName::main(), ThreadKey::main(), Source::default());
    for (key, value) in given_values {
        let before = values.insert(key.clone(), value.clone());
        let parsed_item = serde_json::from_value::<Item>(Value::Object(values.clone())).ok();
        let incoming = parsed_item.and_then(|parsed_item| take_in(&parsed_item, &space, &thread, &source, now).ok());
        let is_restored = incoming.is_some_and(|incoming| is_same(key, &incoming.new.fields, entry));
        if !is_restored {
            match before {
                Some(before) => drop(values.insert(key.clone(), before)),
                None => drop(values.remove(key)),
            }
        }
    }
    serde_json::from_value(Value::Object(values)).unwrap_or(item)
}

/// Whether the field `key` of `entry` still has its initial value.
fn is_same(key: &str, at_first: &EntryFields, entry: &Entry) -> bool {
    let fields = &entry.fields;
    match key {
        "title" => at_first.title == fields.title,
        "status" => at_first.status == fields.status && fields.superseded_by.is_none(),
        "tags" => at_first.tags == fields.tags,
        "phase" => at_first.phase == fields.phase,
        "progress" => at_first.progress == fields.progress,
        "createdAtNanoseconds" => true,
        "updatedAtNanoseconds" => entry.version == 1,
        _ => false,
    }
}

/// The status of `entry` in the format of the seed. A superseded or expired entry is archived there: the format has no
/// other status for what no view shows.
fn seed_status(entry: &Entry, now: Timestamp) -> &'static str {
    if entry.fields.superseded_by.is_some() || entry.state(now) == State::Expired {
        return "archived";
    }
    match entry.fields.status {
        Status::Active | Status::Open => "open",
        Status::PendingReview | Status::InProgress => "in_progress",
        Status::Blocked => "blocked",
        Status::Resolved | Status::Done => "done",
        Status::Archived => "archived",
    }
}

/// Values that were corrected, with their originals.
#[derive(Default)]
struct Changed {
    given: Map<String, Value>,
    warnings: Vec<Warning>,
}

impl Changed {
    fn note(&mut self, key: &str, given: &impl serde::Serialize, used: &impl serde::Serialize, reason: &str) {
        let (given, used) = (json!(given), json!(used));
        if given == used {
            return;
        }
        if !reason.is_empty() {
            self.warnings.push(Warning::new(
                "item_adapted",
                format!("{key}: {reason}"),
                short(&given),
                short(&used),
            ));
        }
        if given.to_string().len() <= GIVEN_BYTES {
            self.given.insert(key.to_owned(), given);
        }
    }

    fn title(&mut self, item: &Item) -> Result<String, Invalid> {
        let line = one_line(&item.title);
        let first = || {
            item.body
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or_default()
        };
        let title_text = if line.is_empty() { first() } else { &line };
        let title = super::super::checked_title(title_text)?;
        let reason = match () {
            () if line.is_empty() => "is empty; the first line of the text is used".to_owned(),
            () if line.len() > MAX_TITLE_BYTES => format!("has more than {MAX_TITLE_BYTES} bytes"),
            () => "must be one line".to_owned(),
        };
        self.note("title", &item.title, &title, &reason);
        Ok(title)
    }

    fn status(&mut self, item: &Item, kind: EntryKind) -> Result<Status, Invalid> {
        let is_note = kind == EntryKind::Note;
        // The synonyms are those of every other place where a status is given (M7.5.40).
        let status = Status::parse_in(&item.status, Family::Work).map(Status::as_str);
        Ok(match (status.unwrap_or(&item.status), is_note) {
            ("open", false) => Status::Open,
            ("in_progress", false) => Status::InProgress,
            ("blocked", false) => Status::Blocked,
            ("done", false) => Status::Done,
            ("open", true) => Status::Active,
            ("in_progress", true) => Status::PendingReview,
            ("blocked", true) => {
                self.note("status", &"blocked", &"open", "nothing blocks a note");
                Status::Active
            }
            ("done", true) => Status::Resolved,
            ("archived", _) => Status::Archived,
            (other, _) => {
                let message = format!("{other:?} is not open, in_progress, blocked, done or archived");
                return Err(Invalid::new("status_invalid", "status", message));
            }
        })
    }

    fn tags(&mut self, given: &[String]) -> Vec<Tag> {
        let mut tags: Vec<Tag> = Vec::new();
        let mut refusal = None;
        for text in given {
            match Tag::parse(text) {
                Ok(tag) if tags.contains(&tag) || tags.len() >= Tag::MAX_PER_ENTRY => {}
                Ok(tag) => tags.push(tag),
                Err(invalid) => refusal = refusal.or(Some(invalid.message)),
            }
        }
        let reason = refusal.unwrap_or_else(|| "must be short words without duplicates, 32 at most".to_owned());
        self.note("tags", &given, &tags, &reason);
        tags
    }

    fn phase(&mut self, given: Option<&str>) -> Option<String> {
        let phase = given.filter(|phase| !phase.is_empty());
        let reason = match phase {
            Some(_) => format!("has more than {MAX_PHASE_BYTES} bytes"),
            None => "is empty".to_owned(),
        };
        let phase = phase.map(|phase| phase[..phase.floor_char_boundary(MAX_PHASE_BYTES)].to_owned());
        self.note("phase", &given, &phase, &reason);
        phase
    }

    fn progress(&mut self, given: Option<f64>) -> Option<f64> {
        let progress = given.map(|given| given.clamp(0.0, 1.0));
        self.note("progress", &given, &progress, "is not from 0 to 1");
        progress
    }

    fn times(&mut self, item: &Item, now: Timestamp) -> ImportedTimes {
        let timestamp = |nanos: u64| Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        let imported = ImportedTimes {
            created_at: timestamp(item.created_at_nanoseconds),
            updated_at: timestamp(item.updated_at_nanoseconds),
        };
        let (created, updated) = ImportedTimes::times(Some(imported), now);
        let to_nanos = |at: Timestamp| u64::try_from(at.as_nanos()).unwrap_or(0);
        self.note(
            "createdAtNanoseconds",
            &item.created_at_nanoseconds,
            &to_nanos(created),
            "is later than now",
        );
        self.note(
            "updatedAtNanoseconds",
            &item.updated_at_nanoseconds,
            &to_nanos(updated),
            "is later than now, or before it was made",
        );
        ImportedTimes {
            created_at: created,
            updated_at: updated,
        }
    }
}

/// A value as a report shows it.
fn short(value: &Value) -> String {
    cut(&value.to_string(), 80)
}
