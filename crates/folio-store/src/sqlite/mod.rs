//! The embedded store: one SQLite file, any number of threads and processes, no daemon.
//!
//! - `open`, `migrate`: which program the file belongs to, its format, how connections are set up
//! - `store`: the interface of every store
//! - `job`, `writer`, `scope`, `commit`, `planned`, `replay`: a write from the caller to the disk
//! - `journal`, `entry`, `page`, `link`, `blob`, `run`, `policy`, `turn`, `token`: the rows of one table each, written
//!   and read
//! - `unclaimed`: bodies that nothing refers to yet; `written`: what calls of runs write
//! - `trace`: notes of the trace
//! - `place`: how those rows are numbered
//! - `readers`, `list`, `filter`: queries
//! - `living`: indexes in memory; `marks`: whether what lists show has changed
//! - `text`, `text_words`, `text_list`, `text_check`: the index of words, and searches in it
//! - `backup`: copies of the file, and back
//! - `closing`: waiting until a file is closed; `moved`: whether it is still in its place; `foreign_log`: whether the
//!   write-ahead log beside it belongs to it
//! - `lease`: which processes that drive runs are alive
//! - `wake`: waiting for commits, and the background thread
//! - `busy`: waiting for another process that writes
//! - `watch`, `compact`, `packed`: finding what is due, and storing it in less space
//! - `erase`, `rewrite`, `residue`: removing content from the log, and making sure that it is gone
//! - `check`: whether the rows follow from the log
//! - [`yardstick`]: what the disk can do at best

mod backup;
mod blob;
mod busy;
mod check;
mod closing;
mod commit;
mod compact;
mod entry;
mod erase;
mod error;
mod filter;
mod foreign_log;
mod job;
mod journal;
mod lease;
mod link;
mod linked;
mod list;
mod living;
mod log_parts;
mod marks;
mod migrate;
mod moved;
mod open;
mod packed;
mod page;
mod place;
mod planned;
mod policy;
mod readers;
mod replay;
mod residue;
mod restore;
mod rewrite;
mod run;
mod scope;
mod store;
mod text;
mod text_check;
mod text_list;
mod text_words;
mod token;
mod trace;
mod turn;
mod unclaimed;
mod wake;
mod watch;
mod writer;
mod written;
pub mod yardstick;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use folio_memory::SpaceName;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

pub use self::backup::bytes_copied_to;
pub use self::closing::wait_until_closed;
pub use self::open::{IN_MEMORY, OpenOptions};
pub use self::restore::{Look, Restored, look_over, restore};

use self::error::{Failure, explained, is_disk_full};
use self::job::{Answer, ForgottenTexts, Job};
use self::lease::Owners;
use self::living::Living;
use self::marks::Marks;
use self::open::Target;
use self::place::SpaceId;
use self::readers::Readers;
use self::scope::FoundSpaces;
use self::wake::Wake;
use self::writer::{Truncation, Writer};
use crate::error::StoreError;
use crate::upkeep::Residue;

/// How many jobs may wait for the writer before callers with more have to wait themselves.
const QUEUE: usize = 1024;

/// A store in one SQLite file.
///
/// Dropping it waits until everything that was handed over is written.
pub struct SqliteStore {
    location: String,
    file: Option<PathBuf>,
    readers: Arc<Readers>,
    spaces: Arc<FoundSpaces>,
    living: Arc<Living>,
    marks: Arc<Marks>,
    owners: Arc<Owners>,
    wake: Arc<Wake>,
    writer: Arc<Writer>,
    jobs: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    // Dropped after everything that has a connection.
    target: Target,
}

