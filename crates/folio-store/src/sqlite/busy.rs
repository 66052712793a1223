//! Waiting for another process that writes to the same file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::ErrorCode;

const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(2);

/// What SQLite asks whether it should try again: sleeps a little, and gives up after `limit`.
pub(super) fn patience(limit: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut pauses = Pauses::new();
    move |tries| {
        if tries == 0 {
            pauses.waited = Duration::ZERO;
        }
        pauses.waited < limit && {
            pauses.sleep();
            true
        }
    }
}

/// As [`patience`], but gives up at once while `is_in_a_hurry` is set.
pub(super) fn patience_unless(
    is_in_a_hurry: Arc<AtomicBool>,
    limit: Duration,
) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut again = patience(limit);
    move |tries| !is_in_a_hurry.load(Ordering::Relaxed) && again(tries)
}

/// Repeats `step` while another process is in its way, for the steps for which SQLite does not ask.
pub(super) fn insist<T>(limit: Duration, mut step: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let mut again = patience(limit);
    let mut tries = 0;
    loop {
        match step() {
            Err(error) if is_busy(&error) && again(tries) => tries = 1,
            done => return done,
        }
    }
}

/// Whether somebody else was in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Pauses of different lengths, so that two who wait for each other do not do so for ever.
struct Pauses {
    waited: Duration,
    noise: u64,
}

impl Pauses {
    fn new() -> Self {
        let mut bytes = [0; 8];
        // Without randomness the pauses are merely less varied.
        let noise = getrandom::fill(&mut bytes).map_or(1, |()| u64::from_le_bytes(bytes) | 1);
        Self {
            waited: Duration::ZERO,
            noise,
        }
    }

    fn sleep(&mut self) {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        // The longer the wait so far, the longer the pause: a short transaction is met soon, a long one costs little.
        let longest = (self.waited / 4).clamp(SHORTEST, LONGEST);
        let pause = SHORTEST / 2 + longest.mul_f64(f64::from(u8::try_from(self.noise >> 56).unwrap_or(0)) / 255.0);
        self.waited += pause;
        #[expect(
            clippy::disallowed_methods,
            reason = "SQLite waits inside of a call, on a thread of the store"
        )]
        std::thread::sleep(pause);
    }
}
