//! The answer to a commit that was made before, found by its idempotency key.

use std::collections::HashMap;

use folio_memory::{Change, PageHandle, Seq};
use rusqlite::Connection;

use super::error::Failure;
use super::place::{Place, SpaceId};
use super::{entry, journal, page, run};
use crate::commit::Committed;
use crate::fold::{self, TouchedEntries};
use crate::store::LogRow;

/// The answer that the commit of `row` got when it was made.
pub(super) fn committed(conn: &Connection, space: SpaceId, row: &LogRow) -> Result<Committed, Failure> {
    let missing = |label: &str| Failure::Damaged(format!("commit {} refers to {label} that does not exist", row.seq));
    let mut answer = Committed {
        seq: row.seq,
        at: row.at,
        replayed: true,
        entries: Vec::new(),
        pages: Vec::new(),
        run: None,
    };
    let entries = touched_entries(conn, space, row)?;
    for (index, change) in row.record.changes.iter().enumerate() {
        match change {
            Change::EnsurePage(new) => {
                let place = page::place_of(conn, space, new.id)?.ok_or_else(|| missing("a page"))?;
                answer.pages.push((new.id, PageHandle(place.number())));
            }
            change => {
                if let Some(id) = fold::changed_entry(change) {
                    answer
                        .entries
                        .push(entries.after(row, index, id).map_err(Failure::Damaged)?);
                }
            }
        }
    }
    if let Some(append) = &row.record.run {
        let place = run::place_of(conn, space, append.run)?.ok_or_else(|| missing("a run"))?;
        answer.run = Some((append.run, folio_memory::id::RunHandle(place.number())));
    }
    Ok(answer)
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
    let before = journal::as_of(conn, &places, Seq(row.seq.0.saturating_sub(1)))?;
    let before = before.into_iter().map(|entry| (entry.id, entry)).collect();
    Ok(TouchedEntries { now, before })
}
