//! From a change or an event of the log to a line of the trace.

use folio_engine::Event;
use folio_memory::counted::counted;
use folio_memory::entry::Status;
use folio_memory::turn::Decision;
use folio_memory::{Change, Confidence, EntryFields, EntryKind, FieldChange};
use serde_json::{Map, Value};

use super::TraceEntry;
use crate::workspace::noted::place_of;

/// Characters of a text that a line shows.
const DETAIL_CHARS: usize = 100;
/// Bytes of a context that a line shows.
const CONTEXT_BYTES: usize = 1_024;

/// What an entry is, as far as a line of the trace says it.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) kind: EntryKind,
    pub(super) type_name: Option<String>,
}

/// What `change` did. `patched` is the entry that it changed.
pub(super) fn of_change(line: TraceEntry, change: &Change, patched: Option<Kind>) -> TraceEntry {
    let operation = |name: &str| name.to_owned();
    match change {
        Change::EnsurePage(page) => {
            let detail = said(format!("{} {:?}", page.fields.role, short(&page.fields.title)));
            TraceEntry {
                component: "page".to_owned(),
                operation: operation("add_page"),
                page: Some(page.id),
                detail,
                ..line
            }
        }
        Change::SetPageStatus { page, status } => {
            let (page, detail) = (Some(*page), said(status.clone()));
            TraceEntry {
                component: "page".to_owned(),
                operation: operation("set_page_status"),
                page,
                detail,
                ..line
            }
        }
        Change::AddEntry(new) => {
            let (component, noun) = place_of(new.kind);
            let text = short(if new.fields.title.is_empty() {
                &new.fields.body
            } else {
                &new.fields.title
            });
            let detail = match new.kind {
                EntryKind::Observation => noticed(text, &new.fields),
                _ => said(text),
            };
            TraceEntry {
                component: component.to_owned(),
                operation: format!("add_{noun}"),
                entry: Some(new.id),
                entry_type: Some(new.fields.type_name.clone().unwrap_or_else(|| new.kind.to_string())),
                node: new.fields.source.node.as_deref().and_then(|node| node.parse().ok()),
                detail,
                ..line
            }
        }
        Change::PatchEntry { entry, fields, .. } => {
            let patched = patched.unwrap_or(Kind {
                kind: EntryKind::Note,
                type_name: None,
            });
            let (component, noun) = place_of(patched.kind);
            let names: Vec<_> = fields.iter().map(FieldChange::field).collect();
            TraceEntry {
                component: component.to_owned(),
                operation: format!("{}_{noun}", verb_of(fields)),
                entry: Some(*entry),
                entry_type: Some(patched.type_name.unwrap_or_else(|| patched.kind.to_string())),
                detail: changed(&names.join(", "), fields),
                ..line
            }
        }
        Change::BeginTurn(turn) => TraceEntry {
            component: "turn".to_owned(),
            operation: operation("begin_turn"),
            turn: Some(turn.id),
            run: turn.run.or(line.run),
            detail: said(short(&turn.input)),
            ..line
        },
        Change::EndTurn { turn, end } => TraceEntry {
            component: "turn".to_owned(),
            operation: operation("end_turn"),
            turn: Some(*turn),
            status: if end.complete { "complete" } else { "more_work" }.to_owned(),
            detail: said(format!("{} touched", counted(end.touched, "entry"))),
            ..line
        },
        Change::AddLink(link) => {
            let detail = said(format!("{} {} {}", link.src, link.rel.as_str(), link.dst));
            TraceEntry {
                component: "link".to_owned(),
                operation: operation("add_link"),
                detail,
                ..line
            }
        }
        Change::SetPolicy { .. } => TraceEntry {
            component: "policy".to_owned(),
            operation: operation("set_policy"),
            ..line
        },
        Change::RegisterType { name, .. } => TraceEntry {
            component: "policy".to_owned(),
            operation: operation("register_type"),
            detail: said(name.clone()),
            ..line
        },
        _ => TraceEntry {
            component: "page".to_owned(),
            operation: operation("change"),
            ..line
        },
    }
}

/// What was noticed, how sure whoever noticed it is, and what it has to do with.
fn noticed(text: String, fields: &EntryFields) -> Option<Value> {
    let mut detail = Map::new();
    detail.insert("text".to_owned(), text.into());
    insert_confidence(&mut detail, fields.confidence);
    insert_context(&mut detail, fields.context.as_ref());
    Some(detail.into())
}

