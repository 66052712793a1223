//! The one thread of a process that writes: it takes whatever commits are waiting into one transaction.
//!
//! Making a transaction durable takes longer than filling it, so while one is under way the next fills up. Nobody is held
//! back to wait for company: a commit that comes alone is written alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::{PageId, RunId, Seq, SpaceName, Timestamp};
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::error::{Failure, repeated};
use super::lease::Owners;
use super::place::{Place, SpaceId};
use super::prepare::Prepared;
use super::wake::Wake;
use super::{commit, journal, page, run};
use crate::commit::Committed;
use crate::error::StoreError;
use crate::store::OwnerId;

/// Most jobs in one transaction.
const JOBS_MAX: usize = 512;
/// Bytes after which a transaction is closed.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long the thread looks out for another job before it goes to sleep. Whoever writes one commit after the other
/// brings the next within this time, and finds the thread awake: falling asleep and being woken takes as long.
const AWAKE: Duration = Duration::from_micros(60);
/// Pages of which it is remembered where they stand.
const PAGES_KNOWN: usize = 4096;

/// Where an answer goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Something to write.
#[derive(Debug)]
pub(super) enum Job {
    Commit(Box<Prepared>, Answer<Committed>),
    Claim(RunClaim, Answer<u64>),
    Release(RunRelease, Answer<()>),
    /// The owners of this process say that they go on.
    Renew,
}

/// Who wants to drive which run.
#[derive(Debug)]
pub(super) struct RunClaim {
    pub(super) space: SpaceName,
    pub(super) run: RunId,
    pub(super) owner: OwnerId,
}

/// Which run is given up, and under which number it was held.
#[derive(Debug)]
pub(super) struct RunRelease {
    pub(super) space: SpaceName,
    pub(super) run: RunId,
    pub(super) fence: u64,
}

/// What became of a job.
#[derive(Debug)]
enum Done {
    Committed(Box<Committed>),
    Claimed(u64),
    Nothing,
}

/// The thread's state.
#[derive(Debug)]
pub(super) struct Writer {
    conn: Connection,
    location: String,
    owners: Arc<Owners>,
    wake: Arc<Wake>,
    known: Known,
}

/// What need not be looked up again.
#[derive(Debug, Default)]
struct Known {
    /// Spaces and pages never go away, so what is known of them stays true, unless the transaction that made them fails.
    spaces: HashMap<SpaceName, SpaceId>,
    pages: HashMap<(SpaceId, PageId), Place>,
    /// True as long as no other process writes.
    ends: HashMap<SpaceId, Ends>,
    /// Changes when another process has written.
    data_version: Option<i64>,
}

/// What can be done within one transaction, in which nobody else can write.
#[derive(Debug)]
pub(super) struct Scope<'w> {
    pub(super) conn: &'w Connection,
    known: &'w mut Known,
    has_committed: bool,
}

/// The last numbers given in a space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) head: Seq,
    pub(super) at: Timestamp,
    pub(super) entries: u64,
    pub(super) pages: u64,
    pub(super) runs: u64,
}

impl Writer {
    pub(super) fn new(conn: Connection, location: String, owners: Arc<Owners>, wake: Arc<Wake>) -> Self {
        Self {
            conn,
            location,
            owners,
            wake,
            known: Known::default(),
        }
    }

