//! The summary of what was put away and the next actions: as made without a model, and as improved by a compactor.

use std::sync::Arc;
use std::time::Duration;

use folio_memory::actor::Trust;
use folio_memory::entry::{Owner, Tag};
use folio_memory::link::{Link, Relation};
use folio_memory::offload::{BlockIds, Extract, carried_in, extract, summary_title, with_rules, without_carried};
use folio_memory::trace::FAILED;
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryId, EntryKind, FieldChange, NewEntry, NewPage, PageId, Role, ThreadKey,
    Warning, scratchbook,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::super::book::LAST_PIN;
use super::super::{Workspace, WorkspaceError, Write, source_of, trust_of_role};
use super::carried::{CARRIES, HAS_RULES, has_mark};
use super::history::{Kept, Place, place_before};
use super::known::messages_in;
use super::{Block, Compacted, Compactor, Desk, Offload};

/// Limit in bytes for the bodies of a summary and of the next actions.
pub(super) const BODY_BYTES: usize = 16 * 1024;
/// The tag of the entries of an offload.
pub(super) const TAG: &str = "offload";
/// The key in the metadata of a summary for what was extracted, for the next offload.
const FOUND: &str = "found";

/// The texts of a summary and of the next actions.
pub(super) struct Summary<'f> {
    pub(super) texts: [String; 2],
    /// What was extracted without a model, for the next offload.
    pub(super) found: Option<&'f Extract>,
    /// Marks for the metadata.
    pub(super) mark: Option<&'static str>,
    /// The trust of the summary: that of its sources, and at most that of a model.
    pub(super) trust: Trust,
}

