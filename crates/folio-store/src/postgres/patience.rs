//! Retries what may succeed later: a server restarts, or another one takes its place.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Failure;
use super::open::WAIT_TIMEOUT;

/// How long after the first failure the next attempt is made; the pause then doubles.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause: after a longer one, a server that is back would be noticed late.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the attempts have gone on.
#[derive(Debug)]
pub(super) struct Patience {
    start: Instant,
    pause: Duration,
}

impl Patience {
    pub(super) fn begin() -> Self {
        Self {
            start: Instant::now(),
            pause: FIRST_RETRY_PAUSE,
        }
    }

    /// Returns the result of `attempt`, or waits and returns `None` if it failed for something that may pass and there
    /// is time for another attempt. The caller then tries again.
    pub(super) async fn finish_or_wait<T>(&mut self, attempt: Result<T, Failure>) -> Option<Result<T, Failure>> {
        match attempt {
            Err(failure) if failure.is_transient() => {
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

/// The pause that follows a pause of `pause`.
fn longer(pause: Duration) -> Duration {
    (pause * 2).min(PAUSE_MAX)
}

/// How long to wait before the next attempt, if there is one: the last attempt is made when the time is over.
fn pause_after(elapsed: Duration, pause: Duration) -> Option<Duration> {
    let left = WAIT_TIMEOUT.checked_sub(elapsed).filter(|left| !left.is_zero())?;
    Some(pause.min(left))
}

/// Retries a block until it succeeds, fails for good, or the patience is over. A block that writes passes the [`Inner`]
/// through which it writes, which looks for another server if the current one is read-only.
///
/// [`Inner`]: super::Inner
macro_rules! patiently {
    ($attempt:block) => {
        $crate::postgres::patience::patiently!(@ |_| {}, $attempt)
    };
    ($inner:expr, $attempt:block) => {
        $crate::postgres::patience::patiently!(@ |failure| $inner.drop_read_only_connections(failure), $attempt)
    };
    (@ $failed:expr, $attempt:block) => {{
        let mut patience = $crate::postgres::patience::Patience::begin();
        let failed: &(dyn Fn(&$crate::postgres::error::Failure) + Sync) = &$failed;
        loop {
            let attempt = async $attempt.await;
            if let Err(failure) = &attempt {
                failed(failure);
            }
            if let Some(done) = patience.finish_or_wait(attempt).await {
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
    fn retries_use_the_whole_time_limit_with_bounded_pauses() {
        let (mut elapsed, mut pause) = (Duration::ZERO, FIRST_RETRY_PAUSE);
        while let Some(wait) = pause_after(elapsed, pause) {
            assert!(!wait.is_zero() && wait <= PAUSE_MAX, "{wait:?} at {elapsed:?}");
            elapsed += wait;
            pause = longer(pause);
        }
        assert_eq!(elapsed, WAIT_TIMEOUT);
    }
}
