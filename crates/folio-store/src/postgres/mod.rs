//! The shared store: one PostgreSQL database, any number of processes on any number of machines.
//!
//! - `open`, `connect`, `migrate`: where the database is, how connections are made, its format
//! - `patience`: waiting for a server that is away
//! - `session`: a transaction, which sees one space
//! - `column`: values as columns keep them
//! - `writer`, `loaded`, `commit`, `rows`, `replay`: a write from the caller to the server
//! - `journal`, `entry`, `page`, `link`, `blob`, `run`, `policy`, `turn`: the rows of one table each, written and read
//! - `trace`: notes of what happened besides the log; `token`: tokens of servers
//! - `list`, `filter`: questions; `living`: indexes in memory
//! - `text`, `text_list`: the index of words, and what is found in it
//! - `lease`: which processes that drive runs are alive
//! - `clock`: what time it is, for all of them
//! - `wake`: waiting for commits
//! - `watch`, `compact`: finding what is due, and keeping it in less room
//! - `erase`, `rewrite`, `residue`: taking content out of the log, and looking whether it is gone
//! - `check`: whether the rows follow from the log
//!
//! What is decided about a commit is decided by the same code for every store (`plan`).

mod blob;
mod check;
mod clock;
mod column;
mod commit;
mod compact;
mod connect;
mod entry;
mod erase;
mod error;
mod filter;
mod journal;
mod lease;
mod link;
mod list;
mod living;
mod loaded;
mod lookup;
mod migrate;
mod open;
mod page;
mod patience;
mod policy;
mod replay;
mod residue;
mod rewrite;
mod rows;
mod run;
mod session;
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
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use folio_memory::id::{EntryRef, PageRef, RunRef, TurnRef};
use folio_memory::{
    Clock, Entry, EntryId, EntryQuery, KeptPolicy, Link, ListAnswer, NoteQuery, NotesKept, Page, PageQuery, RunId, Seq,
    SpaceName, Timestamp, TraceNote, Turn, TurnQuery,
};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use self::open::OpenOptions;

use self::clock::ServerClock;
use self::column::get;
use self::error::{Failure, damaged};
use self::lease::Owners;
use self::living::Living;
use self::open::Target;
use self::patience::patiently;
use self::session::{Purpose, Session};
use self::wake::{LOOK_EVERY, Wake};
use self::writer::Writer;
use crate::access::KeptToken;
use crate::commit::{BlobHash, Commit, Committed};
use crate::copy::CopiedCommit;
use crate::error::StoreError;
use crate::place::SpaceId;
use crate::prepare::Prepared;
use crate::store::{Checkup, Journal, LogRow, OwnerId, Revision, RunQuery, RunRow, Store};
use crate::upkeep::{Compacted, Compaction, Residue, WatchAnswer, WatchQuery};

/// Threads that speak with the server.
const THREADS: usize = 2;
/// Bytes from which a commit is prepared on a thread where that may take its time.
const LARGE: usize = 128 * 1024;
/// Spaces of which it is remembered which row is theirs.
const SPACES_KNOWN: usize = 100_000;

