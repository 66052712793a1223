//! The only writer of memory: validates, authorises, stamps, redacts and commits.
//!
//! Tools, surfaces, the program and the runner all write through a [`Workspace`]: one space of one store, with the
//! clock and the id source that stamp what is written. It also offers reads, so a caller with a workspace needs no
//! store.

mod answer_cache;
mod authorise;
mod book;
mod clean;
mod consolidate;
mod context;
mod ended;
mod error;
mod evict;
mod files;
mod follow;
mod forget;
mod goals;
mod ingest;
mod known;
mod life;
mod long_text;
mod notes;
mod observations;
mod offload;
mod operation_notes;
mod outbox;
mod pages;
mod parts;
mod passages;
mod patch;
mod personal;
mod policy;
mod reads;
mod receipts;
mod record;
mod redact;
mod scratch;
mod sight;
mod tidy;
mod tool_context;
mod trace;
mod transfer;
mod turn;
mod view;
mod work;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use folio_memory::actor::Source;
use folio_memory::history::FieldConflict;
use folio_memory::keeping::Redaction;
use folio_memory::turn::Stages;
use folio_memory::{
    Actor, Change, Clock, Entry, IdSource, NewPage, PageFields, PageId, Role, SpaceName, ThreadKey, Timestamp, Trust,
    TurnId, Warning,
};
use parking_lot::Mutex;
use serde::Serialize;

pub use answer_cache::Moment;
pub use book::BookFilter;
pub use consolidate::{Consolidated, Successor};
pub use context::ContextRequest;
pub use error::WorkspaceError;
pub use evict::{Evicted, Eviction, KeptResult};
pub use follow::{LogFollower, LogNews};
pub use forget::{ForgetFilter, Forgotten};
pub use goals::GoalState;
pub use ingest::{IngestContext, Ingested};
pub use notes::NotesState;
pub use observations::{DraftedObservation, MAX_ACTIVE};
pub use offload::{Block, Compacted, Compactor, Desk, Offload, Offloaded, Said};
pub use outbox::Delivered;
pub use pages::{AddedPage, PageInput, TreeNode};
pub use patch::Guard;
pub use policy::{PolicyInForce, PolicySet};
pub use reads::EntryPlace;
pub use receipts::KeptReceipt;
pub use record::{Recorded, Write};
use redact::Cleaner;
pub use redact::{keep_out, keep_out_variable};
pub use scratch::{ScratchAnswer, ScratchCaller};
pub use tidy::Tidied;
pub use trace::{TraceEntry, TracePart, TraceQuery};
pub use transfer::{Fate, ImportOptions, Imported, Outgoing, Remark};
pub use turn::{
    Advice, Advisor, After, Before, Begun, DraftedTurn, Ended, Episode, EpisodeQuery, Episodes, ExportReader, Exported,
    ExportedEntries, Questions, TurnInput, WorkingIn,
};
pub use view::{View, ViewRequest};
pub use work::{Delegated, Delegation, ReadyWork, WorkReport};

use self::known::KnownIds;
use self::notes::Notebook;
use crate::commit::{Fingerprint, RequestKey};
use crate::error::StoreError;
use crate::store::Store;

/// One space of a store, and the only way to write to it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workspace {
    inner: Arc<Inner>,
    /// The actor who reads through it, as the trace records it.
    asker: Arc<Actor>,
    /// The thread from whose point of view it reads and writes.
    thread: Arc<ThreadKey>,
    /// The request made through it, and its idempotency key.
    asked: Option<Arc<RequestKey>>,
    /// The stages that decide in its turns.
    stages: Arc<Stages>,
    /// The advisor that its turns ask in addition to the rules, if any.
    advisor: Option<turn::AskedAdvisor>,
    /// Whether it only looks for changes: nobody reads what it returns, so the trace does not note it.
    is_watching: bool,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    space: SpaceName,
    /// The policy as it was last read.
    policy: Mutex<Arc<PolicyInForce>>,
    policy_was_read: AtomicBool,
    /// When that was last, in nanoseconds.
    policy_read_at: AtomicI64,
    /// When a reader next starts a search for entries whose lifetime has ended, in nanoseconds.
    looks_again: AtomicI64,
    /// The latest instant known to have been written: the times of a space never run backwards (M7.1.9).
    latest: AtomicI64,
    /// Whether `latest` covers what other processes wrote before this one looked.
    is_up_to_date: AtomicBool,
    /// The instant of the last commit made through it.
    committed_at: AtomicI64,
    /// The lineage of the store to which everything cached here belongs.
    lineage: AtomicU64,
    /// Pages with derived ids that are known to exist. Pages are never removed, so this stays true within one lineage.
    known_pages: KnownIds<PageId>,
    /// Turns that are known to exist.
    known_turns: KnownIds<TurnId>,
    recalled: redact::Recalled,
    /// The views rendered last.
    views: view::KeptViews,
    /// Cached answers to earlier questions, kept while they are still true.
    kept: answer_cache::AnswerCache,
    /// The contexts noted last, by turn.
    contexts: answer_cache::LastNoted,
    /// The views last noted as shown to turns.
    shown: answer_cache::LastNoted,
    /// Notes of the trace: what happened but is not in the log.
    notebook: Arc<Notebook>,
    /// Since when entries have had personal data.
    personal: personal::PersonalSince,
    /// With what confidence observations were added.
    first_confidences: turn::FirstConfidences,
    /// How many more adds are accepted before the next quota check.
    adds_left: AtomicI64,
    /// Held during a quota check: only one at a time, since each check reads everything that is live.
    quota_kept: tokio::sync::Mutex<()>,
    /// The file in which answers of tools wait while the store cannot be written.
    outbox: OnceLock<PathBuf>,
}

