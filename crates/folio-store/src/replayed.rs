//! The answer to a commit that was made before.

use std::collections::HashMap;

use folio_memory::id::RunHandle;
use folio_memory::{Change, Entry, EntryId, PageHandle, PageId};

use crate::commit::{Committed, CommittedEntry};
use crate::fold::{changed_entry, fold};
use crate::store::LogRow;

/// The entries that a commit added or changed: as they are now, and as they were before it.
pub(crate) struct TouchedEntries {
    pub(crate) now: HashMap<EntryId, Entry>,
    pub(crate) before: HashMap<EntryId, Entry>,
}

impl TouchedEntries {
    /// The state of entry `id` after the commit of `row`, and whether its change number `index` changed it; what is
    /// wrong with the store if there is no such entry.
    fn after(&self, row: &LogRow, index: usize, id: EntryId) -> Result<CommittedEntry, String> {
        let missing = || format!("commit {} refers to {id}, which does not exist", row.seq);
        let found = self.now.get(&id).ok_or_else(missing)?;
        answered(found, self.before.get(&id).cloned(), row, index).ok_or_else(missing)
    }
}

/// What the commit of `row` returned about `found` for its change number `index`; `state` is the entry's state before
/// it.
fn answered(found: &Entry, mut state: Option<Entry>, row: &LogRow, index: usize) -> Option<CommittedEntry> {
    let (id, handle) = (found.id, found.handle);
    let mut changed = false;
    for (at, change) in row.record.changes.iter().enumerate() {
        let changes = fold(&mut state, handle, change, id, row.seq, row.at);
        changed |= changes && at == index;
    }
    Some(CommittedEntry {
        id,
        handle,
        version: state?.version,
        changed,
        conflicts: Vec::new(),
    })
}

/// The answer that the commit of `row` got when it was made. `pages` has the pages that it added or found, `run` the run
/// to which it added events.
///
/// # Errors
///
/// What is wrong with the store, if it lacks something to which the commit refers.
pub(crate) fn answer_of(
    row: &LogRow,
    entries: &TouchedEntries,
    pages: &HashMap<PageId, PageHandle>,
    run: Option<RunHandle>,
) -> Result<Committed, String> {
    let missing = |label: &str| format!("commit {} refers to {label} that does not exist", row.seq);
    let mut answer = Committed {
        seq: row.seq,
        at: row.at,
        replayed: true,
        entries: Vec::new(),
        pages: Vec::new(),
        run: None,
    };
    for (index, change) in row.record.changes.iter().enumerate() {
        if let Change::EnsurePage(new) = change {
            let handle = pages.get(&new.id).ok_or_else(|| missing("a page"))?;
            answer.pages.push((new.id, *handle));
        } else if let Some(id) = changed_entry(change) {
            answer.entries.push(entries.after(row, index, id)?);
        }
    }
    if let Some(append) = &row.record.run {
        answer.run = Some((append.run, run.ok_or_else(|| missing("a run"))?));
    }
    Ok(answer)
}

/// The pages that the commit of `row` added or found.
pub(crate) fn pages_of(row: &LogRow) -> impl Iterator<Item = PageId> {
    row.record.changes.iter().filter_map(|change| match change {
        Change::EnsurePage(new) => Some(new.id),
        _ => None,
    })
}
