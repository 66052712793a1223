//! Folds commits into entries, and reads records.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use folio_engine::event::FORMAT;
use folio_engine::run::RunSummary;
use folio_engine::{Event, Run};
use folio_memory::id::RunHandle;
use folio_memory::keeping::ErasedFor;
use folio_memory::{Change, Entry, EntryHandle, EntryId, EntryKind, FieldChange, RunId, Seq, Timestamp, text};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::commit::{RECORD_FORMAT, Record};
use crate::error::StoreError;
use crate::store::{CHANGES_BYTES, ForgottenRun, Journal, LogRow, Revision};

/// Roughly how many times larger than its packed bytes a record is.
pub(crate) const UNPACKED_SIZE_FACTOR: usize = 6;

/// Applies `change` to `state` of the entry `id`; returns whether anything changed.
pub(crate) fn fold(
    state: &mut Option<Entry>,
    handle: EntryHandle,
    change: &Change,
    id: EntryId,
    seq: Seq,
    at: Timestamp,
) -> bool {
    match (change, state) {
        (Change::AddEntry(new), state @ None) if new.id == id => {
            *state = Some(Entry::added((**new).clone(), handle, seq, at));
            true
        }
        (Change::PatchEntry { entry, fields, .. }, Some(state)) if *entry == id && !state.is_unchanged_by(fields) => {
            state.patch(fields, seq, at);
            true
        }
        (Change::EraseEntry { entry, why, .. }, Some(state)) if *entry == id => state.erase(*why, seq, at),
        _ => false,
    }
}

/// The revisions of one entry, built by taking in the commits that added and changed it, oldest first.
#[derive(Debug)]
pub(crate) struct Revisions {
    id: EntryId,
    handle: EntryHandle,
    state: Option<Entry>,
    pub(crate) made: Vec<Revision>,
    /// The version that last changed each field, and the one before, and so on.
    changed: Vec<(&'static str, u32)>,
}

impl Revisions {
    /// Starts without any revision of `found`.
    pub(crate) fn of(found: &Entry) -> Self {
        Self {
            id: found.id,
            handle: found.handle,
            state: None,
            made: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// Keeps what `commit` did to the entry.
    pub(crate) fn take_in(&mut self, commit: &LogRow) {
        for change in &commit.record.changes {
            let fields = self.fields_changed_by(change);
            let changed = fold(&mut self.state, self.handle, change, self.id, commit.seq, commit.at);
            if let (true, Some(entry)) = (changed, &self.state) {
                let version = entry.version;
                self.changed.extend(fields.into_iter().map(|field| (field, version)));
                self.made.push(Revision {
                    seq: commit.seq,
                    at: commit.at,
                    actor: commit.actor.clone(),
                    version: entry.version,
                    change: change.clone(),
                    reason: commit.record.reason.clone(),
                });
            }
        }
    }

    /// The fields that `change` would change. A patch may also name fields that it leaves as they are.
    fn fields_changed_by(&self, change: &Change) -> Vec<&'static str> {
        let (Some(state), Change::PatchEntry { entry, fields, .. }) = (&self.state, change) else {
            return Vec::new();
        };
        if *entry != self.id {
            return Vec::new();
        }
        let is_changed = |field: &&FieldChange| !state.is_unchanged_by(std::slice::from_ref(*field));
        fields.iter().filter(is_changed).map(FieldChange::field).collect()
    }

    /// Which fields were changed after version `base`, each with the version that last changed it.
    pub(crate) fn changed_since(&self, base: u32) -> HashMap<&'static str, u32> {
        let later = self.changed.iter().filter(|(_, version)| *version > base);
        later.copied().collect()
    }
}

/// Which fields of `found` its last version changed, judged by `commit`, which made that version.
///
/// `None` if the commit alone does not tell. The log also contains patches that changed nothing, or not all of the fields
/// that they name, and only the state that a patch was applied to tells them apart. But if a commit made a version and
/// names only one field of the entry, it changed that.
pub(crate) fn changed_last(found: &Entry, commit: &LogRow) -> Option<HashMap<&'static str, u32>> {
    let of_entry = |change: &&Change| match change {
        Change::AddEntry(new) => new.id == found.id,
        Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => *entry == found.id,
        _ => false,
    };
    let mut changes = commit.record.changes.iter().filter(of_entry);
    match (changes.next(), changes.next()) {
        (Some(Change::PatchEntry { fields, .. }), None) => match &fields[..] {
            [only] => Some(HashMap::from([(only.field(), found.version)])),
            _ => None,
        },
        // Adding and erasing are no changes of fields.
        (Some(_), None) => Some(HashMap::new()),
        _ => None,
    }
}

