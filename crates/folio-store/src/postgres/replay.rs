//! The answer to a commit that was made before, found by its idempotency key.

use std::collections::HashMap;

use folio_memory::id::RunHandle;
use folio_memory::{Entry, PageHandle, Seq};

use super::error::Failure;
use super::session::Session;
use super::{entry, journal, page, run};
use crate::commit::Committed;
use crate::fold;
use crate::replayed::{TouchedEntries, answer_of, pages_of};
use crate::store::LogRow;

/// The answer that the commit of `row` got when it was made.
pub(super) async fn committed(session: &Session, row: &LogRow) -> Result<Committed, Failure> {
    let mut pages = HashMap::new();
    for id in pages_of(row) {
        pages.extend(
            page::number_of(session, id)
                .await?
                .map(|number| (id, PageHandle(number))),
        );
    }
    let run = match &row.record.run {
        Some(append) => run::by_ids(session, &[append.run]).await?.remove(&append.run),
        None => None,
    };
    let entries = touched_entries(session, row).await?;
    answer_of(row, &entries, &pages, run.map(|run| RunHandle(run.number))).map_err(Failure::Damaged)
}

/// Reads the entries that the commit of `row` added or changed. The earlier commits that touched them are each read
/// once.
async fn touched_entries(session: &Session, row: &LogRow) -> Result<TouchedEntries, Failure> {
    let mut now = HashMap::new();
    for id in row.record.changes.iter().filter_map(fold::changed_entry) {
        if !now.contains_key(&id) {
            now.extend(entry::by_id(session, id).await?.map(|entry| (id, entry)));
        }
    }
    let older = now.values().filter(|entry: &&Entry| entry.created_seq < row.seq);
    let older: Vec<Entry> = older.cloned().collect();
    let before = if older.is_empty() {
        Vec::new()
    } else {
        let before = journal::states_at(session, &older, Seq(row.seq.0 - 1)).await?;
        before.into_entries()
    };
    let before = before.into_iter().map(|entry| (entry.id, entry)).collect();
    Ok(TouchedEntries { now, before })
}
