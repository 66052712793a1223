//! Offloads a conversation that outgrows its window: its older messages are kept in the history of its thread, and a
//! summary with the next actions goes into the thread's scratchbook (M7.8 V8, seed 003 A6).

mod carried;
mod compactor;
mod history;
mod known;
mod settled;
mod sized;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use folio_memory::actor::Trust;
use folio_memory::entry::Owner;
use folio_memory::id::Ref;
use folio_memory::offload::{
    BlockIds, Loss, Message, StandInText, cut, cut_within, extract, fit_stand_in, is_stand_in, mark_after, page_of,
    stand_in_head, total, trust_in,
};
use folio_memory::roles::{self, Denied, Operation};
use folio_memory::tokens::{Estimate, Tokens};
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryHandle, EntryId, EntryKind, Invalid, NewEntry, NewPage, Role, ThreadKey,
    Warning, scratchbook,
};
use serde::Serialize;
use serde_json::{Value, json};

pub use compactor::{Compacted, Compactor, Desk};
pub use history::Said;
pub(super) use history::text_of;

use carried::{CARRIES, Carried};
use history::{Kept, Place, last_place};
use known::Known;
use sized::{BLOCK_BYTES, check_sizes, fitting, line_of};
use summary::{BODY_BYTES, Summary, compactor_for};

use super::redact::Cleaner;
use super::view::ViewRequest;
use super::{Workspace, WorkspaceError, Write, source_of};
use crate::error::StoreError;

/// How often an offload is retried because of concurrent offloads of the same thread.
const ATTEMPTS: u32 = 8;
/// Enough tokens for the first line of the message that stands in for others, which says where they are.
const HEAD_TOKENS: u32 = 64;
/// How a model finds what was put away, in the message that stands for it.
const SEARCH: &str = "[To search them: scratch_read with page \"history\" and a query.]";
/// Tokens for what separates the view from the summary before it.
const GAP_TOKENS: u32 = 4;
/// Bytes for what stands around a sentence, or around what a summary takes over.
const GAP_BYTES: usize = 16;
/// Bytes of a summary for what it has of its own besides the user's sentences.
const OWN_BYTES: usize = 4 * 1024;
/// How many ranges of numbers a block keeps of the messages before it; more only if many conversations take turns.
const RANGES_KEPT: usize = 32;

/// When and how a conversation is offloaded.
#[derive(Debug, Clone)]
pub struct Offload {
    /// The size of the window in tokens. Default: 128,000.
    pub window_tokens: u32,
    /// The share of the window above which messages are offloaded. Default: 0.8.
    pub share: f64,
    /// How many messages at the end stay, unless they leave too little room ([`cut_within`]). Default: 8.
    pub keep_last: usize,
    /// The maximum number of tokens of the message that stands in for the offloaded ones. Default: 1,200.
    pub summary_tokens: u32,
    /// Whether to offload even if there is little to put away.
    pub force: bool,
    /// Whether the view of the thread's scratchbook follows the summary, which is the default. It does not for a
    /// conversation without a scratchbook of its own, whose caller shows another one.
    pub has_view: bool,
    /// The counter of tokens.
    pub tokens: Arc<dyn Tokens>,
    /// A compactor that improves on the summary made without a model, and its time limit.
    pub compactor: Option<(Arc<dyn Compactor>, Duration)>,
    /// The task that the conversation is about, for the compactor, if the messages do not say it. Then their first
    /// request is not what all began with, and the summary does not say it either.
    pub task: Option<String>,
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            window_tokens: 128_000,
            share: 0.8,
            keep_last: 8,
            summary_tokens: 1_200,
            force: false,
            has_view: true,
            tokens: Arc::new(Estimate),
            compactor: None,
            task: None,
        }
    }
}

impl Offload {
    /// The number of tokens that a compactor's summary may have: what is left beside the line before it and either the
    /// view of the scratchbook, which may take half, or the next actions, and `sentences`, the tokens of what the user
    /// said; but at least a quarter.
    fn summary_room(&self, sentences: u32) -> u32 {
        let share = match self.has_view {
            true => self.summary_tokens / 2,
            false => self.summary_tokens / 4 * 3,
        };
        let left = share.saturating_sub(HEAD_TOKENS.saturating_add(sentences));
        left.max(self.summary_tokens / 4)
    }

