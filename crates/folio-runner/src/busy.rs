//! Counts the driven runs that do something, and do not only wait for a person or for a point in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts the runs that do something, for drivers that limit how many do so at once: a run that waits for days for an
/// answer costs memory and nothing else. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Busy(Arc<AtomicUsize>);

/// A guard: the run counts as driven until this is dropped.
#[derive(Debug)]
pub struct BusyRun {
    count: Busy,
    waits: AtomicBool,
}

impl Busy {
    /// How many runs do something now.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Counts one more run.
    #[must_use]
    pub fn begin(&self) -> BusyRun {
        self.0.fetch_add(1, Ordering::AcqRel);
        self.begun()
    }

    /// Counts one more run, unless `most` do something already. A run that waited continues at once when it can, so
    /// there may be more for a while.
    #[must_use]
    pub fn begin_below(&self, most: usize) -> Option<BusyRun> {
        let more = |runs: usize| (runs < most).then_some(runs + 1);
        let counted = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.is_ok().then(|| self.begun())
    }

    fn begun(&self) -> BusyRun {
        BusyRun {
            count: self.clone(),
            waits: AtomicBool::new(false),
        }
    }
}

impl BusyRun {
    /// Notes whether the run only waits from now on.
    pub(crate) fn set_waiting(&self, waits: bool) {
        if self.waits.swap(waits, Ordering::AcqRel) == waits {
            return;
        }
        let count = &self.count.0;
        if waits {
            count.fetch_sub(1, Ordering::AcqRel);
        } else {
            count.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for BusyRun {
    fn drop(&mut self) {
        self.set_waiting(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_counts_only_runs_that_are_not_waiting() {
        let busy = Busy::default();
        let (first, second) = (busy.begin(), busy.begin_below(2).unwrap());
        assert!(busy.begin_below(2).is_none());
        first.set_waiting(true);
        first.set_waiting(true);
        assert_eq!(busy.runs(), 1);
        let third = busy.begin_below(2).unwrap();
        // What it waited for is there.
        first.set_waiting(false);
        assert_eq!(busy.runs(), 3);
        drop((second, third));
        first.set_waiting(true);
        drop(first);
        assert_eq!(busy.runs(), 0);
    }
}
