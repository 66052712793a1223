//! The trace: what happened, as a timeline with one line for each change and each event of the log, and the notes
//! beside it (seed 004).

mod expiries;
mod lines;
mod log;
mod paging;

use std::collections::HashMap;

use folio_engine::{NodeId, Run};
use folio_memory::id::{EntryRef, Ref, RunRef};
use folio_memory::roles::{Denied, Operation};
use folio_memory::trace::{READ_TRACE, REJECTED, STATUSES, SUCCESS};
use folio_memory::turn::Turn;
use folio_memory::{
    Actor, Change, EntryHandle, EntryId, EntryKind, NoteQuery, PageId, Role, RunId, Seq, Timestamp, TraceNote, TurnId,
};
use serde::Serialize;
use serde_json::{Map, Value};

use self::expiries::Span;
pub(super) use self::lines::tried;
use self::lines::{Kind, decisions_of, of_change, of_event};
use self::paging::{Way, may_follow};
use super::operation_notes::error_detail;
use super::reads::if_there;
use super::{Workspace, WorkspaceError};
use crate::commit::Record;
use crate::cursor::timeline::{self, TimelineCursor};
use crate::store::{LogRow, RunRow};

/// How many lines are returned by default.
const DEFAULT_LIMIT: usize = 50;

/// Which part of the timeline is wanted. Fields that are not set restrict nothing.
#[derive(Debug, Clone, Default)]
pub struct TraceQuery {
    /// Only what was done in this run.
    pub run: Option<RunRef>,
    /// Only what was done in this turn, and expiries, between its begin and its end, of entries that it touched or used.
    pub turn: Option<TurnId>,
    /// Only what was done to this entry.
    pub entry: Option<EntryRef>,
    /// Only what this component of the program did.
    pub component: Option<String>,
    /// Only what came after this commit, and of that the first lines. Without it, the last lines of all.
    pub since: Option<Seq>,
    /// How many lines at most; 0 means 50.
    pub limit: usize,
    /// Where to continue: the `next` of an earlier answer to the same query.
    pub cursor: Option<String>,
}

/// A part of a timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TracePart {
    /// The lines, oldest first.
    pub lines: Vec<TraceEntry>,
    /// The cursor to continue with if there may be more lines: with what came after these if the query has a `since`,
    /// otherwise with what came before them. One part reads at most [`TracePart::COMMITS_MAX`] commits, so it may have
    /// fewer lines than were asked for, or none, although others have more.
    pub next: Option<String>,
    /// The last commit that the answer takes into account. Of a turn or a run that has ended, this is at most
    /// [`TracePart::COMMITS_AFTER_END`] commits after its end; a query `since` it goes on from there.
    pub as_of: Seq,
}

impl TracePart {
    /// How many commits are read for one part.
    pub const COMMITS_MAX: u64 = 10_000;
    /// How many commits after the end of a turn or a run are searched for what was written in its name all the same: by
    /// a run that goes on, for example. A query with a `since` beyond them searches all that follow.
    pub const COMMITS_AFTER_END: u64 = 2_000;
}

/// One line of a timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TraceEntry {
    /// The commit, or the last one before it if it is not in the log.
    pub seq: Seq,
    /// Whether it is in the log. Everything else is kept for a limited time only.
    pub is_logged: bool,
    /// When it happened.
    pub at: Timestamp,
    /// The component of the program: `scratch_page`, `scratchbook`, `page`, `link`, `engine`, `memory`.
    pub component: String,
    /// What was done, for example `add_observation`.
    pub operation: String,
    /// The entry that it was done to.
    pub entry: Option<EntryId>,
    /// The page that it was done to, if not an entry.
    pub page: Option<PageId>,
    /// The type of the observation, or the kind of another entry.
    pub entry_type: Option<String>,
    /// Who did it: the name of the tool or user, or else the role.
    pub source: String,
    /// The status: one of [`STATUSES`].
    pub status: String,
    /// The turn in which it was done.
    pub turn: Option<TurnId>,
    /// The run in which it was done.
    pub run: Option<RunId>,
    /// The node of the run's tree at which it was done.
    pub node: Option<NodeId>,
    /// How long it took, in microseconds, if that was measured.
    pub duration_us: Option<u64>,
    /// Details by name: `text` for a few words, `fields` that changed, `verdict` of a decision, `outcome` of what
    /// finished, `code` and `error` of a failure, `filters` of a query, the `reason` that was given.
    pub detail: Option<Value>,
    /// The entries that a decision used.
    pub used: Vec<EntryHandle>,
}