    /// The number of tokens above which messages are offloaded.
    fn limit(&self) -> u32 {
        let limit = f64::from(self.window_tokens) * self.share;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share from 0 to 1 of a `u32`"
        )]
        let whole = limit as u32;
        whole
    }

    /// The number of tokens that the text may have that stands in for messages of `gone` tokens. `staying` are the
    /// tokens of the other messages if messages go because the conversation costs too much.
    fn stand_in_room(&self, gone: u32, staying: Option<u32>) -> u32 {
        // Messages that go for lack of room are not replaced by something larger: a quarter is left for what turns a
        // text into a message.
        let most = match self.force {
            true => self.summary_tokens,
            false => self.summary_tokens.min(gone / 4 * 3),
        };
        // What is left of the limit is for what comes next as well: otherwise the next message would go over it again.
        let left = staying.map_or(u32::MAX, |staying| self.limit().saturating_sub(staying) / 2);
        most.min(left.max(HEAD_TOKENS))
    }
}

/// The outcome of an offload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Offloaded {
    /// The conversation as it goes on: the messages that hold throughout, one that stands for those put away, and the
    /// rest, each as it was given.
    pub messages: Vec<Value>,
    /// Tokens of the messages given, and of those returned.
    pub tokens: (u32, u32),
    /// The messages that were put away; `None` if there was no need.
    pub block: Option<Block>,
    /// What was redacted before anything was kept.
    pub warnings: Vec<Warning>,
}

/// Messages that were put away together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Block {
    /// The number of the first message in the history.
    pub from: u64,
    /// The number of the last message.
    pub to: u64,
    /// The numbers of all messages of the conversation up to that one, in order: one range, unless other conversations
    /// were put away in between.
    pub numbers: Vec<(u64, u64)>,
    /// The entry that holds the messages.
    pub handle: EntryHandle,
    /// The summary in force.
    pub summary: EntryHandle,
    /// The next actions, if there are any besides what is an entry and nobody has completed them.
    pub next_actions: Option<EntryHandle>,
    /// Whether a compactor wrote the summary and the next actions.
    pub is_compacted: bool,
    /// Whether an earlier call had put the messages away.
    pub replayed: bool,
}

/// The messages of a conversation, and which of them may go.
struct Given {
    messages: Vec<Message>,
    /// The tokens of each message.
    costs: Vec<u32>,
    /// Whether the conversation costs more than its share of the window.
    is_over: bool,
    /// The messages that may go: from the first to the one before the second.
    from: usize,
    to: usize,
}

impl Given {
    fn of(messages: Vec<Message>, options: &Offload) -> Self {
        let cost = |message: &Message| options.tokens.count(&message.given.to_string());
        let costs: Vec<u32> = messages.iter().map(cost).collect();
        let limit = options.limit();
        let is_over = total(&costs) > limit;
        let (from, to) = match is_over {
            true => cut_within(&messages, &costs, options.keep_last, limit),
            false => cut(&messages, options.keep_last),
        };
        Self {
            messages,
            costs,
            is_over,
            from,
            to,
        }
    }

    fn may_go(&self) -> &[Message] {
        &self.messages[self.from..self.to]
    }

    fn values(&self, range: impl std::slice::SliceIndex<[Message], Output = [Message]>) -> Vec<Value> {
        let messages = self.messages[range].iter();
        messages.map(|message| message.given.clone()).collect()
    }
}

