//! Where the log of a space is kept, and the workspace that is its only writer.
//!
//! - [`access`]: tokens by which programs say who they are
//! - [`commit`]: the one shape of a write
//! - [`parts`]: a write that comes in parts
//! - [`store`]: the seam, with what every store promises
//! - [`sqlite`]: one file, many threads and processes, no daemon
//! - [`postgres`]: one database, many processes on many machines
//! - [`copy`]: everything that a store has, in another one
//! - [`upkeep`]: what a store does besides: what is due, what takes less room, what is gone
//! - [`system`]: the real clock and the real source of ids
//! - [`workspace`]: validates, stamps and commits; nothing else writes memory

pub mod access;
mod body;
mod burial;
mod checkup;
pub mod commit;
pub mod copy;
mod cursor;
pub mod error;
mod fold;
mod live;
mod packed;
pub mod parts;
mod place;
mod plan;
pub mod postgres;
mod prepare;
pub mod private;
mod said;
mod silence;
pub mod sqlite;
pub mod store;
pub mod system;
mod text_cursor;
pub mod upkeep;
mod words;
pub mod workspace;

pub use access::{AccessToken, KeptToken};
pub use commit::{
    Asking, Blob, BlobHash, Commit, Committed, Expected, Fingerprint, Folded, Record, RequestKey, RunAppend,
};
pub use error::{ErrorKind, StoreError};
pub use live::LiveOptions;
pub use parts::{CommittedParts, Giving, Parts, in_parts};
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;
pub use store::{
    CHANGES_BYTES, Checkup, JOURNAL_PART_BYTES, Journal, LogRow, MemoryMark, OwnerId, Revision, RunQuery, RunRow, Store,
};
pub use system::{RandomIds, SystemClock};
pub use upkeep::{Compacted, Compaction, OUTBOX_SUFFIX, Residue, WatchAnswer, WatchPlace, WatchQuery};
pub use workspace::{Workspace, WorkspaceError, Written, keep_out, keep_out_variable};
