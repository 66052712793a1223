//! What agents remember: spaces, pages, entries, their life cycle and their rules.
//!
//! Everything in this crate computes. It never waits, reads a clock, a file, the network or the environment, and never
//! draws a random number: time comes in as an argument, ids come in from an [`IdSource`]. The store keeps what is
//! described here, the workspace applies it, and a view or a page of markdown is a reading of it.
//!
//! - [`space`], [`id`], [`time`]: whose memory it is, how things are named, when something happened
//! - [`page`], [`entry`], [`link`]: the data model (part A of the memory specification)
//! - [`change`]: what a commit does to it, and how an entry or a page follows from its changes
//! - [`observation`], [`scratchbook`]: the rules by which people's and tools' input becomes entries
//! - [`lifecycle`], [`history`]: what may become of an entry, and how it came to be what it is
//! - [`policy`]: what holds in a space beyond what is built in
//! - [`turn`], [`goals`], [`patterns`], [`calibration`]: what a turn decides, and what is learned from turns
//! - [`view`], [`context`], [`tokens`]: what of all this a model reads, within a budget
//! - [`offload`]: what becomes of a conversation that is longer than a window allows
//! - [`evict`], [`passage`]: what stands in a prompt for a result that is too large for it, and how parts of it are read
//! - [`tool_exchange`]: what tools are asked and what they answer, item by item
//! - [`query`]: what may be asked
//! - [`numbers`], [`mod@readable`]: JSON as some programs write it, made such that any reader can read it
//! - [`text`]: what is found by words, and where they stand
//! - [`keeping`]: what is due for being put away or taken out, and what is left of what was
//! - [`terms`]: the exact words by which an entry is found
//! - [`roles`]: who may do what
//! - [`markdown`]: a page as people read it
//! - [`trace`]: what happened besides the log
//! - [`files`]: memory as files, by paths that lead nowhere else
//! - [`transfer`]: a space as lines that another store reads
//! - [`mod@canonical`]: JSON whose bytes do not depend on the order of keys; [`call_ids`]: ids of calls that differ; [`counted`]: numbers of things in words

pub mod actor;
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
pub use warning::{Invalid, Warning};
