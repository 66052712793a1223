//! Offloading: shortening a conversation that outgrows its window (M7.8 V8, seed 003 A6).
//!
//! The older messages are kept unchanged elsewhere, and a summary stands in for them. [`cut`] decides which messages
//! go, and [`extract`] finds what the summary says without a model.

mod extract;
mod message;
mod stand_in;

pub use extract::{Extract, extract, trust_in};
pub use message::{Call, CallResult, Message, Speaker};
pub use stand_in::{StandInText, fit_stand_in, is_stand_in, stand_in_head};

use crate::entry::Owner;
use crate::id::{EntryId, PageId};
use crate::page::{PageFields, PageRole};
use crate::space::{SpaceName, ThreadKey};

/// The page with the offloaded messages of `thread`. Its id is the same wherever it is computed.
#[must_use]
pub fn page_of(space: &SpaceName, thread: &ThreadKey) -> (PageId, PageFields) {
    let id = PageId::derived(&["history", space.as_str(), &thread.0]);
    let mut fields = PageFields::new(PageRole::History, format!("History of {thread}"), Owner::agent());
    fields.thread = Some(thread.clone());
    (id, fields)
}

/// The ids of the entries that one offload of a thread adds. Repeating the offload gives the same ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIds {
    /// The entry with the messages.
    pub block: EntryId,
    /// The entries with the summary and the next actions, as extracted without a model.
    pub extracted: [EntryId; 2],
    /// The entries with the same, as a compactor writes them.
    pub compacted: [EntryId; 2],
}

impl BlockIds {
    /// The ids of the block of `thread` with this number, counted from 0.
    #[must_use]
    pub fn of(space: &SpaceName, thread: &ThreadKey, number: usize) -> Self {
        let number = number.to_string();
        let id = |part| EntryId::derived(&["offload", part, space.as_str(), &thread.0, &number]);
        Self {
            block: id("messages"),
            extracted: [id("summary"), id("next actions")],
            compacted: [id("compacted summary"), id("compacted next actions")],
        }
    }
}

/// Returns the range of messages to offload. The messages before it (`system`) apply throughout, and those after it are
/// kept.
///
/// The last `keep_last` messages are kept, and more if one of them is the result of a call: a call and its result are
/// never separated.
#[must_use]
pub fn cut(messages: &[Message], keep_last: usize) -> (usize, usize) {
    let from = messages
        .iter()
        .take_while(|message| message.role == Speaker::System)
        .count();
    let mut to = messages.len().saturating_sub(keep_last).max(from);
    // For each message, the first message with a call that it answers. A result belongs to the nearest preceding call
    // with its id.
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
