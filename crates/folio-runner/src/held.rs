//! The runs that this process holds.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use folio_memory::RunId;

/// Which runs are driven here, and which could not be given up when that was over.
#[derive(Debug, Default)]
pub(crate) struct Held {
    driven: Mutex<HashSet<RunId>>,
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
        is_new.then_some(Hold { held: self, run })
    }

    /// Whether `run` is driven here.
    pub(crate) fn drives(&self, run: RunId) -> bool {
        let driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        driven.contains(&run)
    }

    /// Notes that `run` is not driven any more, while the store says so.
    pub(crate) fn keep(&self, run: RunId, fence: u64) {
        let mut kept = self.not_given_up.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(run, fence);
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
    }
}
