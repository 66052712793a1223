//! Next actions that nobody has to do any more: the conversation has gone on, or the turn that it was put away in has
//! ended.

use folio_memory::entry::{State, Status, Tag};
use folio_memory::id::Ref;
use folio_memory::link::Relation;
use folio_memory::offload::{BlockIds, Message};
use folio_memory::query::MAX_LIMIT;
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, ThreadKey, Turn, lifecycle, scratchbook,
};

use super::super::{Workspace, WorkspaceError, Write};
use super::Block;
use super::history::{Kept, Place};
use super::summary::{TAG, compactor_for, found_in, link};
use crate::error::StoreError;

impl Workspace {
    /// Completes the next actions of `block`, the one at `place`, if the messages after it have settled them. The block
    /// has none then.
    pub(super) async fn settle_next_actions(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        kept: &[Kept],
        place: Place,
        (block, later): (&mut Block, &[Message]),
    ) -> Result<(), WorkspaceError> {
        let Some(next) = block.next_actions else { return Ok(()) };
        // Those of a block are what all of its messages come to, and a branch follows only some of them.
        if place.number != kept[place.block].to {
            return Ok(());
        }
        let ids = BlockIds::of(self.space(), thread, kept[place.block].number);
        let extracted = self.entry_if_there(ids.extracted[0]).await?;
        let found = extracted.and_then(|summary| found_in(&summary.fields));
        if !found.is_some_and(|found| found.is_settled_by(later, &|tool| self.may_quote_tool(tool))) {
            return Ok(());
        }
        block.next_actions = None;
        let next = self.read_entry(Ref::Handle(next)).await?;
        if next.fields.superseded_by.is_some() {
            return Ok(());
        }
        let summary = self.read_entry(Ref::Handle(block.summary)).await?.id;
        self.complete_next_actions(actor, thread, &next, summary).await
    }

    /// Completes the next actions of a conversation that was put away in `turn`, which ends: its input is answered.
    pub(in super::super) async fn settle_offload_of(&self, actor: &Actor, turn: &Turn) -> Result<(), WorkspaceError> {
        let thread = &turn.begun.thread;
        let (page, _) = scratchbook::page_of(self.space(), thread);
        let query = EntryQuery {
            page: Some(page),
            kinds: vec![EntryKind::Todo],
            tags: Tag::parse_all([TAG])?,
            status: vec![Status::Open, Status::InProgress, Status::Blocked],
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let writer = compactor_for(actor).to_string();
        for next in self.read_entries(&query).await?.items {
            let source = &next.fields.source;
            if source.turn != Some(turn.begun.id) || source.principal.as_ref() != Some(&writer) {
                continue;
            }
            let history = next
                .fields
                .metadata
                .as_ref()
                .and_then(|metadata| metadata.get("history"));
            let summaries = self.summaries_beside(&next).await?;
            let summary = summaries
                .into_iter()
                .find(|summary| summary.fields.metadata.as_ref().and_then(|own| own.get("history")) == history);
            if let Some(summary) = summary {
                self.complete_next_actions(actor, thread, &next, summary.id).await?;
            }
        }
        Ok(())
    }

    /// The summaries of offloads on the page of `next` that are in force.
    async fn summaries_beside(&self, next: &Entry) -> Result<Vec<Entry>, WorkspaceError> {
        let query = EntryQuery {
            page: Some(next.page),
            kinds: vec![EntryKind::Note],
            tags: Tag::parse_all([TAG])?,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        Ok(self.read_entries(&query).await?.items)
    }

    /// Completes `next`. The `summary` takes its place, as it does if an offload leaves no next actions: otherwise it
    /// would stay pinned.
    async fn complete_next_actions(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        next: &Entry,
        summary: EntryId,
    ) -> Result<(), WorkspaceError> {
        let mut fields = lifecycle::complete(next)?;
        fields.push(FieldChange::SupersededBy(Some(summary)));
        let patch = Change::PatchEntry {
            entry: next.id,
            fields,
            expected_version: Some(next.version),
            base_version: None,
        };
        let write = Write {
            reason: Some("the conversation has gone on".to_owned()),
            ..Write::of(vec![patch, link(summary, Relation::Supersedes, next.id)])
        };
        match self.in_thread(thread).record(&compactor_for(actor), write).await {
            // Somebody is just changing it.
            Ok(_) | Err(WorkspaceError::Store(StoreError::StaleVersion { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether somebody still has to do `next`.
pub(super) fn is_open(next: &Entry) -> bool {
    next.fields.status.state() == State::Live
}
