//! The answer to a commit that was made before, found by its idempotency key.

use std::collections::HashMap;

use folio_memory::id::RunHandle;
use folio_memory::{Change, Entry, PageHandle, Seq};

use super::error::Failure;
use super::session::Session;
use super::{entry, journal, page, run};
use crate::commit::Committed;
use crate::fold::{self, TouchedEntries};
use crate::store::LogRow;

/// The answer that the commit of `row` got when it was made.
pub(super) async fn committed(session: &Session, row: &LogRow) -> Result<Committed, Failure> {
    let missing = |label: &str| Failure::Damaged(format!("commit {} refers to {label} that does not exist", row.seq));
    let mut answer = Committed {
        seq: row.seq,
        at: row.at,
        replayed: true,
        entries: Vec::new(),
        pages: Vec::new(),
        run: None,
    };
    let entries = touched_entries(session, row).await?;
    for (index, change) in row.record.changes.iter().enumerate() {
        match change {
            Change::EnsurePage(new) => {
                let number = page::number_of(session, new.id)
                    .await?
                    .ok_or_else(|| missing("a page"))?;
                answer.pages.push((new.id, PageHandle(number)));
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
        let found = run::by_ids(session, &[append.run]).await?.remove(&append.run);
        let found = found.ok_or_else(|| missing("a run"))?;
        answer.run = Some((append.run, RunHandle(found.number)));
    }
    Ok(answer)
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
        journal::as_of(session, &older, Seq(row.seq.0 - 1)).await?
    };
    let before = before.into_iter().map(|entry| (entry.id, entry)).collect();
    Ok(TouchedEntries { now, before })
}
