//! Detects when somebody else writes to the journals of runs that are driven here: people who stop, pause or answer
//! them, also from other processes. And when the store may lack something of these journals that was there before.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use folio_memory::{RunId, Seq};
use folio_store::StoreError;
use folio_store::workspace::Workspace;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The minimum interval between checks whether somebody else wrote to the journals of a runner's runs.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The pause after a check, as a multiple of its duration: a check of a thousand runs takes some milliseconds.
const PAUSE_FACTOR: u32 = 50;
/// The longest pause, however slow the store is.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The runs that are driven here, and one task that watches all of them: a thousand runs cost one query, not a
/// thousand.
#[derive(Debug, Default)]
pub(crate) struct JournalWatcher {
    watched: Mutex<WatchedRuns>,
    /// Whether a run was added that was not checked yet: somebody may have written to it since its driver read it.
    has_new: AtomicBool,
}

/// The runs, and the task while there are any.
#[derive(Debug, Default)]
struct WatchedRuns {
    /// A run that others drive occurs once for each waiter here.
    driven: HashMap<RunId, Vec<Weak<Followed>>>,
    /// It ends with the runtime in which it was spawned, which need not be the one of the other drivers.
    task: Option<JoinHandle<()>>,
}

/// A run that is driven here, as long as its driver has it.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Where its journal ended when its driver opened it.
    pub(crate) from: Seq,
    /// Where its journal ends, as far as its driver knows. An observer beside the driver learns from it that there is
    /// more to read, and, once it is closed, that the driver is gone.
    head: watch::Sender<Seq>,
    changed: Notify,
}

impl JournalWatcher {
    /// Watches the journal of `run`, which ends at `head`, until the returned value is dropped.
    pub(crate) fn follow(self: &Arc<Self>, workspace: &Workspace, run: RunId, head: Seq) -> Arc<Followed> {
        let follower = Arc::new(Followed {
            from: head,
            head: watch::Sender::new(head),
            changed: Notify::new(),
        });
        let mut state = self.lock_watched();
        let followers = state.driven.entry(run).or_default();
        followers.push(Arc::downgrade(&follower));
        self.has_new.store(true, Ordering::Release);
        if state.task.as_ref().is_none_or(JoinHandle::is_finished) {
            let watcher = watch_journals(Arc::clone(self), workspace.clone(), head);
            state.task = Some(tokio::spawn(watcher));
        }
        drop(state);
        follower
    }

    fn lock_watched(&self) -> MutexGuard<'_, WatchedRuns> {
        self.watched.lock()
    }

    /// Notifies the drivers of runs that somebody else wrote to, or of whose journals something is lost.
    ///
    /// A missed notification only costs time: every commit checks.
    async fn notify_foreign_writes(&self, workspace: &Workspace) -> Result<(), StoreError> {
        let driven = self.followers();
        // What their drivers write meanwhile is no loss.
        let known: Vec<(Seq, Arc<Followed>, RunId)> = driven
            .into_iter()
            .map(|(run, follower)| (follower.head(), follower, run))
            .collect();
        let runs: HashSet<RunId> = known.iter().map(|(_, _, run)| *run).collect();
        let heads = workspace
            .store()
            .run_heads(workspace.space(), runs.into_iter().collect());
        let heads: HashMap<RunId, Seq> = heads.await?.into_iter().collect();
        for (known, follower, run) in known {
            let head = heads.get(&run).copied();
            if head.is_none_or(|head| head < known || head > follower.head()) {
                follower.changed.notify_one();
            }
        }
        Ok(())
    }

    /// Notifies the driver of `run`, if it is driven here: this process has written to its journal. So what is asked of
    /// two runs here, one after the other, begins in that order.
    pub(crate) fn wake(&self, run: RunId) {
        let state = self.lock_watched();
        let followers = state.driven.get(&run).into_iter().flatten();
        followers
            .filter_map(Weak::upgrade)
            .for_each(|follower| follower.changed.notify_one());
    }

    /// Notifies the drivers of all runs: of what they know, something may be lost.
    fn notify_all(&self) {
        for (_, follower) in self.followers() {
            follower.changed.notify_one();
        }
    }

    /// The runs that are driven here.
    fn followers(&self) -> Vec<(RunId, Arc<Followed>)> {
        let state = self.lock_watched();
        let entries = state.driven.iter();
        let followers = entries.flat_map(|(run, followers)| {
            let followers = followers.iter().filter_map(Weak::upgrade);
            followers.map(|follower| (*run, follower))
        });
        followers.collect()
    }
}

/// Checks the journals as long as runs are driven here.
async fn watch_journals(others: Arc<JournalWatcher>, workspace: Workspace, mut seen: Seq) {
    let mut rest = MIN_POLL_INTERVAL;
    let mut lineage = workspace.store().lineage();
    loop {
        tokio::time::sleep(rest).await;
        // Commits that were seen may have been lost, and others written under their numbers.
        let now = workspace.store().lineage();
        if std::mem::replace(&mut lineage, now) != now {
            seen = Seq(0);
            others.notify_all();
        }
        {
            let mut state = others.lock_watched();
            state.driven.retain(|_, followers| {
                followers.retain(|follower| follower.strong_count() > 0);
                !followers.is_empty()
            });
            if state.driven.is_empty() {
                // The next run starts a new task.
                state.task = None;
                return;
            }
        }
        // Store errors surface at the next commit of a driver.
        let wait_result =
            tokio::time::timeout(MIN_POLL_INTERVAL, workspace.store().wait(workspace.space(), seen)).await;
        if let Ok(Ok(head)) = wait_result {
            seen = head;
        } else if !others.has_new.load(Ordering::Acquire) {
            continue;
        }
        others.has_new.store(false, Ordering::Release);
        let began = Instant::now();
        if others.notify_foreign_writes(&workspace).await.is_err() {
            others.has_new.store(true, Ordering::Release);
        }
        rest = MIN_POLL_INTERVAL
            .max(began.elapsed() * PAUSE_FACTOR)
            .min(MAX_POLL_INTERVAL);
    }
}

impl Followed {
    /// Where the run's journal ends, as far as its driver knows it.
    pub(crate) fn head(&self) -> Seq {
        *self.head.borrow()
    }

    /// The same as it grows, until the driver has given up the run.
    pub(crate) fn heads(&self) -> watch::Receiver<Seq> {
        self.head.subscribe()
    }

    /// Notes that the driver knows the journal up to `head`.
    pub(crate) fn set_head(&self, head: Seq) {
        self.head.send_replace(head);
    }

    /// Waits until somebody else wrote to the journal, or something of it may be lost.
    pub(crate) async fn wait_for_foreign_write(&self) {
        self.changed.notified().await;
    }
}
