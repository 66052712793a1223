//! The runs that this process holds.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_memory::RunId;
use folio_store::{StoreError, Workspace};
use tokio::sync::Notify;

use crate::runner::Shared;

/// Which runs are driven here, and which could not be given up when that was over.
#[derive(Debug, Default)]
pub(crate) struct Held {
    driven: Mutex<HashSet<RunId>>,
    /// Those of them that are only given up.
    leaving: Mutex<HashSet<RunId>>,
    /// Rings whenever one is not driven any more.
    freed: Notify,
    /// With the number under which each is held.
    not_given_up: Mutex<HashMap<RunId, u64>>,
}

/// That a run is driven here, until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold<'h> {
    held: &'h Held,
    run: RunId,
}

impl Held {
    /// Notes that `run` is driven here; nothing if it is already.
    pub(crate) fn hold(&self, run: RunId) -> Option<Hold<'_>> {
        let is_new = self.driven.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
        // Made only then: one that is dropped lets go of the run.
        is_new.then(|| Hold { held: self, run })
    }

    /// The same; but one that is only being given up is waited for.
    pub(crate) async fn hold_soon(&self, run: RunId) -> Option<Hold<'_>> {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Some(hold) = self.hold(run) {
                self.leaving().remove(&run);
                return Some(hold);
            }
            if !self.leaving().contains(&run) {
                return None;
            }
            freed.await;
        }
    }

    /// Gives `run` up in `store`, if nobody drives it meanwhile: then it is held under the same number, and goes on.
    pub(crate) async fn give_up(&self, workspace: &Workspace, run: RunId, fence: u64) -> Result<(), StoreError> {
        let Some(_hold) = self.hold(run) else { return Ok(()) };
        self.leaving().insert(run);
        let given_up = workspace.store().release_run(workspace.space(), run, fence).await;
        self.leaving().remove(&run);
        given_up?;
        self.forget(run);
        Ok(())
    }

    fn leaving(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `run` is driven here.
    pub(crate) fn drives(&self, run: RunId) -> bool {
        let driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        driven.contains(&run)
    }

    /// Notes that `run` is not driven any more, while the store says so.
    pub(crate) fn keep(&self, run: RunId, fence: u64) {
        let mut kept = self.not_given_up.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two claims the later one counts.
        let kept = kept.entry(run).or_default();
        *kept = fence.max(*kept);
    }

    /// What is still to be given up.
    pub(crate) fn kept(&self) -> Vec<(RunId, u64)> {
        let kept = self.not_given_up.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|(run, fence)| (*run, *fence)).collect()
    }

    /// Notes that `run` is given up, or driven again.
    pub(crate) fn forget(&self, run: RunId) {
        self.not_given_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&run);
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut driven = self.held.driven.lock().unwrap_or_else(PoisonError::into_inner);
        driven.remove(&self.run);
        drop(driven);
        self.held.freed.notify_waiters();
    }
}

/// The claim on a run. Once it is gone the run waits for no other one. Dropped before it is given up, because whoever drove it was dropped or
/// panicked, it is given up as soon as that is possible: nobody else could go on with the run as long as this process lives.
#[derive(Debug)]
pub(crate) struct Claim {
    shared: Arc<Shared>,
    run: RunId,
    fence: u64,
    is_given_up: bool,
}

impl Claim {
    /// Of `run`, under the number `fence`.
    pub(crate) fn of(shared: &Arc<Shared>, run: RunId, fence: u64) -> Self {
        let shared = Arc::clone(shared);
        Self {
            shared,
            run,
            fence,
            is_given_up: false,
        }
    }

    /// Gives the run up. Where that fails it is tried again when somebody looks for runs to go on with, and the claim ends with this process.
    pub(crate) async fn give_up(mut self) {
        let workspace = &self.shared.workspace;
        let given_up = workspace.store().release_run(workspace.space(), self.run, self.fence);
        if given_up.await.is_err() {
            self.shared.held.keep(self.run, self.fence);
        }
        self.is_given_up = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Self { shared, run, .. } = &*self;
        shared.waiting.send_if_modified(|waiting| waiting.remove(run).is_some());
        if self.is_given_up {
            return;
        }
        self.shared.held.keep(self.run, self.fence);
        // Without a runtime nobody could write it, and the process is about to end.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (shared, run, fence) = (Arc::clone(&self.shared), self.run, self.fence);
        runtime.spawn(async move {
            // It stays noted as one that is to be given up.
            let _later = shared.held.give_up(&shared.workspace, run, fence).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_takes_nothing_from_who_holds_a_run() {
        let (held, run) = (Held::default(), RunId::derived(&["one"]));
        let hold = held.hold(run);
        assert!(hold.is_some());
        for _ in 0..2 {
            assert!(held.hold(run).is_none());
        }
        drop(hold);
        assert!(held.hold(run).is_some());
    }
}
