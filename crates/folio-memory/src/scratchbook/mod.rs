//! The scratchbook of a thread: notes, todos and tasks (seed 003).

pub mod colony;
mod draft;
mod fields;
mod input;
mod item;
mod order;
mod patch;
mod read_only;
mod stored;
pub mod tools;

pub use draft::draft;
pub use fields::short_title;
pub(crate) use fields::{check_title, checked_phase, checked_progress, checked_title};
pub use input::{ItemInput, ItemPatch};
pub use item::ScratchItem;
pub use order::{BookClass, BookPlace, by_urgency};
pub(crate) use patch::cannot_be_null;
pub use patch::patch;
pub(crate) use stored::stored_title;

use crate::entry::Owner;
use crate::id::PageId;
use crate::page::{PageFields, PageRole};
use crate::space::{SpaceName, ThreadKey};

/// The scratchbook page of `thread`. Its id is the same wherever it is computed.
#[must_use]
pub fn page_of(space: &SpaceName, thread: &ThreadKey) -> (PageId, PageFields) {
    let id = PageId::derived(&["scratchbook", space.as_str(), &thread.0]);
    let mut fields = PageFields::new(
        PageRole::Scratchbook,
        format!("Scratchbook of {thread}"),
        Owner::agent(),
    );
    fields.thread = Some(thread.clone());
    (id, fields)
}

#[cfg(test)]
mod tests;
