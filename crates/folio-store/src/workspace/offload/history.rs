//! The history of a thread: the messages that were put away, as its entries hold them.

use folio_memory::id::Ref;
use folio_memory::offload::{BlockIds, page_of};
use folio_memory::text::plain;
use folio_memory::{Entry, EntryHandle, EntryId, ThreadKey};
use serde::Serialize;
use serde_json::Value;

use super::super::reads::if_there;
use super::super::{Workspace, WorkspaceError};
use super::Block;
use super::settled::is_open;
use crate::error::StoreError;
use crate::store::LogParts;

/// The part of a block that has the mark of each message.
const MARKS: &str = "marks";
/// How many blocks in a row may have been archived or forgotten.
const GONE_MAX: usize = 10_000;
/// How many messages one read of the history returns.
const READ_MAX: u64 = 10_000;
/// How much of the history one search reads, and how much it returns, in bytes.
const SEARCH_BYTES_MAX: usize = 16 * 1024 * 1024;
const FOUND_BYTES_MAX: usize = 256 * 1024;

/// Fields of a message that say what something is.
const WHAT_IT_IS: [&str; 5] = ["role", "type", "id", "tool_call_id", "tool_use_id"];

/// A range of a thread's history.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Said {
    /// The messages with their numbers, counted from 1.
    pub messages: Vec<(u64, Value)>,
    /// How many messages there are in all.
    pub total: u64,
    /// The number of the first message after these, if any.
    pub next: Option<u64>,
}

/// A block, as its entry holds it: without its messages and, until they are needed, without its marks.
#[derive(Debug)]
pub(in super::super) struct Kept {
    /// Its place among all blocks ever put away; archived and forgotten ones keep theirs.
    pub(super) number: usize,
    pub(super) id: EntryId,
    pub(super) handle: EntryHandle,
    pub(in super::super) from: u64,
    pub(in super::super) to: u64,
    /// Whether it keeps the mark of each message. Earlier versions did not.
    pub(super) has_marks: bool,
    /// The marks, once they were needed: [`Workspace::load_marks`].
    pub(super) marks: Option<Vec<String>>,
    /// The numbers of the messages that the first one follows, in order. Earlier versions did not keep them.
    pub(super) before: Option<Vec<(u64, u64)>>,
}

/// The place of a message in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The position of its block among the blocks that exist.
    pub(super) block: usize,
    /// The number of the message.
    pub(super) number: u64,
}

impl Kept {
    /// Whether the message with this number is in the block.
    pub(super) fn holds(&self, number: u64) -> bool {
        (self.from..=self.to).contains(&number)
    }

    /// The mark of the message with this number.
    pub(super) fn mark_of(&self, number: u64) -> Option<&str> {
        let at = usize::try_from(number.checked_sub(self.from)?).ok()?;
        self.marks.as_ref()?.get(at).map(String::as_str)
    }

    /// The numbers of the messages of a conversation up to this one of the block.
    pub(super) fn numbers_to(&self, number: u64) -> Vec<(u64, u64)> {
        let mut numbers = match &self.before {
            Some(before) => before.clone(),
            // Before there were branches, all that was put away was one conversation.
            None if self.from > 1 => vec![(1, self.from - 1)],
            None => Vec::new(),
        };
        match numbers.last_mut() {
            Some((_, to)) if *to + 1 == self.from => *to = number,
            _ => numbers.push((self.from, number)),
        }
        numbers
    }
}

/// The place of the last message of the last block.
pub(super) fn last_place(kept: &[Kept]) -> Option<Place> {
    let last = kept.last()?;
    Some(Place {
        block: kept.len() - 1,
        number: last.to,
    })
}

/// The place of the last message before the block at `block` in its conversation.
pub(super) fn place_before(kept: &[Kept], block: usize) -> Option<Place> {
    let Some(before) = &kept[block].before else {
        return last_place(&kept[..block]);
    };
    let number = before.last()?.1;
    let block = kept.iter().position(|block| block.holds(number))?;
    Some(Place { block, number })
}

