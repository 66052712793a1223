//! A clock that stands still until a test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use folio_memory::{Clock, Timestamp};

/// A clock that stands still until a test moves it. Clones share their time.
#[derive(Debug, Clone)]
pub struct SimClock {
    nanos: Arc<AtomicI64>,
    /// For how long its machine has been awake.
    awake_nanos: Arc<AtomicI64>,
}

impl SimClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self {
            nanos: Arc::new(AtomicI64::new(now.as_nanos())),
            awake_nanos: Arc::default(),
        }
    }

    /// Moves the clock forward by `by`, with the machine awake.
    pub fn advance(&self, by: Duration) {
        let by_nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        self.awake_nanos.fetch_add(by_nanos, Ordering::SeqCst);
        self.set(self.now().plus(by));
    }

    /// Sets the clock to `now`, which may be earlier than before, as with any clock that people can set. Set to a later
    /// time, it looks as if the machine had slept.
    pub fn set(&self, now: Timestamp) {
        self.nanos.store(now.as_nanos(), Ordering::SeqCst);
    }
}

impl Default for SimClock {
    /// A clock that shows 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::at(Timestamp::from_millis(1_767_225_600_000))
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn awake(&self) -> Option<Duration> {
        let nanos = self.awake_nanos.load(Ordering::SeqCst);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloned_sim_clock_shares_its_time() {
        let clock = SimClock::default();
        let other = clock.clone();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        clock.advance(Duration::from_secs(60));
        assert_eq!(other.now().to_string(), "2026-01-01T00:01:00Z");
    }
}
