//! Keeps the log of each space, and contains the workspace, the only writer of a log.
//!
//! - [`access`]: access tokens, by which programs identify themselves
//! - [`commit`]: the single form in which everything is written
//! - [`parts`]: a write that comes in parts
//! - [`store`]: the interface of a store, with what every store promises
//! - [`sqlite`]: one file, many threads and processes, no daemon
//! - [`postgres`]: one database, many processes on many machines
//! - [`copy`]: copies everything from one store to another
//! - [`upkeep`]: what a store does apart from reads and writes: finding what is due, compacting, overwriting what is
//!   erased
//! - [`system`]: the real clock and the real source of ids
//! - [`workspace`]: validates, stamps and commits; nothing else writes memory

pub mod access;
mod away;
mod body;
mod burial;
mod checkup;
pub mod commit;
pub mod copy;
mod cursor;
pub mod error;
mod fold;
mod kept_notes;
mod linked;
mod lists;
mod live;
mod needles;
mod packed;
pub mod parts;
mod place;
mod plan;
pub mod postgres;
mod prepare;
pub mod private;
mod replayed;
mod rewritten;
mod silence;
pub mod sqlite;
pub mod store;
pub mod system;
mod text_search;
pub mod upkeep;
mod words;
pub mod workspace;

pub use access::{AccessToken, KeptToken};
pub use away::AwayStore;
pub use commit::{
    Asking, Blob, BlobHash, Commit, Committed, Expected, Fingerprint, Folded, Record, RequestKey, RunAppend,
};
pub use error::{ErrorKind, StoreError};
pub use live::LiveOptions;
pub use parts::{CommittedParts, Giving, Parts, in_parts};
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;
pub use store::{
    CHANGES_BYTES, Checkup, ForgottenRun, JOURNAL_PART_BYTES, Journal, LogParts, LogRow, MemoryMark, OwnerId, Revision,
    RunCommits, RunQuery, RunRow, Store,
};
pub use system::{RandomIds, SystemClock};
pub use upkeep::{Compacted, Compaction, OUTBOX_SUFFIX, Residue, WatchAnswer, WatchPlace, WatchQuery};
pub use workspace::{Workspace, WorkspaceError, Written, keep_out, keep_out_variable, without_own_secrets};
