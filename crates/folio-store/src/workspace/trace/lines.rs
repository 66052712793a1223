//! Turns changes and events of the log into lines of the trace.

use folio_engine::{Event, Outcome};
use folio_memory::counted::counted;
use folio_memory::excerpt::cut;
use folio_memory::history::operation_of;
use folio_memory::observation::field_name;
use folio_memory::trace::{FAILED, SUCCESS, WARNING};
use folio_memory::turn::Decision;
use folio_memory::{Change, Confidence, EntryFields, EntryId, EntryKind, FieldChange};
use serde_json::{Map, Value, json};

use super::TraceEntry;
use crate::workspace::operation_notes::component_and_noun;

/// Characters of a text that a line shows.
const DETAIL_CHARS: usize = 100;
/// Bytes of a context that a line shows.
const CONTEXT_BYTES: usize = 1_024;

/// What a line of the trace says about the sort of an entry.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) kind: EntryKind,
    pub(super) type_name: Option<String>,
}

/// The line of `change`. `patched` is the sort of the entry that it changed.
pub(super) fn of_change(line: TraceEntry, change: &Change, patched: Option<Kind>) -> TraceEntry {
    let (component, operation) = named(change, patched.as_ref().map(|patched| patched.kind));
    let line = TraceEntry {
        component: component.to_owned(),
        operation,
        ..line
    };
    match change {
        Change::EnsurePage(page) if page.fields.names_next_iteration() => TraceEntry {
            page: Some(page.id),
            detail: text_detail(page.fields.iteration.unwrap_or_default().to_string()),
            ..line
        },
        Change::EnsurePage(page) => TraceEntry {
            page: Some(page.id),
            detail: text_detail(format!("{} {:?}", page.fields.role, short(&page.fields.title))),
            ..line
        },
        Change::SetPageStatus { page, status } => TraceEntry {
            page: Some(*page),
            detail: text_detail(status.clone()),
            ..line
        },
        Change::AddEntry(new) => {
            let text = short(if new.fields.title.is_empty() {
                &new.fields.body
            } else {
                &new.fields.title
            });
            let detail = match new.kind {
                EntryKind::Observation => observation_detail(text, &new.fields),
                _ => text_detail(text),
            };
            TraceEntry {
                entry: Some(new.id),
                entry_type: Some(new.fields.type_name.clone().unwrap_or_else(|| new.kind.to_string())),
                node: new.fields.source.node.as_deref().and_then(|node| node.parse().ok()),
                detail,
                ..line
            }
        }
        Change::PatchEntry { entry, fields, .. } => {
            let kind = patched.as_ref().map_or(EntryKind::Note, |patched| patched.kind);
            let type_name = patched.and_then(|patched| patched.type_name);
            TraceEntry {
                entry: Some(*entry),
                entry_type: Some(type_name.unwrap_or_else(|| kind.to_string())),
                detail: changed(kind, fields),
                ..line
            }
        }
        Change::EraseEntry { entry, why, .. } => {
            let type_name = patched.and_then(|patched| patched.type_name.or(Some(patched.kind.to_string())));
            TraceEntry {
                entry: Some(*entry),
                entry_type: type_name,
                detail: text_detail(format!("erased: {}", why.as_str())),
                ..line
            }
        }
        Change::BeginTurn(turn) => TraceEntry {
            turn: Some(turn.id),
            run: turn.run.or(line.run),
            detail: text_detail(short(&turn.input)),
            ..line
        },
        Change::EndTurn { turn, end } => {
            let verdict = if end.complete { "complete" } else { "more_work" };
            let touched = format!("{} touched", counted(end.touched, "entry"));
            TraceEntry {
                turn: Some(*turn),
                detail: Some(json!({"text": touched, "verdict": verdict})),
                ..line
            }
        }
        Change::EraseTurn { turn } => TraceEntry {
            turn: Some(*turn),
            ..line
        },
        Change::EraseRun { run, .. } => TraceEntry {
            run: Some(*run),
            ..line
        },
        Change::AddLink(link) => TraceEntry {
            detail: text_detail(format!("{} {} {}", link.src, link.rel.as_str(), link.dst)),
            ..line
        },
        Change::RegisterType { name, .. } => TraceEntry {
            detail: text_detail(name.clone()),
            ..line
        },
        _ => line,
    }
}