impl Workspace {
    /// Puts the older messages of `list` away if the conversation costs more than its share of the window, and returns
    /// the conversation as it goes on.
    ///
    /// The history and a summary made without a model are stored first, in one commit, with the next actions. What does
    /// not fit into one block goes into several, each in a commit of its own; after a failure in between, the next call
    /// goes on with the rest. Summary and next actions are pinned in the thread's scratchbook, say which messages they
    /// cover, and replace those of the previous offload. Then the compactor, if there is one, may improve them; if it
    /// fails, they stay. Open work, questions and pins are entries and stay entries: the message that stands for the
    /// rest shows them.
    ///
    /// A list may be the one that an earlier call returned, with what was said since, or all that was ever said: what
    /// the history holds of its beginning is not stored again, and unless the rest is too much as well, nothing is
    /// written.
    ///
    /// # Errors
    ///
    /// `Invalid` if `list` is not a list of messages, the share is not from 0 to 1, the window or the summary has no
    /// tokens, or a message to be put away has more than 16 MiB; `Refused`; `Unavailable`.
    pub async fn offload(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        list: &Value,
        options: &Offload,
    ) -> Result<Offloaded, WorkspaceError> {
        self.may_offload(actor, thread).await?;
        if !(0.0..=1.0).contains(&options.share) {
            let message = format!("{} is not from 0 to 1", options.share);
            return Err(Invalid::new("share_invalid", "share", message).into());
        }
        for (tokens, place) in [(options.window_tokens, "window"), (options.summary_tokens, "summary")] {
            if tokens == 0 {
                return Err(Invalid::new("tokens_invalid", place, "0 tokens leave room for nothing").into());
            }
        }
        let given = Given::of(Message::read_all(list)?, options);
        // If only stand-ins for earlier messages would go, another stand-in would take their place and nothing would be
        // gained.
        if given.may_go().iter().all(is_stand_in) || !(options.force || given.is_over) {
            let tokens = total(&given.costs);
            return Ok(Offloaded {
                messages: given.values(..),
                tokens: (tokens, tokens),
                block: None,
                warnings: Vec::new(),
            });
        }
        // The summary is made from the redacted messages.
        let mut cleaner = Cleaner::new(self.policy().await?.redaction);
        let mut clean = given.values(given.from..given.to);
        clean.iter_mut().for_each(|message| cleaner.value(message, "messages"));
        let clean = Message::read_all(&Value::Array(clean))?;
        let mut warnings = cleaner.into_warnings();
        if !options.force
            && let Some(shortened) = self.shortened_before(actor, thread, &given, &clean, options).await?
        {
            return Ok(Offloaded { warnings, ..shortened });
        }
        check_sizes(&clean, given.from)?;
        let mut block = self
            .keep_blocks(actor, thread, &clean, &given.messages[given.to..], options)
            .await?;
        if let Some((compactor, time)) = &options.compactor
            && !block.is_compacted
        {
            let compactor = (compactor, *time);
            let failed = self.put_better(actor, thread, &mut block, compactor, options).await?;
            warnings.extend(failed);
        }
        let shortened = self.shortened(thread, &given, given.to, block, options).await?;
        Ok(Offloaded { warnings, ..shortened })
    }

    /// The conversation without what earlier calls have put away of it, if that is enough for its share of the window.
    async fn shortened_before(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        given: &Given,
        clean: &[Message],
        options: &Offload,
    ) -> Result<Option<Offloaded>, WorkspaceError> {
        let mut kept = self.blocks(thread).await?;
        let known = self.known_in(&mut kept, clean).await?;
        let is_more = clean[known.items..].iter().any(|message| !is_stand_in(message));
        let Some(place) = known.place.filter(|_| known.said > 0 && is_more) else {
            return Ok(None);
        };
        let mut block = self.block(thread, &kept, place, true).await?;
        let to = given.from + known.items;
        self.settle_next_actions(actor, thread, &kept, place, (&mut block, &given.messages[to..]))
            .await?;
        let shortened = self.shortened(thread, given, to, block, options).await?;
        Ok((shortened.tokens.1 <= options.limit()).then_some(shortened))
    }

