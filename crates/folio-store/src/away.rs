//! A store that could not be opened: everything fails with the reason.
//!
//! What a tool has to say can be kept in the outbox all the same, for when the store is back (M7.3.26).

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::run::RunSummary;
use folio_memory::id::{EntryRef, PageRef, RunRef, TurnRef};
use folio_memory::{
    Entry, EntryId, EntryQuery, KeptPolicy, Link, ListAnswer, NoteQuery, NotesKept, Page, PageQuery, RunId, Seq,
    SpaceName, Timestamp, TraceNote, Turn, TurnQuery,
};

use crate::access::KeptToken;
use crate::commit::{BlobHash, Commit, Committed};
use crate::copy::CopiedCommit;
use crate::error::StoreError;
use crate::parts::{CommittedParts, Parts};
use crate::store::{Checkup, Journal, LogRow, OwnerId, Revision, RunCommits, RunQuery, RunRow, Store};
use crate::upkeep::{Compacted, Compaction, Residue, WatchAnswer, WatchQuery};

/// A store that could not be opened.
#[derive(Debug)]
pub struct AwayStore {
    location: String,
    reason: String,
}

impl AwayStore {
    /// The store that could not be opened because of `error`. `None` if that is not for want of the store: one of a
    /// newer version is there, for example.
    #[must_use]
    pub fn after(error: &StoreError) -> Option<Arc<Self>> {
        match error {
            StoreError::Unavailable { location, reason, .. } => Some(Arc::new(Self {
                location: location.clone(),
                reason: reason.clone(),
            })),
            _ => None,
        }
    }

    fn fail<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::Unavailable {
            doing: "open",
            location: self.location.clone(),
            reason: self.reason.clone(),
            source: None,
        })
    }
}

/// Implements all operations, given the types of their arguments and of their results, as failures.
macro_rules! away {
    ($($name:ident($($argument:ty),*) -> $done:ty;)*) => {
        #[async_trait]
        impl Store for AwayStore {
            fn location(&self) -> String {
                self.location.clone()
            }

            fn release_owner(&self, _: &OwnerId) {}

            $(async fn $name(&self, $(_: $argument),*) -> Result<$done, StoreError> {
                self.fail()
            })*
        }
    };
}

away! {
    commit(Commit) -> Committed;
    commit_parts(Parts) -> CommittedParts;
    head(&SpaceName) -> Seq;
    latest(&SpaceName) -> Timestamp;
    changes(&SpaceName, Seq, u32) -> Vec<LogRow>;
    wait(&SpaceName, Seq) -> Seq;
    entries(&SpaceName, &EntryQuery, Timestamp) -> ListAnswer<Entry>;
    entry(&SpaceName, EntryRef) -> Entry;
    history(&SpaceName, EntryId) -> Vec<Revision>;
    pages(&SpaceName, &PageQuery) -> Vec<Page>;
    page(&SpaceName, PageRef) -> Page;
    page_count(&SpaceName, &PageQuery) -> u64;
    links(&SpaceName, &str) -> Vec<Link>;
    kept_links(&SpaceName, Vec<Link>) -> HashSet<Link>;
    ended(&SpaceName, Timestamp, u32) -> Vec<(EntryId, Timestamp)>;
    policy(&SpaceName) -> KeptPolicy;
    newer_policy(&SpaceName, u32) -> Option<KeptPolicy>;
    blob(&SpaceName, &BlobHash) -> Vec<u8>;
    turns(&SpaceName, &TurnQuery) -> Vec<Turn>;
    turn(&SpaceName, TurnRef) -> Turn;
    runs(&SpaceName, &RunQuery) -> Vec<RunRow>;
    run(&SpaceName, RunRef) -> RunRow;
    run_heads(&SpaceName, Vec<RunId>) -> Vec<(RunId, Seq)>;
    written_names(&SpaceName, RunId) -> Vec<String>;
    runs_so_far(&SpaceName, Vec<RunId>) -> Vec<(RunId, RunSummary)>;
    journal_part(&SpaceName, RunId, Seq, usize) -> Journal;
    run_commits(&SpaceName, RunId, Seq, usize) -> RunCommits;
    claim_run(&SpaceName, RunId, &OwnerId) -> u64;
    release_run(&SpaceName, RunId, u64) -> ();
    append_trace(&SpaceName, &[TraceNote], NotesKept) -> ();
    notes(&SpaceName, &NoteQuery) -> Vec<TraceNote>;
    watched(&SpaceName, &WatchQuery) -> WatchAnswer;
    live_observations(&SpaceName, Timestamp, u64) -> u64;
    compact(&SpaceName, Compaction) -> Compacted;
    forget_notes(&SpaceName, Vec<String>) -> ();
    erase_run_part(&SpaceName, RunId, Seq) -> Option<Seq>;
    write_anew() -> Residue;
    scrub(&SpaceName, Vec<String>) -> Residue;
    spaces() -> Vec<SpaceName>;
    take_over(&SpaceName, Vec<CopiedCommit>) -> Seq;
    keep_token(KeptToken) -> ();
    tokens() -> Vec<KeptToken>;
    check() -> Checkup;
    back_up(&Path) -> ();
    bytes() -> Option<u64>;
}
