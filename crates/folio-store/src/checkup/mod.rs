//! Checks whether the rows of a space follow from its log: the part of the doctor that both stores share.
//!
//! - [`findings`]: what is reported
//! - [`problem`]: what can be wrong with a row, in words
//! - [`rebuilt`]: the rows that follow from the log
//! - [`rows`]: the stored rows

pub(crate) mod findings;
pub(crate) mod problem;
pub(crate) mod rebuilt;
pub(crate) mod rows;

/// How many commits are read at a time, and how many rows are compared at a time.
pub(crate) const CHUNK: u32 = 500;
