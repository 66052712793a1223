//! The clock of a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_memory::Timestamp;
use folio_store::workspace::Workspace;

/// The time of a space (M7.1.9), which advances even while the system clock is behind it.
///
/// In that case the time of the space stands still until the clock has caught up; whatever waits for a point in time
/// would wait as long.
#[derive(Debug, Default)]
pub(crate) struct RunTime {
    /// How many nanoseconds the clock is behind: the maximum seen since it last was not.
    lag_nanos: AtomicU64,
}

impl RunTime {
    /// The present instant in the space of `workspace`.
    pub(crate) fn now(&self, workspace: &Workspace) -> Timestamp {
        let space = workspace.now();
        // Read afterwards: time passes between the two, and must not look as if the clock were behind.
        self.advance_to(space, workspace.clock().now())
    }

    /// The present instant if the space says `space` and the clock `clock`.
    fn advance_to(&self, space: Timestamp, clock: Timestamp) -> Timestamp {
        let lag = u64::try_from(space.since(clock).as_nanos()).unwrap_or(u64::MAX);
        if lag == 0 {
            self.lag_nanos.store(0, Ordering::Relaxed);
            return space;
        }
        let max_lag = self.lag_nanos.fetch_max(lag, Ordering::Relaxed).max(lag);
        space.max(clock.plus(Duration::from_nanos(max_lag)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use folio_memory::{Clock, SpaceName};
    use folio_store::RandomIds;
    use folio_store::sqlite::{OpenOptions, SqliteStore};
    use folio_testkit::SimClock;

    use super::*;

    /// A clock on which a little time passes whenever somebody looks at it.
    #[derive(Debug, Clone, Default)]
    struct PassingClock(SimClock);

    impl Clock for PassingClock {
        fn now(&self) -> Timestamp {
            self.0.advance(Duration::from_nanos(50));
            self.0.now()
        }
    }

    #[test]
    fn clock_that_was_put_right_leaves_no_lead_m7_1_9() {
        let (clock, time) = (PassingClock::default(), RunTime::default());
        let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
        let ids = Arc::new(RandomIds::default());
        let workspace = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
        let start = time.now(&workspace);
        let hour = Duration::from_secs(3_600);
        let stepped_back = Timestamp::from_nanos(start.as_nanos() - i64::try_from(hour.as_nanos()).unwrap());
        clock.0.set(stepped_back);
        assert!(time.now(&workspace) >= start);
        clock.0.set(start.plus(Duration::from_secs(10)));
        let lead = time.now(&workspace).since(start.plus(Duration::from_secs(10)));
        assert!(lead < Duration::from_secs(1), "{lead:?}");
    }

    #[test]
    fn run_time_advances_even_when_the_clock_lags_m7_1_9() {
        let (time, start) = (RunTime::default(), Timestamp::from_nanos(1_000_000_000_000));
        let second = |n| start.plus(Duration::from_secs(n));
        // The space is an hour ahead, and nothing is written.
        assert_eq!(time.advance_to(second(3_600), second(0)), second(3_600));
        assert_eq!(time.advance_to(second(3_600), second(5)), second(3_605));
        // What is written then is written by that time.
        assert_eq!(time.advance_to(second(3_605), second(7)), second(3_607));
        // The clock is put right.
        assert_eq!(time.advance_to(second(3_700), second(3_700)), second(3_700));
        assert_eq!(time.advance_to(second(3_701), second(3_701)), second(3_701));
        assert_eq!(time.advance_to(second(3_702), second(3_700)), second(3_702));
        assert_eq!(time.advance_to(second(3_703), second(3_703)), second(3_703));
    }
}
