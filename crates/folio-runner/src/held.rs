//! The runs that this process holds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::Arc;

use folio_memory::RunId;
use folio_store::{StoreError, Workspace};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::runner::Shared;

/// Which runs are driven here, and which could not be given up afterwards.
#[derive(Debug, Default)]
pub(crate) struct Held {
    runs: Mutex<HashMap<RunId, Standing>>,
    /// Notified whenever the standing of a run changes.
    changed: Notify,
    /// Runs that are still to be given up, each with its fence.
    not_given_up: Mutex<HashMap<RunId, u64>>,
}

/// The standing of a run that is held here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is being claimed or given up; soon it is known whether somebody drives it.
    Passing,
    /// Somebody drives it.
    Driven,
}

/// A guard: the run is held here until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    held: Arc<Held>,
    run: RunId,
}

impl Hold {
    /// Sets the standing of the run.
    fn set_standing(&self, standing: Standing) {
        self.held.runs().insert(self.run, standing);
        self.held.changed.notify_waiters();
    }
}

impl Held {
    /// Holds `run`, to claim it or to give it up. Fails with its standing if it is held already.
    fn hold(self: &Arc<Self>, run: RunId) -> Result<Hold, Standing> {
        match self.runs().entry(run) {
            Entry::Occupied(held) => Err(*held.get()),
            Entry::Vacant(free) => {
                free.insert(Standing::Passing);
                let held = Arc::clone(self);
                Ok(Hold { held, run })
            }
        }
    }

    /// Holds `run`, to claim it; `None` if it is driven here. Waits while it is being claimed or given up.
    pub(crate) async fn hold_soon(self: &Arc<Self>, run: RunId) -> Option<Hold> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.hold(run) {
                Ok(hold) => return Some(hold),
                Err(Standing::Driven) => return None,
                Err(Standing::Passing) => changed.await,
            }
        }
    }

    /// Gives `run` up in `store`, unless somebody drives it meanwhile: then the run continues, or the driver gives it up.
    /// Waits while it is being claimed or given up.
    pub(crate) async fn give_up(self: &Arc<Self>, workspace: &Workspace, run: RunId) -> Result<(), StoreError> {
        let Some(_hold) = self.hold_soon(run).await else {
            return Ok(());
        };
        // Somebody else may have given it up meanwhile.
        let Some(fence) = self.not_given_up.lock().get(&run).copied() else {
            return Ok(());
        };
        workspace.store().release_run(workspace.space(), run, fence).await?;
        self.forget(run);
        Ok(())
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Standing>> {
        self.runs.lock()
    }

    /// Whether `run` is driven here, or about to be.
    pub(crate) fn is_driving(&self, run: RunId) -> bool {
        self.runs().contains_key(&run)
    }

    /// Notes that `run` is no longer driven here although the store says so.
    fn note_not_given_up(&self, run: RunId, fence: u64) {
        let mut kept = self.not_given_up.lock();
        // Of two claims the later one counts.
        let kept = kept.entry(run).or_default();
        *kept = fence.max(*kept);
    }

    /// The runs that are still to be given up.
    pub(crate) fn runs_to_give_up(&self) -> Vec<RunId> {
        self.not_given_up.lock().keys().copied().collect()
    }

    /// Notes that `run` was given up, or is driven again.
    pub(crate) fn forget(&self, run: RunId) {
        self.not_given_up.lock().remove(&run);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.held.runs().remove(&self.run);
        self.held.changed.notify_waiters();
    }
}

/// The claim on a run that is held. When it ends, the run no longer waits for another run. If it is dropped before it
/// was given up, because the driver was dropped or panicked, it is given up as soon as possible: nobody else could
/// continue the run as long as this process lives.
#[derive(Debug)]
pub(crate) struct Claim {
    shared: Arc<Shared>,
    run: RunId,
    fence: u64,
    /// `None` once it was given up.
    hold: Option<Hold>,
}

impl Claim {
    /// A claim under the fence `fence`.
    pub(crate) fn of(shared: &Arc<Shared>, hold: Hold, fence: u64) -> Self {
        Self {
            shared: Arc::clone(shared),
            run: hold.run,
            fence,
            hold: Some(hold),
        }
    }

    /// The fence of the claim.
    pub(crate) fn fence(&self) -> u64 {
        self.fence
    }

    /// Notes that somebody drives the run.
    pub(crate) fn mark_driven(self) -> Self {
        self.set_standing(Standing::Driven);
        self
    }

    /// Gives the run up. If that fails it is tried again when somebody looks for unfinished runs, and the claim ends
    /// with this process.
    pub(crate) async fn give_up(mut self) {
        self.set_standing(Standing::Passing);
        let workspace = &self.shared.workspace;
        let release = workspace.store().release_run(workspace.space(), self.run, self.fence);
        if release.await.is_err() {
            self.shared.held.note_not_given_up(self.run, self.fence);
        }
        self.hold = None;
    }

    fn set_standing(&self, standing: Standing) {
        if let Some(hold) = &self.hold {
            hold.set_standing(standing);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Self { shared, run, fence, .. } = &*self;
        shared.waiting.send_if_modified(|waiting| waiting.remove(run).is_some());
        let (shared, run, fence) = (Arc::clone(shared), *run, *fence);
        // A run that is no longer held can be given up.
        let Some(hold) = self.hold.take() else { return };
        shared.held.note_not_given_up(run, fence);
        drop(hold);
        // Without a runtime nothing can be written, and the process is about to end.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            // On failure it stays noted as one that is to be given up.
            let _later = shared.held.give_up(&shared.workspace, run).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn refused_hold_does_not_disturb_the_driving_holder() {
        let (held, run) = (Arc::<Held>::default(), RunId::derived(&["one"]));
        let hold = held.hold(run).unwrap();
        hold.set_standing(Standing::Driven);
        for _ in 0..2 {
            assert!(matches!(held.hold_soon(run).now_or_never(), Some(None)));
        }
        drop(hold);
        assert!(held.hold(run).is_ok());
    }

    #[test]
    fn hold_waits_until_the_run_is_driven_or_released() {
        let (held, run) = (Arc::<Held>::default(), RunId::derived(&["one"]));
        for is_driven in [true, false] {
            let hold = held.hold(run).unwrap();
            let mut soon = Box::pin(held.hold_soon(run));
            assert!(soon.as_mut().now_or_never().is_none(), "it is not refused");
            if is_driven {
                hold.set_standing(Standing::Driven);
            } else {
                drop(hold);
            }
            let held_then = soon.now_or_never().expect("it is known");
            assert_eq!(held_then.is_none(), is_driven);
        }
    }
}
