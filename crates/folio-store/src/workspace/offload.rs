//! A conversation that outgrows its window: its older messages are kept in the history of its thread, and a summary with what is
//! to be done next goes into the thread's book (M7.8 V8, seed 003 A6).

mod compactor;
mod history;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use folio_memory::actor::Trust;
use folio_memory::entry::{Owner, Status, check_text};
use folio_memory::id::Ref;
use folio_memory::offload::{
    BlockIds, Message, Told, cut, extract, is_stand_in, page_of, stand_in_head, told, trust_in,
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

/// How often an offload is tried again because somebody else offloads the same thread.
const ATTEMPTS: u32 = 8;
/// Open items that are named among what is to be done next.
const OPEN_ITEMS: usize = 12;

/// When and how a conversation is offloaded.
#[derive(Debug, Clone)]
pub struct Offload {
    /// Tokens of the window. 128,000.
    pub window_tokens: u32,
    /// From which share of it on something is put away. 0.8.
    pub share: f64,
    /// Messages at the end that always stay. 8.
    pub keep_last: usize,
    /// Tokens of the message that stands for those that were put away. 1,200.
    pub summary_tokens: u32,
    /// Whether to do so however little there is.
    pub force: bool,
    /// The thread whose open work is named among what is next, for a conversation that has no scratchbook of its own; whoever
    /// says so shows that scratchbook. If none is said, it is the conversation's, and its view stands behind the summary.
    pub open_work: Option<ThreadKey>,
    /// Who counts.
    pub tokens: Arc<dyn Tokens>,
    /// Who puts the summary better than it is without a model; and for how long he may take.
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

/// What an offload came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Offloaded {
    /// The conversation as it goes on: what holds throughout, a message that stands for what was put away, and the rest,
    /// each as it was given.
    pub messages: Vec<Value>,
    /// What the messages cost that were handed in, and those that come back.
    pub tokens: (u32, u32),
    /// What was put away; nothing if there was no need.
    pub block: Option<Block>,
    /// What was taken out before anything was kept.
    pub warnings: Vec<Warning>,
}

/// Messages that were put away together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The number in the history of the first.
    pub from: u64,
    /// And of the last.
    pub to: u64,
    /// The entry that holds them.
    pub handle: EntryHandle,
    /// The summary that is in force.
    pub summary: EntryHandle,
    /// What is to be done next.
    pub next_actions: EntryHandle,
    /// Whether a compactor wrote them.
    pub is_compacted: bool,
    /// Whether an earlier call had put them away.
    pub replayed: bool,
}

impl Workspace {
    /// Puts the older messages of `list` away if they cost more than their share of the window, and gives the conversation
    /// as it goes on.
    ///
    /// The history and a summary made without a model are stored first, in one commit, with what is to be done next; both are
    /// pinned in the thread's book, say which messages they are of, and take the place of those of the offload before. Then
    /// the compactor, if there is one, may put them better; should he fail, those stay. Open work, questions and pins are
    /// entries and stay so: the message that stands for the rest shows them. The same list again does nothing new.
    ///
    /// # Errors
    ///
    /// `Invalid` if `list` is no list of messages, the share is not from 0 to 1, the window or the summary has no tokens, or there are more than 16 MiB to put away; `Refused`; `Unavailable`.
    pub async fn offload(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        list: &Value,
        how: &Offload,
    ) -> Result<Offloaded, WorkspaceError> {
        self.may_offload(actor, thread).await?;
        if !(0.0..=1.0).contains(&how.share) {
            let message = format!("{} is not from 0 to 1", how.share);
            return Err(Invalid::new("share_invalid", "share", message).into());
        }
        for (tokens, place) in [(how.window_tokens, "window"), (how.summary_tokens, "summary")] {
            if tokens == 0 {
                return Err(Invalid::new("tokens_invalid", place, "0 tokens are room for nothing").into());
            }
        }
        let messages = Message::read_all(list)?;
        let given = || messages.iter().map(|message| message.given.clone());
        let before = cost(given(), &*how.tokens);
        let limit = f64::from(how.window_tokens) * how.share;
        let (from, to) = cut(&messages, how.keep_last);
        // Where nothing goes but what stands for earlier messages, another one would stand there, and nothing is gained.
        let gains = !messages[from..to].iter().all(is_stand_in);
        if from == to || !(how.force || gains && f64::from(before) > limit) {
            return Ok(Offloaded {
                messages: given().collect(),
                tokens: (before, before),
                block: None,
                warnings: Vec::new(),
            });
        }
        let (mut block, mut warnings) = self
            .keep_block(
                actor,
                (thread, how.open_work.as_ref().unwrap_or(thread)),
                &messages[from..to],
            )
            .await?;
        if let Some((compactor, time)) = &how.compactor
            && !block.is_compacted
        {
            let failed = self.put_better(actor, thread, &mut block, compactor, *time).await?;
            warnings.extend(failed);
        }
        // What goes because there is no room for it is not followed by more than it was: a quarter is for what makes a message of a text.
        let gone = cost(
            messages[from..to].iter().map(|message| message.given.clone()),
            &*how.tokens,
        );
        let room = match how.force {
            true => how.summary_tokens,
            false => how.summary_tokens.min(gone / 4 * 3),
        };
        let stands_for = self.standing_for(thread, &block, room, how).await?;
        let mut goes_on: Vec<Value> = given().take(from).collect();
        if !stands_for.is_empty() {
            goes_on.push(json!({"content": stands_for, "role": "user"}));
        }
        goes_on.extend(given().skip(to));
        Ok(Offloaded {
            tokens: (before, cost(goes_on.iter().cloned(), &*how.tokens)),
            messages: goes_on,
            block: Some(block),
            warnings,
        })
    }

