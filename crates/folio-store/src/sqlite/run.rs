//! Rows of runs, and their drivers.

use std::collections::HashMap;

use folio_engine::Run;
use folio_engine::run::RunSummary;
use folio_memory::id::{RunHandle, RunRef};
use folio_memory::{RunId, Seq, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::error::{Failure, not_found};
use super::journal;
use super::lease::Owners;
use super::page::place_value;
use super::place::{Place, SpaceId, Touched, from_column, to_column};
use crate::checkup::rebuilt::RunColumns;
use crate::error::StoreError;
use crate::fold;
use crate::silence::Life;
use crate::store::{OwnerId, RunQuery, RunRow};

const LIMIT_DEFAULT: u32 = 100;

/// The place of the run with the id `id`.
pub(super) fn place_of(conn: &Connection, space: SpaceId, id: RunId) -> Result<Option<Place>, Failure> {
    let sql = "SELECT place FROM run WHERE id = ?1 AND space = ?2";
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![id.to_bytes(), space], |row| row.get(0))
        .optional()?)
}

/// The place of the run with the id `id`, and its status.
pub(super) fn place_and_status(
    conn: &Connection,
    space: SpaceId,
    id: RunId,
) -> Result<Option<(Place, String)>, Failure> {
    let sql = "SELECT place, status FROM run WHERE id = ?1 AND space = ?2";
    let found = conn
        .prepare_cached(sql)?
        .query_row(params![id.to_bytes(), space], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?)
}

/// The status of the run at `place`.
pub(super) fn status_of(conn: &Connection, place: Place) -> Result<String, Failure> {
    let sql = "SELECT status FROM run WHERE place = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([place], |row| row.get(0))?)
}

/// Removes what the row of a forgotten run says, who drove it, and what it wrote last.
pub(super) fn forget(conn: &Connection, place: Place) -> Result<(), Failure> {
    conn.prepare_cached("UPDATE run SET title = '', owner = NULL WHERE place = ?1")?
        .execute([place])?;
    conn.prepare_cached("DELETE FROM written WHERE run = ?1")?
        .execute([place])?;
    Ok(())
}

/// What the row of the run with the id `id` contains.
pub(super) fn run_columns(conn: &Connection, space: SpaceId, id: RunId) -> Result<Option<RunColumns>, Failure> {
    let sql = "SELECT place, title, status FROM run WHERE id = ?1 AND space = ?2";
    let columns = conn
        .prepare_cached(sql)?
        .query_row(params![id.to_bytes(), space], |row| {
            Ok(RunColumns {
                handle: RunHandle(row.get::<_, Place>(0)?.number()),
                title: row.get(1)?,
                status: row.get(2)?,
            })
        });
    Ok(columns.optional()?)
}

/// Inserts the row of a run that a commit starts.
pub(super) fn insert(
    conn: &Connection,
    place: Place,
    id: RunId,
    title: &str,
    status: Option<&str>,
    seq: Seq,
    at: Timestamp,
) -> Result<(), Failure> {
    let sql = "INSERT INTO run (place, space, id, title, status, created_at, created_seq, owner, fence)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, 0)";
    let status = status.unwrap_or(Run::RUNNING);
    let row = params![
        place,
        place.space(),
        id.to_bytes(),
        title,
        status,
        at.as_nanos(),
        to_column(seq.0)
    ];
    conn.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

/// Sets the status in the run's row.
pub(super) fn set_status(conn: &Connection, place: Place, status: &str) -> Result<(), Failure> {
    conn.prepare_cached("UPDATE run SET status = ?2 WHERE place = ?1")?
        .execute(params![place, status])?;
    Ok(())
}

/// Makes `owner` the driver of `run` and returns the fence; `None` if it is not known yet whether the current driver is
/// alive.
pub(super) fn claim(
    conn: &Connection,
    space: Option<SpaceId>,
    run: RunId,
    owner: &OwnerId,
    owners: &Owners,
) -> Result<Option<u64>, Failure> {
    let missing = || not_found("run", run);
    let (place, status) = space
        .map(|space| place_and_status(conn, space, run))
        .transpose()?
        .flatten()
        .ok_or_else(missing)?;
    fold::refuse_forgotten(place.number(), &status)?;
    let (current, fence) = owner_of(conn, place)?;
    if let Some(current) = current.filter(|current| current != owner) {
        match owners.life_of(conn, &current)? {
            Life::Gone => {}
            Life::Silent => return Ok(None),
            Life::GoesOn => {
                return Err(StoreError::RunTaken {
                    run: RunHandle(place.number()).to_string(),
                    detail: owners.describe(&current),
                }
                .into());
            }
        }
    }
    // Visibly alive before the run names it, so that nobody can take it for dead.
    owners.hold(owner)?;
    owners.renew(conn, owner)?;
    // Even if it was the driver before: writes still on their way from then come too late.
    let fence = fence + 1;
    let sql = "UPDATE run SET owner = ?2, fence = ?3 WHERE place = ?1";
    conn.prepare_cached(sql)?
        .execute(params![place, owner.0, to_column(fence)])?;
    Ok(Some(fence))
}

/// Releases `run` if `fence` is still the current one; returns whether it is.
pub(super) fn release(conn: &Connection, space: Option<SpaceId>, run: RunId, fence: u64) -> Result<bool, Failure> {
    let Some(space) = space else { return Ok(false) };
    let sql = "UPDATE run SET owner = NULL WHERE id = ?1 AND space = ?2 AND fence = ?3";
    let released = conn
        .prepare_cached(sql)?
        .execute(params![run.to_bytes(), space, to_column(fence)])?;
    Ok(released > 0)
}

/// The run to which `run` refers.
pub(super) fn read(conn: &Connection, space: Option<SpaceId>, run: RunRef, owners: &Owners) -> Result<RunRow, Failure> {
    let missing = || not_found("run", run);
    let space = space.ok_or_else(missing)?;
    let place = match run {
        RunRef::Id(id) => place_of(conn, space, id)?.ok_or_else(missing)?,
        RunRef::Handle(handle) => Place::of(space, handle.0),
    };
    let mut statement = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM run WHERE place = ?1"))?;
    let mut rows = statement.query(params![place])?;
    let row = rows.next()?.ok_or_else(missing)?;
    from_row(conn, row, owners, &mut HashMap::new())
}

/// The runs that match `query`, newest first.
pub(super) fn list(
    conn: &Connection,
    space: Option<SpaceId>,
    query: &RunQuery,
    owners: &Owners,
) -> Result<Vec<RunRow>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let end = query
        .before
        .map_or(Place::end(space), |number| Place::of(space, number));
    let mut sql = format!("SELECT {COLUMNS} FROM run WHERE place >= ? AND place < ?");
    let mut values = vec![place_value(Place::start(space)), place_value(end)];
    if !query.status.is_empty() {
        sql += &format!(" AND status IN ({})", vec!["?"; query.status.len()].join(", "));
        values.extend(query.status.iter().cloned().map(Value::from));
    }
    sql += " ORDER BY place DESC LIMIT ?";
    values.push(i64::from(if query.limit == 0 { LIMIT_DEFAULT } else { query.limit }).into());
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let (mut runs, mut alive) = (Vec::new(), HashMap::new());
    while let Some(row) = rows.next()? {
        runs.push(from_row(conn, row, owners, &mut alive)?);
    }
    Ok(runs)
}