/// A store in a PostgreSQL database.
///
/// Closing waits until everything that was handed over is written.
pub struct PostgresStore {
    inner: Arc<Inner>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What everything that speaks with the server shares.
#[derive(Debug)]
struct Inner {
    target: Target,
    readers: Pool,
    writers: Pool,
    /// Spaces never go away, so what is known of them stays true.
    spaces: Mutex<HashMap<SpaceName, SpaceId>>,
    owners: Owners,
    clock: Arc<ServerClock>,
    wake: Wake,
    writer: Writer,
    living: Living,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("location", &self.inner.target.location)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the database that `options` name, and makes or brings up to date the tables in it. Blocks for a moment.
    ///
    /// # Errors
    ///
    /// `Invalid` if the URL cannot be read; `NotFound` if there is no store and none is to be made; `Unavailable` with the reason if the server cannot be reached or does not let
    /// the user in, or the tables were made by a newer version.
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
                    match Inner::open(served).await {
                        Ok(inner) => {
                            let watching = Arc::clone(&inner);
                            let watch = tokio::spawn(async move {
                                watching
                                    .owners
                                    .keep_watch(&watching.target, &watching.clock, &watching.wake)
                                    .await;
                            });
                            let serving = Arc::clone(&inner);
                            if opened.send(Ok(inner)).is_ok() {
                                // An error says that the store is gone, too.
                                stopped.await.unwrap_or_default();
                            }
                            serving.writer.is_idle().await;
                            serving.owners.leave().await;
                            watch.abort();
                        }
                        // Nobody who asked for a store has gone away before he has it.
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

    /// Has `work` done on the threads of the store.
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

    /// Asks a question about one space, in one transaction; about nothing if there is no such space.
    async fn read<T, Q, A>(&self, space: &SpaceName, question: Q) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Q: Fn(Option<Arc<Session>>, Arc<Inner>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<T, Failure>> + Send,
    {
        let (inner, space) = (Arc::clone(&self.inner), space.clone());
        self.on_threads("read from", async move {
            let asked = patiently!({
                let session = inner.reading(&space).await?;
                question(session, Arc::clone(&inner)).await
            });
            asked.map_err(|failure| failure.into_error("read from", &inner.target.location))
        })
        .await
    }

    /// Writes something to one space, in one transaction, while nobody else writes to it. Done twice it must come to the same.
    /// If there is no such space, it is made or, if not wanted, nothing is done.
    async fn write<T, W, A>(&self, space: &SpaceName, make: bool, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Fn(Option<Arc<Session>>, Arc<Inner>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<T, Failure>> + Send,
    {
        let (inner, space) = (Arc::clone(&self.inner), space.clone());
        self.on_threads("write to", async move {
            let done = patiently!({
                let session = inner.writing(&space, make, Purpose::Write).await?;
                if let Some(session) = &session {
                    commit::lock(session).await?;
                }
                let done = work(session.clone(), Arc::clone(&inner)).await?;
                if let Some(session) = &session {
                    session.commit().await?;
                }
                Ok(done)
            });
            done.map_err(|failure| failure.into_error("write to", &inner.target.location))
        })
        .await
    }
}

impl Inner {
    async fn open(target: Target) -> Result<Arc<Self>, StoreError> {
        let (readers, writers) = target.pools()?;
        let explained = |failure: Failure| failure.into_error("open", &target.location);
        let (client, connection) = target.connect().await.map_err(explained)?;
        let driver = tokio::spawn(connection);
        let made = migrate::bring_up_to_date(&client, &target.location, target.make).await;
        let clock = match made {
            Ok(()) => ServerClock::of(&client).await,
            Err(failure) => Err(failure),
        };
        drop(client);
        let clock = Arc::new(clock.map_err(explained)?);
        // It ends by itself, now that nobody uses it.
        drop(driver.await);
        let owners = Owners::new(target.lease);
        let living = Living::new(target.live.clone());
        Ok(Arc::new(Self {
            target,
            readers,
            writers,
            spaces: Mutex::default(),
            owners,
            clock,
            wake: Wake::new(),
            writer: Writer::default(),
            living,
        }))
    }

    /// A transaction that sees one state of the space called `name`; none if there is no such space.
    async fn reading(&self, name: &SpaceName) -> Result<Option<Arc<Session>>, Failure> {
        let client = self.readers.get().await?;
        let Some(space) = self.space(&client, name).await? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Session::begin(client, space, Purpose::Read))))
    }

    /// A transaction that writes to the space called `name`, which is made if it is not there and `make` says so.
    async fn writing(&self, name: &SpaceName, make: bool, purpose: Purpose) -> Result<Option<Arc<Session>>, Failure> {
        let client = self.writers.get().await?;
        let space = match self.space(&client, name).await? {
            Some(space) => space,
            None if make => {
                let row = client.query_one("SELECT make_space($1)", &[&name.as_str()]).await?;
                self.know(name, SpaceId(row.try_get(0)?))
            }
            None => return Ok(None),
        };
        Ok(Some(Arc::new(Session::begin(client, space, purpose))))
    }

    /// The row of the space called `name`, if it has one.
    async fn space(&self, client: &deadpool_postgres::Object, name: &SpaceName) -> Result<Option<SpaceId>, Failure> {
        if let Some(space) = self.known(name) {
            return Ok(Some(space));
        }
        let statement = client.prepare_cached("SELECT space_called($1)").await?;
        let row = client.query_one(&statement, &[&name.as_str()]).await?;
        let found: Option<i64> = row.try_get(0)?;
        Ok(found.map(|space| self.know(name, SpaceId(space))))
    }

    /// The names of all spaces, sorted.
    async fn all_spaces(&self) -> Result<Vec<SpaceName>, Failure> {
        let client = self.readers.get().await?;
        let rows = client.query("SELECT name FROM all_spaces()", &[]).await?;
        let name = |row| SpaceName::parse(get(row, 0)?).map_err(|error| damaged("the name of a space", error));
        let mut names = rows.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        names.sort();
        Ok(names)
    }

    fn known(&self, name: &SpaceName) -> Option<SpaceId> {
        let spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        spaces.get(name).copied()
    }

    fn know(&self, name: &SpaceName, space: SpaceId) -> SpaceId {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
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
            // One that panicked has said so, and there is nothing left of it to wait for.
            thread.join().unwrap_or_default();
        }
    }
}

/// What a question about a space that is not there is answered with.
macro_rules! or_none {
    ($session:expr, $none:expr) => {
        match $session.as_deref() {
            Some(session) => session,
            None => return Ok($none),
        }
    };
}

#[async_trait]
impl Store for PostgresStore {
    fn location(&self) -> String {
        self.inner.target.location.clone()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.clock) as Arc<dyn Clock>
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let prepared = if commit.blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>() < LARGE {
            Prepared::of(commit)?
        } else {
            let prepare = self.runtime.spawn_blocking(move || Prepared::of(commit));
            self.on_threads("write to", async move {
                prepare.await.unwrap_or_else(|error| Err(stopped(&error)))
            })
            .await?
        };
        let inner = Arc::clone(&self.inner);
        self.on_threads("write to", async move { inner.write(prepared).await })
            .await
    }