/// The states of several entries, built by taking in the commits that added and changed them, in order.
#[derive(Debug)]
pub(crate) struct States {
    places: HashMap<EntryId, usize>,
    states: Vec<(EntryHandle, Option<Entry>)>,
    erased: Vec<Option<ErasedFor>>,
}

impl States {
    /// Starts with none of `entries`, given as they are now, added.
    pub(crate) fn of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Self {
        let mut states = Self {
            places: HashMap::new(),
            states: Vec::new(),
            erased: Vec::new(),
        };
        for entry in entries {
            states.places.insert(entry.id, states.states.len());
            states.states.push((entry.handle, None));
            states.erased.push(entry.fields.erased);
        }
        states
    }

    /// Starts with `entries`, in states that they had.
    pub(crate) fn from(entries: Vec<Entry>) -> Self {
        let mut states = Self::of(&entries);
        states.states = entries.into_iter().map(|entry| (entry.handle, Some(entry))).collect();
        states
    }

    /// Applies `commit`, which follows those taken in before.
    pub(crate) fn take_in(&mut self, commit: &LogRow) {
        for change in &commit.record.changes {
            let id = match change {
                Change::AddEntry(new) => new.id,
                Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => *entry,
                _ => continue,
            };
            if let Some(place) = self.places.get(&id) {
                let (handle, state) = &mut self.states[*place];
                fold(state, *handle, change, id, commit.seq, commit.at);
            }
        }
    }

    /// The entries that were added, in the order in which they were given.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.states.into_iter().filter_map(|(_, state)| state).collect()
    }

    /// The same for readers: what has been erased since is marked as erased, because the log no longer has the content
    /// that it had then.
    pub(crate) fn into_readable(self) -> Vec<Entry> {
        let states = self.states.into_iter().zip(self.erased);
        let readable = states.filter_map(|((_, state), erased)| Some(marked_as_erased(state?, erased)));
        readable.collect()
    }
}

/// `entry` as it was at a time, marked as erased if it is `erased` by now.
pub(crate) fn marked_as_erased(mut entry: Entry, erased: Option<ErasedFor>) -> Entry {
    entry.fields.erased = entry.fields.erased.or(erased);
    entry
}

/// The entry that `change` adds or changes.
pub(crate) fn changed_entry(change: &Change) -> Option<EntryId> {
    match change {
        Change::AddEntry(new) => Some(new.id),
        Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => Some(*entry),
        _ => None,
    }
}

/// Parses a record, or says what is wrong with it.
pub(crate) fn record_of(text: &str) -> Result<Record, String> {
    let record: Record = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if record.format > RECORD_FORMAT {
        return Err(format!("its format {} is newer than {RECORD_FORMAT}", record.format));
    }
    Ok(record)
}

/// The events in a record's text, without reading the rest. If this version does not know some of them, and an event
/// before them says that a newer version wrote them, returns the events up to that one ([`is_from_newer_version`]).
pub(crate) fn events_of(text: &str) -> serde_json::Result<Vec<Event>> {
    #[derive(Deserialize)]
    struct OnlyRun {
        run: Option<OnlyEvents>,
    }
    #[derive(Deserialize)]
    struct OnlyEvents {
        events: Vec<Event>,
    }
    match serde_json::from_str::<OnlyRun>(text) {
        Ok(record) => Ok(record.run.map(|run| run.events).unwrap_or_default()),
        Err(unread) => events_until_newer_version(text).ok_or(unread),
    }
}

/// A part of a run's journal while its commits are read in order.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) journal: Journal,
    /// Bytes that are still wanted.
    left: usize,
}

impl Part {
    /// An empty part that begins after `since` and ends with the commit that brings it to `bytes`.
    pub(crate) fn after(since: Seq, bytes: usize) -> Self {
        let journal = Journal {
            events: Vec::new(),
            head: since,
            is_whole: true,
            bytes: 0,
        };
        Self { journal, left: bytes }
    }

