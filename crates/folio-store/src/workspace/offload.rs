//! A conversation that outgrows its window: its older messages are kept in the history of its thread, and a summary with what is
//! to be done next goes into the thread's book (M7.8 V8, seed 003 A6).

mod compactor;

use std::sync::Arc;
use std::time::Duration;

use folio_memory::entry::{Owner, Tag, check_text};
use folio_memory::id::Ref;
use folio_memory::link::{Link, Relation};
use folio_memory::offload::{
    BlockIds, Extract, Message, Told, cut, extract, is_stand_in, page_of, stand_in_head, told,
};
use folio_memory::roles::Operation;
use folio_memory::tokens::{Estimate, Tokens};
use folio_memory::trace::FAILED;
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryHandle, EntryId, EntryKind, FieldChange, Invalid, NewEntry, NewPage,
    PageId, Role, ThreadKey, Warning, scratchbook,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub use compactor::{Compacted, Compactor, Desk};

use super::redact::Cleaner;
use super::view::ViewRequest;
use super::{BookFilter, Workspace, WorkspaceError, Write, source_of, trust_of};
use crate::error::StoreError;

/// Blocks in a row that may have been archived or forgotten.
const GONE_MAX: usize = 10_000;
/// How often an offload is tried again because somebody else offloads the same thread.
const ATTEMPTS: u32 = 8;
/// Bytes of the bodies of a summary and of what is to be done next.
const BODY_BYTES: usize = 16 * 1024;
/// Open items that are named among what is to be done next.
const OPEN_ITEMS: usize = 12;
/// Messages that one reading of history gives.
const READ_MAX: u64 = 10_000;

/// A compactor at work: it ends when nobody waits for it any more.
struct Working(JoinHandle<Result<Compacted, String>>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

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

/// A range of what was said.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The messages with their numbers, counted from 1.
    pub messages: Vec<(u64, Value)>,
    /// How many there are in all.
    pub total: u64,
    /// The first that is not given here.
    pub next: Option<u64>,
}

