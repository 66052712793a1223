//! Rows of turns.

use folio_memory::id::{TurnHandle, TurnRef};
use folio_memory::turn::{NewTurn, Turn, TurnEnd, TurnEnded, TurnQuery};
use folio_memory::{Timestamp, TurnId};
use serde::Serialize;
use tokio_postgres::Row;

use super::column::{Statement, Value, count, encode_text, get, instant, seq};
use super::error::{Failure, damaged, not_found};
use super::loaded::LoadedTurn;
use super::lookup::looked_up;
use super::session::{Session, Write, values};
use crate::error::StoreError;
use crate::place::{SpaceId, to_column};

const SELECT: &str = "SELECT number, started_at, started_seq, begun, ended_at, ended_seq, ended FROM turn WHERE";

/// Turns by their ids.
pub(super) const BY_IDS: &str = looked_up!(
    "number, started_at, started_seq, begun, ended_at, ended_seq, ended",
    "turn",
    "id",
    "bytea"
);

/// Writes the row of a turn.
pub(super) fn write(space: SpaceId, loaded: &LoadedTurn) -> Result<Write, StoreError> {
    let turn = &loaded.now;
    let end = turn.ended.as_ref();
    let ended = end.map(|ended| json("the end of a turn", &ended.end)).transpose()?;
    let ended_at = end.map(|end| end.at.as_nanos());
    let ended_seq = end.map(|end| to_column(end.seq.0));
    if !loaded.is_new {
        let sql = "UPDATE turn SET ended_at = $3, ended_seq = $4, ended = $5, begun = $6
                   WHERE space = $1 AND number = $2";
        let begun = json("a turn", &turn.begun)?;
        let values = values![space.0, to_column(turn.handle.0), ended_at, ended_seq, ended, begun];
        return Ok(Write::new(sql, values));
    }
    let sql =
        "INSERT INTO turn (space, number, id, thread, run, started_at, started_seq, ended_at, ended_seq, begun, ended)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let values = values![
        space.0,
        to_column(turn.handle.0),
        turn.begun.id.to_bytes().to_vec(),
        encode_text(&turn.begun.thread.0).into_owned(),
        turn.begun.run.map(|run| run.to_bytes().to_vec()),
        turn.started_at.as_nanos(),
        to_column(turn.started_seq.0),
        ended_at,
        ended_seq,
        json("a turn", &turn.begun)?,
        ended,
    ];
    Ok(Write::new(sql, values))
}

/// The turns with `ids`, in no order.
pub(super) async fn by_ids(session: &Session, ids: &[TurnId]) -> Result<Vec<Turn>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id.to_bytes().to_vec()).collect();
    let rows = session.query(BY_IDS, &[&session.space.0, &ids]).await?;
    rows.iter().map(from_row).collect()
}

/// The turn to which `turn` refers.
pub(super) async fn read(session: Option<&Session>, turn: TurnRef) -> Result<Turn, Failure> {
    let missing = || not_found("turn", turn);
    let session = session.ok_or_else(missing)?;
    let found = match turn {
        TurnRef::Id(id) => by_ids(session, &[id]).await?.pop(),
        TurnRef::Handle(handle) => {
            let sql = format!("{SELECT} space = $1 AND number = $2");
            let row = session.one(&sql, &[&session.space.0, &to_column(handle.0)]).await?;
            row.as_ref().map(from_row).transpose()?
        }
    };
    Ok(found.ok_or_else(missing)?)
}

/// The turns that match `query`, newest first.
pub(super) async fn list(session: &Session, query: &TurnQuery) -> Result<Vec<Turn>, Failure> {
    let mut statement = Statement::default();
    statement.push(&format!("{SELECT} space = ?"), [Value::Int(session.space.0)]);
    if let Some(before) = query.before {
        statement.push(" AND number < ?", [Value::count(before)]);
    }
    if let Some(thread) = &query.thread {
        let name = || Value::Text(encode_text(&thread.0).into_owned());
        statement.push(
            " AND thread_hash = hashtextextended(?, 0) AND thread = ?",
            [name(), name()],
        );
    }
    if let Some(run) = query.run {
        statement.push(" AND run = ?", [Value::Bytes(run.to_bytes().to_vec())]);
    }
    if let Some(ended) = query.ended {
        let ended = if ended {
            " AND ended IS NOT NULL"
        } else {
            " AND ended IS NULL"
        };
        statement.push(ended, []);
    }
    if let Some(by) = query.ended_by {
        statement.push(" AND ended_seq <= ?", [Value::count(by.0)]);
    }
    let instant = |at: Timestamp| Value::Int(at.as_nanos());
    if let Some(from) = query.from {
        statement.push(" AND started_at >= ?", [instant(from)]);
    }
    if let Some(until) = query.until {
        statement.push(" AND started_at < ?", [instant(until)]);
    }
    statement.push(" ORDER BY number DESC LIMIT ?", [Value::Int(i64::from(query.limit()))]);
    session.ask(&statement).await?.iter().map(from_row).collect()
}

/// Reads the columns of [`SELECT`].
fn from_row(row: &Row) -> Result<Turn, Failure> {
    let handle = TurnHandle(count(row, 0)?);
    let name = || format!("turn {handle}");
    let new_turn: NewTurn = serde_json::from_str(get(row, 3)?).map_err(|error| damaged(&name(), error))?;
    let mut turn = Turn::begun(new_turn, handle, seq(row, 2)?, instant(row, 1)?);
    if let Some(ended) = get::<Option<&str>>(row, 6)? {
        let end: TurnEnd = serde_json::from_str(ended).map_err(|error| damaged(&name(), error))?;
        turn.ended = Some(TurnEnded {
            at: instant(row, 4)?,
            seq: seq(row, 5)?,
            end,
        });
    }
    Ok(turn)
}

fn json(label: &str, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Invalid(format!("{label} cannot be written as JSON: {error}")))
}