impl From<TraceNote> for TraceEntry {
    fn from(note: TraceNote) -> Self {
        let (status, detail) = in_one_form(note.status, note.detail);
        Self {
            seq: note.as_of,
            is_logged: false,
            at: note.at,
            component: note.component,
            operation: note.operation,
            entry: note.entry,
            page: None,
            entry_type: note.entry_type,
            source: note.source,
            status,
            turn: note.turn,
            run: note.run,
            node: note.node.as_deref().and_then(|node| node.parse().ok()),
            duration_us: note.duration_us,
            detail,
            used: note.used,
        }
    }
}

/// Returns a status that programs know and a detail with names: a note may have a status of its own, or a detail
/// without names.
fn in_one_form(status: String, detail: Option<Value>) -> (String, Option<Value>) {
    let detail = match detail {
        None | Some(Value::Null) => None,
        // An item that is rejected is described as its caller was told.
        Some(Value::Object(mut parts)) => {
            if status == REJECTED
                && let Some(message) = parts.remove("message")
            {
                parts.insert("error".to_owned(), message);
            }
            Some(parts)
        }
        Some(list @ Value::Array(_)) => Some(Map::from_iter([("warnings".to_owned(), list)])),
        Some(other) => Some(Map::from_iter([("text".to_owned(), other)])),
    };
    if STATUSES.contains(&status.as_str()) {
        return (status, detail.map(Value::Object));
    }
    let mut detail = detail.unwrap_or_default();
    detail.insert("outcome".to_owned(), status.into());
    (SUCCESS.to_owned(), Some(detail.into()))
}

/// A query whose names are resolved.
#[derive(Debug)]
struct Wanted {
    run: Option<RunId>,
    turn: Option<TurnId>,
    /// What is known of the turn, if it is wanted alone: expiries in it are of nobody's turn.
    span: Option<Span>,
    entry: Option<EntryId>,
    component: Option<String>,
    /// How many lines are needed at least, if there are as many.
    limit: usize,
    way: Way,
    edge: Option<TimelineCursor>,
}

impl Wanted {
    fn row(&self, row: &LogRow) -> bool {
        self.turn.is_none_or(|turn| row.actor.turn == Some(turn))
            && self
                .run
                .is_none_or(|run| row.actor.run == Some(run) || row.record.run.as_ref().is_some_and(|r| r.run == run))
    }

    fn line(&self, line: &TraceEntry) -> bool {
        self.component.as_ref().is_none_or(|part| line.component == *part)
            && self.entry.is_none_or(|entry| line.entry == Some(entry))
            && self.is_ahead(line)
    }

    /// Whether the line is on the side of the cursor that is still to be read.
    fn is_ahead(&self, line: &TraceEntry) -> bool {
        self.edge.is_none_or(|edge| may_follow(edge, self.way, line))
    }
}

impl Workspace {
    /// Returns what happened, in order: what is in the log, and the notes beside it (M7.10).
    ///
    /// Notes of this process are written first. If that fails, the trace is returned without them.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such run or entry; `Refused` unless the asker is a person; `Unavailable` or `Corrupt`.
    pub async fn trace(&self, query: TraceQuery) -> Result<Vec<TraceEntry>, WorkspaceError> {
        Ok(self.trace_part(query).await?.lines)
    }

