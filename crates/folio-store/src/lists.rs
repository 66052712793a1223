//! What both stores decide alike about lists and searches of entries; how they find the entries is their own.
//!
//! - [`page`]: one page of a list, and which entries may belong to it
//! - [`hits`]: what a search found, in order, and one page of it

pub(crate) mod hits;
pub(crate) mod page;