    /// Whether the part has all that is wanted; called only if there is another commit.
    pub(crate) fn is_full(&mut self) -> bool {
        self.journal.is_whole = self.left > 0;
        self.left == 0
    }

    /// Takes in the next commit with its record's text; returns false if nothing after it can be read
    /// ([`is_from_newer_version`]).
    pub(crate) fn take(&mut self, seq: Seq, at: Timestamp, text: &str) -> serde_json::Result<bool> {
        self.left = self.left.saturating_sub(text.len());
        self.journal.bytes += text.len();
        let events = events_of(text)?;
        let is_last = events.iter().any(is_from_newer_version);
        self.journal.events.extend(events.into_iter().map(|event| (at, event)));
        self.journal.head = seq;
        Ok(!is_last)
    }
}

/// A limit on the commits that are read at once: as many as have no more bytes in their records than are wanted, but at
/// least one.
#[derive(Debug)]
pub(crate) struct RecordByteBudget {
    left: usize,
}

impl RecordByteBudget {
    /// The limit of [`CHANGES_BYTES`].
    pub(crate) fn of_changes() -> Self {
        Self::of(CHANGES_BYTES)
    }

    /// A limit of `bytes`.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Takes a record of `plain` bytes and `packed` packed bytes. Returns whether there is room for another one.
    pub(crate) fn take(&mut self, plain: usize, packed: usize) -> bool {
        self.left = self
            .left
            .saturating_sub(plain.saturating_add(packed.saturating_mul(UNPACKED_SIZE_FACTOR)));
        self.left > 0
    }
}

/// Whether nothing after `event` can be read because a newer version wrote it. Folding the event reports that.
pub(crate) fn is_from_newer_version(event: &Event) -> bool {
    format_beyond(event).is_some()
}

fn format_beyond(event: &Event) -> Option<u32> {
    match event {
        Event::RunStarted { format, .. } | Event::FormatRaised { format } if *format > FORMAT => Some(*format),
        _ => None,
    }
}

/// The error that commit `seq` of `run` cannot be read because a newer version wrote it; `None` unless `journal`, the
/// one of `run`, says so there or earlier.
pub(crate) fn too_new(run: RunId, journal: &Journal, seq: Seq) -> Option<StoreError> {
    let found = journal.events.iter().find_map(|(_, event)| format_beyond(event))?;
    (journal.head <= seq).then_some(StoreError::RunTooNew { run, found })
}

/// The run of a record's events, without reading the rest of the record, so that this also works for records of newer
/// versions.
pub(crate) fn run_of(text: &str) -> Option<RunId> {
    #[derive(Deserialize)]
    struct OnlyRun {
        run: Option<OnlyId>,
    }
    #[derive(Deserialize)]
    struct OnlyId {
        run: RunId,
    }
    let record: OnlyRun = serde_json::from_str(text).ok()?;
    Some(record.run?.run)
}

/// What `commit`, the last one of `run`, says of the run if it forgot it.
pub(crate) fn forgotten_run(commit: &LogRow, run: RunId) -> Option<ForgottenRun> {
    let left = commit.record.changes.iter().find_map(|change| match change {
        Change::EraseRun { run: erased, left } if *erased == run => Some(left.clone()),
        _ => None,
    });
    Some(ForgottenRun {
        left: left?,
        at: commit.at,
        by: commit.actor.to_string(),
        reason: commit.record.reason.clone().filter(|reason| !reason.is_empty()),
    })
}

/// The error that the run with the number `number` was forgotten, if its `status` says so.
///
/// # Errors
///
/// `RunForgotten`.
pub(crate) fn refuse_forgotten(number: u64, status: &str) -> Result<(), StoreError> {
    if status != Run::FORGOTTEN {
        return Ok(());
    }
    let run = RunHandle(number).to_string();
    Err(StoreError::RunForgotten { run })
}

