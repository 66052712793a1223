//! The shared store: one PostgreSQL database, any number of processes on any number of machines.
//!
//! - `open`, `connect`, `migrate`: where the database is, how connections are made, its format
//! - `store`: the interface of every store
//! - `patience`: waiting for a server that is away
//! - `session`: a transaction, which sees one space
//! - `column`: values as columns store them
//! - `connections`, `reach`, `patience`: the connections, whether the server is there, and how long to wait for it
//! - `at_work`: whether the server is at work on a query, or its connection hangs
//! - `writer`, `parts`, `loaded`, `commit`, `rows`, `replay`: a write from the caller to the server
//! - `journal`, `entry`, `page`, `link`, `blob`, `run`, `policy`, `turn`: the rows of one table each, written and read
//! - `trace`: notes of the trace; `token`: access tokens of servers
//! - `list`, `filter`: queries; `living`: indexes in memory
//! - `text`, `text_list`: the index of words, and searches in it
//! - `lease`: which processes that drive runs are alive; `claim`: claims of runs
//! - `clock`: the clock that all of them share
//! - `wake`: waiting for commits
//! - `watch`, `compact`: finding what is due, and storing it in less space
//! - `erase`, `rewrite`, `residue`: removing content from the log, and checking whether it is gone
//! - `check`: whether the rows follow from the log
//!
//! Decisions about a commit are made by the same code for every store (`plan`).

mod at_work;
mod blob;
mod check;
mod claim;
mod clock;
mod column;
mod commit;
mod compact;
mod connect;
mod connections;
mod entry;
mod erase;
mod error;
mod filter;
mod journal;
mod lease;
mod link;
mod linked;
mod list;
mod living;
mod loaded;
mod log_parts;
mod lookup;
mod migrate;
mod open;
mod page;
mod parts;
mod patience;
mod policy;
mod reach;
mod replay;
mod residue;
mod rewrite;
mod rows;
mod run;
mod session;
mod store;
mod text;
mod text_list;
mod token;
mod trace;
mod turn;
mod unclaimed;
mod wake;
mod watch;
mod writer;
mod written;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use folio_memory::SpaceName;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use self::open::OpenOptions;

use self::at_work::{MOMENT_WITH_LOCKS, in_a_moment, within};
use self::clock::ServerClock;
use self::column::get;
use self::connections::Connections;
use self::error::{Failure, damaged};
use self::lease::Owners;
use self::open::Target;
use self::patience::{Wait, patiently};
use self::reach::{Call, Reach};
use self::session::{Purpose, Session};
use self::wake::Wake;
use self::writer::Writer;
use crate::error::StoreError;
use crate::live;
use crate::place::SpaceId;

/// Number of threads that communicate with the server.
const THREADS: usize = 2;
/// A connection younger than this leads where a new one would.
const FRESH_CONNECTION_AGE: Duration = Duration::from_secs(1);
/// How long a connection that is not needed any more may take to end.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// How many spaces have their rows cached.
const SPACES_KNOWN: usize = 100_000;

