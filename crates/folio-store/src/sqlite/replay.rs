//! The answer to a commit that was made before, found by its idempotency key.

use folio_memory::{Change, EntryId, PageHandle, Seq};
use rusqlite::Connection;

use super::error::Failure;
use super::place::{Place, SpaceId};
use super::{entry, journal, page, run};
use crate::commit::{Committed, CommittedEntry};
use crate::fold;
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
    for (index, change) in row.record.changes.iter().enumerate() {
        match change {
            Change::EnsurePage(new) => {
                let place = page::place_of(conn, space, new.id)?.ok_or_else(|| missing("a page"))?;
                answer.pages.push((new.id, PageHandle(place.number())));
            }
            Change::AddEntry(new) => answer.entries.push(entry_after(conn, space, row, index, new.id)?),
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => {
                answer.entries.push(entry_after(conn, space, row, index, *entry)?);
            }
            _ => {}
        }
    }
    if let Some(append) = &row.record.run {
        let place = run::place_of(conn, space, append.run)?.ok_or_else(|| missing("a run"))?;
        answer.run = Some((append.run, folio_memory::id::RunHandle(place.number())));
    }
    Ok(answer)
}

/// The state of entry `id` after the commit of `row`, and whether its change number `index` changed it.
fn entry_after(
    conn: &Connection,
    space: SpaceId,
    row: &LogRow,
    index: usize,
    id: EntryId,
) -> Result<CommittedEntry, Failure> {
    let missing = || Failure::Damaged(format!("commit {} refers to {id}, which does not exist", row.seq));
    let found = entry::by_id(conn, space, id)?.ok_or_else(missing)?;
    let place = Place::of(space, found.handle.0);
    let before = journal::as_of(conn, &[place], Seq(row.seq.0.saturating_sub(1)))?.pop();
    fold::answered(&found, before, row, index).ok_or_else(missing)
}
