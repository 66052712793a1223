//! Who else writes to the journals of runs that are driven here: people who stop, pause or answer them, in other processes too.

use std::collections::HashMap;
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

/// How often, at most, a runner looks whether somebody else wrote to one of its runs' journals.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How many times as long as a look takes there is none: of a thousand runs it takes some milliseconds.
const REST: u32 = 50;
/// But never for longer than this, however slow the store is.
const REST_MAX: Duration = Duration::from_secs(1);

/// The runs that are driven here, and one task that looks after all of them: a thousand runs cost one question, not a thousand.
#[derive(Debug, Default)]
pub(crate) struct Others {
    looked_after: Mutex<LookedAfter>,
    /// Whether a run has come that was not looked after yet: somebody may have written to it since its driver read it.
    has_new: AtomicBool,
}

/// The runs, and the task, while there are any.
#[derive(Debug, Default)]
struct LookedAfter {
    /// Of one that others drive there are as many as wait for it here.
    driven: HashMap<RunId, Vec<Weak<Followed>>>,
    /// It ends with the runtime that it was begun in, which need not be the one that others drive in.
    task: Option<JoinHandle<()>>,
}

/// A run that is driven here, as long as its driver has it.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Where its journal ended when its driver took it up.
    pub(crate) from: Seq,
    /// Where its journal ends, as far as its driver knows it. Whoever reads beside the driver learns from it that there is more, and, when it
    /// is gone, that the driver is.
    head: watch::Sender<Seq>,
    ring: Notify,
}

impl Others {
    /// Looks after the journal of `run`, which ends at `head`, until what is returned is dropped.
    pub(crate) fn follow(self: &Arc<Self>, workspace: &Workspace, run: RunId, head: Seq) -> Arc<Followed> {
        let followed = Arc::new(Followed {
            from: head,
            head: watch::Sender::new(head),
            ring: Notify::new(),
        });
        let mut looked_after = self.looked_after();
        let same = looked_after.driven.entry(run).or_default();
        same.push(Arc::downgrade(&followed));
        self.has_new.store(true, Ordering::Release);
        if looked_after.task.as_ref().is_none_or(JoinHandle::is_finished) {
            let looking = look_after(Arc::clone(self), workspace.clone(), head);
            looked_after.task = Some(tokio::spawn(looking));
        }
        drop(looked_after);
        followed
    }

    fn looked_after(&self) -> MutexGuard<'_, LookedAfter> {
        self.looked_after.lock()
    }

    /// Rings at the runs of which somebody else wrote.
    ///
    /// A missed ring costs nothing but time: every commit checks.
    async fn look(&self, workspace: &Workspace) -> Result<(), StoreError> {
        let driven: HashMap<RunId, Vec<Arc<Followed>>> = {
            let looked_after = self.looked_after();
            let followed = looked_after
                .driven
                .iter()
                .map(|(run, followed)| (*run, followed.iter().filter_map(Weak::upgrade).collect()));
            followed.collect()
        };
        let heads = workspace
            .store()
            .run_heads(workspace.space(), driven.keys().copied().collect());
        for (run, head) in heads.await? {
            for followed in driven.get(&run).into_iter().flatten() {
                if head > followed.head() {
                    followed.ring.notify_one();
                }
            }
        }
        Ok(())
    }
}

/// Looks at the journals as long as runs are driven here.
async fn look_after(others: Arc<Others>, workspace: Workspace, mut seen: Seq) {
    let mut rest = LOOK_AGAIN;
    let mut lineage = workspace.store().lineage();
    loop {
        tokio::time::sleep(rest).await;
        // What was seen may have been lost, and others write under its numbers.
        let now = workspace.store().lineage();
        if std::mem::replace(&mut lineage, now) != now {
            seen = Seq(0);
        }
        {
            let mut looked_after = others.looked_after();
            looked_after.driven.retain(|_, same| {
                same.retain(|followed| followed.strong_count() > 0);
                !same.is_empty()
            });
            if looked_after.driven.is_empty() {
                // Whoever comes now begins another one.
                looked_after.task = None;
                return;
            }
        }
        // What is wrong with the store is said by the next commit of a driver.
        let grown = tokio::time::timeout(LOOK_AGAIN, workspace.store().wait(workspace.space(), seen)).await;
        if let Ok(Ok(head)) = grown {
            seen = head;
        } else if !others.has_new.load(Ordering::Acquire) {
            continue;
        }
        others.has_new.store(false, Ordering::Release);
        let began = Instant::now();
        if others.look(&workspace).await.is_err() {
            others.has_new.store(true, Ordering::Release);
        }
        rest = LOOK_AGAIN.max(began.elapsed() * REST).min(REST_MAX);
    }
}

impl Followed {
    /// Where the run's journal ends, as far as its driver knows it.
    pub(crate) fn head(&self) -> Seq {
        *self.head.borrow()
    }

    /// The same as it grows, until the driver has let go of the run.
    pub(crate) fn heads(&self) -> watch::Receiver<Seq> {
        self.head.subscribe()
    }

    /// Its driver knows the journal up to `head`.
    pub(crate) fn knows(&self, head: Seq) {
        self.head.send_replace(head);
    }

    /// Waits until somebody else wrote to the journal.
    pub(crate) async fn foreign(&self) {
        self.ring.notified().await;
    }
}