    /// Refuses to put away what was said in `thread` whoever may not write to its book, where what it comes to is pinned, or not read it:
    /// what stands for the messages shows it.
    async fn may_offload(&self, actor: &Actor, thread: &ThreadKey) -> Result<(), WorkspaceError> {
        let within = matches!(actor.role, Role::Client | Role::Compactor) && *self.thread() == *thread;
        let what = "the history of the thread";
        let (_, book) = scratchbook::page_of(self.space(), thread);
        let allowed = match self.sight().await?.takes_in_page(&book) {
            true => roles::may(actor, Operation::Pages, within, what),
            false => Err(Denied {
                role: actor.role,
                operation: Operation::Read,
                what: what.to_owned(),
            }),
        };
        allowed.map_err(|denied| {
            let refused = WorkspaceError::Refused(denied);
            self.note_refusal_of(actor, "history", "offload", &refused);
            refused
        })
    }

    /// Puts `messages` away with what they come to, unless that was done before.
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
        // What they come to is found in what is kept.
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
            // What stands behind the last was archived or forgotten, or put away by somebody since the blocks were read.
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
            // A thread may be called whatever somebody likes, and a key may not.
            let key = EntryId::derived(&["offload", &thread.0, &fingerprint, &number.to_string()]);
            let write = Write {
                idempotency_key: Some(format!("offload:{key}")),
                reason: Some("a conversation outgrew its window".to_owned()),
                ..Write::of(changes)
            };
            match self.in_thread(thread).record(&compactor_for(actor), write).await {
                // Whoever was quicker may have put away the very same.
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
                // Somebody else has put something away meanwhile, under the same number.
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
        let is_external = |tool: &str| of_tool(tool) == Trust::ToolExternal;
        let found = extract(before, messages, &is_external).within(BODY_BYTES);
        let open = self.open_items(work).await?;
        let summary = Summary {
            texts: [found.summary(), found.next_actions(&open).join("\n")],
            found: Some(&found),
            // What strangers said is not in it; what other tools said may be.
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

    /// The text of the message that stands for what was put away: which messages those are, the summary, what is to be done
    /// next, and the view of the book. Costs at most what is allowed.
    async fn standing_for(
        &self,
        thread: &ThreadKey,
        block: &Block,
        room: u32,
        how: &Offload,
    ) -> Result<String, WorkspaceError> {
        let head = stand_in_head(block.to, block.handle);
        let request = ViewRequest {
            view_token_limit: Some(room / 2),
            besides: vec![block.summary, block.next_actions],
            ..ViewRequest::of(thread.clone())
        };
        let view = match &how.open_work {
            None => self.view(request, &*how.tokens).await?.rendered.text.clone(),
            Some(_) => String::new(),
        };
        let view = view.trim_end();
        let summary = self.read_entry(Ref::Handle(block.summary)).await?;
        let next = self.read_entry(Ref::Handle(block.next_actions)).await?;
        let fits = |text: &str| how.tokens.count(text) <= room;
        // Open work can be asked for where there is room only for what was said.
        for view in [view, ""] {
            let whole = |parts: &[String; 2]| {
                let text = format!("{head}\n\n{}\n\n{view}", parts.join("\n\n"));
                text.trim_end().to_owned()
            };
            if let Some(text) = told(told_of(&summary), told_of(&next), whole, fits) {
                return Ok(text);
            }
        }
        let shorter = [head, format!("[{}]", block.handle)];
        Ok(shorter.into_iter().find(|text| fits(text)).unwrap_or_default())
    }

    /// Tasks and todos that are not done, a line for each.
    async fn open_items(&self, thread: &ThreadKey) -> Result<Vec<String>, WorkspaceError> {
        let filter = BookFilter {
            kinds: vec![EntryKind::Task, EntryKind::Todo],
            status: vec![Status::Open, Status::InProgress, Status::Blocked],
            limit: usize::MAX,
            ..BookFilter::default()
        };
        let items = self.book_items(thread, filter).await?.items;
        let now = self.now();
        let is_work = |item: &&Entry| {
            let is_ours = item.fields.tags.iter().any(|tag| tag.as_str() == TAG);
            !is_ours && item.state(now) == folio_memory::State::Live
        };
        let open = items.iter().filter(is_work).take(OPEN_ITEMS);
        Ok(open
            .map(|item| format!("{} {}", item.handle, item.fields.title))
            .collect())
    }
}

fn told_of(entry: &Entry) -> Told<'_> {
    Told {
        title: &entry.fields.title,
        handle: entry.handle,
        body: &entry.fields.body,
    }
}

fn cost(messages: impl Iterator<Item = Value>, tokens: &dyn Tokens) -> u32 {
    messages.fold(0_u32, |sum, message| {
        sum.saturating_add(tokens.count(&message.to_string()))
    })
}