/// The ends of the journals of `runs`.
pub(super) fn heads(conn: &Connection, space: Option<SpaceId>, runs: &[RunId]) -> Result<Vec<(RunId, Seq)>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let mut heads = Vec::with_capacity(runs.len());
    for run in runs {
        if let Some(place) = place_of(conn, space, *run)? {
            heads.push((*run, journal::last_touch(conn, Touched::Run, place)?));
        }
    }
    Ok(heads)
}

/// What the last commits of `runs` say of them.
pub(super) fn so_far(
    conn: &Connection,
    space: Option<SpaceId>,
    runs: &[RunId],
) -> Result<Vec<(RunId, RunSummary)>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    // Records of runs are never packed.
    let sql = "SELECT record FROM log WHERE place = ?1";
    let mut summaries = Vec::with_capacity(runs.len());
    for (run, head) in heads(conn, Some(space), runs)? {
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![Place::of(space, head.0)])?;
        if let Some(row) = rows.next()?
            && let Some(so_far) = row.get_ref(0)?.as_str().ok().and_then(fold::run_summary_of)
        {
            summaries.push((run, so_far));
        }
    }
    Ok(summaries)
}

/// The driver of the run at `place`, and the fence of its last claim.
pub(super) fn owner_of(conn: &Connection, place: Place) -> Result<(Option<OwnerId>, u64), Failure> {
    let sql = "SELECT owner, fence FROM run WHERE place = ?1";
    Ok(conn.prepare_cached(sql)?.query_row(params![place], |row| {
        Ok((row.get::<_, Option<String>>(0)?.map(OwnerId), from_column(row.get(1)?)))
    })?)
}

const COLUMNS: &str = "place, id, title, status, created_at, owner, fence";

/// Reads [`COLUMNS`]. `alive` caches which drivers are alive, because each check opens a file.
fn from_row(
    conn: &Connection,
    row: &Row<'_>,
    owners: &Owners,
    alive: &mut HashMap<String, bool>,
) -> Result<RunRow, Failure> {
    let place: Place = row.get(0)?;
    let status: String = row.get(3)?;
    let created_at = Timestamp::from_nanos(row.get(4)?);
    let owner: Option<String> = row.get(5)?;
    let head = journal::last_touch(conn, Touched::Run, place)?;
    let updated_at = journal::commit_time(conn, Place::of(place.space(), head.0))?.unwrap_or(created_at);
    let driven = match owner {
        Some(owner) if status == Run::RUNNING => match alive.get(&owner) {
            Some(is_alive) => *is_alive,
            None => {
                // A single look does not show how long a silence lasts. A claim waits to find out.
                let is_alive = owners.life_of(conn, &OwnerId(owner.clone()))? == Life::GoesOn;
                alive.insert(owner, is_alive);
                is_alive
            }
        },
        _ => false,
    };
    let (id, handle) = (RunId::from_bytes(row.get(1)?), RunHandle(place.number()));
    let forgotten = match status.as_str() {
        Run::FORGOTTEN => {
            let commit = journal::commit_at(conn, Place::of(place.space(), head.0))?;
            commit.and_then(|commit| fold::forgotten_run(&commit, id)).map(Box::new)
        }
        _ => None,
    };
    Ok(RunRow {
        id,
        handle,
        title: row.get(2)?,
        status,
        created_at,
        updated_at,
        head,
        driven,
        was_driven: from_column(row.get(6)?) > 0,
        forgotten,
    })
}