/// Which fields were changed, and to what where that is a confidence or a context.
fn changed(names: &str, fields: &[FieldChange]) -> Option<Value> {
    let mut detail = Map::new();
    for field in fields {
        match field {
            FieldChange::Confidence(confidence) => insert_confidence(&mut detail, Some(*confidence)),
            FieldChange::Context(context) => insert_context(&mut detail, context.as_ref()),
            _ => {}
        }
    }
    if detail.is_empty() {
        return said(names.to_owned());
    }
    detail.insert("fields".to_owned(), names.into());
    Some(detail.into())
}

fn insert_confidence(detail: &mut Map<String, Value>, confidence: Option<Confidence>) {
    detail.extend(confidence.map(|confidence| ("confidence".to_owned(), confidence.value().into())));
}

/// The whole context, or how many bytes it has if that is too much for a line.
fn insert_context(detail: &mut Map<String, Value>, context: Option<&Value>) {
    let Some(context) = context else { return };
    let bytes = context.to_string().len();
    if bytes <= CONTEXT_BYTES {
        detail.insert("context".to_owned(), context.clone());
    } else {
        detail.insert("context_bytes".to_owned(), bytes.into());
    }
}

/// What the stages of a turn decided, if `change` says so: one line for each.
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
        status: decision.verdict.clone(),
        detail: said(decision.reasons.join("; ")),
        used: decision.used.iter().map(|used| used.handle).collect(),
        ..line.clone()
    };
    decisions.iter().map(of).collect()
}

/// What a patch comes to, in one word.
fn verb_of(fields: &[FieldChange]) -> &'static str {
    let found = fields.iter().find_map(|field| match field {
        FieldChange::Status(Status::Archived) => Some("archive"),
        FieldChange::Status(Status::Done | Status::Resolved) => Some("complete"),
        FieldChange::PinRank(Some(_)) => Some("pin"),
        FieldChange::PinRank(None) => Some("unpin"),
        FieldChange::SupersededBy(Some(_)) => Some("supersede"),
        FieldChange::ValidatedAt(_) => Some("confirm"),
        FieldChange::Restored(_) => Some("restore"),
        FieldChange::LeaseUntil(_) => Some("claim"),
        FieldChange::Expired(_) => Some("expire"),
        _ => None,
    });
    found.unwrap_or("update")
}

/// What `event` says.
pub(super) fn of_event(line: TraceEntry, event: &Event) -> TraceEntry {
    let line = TraceEntry {
        operation: event.name().to_owned(),
        node: event.node(),
        ..line
    };
    match event {
        Event::RunStarted { goal, .. } => TraceEntry {
            detail: said(short(goal)),
            ..line
        },
        Event::Started { attempt, .. } if *attempt > 1 => TraceEntry {
            detail: said(format!("attempt {attempt}")),
            ..line
        },
        Event::AttemptFailed { failure, .. } => {
            let detail = said(short(&format!("{}: {}", failure.code, failure.message)));
            TraceEntry {
                status: "failed".to_owned(),
                detail,
                ..line
            }
        }
        Event::Finished { result, .. } => TraceEntry {
            status: result.status.to_string(),
            duration_us: Some(result.duration_us).filter(|us| *us > 0),
            detail: said(
                result
                    .stop_reason
                    .map_or_else(|| short(&result.notes), |reason| reason.to_string()),
            ),
            ..line
        },
        Event::CancelRequested { by, .. } => TraceEntry {
            source: by.clone(),
            ..line
        },
        Event::Resumed { in_flight } => TraceEntry {
            detail: said(format!("{} calls were in flight", in_flight.len())),
            ..line
        },
        Event::AskFailed { .. } => TraceEntry {
            status: "failed".to_owned(),
            detail: said(event.in_words()),
            ..line
        },
        Event::Replied { duration_us, .. } => TraceEntry {
            duration_us: Some(*duration_us).filter(|us| *us > 0),
            detail: said(event.in_words()),
            ..line
        },
        other => TraceEntry {
            detail: said(other.in_words()),
            ..line
        },
    }
}

/// A detail in words; nothing if there are none.
fn said(text: String) -> Option<Value> {
    (!text.is_empty()).then_some(Value::String(text))
}

/// The first line of `text`, cut.
fn short(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    match line.char_indices().nth(DETAIL_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
