//! The writer: one connection, and one transaction at a time.
//!
//! Making a transaction durable takes longer than filling it, so while one is under way the jobs for the next gather in
//! a queue, and the thread takes all of them into one. No job is held back to wait for others: a job that comes alone
//! is done alone, and, where that takes only microseconds, right on the caller's thread. Handing it to another thread
//! and being woken by it would take a quarter of the time that the disk takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::busy;
use super::error::{Failure, repeated};
use super::job::{Done, Job};
use super::lease::Owners;
use super::marks::{Marks, Wrote};
use super::open::{BUSY_WAIT, Target};
use super::scope::{Known, Scope};
use super::text::FAR_BEHIND_COMMITS;
use super::wake::Wake;

/// The most jobs in one transaction.
const JOBS_MAX: usize = 512;
/// The size in bytes at which a transaction is closed.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long transactions may usually take for jobs to be done on the caller's thread: on a slower disk the way to the
/// writer's thread does not matter, and callers have better things to do meanwhile.
const MAX_INLINE_TIME: Duration = Duration::from_micros(500);
/// The length of the write-ahead log, in pages of 4 KiB, at which it is moved into the file. A page that was written
/// often meanwhile is moved once.
const WAL_PAGES: u32 = 6_000;
/// How long rewriting a file may take. For that time the owners of this process count as alive, as long as it lives.
const REWRITE_TIME_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The writer, shared by its thread and those who bring jobs.
#[derive(Debug)]
pub(super) struct Writer {
    pen: Mutex<Pen>,
    /// How many jobs are under way, on any thread.
    under_way: AtomicUsize,
    /// Whether transactions take so long that all of them go to the thread.
    is_slow: AtomicBool,
    wal: Arc<WalLength>,
}

/// What became of the write-ahead log that was to be truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truncation {
    /// All of it is in the file.
    Done,
    /// Somebody still reads an earlier state. What the log and the file held then may still be in them.
    Prevented,
}

/// The length of the write-ahead log.
#[derive(Debug)]
struct WalLength {
    pages: AtomicU32,
    /// The number of pages at which it should be moved into the file.
    pages_max: AtomicU32,
}

/// What only one thread can hold at a time: the connection that writes.
#[derive(Debug)]
struct Pen {
    conn: Connection,
    // Dropped after the connection.
    target: Target,
    owners: Arc<Owners>,
    wake: Arc<Wake>,
    marks: Arc<Marks>,
    known: Known,
    /// Set while a caller holds the pen: it does not wait for another process.
    is_in_a_hurry: Arc<AtomicBool>,
    /// How long recent transactions took.
    usual: Duration,
    /// Whether the connection currently does not wait for the disk.
    is_careless: bool,
    /// How much was committed since indexes of words were last considered.
    not_indexed: u64,
}

impl Writer {
    pub(super) fn new(
        mut conn: Connection,
        target: Target,
        owners: Arc<Owners>,
        wake: Arc<Wake>,
        marks: Arc<Marks>,
    ) -> rusqlite::Result<Self> {
        let is_in_a_hurry = Arc::<AtomicBool>::default();
        conn.busy_handler(Some(busy::patience_unless(Arc::clone(&is_in_a_hurry), BUSY_WAIT)))?;
        let wal = Arc::new(WalLength {
            pages: AtomicU32::new(0),
            pages_max: AtomicU32::new(WAL_PAGES),
        });
        let counted = Arc::clone(&wal);
        // Replaces SQLite's own checkpoints, which would happen in the middle of somebody's commit.
        conn.wal_hook(Some(move |_: &mut Wal, pages| {
            counted.note(u32::try_from(pages).unwrap_or(0));
            Ok(())
        }))?;
        let usual = Duration::ZERO;
        let pen = Mutex::new(Pen {
            conn,
            target,
            owners,
            wake,
            marks,
            known: Known::default(),
            is_in_a_hurry,
            usual,
            is_careless: false,
            not_indexed: 0,
        });
        Ok(Self {
            pen,
            under_way: AtomicUsize::new(0),
            is_slow: AtomicBool::new(false),
            wal,
        })
    }

