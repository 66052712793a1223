//! What calls of runs write, recorded for runs that other processes drive (E9.15).

use folio_memory::RunId;
use rusqlite::{Connection, Params, params};

use super::error::Failure;
use super::lease::Owners;
use super::place::{Place, SpaceId, to_column};
use crate::plan::{OverlappingName, PlannedWrites, enclosing_paths};
use crate::store::OwnerId;

/// The names held by runs other than the one at `own` that overlap with any of `names`.
pub(super) fn overlapping_names(
    conn: &Connection,
    space: SpaceId,
    own: Place,
    names: &[String],
    owners: &Owners,
) -> Result<Vec<OverlappingName>, Failure> {
    let mut found = Vec::new();
    for name in names {
        for at in enclosing_paths(name) {
            look(conn, "name = ?3", params![space, own, at], owners, &mut found)?;
        }
        // `0` is the character after `/`.
        let (from, to) = (format!("{name}/"), format!("{name}0"));
        look(
            conn,
            "name >= ?3 AND name < ?4",
            params![space, own, from, to],
            owners,
            &mut found,
        )?;
    }
    Ok(found)
}

/// The names of what calls of `run` write, as long as its driver is there.
pub(super) fn names_of(
    conn: &Connection,
    space: Option<SpaceId>,
    run: RunId,
    owners: &Owners,
) -> Result<Vec<String>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let mut statement = conn.prepare_cached(
        "SELECT name, run.owner FROM written JOIN run ON run.place = written.run
         WHERE written.space = ?1 AND run.id = ?2 AND written.fence = run.fence AND run.owner IS NOT NULL",
    )?;
    let mut rows = statement.query(params![space, run.to_bytes()])?;
    let (mut names, mut driver) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        names.push(row.get(0)?);
        driver = Some(OwnerId(row.get(1)?));
    }
    Ok(match driver {
        Some(driver) if owners.is_alive(conn, &driver)? => names,
        _ => Vec::new(),
    })
}

fn look(
    conn: &Connection,
    condition: &str,
    values: impl Params,
    owners: &Owners,
    found: &mut Vec<OverlappingName>,
) -> Result<(), Failure> {
    let sql = format!(
        "SELECT name, run.id, run.place, run.owner FROM written JOIN run ON run.place = written.run
         WHERE written.space = ?1 AND written.run <> ?2 AND {condition} AND written.fence = run.fence AND run.owner IS NOT NULL"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        found.push(OverlappingName {
            name: row.get(0)?,
            run: RunId::from_bytes(row.get(1)?),
            place: row.get(2)?,
            is_driven: owners.is_alive(conn, &OwnerId(row.get(3)?))?,
        });
    }
    Ok(())
}

/// Records what calls of a run write from now on, and releases the runs that were overtaken.
pub(super) fn write(conn: &Connection, space: SpaceId, planned: &PlannedWrites<'_>) -> Result<(), Failure> {
    let mut clear = conn.prepare_cached("DELETE FROM written WHERE run = ?1")?;
    clear.execute([planned.place])?;
    for run in &planned.overtaken {
        clear.execute([run])?;
        conn.prepare_cached("UPDATE run SET owner = NULL WHERE place = ?1")?
            .execute([run])?;
    }
    let mut insert =
        conn.prepare_cached("INSERT OR IGNORE INTO written (space, name, run, fence) VALUES (?1, ?2, ?3, ?4)")?;
    for name in planned.names {
        insert.execute(params![space, name, planned.place, to_column(planned.fence)])?;
    }
    Ok(())
}