    /// Like [`Workspace::trace`], with a cursor. What is written meanwhile comes after what was there: reading
    /// backwards never shows it, reading on does.
    ///
    /// # Errors
    ///
    /// `Invalid` if the cursor belongs to another query; otherwise as [`Workspace::trace`].
    pub async fn trace_part(&self, query: TraceQuery) -> Result<TracePart, WorkspaceError> {
        self.authorise_trace()?;
        let binding = timeline::binding(self.space(), &query)?;
        let edge = query.cursor.as_deref();
        let edge = edge.map(|text| TimelineCursor::parse(text, &binding));
        let edge = edge.transpose()?;
        let way = if query.since.is_some() { Way::On } else { Way::Back };
        self.flush_trace_to_read().await;
        let head = self.head().await?;
        let limit = if query.limit == 0 { DEFAULT_LIMIT } else { query.limit };
        let run = match query.run {
            Some(run) => Some(self.run(run).await?),
            None => None,
        };
        let entry = match query.entry {
            Some(entry) => Some(self.read_entry(entry).await?.id),
            None => None,
        };
        let turn = match query.turn {
            Some(turn) => if_there(self.stored_turn(Ref::Id(turn)).await)?,
            None => None,
        };
        let filter = Wanted {
            run: run.as_ref().map(|run| run.id),
            turn: query.turn,
            span: turn.as_ref().filter(|_| run.is_none()).map(Span::of),
            entry,
            component: query.component,
            // One more than is returned, to see whether there are more.
            limit: edge
                .map_or(0, |edge| edge.given)
                .saturating_add(limit)
                .saturating_add(1),
            way,
            edge,
        };
        let (mut unread, mut as_of) = (None, head);
        let mut lines = match entry {
            Some(entry) => self.lines_of_entry(entry, query.since, &filter).await?,
            None => {
                let run_began = match run.as_ref().map(|run| run.created_at) {
                    Some(at) => Some(self.last_before(at, head).await?),
                    None => None,
                };
                let from = run_began.max(turn.as_ref().map(before)).max(query.since);
                let to = last_wanted(turn.as_ref(), run.as_ref());
                // Who asks for what came still later is given it.
                let to = to.filter(|to| query.since.is_none_or(|since| since < *to));
                as_of = to.unwrap_or(head).min(head);
                let read = self
                    .lines_of_log((from.unwrap_or(Seq(0)), as_of), head, &filter)
                    .await?;
                unread = read.unread;
                read.lines
            }
        };
        lines.extend(self.notes_wanted(query.since, &filter).await?);
        if let Some(unread) = unread {
            // Notes from there on belong to the next part, with the commits that were not read.
            lines.retain(|line| !may_follow(unread, way, line));
        }
        let next = paging::part(&mut lines, (way, edge), limit, &binding);
        let next = next.or_else(|| Some(unread?.to_text(&binding)));
        Ok(TracePart { lines, next, as_of })
    }

    /// The wanted notes, as lines.
    async fn notes_wanted(&self, since: Option<Seq>, filter: &Wanted) -> Result<Vec<TraceEntry>, WorkspaceError> {
        let at = filter.edge.map(TimelineCursor::at);
        let mut query = NoteQuery {
            turn: filter.turn,
            run: filter.run,
            entry: filter.entry,
            component: filter.component.clone(),
            since,
            from: at.filter(|_| filter.way == Way::On),
            until: at.filter(|_| filter.way == Way::Back),
            limit: filter.limit,
        };
        loop {
            let notes = self.inner.store.notes(&self.inner.space, &query).await?;
            let is_all = notes.len() < query.limit;
            let mut lines: Vec<_> = notes.into_iter().map(TraceEntry::from).collect();
            lines.retain(|line| filter.is_ahead(line));
            if is_all || lines.len() >= filter.limit {
                return Ok(lines);
            }
            // Many notes were made at the very instant of the cursor.
            query.limit = query.limit.saturating_mul(2);
        }
    }

    /// Refuses models: they do not read while they work how they were judged (M7.10).
    pub(super) fn authorise_trace(&self) -> Result<(), WorkspaceError> {
        let actor: &Actor = &self.asker;
        if actor.role == Role::Human {
            return Ok(());
        }
        let refused = WorkspaceError::Refused(Denied {
            role: actor.role,
            operation: Operation::ReadTrace,
            what: "the trace".to_owned(),
            is_of_other_thread: false,
        });
        let note = self.noted("trace", READ_TRACE).with_status(folio_memory::trace::DENIED);
        self.note(note.with_detail(error_detail(&refused)));
        Err(refused)
    }

    /// The lines of one entry, whose revisions are found without reading the log.
    async fn lines_of_entry(
        &self,
        entry: EntryId,
        since: Option<Seq>,
        filter: &Wanted,
    ) -> Result<Vec<TraceEntry>, WorkspaceError> {
        let (mut known, mut lines) = (HashMap::new(), Vec::new());
        for revision in self.history(Ref::Id(entry)).await? {
            let row = LogRow {
                seq: revision.seq,
                at: revision.at,
                actor: revision.actor,
                idempotency_key: None,
                record: Record {
                    reason: revision.reason,
                    ..Record::of(vec![revision.change])
                },
            };
            if since.is_some_and(|since| row.seq <= since) {
                continue;
            }
            if let Some(row) = self.wanted_part(row, filter).await? {
                self.read_row(row, &mut known, filter, &mut lines).await?;
            }
        }
        Ok(lines)
    }

