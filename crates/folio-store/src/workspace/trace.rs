//! The log read as a timeline: what happened, one line for each change and each event (seed 004).

use std::collections::HashMap;

use folio_engine::{Event, NodeId};
use folio_memory::entry::Status;
use folio_memory::id::{Ref, RunRef};
use folio_memory::{Change, EntryId, EntryKind, FieldChange, PageId, RunId, Seq, Timestamp, TurnId};

use super::{Workspace, WorkspaceError};
use crate::error::StoreError;
use crate::store::LogRow;

/// Commits that are read at a time.
const CHUNK: u32 = 500;
/// Lines given when nothing is said.
const DEFAULT_LIMIT: usize = 50;
/// Characters of a text that a line shows.
const DETAIL_CHARS: usize = 100;

/// Which part of the timeline is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceQuery {
    /// Only what was done in this run.
    pub run: Option<RunRef>,
    /// Only what came after this commit; the first lines after it are given. Without it, the last.
    pub since: Option<Seq>,
    /// How many lines at most; 0 means 50.
    pub limit: usize,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceEntry {
    /// The commit.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Which part of the program: `scratch_page`, `scratchbook`, `page`, `link`, `engine`.
    pub component: &'static str,
    /// What was done, for example `add_observation`.
    pub operation: String,
    /// The entry that it was done to.
    pub entry: Option<EntryId>,
    /// The page that it was done to, if it was no entry.
    pub page: Option<PageId>,
    /// The type of the observation, or the kind of another entry.
    pub entry_type: Option<String>,
    /// Who: the tool's or user's name, or the role if there is none.
    pub source: String,
    /// How it went: `success`, or the outcome of what finished.
    pub status: String,
    /// In which turn.
    pub turn: Option<TurnId>,
    /// In which run.
    pub run: Option<RunId>,
    /// At which node of the run's tree.
    pub node: Option<NodeId>,
    /// How long it took, if that was measured.
    pub duration_us: Option<u64>,
    /// More, in a few words.
    pub detail: Option<String>,
}

impl Workspace {
    /// What happened, in order.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such run; `Unavailable` or `Corrupt`.
    pub async fn trace(&self, query: TraceQuery) -> Result<Vec<TraceEntry>, WorkspaceError> {
        let limit = if query.limit == 0 { DEFAULT_LIMIT } else { query.limit };
        let head = self.head().await?;
        let (mut since, until, run) = match query.run {
            Some(run) => {
                let run = self.run(run).await?;
                (self.last_before(run.created_at, head).await?, head, Some(run.id))
            }
            None => (Seq(0), head, None),
        };
        let wants_last = query.since.is_none();
        match query.since {
            Some(seq) => since = since.max(seq),
            // A commit is one line or more, so the last lines are in the last commits.
            None if run.is_none() => since = Seq(head.0.saturating_sub(limit as u64)),
            None => {}
        }
        let mut lines = Vec::new();
        let mut known = HashMap::new();
        'log: while since < until {
            let rows = self.changes(since, CHUNK).await?;
            let Some(last) = rows.last() else { break };
            since = last.seq;
            for row in rows {
                if run.is_none_or(|run| {
                    row.actor.run == Some(run) || row.record.run.as_ref().is_some_and(|r| r.run == run)
                }) {
                    self.read_row(row, &mut known, &mut lines).await?;
                }
                if !wants_last && lines.len() >= limit {
                    break 'log;
                }
            }
            if lines.len() > 4 * limit.max(CHUNK as usize) {
                lines.drain(..lines.len() - limit);
            }
        }
        if wants_last {
            lines.drain(..lines.len().saturating_sub(limit));
        } else {
            lines.truncate(limit);
        }
        Ok(lines)
    }

    /// The last commit before `at`: instants of a space never run backwards.
    async fn last_before(&self, at: Timestamp, head: Seq) -> Result<Seq, WorkspaceError> {
        let (mut before, mut from) = (0, head.0);
        while before < from {
            let middle = before + (from - before) / 2;
            match self.changes(Seq(middle), 1).await?.first() {
                Some(row) if row.at < at => before = middle + 1,
                _ => from = middle,
            }
        }
        Ok(Seq(before))
    }

    async fn read_row(
        &self,
        row: LogRow,
        known: &mut HashMap<EntryId, Kind>,
        lines: &mut Vec<TraceEntry>,
    ) -> Result<(), WorkspaceError> {
        let actor = &row.actor;
        let line = TraceEntry {
            seq: row.seq,
            at: row.at,
            component: "engine",
            operation: String::new(),
            entry: None,
            page: None,
            entry_type: None,
            source: if actor.name.is_empty() {
                actor.role.to_string()
            } else {
                actor.name.clone()
            },
            status: "success".to_owned(),
            turn: actor.turn,
            run: actor.run,
            node: None,
            duration_us: None,
            detail: None,
        };
        for change in &row.record.changes {
            let kind = match change {
                Change::PatchEntry { entry, .. } => Some(self.kind_of(*entry, known).await?),
                _ => None,
            };
            let mut line = of_change(line.clone(), change, kind);
            line.detail = row.record.reason.clone().or(line.detail);
            lines.push(line);
        }
        if let Some(append) = &row.record.run {
            for event in &append.events {
                lines.push(of_event(
                    TraceEntry {
                        run: Some(append.run),
                        ..line.clone()
                    },
                    event,
                ));
            }
        }
        Ok(())
    }

    async fn kind_of(&self, entry: EntryId, known: &mut HashMap<EntryId, Kind>) -> Result<Kind, WorkspaceError> {
        if let Some(kind) = known.get(&entry) {
            return Ok(kind.clone());
        }
        let kind = match self.entry(Ref::Id(entry)).await {
            Ok(entry) => Kind {
                kind: entry.kind,
                type_name: entry.fields.type_name,
            },
            // What was forgotten leaves its revisions.
            Err(WorkspaceError::Store(StoreError::NotFound { .. })) => Kind {
                kind: EntryKind::Note,
                type_name: Some("unknown".to_owned()),
            },
            Err(error) => return Err(error),
        };
        known.insert(entry, kind.clone());
        Ok(kind)
    }
}

