//! Notes of the trace.

use std::borrow::Cow;

use folio_memory::{EntryId, NoteQuery, NotesKept, RunId, SpaceName, Timestamp, TraceNote};

use super::Inner;
use super::column::{Statement, Value, count, encode_text, get};
use super::error::{Failure, damaged};
use super::patience::{Wait, patiently};
use super::session::{Purpose, Session};
use crate::error::StoreError;
use crate::kept_notes::{NoteCleanup, storable};
use crate::place::to_column;
use crate::text_search::SearchTexts;

/// How many notes are read at a time.
const READ_AT_A_TIME: i64 = 1_000;

/// Notes in their stored form.
#[derive(Debug, Default)]
pub(super) struct Rows {
    at: Vec<i64>,
    as_of: Vec<i64>,
    components: Vec<String>,
    turns: Vec<Option<Vec<u8>>>,
    runs: Vec<Option<Vec<u8>>>,
    entries: Vec<Option<Vec<u8>>>,
    notes: Vec<String>,
}

/// Converts `notes` into rows.
pub(super) fn rows_of(notes: &[TraceNote]) -> Result<Rows, StoreError> {
    let mut rows = Rows::default();
    for note in notes {
        let text = serde_json::to_string(note)
            .map_err(|error| StoreError::Invalid(format!("a note cannot be written as JSON: {error}")))?;
        rows.at.push(note.at.as_nanos());
        rows.as_of.push(to_column(note.as_of.0));
        rows.components.push(encode_text(&note.component).into_owned());
        rows.turns.push(note.turn.map(|turn| turn.to_bytes().to_vec()));
        rows.runs.push(note.run.map(|run| run.to_bytes().to_vec()));
        rows.entries
            .push(note.filed_under().map(|entry| entry.to_bytes().to_vec()));
        rows.notes.push(text);
    }
    Ok(rows)
}

impl Inner {
    /// Stores `rows`, and deletes the oldest notes beyond what is kept. Does not wait for the disk.
    pub(super) async fn keep_notes(&self, space: &SpaceName, rows: &Rows, kept: NotesKept) -> Result<(), Failure> {
        let wait = Wait::begin();
        patiently!(self, wait, {
            let Some(session) = self.begin_write(space, true, Purpose::WriteCarelessly, wait).await? else {
                return Ok(());
            };
            append(&session, rows, kept).await?;
            // Not retried if the outcome is unknown, because the notes must not be stored twice.
            let committed = session.commit().await;
            committed.map_err(|failure| Failure::Refused(failure.into_error("write to", &self.target.location)))
        })
    }
}

async fn append(session: &Session, rows: &Rows, kept: NotesKept) -> Result<(), Failure> {
    let added = rows.notes.len() as u64;
    // Numbers are assigned one after the other; other writers of notes wait here.
    let sql = "INSERT INTO last_note (space, number) VALUES ($1, $2)
               ON CONFLICT (space) DO UPDATE SET number = last_note.number + $2 RETURNING number";
    let row = session.one(sql, &[&session.space.0, &to_column(added)]).await?;
    let last = row.map_or(Ok(added), |row| count(&row, 0))?;
    let notes = storable_texts(session, rows).await?;
    let sql = "INSERT INTO trace (space, number, at, as_of, component, turn, run, entry, note)
               SELECT $1, $2 + place, at, as_of, component, turn, run, entry, note
               FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::bytea[], $8::bytea[], $9::text[])
                   WITH ORDINALITY AS new (at, as_of, component, turn, run, entry, note, place)";
    session
        .execute(
            sql,
            &[
                &session.space.0,
                &to_column(last - added),
                &rows.at,
                &rows.as_of,
                &rows.components,
                &rows.turns,
                &rows.runs,
                &rows.entries,
                &notes,
            ],
        )
        .await?;
    delete_old(session, last, added, kept).await?;
    Ok(())
}

/// Deletes some of the oldest notes beyond what is `kept`; returns whether there were any.
pub(super) async fn clean_up(session: &Session, kept: NotesKept) -> Result<bool, Failure> {
    // The newest note, not the number assigned last: a forgetting may have deleted the notes in between.
    let sql = "SELECT number FROM trace WHERE space = $1 ORDER BY number DESC LIMIT 1";
    let Some(row) = session.one(sql, &[&session.space.0]).await? else {
        return Ok(false);
    };
    delete_old(session, count(&row, 0)?, 0, kept).await
}

/// The texts of `rows` that may be stored: without words if something was forgotten since. Runs under the lock of
/// [`append`], so that it sees what was forgotten before.
async fn storable_texts<'r>(session: &Session, rows: &'r Rows) -> Result<Vec<Cow<'r, str>>, Failure> {
    let sql = "SELECT max(at) FROM trace WHERE space = $1 AND entry = $2";
    let under = TraceNote::forget_notes_id().to_bytes();
    let row = session.one(sql, &[&session.space.0, &under.as_slice()]).await?;
    let forgotten = row.map_or(Ok(None), |row| get::<Option<i64>>(&row, 0))?;
    let forgotten = forgotten.map(Timestamp::from_nanos);
    let storable_notes = rows.at.iter().zip(&rows.notes).map(|(at, note)| {
        let note = storable(note, Timestamp::from_nanos(*at), forgotten);
        note.map_err(|error| damaged("a note", error))
    });
    storable_notes.collect()
}

