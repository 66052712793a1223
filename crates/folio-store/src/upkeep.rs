//! What a store does besides writing and answering: finding what is due, making it smaller, and proving that what was
//! erased is gone.

use folio_memory::keeping::Watch;
use folio_memory::{Entry, EntryHandle, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::StoreError;

/// What the name of a store's file gets for that of its outbox, where answers of tools wait while it cannot be written.
pub const OUTBOX_SUFFIX: &str = "-outbox.jsonl";

/// A question for entries that are watched, in the order of their instants.
#[derive(Debug, Clone)]
pub struct WatchQuery {
    /// For what.
    pub what: Watch,
    /// Whose instant is not after this one.
    pub until: Timestamp,
    /// For which nobody has cared after this instant.
    pub idle_since: Timestamp,
    /// Where an earlier answer ended.
    pub after: Option<WatchPlace>,
    /// How many at most.
    pub limit: u32,
}

/// Where an entry stands in the order of what is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchPlace {
    /// Its instant.
    pub at: Timestamp,
    /// Which one, among those of the same instant.
    pub entry: EntryHandle,
}

/// A part of an answer to a [`WatchQuery`].
#[derive(Debug, Clone, Default)]
pub struct WatchAnswer {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// What to ask with to go on; nothing if there is no more.
    pub next: Option<WatchPlace>,
}

/// What of a space is to be made smaller.
#[derive(Debug, Clone, Copy)]
pub struct Compaction {
    /// Tombstones of purged content that were set at this instant or before are given up but for their numbers.
    pub bury_until: Option<Timestamp>,
    /// Pieces of texts that came at this instant or before, and that nothing names, are given up: whoever brought them ended
    /// before the text did.
    pub give_up_until: Option<Timestamp>,
    /// Entries that are looked at, at most.
    pub limit: u32,
}

/// What was made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Compacted {
    /// Archived entries that are kept compressed from now on.
    pub packed: u64,
    /// Entries of which only the numbers are left.
    pub buried: u64,
    /// Pieces of texts that nothing names, and that are gone.
    pub given_up: u64,
    /// Whether the limit was reached, so that there may be more.
    pub more: bool,
}

/// What is left, in everything that belongs to a store, of texts that should be gone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Residue {
    /// What was searched: files with their bytes, and rows that are compressed.
    pub searched: Vec<String>,
    /// Where a text still is, in words: another entry, a run, free space of a file.
    pub found: Vec<String>,
    /// How many texts were not looked for: they are so short that they stand anywhere by chance.
    pub not_looked_for: u64,
    /// Of how many entries nobody knows any more what they said, so that nothing of it was looked for: they were forgotten before, and what is
    /// left of that was written anew.
    pub no_longer_known: u64,
    /// Copies that were made before a migration. They hold what the store held then; nobody but people should remove them.
    pub backups: Vec<String>,
}

/// How a row names what is watched. These numbers are stored.
pub(crate) fn watch_code(what: Watch) -> Result<i64, StoreError> {
    Ok(match what {
        Watch::Live => 1,
        Watch::Resolved => 2,
        Watch::Ending => 3,
        Watch::Personal => 4,
        Watch::Archived => 5,
        Watch::Tombstone => 6,
        Watch::Unnoted => 7,
        Watch::Past => 8,
        other => return Err(StoreError::Invalid(format!("the watch {other:?} has no number"))),
    })
}