/// A store in a PostgreSQL database.
///
/// Dropping it waits until everything that was handed over is written, unless the server is read-only.
pub struct PostgresStore {
    inner: Arc<Inner>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What everything that communicates with the server shares.
#[derive(Debug)]
struct Inner {
    target: Target,
    connections: Connections,
    reach: Arc<Reach>,
    /// Spaces are never removed, so this stays valid as long as no other server takes over.
    spaces: Mutex<HashMap<SpaceName, SpaceId>>,
    owners: Owners,
    clock: Arc<ServerClock>,
    wake: Wake,
    writer: Writer,
    living: live::Spaces,
    /// When the server that last answered was started; zero before the first answer.
    started: AtomicI64,
    /// How often another server, or the same one restored from a copy, has taken the place of the previous one.
    lineage: AtomicU64,
    /// Set while the store is being closed, when nobody is left to receive an error.
    is_closing: AtomicBool,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("location", &self.inner.target.location)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the database that `options` name, and creates or migrates its tables. Blocks for a moment.
    ///
    /// # Errors
    ///
    /// `Invalid` if the URL cannot be read; `NotFound` if there is no store and none is to be made; `Unavailable` with
    /// the reason if the server cannot be reached or rejects the user, or the tables were made by a newer version.
    pub fn open(options: &OpenOptions) -> Result<Arc<Self>, StoreError> {
        let target = Target::of(options)?;
        let unavailable = |reason: &str, source: std::io::Error| StoreError::Unavailable {
            doing: "open",
            location: target.location.clone(),
            reason: reason.to_owned(),
            source: Some(Box::new(source)),
        };
        // Threads of its own: connections live as long as the store, whatever becomes of the runtime that opens it.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("folio-postgres")
            .enable_all()
            .build()
            .map_err(|error| unavailable("no threads can be started", error))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (opened, open) = std::sync::mpsc::channel();
        let served = target.clone();
        let thread = std::thread::Builder::new()
            .name("folio-postgres".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    match Box::pin(Inner::open(served)).await {
                        Ok(inner) => {
                            let watching = Arc::clone(&inner);
                            let watch = tokio::spawn(async move {
                                watching.owners.keep_watch(&watching).await;
                            });
                            let serving = Arc::clone(&inner);
                            if opened.send(Ok(inner)).is_ok() {
                                // An error means that the store is gone, too.
                                stopped.await.unwrap_or_default();
                            }
                            serving.is_closing.store(true, Ordering::Release);
                            serving.writer.is_idle().await;
                            serving.owners.delete_all_leases(&serving.connections).await;
                            watch.abort();
                        }
                        // The caller waits for this, so the receiver still exists.
                        Err(error) => opened.send(Err(error)).unwrap_or_default(),
                    }
                });
            });
        let thread = thread.map_err(|error| unavailable("no thread can be started", error))?;
        let inner = open.recv().unwrap_or_else(|_| {
            Err(StoreError::Unavailable {
                doing: "open",
                location: target.location.clone(),
                reason: "the thread that opens it has stopped".to_owned(),
                source: None,
            })
        })?;
        Ok(Arc::new(Self {
            inner,
            runtime: handle,
            stop: Some(stop),
            thread: Some(thread),
        }))
    }

    /// Runs `work` on the threads of the store.
    async fn on_threads<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.runtime.spawn(work).await;
        done.unwrap_or_else(|error| {
            Err(StoreError::Unavailable {
                doing,
                location: self.inner.target.location.clone(),
                reason: "its threads have stopped".to_owned(),
                source: Some(Box::new(error)),
            })
        })
    }

    /// Reads from one space in one transaction; `question` gets `None` if there is no such space.
    async fn read<T, Q, A>(&self, space: &SpaceName, question: Q) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Q: Fn(Option<Arc<Session>>, Arc<Inner>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<T, Failure>> + Send,
    {
        let (inner, space) = (Arc::clone(&self.inner), space.clone());
        self.on_threads("read from", async move {
            let wait = Wait::begin();
            let answer = patiently!(reads inner, wait, {
                let session = inner.begin_read(&space, wait).await?;
                question(session, Arc::clone(&inner)).await
            });
            answer.map_err(|failure| failure.into_error("read from", &inner.target.location))
        })
        .await
    }

    /// Writes to one space in one transaction, while nobody else writes to it. Must have the same effect when it is
    /// done twice. `work` gets no session if there is no such space.
    async fn write<T, W, A>(&self, space: &SpaceName, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(Option<Arc<Session>>, Arc<Inner>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<T, Failure>> + Send,
    {
        let (inner, space) = (Arc::clone(&self.inner), space.clone());
        self.on_threads("write to", async move { inner.write_in(&space, work).await })
            .await
    }
}

impl Inner {
    async fn open(target: Target) -> Result<Arc<Self>, StoreError> {
        let (connections, reach) = (Connections::of(target.pools()?), Arc::<Reach>::default());
        let explained = |failure: Failure| failure.into_error("open", &target.location);
        // A process that is started while the server restarts waits for it as all others do.
        let clock = patiently!(opens & reach, Wait::begin(), {
            let (client, connection) = target.connect().await?;
            let mut driver = tokio::spawn(connection);
            let opened = async {
                migrate::bring_up_to_date(&client, &target, &reach).await?;
                in_a_moment(ServerClock::of(&client)).await
            };
            let clock = opened.await;
            drop(client);
            // The driver ends by itself, because the client is gone, unless the server still owes an answer.
            if tokio::time::timeout(CLOSE_WITHIN, &mut driver).await.is_err() {
                driver.abort();
            }
            clock
        });
        let clock = Arc::new(clock.map_err(explained)?);
        let owners = Owners::new(&target);
        let living = live::Spaces::new(target.live.clone());
        Ok(Arc::new(Self {
            target,
            connections,
            reach,
            spaces: Mutex::default(),
            owners,
            clock,
            wake: Wake::new(),
            writer: Writer::default(),
            living,
            started: AtomicI64::new(0),
            lineage: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
        }))
    }

    /// A transaction that sees one state of the space `name`; `None` if there is no such space.
    async fn begin_read(&self, name: &SpaceName, wait: Wait) -> Result<Option<Arc<Session>>, Failure> {
        let client = self.connections.take(Call::Reads, wait).await?;
        let Some(space) = self.space(&client, name).await? else {
            return Ok(None);
        };
        let session = Session::begin(client, space, Purpose::Read, wait, &self.reach);
        Ok(Some(Arc::new(session)))
    }

    /// A transaction that writes to the space `name`, which is created if it does not exist and `make` says so.
    async fn begin_write(
        &self,
        name: &SpaceName,
        make: bool,
        purpose: Purpose,
        wait: Wait,
    ) -> Result<Option<Arc<Session>>, Failure> {
        let client = self.connections.take(Call::Writes, wait).await?;
        let space = match self.space(&client, name).await? {
            Some(space) => space,
            None if make => {
                let values: session::Parameters<'_> = &[&name.as_str()];
                let making = client.query_one("SELECT make_space($1)", values);
                let making = within(MOMENT_WITH_LOCKS, making);
                let row = self.reach.unless_gone(making).await?;
                self.know(name, SpaceId(row.try_get(0)?))
            }
            None => return Ok(None),
        };
        let session = Session::begin(client, space, purpose, wait, &self.reach);
        Ok(Some(Arc::new(session)))
    }

    /// The same as [`PostgresStore::write`], on the threads of the store.
    async fn write_in<T, W, A>(self: &Arc<Self>, space: &SpaceName, work: W) -> Result<T, StoreError>
    where
        W: Fn(Option<Arc<Session>>, Arc<Self>) -> A,
        A: Future<Output = Result<T, Failure>>,
    {
        let wait = Wait::begin();
        let done = patiently!(self, wait, {
            let session = self.begin_write(space, false, Purpose::Write, wait).await?;
            if let Some(session) = &session {
                commit::lock(session).await?;
            }
            let done = work(session.clone(), Arc::clone(self)).await?;
            if let Some(session) = &session {
                session.commit().await?;
            }
            Ok(done)
        });
        done.map_err(|failure| failure.into_error("write to", &self.target.location))
    }

    /// Takes note that the server that answers was started at `started`, in microseconds. A server that took the place
    /// of another may lack the last commits and spaces of that one, and assign their numbers again, so all cached facts
    /// about them are dropped.
    fn note_server_start(&self, started: i64) {
        let before = self.started.swap(started, Ordering::AcqRel);
        if before == 0 || before == started {
            return;
        }
        self.spaces.lock().clear();
        self.living.forget();
        self.wake.forget();
        self.lineage.fetch_add(1, Ordering::AcqRel);
    }

    /// After a `failure` because the server is read-only: drops idle connections, so that the next ones lead to the
    /// server that writes by then. A connection that was just made leads where the next would.
    fn drop_read_only_connections(&self, failure: &Failure) {
        if failure.is_read_only() {
            self.connections.drop_idle(FRESH_CONNECTION_AGE);
        }
    }

    /// After a `failure` that shows that connections may be of no use although they are not closed: drops those that
    /// nobody uses now, also the one that has failed.
    fn drop_useless_connections(&self, failure: &Failure) {
        if failure.is_of_useless_connection() {
            self.connections.drop_idle(Duration::ZERO);
        }
    }

    /// The row of the space `name`, if it has one.
    async fn space(&self, client: &deadpool_postgres::Object, name: &SpaceName) -> Result<Option<SpaceId>, Failure> {
        if let Some(space) = self.known(name) {
            return Ok(Some(space));
        }
        let looking = async {
            let statement = client.prepare_cached("SELECT space_called($1)").await?;
            client.query_one(&statement, &[&name.as_str()]).await
        };
        let row = self.reach.unless_gone(in_a_moment(looking)).await?;
        let found: Option<i64> = row.try_get(0)?;
        Ok(found.map(|space| self.know(name, SpaceId(space))))
    }

    /// The names of all spaces that have a row, sorted.
    async fn all_spaces(&self, wait: Wait) -> Result<Vec<SpaceName>, Failure> {
        let client = self.connections.take(Call::Reads, wait).await?;
        let listing = client.query("SELECT name FROM all_spaces()", &[]);
        let listing = within(MOMENT_WITH_LOCKS, listing);
        let rows = self.reach.unless_gone(listing).await?;
        let name = |row| SpaceName::parse(get(row, 0)?).map_err(|error| damaged("the name of a space", error));
        let mut names = rows.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        names.sort();
        Ok(names)
    }

    fn known(&self, name: &SpaceName) -> Option<SpaceId> {
        let spaces = self.spaces.lock();
        spaces.get(name).copied()
    }

    fn know(&self, name: &SpaceName, space: SpaceId) -> SpaceId {
        let mut spaces = self.spaces.lock();
        if spaces.len() >= SPACES_KNOWN {
            spaces.clear();
        }
        spaces.insert(name.clone(), space);
        space
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it, and there is nothing left to wait for.
            thread.join().unwrap_or_default();
        }
    }
}
