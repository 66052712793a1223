//! Trying again what may pass: a server that restarts, or another one that takes its place.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Failure;
use super::open::PATIENCE;

/// How long after the first failure the next attempt is made; then twice as long.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The longest pause: who waits longer misses a server that is there again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long somebody has been trying.
#[derive(Debug)]
pub(super) struct Patience {
    start: Instant,
    pause: Duration,
}

impl Patience {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self {
            start: Instant::now(),
            pause: AGAIN_AFTER,
        }
    }

    /// What is said in the end: `attempt`, unless it failed for something that may pass and there is time for another one. That
    /// should be made when this returns.
    pub(super) async fn after<T>(&mut self, attempt: Result<T, Failure>) -> Option<Result<T, Failure>> {
        match attempt {
            Err(failure) if failure.may_pass() => {
                let Some(pause) = pause_after(self.start.elapsed(), self.pause) else {
                    return Some(Err(failure));
                };
                tokio::time::sleep(pause).await;
                self.pause = longer(self.pause);
                None
            }
            done => Some(done),
        }
    }
}

/// The pause behind one of `pause`.
fn longer(pause: Duration) -> Duration {
    (pause * 2).min(PAUSE_MAX)
}

/// How long to wait for the next attempt, if there is to be one: the last one is made when the time is over.
fn pause_after(elapsed: Duration, pause: Duration) -> Option<Duration> {
    let left = PATIENCE.checked_sub(elapsed).filter(|left| !left.is_zero())?;
    Some(pause.min(left))
}

/// Tries a block until it is done, fails for good, or has failed for as long as anybody is ready to wait. What writes names the [`Inner`] that
/// it writes by, which looks for another server where one only reads.
///
/// [`Inner`]: super::Inner
macro_rules! patiently {
    ($attempt:block) => {
        $crate::postgres::patience::patiently!(@ |_| {}, $attempt)
    };
    ($inner:expr, $attempt:block) => {
        $crate::postgres::patience::patiently!(@ |failure| $inner.look_elsewhere(failure), $attempt)
    };
    (@ $failed:expr, $attempt:block) => {{
        let mut patience = $crate::postgres::patience::Patience::begin();
        let failed: &(dyn Fn(&$crate::postgres::error::Failure) + Sync) = &$failed;
        loop {
            let attempt = async $attempt.await;
            if let Err(failure) = &attempt {
                failed(failure);
            }
            if let Some(done) = patience.after(attempt).await {
                break done;
            }
        }
    }};
}
pub(super) use patiently;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_promised_time_is_used_and_no_pause_is_longer_than_a_second() {
        let (mut elapsed, mut pause) = (Duration::ZERO, AGAIN_AFTER);
        while let Some(wait) = pause_after(elapsed, pause) {
            assert!(!wait.is_zero() && wait <= PAUSE_MAX, "{wait:?} at {elapsed:?}");
            elapsed += wait;
            pause = longer(pause);
        }
        assert_eq!(elapsed, PATIENCE);
    }
}
