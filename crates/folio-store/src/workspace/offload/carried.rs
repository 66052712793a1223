//! What a compactor last wrote about a conversation: the next summary takes it over, so that nothing it found is lost when
//! more is put away, whoever writes that summary.

use folio_memory::actor::Trust;
use folio_memory::id::Ref;
use folio_memory::offload::{
    BlockIds, Message, carried, carried_in, carried_of, page_of, stands_in_for, without_rules,
};
use folio_memory::{Actor, Entry, ThreadKey};

use super::super::reads::if_there;
use super::super::{Workspace, WorkspaceError};
use super::history::{Kept, Place, place_before};

/// The key in the metadata of a summary made without a model: it has all that is to be taken over of those before it.
pub(super) const CARRIES: &str = "carries";
/// The key in the metadata of a compactor's summary: it ends with the rules that the user said.
pub(super) const HAS_RULES: &str = "rules";

/// What is taken over of an earlier summary.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) text: String,
    /// The trust in it.
    pub(super) trust: Trust,
}

impl Carried {
    /// The beginning of its text, of at most `bytes`.
    pub(super) fn beginning(&self, bytes: usize) -> &str {
        &self.text[..self.text.floor_char_boundary(bytes)]
    }

    fn of(text: String, trust: Trust) -> Option<Self> {
        (!text.is_empty()).then_some(Self { text, trust })
    }
}

impl Workspace {
    /// What the summary of messages after `last` takes over.
    ///
    /// That is the last summary that a compactor wrote of the messages up to there, as it reads now: whoever edits or
    /// forgets a summary decides what is carried on.
    pub(super) async fn carried_before(
        &self,
        thread: &ThreadKey,
        kept: &[Kept],
        last: Option<Place>,
    ) -> Result<Option<Carried>, WorkspaceError> {
        let mut next = last;
        while let Some(place) = next {
            let block = &kept[place.block];
            next = place_before(kept, place.block);
            // A summary tells of the whole block, and a branch follows only a part of it.
            if place.number != block.to {
                continue;
            }
            let ids = BlockIds::of(self.space(), thread, block.number);
            let extracted = self.entry_if_there(ids.extracted[0]).await?;
            let compacted = self.entry_if_there(ids.compacted[0]).await?;
            if compacted
                .as_ref()
                .or(extracted.as_ref())
                .is_some_and(|summary| summary.fields.erased.is_some())
            {
                return Ok(None);
            }
            if let Some(summary) = compacted {
                return Ok(Carried::of(carried(&written_in(&summary)), summary.fields.trust));
            }
            if let Some(summary) = extracted.filter(|summary| has_mark(summary, CARRIES)) {
                return Ok(Carried::of(carried_in(&summary.fields.body), summary.fields.trust));
            }
        }
        Ok(None)
    }

    /// What is taken over of `stand_in`, a message at the beginning of a conversation that stands in for messages of
    /// another thread's history, as in a fork of a run: here nothing else is known of them. `None` if that history no
    /// longer has them.
    pub(super) async fn carried_from_elsewhere(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        stand_in: &Message,
    ) -> Result<Option<Carried>, WorkspaceError> {
        let Some((handle, _)) = stands_in_for(stand_in) else {
            return Ok(None);
        };
        let Some(entry) = if_there(self.read_entry(Ref::Handle(handle)).await)? else {
            return Ok(None);
        };
        let is_block = entry
            .fields
            .parts
            .as_ref()
            .is_some_and(|parts| parts.get("fingerprint").is_some());
        if !is_block || entry.page == page_of(self.space(), thread).0 || entry.fields.erased.is_some() {
            return Ok(None);
        }
        let text = carried_of(stand_in).unwrap_or_default();
        Ok(Carried::of(
            text,
            self.trust_of(actor).min(Trust::Model).min(entry.fields.trust),
        ))
    }
}

/// What the compactor wrote of `summary`.
fn written_in(summary: &Entry) -> String {
    match has_mark(summary, HAS_RULES) {
        true => without_rules(&summary.fields.body),
        false => summary.fields.body.clone(),
    }
}

/// Whether the metadata of `summary` has `mark`.
pub(super) fn has_mark(summary: &Entry, mark: &str) -> bool {
    let metadata = summary.fields.metadata.as_ref();
    metadata.is_some_and(|metadata| metadata.get(mark).is_some())
}
