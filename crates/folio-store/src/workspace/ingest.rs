//! Takes in a tool's answer, item by item (M7.3.23 to 27): an invalid item does not affect the others, and nothing that
//! goes wrong here affects the answer itself.

use std::time::Duration;

use folio_memory::entry::EntryFields;
use folio_memory::observation::{self, NewTypes};
use folio_memory::tool_exchange::{
    Bound, Channel, Content, Correction, Proposed, Rejection, ToolManifest, ToolResponse, sift,
};
use folio_memory::trace::{REJECTED, WARNING};
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryKind, NewEntry, PageId, Source, ThreadKey, Timestamp, TraceNote, TurnId,
    Warning, scratchbook,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::outbox::Spooled;
use super::{Workspace, WorkspaceError, Write, long_text, redact, source_of};
use crate::error::{ErrorKind, StoreError};

/// How long an answer waits for the store altogether; then it goes into the outbox. Callers wait for longer, so that
/// they hear of that.
const STORE_TIME: Duration = Duration::from_secs(12);
/// How long, of this, it waits for older answers in the outbox to be delivered.
const DELIVERY_TIME: Duration = Duration::from_secs(6);

/// How often a batch is retried without the items that turned out to exist already.
const ATTEMPTS: u32 = 4;

/// Where an answer belongs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IngestContext {
    /// The turn in which the tool was called; by default the actor's.
    pub turn: Option<TurnId>,
    /// The name of the call within its turn; by default the request that the answer names.
    pub call: Option<String>,
    /// The idempotency key of the request that brings the answer. Outside a turn it names the call; within one, where
    /// names belong to the turn, only if nothing else does.
    pub key: Option<String>,
    /// The thread into whose scratchbook the tool's memory writes go; by default the main one.
    pub thread: Option<ThreadKey>,
    /// The node of a run's tree that made the call.
    pub node: Option<String>,
}

/// The outcome of taking in an answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Ingested {
    /// The entries now in memory, in the order of their items, including those of an earlier call with the same answer.
    pub stored: Vec<Entry>,
    /// The items that were rejected, and why.
    pub rejected: Vec<Rejection>,
    /// Values that were corrected.
    pub warnings: Vec<Correction>,
    /// How many of the stored entries existed already, because the same answer was taken in before.
    pub replayed: usize,
    /// How many could not be written now, and wait in the outbox for the next turn (M7.3.26).
    pub spooled: usize,
}

/// An item that is ready to be written.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    pub(super) channel: Channel,
    pub(super) index: usize,
    pub(super) new: Box<NewEntry>,
    /// The change that must come before it: the registration of its type.
    pub(super) registers: Option<Change>,
}

/// Where and when items are written, and what is known of the store.
struct Destination<'c> {
    thread: Option<&'c ThreadKey>,
    at: Timestamp,
    store: StoreState,
}

/// What is known of the store before an answer is written.
enum StoreState {
    /// It could not take what is older, so that it is not tried again.
    Away,
    /// It is waited for until then.
    AwaitedUntil(Instant),
    /// It is waited for: there is no other place.
    Awaited,
}

/// The outcome of writing items.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) stored: Vec<Entry>,
    pub(super) replayed: usize,
    pub(super) rejected: Vec<Rejection>,
    pub(super) warnings: Vec<Warning>,
    /// Corrections for items that the same call gave before in other words; the earlier words stand.
    pub(super) repeated: Vec<Correction>,
}