/// A compactor at work; aborted when nobody waits for it any more.
struct Working(JoinHandle<Result<Compacted, String>>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Workspace {
    /// What was extracted from all that was put away before, up to `last`, so that the next offload continues from there.
    ///
    /// It is kept with the summary that was made without a model. Earlier versions did not keep it: for their blocks it
    /// is extracted again.
    pub(super) async fn found_before(
        &self,
        thread: &ThreadKey,
        kept: &[Kept],
        last: Option<Place>,
    ) -> Result<Extract, WorkspaceError> {
        let mut found = Extract::default();
        let mut unsummarised = Vec::new();
        let mut next = last;
        while let Some(place) = next {
            let block = &kept[place.block];
            let ids = BlockIds::of(self.space(), thread, block.number);
            let summary = self.entry_if_there(ids.extracted[0]).await?;
            // What was forgotten does not come back.
            if summary.as_ref().is_some_and(|summary| summary.fields.erased.is_some()) {
                break;
            }
            // A summary has what the whole block came to.
            let summary = summary.filter(|_| place.number == block.to);
            if let Some(known) = summary.as_ref().and_then(|summary| found_in(&summary.fields)) {
                found = known;
                // The rules stand in the compactor's summary as well, where somebody may have dropped one.
                let compacted = self.entry_if_there(ids.compacted[0]).await?;
                if let Some(shown) = compacted.filter(|shown| has_mark(shown, HAS_RULES)) {
                    found
                        .obligations
                        .retain(|rule| shown.fields.body.contains(rule.as_str()));
                }
                break;
            }
            unsummarised.push(place);
            next = place_before(kept, place.block);
        }
        for place in unsummarised.into_iter().rev() {
            let block = &kept[place.block];
            let mut messages = messages_in(&self.text_of_block(block).await?);
            let count = place.number + 1 - block.from;
            messages.truncate(usize::try_from(count).unwrap_or(usize::MAX));
            found = extract(found, &messages, &|tool| self.may_quote_tool(tool));
        }
        Ok(found)
    }

    /// Adds a summary, and next actions if there are any, which replace the previous ones.
    #[expect(
        clippy::too_many_arguments,
        reason = "a summary has these parts; a struct would be filled in once"
    )]
    pub(super) async fn push_summary(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        (first, last): (u64, u64),
        Summary {
            texts,
            found,
            mark,
            trust,
        }: Summary<'_>,
        (block, ids): (EntryId, [EntryId; 2]),
        before: Option<(Entry, Option<Entry>)>,
        changes: &mut Vec<Change>,
    ) -> Result<(), WorkspaceError> {
        let (book, book_fields) = scratchbook::page_of(self.space(), thread);
        changes.push(Change::EnsurePage(Box::new(NewPage {
            id: book,
            fields: book_fields,
        })));
        let titles = [summary_title(first, last), "Next actions".to_owned()];
        let has_next = !texts[1].is_empty();
        let parts = ids.into_iter().zip(titles).zip(texts);
        for (index, ((id, title), text)) in parts.enumerate() {
            let is_summary = index == 0;
            if !is_summary && !has_next {
                continue;
            }
            let found = found.filter(|_| is_summary);
            let metadata = metadata_of((first, last), found, mark.filter(|_| is_summary));
            let new = summary_entry(actor, (book, id), (title, text), trust, is_summary, metadata)?;
            changes.push(Change::AddEntry(Box::new(new)));
            changes.push(link(id, Relation::DerivedFrom, block));
        }
        let Some((old_summary, old_next)) = before else {
            return Ok(());
        };
        let new_next = if has_next { ids[1] } else { ids[0] };
        let old_next = old_next.filter(|next| next.fields.superseded_by.is_none());
        let replaced = std::iter::once((old_summary, ids[0])).chain(old_next.map(|old| (old, new_next)));
        // Forgotten entries stay as they are.
        for (old, new) in replaced.filter(|(old, _)| old.fields.erased.is_none()) {
            changes.push(Change::PatchEntry {
                entry: old.id,
                fields: vec![FieldChange::SupersededBy(Some(new))],
                expected_version: None,
                base_version: None,
            });
            changes.push(link(new, Relation::Supersedes, old.id));
        }
        Ok(())
    }

    /// Lets the compactor improve the summary of `block`. A failure changes nothing; it is noted and returned as a
    /// warning.
    pub(super) async fn put_better(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        block: &mut Block,
        (compactor, time): (&Arc<dyn Compactor>, Duration),
        options: &Offload,
    ) -> Result<Option<Warning>, WorkspaceError> {
        let kept = self.blocks(thread).await?;
        let known = kept.iter().position(|known| known.handle == block.handle);
        let Some(known) = known.filter(|at| kept[*at].to == block.to) else {
            return Ok(None);
        };
        if self.is_replaced(thread, kept[known].number).await? {
            return Ok(None);
        }
        let ids = BlockIds::of(self.space(), thread, kept[known].number);
        let extracted = self.entry_if_there(ids.extracted[0]).await?;
        let extracted = extracted.filter(|summary| summary.fields.erased.is_none());
        let found = extracted.as_ref().and_then(|summary| found_in(&summary.fields));
        let rules = found.map_or_else(Vec::new, |found| found.obligations);
        // What the block's own summary has taken over. Earlier versions took nothing over.
        let (before, trust_before) = match &extracted {
            Some(summary) if has_mark(summary, CARRIES) => (carried_in(&summary.fields.body), summary.fields.trust),
            _ => match self.carried_before(thread, &kept, place_before(&kept, known)).await? {
                Some(carried) => (carried.text, carried.trust),
                None => (String::new(), Trust::User),
            },
        };
        // It reads with the rights of its role: the pages of this thread.
        let sight = self.asked_by(&compactor_for(actor)).in_thread(thread);
        let rules_tokens = options.tokens.count(&rules.join("\n"));
        let desk = Desk::new(sight, thread.clone(), block.clone()).with(
            before,
            options.summary_room(rules_tokens),
            options.task.clone(),
        );
        let compactor = Arc::clone(compactor);
        // It runs in a task of its own, so that a panic does not spread to the caller.
        let mut working = Working(tokio::spawn(async move { compactor.compact(&desk).await }));
        let compacted = match tokio::time::timeout(time, &mut working.0).await {
            Ok(Ok(Ok(compacted))) if !compacted.summary.trim().is_empty() => compacted,
            failed => {
                drop(working);
                let reason = match failed {
                    Err(_) => "it took too long".to_owned(),
                    Ok(Err(_)) => "it crashed".to_owned(),
                    Ok(Ok(Err(reason))) => reason,
                    Ok(Ok(Ok(_))) => "it returned an empty one".to_owned(),
                };
                let mut note = self.noted("history", "compact").with_detail(json!({"error": reason}));
                FAILED.clone_into(&mut note.status);
                self.note(note);
                let message = format!("the compactor wrote no summary: {reason}; the summary made without it stays");
                return Ok(Some(Warning::new(
                    "compactor_failed",
                    message,
                    "a compactor",
                    "the summary made without it",
                )));
            }
        };
        let number = kept[known].number;
        if self.is_replaced(thread, number).await? {
            return Ok(None);
        }
        let Some(of_block) = self.entry_if_there(kept[known].id).await? else {
            return Ok(None);
        };
        let before = self.in_force(thread, number).await?;
        let mut changes = Vec::new();
        let summary = Summary {
            texts: [
                with_rules(&compacted.summary, &rules, BODY_BYTES),
                compacted.next_actions.join("\n"),
            ],
            found: None,
            mark: (!rules.is_empty()).then_some(HAS_RULES),
            // The model has read all of the messages, and the summary before.
            trust: of_block.fields.trust.min(trust_before),
        };
        let range = (block.from, block.to);
        self.push_summary(
            actor,
            thread,
            range,
            summary,
            (ids.block, ids.compacted),
            before,
            &mut changes,
        )
        .await?;
        let write = Write {
            idempotency_key: Some(format!(
                "compact:{}",
                EntryId::derived(&["compact", &thread.0, &number.to_string()])
            )),
            ..Write::of(changes)
        };
        self.in_thread(thread).record(&compactor_for(actor), write).await?;
        let place = Place {
            block: known,
            number: block.to,
        };
        *block = self.block(thread, &kept, place, block.replayed).await?;
        Ok(None)
    }

    /// Whether a later offload has replaced the summary of the block with this number.
    async fn is_replaced(&self, thread: &ThreadKey, number: usize) -> Result<bool, WorkspaceError> {
        let in_force = self.in_force(thread, number).await?;
        Ok(in_force.is_some_and(|(summary, _)| summary.fields.superseded_by.is_some()))
    }
}

