//! Rows of runs, and their drivers.

use std::collections::{HashMap, HashSet};

use folio_engine::Run;
use folio_engine::run::RunSummary;
use folio_memory::id::{RunHandle, RunRef};
use folio_memory::{RunId, Seq};
use tokio_postgres::Row;

use super::column::{Statement, Value, count, decode_text, encode_text, get, id, instant, seq};
use super::error::{Failure, not_found};
use super::journal;
use super::lease::Owners;
use super::loaded::LoadedRun;
use super::lookup::looked_up;
use super::session::{Session, Write, values};
use crate::checkup::rebuilt::RunColumns;
use crate::error::StoreError;
use crate::fold;
use crate::place::{SpaceId, to_column};
use crate::silence::Life;
use crate::store::{OwnerId, RunQuery, RunRow};

const LIMIT_DEFAULT: u32 = 100;

/// Runs by their ids.
pub(super) const BY_IDS: &str = looked_up!(
    "id, number, owner, fence, coalesce((SELECT max(seq) FROM touch \
         WHERE touch.space = run.space AND what = 'r' AND touch.number = run.number), 0), status",
    "run",
    "id",
    "bytea"
);

/// The records of the commits at which the journals of runs end.
const LAST_RECORDS: &str = looked_up!(
    "id, (SELECT record FROM log WHERE log.space = run.space AND log.seq = (SELECT max(seq) FROM touch \
         WHERE touch.space = run.space AND what = 'r' AND touch.number = run.number))",
    "run",
    "id",
    "bytea"
);

const SELECT: &str =
    "SELECT number, id, title, status, created_at, owner, coalesce(head, 0), coalesce(log.at, created_at), fence
    FROM run CROSS JOIN LATERAL (SELECT max(seq) AS head FROM touch
        WHERE touch.space = run.space AND what = 'r' AND touch.number = run.number) AS last
    LEFT JOIN log ON log.space = run.space AND log.seq = head WHERE";

/// Writes what commits say of a run, if they say anything.
pub(super) fn write(space: SpaceId, id: RunId, run: &LoadedRun) -> Option<Write> {
    let number = to_column(run.number);
    if let Some((title, seq, at)) = &run.begun {
        let sql = "INSERT INTO run (space, number, id, title, status, created_at, created_seq, owner, fence)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, 0)";
        let status = encode_text(run.status.as_deref().unwrap_or(Run::RUNNING)).into_owned();
        let values = values![
            space.0,
            number,
            id.to_bytes().to_vec(),
            encode_text(title).into_owned(),
            status,
            at.as_nanos(),
            to_column(seq.0)
        ];
        return Some(Write::new(sql, values));
    }
    let status = encode_text(run.status.as_deref()?).into_owned();
    let sql = "UPDATE run SET status = $3 WHERE space = $1 AND number = $2";
    Some(Write::new(sql, values![space.0, number, status]))
}

/// The runs with `ids`.
pub(super) async fn by_ids(session: &Session, ids: &[RunId]) -> Result<HashMap<RunId, LoadedRun>, Failure> {
    let mut runs = HashMap::new();
    if ids.is_empty() {
        return Ok(runs);
    }
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id.to_bytes().to_vec()).collect();
    for row in session.query(BY_IDS, &[&session.space.0, &ids]).await? {
        let run = LoadedRun {
            number: count(&row, 1)?,
            owner: owner(&row, 2)?,
            fence: count(&row, 3)?,
            head: seq(&row, 4)?,
            before: decode_text(get(&row, 5)?),
            status: None,
            begun: None,
        };
        runs.insert(RunId::from_bytes(id(&row, 0, "a run")?), run);
    }
    Ok(runs)
}

