//! What becomes of a conversation that is longer than a window allows (M7.8 V8, seed 003 A6).
//!
//! The older messages are kept as they are, elsewhere; a summary stands for them. Which ones go is decided by [`cut`], what the
//! summary says without a model by [`extract`].

mod extract;
mod message;
mod stand_in;

pub use extract::{Extract, extract, trust_in};
pub use message::{Call, CallResult, Message, Speaker};
pub use stand_in::{Told, is_stand_in, stand_in_head, told};

use crate::entry::Owner;
use crate::id::{EntryId, PageId};
use crate::page::{PageFields, PageRole};
use crate::space::{SpaceName, ThreadKey};

/// The page with what was said in `thread` and is no longer in its prompt: the same id wherever it is asked for.
#[must_use]
pub fn page_of(space: &SpaceName, thread: &ThreadKey) -> (PageId, PageFields) {
    let id = PageId::derived(&["history", space.as_str(), &thread.0]);
    let mut fields = PageFields::new(PageRole::History, format!("History of {thread}"), Owner::agent());
    fields.thread = Some(thread.clone());
    (id, fields)
}

/// The entries that one offload of a thread adds. Whoever does the same again names the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIds {
    /// The messages.
    pub block: EntryId,
    /// What they come to, and what is to be done next, found without a model.
    pub extracted: [EntryId; 2],
    /// The same, as a compactor puts it.
    pub compacted: [EntryId; 2],
}

impl BlockIds {
    /// Those of the block of `thread` with this number, counted from 0.
    #[must_use]
    pub fn of(space: &SpaceName, thread: &ThreadKey, number: usize) -> Self {
        let number = number.to_string();
        let id = |what| EntryId::derived(&["offload", what, space.as_str(), &thread.0, &number]);
        Self {
            block: id("messages"),
            extracted: [id("summary"), id("next actions")],
            compacted: [id("compacted summary"), id("compacted next actions")],
        }
    }
}

/// Which messages go: those from the first to before the second number. What stands before them says what holds throughout
/// (`system`), what stands behind them is kept.
///
/// The last `keep_last` messages are kept, and more where one of them is the result of a call: a call and its result are never
/// parted.
#[must_use]
pub fn cut(messages: &[Message], keep_last: usize) -> (usize, usize) {
    let from = messages
        .iter()
        .take_while(|message| message.role == Speaker::System)
        .count();
    let mut to = messages.len().saturating_sub(keep_last).max(from);
    // For each message the first one whose call it answers. A result belongs to the nearest call of its id before it.
    let needs: Vec<usize> = messages
        .iter()
        .enumerate()
        .map(|(at, message)| {
            let calls = message.results.iter().filter_map(|result| {
                let has_call = |earlier: &Message| earlier.calls.iter().any(|call| call.id == result.call_id);
                messages[..at].iter().rposition(has_call)
            });
            calls.min().unwrap_or(at)
        })
        .collect();
    loop {
        let first = needs[to.min(needs.len())..].iter().copied().min().unwrap_or(to);
        if first >= to {
            return (from, to);
        }
        to = first.max(from);
        if to == from {
            return (from, to);
        }
    }
}

#[cfg(test)]
mod tests;