/// A block as its entry holds it.
#[derive(Debug)]
struct Kept {
    /// Its place among all that were ever put away; those that were archived or forgotten since keep theirs.
    number: usize,
    entry: Entry,
    from: u64,
    to: u64,
    fingerprint: String,
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
    /// `Invalid` if `list` is no list of messages, the share is not from 0 to 1, or there are more than 16 MiB to put away; `Refused`; `Unavailable`.
    pub async fn offload(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        list: &Value,
        how: &Offload,
    ) -> Result<Offloaded, WorkspaceError> {
        self.authorise(actor, Operation::Add, "the history of a thread", ("history", "offload"))?;
        if !(0.0..=1.0).contains(&how.share) {
            let message = format!("{} is not from 0 to 1", how.share);
            return Err(Invalid::new("share_invalid", "share", message).into());
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
        let stands_for = self.standing_for(thread, &block, how).await?;
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
                Ok(_) => {
                    let kept = self.blocks(thread).await?;
                    if let Some(block) = kept.iter().find(|block| block.number == number) {
                        return Ok((self.block(thread, block, false).await?, warnings));
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
        let mut fields = EntryFields::new(EntryKind::Log, Owner::agent(), trust_of(actor));
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
        let found = extract(before, messages).within(BODY_BYTES);
        let open = self.open_items(work).await?;
        let texts = [found.summary(), found.next_actions(&open).join("\n")];
        let before = match kept.last() {
            Some(block) => self.in_force(thread, block.number).await?,
            None => None,
        };
        self.push_summary(
            actor,
            thread,
            (first, last),
            (texts, Some(&found)),
            (ids.block, ids.extracted),
            before,
            &mut changes,
        )
        .await?;
        Ok(changes)
    }

    /// What was found in all that was put away before, so that the next offload goes on from there.
    ///
    /// It stands beside the summary that was made without a model. Earlier versions did not put it there: for their blocks it is found
    /// anew.
    async fn found_before(&self, thread: &ThreadKey, kept: &[Kept]) -> Result<Extract, WorkspaceError> {
        let mut found = Extract::default();
        let mut anew = Vec::new();
        for block in kept.iter().rev() {
            let ids = BlockIds::of(self.space(), thread, block.number);
            let summary = self.entry_if_there(ids.extracted[0]).await?;
            // What was forgotten does not come back.
            if summary.as_ref().is_some_and(|summary| summary.fields.erased.is_some()) {
                break;
            }
            if let Some(known) = summary.as_ref().and_then(|summary| found_in(&summary.fields)) {
                found = known;
                break;
            }
            anew.push(block);
        }
        for block in anew.into_iter().rev() {
            let text = self.whole_text(&block.entry).await?;
            let given = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect();
            found = extract(found, &Message::read_all(&Value::Array(given)).unwrap_or_default());
        }
        Ok(found)
    }

    /// Adds a summary and what is to be done next, in the place of those before.
    #[expect(
        clippy::too_many_arguments,
        reason = "a summary has these parts; a struct would be filled in once"
    )]
    async fn push_summary(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        (first, last): (u64, u64),
        (texts, found): ([String; 2], Option<&Extract>),
        (block, ids): (EntryId, [EntryId; 2]),
        before: Option<[Entry; 2]>,
        changes: &mut Vec<Change>,
    ) -> Result<(), WorkspaceError> {
        let (book, book_fields) = scratchbook::page_of(self.space(), thread);
        changes.push(Change::EnsurePage(Box::new(NewPage {
            id: book,
            fields: book_fields,
        })));
        let rank = u32::try_from(self.head().await?.0.saturating_add(1)).unwrap_or(u32::MAX);
        let titles = [
            format!("Summary of messages {first} to {last} of this conversation"),
            "Next actions".to_owned(),
        ];
        let parts = ids.into_iter().zip(titles).zip(texts);
        for (index, ((id, title), text)) in parts.enumerate() {
            let found = found.filter(|_| index == 0);
            let new = summary_entry(actor, book, id, title, text, (first, last, rank), (index == 0, found))?;
            changes.push(Change::AddEntry(Box::new(new)));
            changes.push(link(id, Relation::DerivedFrom, block));
            // What was forgotten stays as it is.
            let old = before.as_ref().map(|before| &before[index]);
            if let Some(old) = old.filter(|old| old.fields.erased.is_none()) {
                changes.push(Change::PatchEntry {
                    entry: old.id,
                    fields: vec![FieldChange::SupersededBy(Some(id))],
                    expected_version: None,
                    base_version: None,
                });
                changes.push(link(id, Relation::Supersedes, old.id));
            }
        }
        Ok(())
    }

    /// Lets the compactor put the summary of `block` better. That he fails changes nothing; it is noted, and told as a warning.
    async fn put_better(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        block: &mut Block,
        compactor: &Arc<dyn Compactor>,
        time: Duration,
    ) -> Result<Option<Warning>, WorkspaceError> {
        // It reads what its role may: the pages of this thread.
        let sight = self.asked_by(&compactor_for(actor)).in_thread(thread);
        let desk = Desk::new(sight, thread.clone(), block.clone());
        let compactor = Arc::clone(compactor);
        // In a task of its own, so that it can break without breaking what it was called from.
        let mut working = Working(tokio::spawn(async move { compactor.compact(&desk).await }));
        let compacted = match tokio::time::timeout(time, &mut working.0).await {
            Ok(Ok(Ok(compacted))) if !compacted.summary.trim().is_empty() => compacted,
            failed => {
                drop(working);
                let why = match failed {
                    Err(_) => "it took too long".to_owned(),
                    Ok(Err(_)) => "it broke".to_owned(),
                    Ok(Ok(Err(why))) => why,
                    Ok(Ok(Ok(_))) => "it said nothing".to_owned(),
                };
                let mut note = self.noted("history", "compact").with_detail(json!({"error": why}));
                FAILED.clone_into(&mut note.status);
                self.note(note);
                let message = format!("the compactor did not put the summary: {why}; what was found without it stands");
                return Ok(Some(Warning::new(
                    "compactor_failed",
                    message,
                    "a compactor",
                    "what was found without it",
                )));
            }
        };
        let kept = self.blocks(thread).await?;
        let Some(known) = kept.iter().find(|known| known.entry.handle == block.handle) else {
            return Ok(None);
        };
        let number = known.number;
        let ids = BlockIds::of(self.space(), thread, number);
        let before = self.in_force(thread, number).await?;
        if before
            .as_ref()
            .is_some_and(|before| before[0].fields.superseded_by.is_some())
        {
            // A later offload has taken its place already.
            return Ok(None);
        }
        let mut changes = Vec::new();
        let texts = [compacted.summary, compacted.next_actions.join("\n")];
        let range = (block.from, block.to);
        self.push_summary(
            actor,
            thread,
            range,
            (texts, None),
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
        *block = self.block(thread, known, block.replayed).await?;
        Ok(None)
    }

    /// The text of the message that stands for what was put away: which messages those are, the summary, what is to be done
    /// next, and the view of the book. Costs at most what is allowed.
    async fn standing_for(&self, thread: &ThreadKey, block: &Block, how: &Offload) -> Result<String, WorkspaceError> {
        let head = stand_in_head(block.to, block.handle);
        let request = ViewRequest {
            view_token_limit: Some(how.summary_tokens / 2),
            ..ViewRequest::of(thread.clone())
        };
        let view = match &how.open_work {
            None => self.view(request, &*how.tokens).await?.rendered.text.clone(),
            Some(_) => String::new(),
        };
        let view = view.trim_end();
        let summary = self.read_entry(Ref::Handle(block.summary)).await?;
        let next = self.read_entry(Ref::Handle(block.next_actions)).await?;
        let fits = |text: &str| how.tokens.count(text) <= how.summary_tokens;
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

    /// What was said in `thread` and was put away: the messages from one number to another, both included and counted from 1.
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
    async fn blocks(&self, thread: &ThreadKey) -> Result<Vec<Kept>, WorkspaceError> {
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

    /// The number of the next block of `thread`, behind `last` and those that are not there any more, and of its first message.
    async fn next_block(&self, thread: &ThreadKey, last: Option<&Kept>) -> Result<(usize, u64), WorkspaceError> {
        let (mut number, mut first) = last.map_or((0, 1), |last| (last.number + 1, last.to + 1));
        while let Some(gone) = self
            .entry_if_there(BlockIds::of(self.space(), thread, number).block)
            .await?
        {
            let to = gone.fields.parts.as_ref().and_then(|parts| parts.get("to")?.as_u64());
            first = first.max(to.map_or(0, |to| to + 1));
            number += 1;
        }
        Ok((number, first))
    }

    /// What the block with this number comes to: as a compactor put it, or as it was found without one.
    async fn in_force(&self, thread: &ThreadKey, number: usize) -> Result<Option<[Entry; 2]>, WorkspaceError> {
        let ids = BlockIds::of(self.space(), thread, number);
        for [summary, next] in [ids.compacted, ids.extracted] {
            let found = (self.entry_if_there(summary).await?, self.entry_if_there(next).await?);
            if let (Some(summary), Some(next)) = found {
                return Ok(Some([summary, next]));
            }
        }
        Ok(None)
    }

    async fn entry_if_there(&self, id: EntryId) -> Result<Option<Entry>, WorkspaceError> {
        match self.read_entry(Ref::Id(id)).await {
            Ok(entry) => Ok(Some(entry)),
            Err(WorkspaceError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn block(&self, thread: &ThreadKey, kept: &Kept, replayed: bool) -> Result<Block, WorkspaceError> {
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

    /// Tasks and todos that are not done, a line for each.
    async fn open_items(&self, thread: &ThreadKey) -> Result<Vec<String>, WorkspaceError> {
        let filter = BookFilter {
            kinds: vec![EntryKind::Task, EntryKind::Todo],
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

/// What the entries of an offload are tagged with.
const TAG: &str = "offload";
/// Where the metadata of a summary has what it says, for the next offload.
const FOUND: &str = "found";

/// What a summary that was made without a model has for the next offload.
fn found_in(fields: &EntryFields) -> Option<Extract> {
    let found = fields.metadata.as_ref()?.get(FOUND)?;
    let found: Extract = serde_json::from_value(found.clone()).ok()?;
    Some(found.still_in(&fields.body))
}

fn told_of(entry: &Entry) -> Told<'_> {
    Told {
        title: &entry.fields.title,
        handle: entry.handle,
        body: &entry.fields.body,
    }
}

fn summary_entry(
    actor: &Actor,
    book: PageId,
    id: EntryId,
    title: String,
    mut text: String,
    (first, last, rank): (u64, u64, u32),
    (is_summary, found): (bool, Option<&Extract>),
) -> Result<NewEntry, WorkspaceError> {
    let kind = if is_summary { EntryKind::Note } else { EntryKind::Todo };
    let mut fields = EntryFields::new(kind, Owner::agent(), trust_of(&compactor_for(actor)));
    text.truncate(text.floor_char_boundary(BODY_BYTES));
    fields.title = title;
    fields.body = text;
    fields.tags = Tag::parse_all([TAG])?;
    let mut metadata = json!({"history": {"from": first, "to": last}});
    if let Some(found) = found {
        metadata[FOUND] = json!(found);
    }
    fields.metadata = Some(metadata);
    fields.pin_rank = Some(rank);
    fields.source = source_of(&compactor_for(actor));
    Ok(NewEntry {
        id,
        page: book,
        kind,
        fields,
    })
}

fn link(src: EntryId, rel: Relation, dst: EntryId) -> Change {
    Change::AddLink(Link {
        src: src.to_string(),
        rel,
        dst: dst.to_string(),
    })
}

/// Who writes what an offload writes: the same for everybody, so that the next can take the place of the last.
fn compactor_for(actor: &Actor) -> Actor {
    Actor {
        role: Role::Compactor,
        name: "offload".to_owned(),
        ..actor.clone()
    }
}

fn cost(messages: impl Iterator<Item = Value>, tokens: &dyn Tokens) -> u32 {
    messages.fold(0_u32, |sum, message| {
        sum.saturating_add(tokens.count(&message.to_string()))
    })
}