impl Workspace {
    /// Returns messages of the history of `thread`, from one number to another, both included and counted from 1.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn said(&self, thread: &ThreadKey, from: u64, to: u64) -> Result<Said, WorkspaceError> {
        let kept = self.blocks(thread).await?;
        let total = kept.last().map_or(0, |block| block.to);
        let from = from.max(1);
        let last = to.min(total).min(from.saturating_add(READ_MAX - 1));
        let mut messages = Vec::new();
        for block in kept.iter().filter(|block| block.from <= last && block.to >= from) {
            let text = self.text_of_block(block).await?;
            for (number, line) in (block.from..=block.to).zip(text.lines()) {
                if (from..=last).contains(&number) {
                    let message = serde_json::from_str(line).unwrap_or_else(|_| Value::from(line));
                    messages.push((number, message));
                }
            }
        }
        let next = (last < to.min(total)).then(|| last + 1);
        Ok(Said { messages, total, next })
    }

    /// Returns the messages of the history of `thread` from one number to another that contain all of `words`, without
    /// regard to case and accents; with no words, all messages. At most `most` messages, which have about 256 KiB
    /// together, of 16 MiB of the history; then `next` says where to go on.
    ///
    /// # Errors
    ///
    /// As [`Workspace::said`].
    pub async fn search_said(
        &self,
        thread: &ThreadKey,
        words: &str,
        (from, to): (u64, u64),
        most: usize,
    ) -> Result<Said, WorkspaceError> {
        let kept = self.blocks(thread).await?;
        let total = kept.last().map_or(0, |block| block.to);
        let words: Vec<String> = words.split_whitespace().map(plain).collect();
        let mut messages = Vec::new();
        let (mut read, mut found) = (0, 0);
        for block in kept.iter().filter(|block| block.from <= to && block.to >= from) {
            if read > SEARCH_BYTES_MAX {
                let next = Some(block.from.max(from));
                return Ok(Said { messages, total, next });
            }
            let text = self.text_of_block(block).await?;
            read += text.len();
            for (number, line) in (block.from..=block.to).zip(text.lines()) {
                if !(from..=to).contains(&number) {
                    continue;
                }
                let message = serde_json::from_str(line).unwrap_or_else(|_| Value::from(line));
                let text = plain(&text_of(&message));
                if !words.iter().all(|word| text.contains(word)) {
                    continue;
                }
                if messages.len() >= most || (found > 0 && found + line.len() > FOUND_BYTES_MAX) {
                    let next = Some(number);
                    return Ok(Said { messages, total, next });
                }
                found += line.len();
                messages.push((number, message));
            }
        }
        Ok(Said {
            messages,
            total,
            next: None,
        })
    }

    /// The blocks of `thread`, in order.
    pub(in super::super) async fn blocks(&self, thread: &ThreadKey) -> Result<Vec<Kept>, WorkspaceError> {
        let (page, _) = page_of(self.space(), thread);
        if if_there(self.page(Ref::Id(page)).await)?.is_none() {
            return Ok(Vec::new());
        }
        self.keep_up().await?;
        let store = &self.inner.store;
        let blocks = store.log_parts(self.space(), page, MARKS, self.now()).await?;
        let mut next = 0;
        let blocks = blocks.into_iter().filter_map(|LogParts { id, handle, parts }| {
            let (from, to) = (parts.get("from")?.as_u64()?, parts.get("to")?.as_u64()?);
            let is_of = |number: &usize| BlockIds::of(self.space(), thread, *number).block == id;
            let number = (next..next + GONE_MAX).find(is_of).unwrap_or(next);
            next = number + 1;
            let before = parts.get("before").cloned();
            Some(Kept {
                number,
                id,
                handle,
                from,
                to,
                has_marks: parts.get(MARKS).is_some(),
                marks: None,
                before: before.and_then(|before| serde_json::from_value(before).ok()),
            })
        });
        Ok(blocks.collect())
    }

    /// The messages of `block`, one in a line; none if it was forgotten meanwhile.
    pub(super) async fn text_of_block(&self, block: &Kept) -> Result<String, WorkspaceError> {
        match self.entry_if_there(block.id).await? {
            Some(entry) => self.whole_text(&entry).await,
            None => Ok(String::new()),
        }
    }

    /// Reads the marks of `block`, unless they were read before or are not kept.
    pub(super) async fn load_marks(&self, block: &mut Kept) -> Result<(), WorkspaceError> {
        if block.marks.is_some() || !block.has_marks {
            return Ok(());
        }
        // They are compared, and nobody is shown them.
        let entry = self.stored_entry_if_there(block.id).await?;
        let marks = entry.and_then(|entry| entry.fields.parts?.get(MARKS).cloned());
        block.marks = marks.and_then(|marks| serde_json::from_value(marks).ok());
        block.has_marks = block.marks.is_some();
        Ok(())
    }

    /// The number of the next block of `thread`, after `last` and any that no longer exist, and the number of its first
    /// message.
    pub(super) async fn next_block(
        &self,
        thread: &ThreadKey,
        last: Option<&Kept>,
    ) -> Result<(usize, u64), WorkspaceError> {
        let (mut number, mut first) = last.map_or((0, 1), |last| (last.number + 1, last.to + 1));
        while let Some(erased_block) = self
            .entry_if_there(BlockIds::of(self.space(), thread, number).block)
            .await?
        {
            let to = erased_block
                .fields
                .parts
                .as_ref()
                .and_then(|parts| parts.get("to")?.as_u64());
            first = first.max(to.map_or(0, |to| to + 1));
            number += 1;
        }
        Ok((number, first))
    }

    /// The summary of the block with this number, and the next actions if there are any: the compactor's, or else those
    /// made without one.
    pub(super) async fn in_force(
        &self,
        thread: &ThreadKey,
        number: usize,
    ) -> Result<Option<(Entry, Option<Entry>)>, WorkspaceError> {
        let ids = BlockIds::of(self.space(), thread, number);
        for [summary, next] in [ids.compacted, ids.extracted] {
            if let Some(summary) = self.entry_if_there(summary).await? {
                return Ok(Some((summary, self.entry_if_there(next).await?)));
            }
        }
        Ok(None)
    }

    /// The part of the block at `place` up to that message.
    pub(super) async fn block(
        &self,
        thread: &ThreadKey,
        kept: &[Kept],
        place: Place,
        replayed: bool,
    ) -> Result<Block, WorkspaceError> {
        let of_place = &kept[place.block];
        let ids = BlockIds::of(self.space(), thread, of_place.number);
        let Some((summary, next)) = self.in_force(thread, of_place.number).await? else {
            return Err(StoreError::NotFound {
                what: "entry",
                name: ids.extracted[0].to_string(),
            }
            .into());
        };
        Ok(Block {
            from: of_place.from,
            to: place.number,
            numbers: of_place.numbers_to(place.number),
            handle: of_place.handle,
            is_compacted: summary.id == ids.compacted[0],
            summary: summary.handle,
            next_actions: next.filter(is_open).map(|next| next.handle),
            replayed,
        })
    }
}

/// What `message` says, with the calls and results in it: all its texts but those that say what something is.
pub(in crate::workspace) fn text_of(message: &Value) -> String {
    let mut text = String::new();
    push_texts(message, &mut text);
    text
}

fn push_texts(value: &Value, text: &mut String) {
    match value {
        Value::String(said) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(said);
        }
        Value::Array(items) => items.iter().for_each(|item| push_texts(item, text)),
        Value::Object(fields) => {
            let is_said = |(name, _): &(&String, &Value)| !WHAT_IT_IS.contains(&name.as_str());
            let is_name = |(name, _): &(&String, &Value)| *name == "name";
            // A call is read as its tool, and then its arguments.
            let (names, others): (Vec<_>, Vec<_>) = fields.iter().filter(is_said).partition(is_name);
            let all = names.into_iter().chain(others);
            all.for_each(|(_, inner)| push_texts(inner, text));
        }
        _ => {}
    }
}
