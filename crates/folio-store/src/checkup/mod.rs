//! Whether the rows of a space follow from its log: what both stores go by when they look (the doctor).
//!
//! - [`findings`]: what is told
//! - [`rebuilt`]: the rows that the log makes
//! - [`rows`]: the rows that are there

pub(crate) mod findings;
pub(crate) mod rebuilt;
pub(crate) mod rows;

/// Commits that are read at a time, and rows that are compared at a time.
pub(crate) const CHUNK: u32 = 500;
