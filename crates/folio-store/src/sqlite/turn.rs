//! Rows of turns.

use folio_memory::id::{TurnHandle, TurnRef};
use folio_memory::turn::{NewTurn, Turn, TurnEnd, TurnEnded, TurnQuery};
use folio_memory::{Seq, Timestamp, TurnId};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use serde::Serialize;

use super::error::{Failure, damaged, not_found};
use super::page::place_value;
use super::place::{Place, SpaceId, from_column, to_column};
use crate::error::StoreError;
use crate::plan::PlannedTurn;

/// Writes what a commit says of a turn.
pub(super) fn write(conn: &Connection, planned: &PlannedTurn) -> Result<(), Failure> {
    let turn = &planned.turn;
    let end = turn.ended.as_ref();
    let ended = end.map(|ended| json("the end of a turn", &ended.end)).transpose()?;
    let (ended_at, ended_seq) = (end.map(|end| end.at.as_nanos()), end.map(|end| to_column(end.seq.0)));
    if planned.is_new {
        let sql = "INSERT INTO turn (place, space, id, thread, run, started_at, started_seq, ended_at, ended_seq, begun, ended)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        conn.prepare_cached(sql)?.execute(params![
            planned.place,
            planned.place.space(),
            turn.begun.id.to_bytes(),
            turn.begun.thread.0,
            turn.begun.run.map(|run| run.to_bytes()),
            turn.started_at.as_nanos(),
            to_column(turn.started_seq.0),
            ended_at,
            ended_seq,
            json("a turn", &turn.begun)?,
            ended,
        ])?;
    } else {
        let sql = "UPDATE turn SET ended_at = ?2, ended_seq = ?3, ended = ?4, begun = ?5 WHERE place = ?1";
        let begun = json("a turn", &turn.begun)?;
        conn.prepare_cached(sql)?
            .execute(params![planned.place, ended_at, ended_seq, ended, begun])?;
    }
    Ok(())
}

/// The turn with the id `id`.
pub(super) fn by_id(conn: &Connection, space: SpaceId, id: TurnId) -> Result<Option<Turn>, Failure> {
    let mut statement = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM turn WHERE id = ?1 AND space = ?2"))?;
    let mut rows = statement.query(params![id.to_bytes(), space])?;
    rows.next()?.map(from_row).transpose()
}

/// The turn to which `turn` refers.
pub(super) fn read(conn: &Connection, space: Option<SpaceId>, turn: TurnRef) -> Result<Turn, Failure> {
    let missing = || not_found("turn", turn);
    let space = space.ok_or_else(missing)?;
    let found = match turn {
        TurnRef::Id(id) => by_id(conn, space, id)?,
        TurnRef::Handle(handle) => {
            let mut statement = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM turn WHERE place = ?1"))?;
            let mut rows = statement.query(params![Place::of(space, handle.0)])?;
            rows.next()?.map(from_row).transpose()?
        }
    };
    Ok(found.ok_or_else(missing)?)
}

/// The turns that match `query`, newest first.
pub(super) fn list(conn: &Connection, space: Option<SpaceId>, query: &TurnQuery) -> Result<Vec<Turn>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let end = query
        .before
        .map_or(Place::end(space), |number| Place::of(space, number));
    // A run has few turns, however many are open; and few are open, also where a thread has had many.
    let index = match query {
        TurnQuery { run: Some(_), .. } => "INDEXED BY turn_run",
        TurnQuery { ended: Some(false), .. } => "INDEXED BY turn_open",
        _ => "",
    };
    let mut sql = format!("SELECT {COLUMNS} FROM turn {index} WHERE place >= ? AND place < ?");
    let mut values = vec![place_value(Place::start(space)), place_value(end)];
    if let Some(thread) = &query.thread {
        sql += " AND thread = ?";
        values.push(thread.0.clone().into());
    }
    if let Some(run) = query.run {
        sql += " AND run = ?";
        values.push(Value::Blob(run.to_bytes().to_vec()));
    }
    if let Some(ended) = query.ended {
        sql += if ended {
            " AND ended IS NOT NULL"
        } else {
            " AND ended IS NULL"
        };
    }
    if let Some(by) = query.ended_by {
        sql += " AND ended_seq <= ?";
        values.push(to_column(by.0).into());
    }
    if let Some(from) = query.from {
        sql += " AND started_at >= ?";
        values.push(from.as_nanos().into());
    }
    if let Some(until) = query.until {
        sql += " AND started_at < ?";
        values.push(until.as_nanos().into());
    }
    sql += " ORDER BY place DESC LIMIT ?";
    values.push(i64::from(query.limit()).into());
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        turns.push(from_row(row)?);
    }
    Ok(turns)
}

/// Whether the columns by which lists filter match `turn`.
pub(super) fn has_columns(conn: &Connection, place: Place, turn: &Turn) -> Result<bool, Failure> {
    let sql = "SELECT count(*) FROM turn WHERE place = ?1 AND thread = ?2 AND run IS ?3 AND (ended IS NULL) = ?4";
    let found: i64 = conn.prepare_cached(sql)?.query_row(
        params![
            place,
            turn.begun.thread.0,
            turn.begun.run.map(|run| run.to_bytes()),
            turn.ended.is_none()
        ],
        |row| row.get(0),
    )?;
    Ok(found == 1)
}

const COLUMNS: &str = "place, started_at, started_seq, begun, ended_at, ended_seq, ended";

/// Reads [`COLUMNS`].
fn from_row(row: &Row<'_>) -> Result<Turn, Failure> {
    let handle = TurnHandle(row.get::<_, Place>(0)?.number());
    let name = || format!("turn {handle}");
    let new_json = row.get_ref(3)?.as_str().map_err(|error| damaged(&name(), error))?;
    let new_turn: NewTurn = serde_json::from_str(new_json).map_err(|error| damaged(&name(), error))?;
    let started_seq = Seq(from_column(row.get(2)?));
    let mut turn = Turn::begun(new_turn, handle, started_seq, Timestamp::from_nanos(row.get(1)?));
    if let Some(ended) = row.get::<_, Option<String>>(6)? {
        let end: TurnEnd = serde_json::from_str(&ended).map_err(|error| damaged(&name(), error))?;
        turn.ended = Some(TurnEnded {
            at: Timestamp::from_nanos(row.get(4)?),
            seq: Seq(from_column(row.get(5)?)),
            end,
        });
    }
    Ok(turn)
}

fn json(label: &str, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Invalid(format!("{label} cannot be written as JSON: {error}")))
}
