//! Ids that are the same in every run of a test.

use parking_lot::Mutex;

use folio_memory::{IdSource, Timestamp};
use ulid::Ulid;

/// Sequential ids: the seed in the upper bits of the random part, a counter in the lower ones.
///
/// They sort in the order in which they were drawn, even if the clock runs backwards. Two sources with different seeds
/// never draw the same id.
#[derive(Debug)]
pub struct SeededIds {
    seed: u16,
    last: Mutex<(u64, u64)>,
}

impl SeededIds {
    /// Creates a source that counts from 1.
    #[must_use]
    pub fn new(seed: u16) -> Self {
        Self {
            seed,
            last: Mutex::default(),
        }
    }
}

impl Default for SeededIds {
    fn default() -> Self {
        Self::new(0)
    }
}

impl IdSource for SeededIds {
    fn next(&self, now: Timestamp) -> Ulid {
        let mut last = self.last.lock();
        let millis = u64::try_from(now.as_millis()).unwrap_or(0).max(last.0);
        *last = (millis, last.1 + 1);
        Ulid::from_parts(millis, (u128::from(self.seed) << 64) | u128::from(last.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_ids_sort_in_draw_order_despite_a_clock_setback() {
        let ids = SeededIds::new(7);
        let drawn: Vec<_> = [5, 5, 3, 9].map(|ms| ids.next(Timestamp::from_millis(ms))).into();
        assert!(drawn.is_sorted());
        assert_eq!(drawn[0], SeededIds::new(7).next(Timestamp::from_millis(5)));
        assert_ne!(drawn[0], SeededIds::new(8).next(Timestamp::from_millis(5)));
    }
}