/// What a summary made without a model keeps for the next offload.
pub(super) fn found_in(fields: &EntryFields) -> Option<Extract> {
    let found = fields.metadata.as_ref()?.get(FOUND)?;
    let found: Extract = serde_json::from_value(found.clone()).ok()?;
    Some(found.retain_mentioned_in(&without_carried(&fields.body)))
}

/// The metadata of a summary: which messages it covers, and what was extracted from them.
fn metadata_of((first, last): (u64, u64), found: Option<&Extract>, mark: Option<&str>) -> Value {
    let mut metadata = json!({"history": {"from": first, "to": last}});
    if let Some(mark) = mark {
        metadata[mark] = true.into();
    }
    if let Some(found) = found {
        metadata[FOUND] = json!(found);
    }
    metadata
}

fn summary_entry(
    actor: &Actor,
    (book, id): (PageId, EntryId),
    (title, mut text): (String, String),
    trust: Trust,
    is_summary: bool,
    metadata: Value,
) -> Result<NewEntry, WorkspaceError> {
    let kind = if is_summary { EntryKind::Note } else { EntryKind::Todo };
    let trust = trust.min(trust_of_role(&compactor_for(actor)));
    let mut fields = EntryFields::new(kind, Owner::agent(), trust);
    text.truncate(text.floor_char_boundary(BODY_BYTES));
    fields.title = title;
    fields.body = text;
    fields.tags = Tag::parse_all([TAG])?;
    fields.metadata = Some(metadata);
    fields.pin_rank = Some(LAST_PIN);
    fields.source = source_of(&compactor_for(actor));
    Ok(NewEntry {
        id,
        page: book,
        kind,
        fields,
    })
}

pub(super) fn link(src: EntryId, rel: Relation, dst: EntryId) -> Change {
    Change::AddLink(Link {
        src: src.to_string(),
        rel,
        dst: dst.to_string(),
    })
}

/// The actor that writes for an offload: the same for every caller, so that the next offload can replace the last
/// summary.
pub(super) fn compactor_for(actor: &Actor) -> Actor {
    Actor {
        role: Role::Compactor,
        name: "offload".to_owned(),
        ..actor.clone()
    }
}