    /// The loop of the thread: works until nobody can send jobs any more.
    pub(super) fn run(&self, mut jobs: mpsc::Receiver<Job>) {
        let mut set_aside = None;
        while let Some(first) = set_aside.take().or_else(|| jobs.blocking_recv()) {
            let mut pen = self.pen.lock();
            if first.may_be_lost() {
                let done = pen.apply_without_sync(&first);
                pen.answer(first, done);
                self.update_timing(&pen);
                continue;
            }
            match pen.begin() {
                Ok(()) => pen.run_jobs(first, &mut || {
                    let next = jobs.try_recv().ok()?;
                    if next.needs_own_transaction() {
                        set_aside = Some(next);
                        return None;
                    }
                    Some(next)
                }),
                Err(error) => {
                    // Whatever blocks the file would keep the other jobs waiting just as long.
                    let all = std::iter::once(first).chain(std::iter::from_fn(|| jobs.try_recv().ok()));
                    all.for_each(|job| pen.answer(job, Err(Failure::Sql(repeated(&error)))));
                }
            }
            self.update_timing(&pen);
        }
    }

    /// Moves the write-ahead log into the file while nobody can write.
    pub(super) fn tidy(&self) {
        let pen = self.pen.lock();
        checkpoint(&pen.conn);
        self.wal.note_moved();
    }

    /// Moves all of the write-ahead log into the file and truncates it. No process can write meanwhile.
    pub(super) fn truncate_wal(&self) -> Result<Truncation, Failure> {
        self.without_renewing(Pen::truncate_wal)
    }

    /// Rewrites the whole file without its free space, and truncates the write-ahead log. No process can write
    /// meanwhile.
    pub(super) fn rewrite_file(&self) -> Result<Truncation, Failure> {
        self.without_renewing(Pen::rewrite_file)
    }

    /// Does `work`, during which no lease can be renewed.
    fn without_renewing(
        &self,
        work: impl FnOnce(&mut Pen) -> Result<Truncation, Failure>,
    ) -> Result<Truncation, Failure> {
        let mut pen = self.pen.lock();
        pen.renew(REWRITE_TIME_LIMIT)?;
        let done = work(&mut pen);
        let lease = pen.owners.lease();
        // If this fails, it is done next time: until then the owners count as alive.
        pen.renew(lease).unwrap_or_default();
        let truncation = done?;
        if truncation == Truncation::Done {
            self.wal.note(0);
        }
        Ok(truncation)
    }

    /// Waits no longer than `limit` for others who use the file.
    #[cfg(test)]
    pub(super) fn set_patience(&self, limit: Duration) {
        let mut pen = self.pen.lock();
        pen.conn.busy_handler(Some(busy::patience(limit))).unwrap();
    }

    /// Counts from now on what the database does to write, in hundreds of its steps.
    #[cfg(test)]
    pub(super) fn count_steps(&self) -> Arc<AtomicUsize> {
        let counted = Arc::<AtomicUsize>::default();
        let counts = Arc::clone(&counted);
        let handler = move || {
            counts.fetch_add(1, Ordering::SeqCst);
            false
        };
        let mut pen = self.pen.lock();
        pen.conn.progress_handler(100, Some(handler)).unwrap();
        counted
    }

    /// Counts a job as under way until the result is dropped.
    pub(super) fn under_way(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        UnderWay(self)
    }

    /// Does `job` right here, unless there are other jobs with which it can share a transaction, or it would take long.
    /// Then it is returned.
    pub(super) fn try_run_inline(&self, job: Job) -> Option<Job> {
        let is_alone = self.under_way.load(Ordering::Acquire) == 1;
        if !is_alone || self.is_slow.load(Ordering::Relaxed) || !job.is_small() {
            return Some(job);
        }
        let Some(mut pen) = self.pen.try_lock() else {
            return Some(job);
        };
        pen.is_in_a_hurry.store(true, Ordering::Relaxed);
        let transaction = pen.begin();
        pen.is_in_a_hurry.store(false, Ordering::Relaxed);
        if transaction.is_err() {
            // Another process is writing, or something failed. The thread has the time to wait, and reports errors.
            return Some(job);
        }
        pen.run_jobs(job, &mut || None);
        self.update_timing(&pen);
        None
    }

