//! What the workspace itself notes in the trace: questions, refusals, failures and corrections.

use folio_memory::id::EntryRef;
use folio_memory::trace::{DENIED, FAILED};
use folio_memory::{Actor, Entry, EntryKind, EntryQuery, ListAnswer, TraceNote, Warning};
use serde_json::{Map, Value, json};

use super::notes::Stopwatch;
use super::{Workspace, WorkspaceError};

impl Workspace {
    /// Notes a query for entries with its outcome.
    pub(super) fn note_query(
        &self,
        operation: Option<&str>,
        query: &EntryQuery,
        watch: &Stopwatch,
        answer: &Result<ListAnswer<Entry>, WorkspaceError>,
    ) {
        if !self.notes_questions() {
            return;
        }
        let (component, plural) = asked_of(query);
        let mut note = match operation {
            Some(operation) => self.noted(component, operation),
            None => self.noted(component, &format!("list_{plural}")),
        };
        note.duration_us = Some(micros(watch));
        let mut detail = Map::new();
        detail.insert("filters".to_owned(), filters(query));
        match answer {
            Ok(answer) => {
                note.as_of = answer.as_of;
                detail.insert("returned".to_owned(), json!(answer.returned));
                detail.insert("total".to_owned(), json!(answer.total));
            }
            Err(error) => {
                FAILED.clone_into(&mut note.status);
                detail.insert("error".to_owned(), json!(error.to_string()));
            }
        }
        self.note(note.with_detail(Value::Object(detail)));
    }

    /// Whether the space's policy wants questions noted, as far as this process knows, and somebody reads the answer.
    fn notes_questions(&self) -> bool {
        let policy = self.inner.policy.lock();
        policy.trace.questions && !self.is_watching
    }

    /// Notes that one entry was read, or was not found.
    pub(super) fn note_get(&self, name: &str, watch: &Stopwatch, answer: &Result<Entry, WorkspaceError>) {
        if !self.notes_questions() {
            return;
        }
        let note = match answer {
            Ok(entry) => {
                let (component, noun) = component_and_noun(entry.kind);
                about(self.noted(component, &format!("get_{noun}")), entry)
            }
            // A refusal is noted where it is decided.
            Err(WorkspaceError::Refused(_)) => return,
            Err(error) => self
                .noted("memory", "get_entry")
                .with_status(FAILED)
                .with_detail(json!({"entry": name, "error": error.to_string()})),
        };
        self.note(TraceNote {
            duration_us: Some(micros(watch)),
            ..note
        });
    }

    /// Notes that a page or a scratchbook was rendered.
    pub(super) fn note_render(&self, component: &str, operation: &str, watch: &Stopwatch, detail: Value) {
        if self.is_watching {
            return;
        }
        let note = self.noted(component, operation).with_detail(detail);
        self.note(TraceNote {
            duration_us: Some(micros(watch)),
            ..note
        });
    }

    /// Notes that `actor` was not allowed to do something. `verb` is what it tried: `update`, `archive`.
    pub(super) fn note_refusal(&self, actor: &Actor, verb: &str, entry: Option<&Entry>, refused: &WorkspaceError) {
        let (component, noun) = entry.map_or(("memory", "entry"), |entry| component_and_noun(entry.kind));
        let note = TraceNote::new(self.now(), actor, component, &format!("{verb}_{noun}"));
        let note = match entry {
            Some(entry) => about(note, entry),
            None => note,
        };
        self.note(note.with_status(DENIED).with_detail(error_detail(refused)));
    }

    /// Notes that `actor` was not allowed to do something that does not concern a single entry.
    pub(super) fn note_refusal_of(&self, actor: &Actor, component: &str, operation: &str, refused: &WorkspaceError) {
        let note = TraceNote::new(self.now(), actor, component, operation);
        self.note(note.with_status(DENIED).with_detail(error_detail(refused)));
    }

    /// Notes that a change of `entry` failed (seed 004). A refusal was noted where it was decided.
    pub(super) async fn note_failed_patch(&self, actor: &Actor, verb: &str, entry: EntryRef, error: &WorkspaceError) {
        if matches!(error, WorkspaceError::Refused(_)) {
            return;
        }
        let found = self.read_entry(entry).await.ok();
        let (component, noun) = found
            .as_ref()
            .map_or(("memory", "entry"), |entry| component_and_noun(entry.kind));
        let note = TraceNote::new(self.now(), actor, component, &format!("{verb}_{noun}")).with_status(FAILED);
        let (note, mut detail) = match &found {
            Some(entry) => (about(note, entry), Map::new()),
            None => (note, Map::from_iter([("entry".to_owned(), json!(entry.to_string()))])),
        };
        detail.extend(error_detail(error));
        self.note(note.with_detail(detail));
    }

    /// Notes that an entry of `kind` could not be added.
    pub(super) fn note_failed_add(&self, actor: &Actor, kind: EntryKind, error: &WorkspaceError) {
        if matches!(error, WorkspaceError::Refused(_)) {
            return;
        }
        let (component, noun) = component_and_noun(kind);
        let note = TraceNote::new(self.now(), actor, component, &format!("add_{noun}")).with_status(FAILED);
        self.note(note.with_detail(error_detail(error)));
    }

    /// Notes the corrections made before `entry` was written, if there were any.
    pub(super) fn note_warnings(&self, actor: &Actor, verb: &str, entry: &Entry, warnings: &[Warning]) {
        if warnings.is_empty() {
            return;
        }
        let (component, noun) = component_and_noun(entry.kind);
        let note = TraceNote::new(self.now(), actor, component, &format!("{verb}_{noun}"));
        self.note(about(note, entry).with_warnings(warnings));
    }
}

/// The component that an entry belongs to, and what an entry is called there.
pub(super) fn component_and_noun(kind: EntryKind) -> (&'static str, &'static str) {
    match kind {
        EntryKind::Observation => ("scratch_page", "observation"),
        kind if kind.is_item() => ("scratchbook", "item"),
        kind => ("page", kind.as_str()),
    }
}

/// Why something was not done: the code for programs, and the message.
pub(super) fn error_detail(error: &WorkspaceError) -> Map<String, Value> {
    let parts = [("code", error.code().to_owned()), ("error", error.to_string())];
    parts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}

fn about(note: TraceNote, entry: &Entry) -> TraceNote {
    let name = entry.fields.type_name.clone();
    note.about(entry.id, name.or_else(|| Some(entry.kind.to_string())))
}

/// The component that is asked, and the plural noun for what is asked for.
fn asked_of(query: &EntryQuery) -> (&'static str, &'static str) {
    let mut parts = query.kinds.iter().map(|kind| component_and_noun(*kind).0);
    match (
        parts.next(),
        parts.all(|part| part == component_and_noun(query.kinds[0]).0),
    ) {
        (Some("scratch_page"), true) => ("scratch_page", "observations"),
        (Some("scratchbook"), true) => ("scratchbook", "items"),
        _ => ("memory", "entries"),
    }
}

/// The fields of `query` that differ from the default. The cursor is replaced by `true`, since it is of no use to a
/// reader.
fn filters(query: &EntryQuery) -> Value {
    let object = |query: &EntryQuery| match serde_json::to_value(query) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (mut fields, open) = (object(query), object(&EntryQuery::default()));
    fields.retain(|name, value| open.get(name) != Some(value));
    if fields.contains_key("cursor") {
        fields.insert("cursor".to_owned(), Value::Bool(true));
    }
    Value::Object(fields)
}

fn micros(watch: &Stopwatch) -> u64 {
    u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX)
}