    /// The conversation with one message in place of those before `to`, of which `block` has the last.
    async fn shortened(
        &self,
        thread: &ThreadKey,
        given: &Given,
        to: usize,
        block: Block,
        options: &Offload,
    ) -> Result<Offloaded, WorkspaceError> {
        let before = total(&given.costs);
        // There is as much room as if all had gone that may: otherwise the summary would shrink with each message.
        let staying = before - total(&given.costs[given.from..given.to]);
        let room = options.stand_in_room(total(&given.costs[given.from..to]), given.is_over.then_some(staying));
        let stands_for = self.stand_in_text(thread, &block, room, options).await?;
        let mut messages = given.values(..given.from);
        if !stands_for.is_empty() {
            messages.push(json!({"content": stands_for, "role": "user"}));
        }
        messages.extend(given.values(to..));
        Ok(Offloaded {
            tokens: (before, cost(&messages, &*options.tokens)),
            messages,
            block: Some(block),
            warnings: Vec::new(),
        })
    }

    /// Refuses actors that may not write to the scratchbook of `thread`, where the summary is pinned, or may not read
    /// it: the message that stands for the rest shows it.
    async fn may_offload(&self, actor: &Actor, thread: &ThreadKey) -> Result<(), WorkspaceError> {
        let may_in_thread = matches!(actor.role, Role::Client | Role::Compactor);
        let is_own_thread = may_in_thread && *self.thread() == *thread;
        let target = "the history of the thread";
        let (_, book) = scratchbook::page_of(self.space(), thread);
        let allowed = match self.visibility().await?.includes_page(&book) {
            true => roles::check_permission(actor, Operation::Pages, is_own_thread, target)
                .map_err(|denied| denied.because_of_thread(may_in_thread && !is_own_thread)),
            false => Err(Denied {
                role: actor.role,
                operation: Operation::Read,
                what: target.to_owned(),
                is_of_other_thread: false,
            }),
        };
        allowed.map_err(|denied| {
            let refused = WorkspaceError::Refused(denied);
            self.note_refusal_of(actor, "history", "offload", &refused);
            refused
        })
    }