    /// Adjusts to how long the last transaction took and what it left to do.
    fn update_timing(&self, pen: &Pen) {
        self.is_slow.store(pen.usual > MAX_INLINE_TIME, Ordering::Relaxed);
        if self.wal.is_long() {
            pen.wake.tidy();
        }
    }
}

/// A job that is under way.
#[derive(Debug)]
pub(super) struct UnderWay<'w>(&'w Writer);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

impl WalLength {
    /// Records that there are `pages` now.
    fn note(&self, pages: u32) {
        if pages < self.pages.swap(pages, Ordering::Relaxed) {
            // The log was moved, and starts over.
            self.pages_max.store(WAL_PAGES, Ordering::Relaxed);
        }
    }

    /// Records that the log was moved. A process that still reads from it may keep it from starting over, and trying
    /// again with every commit would not help.
    fn note_moved(&self) {
        self.pages_max.store(
            self.pages.load(Ordering::Relaxed).saturating_add(WAL_PAGES),
            Ordering::Relaxed,
        );
    }

    fn is_long(&self) -> bool {
        self.pages.load(Ordering::Relaxed) >= self.pages_max.load(Ordering::Relaxed)
    }
}

impl Pen {
    fn begin(&mut self) -> rusqlite::Result<()> {
        if !self.conn.is_autocommit() {
            // A thread panicked in the middle of a transaction.
            self.roll_back();
        }
        if self.is_careless {
            self.conn.execute_batch("PRAGMA synchronous = FULL")?;
            self.is_careless = false;
        }
        execute(&self.conn, "BEGIN IMMEDIATE")
    }

    /// Renews the leases of this process's owners for `lease`, if they drive runs.
    fn renew(&mut self, lease: Duration) -> Result<(), Failure> {
        if !self.owners.are_driving() {
            return Ok(());
        }
        self.begin()?;
        let renewed = self.owners.renew_all(&self.conn, lease);
        self.finished(renewed.map(|()| (Done::Nothing, Vec::new()))).map(drop)
    }

    /// Moves the write-ahead log into the file and truncates it.
    fn truncate_wal(&mut self) -> Result<Truncation, Failure> {
        self.prepare_for_whole_file()?;
        let is_busy: bool = self
            .conn
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        Ok(if is_busy {
            Truncation::Prevented
        } else {
            Truncation::Done
        })
    }

    /// Rewrites the file and truncates the write-ahead log.
    fn rewrite_file(&mut self) -> Result<Truncation, Failure> {
        self.prepare_for_whole_file()?;
        self.conn.execute_batch("VACUUM")?;
        self.truncate_wal()
    }

    fn prepare_for_whole_file(&mut self) -> Result<(), Failure> {
        if !self.conn.is_autocommit() {
            self.roll_back();
        }
        self.target.check_in_place("write to").map_err(Failure::from)
    }

    /// Does `job` in a transaction of its own that does not wait for the disk. Later commits are durable all the same,
    /// and make this one durable, too: the disk keeps the order of the write-ahead log.
    fn apply_without_sync(&mut self, job: &Job) -> Result<Done, Failure> {
        if !self.conn.is_autocommit() {
            self.roll_back();
        }
        if !self.is_careless {
            self.is_careless = true;
            self.conn.execute_batch("PRAGMA synchronous = NORMAL")?;
        }
        let transaction = execute(&self.conn, "BEGIN IMMEDIATE").map_err(Failure::from);
        let done = transaction.and_then(|()| self.applied(job));
        self.finished(done)
    }

    /// Does `job` within the current transaction; returns its outcome, and the commits that it made.
    fn applied(&mut self, job: &Job) -> Result<(Done, Vec<Wrote>), Failure> {
        let mut scope = Scope::new(&self.conn, &mut self.known)?;
        let done = job.apply(&mut scope, &self.owners)?;
        Ok((done, scope.wrote))
    }

