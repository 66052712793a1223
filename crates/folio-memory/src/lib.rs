//! What agents remember: spaces, pages, entries, their life cycle and their rules.
//!
//! Everything in this crate is pure computation. It never waits, never reads a clock, a file, the network or the
//! environment, and never draws a random number: the time is passed as an argument, and ids come from an [`IdSource`].
//! The store persists what is described here, the workspace applies it, and views and markdown pages are renderings of
//! it.
//!
//! - [`space`], [`id`], [`time`]: tenants, names and instants
//! - [`page`], [`entry`], [`link`]: the data model (part A of the memory specification)
//! - [`change`]: what a commit does to memory, and how an entry or a page follows from its changes
//! - [`observation`], [`scratchbook`]: the rules by which input of people and tools becomes entries
//! - [`lifecycle`], [`history`]: the transitions that an entry may make, and its revisions
//! - [`policy`]: the rules of a space beyond those that are built in
//! - [`turn`], [`goals`], [`patterns`], [`calibration`]: what a turn decides, and what is learned from turns
//! - [`view`], [`context`], [`tokens`]: the part of memory that a model reads, within a budget of tokens
//! - [`offload`]: shortening a conversation that outgrows the window of its model
//! - [`evict`], [`passage`]: the preview of a result that is too large for a prompt, and reading parts of such a result
//! - [`tool_exchange`]: what tools are given and what they answer, item by item
//! - [`query`]: queries for entries and pages
//! - [`numbers`], [`mod@readable`]: JSON as some programs write it, converted so that any reader can read it
//! - [`text`]: full-text search: terms, queries and the places where they match
//! - [`keeping`]: what is due to be archived or erased, and what remains of it
//! - [`terms`]: the exact-match index terms of an entry
//! - [`roles`]: who may do what
//! - [`markdown`]: a page as people read it
//! - [`trace`]: notes of what happened without changing the log
//! - [`files`]: memory as files, under paths that cannot lead anywhere else
//! - [`transfer`]: a space as lines that another store can read
//! - [`mod@canonical`]: JSON whose bytes do not depend on the order of keys; [`call_ids`]: distinct ids for calls;
//!   [`counted`]: counts of things in words

pub mod actor;
pub mod arguments;
pub mod calibration;
pub mod call_ids;
pub mod canonical;
pub mod causes;
pub mod change;
pub mod context;
pub mod counted;
pub mod entry;
pub mod evict;
pub mod excerpt;
mod failing;
pub mod files;
pub mod foreign;
mod from_object;
pub mod goals;
pub mod history;
pub mod id;
pub mod keeping;
mod left_out;
pub mod lifecycle;
pub mod link;
pub mod markdown;
mod nesting;
pub mod numbers;
pub mod observation;
pub mod offload;
pub mod page;
pub mod page_tree;
pub mod passage;
pub mod patterns;
pub mod policy;
pub mod query;
pub mod readable;
pub mod roles;
mod schema;
pub mod scratchbook;
mod size;
pub mod space;
pub mod terms;
pub mod text;
pub mod time;
pub mod tokens;
pub mod tool_exchange;
pub mod trace;
pub mod transfer;
pub mod turn;
#[cfg(test)]
mod turn_testing;
pub mod view;
pub mod warning;
pub mod wrong_field;

/// What an [`IdSource`] gives.
pub use ulid::Ulid;

pub use actor::{Actor, Role, Source, Trust};
pub use canonical::{canonical, canonical_json};
pub use change::{Change, FieldChange, NewEntry, NewPage};
pub use entry::{Confidence, Entry, EntryFields, EntryKind, Lifetime, Owner, Pii, State, Status, Tag};
pub use id::{EntryHandle, EntryId, IdSource, PageHandle, PageId, RunId, Seq, TurnId};
pub use left_out::is_default;
pub use link::{Link, Relation};
pub use nesting::depth_exceeds;
pub use page::{Page, PageFields, PageRole};
pub use policy::{KeptPolicy, SpacePolicy};
pub use query::{EntryQuery, FOUND_MAX, ListAnswer, Order, PageQuery, TypeRanks};
pub use size::{json_fits, value_bytes};
pub use space::{SpaceName, ThreadKey};
pub use text::{TextMatch, TextQuery};
pub use time::{Clock, Timestamp};
pub use trace::{NoteQuery, NotesKept, TraceNote};
pub use turn::{Turn, TurnQuery};
pub use warning::{Invalid, ParseError, Warning};
