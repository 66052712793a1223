//! Notes of the trace.

use folio_memory::{EntryId, NoteQuery, NotesKept, RunId, SpaceName, Timestamp, TraceNote};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::erase::overwrite_deleted;
use super::error::{Failure, damaged};
use super::place::{Place, SpaceId, to_column};
use super::scope::Scope;
use crate::error::StoreError;
use crate::kept_notes::{NoteCleanup, storable};
use crate::text_search::SearchTexts;

/// The first and the last note of a space. Each subquery alone is one step in the B-tree; both in one would scan all
/// rows in between.
const ENDS: &str = "SELECT (SELECT min(place) FROM trace WHERE place BETWEEN ?1 AND ?2),
                           (SELECT max(place) FROM trace WHERE place BETWEEN ?1 AND ?2)";

/// Notes in their stored form.
#[derive(Debug)]
pub(super) struct Notes {
    space: SpaceName,
    rows: Vec<Row>,
    kept: NotesKept,
}

#[derive(Debug)]
struct Row {
    at: i64,
    as_of: i64,
    component: String,
    turn: Option<[u8; 16]>,
    run: Option<[u8; 16]>,
    entry: Option<[u8; 16]>,
    note: String,
}

impl Notes {
    /// Converts `notes` into rows.
    pub(super) fn of(space: &SpaceName, notes: &[TraceNote], kept: NotesKept) -> Result<Self, StoreError> {
        let rows = notes.iter().map(Row::of).collect::<Result<_, _>>()?;
        Ok(Self {
            space: space.clone(),
            rows,
            kept,
        })
    }

    /// Roughly how many bytes the notes add to a transaction.
    pub(super) fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.note.len()).sum()
    }
}