/// The work of a store's thread.
type Work = Box<dyn FnOnce() + Send>;
/// Starts a thread with a name.
type Start<'s> = dyn FnMut(&str, Work) -> std::io::Result<JoinHandle<()>> + 's;

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens what `options` name, creating it if it does not exist. Blocks for a moment.
    ///
    /// # Errors
    ///
    /// `Unavailable` with the reason if it cannot be opened or created, or was written by a newer version; `Invalid` if
    /// it is the file of another program; `Corrupt` if it is damaged or not a database at all.
    pub fn open(options: &OpenOptions) -> Result<Arc<Self>, StoreError> {
        Self::open_with(options, &mut |name, work| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work)
        })
    }

    /// The same, with threads that `start` starts.
    fn open_with(options: &OpenOptions, start: &mut Start<'_>) -> Result<Arc<Self>, StoreError> {
        let mut target = Target::of(options);
        let conn = match target.prepare() {
            Err(full) if options.reads_if_full && is_disk_full(&full) => {
                target = target.as_it_is().ok_or(full)?;
                target.prepare()?
            }
            prepared => prepared?,
        };
        // Whoever opens the file through a link has to find the same locks.
        let lock_beside = target
            .file
            .as_ref()
            .map(|file| file.canonicalize().unwrap_or_else(|_| file.clone()));
        let owners = Arc::new(Owners::new(lock_beside, options.lease));
        let wake = Wake::new();
        let marks = Arc::new(Marks::default());
        let writer = Writer::new(
            conn,
            target.clone(),
            Arc::clone(&owners),
            Arc::clone(&wake),
            Arc::clone(&marks),
        );
        let writer = Arc::new(writer.map_err(|error| explained(error, "open", &target.location))?);
        let (jobs, queue) = mpsc::channel(QUEUE);
        let mut store = Self {
            target: target.clone(),
            location: target.location.clone(),
            file: target.file.clone(),
            readers: Readers::new(target.clone()),
            spaces: Arc::default(),
            living: Arc::new(Living::new(options.live.clone(), target.clone())),
            marks,
            owners: Arc::clone(&owners),
            wake: Arc::clone(&wake),
            writer: Arc::clone(&writer),
            jobs: None,
            threads: Vec::new(),
        };
        let (watched, weak) = (Arc::clone(&writer), jobs.downgrade());
        // The only sender: if a thread cannot be started, dropping the store must not wait for the writer for ever.
        store.jobs = Some(jobs);
        store.spawn("folio-writer", Box::new(move || writer.run(queue)), start)?;
        let watch = move || wake.keep_watch(&target, &owners, &watched, &weak);
        store.spawn("folio-watch", Box::new(watch), start)?;
        Ok(Arc::new(store))
    }

    fn spawn(&mut self, name: &str, work: Work, start: &mut Start<'_>) -> Result<(), StoreError> {
        let thread = start(name, work);
        let thread =
            thread.map_err(|error| self.unavailable("open", "no thread can be started", Some(Box::new(error))))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Hands a job to the writer and waits for its outcome.
    async fn write<T>(&self, job: impl FnOnce(Answer<T>) -> Job) -> Result<T, StoreError> {
        let stopped = || self.unavailable("write to", "the writer has stopped", None);
        let (answer, done) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        let _under_way = self.writer.under_way();
        match self.writer.try_run_inline(job(answer)) {
            Some(job) => jobs.send(job).await.map_err(|_| stopped())?,
            None => {
                // A caller that writes one commit after the other must not keep other tasks from running.
                tokio::task::coop::consume_budget().await;
            }
        }
        done.await.map_err(|_| stopped())?
    }

    /// Reads from one space.
    async fn read<T: Send + 'static>(
        &self,
        space: &SpaceName,
        question: impl FnOnce(&Connection, Option<SpaceId>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read(self.about(space, question)).await
    }

    /// Reads a row or two from one space.
    async fn read_one<T: Send + 'static>(
        &self,
        space: &SpaceName,
        question: impl FnOnce(&Connection, Option<SpaceId>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read_one(self.about(space, question)).await
    }

    /// Wraps `question` about the space `name` for a reader.
    fn about<T, Q>(&self, name: &SpaceName, question: Q) -> impl FnOnce(&Connection) -> Result<T, Failure> + use<T, Q>
    where
        Q: FnOnce(&Connection, Option<SpaceId>) -> Result<T, Failure>,
    {
        let (name, spaces) = (name.clone(), Arc::clone(&self.spaces));
        move |conn| {
            let space = spaces.id(conn, &name)?;
            question(conn, space)
        }
    }

    async fn look_for(&self, space: &SpaceName, texts: Arc<Vec<String>>) -> Result<residue::Search, StoreError> {
        let file = self.file.clone();
        let question = move |conn: &Connection, space| residue::search(conn, file.as_deref(), space, &texts);
        self.readers.read(self.about(space, question)).await
    }

    /// Removes `texts` from the notes of `space`, and erased content from the indexes of words.
    async fn clean_up(&self, space: &SpaceName, texts: &Arc<Vec<String>>) -> Result<(), StoreError> {
        self.forget_in_notes(space, texts).await?;
        self.clean_up_words().await
    }

    /// Removes `texts` from the notes of `space`, in steps likewise.
    async fn forget_in_notes(&self, space: &SpaceName, texts: &Arc<Vec<String>>) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let part = ForgottenTexts {
                space: space.clone(),
                texts: Arc::clone(texts),
                after,
            };
            after = self.write(|answer| Job::ForgetNotes(part, answer)).await?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Removes erased content from the indexes of words, where it remains until they are rewritten. Works in steps, so
    /// that others can write in between and this process can renew its leases.
    async fn clean_up_words(&self) -> Result<(), StoreError> {
        for space in self.readers.read(text::spaces).await? {
            while !self.write(|answer| Job::CleanUp(space, answer)).await? {}
        }
        Ok(())
    }

    /// Does `work` on the whole file. If a reader prevented part of it, the answer says what may be left there.
    async fn with_writer(
        &self,
        work: impl FnOnce(&Writer) -> Result<Truncation, Failure> + Send + 'static,
    ) -> Result<Residue, StoreError> {
        let writer = Arc::clone(&self.writer);
        let done = tokio::task::spawn_blocking(move || work(&writer)).await;
        let done = done.map_err(|error| self.unavailable("write to", "the writer stopped", Some(Box::new(error))))?;
        let truncation = done.map_err(|failure| failure.into_error("write to", &self.location))?;
        let left = format!("free space of {}: another process is reading it", self.location);
        Ok(Residue {
            found: Vec::from_iter((truncation == Truncation::Prevented).then_some(left)),
            ..Residue::default()
        })
    }

    fn unavailable(
        &self,
        doing: &'static str,
        reason: &str,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::Unavailable {
            doing,
            location: self.location.clone(),
            reason: reason.to_owned(),
            source,
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.wake.stop();
        // The writer finishes its queue, and ends when nobody can send any more.
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it, and there is nothing left to wait for.
            thread.join().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests;
