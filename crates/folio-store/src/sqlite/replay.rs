//! The answer to a commit that was made before, found by its idempotency key.

use std::collections::HashMap;

use folio_memory::id::RunHandle;
use folio_memory::{PageHandle, Seq};
use rusqlite::Connection;

use super::error::Failure;
use super::place::{Place, SpaceId};
use super::{entry, journal, page, run};
use crate::commit::Committed;
use crate::fold;
use crate::replayed::{TouchedEntries, answer_of, pages_of};
use crate::store::LogRow;

/// The answer that the commit of `row` got when it was made.
pub(super) fn committed(conn: &Connection, space: SpaceId, row: &LogRow) -> Result<Committed, Failure> {
    let mut pages = HashMap::new();
    for id in pages_of(row) {
        pages.extend(page::place_of(conn, space, id)?.map(|place| (id, PageHandle(place.number()))));
    }
    let run = match &row.record.run {
        Some(append) => run::place_of(conn, space, append.run)?,
        None => None,
    };
    let entries = touched_entries(conn, space, row)?;
    answer_of(row, &entries, &pages, run.map(|place| RunHandle(place.number()))).map_err(Failure::Damaged)
}

/// Reads the entries that the commit of `row` added or changed. The earlier commits that touched them are each read
/// once.
fn touched_entries(conn: &Connection, space: SpaceId, row: &LogRow) -> Result<TouchedEntries, Failure> {
    let mut now = HashMap::new();
    for id in row.record.changes.iter().filter_map(fold::changed_entry) {
        if !now.contains_key(&id) {
            now.extend(entry::by_id(conn, space, id)?.map(|entry| (id, entry)));
        }
    }
    let places: Vec<Place> = now.values().map(|entry| Place::of(space, entry.handle.0)).collect();
    let before = journal::states_at(conn, &places, Seq(row.seq.0.saturating_sub(1)))?;
    let before = before
        .into_entries()
        .into_iter()
        .map(|entry| (entry.id, entry))
        .collect();
    Ok(TouchedEntries { now, before })
}