    /// Works until nobody can send jobs any more.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = next_soon(&mut jobs).or_else(|| jobs.blocking_recv()) {
            self.work_off(first, &mut jobs);
        }
    }

    /// Does `first` and whatever else is waiting, in one transaction.
    fn work_off(&mut self, first: Job, waiting: &mut mpsc::Receiver<Job>) {
        if let Err(error) = execute(&self.conn, "BEGIN IMMEDIATE") {
            // Whoever holds the file would keep the others waiting just as long.
            let all = std::iter::once(first).chain(std::iter::from_fn(|| waiting.try_recv().ok()));
            for job in all {
                self.answer(job, Err(Failure::Sql(repeated(&error))));
            }
            return;
        }
        let mut done = Vec::new();
        let written = self.together(first, waiting, &mut done);
        match written {
            Ok(has_committed) => {
                for (job, done) in done {
                    self.answer(job, done);
                }
                if has_committed {
                    self.wake.ring();
                }
                self.wake.set_driving(self.owners.are_driving());
            }
            Err(failure) => {
                self.roll_back();
                if done.len() == 1
                    && let Some((job, _)) = done.pop()
                {
                    self.answer(job, Err(failure));
                    return;
                }
                // One of them, or all of them together, is more than the database can do: each for itself, then.
                for (job, _) in done {
                    let done = self.alone(&job);
                    self.answer(job, done);
                }
                self.wake.ring();
                self.wake.set_driving(self.owners.are_driving());
            }
        }
    }

    /// Whether anything was committed. On failure `done` has every job that was taken.
    fn together(
        &mut self,
        first: Job,
        waiting: &mut mpsc::Receiver<Job>,
        done: &mut Vec<(Job, Result<Done, Failure>)>,
    ) -> Result<bool, Failure> {
        let mut scope = Scope::new(&self.conn, &mut self.known)?;
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(job) = next {
            bytes += job.bytes();
            match job.apply(&mut scope, &self.owners) {
                // Whatever could not be granted has changed nothing, and does not keep the others from being written.
                outcome @ (Ok(_) | Err(Failure::Refused(_))) => done.push((job, outcome)),
                Err(failure) => {
                    done.push((job, Ok(Done::Nothing)));
                    return Err(failure);
                }
            }
            next = if done.len() < JOBS_MAX && bytes < BYTES_MAX {
                waiting.try_recv().ok()
            } else {
                None
            };
        }
        let has_committed = scope.has_committed;
        execute(&self.conn, "COMMIT")?;
        Ok(has_committed)
    }

    fn alone(&mut self, job: &Job) -> Result<Done, Failure> {
        execute(&self.conn, "BEGIN IMMEDIATE")?;
        let scope = Scope::new(&self.conn, &mut self.known);
        let done = scope.and_then(|mut scope| job.apply(&mut scope, &self.owners));
        let done = done.and_then(|done| {
            execute(&self.conn, "COMMIT")?;
            Ok(done)
        });
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    fn roll_back(&mut self) {
        // What was made in this transaction is not there any more.
        self.known = Known::default();
        if !self.conn.is_autocommit() {
            // Should this fail, the next BEGIN does, and its caller hears why.
            execute(&self.conn, "ROLLBACK").unwrap_or_default();
        }
    }

    /// Tells whoever waits for `job`. Somebody who does not wait any more is no reason to do anything differently.
    fn answer(&self, job: Job, done: Result<Done, Failure>) {
        let done = done.map_err(|failure| failure.into_error("write to", &self.location));
        match (job, done) {
            (Job::Commit(_, answer), Ok(Done::Committed(committed))) => drop(answer.send(Ok(*committed))),
            (Job::Commit(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Job::Claim(claim, answer), Ok(Done::Claimed(fence))) => {
                self.owners.drives(&claim.space, claim.run);
                drop(answer.send(Ok(fence)));
            }
            (Job::Claim(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Job::Release(release, answer), done) => {
                self.owners.gave_up(&release.space, release.run);
                drop(answer.send(done.map(drop)));
            }
            // A lease that could not be renewed is renewed next time, or another process takes over.
            (Job::Renew | Job::Commit(..) | Job::Claim(..), _) => {}
        }
    }
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Commit(commit, _) => commit.bytes(),
            Self::Claim(..) | Self::Release(..) | Self::Renew => 0,
        }
    }

    fn apply(&self, scope: &mut Scope<'_>, owners: &Owners) -> Result<Done, Failure> {
        Ok(match self {
            Self::Commit(prepared, _) => Done::Committed(Box::new(commit::apply(scope, prepared)?)),
            Self::Claim(RunClaim { space, run, owner }, _) => {
                let space = scope.space(space)?;
                Done::Claimed(run::claim(scope.conn, space, *run, owner, owners)?)
            }
            Self::Release(RunRelease { space, run, fence }, _) => {
                let space = scope.space(space)?;
                run::release(scope.conn, space, *run, *fence)?;
                Done::Nothing
            }
            Self::Renew => {
                owners.renew_all(scope.conn)?;
                Done::Nothing
            }
        })
    }
}

