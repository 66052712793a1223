//! Offloads a conversation that outgrows its window: its older messages are kept in the history of its thread, and a
//! summary with the next actions goes into the thread's scratchbook (M7.8 V8, seed 003 A6).

mod compactor;
mod history;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use folio_memory::actor::Trust;
use folio_memory::entry::{Owner, Status, check_text};
use folio_memory::id::Ref;
use folio_memory::offload::{
    BlockIds, Loss, Message, StandInText, cut, cut_within, extract, fit_stand_in, is_stand_in, page_of, stand_in_head,
    total, trust_in,
};
use folio_memory::roles::{self, Denied, Operation};
use folio_memory::tokens::{Estimate, Tokens};
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryHandle, EntryId, EntryKind, Invalid, NewEntry, NewPage, Role, ThreadKey,
    Warning, scratchbook,
};
use serde_json::{Value, json};

pub use compactor::{Compacted, Compactor, Desk};
pub use history::Said;

use history::Kept;
use summary::{BODY_BYTES, Summary, TAG, compactor_for};

use super::redact::Cleaner;
use super::view::ViewRequest;
use super::{BookFilter, Workspace, WorkspaceError, Write, source_of};
use crate::error::StoreError;

/// How often an offload is retried because of concurrent offloads of the same thread.
const ATTEMPTS: u32 = 8;
/// Enough tokens for the first line of the message that stands in for others, which says where they are.
const HEAD_TOKENS: u32 = 64;
/// Tokens for what separates the view from the summary before it.
const GAP_TOKENS: u32 = 4;
/// How many open items are named among the next actions.
const OPEN_ITEMS: usize = 12;

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
    /// The thread whose open work is named among the next actions, for a conversation without a scratchbook of its own;
    /// the caller then shows that scratchbook. By default it is the conversation's own thread, and its view follows the
    /// summary.
    pub open_work: Option<ThreadKey>,
    /// The counter of tokens.
    pub tokens: Arc<dyn Tokens>,
    /// A compactor that improves on the summary made without a model, and its time limit.
    pub compactor: Option<(Arc<dyn Compactor>, Duration)>,
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            window_tokens: 128_000,
            share: 0.8,
            keep_last: 8,
            summary_tokens: 1_200,
            force: false,
            open_work: None,
            tokens: Arc::new(Estimate),
            compactor: None,
        }
    }
}

impl Offload {
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
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The number of the first message in the history.
    pub from: u64,
    /// The number of the last message.
    pub to: u64,
    /// The entry that holds the messages.
    pub handle: EntryHandle,
    /// The summary in force.
    pub summary: EntryHandle,
    /// The next actions.
    pub next_actions: EntryHandle,
    /// Whether a compactor wrote the summary and the next actions.
    pub is_compacted: bool,
    /// Whether an earlier call had put the messages away.
    pub replayed: bool,
}