impl Workspace {
    /// Takes in the answer of a tool: its observations, what it was told to write on the scratch page, and what is
    /// worth keeping for longer, which becomes notes in the thread's scratchbook.
    ///
    /// Never fails. An invalid item is rejected and traced; the others are stored. The same answer to the same call is
    /// stored once, however often it comes. If the store cannot be written, or takes longer than twelve seconds, the
    /// items wait in the outbox and are delivered once, at the next turn or with the next answer; without an outbox
    /// they are rejected with `storage_failed`. As long as older answers cannot be delivered, later ones wait behind
    /// them.
    pub async fn ingest(&self, actor: &Actor, response: &ToolResponse, context: &IngestContext) -> Ingested {
        let started = Instant::now();
        // Items in the outbox are older than this answer. Why they still wait is traced separately.
        let is_away = !self.older_are_delivered(started + DELIVERY_TIME).await;
        // Without an outbox there is nothing to do but wait.
        let until = self.outbox().map(|_| started + STORE_TIME);
        let actor = match context.turn {
            Some(turn) if actor.turn.is_none() => actor.clone().in_turn(turn),
            _ => actor.clone(),
        };
        let manifest = match until {
            _ if is_away => self.known_manifest_of(&actor.name),
            Some(until) => match timeout_at(until, self.manifest_of(&actor.name)).await {
                Ok(manifest) => manifest,
                Err(_) => self.known_manifest_of(&actor.name),
            },
            None => self.manifest_of(&actor.name).await,
        };
        let mut channels = vec![(Channel::Observations, &response.observations)];
        let mut ingested = Ingested {
            warnings: response.misspelt_channels(),
            ..Ingested::default()
        };
        for (channel, items) in [
            (Channel::ScratchPageWrites, &response.scratch_page_writes),
            (Channel::MemoryWrites, &response.memory_writes),
        ] {
            if response.has_failed() {
                // What a failed call noticed is worth keeping; the writes it was told to make are rejected.
                let count = items.as_array().map_or(0, Vec::len);
                let message = "the call failed, so what it was told to write is not written";
                ingested
                    .rejected
                    .extend((0..count).map(|index| Rejection::new(channel, index, "call_failed", message)));
            } else {
                channels.push((channel, items));
            }
        }
        let sifted = sift(&channels, &actor.name, &manifest);
        ingested.rejected.extend(sifted.rejected);
        let now = self.now();
        let call = call_of(&actor, response, context);
        let (mut ready, mut new_types) = (Vec::new(), NewTypes::default());
        for proposed in sifted.proposed {
            let (channel, index) = (proposed.channel, proposed.index);
            let id = self.id_of(call.as_deref(), &proposed, now);
            match self.draft((&actor, &manifest), proposed, id, context, now, &mut new_types) {
                Ok((item, warnings)) => {
                    let corrections = warnings.into_iter().map(|warning| Correction {
                        index,
                        channel,
                        warning,
                    });
                    ingested.warnings.extend(corrections);
                    ready.push(item);
                }
                Err(invalid) => ingested.rejected.push(Rejection::of(channel, index, &invalid)),
            }
        }
        let place = Destination {
            thread: context.thread.as_ref(),
            at: now,
            store: match until {
                _ if is_away => StoreState::Away,
                Some(until) => StoreState::AwaitedUntil(until),
                None => StoreState::Awaited,
            },
        };
        self.write_or_spool(&actor, ready, &place, &mut ingested).await;
        ingested
            .rejected
            .sort_by_key(|rejection| (rejection.channel, rejection.index));
        self.note_ingested(&actor, &ingested);
        ingested
    }

    /// The manifest of a tool, as far as it is known: an unreadable store is no reason to reject the answer.
    pub(super) async fn manifest_of(&self, tool: &str) -> ToolManifest {
        match self.policy().await {
            Ok(policy) => policy.manifests.of(tool),
            Err(_) => self.known_manifest_of(tool),
        }
    }

    /// The manifest of a tool by the policy as it was last read.
    fn known_manifest_of(&self, tool: &str) -> ToolManifest {
        let known = self.inner.policy.lock();
        known.manifests.of(tool)
    }