    /// The part of `row` that is wanted: all of it, expiries in the turn, or nothing.
    async fn wanted_part(&self, row: LogRow, filter: &Wanted) -> Result<Option<LogRow>, WorkspaceError> {
        match (&filter.span, filter.row(&row)) {
            (_, true) => Ok(Some(row)),
            (Some(span), false) => self.expiries_within(row, span).await,
            (None, false) => Ok(None),
        }
    }

    async fn read_row(
        &self,
        row: LogRow,
        known: &mut HashMap<EntryId, Kind>,
        filter: &Wanted,
        lines: &mut Vec<TraceEntry>,
    ) -> Result<(), WorkspaceError> {
        let actor = &row.actor;
        let line = TraceEntry {
            seq: row.seq,
            is_logged: true,
            at: row.at,
            component: "engine".to_owned(),
            operation: String::new(),
            entry: None,
            page: None,
            entry_type: None,
            source: actor.source_name().to_owned(),
            status: SUCCESS.to_owned(),
            turn: actor.turn,
            run: actor.run,
            node: None,
            duration_us: None,
            detail: None,
            used: Vec::new(),
        };
        let mut keep = |line: TraceEntry| {
            if filter.line(&line) {
                lines.push(line);
            }
        };
        for change in &row.record.changes {
            let kind = match change {
                Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => {
                    Some(self.kind_of(*entry, known).await?)
                }
                _ => None,
            };
            let decisions = decisions_of(&line, change);
            let mut line = of_change(line.clone(), change, kind);
            line.detail = with_reason(line.detail, row.record.reason.as_deref());
            keep(line);
            decisions.into_iter().for_each(&mut keep);
        }
        if let Some(append) = &row.record.run {
            for event in &append.events {
                let line = TraceEntry {
                    run: Some(append.run),
                    ..line.clone()
                };
                let mut line = of_event(line, event);
                if row.record.copied_from.is_some() {
                    line.detail = with_reason(line.detail, row.record.reason.as_deref());
                }
                keep(line);
            }
        }
        Ok(())
    }

    async fn kind_of(&self, entry: EntryId, known: &mut HashMap<EntryId, Kind>) -> Result<Kind, WorkspaceError> {
        if let Some(kind) = known.get(&entry) {
            return Ok(kind.clone());
        }
        let kind = match self.entry_if_there(entry).await? {
            Some(entry) => Kind {
                kind: entry.kind,
                type_name: entry.fields.type_name,
            },
            // The revisions of a forgotten entry remain.
            None => Kind {
                kind: EntryKind::Note,
                type_name: Some("unknown".to_owned()),
            },
        };
        known.insert(entry, kind.clone());
        Ok(kind)
    }
}

/// The last commit before the one that began `turn`. The id of a turn does not tell: it may have been drawn after the
/// instant of that commit, or be derived from a key.
fn before(turn: &Turn) -> Seq {
    Seq(turn.started_seq.0.saturating_sub(1))
}

/// The last commit that is searched for what was done in `turn` and `run`; `None` if they go on.
fn last_wanted(turn: Option<&Turn>, run: Option<&RunRow>) -> Option<Seq> {
    let turn_end = turn.and_then(|turn| Some(turn.ended.as_ref()?.seq));
    let run_end = run.filter(|run| run.status != Run::RUNNING).map(|run| run.head);
    let end = [turn_end, run_end].into_iter().flatten().min()?;
    Some(Seq(end.0.saturating_add(TracePart::COMMITS_AFTER_END)))
}

/// Adds the reason for a change to its detail.
fn with_reason(detail: Option<Value>, reason: Option<&str>) -> Option<Value> {
    let Some(reason) = reason else { return detail };
    let mut parts = match detail {
        Some(Value::Object(parts)) => parts,
        _ => Map::new(),
    };
    parts.insert("reason".to_owned(), reason.into());
    Some(parts.into())
}
