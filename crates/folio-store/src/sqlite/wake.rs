//! Waking those who wait for commits, of this process and of others.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::lease::Owners;
use super::open::Target;
use super::writer::Job;

/// How often the file is looked at for commits of other processes while somebody waits for them.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A signal after each transaction, and the thread that gives it for other processes.
#[derive(Debug)]
pub(super) struct Wake {
    signal: watch::Sender<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    driving: bool,
    stopped: bool,
}

impl Wake {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            signal: watch::Sender::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Tells everybody who waits that something may have been committed.
    pub(super) fn ring(&self) {
        self.signal.send_modify(|rings| *rings += 1);
    }

    /// Hears every ring from now on; for as long as the answer lives, other processes are listened to.
    pub(super) fn listen(self: &Arc<Self>) -> Listener {
        self.update(|state| state.waiting += 1);
        Listener {
            signal: self.signal.subscribe(),
            wake: Arc::clone(self),
        }
    }

    /// Says whether this process drives runs.
    pub(super) fn set_driving(&self, driving: bool) {
        if self.state().driving != driving {
            self.update(|state| state.driving = driving);
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.update(|state| state.stopped = true);
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does: looks for commits of other processes while somebody waits, and lets `owners` say that they go
    /// on while they drive runs. Sleeps otherwise.
    pub(super) fn keep_watch(&self, target: &Target, owners: &Owners, jobs: &mpsc::WeakSender<Job>) {
        let mut watcher = Watcher::new(target);
        let every = owners.renewed_every();
        let mut renewed_at = Instant::now();
        loop {
            let (waiting, driving) = {
                let mut state = self.state();
                loop {
                    if state.stopped {
                        return;
                    }
                    let looks = state.waiting > 0 && watcher.is_needed();
                    let pause = match (looks, state.driving) {
                        (true, _) => Some(LOOK_EVERY),
                        (false, true) => Some(every.saturating_sub(renewed_at.elapsed())),
                        (false, false) => None,
                    };
                    let Some(pause) = pause else {
                        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                        // Whoever begins to drive has just said so.
                        renewed_at = Instant::now();
                        continue;
                    };
                    let (still, waited) = self
                        .changed
                        .wait_timeout(state, pause)
                        .unwrap_or_else(PoisonError::into_inner);
                    state = still;
                    if waited.timed_out() {
                        break (state.waiting > 0, state.driving);
                    }
                }
            };
            if waiting && watcher.sees_change() {
                self.ring();
            }
            if driving && renewed_at.elapsed() >= every {
                renewed_at = Instant::now();
                let Some(jobs) = jobs.upgrade() else { return };
                // The writer is gone only when the store is closed.
                if jobs.blocking_send(Job::Renew).is_err() {
                    return;
                }
            }
        }
    }
}

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Listener {
    signal: watch::Receiver<u64>,
    wake: Arc<Wake>,
}

impl Listener {
    /// Rings from now on count.
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
        self.wake
            .update(|state| state.waiting = state.waiting.saturating_sub(1));
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

    /// Whether there can be another process.
    fn is_needed(&self) -> bool {
        self.target.file.is_some()
    }

    fn sees_change(&mut self) -> bool {
        let version = self.version();
        let changed = version.is_none() || version != self.seen;
        self.seen = version;
        changed
    }

    /// A number that changes with every commit of another connection. `None` if it cannot be read: those who wait shall
    /// look themselves, and find out why.
    fn version(&mut self) -> Option<i64> {
        if self.conn.is_none() {
            self.conn = self.target.connect_reader().ok();
        }
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
}