    /// Does `first` and all other waiting jobs in the current transaction.
    fn run_jobs(&mut self, first: Job, waiting: &mut dyn FnMut() -> Option<Job>) {
        let (start, is_usual) = (Instant::now(), !first.needs_own_transaction());
        let mut done = Vec::new();
        let written = self.apply_jobs_and_commit(first, waiting, &mut done);
        if is_usual {
            self.usual = (self.usual * 7 + start.elapsed()) / 8;
        }
        match written {
            Ok(commits) => {
                let has_committed = commits > 0;
                self.not_indexed += commits;
                for (job, done) in done {
                    self.answer(job, done);
                }
                if has_committed {
                    self.wake.ring();
                }
            }
            Err(failure) => {
                self.roll_back();
                if done.len() == 1
                    && let Some((job, _)) = done.pop()
                {
                    self.answer(job, Err(failure));
                    return;
                }
                // One of the jobs, or all together, is more than the database can do, so each is done by itself.
                for (job, _) in done {
                    let done = self.run_alone(&job);
                    self.answer(job, done);
                }
                self.wake.ring();
            }
        }
        if self.not_indexed >= FAR_BEHIND_COMMITS {
            self.not_indexed = 0;
            self.wake.index();
        }
        self.wake.set_driving(self.owners.are_driving());
    }

    /// Returns the number of commits. On failure `done` has every job that was taken.
    fn apply_jobs_and_commit(
        &mut self,
        first: Job,
        waiting: &mut dyn FnMut() -> Option<Job>,
        done: &mut Vec<(Job, Result<Done, Failure>)>,
    ) -> Result<u64, Failure> {
        let mut scope = match Scope::new(&self.conn, &mut self.known) {
            Ok(scope) => scope,
            Err(failure) => {
                done.push((first, Ok(Done::Nothing)));
                return Err(failure);
            }
        };
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(job) = next {
            bytes += job.bytes();
            match job.apply(&mut scope, &self.owners) {
                // A refused job has changed nothing, and does not keep the others from being written.
                outcome @ (Ok(_) | Err(Failure::Refused(_))) => done.push((job, outcome)),
                Err(failure) => {
                    done.push((job, Ok(Done::Nothing)));
                    return Err(failure);
                }
            }
            next = if done.len() < JOBS_MAX && bytes < BYTES_MAX {
                waiting()
            } else {
                None
            };
        }
        let wrote = scope.wrote;
        self.commit(&wrote)?;
        Ok(wrote.len() as u64)
    }

    fn run_alone(&mut self, job: &Job) -> Result<Done, Failure> {
        self.begin()?;
        let done = self.applied(job);
        self.finished(done)
    }

    /// Makes the transaction with the commits `wrote` durable.
    fn commit(&self, wrote: &[Wrote]) -> Result<(), Failure> {
        // As late as possible: whatever is acknowledged must be found again.
        self.target.check_in_place("write to")?;
        let changing = self.marks.begin(wrote);
        let committed = execute(&self.conn, "COMMIT");
        self.marks.settle(&changing, wrote, committed.is_ok());
        Ok(committed?)
    }

    /// Ends the transaction that produced `done`.
    fn finished(&mut self, done: Result<(Done, Vec<Wrote>), Failure>) -> Result<Done, Failure> {
        let done = done.and_then(|(done, wrote)| {
            self.commit(&wrote)?;
            Ok(done)
        });
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    fn roll_back(&mut self) {
        // What was added in this transaction no longer exists.
        self.known = Known::default();
        if !self.conn.is_autocommit() {
            // If this fails, so does the next BEGIN, and its caller gets the reason.
            execute(&self.conn, "ROLLBACK").unwrap_or_default();
        }
    }

    fn answer(&self, job: Job, done: Result<Done, Failure>) {
        job.answer(
            done.map_err(|failure| failure.into_error("write to", &self.target.location)),
            &self.owners,
        );
    }
}

/// Moves what it can of the write-ahead log into the file. The rest is moved next time.
pub(super) fn checkpoint(conn: &Connection) {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        .unwrap_or_default();
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}
