//! Exports memory as files for other stores and programs, and brings such files in.

mod books;
mod circles;
mod difference;
mod foreign;
mod incoming;
mod lines;
mod links;
mod merge;
mod outgoing;
mod pieces;
mod report;
mod successors;

pub use incoming::ImportOptions;
pub use outgoing::Outgoing;
pub use report::{Fate, Imported, Remark};
