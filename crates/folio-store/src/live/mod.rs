//! An index of the live entries of a space, in memory: what is asked most is answered by it, with an exact total.
//!
//! It is a reading of what a store keeps, and as exact: whoever holds it brings it up to the commit that an answer is for
//! (decision 0019). It computes only; a store feeds it.
//!
//! Every entry has a slot, in the order of the entries' numbers. For each word (a kind, a page, a type, a status, an owner, a
//! tag, a value in the context) there is the set of slots that have it, compressed; a question is the intersection of a few
//! of these sets.

mod find;
mod index;
mod options;
mod room;

pub(crate) use find::{Found, Wanted, asks_for_the_living};
pub(crate) use index::{Facts, LiveIndex};
pub use options::LiveOptions;
pub(crate) use room::{Held, without_room};

/// Entries that an index takes in at once while whoever asks waits for it; where more has changed it is made anew beside that.
pub(crate) const NEWS_MAX: usize = 5_000;

#[cfg(test)]
mod tests;
