//! The only writer of memory: validates, authorises, stamps, redacts and commits.
//!
//! Tools, surfaces, the program and the runner all write through a [`Workspace`]; it is one space of
//! one store, with the clock and the source of ids that stamp what is written. Reads are there too,
//! so that who has a workspace needs no store.

mod authorise;
mod book;
mod clean;
mod consolidate;
mod context;
mod ended;
mod error;
mod evict;
mod files;
mod forget;
mod goals;
mod ingest;
mod kept;
mod known;
mod life;
mod long_text;
mod noted;
mod notes;
mod observations;
mod offload;
mod outbox;
mod pages;
mod parts;
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

use folio_memory::actor::Source;
use folio_memory::history::FieldConflict;
use folio_memory::turn::Stages;
use folio_memory::{
    Actor, Change, Clock, Entry, IdSource, NewPage, PageFields, PageId, Role, SpaceName, ThreadKey, Timestamp, Trust,
    TurnId, Warning,
};
use parking_lot::Mutex;

pub use book::BookFilter;
pub use consolidate::{Consolidated, Successor};
pub use context::ContextRequest;
pub use error::WorkspaceError;
pub use evict::{Evicted, Eviction, KeptResult};
pub use forget::{ForgetFilter, Forgotten};
pub use goals::GoalState;
pub use ingest::{IngestContext, Ingested};
pub use kept::Moment;
pub use notes::NotesState;
pub use observations::{DraftedObservation, MAX_ACTIVE};
pub use offload::{Block, Compacted, Compactor, Desk, Offload, Offloaded, Said};
pub use outbox::Delivered;
pub use pages::{AddedPage, PageInput, TreeNode};
pub use patch::Guard;
pub use policy::PolicyInForce;
pub use receipts::KeptReceipt;
pub use record::{Recorded, Write};
pub use redact::{keep_out, keep_out_variable};
pub use scratch::{ScratchAnswer, ScratchCaller};
pub use tidy::Tidied;
pub use trace::{TraceEntry, TracePart, TraceQuery};
pub use transfer::{Fate, ImportOptions, Imported, Outgoing, Remark};
pub use turn::{
    Advice, Advisor, After, Before, Begun, DraftedTurn, Ended, Episode, EpisodeQuery, Exported, TurnInput, WorkingIn,
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
    /// Who reads through it, as far as the trace is concerned.
    asker: Arc<Actor>,
    /// The thread that it is seen from.
    thread: Arc<ThreadKey>,
    /// What is asked for through it, and under which key.
    asked: Option<Arc<RequestKey>>,
    /// Who decides in its turns.
    stages: Arc<Stages>,
    /// Who is asked besides.
    advisor: Option<turn::AskedAdvisor>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    space: SpaceName,
    /// What held when somebody last looked.
    policy: Mutex<Arc<PolicyInForce>>,
    policy_was_read: AtomicBool,
    /// When a reader has somebody look for what has ended; nanoseconds.
    looks_again: AtomicI64,
    /// The latest instant that was seen: the space's own never run backwards (M7.1.9).
    latest: AtomicI64,
    /// Whether `latest` takes in what others had written before this process looked.
    is_up_to_date: AtomicBool,
    /// The instant of the last commit that was made through it.
    committed_at: AtomicI64,
    /// The lineage of the store when what is known here was heard.
    lineage: AtomicU64,
    /// Pages of derived id that are known to be there. Pages are never removed, so this stays true in one lineage.
    known_pages: KnownIds<PageId>,
    /// Turns that are known to be there.
    known_turns: KnownIds<TurnId>,
    recalled: redact::Recalled,
    /// The last views that were made.
    views: view::KeptViews,
    /// What was asked before, as long as it is true.
    kept: kept::KeptAnswers,
    /// The last contexts that were noted.
    contexts: kept::LastNoted,
    /// The last views that turns were noted to be shown.
    shown: kept::LastNoted,
    /// What happened and is not in the log.
    notebook: Arc<Notebook>,
    /// Since when entries name a person.
    personal: personal::PersonalSince,
    /// Adds until it is looked whether there are too many.
    adds_left: AtomicI64,
    /// Held by whoever looks for what is too much: one at a time, since each looks at all that is live.
    quota_kept: tokio::sync::Mutex<()>,
    /// Where answers of tools wait when the store cannot write.
    outbox: OnceLock<PathBuf>,
}