    async fn head(&self, space: &SpaceName) -> Result<Seq, StoreError> {
        self.read(space, |session, _| async move {
            let session = or_none!(session, Seq(0));
            Ok(commit::ends(session).await?.head)
        })
        .await
    }

    async fn latest(&self, space: &SpaceName) -> Result<Timestamp, StoreError> {
        self.read(space, |session, _| async move {
            let session = or_none!(session, Timestamp::MIN);
            Ok(commit::ends(session).await?.at)
        })
        .await
    }

    async fn changes(&self, space: &SpaceName, since: Seq, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        self.read(space, move |session, _| async move {
            let session = or_none!(session, Vec::new());
            journal::changes(session, since, limit).await
        })
        .await
    }

    async fn wait(&self, space: &SpaceName, since: Seq) -> Result<Seq, StoreError> {
        let wake = &self.inner.wake;
        let mut signal = wake.listen();
        loop {
            signal.mark_unchanged();
            let gaps = wake.gaps();
            let head = self.head(space).await?;
            if head > since {
                return Ok(head);
            }
            let tired = Instant::now() + LOOK_EVERY;
            while wake.gaps() == gaps && tokio::time::timeout_at(tired, signal.changed()).await.is_ok() {
                signal.mark_unchanged();
                let Some(known) = self.inner.known(space) else { break };
                if let Some(head) = wake.heard(known).filter(|head| *head > since) {
                    return Ok(head);
                }
            }
        }
    }