/// The component to which `change` belongs, and the name of its operation. `patched` is the kind of the entry that it
/// changes.
fn named(change: &Change, patched: Option<EntryKind>) -> (&'static str, String) {
    let (component, operation) = match change {
        Change::EnsurePage(page) if page.fields.names_next_iteration() => ("page", "set_page_iteration"),
        Change::EnsurePage(_) => ("page", "add_page"),
        Change::SetPageStatus { .. } => ("page", "set_page_status"),
        Change::AddEntry(new) => {
            let (component, noun) = component_and_noun(new.kind);
            return (component, format!("add_{noun}"));
        }
        Change::PatchEntry { fields, .. } => {
            let (component, noun) = component_and_noun(patched.unwrap_or(EntryKind::Note));
            return (component, format!("{}_{noun}", operation_of(None, fields)));
        }
        Change::EraseEntry { .. } => {
            let (component, noun) = component_and_noun(patched.unwrap_or(EntryKind::Note));
            return (component, format!("erase_{noun}"));
        }
        Change::BeginTurn(_) => ("turn", "begin_turn"),
        Change::EndTurn { .. } => ("turn", "end_turn"),
        Change::EraseTurn { .. } => ("turn", "erase_turn"),
        Change::EraseRun { .. } => ("run", "erase_run"),
        Change::AddLink(_) => ("link", "add_link"),
        Change::SetPolicy { .. } => ("policy", "set_policy"),
        Change::RegisterType { .. } => ("policy", "register_type"),
        _ => ("page", "change"),
    };
    (component, operation.to_owned())
}

/// The component and the operation, as a line of the trace names them, of an attempt to make `changes`: by the first
/// change that does not merely prepare for the others. `kind_of` knows the entries that are changed.
pub(in crate::workspace) fn tried(
    changes: &[Change],
    kind_of: impl Fn(&EntryId) -> Option<EntryKind>,
) -> Option<(&'static str, String)> {
    let makes_room = |change: &&Change| matches!(change, Change::EnsurePage(_) | Change::RegisterType { .. });
    let first = changes.iter().find(|change| !makes_room(change)).or(changes.first())?;
    let kind = match first {
        Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => kind_of(entry),
        _ => None,
    };
    Some(named(first, kind))
}

/// The detail of an observation: its text, its confidence and its context.
fn observation_detail(text: String, fields: &EntryFields) -> Option<Value> {
    let mut detail = Map::new();
    detail.insert("text".to_owned(), text.into());
    insert_confidence(&mut detail, fields.confidence);
    insert_context(&mut detail, fields.context.as_ref());
    Some(detail.into())
}

/// The detail of a patch: the changed fields, and the new value of a confidence, a context or an expiry.
fn changed(kind: EntryKind, fields: &[FieldChange]) -> Option<Value> {
    let name = |field: &FieldChange| match kind {
        EntryKind::Observation => field_name(field.field()),
        _ => field.field(),
    };
    let names: Vec<_> = fields.iter().map(name).collect();
    let mut detail = Map::from_iter([("fields".to_owned(), names.into())]);
    for field in fields {
        match field {
            FieldChange::Confidence(confidence) => insert_confidence(&mut detail, Some(*confidence)),
            FieldChange::Context(context) => insert_context(&mut detail, context.as_ref()),
            FieldChange::Ended(at) | FieldChange::Expired(at) => {
                drop(detail.insert("expires_at".to_owned(), json!(at)));
            }
            _ => {}
        }
    }
    Some(detail.into())
}

fn insert_confidence(detail: &mut Map<String, Value>, confidence: Option<Confidence>) {
    detail.extend(confidence.map(|confidence| ("confidence".to_owned(), confidence.value().into())));
}