/// Deletes the oldest notes that are too old, or too many; returns whether there were any.
async fn delete_old(session: &Session, last: u64, added: u64, kept: NotesKept) -> Result<bool, Failure> {
    let sql = "SELECT number, at FROM trace WHERE space = $1 ORDER BY number LIMIT 1";
    let Some(row) = session.one(sql, &[&session.space.0]).await? else {
        return Ok(false);
    };
    let at: i64 = get(&row, 1)?;
    let cleanup = NoteCleanup {
        first: count(&row, 0)?,
        last,
        added,
        kept,
    };
    let mut old = None;
    // As long as the oldest note is young enough, only one row is looked at.
    if at < kept.from.as_nanos() {
        let sql = "SELECT coalesce(max(number), 0) FROM trace WHERE space = $1 AND number <= $2 AND at < $3";
        let (end, from) = (to_column(cleanup.end()), kept.from.as_nanos());
        let row = session.one(sql, &[&session.space.0, &end, &from]).await?;
        old = row.map(|row| count(&row, 0)).transpose()?;
    }
    let Some(until) = cleanup.deleted_until(old) else {
        return Ok(false);
    };
    let sql = "DELETE FROM trace WHERE space = $1 AND number <= $2";
    session.execute(sql, &[&session.space.0, &to_column(until)]).await?;
    Ok(true)
}

/// Deletes the notes about the entry `id`.
pub(super) async fn forget_entry(session: &Session, id: EntryId) -> Result<(), Failure> {
    let sql = "DELETE FROM trace WHERE space = $1 AND entry = $2";
    session
        .execute(sql, &[&session.space.0, &id.to_bytes().as_slice()])
        .await?;
    Ok(())
}

/// Deletes the notes about the run `id`.
pub(super) async fn forget_run(session: &Session, id: RunId) -> Result<(), Failure> {
    let sql = "DELETE FROM trace WHERE space = $1 AND run = $2";
    session
        .execute(sql, &[&session.space.0, &id.to_bytes().as_slice()])
        .await?;
    Ok(())
}

/// Deletes the notes that contain one of `texts` in any spelling: the words of a query, a value that was corrected.
/// They are compared here, because the database folds letters in another way.
pub(super) async fn forget_texts(session: &Session, texts: &[String]) -> Result<(), Failure> {
    let texts = SearchTexts::of_notes(texts);
    let sql = "SELECT number, note FROM trace WHERE space = $1 AND number > $2 ORDER BY number LIMIT $3";
    let (mut last, mut numbers) = (0_i64, Vec::new());
    loop {
        let rows = session.query(sql, &[&session.space.0, &last, &READ_AT_A_TIME]).await?;
        let Some(end) = rows.last() else { break };
        last = get(end, 0)?;
        for row in &rows {
            if texts.are_in_note(get(row, 1)?) {
                numbers.push(get::<i64>(row, 0)?);
            }
        }
    }
    let sql = "DELETE FROM trace WHERE space = $1 AND number = ANY($2)";
    session.execute(sql, &[&session.space.0, &numbers]).await?;
    Ok(())
}

/// The notes that match `query`, oldest first: in the order in which they were made.
pub(super) async fn list(session: &Session, query: &NoteQuery) -> Result<Vec<TraceNote>, Failure> {
    let mut statement = Statement::default();
    statement.push("SELECT note FROM trace WHERE space = ?", [Value::Int(session.space.0)]);
    let ids = [
        (" AND turn = ?", query.turn.map(|id| id.to_bytes())),
        (" AND run = ?", query.run.map(|id| id.to_bytes())),
        (" AND entry = ?", query.entry.map(|id| id.to_bytes())),
    ];
    for (condition, id) in ids {
        if let Some(id) = id {
            statement.push(condition, [Value::Bytes(id.to_vec())]);
        }
    }
    if let Some(component) = &query.component {
        statement.push(" AND component = ?", [Value::Text(encode_text(component).into_owned())]);
    }
    if let Some(since) = query.since {
        statement.push(" AND as_of >= ?", [Value::count(since.0)]);
    }
    for (condition, at) in [(" AND at >= ?", query.from), (" AND at <= ?", query.until)] {
        if let Some(at) = at {
            statement.push(condition, [Value::Int(at.as_nanos())]);
        }
    }
    // The last notes are read backwards, and reversed below.
    let is_backwards = query.since.is_none();
    let order = if is_backwards {
        " ORDER BY at DESC, number DESC LIMIT ?"
    } else {
        " ORDER BY at, number LIMIT ?"
    };
    statement.push(order, [Value::count(query.limit as u64)]);
    let mut notes = Vec::new();
    for row in session.ask(&statement).await? {
        notes.push(serde_json::from_str(get(&row, 0)?).map_err(|error| damaged("a note", error))?);
    }
    if is_backwards {
        notes.reverse();
    }
    Ok(notes)
}
