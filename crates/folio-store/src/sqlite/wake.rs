//! Wakes those who wait for commits, of this process and of others, and runs the background thread.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::job::Job;
use super::lease::Owners;
use super::open::Target;
use super::place::SpaceId;
use super::text;
use super::writer::{Writer, checkpoint};

/// How often the file is checked for commits of other processes while anybody waits for them.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A signal after each transaction, and the duties of the background thread.
#[derive(Debug)]
pub(super) struct Wake {
    signal: watch::Sender<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many listeners wait for commits.
    waiting: usize,
    /// Whether this process drives runs.
    driving: bool,
    /// Whether the write-ahead log has grown long.
    long_log: bool,
    /// Whether so much was written that indexes of words may be far behind.
    behind: bool,
    stopped: bool,
}

/// What the thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    /// Check for commits of other processes.
    Look,
    /// Renew the leases of the owners.
    Renew,
    /// Move the write-ahead log into the file.
    Tidy,
    /// Let an index of words catch up for a limited time.
    Index,
    /// End.
    Stop,
}

impl Wake {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            signal: watch::Sender::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Tells all listeners that something may have been committed.
    pub(super) fn ring(&self) {
        self.signal.send_modify(|rings| *rings += 1);
    }

    /// Starts to listen for rings. Other processes are watched for as long as the result lives.
    pub(super) fn listen(self: &Arc<Self>) -> Listener {
        let mut state = self.state();
        state.waiting += 1;
        if state.waiting == 1 {
            self.changed.notify_one();
        }
        Listener {
            signal: self.signal.subscribe(),
            wake: Arc::clone(self),
        }
    }

    /// Sets whether this process drives runs.
    pub(super) fn set_driving(&self, driving: bool) {
        let mut state = self.state();
        if state.driving != driving {
            state.driving = driving;
            self.changed.notify_one();
        }
    }

    /// Reports that the write-ahead log has grown long.
    pub(super) fn tidy(&self) {
        let mut state = self.state();
        if !state.long_log {
            state.long_log = true;
            self.changed.notify_one();
        }
    }