impl Workspace {
    /// Puts the older messages of `list` away if the conversation costs more than its share of the window, and returns
    /// the conversation as it goes on.
    ///
    /// The history and a summary made without a model are stored first, in one commit, with the next actions. Summary
    /// and next actions are pinned in the thread's scratchbook, say which messages they cover, and replace those of the
    /// previous offload. Then the compactor, if there is one, may improve them; if it fails, they stay. Open work,
    /// questions and pins are entries and stay entries: the message that stands for the rest shows them. Offloading the
    /// same list again does nothing new.
    ///
    /// # Errors
    ///
    /// `Invalid` if `list` is not a list of messages, the share is not from 0 to 1, the window or the summary has no
    /// tokens, or there are more than 16 MiB to put away; `Refused`; `Unavailable`.
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
        let messages = Message::read_all(list)?;
        let list_items = || messages.iter().map(|message| message.given.clone());
        let costs: Vec<u32> = messages
            .iter()
            .map(|message| options.tokens.count(&message.given.to_string()))
            .collect();
        let before = total(&costs);
        let limit = options.limit();
        let is_over = before > limit;
        let (from, to) = match is_over {
            true => cut_within(&messages, &costs, options.keep_last, limit),
            false => cut(&messages, options.keep_last),
        };
        // If only stand-ins for earlier messages would go, another stand-in would take their place and nothing would be
        // gained.
        let gains = !messages[from..to].iter().all(is_stand_in);
        if from == to || !(options.force || gains && is_over) {
            return Ok(Offloaded {
                messages: list_items().collect(),
                tokens: (before, before),
                block: None,
                warnings: Vec::new(),
            });
        }
        let (mut block, mut warnings) = self
            .keep_block(
                actor,
                (thread, options.open_work.as_ref().unwrap_or(thread)),
                &messages[from..to],
            )
            .await?;
        if let Some((compactor, time)) = &options.compactor
            && !block.is_compacted
        {
            let failed = self.put_better(actor, thread, &mut block, compactor, *time).await?;
            warnings.extend(failed);
        }
        let gone = total(&costs[from..to]);
        let room = options.stand_in_room(gone, is_over.then_some(before - gone));
        let stands_for = self.stand_in_text(thread, &block, room, options).await?;
        let mut new_list: Vec<Value> = list_items().take(from).collect();
        if !stands_for.is_empty() {
            new_list.push(json!({"content": stands_for, "role": "user"}));
        }
        new_list.extend(list_items().skip(to));
        Ok(Offloaded {
            tokens: (before, cost(&new_list, &*options.tokens)),
            messages: new_list,
            block: Some(block),
            warnings,
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

    /// Puts `messages` away with their summary, unless that was done before.
    async fn keep_block(
        &self,
        actor: &Actor,
        (thread, work): (&ThreadKey, &ThreadKey),
        messages: &[Message],
    ) -> Result<(Block, Vec<Warning>), WorkspaceError> {
        let mode = self.policy().await?.redaction;
        let mut cleaner = Cleaner::new(mode);
        let mut body = String::new();
        let mut clean = Vec::with_capacity(messages.len());
        for message in messages {
            let mut value = message.given.clone();
            cleaner.value(&mut value, "messages");
            body.push_str(&value.to_string());
            body.push('\n');
            clean.push(value);
        }
        // The summary is made from the redacted messages.
        let messages = Message::read_all(&Value::Array(clean))?;
        check_text(&body, "body")?;
        let warnings = cleaner.into_warnings();
        let fingerprint = EntryId::derived(&["fingerprint", &body]).to_string();
        let mut attempt = 1;
        loop {
            let kept = self.blocks(thread).await?;
            if let Some(block) = kept.iter().find(|block| block.fingerprint == fingerprint) {
                return Ok((self.block(thread, block, true).await?, warnings));
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
            let changes = self
                .changes_for(
                    actor,
                    (thread, work),
                    &messages,
                    (next, &kept),
                    (body.clone(), &fingerprint),
                )
                .await?;
            // A thread key may contain anything, an idempotency key may not.
            let key = EntryId::derived(&["offload", &thread.0, &fingerprint, &number.to_string()]);
            let write = Write {
                idempotency_key: Some(format!("offload:{key}")),
                reason: Some("a conversation outgrew its window".to_owned()),
                ..Write::of(changes)
            };
            match self.in_thread(thread).record(&compactor_for(actor), write).await {
                // A concurrent offload may have put away the very same messages.
                Ok(recorded) => {
                    let kept = self.blocks(thread).await?;
                    if let Some(block) = kept.iter().find(|block| block.number == number) {
                        return Ok((self.block(thread, block, recorded.committed.replayed).await?, warnings));
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
        (thread, work): (&ThreadKey, &ThreadKey),
        messages: &[Message],
        ((number, first), kept): ((usize, u64), &[Kept]),
        (body, fingerprint): (String, &str),
    ) -> Result<Vec<Change>, WorkspaceError> {
        let ids = BlockIds::of(self.space(), thread, number);
        let last = first + messages.len() as u64 - 1;
        let (page, page_fields) = page_of(self.space(), thread);
        let of_tool = |tool: &str| self.trust_of_tool(tool);
        let trust = trust_in(messages, self.trust_of(actor), &of_tool);
        let mut fields = EntryFields::new(EntryKind::Log, Owner::agent(), trust);
        fields.title = format!("Messages {first} to {last}");
        fields.body = body;
        fields.parts = Some(json!({"from": first, "to": last, "fingerprint": fingerprint}));
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
        let before = self.found_before(thread, kept).await?;
        let found = extract(before, messages, &|tool| self.may_quote_tool(tool)).within(BODY_BYTES);
        let open = self.open_items(work).await?;
        let summary = Summary {
            texts: [found.summary(), found.next_actions(&open).join("\n")],
            found: Some(&found),
            // The summary has nothing that strangers said, but may have what other tools said.
            trust: trust.max(Trust::ToolInternal),
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
        let head = stand_in_head(block.to, block.handle);
        let summary = self.read_entry(Ref::Handle(block.summary)).await?;
        let next = self.read_entry(Ref::Handle(block.next_actions)).await?;
        let fits = |text: &str| options.tokens.count(text) <= room;
        let fit = |view: &str, loss| {
            let whole = |parts: &[String; 2]| {
                let [summary, next] = parts.each_ref().map(String::as_str);
                let told: Vec<&str> = [&*head, summary, next, view]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect();
                told.join("\n\n").trim_end().to_owned()
            };
            fit_stand_in(told_of(&summary), told_of(&next), loss, whole, fits)
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
        if options.open_work.is_some() || room == 0 {
            return Ok(String::new());
        }
        let request = ViewRequest {
            view_token_limit: Some(room),
            besides: vec![block.summary, block.next_actions],
            ..ViewRequest::of(thread.clone())
        };
        let view = self.view(request, &*options.tokens).await?;
        Ok(view.rendered.text.trim_end().to_owned())
    }

    /// Tasks and todos that are not done, one line for each.
    async fn open_items(&self, thread: &ThreadKey) -> Result<Vec<String>, WorkspaceError> {
        let mut filter = BookFilter {
            kinds: vec![EntryKind::Task, EntryKind::Todo],
            status: vec![Status::Open, Status::InProgress, Status::Blocked],
            limit: OPEN_ITEMS.saturating_mul(2),
            ..BookFilter::default()
        };
        let now = self.now();
        let is_work = |item: &&Entry| {
            let is_ours = item.fields.tags.iter().any(|tag| tag.as_str() == TAG);
            !is_ours && item.state(now) == folio_memory::State::Live
        };
        let mut open: Vec<String> = Vec::new();
        loop {
            let items = self.book_items(thread, filter.clone()).await?;
            let work = items.items.iter().filter(is_work).take(OPEN_ITEMS - open.len());
            open.extend(work.map(|item| format!("{} {}", item.handle, item.fields.title)));
            filter.cursor = items.next;
            if filter.cursor.is_none() || open.len() >= OPEN_ITEMS {
                return Ok(open);
            }
        }
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
