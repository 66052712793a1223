//! Entries whose time ends: found by when, so that nobody has to go through all of them.

use folio_memory::{EntryId, Timestamp};
use rusqlite::{Connection, params};

use super::error::{Failure, damaged};
use super::place::{Place, SpaceId};

/// Notes that what stands at `place` ends at `end` and no longer at `before`.
pub(super) fn note(
    conn: &Connection,
    place: Place,
    before: Option<Timestamp>,
    end: Option<Timestamp>,
) -> Result<(), Failure> {
    if before == end {
        return Ok(());
    }
    if let Some(before) = before {
        let sql = "DELETE FROM ending WHERE space = ?1 AND at = ?2 AND entry = ?3";
        conn.prepare_cached(sql)?
            .execute(params![place.space(), before.as_nanos(), place])?;
    }
    if let Some(end) = end {
        let sql = "INSERT INTO ending (space, at, entry) VALUES (?1, ?2, ?3)";
        conn.prepare_cached(sql)?
            .execute(params![place.space(), end.as_nanos(), place])?;
    }
    Ok(())
}

/// Up to `limit` entries of `space` whose time was past `by` then, the first first.
pub(super) fn list(
    conn: &Connection,
    space: Option<SpaceId>,
    by: Timestamp,
    limit: u32,
) -> Result<Vec<(EntryId, Timestamp)>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let sql = "SELECT entry.id, ending.at FROM ending CROSS JOIN entry ON entry.place = ending.entry
               WHERE ending.space = ?1 AND ending.at <= ?2 ORDER BY ending.at, ending.entry LIMIT ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![space, by.as_nanos(), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: [u8; 16] = row.get(0).map_err(|error| damaged("the id of an entry", error))?;
        found.push((EntryId::from_bytes(id), Timestamp::from_nanos(row.get(1)?)));
    }
    Ok(found)
}

/// Whether what stands at `place` is known to end at `end`.
pub(super) fn is_noted(conn: &Connection, place: Place, end: Timestamp) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM ending WHERE space = ?1 AND at = ?2 AND entry = ?3)";
    let row = params![place.space(), end.as_nanos(), place];
    Ok(conn.prepare_cached(sql)?.query_row(row, |row| row.get(0))?)
}
