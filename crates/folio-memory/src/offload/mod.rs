//! Offloading: shortening a conversation that outgrows its window (M7.8 V8, seed 003 A6).
//!
//! The older messages are kept unchanged elsewhere, and a summary stands in for them. [`cut`] and [`cut_within`] decide
//! which messages go, and [`extract`] finds what the summary says without a model.

mod carried;
mod extract;
mod mark;
mod message;
mod stand_in;

pub use carried::{carried, carried_in, carried_of, with_rules, without_carried, without_rules};
pub use extract::{Extract, extract, trust_in};
pub use mark::{BEGINNING, mark_after};
pub use message::{Call, CallResult, Message, Speaker};
pub use stand_in::{Loss, StandInText, fit_stand_in, is_stand_in, stand_in_head, stands_in_for, summary_title};

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

/// Of a conversation that costs too much, the number of last messages that stay whatever they cost: a request and the
/// answer before it, or a call and its result.
const KEPT_ALWAYS: usize = 2;

/// Returns the range of messages to offload. The messages before it (`system`) apply throughout, and those after it are
/// kept.
///
/// The last `keep_last` messages are kept, and more if one of them is the result of a call: a call and its result are
/// never separated.
#[must_use]
pub fn cut(messages: &[Message], keep_last: usize) -> (usize, usize) {
    let from = system_messages(messages);
    (from, first_kept(&needs(messages), from, keep_last))
}

/// Returns the range of messages to offload of a conversation that costs more than `limit` tokens, as [`cut`] does;
/// `costs` has the tokens of each message.
///
/// Fewer than the last `keep_last` messages are kept if they cost more than half of what the messages before the range
/// leave of `limit`, so that there is room for what comes next; but never fewer than the last two.
///
/// # Panics
///
/// Unless there is one cost for each message.
#[must_use]
pub fn cut_within(messages: &[Message], costs: &[u32], keep_last: usize, limit: u32) -> (usize, usize) {
    assert_eq!(messages.len(), costs.len(), "each message has its cost");
    let from = system_messages(messages);
    let needs = needs(messages);
    let room = limit.saturating_sub(total(&costs[..from])) / 2;
    let mut left = room;
    let that_fit = costs[from..].iter().rev().take_while(|cost| {
        let fits = **cost <= left;
        left = left.saturating_sub(**cost);
        fits
    });
    let least = keep_last.min(KEPT_ALWAYS);
    let mut keep = that_fit.count().clamp(least, keep_last);
    loop {
        let to = first_kept(&needs, from, keep);
        // A result keeps its call, so more may stay than fits.
        if keep == least || total(&costs[to..]) <= room {
            return (from, to);
        }
        keep -= 1;
    }
}

/// Returns the sum of `costs`.
#[must_use]
pub fn total(costs: &[u32]) -> u32 {
    costs.iter().fold(0, |sum, cost| sum.saturating_add(*cost))
}

/// The number of messages at the beginning that apply throughout.
fn system_messages(messages: &[Message]) -> usize {
    let is_system = |message: &&Message| message.role == Speaker::System;
    messages.iter().take_while(is_system).count()
}

/// For each message, the first message with a call that it answers. A result belongs to the nearest preceding call with
/// its id.
fn needs(messages: &[Message]) -> Vec<usize> {
    let of_message = |(at, message): (usize, &Message)| {
        let calls = message.results.iter().filter_map(|result| {
            let has_call = |earlier: &Message| earlier.calls.iter().any(|call| call.id == result.call_id);
            messages[..at].iter().rposition(has_call)
        });
        calls.min().unwrap_or(at)
    };
    messages.iter().enumerate().map(of_message).collect()
}

/// The first message that is kept with the last `keep_last`, but none before `from`.
fn first_kept(needs: &[usize], from: usize, keep_last: usize) -> usize {
    let mut to = needs.len().saturating_sub(keep_last).max(from);
    loop {
        let first = needs[to..].iter().copied().min().unwrap_or(to).max(from);
        if first >= to {
            return to;
        }
        to = first;
    }
}

#[cfg(test)]
mod tests;