    /// Reports that indexes of words may be far behind.
    pub(super) fn index(&self) {
        let mut state = self.state();
        if !state.behind {
            state.behind = true;
            self.changed.notify_one();
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The loop of the thread: checks for commits of other processes while anybody waits, renews the leases of `owners`
    /// while they drive runs, moves the write-ahead log into the file, and lets indexes of words catch up. Sleeps
    /// otherwise.
    pub(super) fn keep_watch(&self, target: &Target, owners: &Owners, writer: &Writer, jobs: &mpsc::WeakSender<Job>) {
        let mut watcher = Watcher::new(target);
        let mut looked_at = Instant::now();
        let mut renewed_at = Instant::now();
        loop {
            match self.next_duty(looked_at + POLL_INTERVAL, renewed_at + owners.renewed_every()) {
                Duty::Stop => return,
                Duty::Look => {
                    looked_at = Instant::now();
                    if watcher.sees_change() {
                        self.ring();
                    }
                }
                Duty::Renew => {
                    renewed_at = Instant::now();
                    // The writer is gone only when the store is closed.
                    if jobs
                        .upgrade()
                        .is_none_or(|jobs| jobs.blocking_send(Job::Renew).is_err())
                    {
                        return;
                    }
                }
                Duty::Tidy => {
                    // Most of it while others write, the rest while they are blocked: as long as they append to the
                    // log, it could never be moved completely and start over. Skipped for a file that was moved, whose
                    // log may be that of another one by now.
                    if target.check_in_place("write to").is_ok() {
                        watcher.tidy();
                        writer.tidy();
                    }
                    self.state().long_log = false;
                }
                Duty::Index => {
                    let behind = watcher.far_behind();
                    let is_done = match behind {
                        Some(space) => !let_catch_up(space, jobs),
                        None => true,
                    };
                    if is_done {
                        self.state().behind = false;
                    }
                }
            }
        }
    }

    /// Waits until there is something to do: checking from `look_at` on if anybody waits, renewing from `renew_at` on
    /// if this process drives runs.
    fn next_duty(&self, look_at: Instant, renew_at: Instant) -> Duty {
        let mut state = self.state();
        loop {
            let mut next = None;
            if state.stopped {
                return Duty::Stop;
            }
            if state.long_log {
                return Duty::Tidy;
            }
            let duties = [
                (state.driving, renew_at, Duty::Renew),
                (state.waiting > 0, look_at, Duty::Look),
            ];
            for (_, due_at, duty) in duties.into_iter().filter(|(is_wanted, ..)| *is_wanted) {
                let pause = due_at.saturating_duration_since(Instant::now());
                if pause.is_zero() {
                    return duty;
                }
                next = Some(next.map_or(pause, |other: Duration| other.min(pause)));
            }
            if state.behind {
                return Duty::Index;
            }
            match next {
                Some(pause) => {
                    self.changed.wait_for(&mut state, pause);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}

/// Has the writer index for a limited time; returns whether it did.
fn let_catch_up(space: SpaceId, jobs: &mpsc::WeakSender<Job>) -> bool {
    let (answer, done) = oneshot::channel();
    let sent = jobs
        .upgrade()
        .is_some_and(|jobs| jobs.blocking_send(Job::Index(space, answer)).is_ok());
    sent && done.blocking_recv().is_ok_and(|indexed| indexed.is_ok())
}

/// A waiter for commits.
#[derive(Debug)]
pub(super) struct Listener {
    signal: watch::Receiver<u64>,
    wake: Arc<Wake>,
}

impl Listener {
    /// Counts only rings from now on.
    pub(super) fn attend(&mut self) {
        self.signal.mark_unchanged();
    }

    /// Waits for a ring since [`Self::attend`].
    pub(super) async fn ring(&mut self) {
        // The sender lives as long as this does, so it is never gone.
        self.signal.changed().await.unwrap_or_default();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.wake.state();
        state.waiting = state.waiting.saturating_sub(1);
    }
}

/// Sees whether another process has committed.
struct Watcher<'t> {
    target: &'t Target,
    conn: Option<Connection>,
    seen: Option<i64>,
}

impl<'t> Watcher<'t> {
    fn new(target: &'t Target) -> Self {
        Self {
            target,
            conn: None,
            seen: None,
        }
    }

    fn sees_change(&mut self) -> bool {
        if self.target.file.is_none() {
            // A store in memory has no other processes.
            return false;
        }
        let version = self.version();
        let changed = version.is_none() || version != self.seen;
        self.seen = version;
        changed
    }

    /// A number that changes with every commit of another connection. `None` if it cannot be read: then those who wait
    /// should look themselves, and find out why.
    fn version(&mut self) -> Option<i64> {
        self.connect();
        let version = self
            .conn
            .as_ref()?
            .pragma_query_value(None, "data_version", |row| row.get(0))
            .ok();
        if version.is_none() {
            self.conn = None;
        }
        version
    }

    /// Moves what it can of the write-ahead log into the file. If something prevents that, it is tried again next time,
    /// or reported to a writer.
    fn tidy(&mut self) {
        self.connect();
        if let Some(conn) = &self.conn {
            checkpoint(conn);
        }
    }

    /// A space whose index of words is far behind. `None` if there is none, or if that cannot be read: then a search
    /// finds out why.
    fn far_behind(&mut self) -> Option<SpaceId> {
        self.connect();
        let behind = text::far_behind(self.conn.as_ref()?, text::FAR_BEHIND_COMMITS / 4).ok()?;
        behind.into_iter().next()
    }

    fn connect(&mut self) {
        if self.conn.is_none() {
            self.conn = self.target.connect_reader().ok();
        }
    }
}