/// The outcome of a write to one entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Written {
    /// The entry after the write.
    pub entry: Entry,
    /// Values that were corrected on input.
    pub warnings: Vec<Warning>,
    /// Concurrent changes of others that the write overwrote (M7.4.33).
    pub conflicts: Vec<FieldConflict>,
    /// Whether an earlier call with the same idempotency key made the write, so that this call did nothing.
    pub replayed: bool,
}

impl Written {
    /// Puts the warnings about earlier corrections first.
    fn after(mut self, warnings: Vec<Warning>) -> Self {
        self.warnings.splice(0..0, warnings);
        self
    }
}

/// Returns `text` without the secrets that this process keeps out ([`keep_out`]): for words of others that are shown and
/// not stored.
#[must_use]
pub fn without_own_secrets(text: &str) -> String {
    let mut text = text.to_owned();
    Cleaner::new(Redaction::Off).text(&mut text, "text");
    text
}

impl Workspace {
    /// Opens the space `space` of `store`. A space begins to exist with its first commit.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>, space: SpaceName) -> Self {
        let (recalled, lineage) = (redact::Recalled::default(), store.lineage());
        let notebook = Notebook::new(Arc::clone(&store), Arc::clone(&clock), space.clone());
        Self {
            inner: Arc::new(Inner {
                store,
                clock,
                ids,
                space,
                policy: Mutex::default(),
                policy_was_read: AtomicBool::new(false),
                policy_read_at: AtomicI64::new(0),
                looks_again: AtomicI64::new(i64::MIN),
                latest: AtomicI64::new(i64::MIN),
                is_up_to_date: AtomicBool::new(false),
                committed_at: AtomicI64::new(i64::MIN),
                lineage: AtomicU64::new(lineage),
                known_pages: KnownIds::default(),
                known_turns: KnownIds::default(),
                notebook,
                outbox: OnceLock::new(),
                recalled,
                views: view::KeptViews::default(),
                kept: answer_cache::AnswerCache::default(),
                contexts: answer_cache::LastNoted::default(),
                shown: answer_cache::LastNoted::default(),
                personal: personal::PersonalSince::default(),
                first_confidences: turn::FirstConfidences::default(),
                adds_left: AtomicI64::new(0),
                quota_kept: tokio::sync::Mutex::new(()),
            }),
            asker: Arc::new(Actor::new(Role::Human, "")),
            thread: Arc::new(ThreadKey::main()),
            asked: None,
            stages: Arc::default(),
            advisor: None,
            is_watching: false,
        }
    }

    /// Returns the same workspace with other stages for its turns (M7.11.1).
    #[must_use]
    pub fn with_stages(&self, stages: Stages) -> Self {
        Self {
            stages: Arc::new(stages),
            ..self.clone()
        }
    }

    /// The stages that decide in its turns.
    #[must_use]
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// Returns the same workspace for one request: commits under `request_key` record what was requested. If
    /// something else was written under that key before, the write is refused with `KeyReused`.
    #[must_use]
    pub fn asked_under(&self, request_key: RequestKey) -> Self {
        Self {
            asked: Some(Arc::new(request_key)),
            ..self.clone()
        }
    }

    /// The key of the request, if it has one, for a commit that would otherwise have `own_key`: what the request sends
    /// names itself.
    fn asked_key_or(&self, own_key: impl FnOnce() -> String) -> String {
        self.asked.as_ref().map_or_else(own_key, |asked| asked.key().to_owned())
    }

    /// The fingerprint of the request that a commit under `key` records.
    fn request_under(&self, key: Option<&str>) -> Option<Fingerprint> {
        self.asked.as_ref()?.request_under(key)
    }

    /// Another space of the same store, with the same clock, ids, outbox and stages.
    #[must_use]
    pub fn beside(&self, space: SpaceName) -> Self {
        let inner = &self.inner;
        let other = Self::new(
            Arc::clone(&inner.store),
            Arc::clone(&inner.clock),
            Arc::clone(&inner.ids),
            space,
        );
        if let Some(file) = inner.outbox.get() {
            other.inner.outbox.get_or_init(|| file.clone());
        }
        Self {
            stages: Arc::clone(&self.stages),
            advisor: self.advisor.clone(),
            ..other
        }
    }

    /// The name of the space.
    #[must_use]
    pub fn space(&self) -> &SpaceName {
        &self.inner.space
    }

    /// The store that holds the space, for reads and for a runner that claims runs.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The clock that stamps what is written.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The source of its ids.
    #[must_use]
    pub fn ids(&self) -> &Arc<dyn IdSource> {
        &self.inner.ids
    }

    /// The present instant by its clock, but never earlier than one that it knows to have been written (M7.1.9). What
    /// was only looked at does not count: a moment in which the clock is wrong moves nothing but lifetimes that seem to
    /// be over, which are noted with their end.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let written = Timestamp::from_nanos(self.inner.latest.load(Ordering::Relaxed));
        self.inner.clock.now().max(written)
    }

    /// By how much the newest commit of the space is ahead of the clock: until the clock has caught up, the time of the
    /// space stands still, and nothing ends.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn lead(&self) -> Result<Duration, StoreError> {
        self.load_latest_instant().await?;
        let written = Timestamp::from_nanos(self.inner.latest.load(Ordering::Relaxed));
        Ok(written.since(self.inner.clock.now()))
    }

    /// Takes in the latest instant of the space, since another process may have written with a clock that is ahead. It
    /// looks once; after that it learns of later instants from its own writes and when it looks for entries whose
    /// lifetime has ended.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn keep_up(&self) -> Result<(), StoreError> {
        self.drop_caches_of_other_lineage();
        if self.inner.is_up_to_date.load(Ordering::Acquire) {
            return Ok(());
        }
        self.load_latest_instant().await
    }

    /// Does the same again, even if it has looked before.
    async fn load_latest_instant(&self) -> Result<(), StoreError> {
        let latest = self.inner.store.latest(self.space()).await?;
        self.inner.latest.fetch_max(latest.as_nanos(), Ordering::Relaxed);
        self.inner.is_up_to_date.store(true, Ordering::Release);
        Ok(())
    }

    /// Drops cached knowledge if another store has taken over: it may not be true there.
    fn drop_caches_of_other_lineage(&self) {
        let inner = &self.inner;
        let lineage = inner.store.lineage();
        if inner.lineage.swap(lineage, Ordering::AcqRel) != lineage {
            inner.known_pages.forget();
            inner.known_turns.forget();
            inner.kept.forget();
            inner.views.forget();
            *inner.policy.lock() = Arc::default();
            inner.policy_was_read.store(false, Ordering::Release);
            inner.is_up_to_date.store(false, Ordering::Release);
        }
    }

    /// The change that adds the page `id`, unless the page is known to exist.
    ///
    /// Looking first keeps the fields of a page that everybody needs out of every commit.
    async fn ensured(
        &self,
        id: PageId,
        fields: impl FnOnce() -> PageFields + Send,
    ) -> Result<Option<Change>, StoreError> {
        if self.knows(id) {
            return Ok(None);
        }
        match self
            .inner
            .store
            .page(&self.inner.space, folio_memory::id::Ref::Id(id))
            .await
        {
            Ok(_) => {
                self.remember(id);
                Ok(None)
            }
            Err(StoreError::NotFound { .. }) => {
                Ok(Some(Change::EnsurePage(Box::new(NewPage { id, fields: fields() }))))
            }
            Err(error) => Err(error),
        }
    }

    fn knows(&self, id: PageId) -> bool {
        self.drop_caches_of_other_lineage();
        self.inner.known_pages.contains(&id)
    }

    fn remember(&self, id: PageId) {
        self.inner.known_pages.insert(id);
    }
}

/// The source of an entry written by `actor`: stamped by Folio, never taken from the request (M7.3.31).
#[must_use]
pub fn source_of(actor: &Actor) -> Source {
    Source {
        principal: Some(actor.to_string()),
        tool: (actor.role == Role::Tool && !actor.name.is_empty()).then(|| actor.name.clone()),
        turn: actor.turn,
        run: actor.run,
        ..Source::default()
    }
}

/// How far to believe content written by an actor with the role of `actor`; for a tool, before its manifest is asked
/// ([`Workspace::trust_of`]).
fn trust_of_role(actor: &Actor) -> Trust {
    match actor.role {
        Role::Human => Trust::User,
        Role::Tool => Trust::ToolInternal,
        _ => Trust::Model,
    }
}

#[cfg(test)]
mod tests;
