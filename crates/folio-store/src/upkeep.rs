//! What a store does apart from reads and writes: finding what is due, making data smaller, and proving that erased
//! content is gone.

use folio_memory::keeping::Watch;
use folio_memory::{Entry, EntryHandle, NotesKept, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::StoreError;

/// The suffix that turns the name of a store's file into that of its outbox, where answers of tools wait while the
/// store cannot be written.
pub const OUTBOX_SUFFIX: &str = "-outbox.jsonl";

/// A query for watched entries, in the order of their times.
#[derive(Debug, Clone)]
pub struct WatchQuery {
    /// What the entries are watched for.
    pub what: Watch,
    /// Only entries whose time is not after this one.
    pub until: Timestamp,
    /// Only entries that nobody has changed or confirmed after this time.
    pub idle_since: Timestamp,
    /// Where an earlier answer ended.
    pub after: Option<WatchPlace>,
    /// The most entries to return.
    pub limit: u32,
}

/// The position of an entry in the order of watched entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchPlace {
    /// The entry's time.
    pub at: Timestamp,
    /// The entry, among those with the same time.
    pub entry: EntryHandle,
}

/// A part of an answer to a [`WatchQuery`].
#[derive(Debug, Clone, Default)]
pub struct WatchAnswer {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Where the next query continues; `None` if there is no more.
    pub next: Option<WatchPlace>,
}

/// Which data of a space to make smaller.
#[derive(Debug, Clone, Copy)]
pub struct Compaction {
    /// Drops tombstones of purged content that were set at this time or earlier, except for their numbers.
    pub bury_until: Option<Timestamp>,
    /// Drops pieces of texts that arrived at this time or earlier and that nothing refers to: their writer ended before
    /// the text was complete.
    pub give_up_until: Option<Timestamp>,
    /// Which notes of the trace are kept; `None` deletes none. Some are deleted at a time.
    pub notes: Option<NotesKept>,
    /// The most entries to look at.
    pub limit: u32,
}

/// What was made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Compacted {
    /// Number of archived entries that are kept compressed from now on.
    pub packed: u64,
    /// Number of entries of which only the numbers are left.
    pub buried: u64,
    /// Number of pieces of texts that nothing referred to and that are gone.
    pub given_up: u64,
    /// Whether the limit was reached, so that there may be more.
    pub more: bool,
}

/// What is left, anywhere in a store, of texts that should be gone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Residue {
    /// What was searched: files, byte by byte, and compressed rows.
    pub searched: Vec<String>,
    /// Where a text still is, in words: another entry, a run, free space of a file.
    pub found: Vec<String>,
    /// How many texts were not searched for, because they are so short that they occur by chance.
    pub not_looked_for: u64,
    /// How many entries were forgotten earlier, so that their text is not known any more and was not searched for. What
    /// may be left of it was overwritten.
    pub no_longer_known: u64,
    /// Copies that were made before a migration. They hold what the store held then; only people should remove them.
    pub backups: Vec<String>,
}

/// The number by which a row names what is watched for. These numbers are stored.
pub(crate) fn watch_code(watch: Watch) -> Result<i64, StoreError> {
    Ok(match watch {
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
