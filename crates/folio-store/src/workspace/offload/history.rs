//! The history of a thread: the messages that were put away, as its entries hold them.

use folio_memory::id::Ref;
use folio_memory::offload::{BlockIds, page_of};
use folio_memory::{Entry, ThreadKey};
use serde_json::Value;

use super::super::{Workspace, WorkspaceError};
use super::Block;
use crate::error::StoreError;

/// How many blocks in a row may have been archived or forgotten.
const GONE_MAX: usize = 10_000;
/// How many messages one read of the history returns.
const READ_MAX: u64 = 10_000;

/// A range of a thread's history.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The messages with their numbers, counted from 1.
    pub messages: Vec<(u64, Value)>,
    /// How many messages there are in all.
    pub total: u64,
    /// The number of the first message after these, if any.
    pub next: Option<u64>,
}

/// A block, as its entry holds it.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its place among all blocks ever put away; archived and forgotten ones keep theirs.
    pub(super) number: usize,
    pub(super) entry: Entry,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) fingerprint: String,
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
            let text = self.whole_text(&block.entry).await?;
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

    /// The blocks of `thread`, in order.
    pub(super) async fn blocks(&self, thread: &ThreadKey) -> Result<Vec<Kept>, WorkspaceError> {
        let (page, _) = page_of(self.space(), thread);
        let entries = match self.page_entries(Ref::Id(page)).await {
            Err(WorkspaceError::Store(StoreError::NotFound { .. })) => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut next = 0;
        let blocks = entries.into_iter().filter_map(|entry| {
            let parts = entry.fields.parts.as_ref()?;
            let (from, to) = (parts.get("from")?.as_u64()?, parts.get("to")?.as_u64()?);
            let fingerprint = parts.get("fingerprint")?.as_str()?.to_owned();
            let is_of = |number: &usize| BlockIds::of(self.space(), thread, *number).block == entry.id;
            let number = (next..next + GONE_MAX).find(is_of).unwrap_or(next);
            next = number + 1;
            Some(Kept {
                number,
                entry,
                from,
                to,
                fingerprint,
            })
        });
        Ok(blocks.collect())
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

    /// The summary and the next actions of the block with this number: the compactor's, or else those made without one.
    pub(super) async fn in_force(
        &self,
        thread: &ThreadKey,
        number: usize,
    ) -> Result<Option<[Entry; 2]>, WorkspaceError> {
        let ids = BlockIds::of(self.space(), thread, number);
        for [summary, next] in [ids.compacted, ids.extracted] {
            let found = (self.entry_if_there(summary).await?, self.entry_if_there(next).await?);
            if let (Some(summary), Some(next)) = found {
                return Ok(Some([summary, next]));
            }
        }
        Ok(None)
    }

    pub(super) async fn block(&self, thread: &ThreadKey, kept: &Kept, replayed: bool) -> Result<Block, WorkspaceError> {
        let ids = BlockIds::of(self.space(), thread, kept.number);
        let Some([summary, next]) = self.in_force(thread, kept.number).await? else {
            return Err(StoreError::NotFound {
                what: "entry",
                name: ids.extracted[0].to_string(),
            }
            .into());
        };
        Ok(Block {
            from: kept.from,
            to: kept.to,
            handle: kept.entry.handle,
            is_compacted: summary.id == ids.compacted[0],
            summary: summary.handle,
            next_actions: next.handle,
            replayed,
        })
    }
}