impl<'w> Scope<'w> {
    fn new(conn: &'w Connection, known: &'w mut Known) -> Result<Self, Failure> {
        let version = conn
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if known.data_version != Some(version) {
            known.data_version = Some(version);
            known.ends.clear();
        }
        Ok(Self {
            conn,
            known,
            has_committed: false,
        })
    }

    /// The row of the space called `name`, if it has one.
    pub(super) fn space(&mut self, name: &SpaceName) -> Result<Option<SpaceId>, Failure> {
        if let Some(space) = self.known.spaces.get(name) {
            return Ok(Some(*space));
        }
        let space = space_id(self.conn, name)?;
        if let Some(space) = space {
            self.known.spaces.insert(name.clone(), space);
        }
        Ok(space)
    }

    /// Where the page called `id` stands.
    pub(super) fn page(&mut self, space: SpaceId, id: PageId) -> Result<Option<Place>, Failure> {
        if let Some(place) = self.known.pages.get(&(space, id)) {
            return Ok(Some(*place));
        }
        let place = page::place_of(self.conn, space, id)?;
        if let Some(place) = place {
            if self.known.pages.len() >= PAGES_KNOWN {
                self.known.pages.clear();
            }
            self.known.pages.insert((space, id), place);
        }
        Ok(place)
    }

    /// The row that the next new space gets.
    pub(super) fn next_space(&self) -> Result<SpaceId, Failure> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM space";
        Ok(self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Gives the space called `name` the row `space`.
    pub(super) fn add_space(&mut self, name: &SpaceName, space: SpaceId) -> Result<(), Failure> {
        let sql = "INSERT INTO space (id, name) VALUES (?1, ?2)";
        self.conn.prepare_cached(sql)?.execute((space, name.as_str()))?;
        self.known.spaces.insert(name.clone(), space);
        Ok(())
    }

    /// The last numbers given in `space`.
    pub(super) fn ends(&mut self, space: SpaceId) -> Result<Ends, Failure> {
        if let Some(ends) = self.known.ends.get(&space) {
            return Ok(*ends);
        }
        let (head, at) = journal::last(self.conn, space)?.unwrap_or((Seq(0), Timestamp::MIN));
        let ends = Ends {
            head,
            at,
            entries: last_number(
                self.conn,
                "SELECT max(place) FROM entry WHERE place BETWEEN ?1 AND ?2",
                space,
            )?,
            pages: last_number(
                self.conn,
                "SELECT max(place) FROM page WHERE place BETWEEN ?1 AND ?2",
                space,
            )?,
            runs: last_number(
                self.conn,
                "SELECT max(place) FROM run WHERE place BETWEEN ?1 AND ?2",
                space,
            )?,
        };
        self.known.ends.insert(space, ends);
        Ok(ends)
    }

    /// Notes a commit after which the last numbers are `ends`.
    pub(super) fn committed(&mut self, space: SpaceId, ends: Ends) {
        self.known.ends.insert(space, ends);
        self.has_committed = true;
    }
}

/// A job that comes within the next moment.
fn next_soon(jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
    let start = Instant::now();
    loop {
        match jobs.try_recv() {
            Ok(job) => return Some(job),
            Err(mpsc::error::TryRecvError::Empty) if start.elapsed() < AWAKE => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
}

/// The row of the space called `name`.
pub(super) fn space_id(conn: &Connection, name: &SpaceName) -> Result<Option<SpaceId>, Failure> {
    let mut statement = conn.prepare_cached("SELECT id FROM space WHERE name = ?1")?;
    Ok(statement.query_row([name.as_str()], |row| row.get(0)).optional()?)
}

fn last_number(conn: &Connection, sql: &str, space: SpaceId) -> Result<u64, Failure> {
    let last: Option<Place> = conn
        .prepare_cached(sql)?
        .query_row((Place::start(space), Place::end(space)), |row| row.get(0))?;
    Ok(last.map_or(0, Place::number))
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}