    async fn entries(
        &self,
        space: &SpaceName,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, StoreError> {
        if query.text.is_some() {
            return self.search(space, query, now).await;
        }
        let (name, query) = (space.clone(), query.clone());
        self.read(space, move |session, inner| {
            let (name, query) = (name.clone(), query.clone());
            async move { list::entries(&inner, session.as_deref(), &name, &query, now).await }
        })
        .await
    }

    async fn entry(&self, space: &SpaceName, entry: EntryRef) -> Result<Entry, StoreError> {
        self.read(space, move |session, _| async move {
            entry::read(session.as_deref(), entry).await
        })
        .await
    }

    async fn history(&self, space: &SpaceName, entry: EntryId) -> Result<Vec<Revision>, StoreError> {
        self.read(space, move |session, _| async move {
            journal::history(session.as_deref(), entry).await
        })
        .await
    }

    async fn pages(&self, space: &SpaceName, query: &PageQuery) -> Result<Vec<Page>, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { page::list(or_none!(session, Vec::new()), &query).await }
        })
        .await
    }

    async fn page_count(&self, space: &SpaceName, query: &PageQuery) -> Result<u64, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { page::count_of(or_none!(session, 0), &query).await }
        })
        .await
    }

    async fn page(&self, space: &SpaceName, page: PageRef) -> Result<Page, StoreError> {
        self.read(space, move |session, _| async move {
            page::read(session.as_deref(), page).await
        })
        .await
    }

    async fn links(&self, space: &SpaceName, end: &str) -> Result<Vec<Link>, StoreError> {
        let end = end.to_owned();
        self.read(space, move |session, _| {
            let end = end.clone();
            async move { link::list(or_none!(session, Vec::new()), &end).await }
        })
        .await
    }

    async fn ended(
        &self,
        space: &SpaceName,
        by: Timestamp,
        limit: u32,
    ) -> Result<Vec<(EntryId, Timestamp)>, StoreError> {
        self.read(space, move |session, _| async move {
            watch::ended(or_none!(session, Vec::new()), by, limit).await
        })
        .await
    }

    async fn policy(&self, space: &SpaceName) -> Result<KeptPolicy, StoreError> {
        self.read(space, |session, _| async move {
            policy::read(or_none!(session, KeptPolicy::default())).await
        })
        .await
    }

    async fn blob(&self, space: &SpaceName, hash: &BlobHash) -> Result<Vec<u8>, StoreError> {
        let hash = hash.clone();
        self.read(space, move |session, _| {
            let hash = hash.clone();
            async move { blob::read(session.as_deref(), &hash).await }
        })
        .await
    }

    async fn turns(&self, space: &SpaceName, query: &TurnQuery) -> Result<Vec<Turn>, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { turn::list(or_none!(session, Vec::new()), &query).await }
        })
        .await
    }

    async fn turn(&self, space: &SpaceName, turn: TurnRef) -> Result<Turn, StoreError> {
        self.read(space, move |session, _| async move {
            turn::read(session.as_deref(), turn).await
        })
        .await
    }

    async fn runs(&self, space: &SpaceName, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let query = query.clone();
        self.read(space, move |session, inner| {
            let query = query.clone();
            async move { run::list(or_none!(session, Vec::new()), &query, &inner.owners).await }
        })
        .await
    }

    async fn run(&self, space: &SpaceName, run: RunRef) -> Result<RunRow, StoreError> {
        self.read(space, move |session, inner| async move {
            run::read(session.as_deref(), run, &inner.owners).await
        })
        .await
    }

    async fn run_heads(&self, space: &SpaceName, runs: Vec<RunId>) -> Result<Vec<(RunId, Seq)>, StoreError> {
        let runs = Arc::new(runs);
        self.read(space, move |session, _| {
            let runs = Arc::clone(&runs);
            async move {
                match session.as_deref() {
                    Some(session) => run::heads(session, &runs).await,
                    None => Ok(Vec::new()),
                }
            }
        })
        .await
    }

    async fn journal_part(
        &self,
        space: &SpaceName,
        run: RunId,
        since: Seq,
        bytes: usize,
    ) -> Result<Journal, StoreError> {
        self.read(space, move |session, _| async move {
            journal::of_run(session.as_deref(), run, since, bytes).await
        })
        .await
    }

    async fn claim_run(&self, space: &SpaceName, run: RunId, owner: &OwnerId) -> Result<u64, StoreError> {
        let owner = owner.clone();
        self.write(space, false, move |session, inner| {
            let owner = owner.clone();
            async move { run::claim(session.as_deref(), run, &owner, &inner.owners).await }
        })
        .await
    }

    async fn release_run(&self, space: &SpaceName, run: RunId, fence: u64) -> Result<(), StoreError> {
        self.write(space, false, move |session, _| async move {
            run::release(or_none!(session, ()), run, fence).await
        })
        .await
    }

    async fn append_trace(&self, space: &SpaceName, notes: &[TraceNote], kept: NotesKept) -> Result<(), StoreError> {
        if notes.is_empty() {
            return Ok(());
        }
        let rows = trace::rows_of(notes)?;
        let (inner, space) = (Arc::clone(&self.inner), space.clone());
        self.on_threads("write to", async move {
            let kept = inner.keep_notes(&space, &rows, kept).await;
            kept.map_err(|failure| failure.into_error("write to", &inner.target.location))
        })
        .await
    }

    async fn notes(&self, space: &SpaceName, query: &NoteQuery) -> Result<Vec<TraceNote>, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { trace::list(or_none!(session, Vec::new()), &query).await }
        })
        .await
    }

    async fn watched(&self, space: &SpaceName, query: &WatchQuery) -> Result<WatchAnswer, StoreError> {
        let query = query.clone();
        self.read(space, move |session, _| {
            let query = query.clone();
            async move { watch::entries(or_none!(session, WatchAnswer::default()), &query).await }
        })
        .await
    }

    async fn live_observations(&self, space: &SpaceName, now: Timestamp, most: u64) -> Result<u64, StoreError> {
        self.read(space, move |session, _| async move {
            watch::live(or_none!(session, 0), now, most).await
        })
        .await
    }

    async fn compact(&self, space: &SpaceName, compaction: Compaction) -> Result<Compacted, StoreError> {
        self.write(space, false, move |session, _| async move {
            compact::compact(or_none!(session, Compacted::default()), &compaction).await
        })
        .await
    }

    async fn scrub(&self, space: &SpaceName, texts: Vec<String>) -> Result<Residue, StoreError> {
        if texts.is_empty() {
            return Ok(Residue::default());
        }
        let texts = Arc::new(texts);
        let said = Arc::clone(&texts);
        self.write(space, false, move |session, _| {
            let said = Arc::clone(&said);
            async move { trace::forget_texts(or_none!(session, ()), &said).await }
        })
        .await?;
        self.read(space, move |session, _| {
            let texts = Arc::clone(&texts);
            async move { residue::search(or_none!(session, Residue::default()), &texts).await }
        })
        .await
    }

    async fn spaces(&self) -> Result<Vec<SpaceName>, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_threads("read from", async move {
            let spaces = patiently!({ inner.all_spaces().await });
            spaces.map_err(|failure| failure.into_error("read from", &inner.target.location))
        })
        .await
    }

    async fn take_over(&self, space: &SpaceName, commits: Vec<CopiedCommit>) -> Result<Seq, StoreError> {
        let (inner, space) = (Arc::clone(&self.inner), space.clone());
        self.on_threads("write to", async move { inner.take_over(&space, commits).await })
            .await
    }

    async fn keep_token(&self, token: KeptToken) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_threads("write to", async move {
            let kept = patiently!({ token::keep(&inner.writers.get().await?, &token).await });
            kept.map_err(|failure| failure.into_error("write to", &inner.target.location))
        })
        .await
    }

    async fn tokens(&self) -> Result<Vec<KeptToken>, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_threads("read from", async move {
            let tokens = patiently!({ token::list(&inner.readers.get().await?).await });
            tokens.map_err(|failure| failure.into_error("read from", &inner.target.location))
        })
        .await
    }

    async fn check(&self) -> Result<Checkup, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_threads("read from", async move {
            let found = check::check(&inner).await;
            found.map_err(|failure| failure.into_error("read from", &inner.target.location))
        })
        .await
    }

    async fn back_up(&self, _: &Path) -> Result<(), StoreError> {
        let reason = format!(
            "{} is copied by PostgreSQL's own tools: pg_dump for a copy of now, or the log of the server for any moment",
            self.inner.target.location
        );
        Err(StoreError::Invalid(reason))
    }
}

fn stopped(error: &tokio::task::JoinError) -> StoreError {
    StoreError::Invalid(format!("the commit was not prepared: {error}"))
}
