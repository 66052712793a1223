//! Waiting while another process writes to the same file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::ErrorCode;

const SHORTEST: Duration = Duration::from_micros(100);

/// The longest pause at the beginning of the wait, and shortly before it times out.
///
/// Hundreds of waiters that poll every other millisecond would take the processor from the writer they wait for.
const LONGEST_AT_FIRST: Duration = Duration::from_millis(50);
const LONGEST_AT_LAST: Duration = Duration::from_millis(2);

/// A busy handler for SQLite: sleeps a little before each retry, and gives up after `limit` of real time.
pub(super) fn patience(limit: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut noise = Noise::new();
    let mut since = now();
    move |tries| {
        if tries == 0 {
            since = now();
        }
        let waited = since.elapsed();
        // A waiter that was woken late has had no turn since its pause: it tries once more before it gives up.
        let Some(left) = limit.checked_sub(waited).filter(|left| !left.is_zero()) else {
            return false;
        };
        let pause = pause(waited, limit, noise.share()).min(left);
        #[expect(
            clippy::disallowed_methods,
            reason = "SQLite waits inside of a call, on a thread of the store"
        )]
        std::thread::sleep(pause);
        true
    }
}

/// The next pause of a waiter that has `waited` so far and gives up after `limit`. `share`, from 0 to 1, varies the
/// pauses, so that two waiters do not keep blocking each other for ever.
///
/// At first the pause grows with the wait: the end of a short transaction is noticed soon, and a long one costs little.
/// It grows only up to a limit, and then shrinks again: of many waiters, those who have waited longest ask most often,
/// and so come first.
fn pause(waited: Duration, limit: Duration, share: f64) -> Duration {
    let part = (waited.as_secs_f64() / limit.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0);
    let longest = LONGEST_AT_FIRST.mul_f64(1.0 - part) + LONGEST_AT_LAST.mul_f64(part);
    let longest = (waited / 4).min(longest).max(SHORTEST);
    longest.mul_f64(0.5 + share / 2.0)
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes do not stand still where a test has stopped the clock"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Like [`patience`], but gives up at once while `is_in_a_hurry` is set.
pub(super) fn patience_unless(
    is_in_a_hurry: Arc<AtomicBool>,
    limit: Duration,
) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut may_retry = patience(limit);
    move |tries| !is_in_a_hurry.load(Ordering::Relaxed) && may_retry(tries)
}

/// Retries `step` while another process is in its way. For steps for which SQLite does not call the busy handler.
pub(super) fn retry_while_busy<T>(
    limit: Duration,
    mut step: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut may_retry = patience(limit);
    let mut tries = 0;
    loop {
        match step() {
            Err(error) if is_busy(&error) && may_retry(tries) => tries = 1,
            done => return done,
        }
    }
}

/// Whether the error means that the database was busy or locked.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// A source of numbers that differ between waiters.
struct Noise(u64);

impl Noise {
    fn new() -> Self {
        let mut bytes = [0; 8];
        // Without randomness the pauses are merely less varied.
        Self(getrandom::fill(&mut bytes).map_or(1, |()| u64::from_le_bytes(bytes) | 1))
    }

    /// A number from 0 to 1.
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u8::try_from(self.0 >> 56).unwrap_or(0)) / 255.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn longest_after(waited: Duration) -> Duration {
        pause(waited, LIMIT, 1.0)
    }

    #[test]
    fn busy_pauses_grow_and_then_shrink_with_the_time_waited() {
        let waits = [0, 8, 80, 190].map(Duration::from_millis);
        let growing = waits.map(longest_after);
        assert!(growing.is_sorted(), "{growing:?}");
        assert_eq!((growing[0], growing[1]), (SHORTEST, Duration::from_millis(2)));
        let waits = [1, 3, 5, 9].map(Duration::from_secs);
        let shrinking = waits.map(longest_after);
        assert!(shrinking.iter().rev().is_sorted(), "{shrinking:?}");
        assert_eq!(longest_after(LIMIT), LONGEST_AT_LAST);
        assert_eq!(longest_after(LIMIT * 9), LONGEST_AT_LAST);
    }

    #[test]
    fn busy_pauses_are_jittered_and_never_zero() {
        let waited = Duration::from_secs(1);
        assert_eq!(pause(waited, LIMIT, 0.0) * 2, pause(waited, LIMIT, 1.0));
        assert!(pause(Duration::ZERO, LIMIT, 0.0) > Duration::ZERO);
        assert!(pause(Duration::ZERO, Duration::ZERO, 0.0) > Duration::ZERO);
    }

    #[test]
    fn busy_patience_counts_elapsed_time_and_restarts_with_each_wait() {
        let limit = Duration::from_millis(20);
        let mut again = patience(limit);
        for _ in 0..2 {
            let begun = now();
            let mut tries = 0;
            while again(tries) {
                tries += 1;
            }
            assert!(begun.elapsed() >= limit);
            assert!(tries > 0);
        }
        // Time asleep counts as waiting.
        let mut again = patience(Duration::from_nanos(1));
        assert!(!again(1));
    }
}
