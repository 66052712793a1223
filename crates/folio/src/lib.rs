//! Durable working memory for agents, and a recursive planner and executor that live in it.
//!
//! This is the one crate to add. [`Folio::open`] opens a store; [`Folio::workspace`] gives one space of
//! it, through which everything is written and read:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use folio::{Actor, Folio, ObservationInput, Role, SpaceName};
//!
//! let folio = Folio::open("memory:").await?;
//! let space = folio.workspace(SpaceName::main());
//! let input = ObservationInput { content: "likes Burgundy".to_owned(), ..Default::default() };
//! let written = space.add_observation(&Actor::new(Role::Tool, "wine_search"), input, None).await?;
//! assert_eq!(written.entry.handle.to_string(), "e1");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/rust.md` has complete programs: the shortest, memory for your own agent, a plan with your own tool, a goal. The
//! underlying crates are re-exported here under their own names: [`memory`], [`engine`], [`store`], [`model`],
//! [`tools`], [`mcp`], [`runner`].

pub mod files;
mod open;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use folio_engine as engine;
pub use folio_mcp as mcp;
pub use folio_memory as memory;
pub use folio_model as model;
pub use folio_runner as runner;
pub use folio_store as store;
pub use folio_tools as tools;

/// For your own [`tools::Tool`]s and [`model::Model`]s.
pub use async_trait::async_trait;
pub use files::{Files, FilesError};
pub use folio_memory::observation::{ObservationInput, ObservationPatch};
pub use folio_memory::scratchbook::{ItemInput, ItemPatch};
pub use folio_memory::{Actor, Entry, EntryKind, EntryQuery, Page, Role, SpaceName, ThreadKey, Timestamp};
pub use folio_store::{StoreError, Workspace, WorkspaceError};
/// Says to a [`tools::Tool`] or an agent that nobody waits for its answer any more.
pub use folio_tools::CancellationToken;
pub use open::OpenError;

use folio_memory::turn::Stages;
use folio_memory::{Clock, IdSource};
use folio_store::{AwayStore, RandomIds, Store};
use tokio::time::Instant;

/// How often whoever closes a store checks whether others still use it.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// An open store. Cheap to clone; closed when the last clone and the last workspace are gone.
#[derive(Debug, Clone)]
pub struct Folio {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    /// The file in which answers of tools wait while the store cannot be written.
    outbox: Option<PathBuf>,
    stages: Stages,
}

impl Folio {
    /// Opens the store at `url`, and creates it if it does not exist.
    ///
    /// - `sqlite:PATH`: a file; its folders are created as well
    /// - `postgres://USER:PASSWORD@HOST:PORT/DATABASE`: a database that several machines share; its tables are created
    ///   as well
    /// - `memory:`: a store in memory, which is lost when it is closed
    ///
    /// # Errors
    ///
    /// If `url` does not name a kind of store that this build supports, or the store cannot be opened.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        Ok(Self {
            outbox: open::outbox_of(url),
            stages: Stages::default(),
            ..Self::on(open::open_on_thread(url, true).await?)
        })
    }

    /// Opens the store at `url` without creating it. Tables of an earlier version are migrated.
    ///
    /// # Errors
    ///
    /// Those of [`Folio::open`], and `NotThere`.
    pub async fn open_existing(url: &str) -> Result<Self, OpenError> {
        Ok(Self {
            outbox: open::outbox_of(url),
            stages: Stages::default(),
            ..Self::on(open::open_on_thread(url, false).await?)
        })
    }

    /// The store at `url` that could not be opened because of `error`: everything fails with that reason, but answers of
    /// tools are kept in its outbox. `None` if the error is not that the store is away.
    #[must_use]
    pub fn away(url: &str, error: &OpenError) -> Option<Self> {
        let OpenError::Store(error) = error else { return None };
        Some(Self {
            outbox: open::outbox_of(url),
            ..Self::on(AwayStore::after(error)?)
        })
    }

    /// Uses a custom store, with its clock, and random ids.
    #[must_use]
    pub fn on(store: Arc<dyn Store>) -> Self {
        Self {
            clock: store.clock(),
            store,
            ids: Arc::new(RandomIds::default()),
            outbox: None,
            stages: Stages::default(),
        }
    }

    /// Sets the file in which answers of tools wait while the store cannot be written. A store in a file already has
    /// such a file beside it, which stays in use.
    #[must_use]
    pub fn with_outbox(mut self, file: PathBuf) -> Self {
        self.outbox.get_or_insert(file);
        self
    }

    /// Sets custom stages for turns, in each of its spaces.
    #[must_use]
    pub fn with_stages(mut self, stages: Stages) -> Self {
        self.stages = stages;
        self
    }

    /// The space called `space`. It is created by the first write to it.
    #[must_use]
    pub fn workspace(&self, space: SpaceName) -> Workspace {
        let (store, clock, ids) = (Arc::clone(&self.store), Arc::clone(&self.clock), Arc::clone(&self.ids));
        let workspace = Workspace::new(store, clock, ids, space).with_stages(self.stages.clone());
        match &self.outbox {
            Some(file) => workspace.with_outbox(file.clone()),
            None => workspace,
        }
    }

    /// Closes the store, after what its workspaces and runners have still to write, such as the trace of the last reads.
    /// Drop them all before; nothing of theirs may be under way in another runtime. Returns whether the store is closed:
    /// `false` if somebody still uses it after `patience`, or its server does not answer. Dropping everything closes it
    /// as well, but then nobody knows when, what has still to be written is lost when the runtime ends, and the last
    /// drop blocks its thread.
    pub async fn close(self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let store = Arc::clone(&self.store);
        drop(self);
        while Arc::strong_count(&store) > 1 {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(CLOSE_POLL_INTERVAL).await;
        }
        let closing = tokio::task::spawn_blocking(move || drop(store));
        matches!(tokio::time::timeout_at(until, closing).await, Ok(Ok(())))
    }

    /// The underlying store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

/// Compiled and run as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
struct Guide;
