//! The answer to a commit that was made before, found by its idempotency key.

use folio_memory::id::RunHandle;
use folio_memory::{Change, EntryId, PageHandle, Seq};

use super::error::Failure;
use super::session::Session;
use super::{entry, journal, page, run};
use crate::commit::{Committed, CommittedEntry};
use crate::fold;
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
    for (index, change) in row.record.changes.iter().enumerate() {
        match change {
            Change::EnsurePage(new) => {
                let number = page::number_of(session, new.id)
                    .await?
                    .ok_or_else(|| missing("a page"))?;
                answer.pages.push((new.id, PageHandle(number)));
            }
            Change::AddEntry(new) => answer.entries.push(entry_after(session, row, index, new.id).await?),
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => {
                answer.entries.push(entry_after(session, row, index, *entry).await?);
            }
            _ => {}
        }
    }
    if let Some(append) = &row.record.run {
        let found = run::by_ids(session, &[append.run]).await?.remove(&append.run);
        let found = found.ok_or_else(|| missing("a run"))?;
        answer.run = Some((append.run, RunHandle(found.number)));
    }
    Ok(answer)
}

/// The state of entry `id` after the commit of `row`, and whether its change number `index` changed it.
async fn entry_after(session: &Session, row: &LogRow, index: usize, id: EntryId) -> Result<CommittedEntry, Failure> {
    let missing = || Failure::Damaged(format!("commit {} refers to {id}, which does not exist", row.seq));
    let found = entry::by_id(session, id).await?.ok_or_else(missing)?;
    let before = if found.created_seq < row.seq {
        let before = journal::as_of(session, std::slice::from_ref(&found), Seq(row.seq.0 - 1)).await?;
        before.into_iter().next()
    } else {
        None
    };
    fold::answered(&found, before, row, index).ok_or_else(missing)
}