    /// The same item of the same answer gets the same id, so it is stored once (M7.3.26). Within a turn, the call and
    /// the place identify it. Outside a turn the key of the request and the place do; without a key, where different
    /// calls may have the same name, its content does too.
    fn id_of(&self, call: Option<&str>, proposed: &Proposed, now: Timestamp) -> EntryId {
        let Some(call) = call else {
            return EntryId::draw(&*self.inner.ids, now);
        };
        let place = format!("{}[{}]", proposed.channel, proposed.index);
        EntryId::derived(&["ingest", self.space().as_str(), call, &place])
    }

    fn draft(
        &self,
        (actor, manifest): (&Actor, &ToolManifest),
        proposed: Proposed,
        id: EntryId,
        context: &IngestContext,
        now: Timestamp,
        new_types: &mut NewTypes,
    ) -> Result<(Ready, Vec<Warning>), folio_memory::Invalid> {
        let (channel, index) = (proposed.channel, proposed.index);
        let source = Source {
            channel: Some(channel.as_str().to_owned()),
            node: context.node.clone(),
            ..source_of(actor)
        };
        let mut registers = None;
        let mut warnings = Vec::new();
        let (page, kind, fields): (PageId, EntryKind, EntryFields) = match proposed.content {
            Content::Observation(input) => {
                let policy = self.inner.policy.lock().clone();
                let input_bound = Bound::of(&input);
                let unknown = new_types.unknown_type(&policy, actor.role, &input);
                let draft = observation::draft(*input, policy.types(), unknown, manifest.trust(), source, now)?;
                new_types.note(&draft);
                let mut fields = draft.fields;
                warnings.extend(draft.warnings);
                let name = fields.type_name.clone().unwrap_or_default();
                let ttl = policy.types().get(&name).and_then(|known| known.default_ttl);
                warnings.extend(manifest.bound(&mut fields, &input_bound, ttl, now));
                registers = draft.registers.map(|as_type| Change::RegisterType { name, as_type });
                (observation::page_of(self.space()).0, EntryKind::Observation, fields)
            }
            Content::Memory(input) => {
                let kind = input.kind;
                let (mut fields, corrected) = scratchbook::draft(input, manifest.trust())?;
                warnings.extend(corrected);
                fields.source = source;
                let thread = context.thread.clone().unwrap_or_else(ThreadKey::main);
                (scratchbook::page_of(self.space(), &thread).0, kind, fields)
            }
        };
        let new = Box::new(NewEntry { id, page, kind, fields });
        let ready = Ready {
            channel,
            index,
            new,
            registers,
        };
        Ok((ready, warnings))
    }

    async fn write_or_spool(&self, actor: &Actor, ready: Vec<Ready>, place: &Destination<'_>, ingested: &mut Ingested) {
        if ready.is_empty() {
            return;
        }
        let writing = self.write_items(actor, &ready, place.thread, place.at);
        // What is written all the same, after nobody waits for it any more, has these ids and is not written again.
        let written = match place.store {
            StoreState::Away => Err("older answers wait for the store".to_owned()),
            StoreState::AwaitedUntil(until) => match timeout_at(until, writing).await {
                Ok(written) => written.map_err(|error| error.to_string()),
                Err(_) => Err(format!("the store did not answer within {} s", STORE_TIME.as_secs())),
            },
            StoreState::Awaited => writing.await.map_err(|error| error.to_string()),
        };
        match written {
            Ok(batch) => {
                ingested.stored = batch.stored;
                ingested.replayed = batch.replayed;
                ingested.rejected.extend(batch.rejected);
                ingested.warnings.extend(batch.repeated);
                // A secret may be in any of the items; the text of the warning says where.
                ingested
                    .warnings
                    .extend(batch.warnings.into_iter().map(|warning| Correction {
                        index: 0,
                        channel: ready[0].channel,
                        warning,
                    }));
            }
            Err(error) => {
                let spooled = Spooled::of(self.space(), actor, place.thread, place.at, &ready);
                match self.spool(spooled).await {
                    Ok(()) => ingested.spooled = ready.len(),
                    Err(reason) => {
                        let message = format!("{error}; {reason}");
                        let failed_items = ready.iter();
                        let rejections = failed_items
                            .map(|item| Rejection::new(item.channel, item.index, "storage_failed", &*message));
                        ingested.rejected.extend(rejections);
                    }
                }
            }
        }
    }

