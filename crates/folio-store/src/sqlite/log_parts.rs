//! The structured parts of log blocks, read without their texts.

use folio_memory::{EntryHandle, EntryId, PageId, Timestamp};
use rusqlite::{Connection, params};

use super::entry::OF_RUNS;
use super::error::{Failure, damaged, json_or_damaged};
use super::page;
use super::place::{Place, SpaceId};
use crate::store::LogParts;

/// The parts of the live blocks on `page`, oldest first, with the length of the list called `without` in its place.
pub(super) fn list(
    conn: &Connection,
    space: Option<SpaceId>,
    page: PageId,
    without: &str,
    now: Timestamp,
) -> Result<Vec<LogParts>, Failure> {
    let Some(space) = space else { return Ok(Vec::new()) };
    let Some(page) = page::place_of(conn, space, page)? else {
        return Ok(Vec::new());
    };
    let sql = format!(
        "SELECT place, id, CASE json_type(parts, ?1)
             WHEN 'array' THEN json_replace(parts, ?1, json_array_length(parts, ?1)) ELSE parts END FROM (
             SELECT place, id, fields -> '$.parts' AS parts FROM entry INDEXED BY entry_page
             WHERE page = ?2 AND {OF_RUNS} AND kind = 'log' AND status <> 'archived' AND NOT superseded
             AND (expires_at IS NULL OR expires_at > ?3 OR pinned) ORDER BY place)"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![format!("$.{without}"), page, now.as_nanos()])?;
    let mut all = Vec::new();
    let label = "a block of a log";
    while let Some(row) = rows.next().map_err(|error| json_or_damaged(label, error))? {
        let place: Place = row.get(0)?;
        let parts: Option<&str> = row
            .get_ref(2)?
            .as_str_or_null()
            .map_err(|error| damaged(label, error))?;
        all.push(LogParts {
            id: EntryId::from_bytes(row.get(1)?),
            handle: EntryHandle(place.number()),
            parts: serde_json::from_str(parts.unwrap_or("null")).map_err(|error| damaged(label, error))?,
        });
    }
    Ok(all)
}
