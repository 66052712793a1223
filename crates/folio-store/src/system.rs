//! The real clock and the real source of ids: the only place where either is read.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use folio_memory::{Clock, IdSource, Timestamp};
use parking_lot::Mutex;
use ulid::Ulid;

use crate::store::OwnerId;

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
    fn now(&self) -> Timestamp {
        // A clock before 1970 was never set. The store makes sure that the times of a space never run backwards in any
        // case.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_nanos(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
    }

    fn awake(&self) -> Option<Duration> {
        Some(awake())
    }
}

/// How long the machine has been awake since somebody first asked.
#[expect(
    clippy::disallowed_methods,
    reason = "no test pauses the time for which a machine is awake"
)]
pub(crate) fn awake() -> Duration {
    static ASKED: OnceLock<Instant> = OnceLock::new();
    ASKED.get_or_init(Instant::now).elapsed()
}

/// Ids with eighty random bits, drawn from the operating system.
///
/// Within one millisecond, and when the clock runs backwards, the last id is counted up instead, so
/// that ids sort in the order in which they were drawn.
#[derive(Default)]
pub struct RandomIds {
    last: Mutex<Ulid>,
}

impl IdSource for RandomIds {
    fn next(&self, now: Timestamp) -> Ulid {
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        let mut last = self.last.lock();
        *last = if millis > last.timestamp_ms() {
            drawn(millis)
        } else {
            // Incrementing fails only after 2^80 ids; then the next millisecond is used.
            last.increment().unwrap_or_else(|_| drawn(last.timestamp_ms() + 1))
        };
        *last
    }
}

impl fmt::Debug for RandomIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RandomIds")
    }
}

impl OwnerId {
    /// A unique name for this process: 128 random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("{:032x}", u128::from_le_bytes(random_bytes())))
    }
}

fn drawn(millis: u64) -> Ulid {
    // The random part takes the lower 80 of these bits.
    Ulid::from_parts(millis, u128::from_le_bytes(random_bytes()))
}

pub(crate) fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes once it has started");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_sort_in_draw_order_despite_a_clock_setback() {
        let ids = RandomIds::default();
        let drawn: Vec<Ulid> = [5, 5, 6, 3, 6, 7].map(|ms| ids.next(Timestamp::from_millis(ms))).into();
        assert!(drawn.is_sorted_by(|a, b| a < b), "{drawn:?}");
        assert_eq!(drawn[5].timestamp_ms(), 7);
    }

    #[test]
    fn separate_id_sources_draw_different_ids() {
        let now = SystemClock.now();
        assert_ne!(RandomIds::default().next(now), RandomIds::default().next(now));
    }

    #[test]
    fn system_clock_returns_a_time_after_2020() {
        assert!(SystemClock.now() > Timestamp::parse("2020-01-01T00:00:00Z").unwrap());
    }
}