/// What the rows of the runs with `ids` contain, in no order.
pub(super) async fn run_columns(session: &Session, ids: &[RunId]) -> Result<Vec<(RunId, RunColumns)>, Failure> {
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id.to_bytes().to_vec()).collect();
    let sql = looked_up!("id, number, title, status", "run", "id", "bytea");
    let rows = session.query(sql, &[&session.space.0, &ids]).await?;
    let columns = rows.iter().map(|row| {
        let columns = RunColumns {
            handle: RunHandle(count(row, 1)?),
            title: decode_text(get(row, 2)?),
            status: decode_text(get(row, 3)?),
        };
        Ok((RunId::from_bytes(id(row, 0, "a run")?), columns))
    });
    columns.collect()
}

/// Makes `owner` the driver of `run` and returns the fence; `None` if it is not known yet whether the current driver is
/// alive.
pub(super) async fn claim(
    session: Option<&Session>,
    run: RunId,
    owner: &OwnerId,
    owners: &Owners,
) -> Result<Option<u64>, Failure> {
    let missing = || not_found("run", run);
    let session = session.ok_or_else(missing)?;
    let found = by_ids(session, &[run]).await?.remove(&run).ok_or_else(missing)?;
    fold::refuse_forgotten(found.number, &found.before)?;
    if let Some(current) = found.owner.as_ref().filter(|current| *current != owner) {
        match owners.life_of(session, current).await? {
            Life::Gone => {}
            Life::Silent => return Ok(None),
            Life::GoesOn => {
                let run = RunHandle(found.number).to_string();
                return Err(StoreError::RunTaken { run, detail: None }.into());
            }
        }
    }
    // Visibly alive before the run names it, so that nobody can take it for dead.
    owners.hold(session, owner).await?;
    // Even if it was the driver before: writes still on their way from then come too late.
    let fence = found.fence + 1;
    let sql = "UPDATE run SET owner = $3, fence = $4 WHERE space = $1 AND number = $2";
    session
        .execute(
            sql,
            &[
                &session.space.0,
                &to_column(found.number),
                &encode_text(&owner.0).as_ref(),
                &to_column(fence),
            ],
        )
        .await?;
    Ok(Some(fence))
}

/// Releases `run` if `fence` is still the current one.
pub(super) async fn release(session: &Session, run: RunId, fence: u64) -> Result<(), Failure> {
    let sql = "UPDATE run SET owner = NULL WHERE space = $1 AND id = $2 AND fence = $3";
    session
        .execute(sql, &[&session.space.0, &run.to_bytes().as_slice(), &to_column(fence)])
        .await?;
    Ok(())
}

/// Removes what the row of a forgotten run says, who drove it, and what it wrote last.
pub(super) async fn forget(session: &Session, number: u64) -> Result<(), Failure> {
    let number = to_column(number);
    let sql = "UPDATE run SET title = '', owner = NULL WHERE space = $1 AND number = $2";
    session.execute(sql, &[&session.space.0, &number]).await?;
    let sql = "DELETE FROM written WHERE space = $1 AND run = $2";
    session.execute(sql, &[&session.space.0, &number]).await?;
    Ok(())
}

/// The run to which `run` refers.
pub(super) async fn read(session: Option<&Session>, run: RunRef, owners: &Owners) -> Result<RunRow, Failure> {
    let missing = || not_found("run", run);
    let session = session.ok_or_else(missing)?;
    let row = match run {
        RunRef::Id(id) => {
            let sql = format!("{SELECT} run.space = $1 AND id = $2");
            session
                .one(&sql, &[&session.space.0, &id.to_bytes().as_slice()])
                .await?
        }
        RunRef::Handle(handle) => {
            let sql = format!("{SELECT} run.space = $1 AND number = $2");
            session.one(&sql, &[&session.space.0, &to_column(handle.0)]).await?
        }
    };
    let rows = [row.ok_or_else(missing)?];
    from_rows(session, &rows, owners)
        .await?
        .pop()
        .ok_or_else(|| missing().into())
}