/// Adds the whole context, or only its size in bytes if it is too long for a line.
fn insert_context(detail: &mut Map<String, Value>, context: Option<&Value>) {
    let Some(context) = context else { return };
    let bytes = context.to_string().len();
    if bytes <= CONTEXT_BYTES {
        detail.insert("context".to_owned(), context.clone());
    } else {
        detail.insert("context_bytes".to_owned(), bytes.into());
    }
}

/// The lines of the decisions of a turn's stages, one for each, if `change` has any.
pub(super) fn decisions_of(line: &TraceEntry, change: &Change) -> Vec<TraceEntry> {
    let (turn, decisions) = match change {
        Change::BeginTurn(new) => (new.id, &new.decisions),
        Change::EndTurn { turn, end } => (*turn, &end.decisions),
        _ => return Vec::new(),
    };
    let of = |decision: &Decision| TraceEntry {
        component: decision.stage.to_string(),
        operation: "decide".to_owned(),
        turn: Some(turn),
        source: decision.stage.to_string(),
        detail: Some(json!({"verdict": decision.verdict, "reasons": decision.reasons})),
        used: decision.used.iter().map(|used| used.handle).collect(),
        ..line.clone()
    };
    decisions.iter().map(of).collect()
}

/// The line of `event`.
pub(super) fn of_event(line: TraceEntry, event: &Event) -> TraceEntry {
    let line = TraceEntry {
        operation: event.name().to_owned(),
        node: event.node(),
        ..line
    };
    match event {
        Event::RunStarted { goal, .. } => TraceEntry {
            detail: text_detail(short(goal)),
            ..line
        },
        Event::Started { attempt, .. } if *attempt > 1 => TraceEntry {
            detail: text_detail(format!("attempt {attempt}")),
            ..line
        },
        Event::AttemptFailed { failure, .. } => {
            let detail = text_detail(short(&format!("{}: {}", failure.code, failure.message)));
            TraceEntry {
                status: FAILED.to_owned(),
                detail,
                ..line
            }
        }
        Event::Finished { result, .. } => {
            let status = match result.status {
                Outcome::Ok => SUCCESS,
                Outcome::Partial | Outcome::Skipped | Outcome::Cancelled => WARNING,
                Outcome::Failed => FAILED,
            };
            let text = match (result.stop_reason, result.notes.is_empty()) {
                (Some(reason), true) => reason.to_string(),
                (Some(reason), false) => short(&format!("{reason}: {}", result.notes)),
                (None, _) => short(&result.notes),
            };
            let mut detail = Map::from_iter([("outcome".to_owned(), result.status.as_str().into())]);
            if !text.is_empty() {
                detail.insert("text".to_owned(), text.into());
            }
            TraceEntry {
                status: status.to_owned(),
                duration_us: Some(result.duration_us).filter(|us| *us > 0),
                detail: Some(detail.into()),
                ..line
            }
        }
        Event::CancelRequested { by, .. } => TraceEntry {
            source: by.clone(),
            ..line
        },
        Event::Resumed { in_flight, .. } => TraceEntry {
            detail: text_detail(match in_flight.len() {
                0 if !event.uncounted().is_zero() => "some time does not count".to_owned(),
                1 => "1 call was in flight".to_owned(),
                count => format!("{count} calls were in flight"),
            }),
            ..line
        },
        // Who did it is in the line already, unless somebody else wrote it down.
        Event::Paused { by, .. } | Event::Continued { by, .. }
            if by.rsplit(':').next() == Some(line.source.as_str()) =>
        {
            line
        }
        Event::AskFailed { .. } => TraceEntry {
            status: FAILED.to_owned(),
            detail: text_detail(event.in_words()),
            ..line
        },
        Event::Replied { duration_us, .. } => TraceEntry {
            duration_us: Some(*duration_us).filter(|us| *us > 0),
            detail: text_detail(event.in_words()),
            ..line
        },
        other => TraceEntry {
            detail: text_detail(other.in_words()),
            ..line
        },
    }
}

/// A detail with a text; `None` if the text is empty.
fn text_detail(text: String) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "text": text }))
}

/// The first line of `text` that is not empty, cut to a limit.
fn short(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    cut(line, DETAIL_CHARS)
}
