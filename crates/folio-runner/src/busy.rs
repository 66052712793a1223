//! Counts the driven runs that do something, and do not only wait for a person or for a point in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts the runs that do something, for drivers that limit how many do so at once: a run that waits for days for an
/// answer costs memory and nothing else. A run that waited continues at once when it can, so there may be more than the
/// limit for a while. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    runs: Arc<AtomicUsize>,
    /// The count that these runs are part of.
    total: Option<Arc<AtomicUsize>>,
}

/// A guard: the run counts as driven until this is dropped.
#[derive(Debug)]
pub struct BusyRun {
    count: Busy,
    waits: AtomicBool,
}

impl Busy {
    /// Creates a count of some of the runs that this one counts: they count in both.
    #[must_use]
    pub fn part(&self) -> Self {
        Self {
            runs: Arc::default(),
            total: Some(Arc::clone(&self.runs)),
        }
    }

    /// How many runs do something now.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::Acquire)
    }

    /// Counts one more run.
    #[must_use]
    pub fn begin(&self) -> BusyRun {
        let run = BusyRun {
            count: self.clone(),
            waits: AtomicBool::new(true),
        };
        run.set_waiting(false);
        run
    }

    fn counts(&self) -> impl Iterator<Item = &AtomicUsize> {
        std::iter::once(&self.runs).chain(&self.total).map(AsRef::as_ref)
    }
}

impl BusyRun {
    /// Notes whether the run only waits from now on.
    pub(crate) fn set_waiting(&self, is_waiting: bool) {
        if self.waits.swap(is_waiting, Ordering::AcqRel) == is_waiting {
            return;
        }
        for count in self.count.counts() {
            if is_waiting {
                count.fetch_sub(1, Ordering::AcqRel);
            } else {
                count.fetch_add(1, Ordering::AcqRel);
            }
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
    fn busy_and_its_parts_count_only_runs_that_are_not_waiting() {
        let busy = Busy::default();
        let part = busy.part();
        let (first, second) = (busy.begin(), part.begin());
        assert_eq!((busy.runs(), part.runs()), (2, 1));
        first.set_waiting(true);
        first.set_waiting(true);
        assert_eq!((busy.runs(), part.runs()), (1, 1));
        second.set_waiting(true);
        assert_eq!((busy.runs(), part.runs()), (0, 0));
        // What they waited for is there.
        first.set_waiting(false);
        second.set_waiting(false);
        assert_eq!((busy.runs(), part.runs()), (2, 1));
        drop(second);
        first.set_waiting(true);
        drop(first);
        assert_eq!((busy.runs(), part.runs()), (0, 0));
    }
}