/// The runs that match `query`, newest first.
pub(super) async fn list(session: &Session, query: &RunQuery, owners: &Owners) -> Result<Vec<RunRow>, Failure> {
    let mut statement = Statement::default();
    statement.push(&format!("{SELECT} run.space = ?"), [Value::Int(session.space.0)]);
    if let Some(before) = query.before {
        statement.push(" AND number < ?", [Value::count(before)]);
    }
    if !query.status.is_empty() {
        let status = query
            .status
            .iter()
            .map(|status| encode_text(status).into_owned())
            .collect();
        statement.push(" AND status = ANY(?)", [Value::Texts(status)]);
    }
    let limit = if query.limit == 0 { LIMIT_DEFAULT } else { query.limit };
    statement.push(" ORDER BY number DESC LIMIT ?", [Value::Int(i64::from(limit))]);
    from_rows(session, &session.ask(&statement).await?, owners).await
}

/// The ends of the journals of `runs`.
pub(super) async fn heads(session: &Session, runs: &[RunId]) -> Result<Vec<(RunId, Seq)>, Failure> {
    let found = by_ids(session, runs).await?;
    Ok(found.into_iter().map(|(run, loaded)| (run, loaded.head)).collect())
}

/// What the last commits of `runs` say of them.
pub(super) async fn so_far(session: &Session, runs: &[RunId]) -> Result<Vec<(RunId, RunSummary)>, Failure> {
    let ids: Vec<Vec<u8>> = runs.iter().map(|id| id.to_bytes().to_vec()).collect();
    let mut summaries = Vec::with_capacity(runs.len());
    for row in session.query(LAST_RECORDS, &[&session.space.0, &ids]).await? {
        if let Some(so_far) = get::<Option<&str>>(&row, 1)?.and_then(fold::run_summary_of) {
            summaries.push((RunId::from_bytes(id(&row, 0, "a run")?), so_far));
        }
    }
    Ok(summaries)
}

fn owner(row: &Row, column: usize) -> Result<Option<OwnerId>, Failure> {
    Ok(get::<Option<String>>(row, column)?.map(|owner| OwnerId(decode_text(owner))))
}

/// Reads the columns of [`SELECT`].
async fn from_rows(session: &Session, rows: &[Row], owners: &Owners) -> Result<Vec<RunRow>, Failure> {
    let mut drivers = HashSet::new();
    for row in rows {
        drivers.extend(driver(row)?);
    }
    // A single look does not show how long a silence lasts. A claim waits to find out.
    let lives = owners.lives_of(session, drivers).await?;
    let mut runs = rows
        .iter()
        .map(|row| from_row(row, &lives))
        .collect::<Result<Vec<_>, _>>()?;
    let heads: HashMap<Seq, usize> = runs
        .iter()
        .enumerate()
        .filter(|(_, run)| run.is_forgotten())
        .map(|(at, run)| (run.head, at))
        .collect();
    let seqs: Vec<i64> = heads.keys().map(|head| to_column(head.0)).collect();
    journal::read(session, &seqs, |commit| {
        if let Some(run) = heads.get(&commit.seq).and_then(|at| runs.get_mut(*at)) {
            run.forgotten = fold::forgotten_run(&commit, run.id).map(Box::new);
        }
    })
    .await?;
    Ok(runs)
}

/// The driver of the run in `row`, if the run has not ended.
fn driver(row: &Row) -> Result<Option<OwnerId>, Failure> {
    let is_running = get::<&str>(row, 3)? == Run::RUNNING;
    Ok(owner(row, 5)?.filter(|_| is_running))
}

fn from_row(row: &Row, lives: &HashMap<OwnerId, Life>) -> Result<RunRow, Failure> {
    let status = decode_text(get(row, 3)?);
    let driven = driver(row)?.is_some_and(|owner| lives.get(&owner) == Some(&Life::GoesOn));
    Ok(RunRow {
        id: RunId::from_bytes(id(row, 1, "a run")?),
        handle: RunHandle(count(row, 0)?),
        title: decode_text(get(row, 2)?),
        status,
        created_at: instant(row, 4)?,
        updated_at: instant(row, 7)?,
        head: seq(row, 6)?,
        driven,
        was_driven: count(row, 8)? > 0,
        forgotten: None,
    })
}