/// What a record's text says of its run for lists, without reading the rest, whichever version wrote it.
pub(crate) fn run_summary_of(text: &str) -> Option<RunSummary> {
    #[derive(Deserialize)]
    struct OnlyRun {
        run: Option<OnlySoFar>,
    }
    #[derive(Deserialize)]
    struct OnlySoFar {
        so_far: Option<RunSummary>,
    }
    let record: OnlyRun = serde_json::from_str(text).ok()?;
    record.run?.so_far
}

/// The events of a record that cannot be read as a whole, up to the event which says that a newer version wrote them.
fn events_until_newer_version(text: &str) -> Option<Vec<Event>> {
    let record: Value = serde_json::from_str(text).ok()?;
    let mut events = Vec::new();
    for event in record["run"]["events"].as_array()? {
        let says_so = matches!(event["event"].as_str(), Some("run_started" | "format_raised"));
        let format = event["format"].as_u64().and_then(|format| u32::try_from(format).ok());
        if let Some(format) = format.filter(|format| says_so && *format > FORMAT) {
            events.push(Event::FormatRaised { format });
            return Some(events);
        }
        events.push(serde_json::from_value(event.clone()).ok()?);
    }
    None
}

/// The stored form of a record, or of a [`Rewritten`] one.
pub(crate) fn record_json(record: &impl Serialize) -> Result<String, StoreError> {
    let text = serde_json::to_string(record);
    text.map_err(|error| StoreError::Invalid(format!("the record cannot be written as JSON: {error}")))
}

/// The hashes of bodies in `text`.
pub(crate) fn hashes_in(text: &str) -> BTreeSet<String> {
    static HASH: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?-u)\b[0-9a-f]{64}\b").expect("the expression is a constant and a test uses it")
    });
    HASH.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

/// The entries whose terms a commit may have changed.
pub(crate) fn touched(record: &str) -> serde_json::Result<Vec<EntryId>> {
    #[derive(Deserialize)]
    struct Changes {
        #[serde(default)]
        changes: Vec<Change>,
    }
    /// The part of a change that names its entries. The rest is skipped.
    #[derive(Deserialize)]
    struct Change {
        op: String,
        #[serde(default)]
        id: Value,
        #[serde(default)]
        kind: Value,
        #[serde(default)]
        entry: Value,
        #[serde(default)]
        entries: Value,
    }
    let changes: Changes = serde_json::from_str(record)?;
    let mut touched = Vec::new();
    for change in changes.changes {
        if change.op == "add_entry" {
            let kind = change.kind.as_str().and_then(EntryKind::parse);
            if kind.is_some_and(text::is_searchable) {
                touched.extend(id(&change.id));
            }
        } else {
            // Whatever the change does, the terms are computed from the entry's current content.
            touched.extend(id(&change.entry));
            touched.extend(change.entries.as_array().into_iter().flatten().filter_map(id));
        }
    }
    Ok(touched)
}

fn id(value: &Value) -> Option<EntryId> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(events: &Value) -> serde_json::Result<Vec<Event>> {
        events_of(&json!({"v": 1, "run": {"run": "r", "events": events}}).to_string())
    }

    #[test]
    fn newer_format_events_are_read_until_one_is_unknown_e9_9() {
        let newer = FORMAT + 1;
        let known = json!({"event": "paused", "by": "ada"});
        let unknown = json!({"event": "frobnicated", "node": 3});
        let paused = Event::Paused {
            node: None,
            by: "ada".to_owned(),
        };
        let raised = Event::FormatRaised { format: newer };
        for says_so in [
            json!({"event": "format_raised", "format": newer}),
            json!({"event": "run_started", "format": newer, "said": "otherwise"}),
        ] {
            let read = of(&json!([known, says_so, unknown])).unwrap();
            assert_eq!(read, [paused.clone(), raised.clone()]);
        }
        let read = of(&json!([known, {"event": "format_raised", "format": newer}, known])).unwrap();
        assert_eq!(read, [paused.clone(), raised, paused]);
    }

    #[test]
    fn unknown_event_without_a_preceding_newer_format_is_an_error() {
        let unknown = json!({"event": "frobnicated"});
        assert!(of(&json!([unknown])).is_err());
        assert!(of(&json!([{"event": "format_raised", "format": FORMAT}, unknown])).is_err());
        assert!(of(&json!([unknown, {"event": "format_raised", "format": FORMAT + 1}])).is_err());
    }
}