/// Deletes the notes about the entry `id` of `space`.
pub(super) fn forget_entry(conn: &Connection, space: SpaceId, id: EntryId) -> Result<(), Failure> {
    let sql = "DELETE FROM trace WHERE entry = ?1 AND place BETWEEN ?2 AND ?3";
    let values = params![id.to_bytes(), Place::start(space), Place::end(space)];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Deletes the notes about the run `id` of `space`.
pub(super) fn forget_run(conn: &Connection, space: SpaceId, id: RunId) -> Result<(), Failure> {
    let sql = "DELETE FROM trace WHERE run = ?1 AND place BETWEEN ?2 AND ?3";
    let values = params![id.to_bytes(), Place::start(space), Place::end(space)];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// How many notes are searched at a time: nobody else can write meanwhile.
const NOTES_SEARCHED: u32 = 2_000;

/// Deletes notes of `space` that contain one of `texts` in any spelling: the words of a query, a value that was
/// corrected. Searches a part of the notes, those after the one at `after`; returns the last of them if there are more.
pub(super) fn forget_texts(
    conn: &Connection,
    space: SpaceId,
    texts: &[String],
    after: Option<Place>,
) -> Result<Option<Place>, Failure> {
    overwrite_deleted(conn, true)?;
    let texts = SearchTexts::of_notes(texts);
    let (mut places, mut last, mut count) = (Vec::new(), None, 0);
    let sql = "SELECT place, note FROM trace WHERE place > ?1 AND place <= ?2 ORDER BY place LIMIT ?3";
    let mut statement = conn.prepare(sql)?;
    let from = after.unwrap_or(Place::start(space));
    let mut rows = statement.query(params![from, Place::end(space), NOTES_SEARCHED])?;
    while let Some(row) = rows.next()? {
        let place: Place = row.get(0)?;
        let note = row.get_ref(1)?.as_str().map_err(|error| damaged("a note", error))?;
        if texts.are_in_note(note) {
            places.push(place);
        }
        (last, count) = (Some(place), count + 1);
    }
    for place in places {
        conn.execute("DELETE FROM trace WHERE place = ?1", [place])?;
    }
    overwrite_deleted(conn, false)?;
    Ok(last.filter(|_| count == NOTES_SEARCHED))
}

impl Row {
    fn of(note: &TraceNote) -> Result<Self, StoreError> {
        let text = serde_json::to_string(note)
            .map_err(|error| StoreError::Invalid(format!("a note cannot be written as JSON: {error}")))?;
        Ok(Self {
            at: note.at.as_nanos(),
            as_of: to_column(note.as_of.0),
            component: note.component.clone(),
            turn: note.turn.map(|turn| turn.to_bytes()),
            run: note.run.map(|run| run.to_bytes()),
            entry: note.filed_under().map(|entry| entry.to_bytes()),
            note: text,
        })
    }
}

/// The time of the last erasure, if a note of it is still kept.
const FORGOTTEN: &str = "SELECT max(at) FROM trace WHERE entry = ?1 AND place BETWEEN ?2 AND ?3";

/// Stores `notes`, and deletes the oldest ones beyond what is kept.
pub(super) fn append(scope: &mut Scope<'_>, notes: &Notes) -> Result<(), Failure> {
    let space = match scope.space(&notes.space)? {
        Some(space) => space,
        None => {
            let space = scope.next_space()?;
            scope.add_space(&notes.space, space)?;
            space
        }
    };
    let (first, last) = ends(scope.conn, space)?;
    let forgotten: Option<i64> = {
        let under = TraceNote::forget_notes_id().to_bytes();
        let values = params![under, Place::start(space), Place::end(space)];
        scope
            .conn
            .prepare_cached(FORGOTTEN)?
            .query_row(values, |row| row.get(0))?
    };
    let forgotten = forgotten.map(Timestamp::from_nanos);
    let mut number = last.map_or(0, Place::number);
    let sql = "INSERT INTO trace (place, at, as_of, component, turn, run, entry, note)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut insert = scope.conn.prepare_cached(sql)?;
    for row in &notes.rows {
        number += 1;
        let Row {
            at,
            as_of,
            component,
            turn,
            run,
            entry,
            note,
        } = row;
        let note = storable(note, Timestamp::from_nanos(*at), forgotten).map_err(|error| damaged("a note", error))?;
        insert.execute(params![
            Place::of(space, number),
            at,
            as_of,
            component,
            turn,
            run,
            entry,
            note
        ])?;
    }
    if let Some(first) = first {
        let cleanup = NoteCleanup {
            first: first.number(),
            last: number,
            added: notes.rows.len() as u64,
            kept: notes.kept,
        };
        delete_old(scope.conn, space, cleanup)?;
    }
    Ok(())
}

/// The first and the last note of `space`.
fn ends(conn: &Connection, space: SpaceId) -> Result<(Option<Place>, Option<Place>), Failure> {
    let range = (Place::start(space), Place::end(space));
    let ends = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    Ok(conn.prepare_cached(ENDS)?.query_row(range, ends)?)
}

/// Deletes some of the oldest notes beyond what is `kept`; returns whether there were any.
pub(super) fn clean_up(conn: &Connection, space: SpaceId, kept: NotesKept) -> Result<bool, Failure> {
    let (Some(first), Some(last)) = ends(conn, space)? else {
        return Ok(false);
    };
    let cleanup = NoteCleanup {
        first: first.number(),
        last: last.number(),
        added: 0,
        kept,
    };
    delete_old(conn, space, cleanup)
}

/// Deletes the oldest notes that are too old, or too many; returns whether there were any.
fn delete_old(conn: &Connection, space: SpaceId, cleanup: NoteCleanup) -> Result<bool, Failure> {
    let first = Place::of(space, cleanup.first);
    let last_old = |until: u64| -> Result<Option<Place>, Failure> {
        let sql = "SELECT max(place) FROM trace WHERE place BETWEEN ?1 AND ?2 AND at < ?3";
        let window = (first, Place::of(space, until), cleanup.kept.from.as_nanos());
        Ok(conn.prepare_cached(sql)?.query_row(window, |row| row.get(0))?)
    };
    // As long as the oldest note is young enough, only one row is looked at.
    let old = match last_old(cleanup.first)? {
        Some(_) => last_old(cleanup.end())?,
        None => None,
    };
    let Some(until) = cleanup.deleted_until(old.map(Place::number)) else {
        return Ok(false);
    };
    conn.prepare_cached("DELETE FROM trace WHERE place BETWEEN ?1 AND ?2")?
        .execute((first, Place::of(space, until)))?;
    Ok(true)
}

/// The notes that match `query`, oldest first: in the order in which they were made. The notes of a turn, a run or an
/// entry have an index of their own, and are few; the others are read in order.
pub(super) fn list(conn: &Connection, space: Option<SpaceId>, query: &NoteQuery) -> Result<Vec<TraceNote>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let is_of_few = query.turn.is_some() || query.run.is_some() || query.entry.is_some();
    let (mut sql, mut values): (String, Vec<Value>) = if is_of_few {
        (
            "SELECT note FROM trace WHERE place BETWEEN ? AND ?".to_owned(),
            vec![Place::start(space).raw().into(), Place::end(space).raw().into()],
        )
    } else {
        (
            "SELECT note FROM trace INDEXED BY trace_at WHERE place >> 40 = ?".to_owned(),
            vec![space.0.into()],
        )
    };
    let ids = [
        (" AND turn = ?", query.turn.map(|id| id.to_bytes())),
        (" AND run = ?", query.run.map(|id| id.to_bytes())),
        (" AND entry = ?", query.entry.map(|id| id.to_bytes())),
    ];
    for (condition, id) in ids {
        if let Some(id) = id {
            sql.push_str(condition);
            values.push(id.to_vec().into());
        }
    }
    if let Some(component) = &query.component {
        sql.push_str(" AND component = ?");
        values.push(component.clone().into());
    }
    if let Some(since) = query.since {
        sql.push_str(" AND as_of >= ?");
        values.push(to_column(since.0).into());
    }
    for (condition, at) in [(" AND at >= ?", query.from), (" AND at <= ?", query.until)] {
        if let Some(at) = at {
            sql.push_str(condition);
            values.push(at.as_nanos().into());
        }
    }
    // The last notes are read backwards, and reversed below.
    let is_backwards = query.since.is_none();
    sql.push_str(if is_backwards {
        " ORDER BY at DESC, place DESC LIMIT ?"
    } else {
        " ORDER BY at, place LIMIT ?"
    });
    values.push(to_column(query.limit as u64).into());
    let mut statement = conn.prepare_cached(&sql)?;
    let texts = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(0))?;
    let mut notes = Vec::new();
    for text in texts {
        notes.push(serde_json::from_str(&text?).map_err(|error| damaged("a note", error))?);
    }
    if is_backwards {
        notes.reverse();
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn first_and_last_trace_notes_are_found_without_full_scan() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE trace (place INTEGER PRIMARY KEY);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) INSERT INTO trace SELECT i FROM n",
        )
        .unwrap();
        let mut ends = conn.prepare(ENDS).unwrap();
        let found: (i64, i64) = ends
            .query_row((5, 9_000), |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(found, (5, 9_000));
        assert!(ends.get_status(StatementStatus::VmStep) < 100);
    }
}