    /// Writes the items of `ready` that do not exist yet. Fails only if the store cannot be written.
    pub(super) async fn write_items(
        &self,
        actor: &Actor,
        ready: &[Ready],
        thread: Option<&ThreadKey>,
        at: Timestamp,
    ) -> Result<Batch, WorkspaceError> {
        let mut batch = Batch::default();
        let mut left: Vec<&Ready> = ready.iter().collect();
        let mut attempt = 1;
        while !left.is_empty() {
            match self.write_all(actor, &left, thread, at).await {
                Ok((entries, warnings)) => {
                    batch.stored.extend(entries);
                    batch.warnings.extend(warnings);
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Unavailable || error.kind() == ErrorKind::Corrupt => {
                    return Err(error);
                }
                Err(error) => {
                    let before = left.len();
                    let (found, repeated) = self.take_existing(actor, &mut left).await?;
                    batch.replayed += found.len();
                    batch.repeated.extend(repeated);
                    batch.stored.extend(found);
                    if left.len() < before && attempt < ATTEMPTS {
                        attempt += 1;
                    } else if left.len() == 1 {
                        let item = left[0];
                        let code = match &error {
                            WorkspaceError::Store(_) | WorkspaceError::Input(_) | WorkspaceError::Output(_) => {
                                "not_accepted"
                            }
                            error => error.code(),
                        };
                        let rejection = Rejection::new(item.channel, item.index, code, error.to_string());
                        batch.rejected.push(rejection);
                        break;
                    } else {
                        // One of the items is more than the store accepts, so each is written on its own.
                        for item in std::mem::take(&mut left) {
                            let single_item = std::slice::from_ref(item);
                            let written = Box::pin(self.write_items(actor, single_item, thread, at)).await?;
                            batch.replayed += written.replayed;
                            batch.stored.extend(written.stored);
                            batch.rejected.extend(written.rejected);
                            batch.warnings.extend(written.warnings);
                            batch.repeated.extend(written.repeated);
                        }
                    }
                }
            }
        }
        batch.stored.sort_by_key(|entry| entry.handle);
        Ok(batch)
    }

    /// Writes all of `items` in one commit.
    async fn write_all(
        &self,
        actor: &Actor,
        items: &[&Ready],
        thread: Option<&ThreadKey>,
        at: Timestamp,
    ) -> Result<(Vec<Entry>, Vec<Warning>), WorkspaceError> {
        let mut changes = Vec::new();
        if items.iter().any(|item| item.channel != Channel::MemoryWrites) {
            changes.extend(self.scratch_page().await?.1);
        }
        if items.iter().any(|item| item.channel == Channel::MemoryWrites) {
            let thread = thread.cloned().unwrap_or_else(ThreadKey::main);
            let (page, fields) = scratchbook::page_of(self.space(), &thread);
            changes.extend(self.ensured(page, || fields).await?);
        }
        for item in items {
            changes.extend(item.registers.clone());
            changes.push(Change::AddEntry(item.new.clone()));
        }
        let write = Write {
            // Lifetimes count from this instant: an entry with a lifetime of zero expires when it is recorded (M7.1.3).
            at: Some(at),
            ..Write::of(changes)
        };
        let recorded = self.record(actor, write).await?;
        let committed = recorded.committed;
        let entries = recorded.record.changes.into_iter().filter_map(|change| {
            let Change::AddEntry(new) = change else { return None };
            let entry = committed.entries.iter().find(|entry| entry.id == new.id)?;
            Some(Entry::added(*new, entry.handle, committed.seq, committed.at))
        });
        Ok((entries.collect(), recorded.warnings))
    }

    /// Removes from `items` those that exist already and returns their entries, with a correction for each whose
    /// content differs by now: a caller that gives two calls the same name would not notice otherwise that the second
    /// one is lost. For an entry that `actor` neither wrote nor may read there is only the correction.
    async fn take_existing(
        &self,
        actor: &Actor,
        items: &mut Vec<&Ready>,
    ) -> Result<(Vec<Entry>, Vec<Correction>), WorkspaceError> {
        let (mut found, mut repeated) = (Vec::new(), Vec::new());
        for item in std::mem::take(items) {
            match self.read_entry(folio_memory::id::Ref::Id(item.new.id)).await {
                Ok(entry) => {
                    let is_shown = match self.check_change(actor, "add_observation", &entry).await {
                        Ok(()) => true,
                        Err(WorkspaceError::Refused(_)) => false,
                        Err(error) => return Err(error),
                    };
                    if !is_shown || self.differs_from_original(item, &entry).await? {
                        let message = format!(
                            "the same call was taken in before with something else in this place: {} stands; name the \
                             call differently if it is another",
                            entry.handle
                        );
                        repeated.push(Correction {
                            index: item.index,
                            channel: item.channel,
                            warning: Warning::new("call_repeated", message, "", entry.handle.to_string()),
                        });
                    }
                    found.extend(Some(entry).filter(|_| is_shown));
                }
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => items.push(item),
                Err(error) => return Err(error),
            }
        }
        Ok((found, repeated))
    }

    /// Whether `item` differs from what `entry` said when it was added. If the entry was changed since, that is unknown
    /// and counts as equal.
    async fn differs_from_original(&self, item: &Ready, entry: &Entry) -> Result<bool, WorkspaceError> {
        let mut new = (*item.new).clone();
        redact::clean_new(&mut new, None, self.redaction().await?);
        long_text::shorten(&mut new.fields);
        let content_of = |fields: &EntryFields| (fields.type_name.clone(), fields.title.clone(), fields.body.clone());
        Ok(entry.version == 1 && content_of(&new.fields) != content_of(&entry.fields))
    }

    fn note_ingested(&self, actor: &Actor, ingested: &Ingested) {
        let note = |operation| TraceNote::new(self.now(), actor, "scratch_page", operation);
        for rejection in &ingested.rejected {
            self.note(
                note("add_observation")
                    .with_status(REJECTED)
                    .with_detail(json!(rejection)),
            );
        }
        for correction in &ingested.warnings {
            self.note(
                note("add_observation")
                    .with_status(WARNING)
                    .with_detail(json!(correction)),
            );
        }
        if ingested.spooled > 0 {
            let detail = json!({"items": ingested.spooled});
            self.note(note("spool_observations").with_status(WARNING).with_detail(detail));
        }
        if ingested.replayed > 0 {
            let detail = json!({"items": ingested.replayed});
            self.note(note("ingest_again").with_detail(detail));
        }
    }
}

/// Identifies the call; `None` if nobody named it: then every answer counts as a new one.
fn call_of(actor: &Actor, response: &ToolResponse, context: &IngestContext) -> Option<String> {
    let turn = context.turn.or(actor.turn);
    if let (None, Some(key)) = (turn, &context.key) {
        return Some(json!([null, actor.name, { "key": key }]).to_string());
    }
    let named = context.call.as_deref().unwrap_or(&response.request_id);
    let call = match named {
        "" => context.key.as_deref().unwrap_or_default(),
        named => named,
    };
    if call.is_empty() {
        return None;
    }
    let call_key = match turn {
        Some(turn) => json!([turn.to_string(), actor.name, call]),
        None => {
            let items: [&Value; 3] = [
                &response.observations,
                &response.scratch_page_writes,
                &response.memory_writes,
            ];
            json!([null, actor.name, call, items])
        }
    };
    Some(call_key.to_string())
}
