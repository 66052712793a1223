//! An index in memory of the live entries of a space: it answers the most frequent queries, with an exact total.
//!
//! It is derived from the stored data and as exact: its owner updates it to the commit for which an answer is wanted
//! (decision 0019). It only computes; the store feeds it.
//!
//! Every entry has a slot, in the order of the entries' numbers. For each word (a kind, a page, a type, a status, an
//! owner, a tag, a context value) there is a compressed set of the slots that have it; a query is the intersection of a
//! few of these sets.

mod find;
mod index;
mod memory_limit;
mod options;
mod spaces;

pub(crate) use find::{Found, IndexQuery, is_for_live_entries};
pub(crate) use index::{Facts, LiveIndex};
pub use options::LiveOptions;
pub(crate) use spaces::{Builder, Missing, Ready, Space, Spaces, State};

/// How many changes are added to an index while a query waits for it; with more, it is rebuilt in the background.
pub(crate) const NEWS_MAX: usize = 5_000;

#[cfg(test)]
mod tests;