    /// Puts what the history does not hold of `messages` away, with a summary, in as many blocks as it needs; `later`
    /// are the messages that stay. Returns the block with the last of them.
    async fn keep_blocks(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        messages: &[Message],
        later: &[Message],
        options: &Offload,
    ) -> Result<Block, WorkspaceError> {
        let mut attempt = 1;
        loop {
            let mut kept = self.blocks(thread).await?;
            let known = self.known_in(&mut kept, messages).await?;
            let elsewhere = match messages[..known.items].last().filter(|_| known.place.is_none()) {
                Some(stand_in) => self.carried_from_elsewhere(actor, thread, stand_in).await?,
                None => None,
            };
            let is_new = |message: &&Message| !is_stand_in(message);
            let mut new: Vec<Message> = messages[known.items..].iter().filter(is_new).cloned().collect();
            if let Some(place) = known.place.filter(|_| new.is_empty()) {
                return self.block(thread, &kept, place, true).await;
            }
            let next = self.next_block(thread, kept.last()).await?;
            let number = next.0;
            let last = kept.last().map(|last| last.number);
            // The blocks after the last one were archived or forgotten, or somebody has put more away since the blocks
            // were read.
            if number > last.map_or(0, |last| last + 1)
                && attempt < ATTEMPTS
                && self.blocks(thread).await?.last().map(|last| last.number) != last
            {
                attempt += 1;
                continue;
            }
            let mut rest = new.split_off(fitting(&new, BLOCK_BYTES));
            let is_last = rest.is_empty();
            rest.extend_from_slice(later);
            let body: String = new.iter().map(line_of).collect();
            let fingerprint = EntryId::derived(&["fingerprint", &body]).to_string();
            let about = (elsewhere, options.task.is_some());
            let changes = self
                .changes_for(
                    actor,
                    thread,
                    (&new, &rest),
                    (next, &kept, known),
                    (body, &fingerprint),
                    about,
                )
                .await?;
            // A thread key may contain anything, an idempotency key may not.
            let own_key = || {
                let key = EntryId::derived(&["offload", &thread.0, &fingerprint, &number.to_string()]);
                format!("offload:{key}")
            };
            // The request is answered by the last block: once that is there, so are the others.
            let key = if is_last { self.asked_key_or(own_key) } else { own_key() };
            let write = Write {
                idempotency_key: Some(key),
                reason: Some("a conversation outgrew its window".to_owned()),
                ..Write::of(changes)
            };
            match self.in_thread(thread).record(&compactor_for(actor), write).await {
                // The history holds these now, and what is left is more.
                Ok(_) if !is_last => attempt = 1,
                // A concurrent offload may have put away the very same messages.
                Ok(recorded) => {
                    let kept = self.blocks(thread).await?;
                    let written = &recorded.committed.entries;
                    let is_written = |block: &Kept| match recorded.committed.replayed {
                        true => written.iter().any(|entry| entry.id == block.id),
                        false => block.number == number,
                    };
                    if let Some(at) = kept.iter().position(is_written) {
                        let place = Place {
                            block: at,
                            number: kept[at].to,
                        };
                        return self.block(thread, &kept, place, recorded.committed.replayed).await;
                    }
                    if attempt == ATTEMPTS {
                        let name = BlockIds::of(self.space(), thread, number).block.to_string();
                        return Err(StoreError::NotFound { what: "entry", name }.into());
                    }
                    attempt += 1;
                }
                // Another offload has used the same number meanwhile.
                Err(WorkspaceError::Store(StoreError::Invalid(_) | StoreError::StaleVersion { .. }))
                    if attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn changes_for(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        (messages, later): (&[Message], &[Message]),
        ((number, first), kept, known): ((usize, u64), &[Kept], Known),
        (body, fingerprint): (String, &str),
        (elsewhere, has_task): (Option<Carried>, bool),
    ) -> Result<Vec<Change>, WorkspaceError> {
        let ids = BlockIds::of(self.space(), thread, number);
        let last = first + messages.len() as u64 - 1;
        let (page, page_fields) = page_of(self.space(), thread);
        let of_tool = |tool: &str| self.trust_of_tool(tool);
        let trust = trust_in(messages, self.trust_of(actor), &of_tool);
        let mut fields = EntryFields::new(EntryKind::Log, Owner::agent(), trust);
        fields.title = format!("Messages {first} to {last}");
        fields.body = body;
        let mut marks: Vec<String> = Vec::with_capacity(messages.len());
        for message in messages {
            let before = marks.last().unwrap_or(&known.mark);
            marks.push(mark_after(before, &message.given));
        }
        let mut before = known
            .place
            .map_or_else(Vec::new, |place| kept[place.block].numbers_to(place.number));
        before.drain(..before.len().saturating_sub(RANGES_KEPT));
        let parts = json!({"from": first, "to": last, "fingerprint": fingerprint, "marks": marks, "before": before});
        fields.parts = Some(parts);
        fields.source = source_of(&compactor_for(actor));
        let mut changes = vec![
            Change::EnsurePage(Box::new(NewPage {
                id: page,
                fields: page_fields,
            })),
            Change::AddEntry(Box::new(NewEntry {
                id: ids.block,
                page,
                kind: EntryKind::Log,
                fields,
            })),
        ];
        // A conversation that begins anew goes on from what its thread knows.
        let last_before = known.place.or_else(|| last_place(kept));
        let before = self.found_before(thread, kept, last_before).await?;
        let may_quote = |tool: &str| self.may_quote_tool(tool);
        let mut found = extract(before, messages, &may_quote);
        if has_task {
            found.first = None;
        }
        let carried = match elsewhere {
            Some(carried) => Some(carried),
            None => self.carried_before(thread, kept, last_before).await?,
        };
        // What was taken over leaves room for the user's sentences.
        let sentences: usize = found.obligations.iter().map(|text| text.len() + GAP_BYTES).sum();
        let carried_room = BODY_BYTES.saturating_sub(sentences + OWN_BYTES);
        let carried_text = carried.as_ref().map_or("", |carried| carried.beginning(carried_room));
        let found = found
            .settled_by(later, &may_quote)
            .within(BODY_BYTES.saturating_sub(carried_text.len() + 2 * GAP_BYTES));
        // The extract has nothing that strangers said, but may have what other tools said.
        let trust = trust.max(Trust::ToolInternal);
        let summary = Summary {
            texts: [found.summary_after(carried_text), found.next_actions().join("\n")],
            found: Some(&found),
            mark: Some(CARRIES),
            trust: carried.as_ref().map_or(trust, |carried| trust.min(carried.trust)),
        };
        let before = match kept.last() {
            Some(block) => self.in_force(thread, block.number).await?,
            None => None,
        };
        self.push_summary(
            actor,
            thread,
            (first, last),
            summary,
            (ids.block, ids.extracted),
            before,
            &mut changes,
        )
        .await?;
        Ok(changes)
    }

    /// The text of the message that stands for what was put away: which messages those are, the summary, the next
    /// actions, and the view of the scratchbook. Costs at most `room` tokens.
    async fn stand_in_text(
        &self,
        thread: &ThreadKey,
        block: &Block,
        room: u32,
        options: &Offload,
    ) -> Result<String, WorkspaceError> {
        let head = stand_in_head(&block.numbers, block.handle);
        let summary = self.read_entry(Ref::Handle(block.summary)).await?;
        let next = match block.next_actions {
            Some(next) => Some(self.read_entry(Ref::Handle(next)).await?),
            None => None,
        };
        let next = next.as_ref().map_or(StandInText::NONE, told_of);
        let fits = |text: &str| options.tokens.count(text) <= room;
        // Of a conversation without a scratchbook of its own, the tools read another thread.
        let with_search = match options.has_view {
            true => format!("{head}\n{SEARCH}"),
            false => head.clone(),
        };
        let fit = |view: &str, loss| {
            let whole = |parts: &[String; 2]| {
                let [summary, next] = parts.each_ref().map(String::as_str);
                let head = if loss == Loss::Little { &with_search } else { &head };
                let told: Vec<&str> = [head, summary, next, view]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect();
                told.join("\n\n").trim_end().to_owned()
            };
            fit_stand_in(told_of(&summary), next, loss, whole, fits)
        };
        let view = self.view_beside(thread, block, room / 2, options).await?;
        if let Some(text) = fit(&view, Loss::Little) {
            return Ok(text);
        }
        // The view gets only what the summary leaves: what is in memory can be looked up.
        if let Some(text) = fit("", Loss::Any) {
            let left = room.saturating_sub(options.tokens.count(&text).saturating_add(GAP_TOKENS));
            let view = self.view_beside(thread, block, left, options).await?;
            let with_view = format!("{text}\n\n{view}");
            return Ok(if !view.is_empty() && fits(&with_view) {
                with_view
            } else {
                text
            });
        }
        let shorter = [head, format!("[{}]", block.handle)];
        Ok(shorter.into_iter().find(|text| fits(text)).unwrap_or_default())
    }

    /// The view of the scratchbook that follows the summary of `block`, within `room` tokens; empty for a conversation
    /// without a scratchbook of its own.
    async fn view_beside(
        &self,
        thread: &ThreadKey,
        block: &Block,
        room: u32,
        options: &Offload,
    ) -> Result<String, WorkspaceError> {
        if !options.has_view || room == 0 {
            return Ok(String::new());
        }
        let request = ViewRequest {
            view_token_limit: Some(room),
            besides: std::iter::once(block.summary).chain(block.next_actions).collect(),
            ..ViewRequest::of(thread.clone())
        };
        let view = self.view(request, &*options.tokens).await?;
        Ok(view.rendered.text.trim_end().to_owned())
    }
}

fn told_of(entry: &Entry) -> StandInText<'_> {
    StandInText {
        title: &entry.fields.title,
        handle: entry.handle,
        body: &entry.fields.body,
    }
}

fn cost(messages: &[Value], tokens: &dyn Tokens) -> u32 {
    messages.iter().fold(0_u32, |sum, message| {
        sum.saturating_add(tokens.count(&message.to_string()))
    })
}