/// What came of a write to one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The entry as it stands now.
    pub entry: Entry,
    /// What was put right on the way.
    pub warnings: Vec<Warning>,
    /// What it wrote over that somebody else had changed meanwhile (M7.4.33).
    pub conflicts: Vec<FieldConflict>,
    /// Whether an earlier call with the same idempotency key did it, and this one did nothing.
    pub replayed: bool,
}

impl Written {
    /// The same, with what was put right before it was written.
    fn after(mut self, warnings: Vec<Warning>) -> Self {
        self.warnings.splice(0..0, warnings);
        self
    }
}

impl Workspace {
    /// The space called `space` of `store`. A space begins to exist with its first commit.
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
                kept: kept::KeptAnswers::default(),
                contexts: kept::LastNoted::default(),
                shown: kept::LastNoted::default(),
                personal: personal::PersonalSince::default(),
                adds_left: AtomicI64::new(0),
                quota_kept: tokio::sync::Mutex::new(()),
            }),
            asker: Arc::new(Actor::new(Role::Human, "")),
            thread: Arc::new(ThreadKey::main()),
            asked: None,
            stages: Arc::default(),
            advisor: None,
        }
    }

    /// The same with others who decide in the stages of its turns (M7.11.1).
    #[must_use]
    pub fn with_stages(&self, stages: Stages) -> Self {
        Self {
            stages: Arc::new(stages),
            ..self.clone()
        }
    }

    /// Who decides in the stages of its turns.
    #[must_use]
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// The same for one request: what is written under the key of `asked` says what was asked for. If something else was written
    /// under that key before, it is refused with `KeyReused`.
    #[must_use]
    pub fn asked_under(&self, asked: RequestKey) -> Self {
        Self {
            asked: Some(Arc::new(asked)),
            ..self.clone()
        }
    }

    /// What a commit under `key` says of what was asked for.
    fn request_under(&self, key: Option<&str>) -> Option<Fingerprint> {
        self.asked.as_ref()?.request_under(key)
    }

    /// Another space of the same store, with the same clock, ids, outbox and stages.
    #[must_use]
    pub(crate) fn beside(&self, space: SpaceName) -> Self {
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

    /// Its name.
    #[must_use]
    pub fn space(&self) -> &SpaceName {
        &self.inner.space
    }

    /// The store that it is kept in; for reads, and for a runner to claim runs.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The clock that stamps what is written.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Where its ids come from.
    #[must_use]
    pub fn ids(&self) -> &Arc<dyn IdSource> {
        &self.inner.ids
    }

    /// The present instant, by its clock; never before one that it has given, or that it knows to be written (M7.1.9).
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = self.inner.clock.now();
        let before = self.inner.latest.fetch_max(now.as_nanos(), Ordering::Relaxed);
        now.max(Timestamp::from_nanos(before))
    }

    /// Takes in how late it is in the space: another process may have written to it by a clock that was ahead. Looks once; from then
    /// on this one hears of it as it writes, and as it looks for what has ended.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn keep_up(&self) -> Result<(), StoreError> {
        self.keep_to_lineage();
        if self.inner.is_up_to_date.load(Ordering::Acquire) {
            return Ok(());
        }
        self.look_how_late_it_is().await
    }

    /// The same anew.
    async fn look_how_late_it_is(&self) -> Result<(), StoreError> {
        let latest = self.inner.store.latest(self.space()).await?;
        self.inner.latest.fetch_max(latest.as_nanos(), Ordering::Relaxed);
        self.inner.is_up_to_date.store(true, Ordering::Release);
        Ok(())
    }

    /// Forgets what is known if another store has taken over: it may be untrue there.
    fn keep_to_lineage(&self) {
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

    /// The change that adds the page `id`, unless it is known to be there.
    ///
    /// Asking first keeps the fields of a page that everybody needs from standing in every commit.
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
        self.keep_to_lineage();
        self.inner.known_pages.contains(&id)
    }

    fn remember(&self, id: PageId) {
        self.inner.known_pages.insert(id);
    }
}

/// Where an entry comes from that `actor` writes: stamped, never taken from what was sent (M7.3.31).
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

/// How far content may be believed that `actor` writes.
#[must_use]
pub fn trust_of(actor: &Actor) -> Trust {
    match actor.role {
        Role::Human => Trust::User,
        Role::Tool => Trust::ToolInternal,
        _ => Trust::Model,
    }
}

#[cfg(test)]
mod tests;