/// What an entry is, as far as a line of the trace says it.
#[derive(Debug, Clone)]
struct Kind {
    kind: EntryKind,
    type_name: Option<String>,
}

fn of_change(line: TraceEntry, change: &Change, patched: Option<Kind>) -> TraceEntry {
    let operation = |name: &str| name.to_owned();
    match change {
        Change::EnsurePage(page) => {
            let detail = Some(format!("{} {:?}", page.fields.role, short(&page.fields.title)));
            TraceEntry {
                component: "page",
                operation: operation("add_page"),
                page: Some(page.id),
                detail,
                ..line
            }
        }
        Change::SetPageStatus { page, status } => {
            let (page, detail) = (Some(*page), Some(status.clone()));
            TraceEntry {
                component: "page",
                operation: operation("set_page_status"),
                page,
                detail,
                ..line
            }
        }
        Change::AddEntry(new) => {
            let (component, noun) = place_of(new.kind);
            let text = if new.fields.title.is_empty() {
                &new.fields.body
            } else {
                &new.fields.title
            };
            TraceEntry {
                component,
                operation: format!("add_{noun}"),
                entry: Some(new.id),
                entry_type: Some(new.fields.type_name.clone().unwrap_or_else(|| new.kind.to_string())),
                node: new.fields.source.node.as_deref().and_then(|node| node.parse().ok()),
                detail: Some(short(text)).filter(|text| !text.is_empty()),
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
                component,
                operation: format!("{}_{noun}", verb_of(fields)),
                entry: Some(*entry),
                entry_type: Some(patched.type_name.unwrap_or_else(|| patched.kind.to_string())),
                detail: Some(names.join(", ")),
                ..line
            }
        }
        Change::AddLink(link) => {
            let detail = Some(format!("{} {} {}", link.src, link.rel.as_str(), link.dst));
            TraceEntry {
                component: "link",
                operation: operation("add_link"),
                detail,
                ..line
            }
        }
        Change::SetPolicy { .. } => TraceEntry {
            component: "policy",
            operation: operation("set_policy"),
            ..line
        },
        Change::RegisterType { name, .. } => TraceEntry {
            component: "policy",
            operation: operation("register_type"),
            detail: Some(name.clone()),
            ..line
        },
        _ => TraceEntry {
            component: "page",
            operation: operation("change"),
            ..line
        },
    }
}

/// The part of the program that an entry belongs to, and what it is called there.
fn place_of(kind: EntryKind) -> (&'static str, &'static str) {
    match kind {
        EntryKind::Observation => ("scratch_page", "observation"),
        EntryKind::Note | EntryKind::Todo | EntryKind::Task => ("scratchbook", "item"),
        kind => ("page", kind.as_str()),
    }
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
        _ => None,
    });
    found.unwrap_or("update")
}

fn of_event(line: TraceEntry, event: &Event) -> TraceEntry {
    let line = TraceEntry {
        operation: event.name().to_owned(),
        node: event.node(),
        ..line
    };
    match event {
        Event::RunStarted { goal, .. } => TraceEntry {
            detail: Some(short(goal)),
            ..line
        },
        Event::Started { attempt, .. } if *attempt > 1 => TraceEntry {
            detail: Some(format!("attempt {attempt}")),
            ..line
        },
        Event::AttemptFailed { failure, .. } => {
            let detail = Some(short(&format!("{}: {}", failure.code, failure.message)));
            TraceEntry {
                status: "failed".to_owned(),
                detail,
                ..line
            }
        }
        Event::Finished { result, .. } => {
            let notes = Some(short(&result.notes)).filter(|notes| !notes.is_empty());
            TraceEntry {
                status: result.status.to_string(),
                duration_us: Some(result.duration_us).filter(|us| *us > 0),
                detail: result.stop_reason.map(|reason| reason.to_string()).or(notes),
                ..line
            }
        }
        Event::CancelRequested { by, .. } => TraceEntry {
            source: by.clone(),
            ..line
        },
        Event::Resumed { in_flight } => TraceEntry {
            detail: Some(format!("{} calls were in flight", in_flight.len())),
            ..line
        },
        _ => line,
    }
}

/// The first line of `text`, cut.
fn short(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    match line.char_indices().nth(DETAIL_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
