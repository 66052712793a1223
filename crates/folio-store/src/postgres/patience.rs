//! Retries what may succeed later: a server restarts, or another one takes its place.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Failure;
use super::open::WAIT_TIMEOUT;
use super::reach::{Call, Reach};

/// How long after the first failure the next attempt is made; the pause then doubles.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause: after a longer one, a server that is back would be noticed late.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the attempts have gone on.
#[derive(Debug)]
pub(super) struct Patience<'r> {
    reach: &'r Reach,
    call: Call,
    start: Instant,
    pause: Duration,
}

impl<'r> Patience<'r> {
    pub(super) fn begin(reach: &'r Reach, call: Call) -> Self {
        Self {
            reach,
            call,
            start: Instant::now(),
            pause: FIRST_RETRY_PAUSE,
        }
    }

    /// Fails if the server has been away for so long that no attempt is worth its time.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.reach.gone_for(Instant::now()) {
            Some(gone) => Err(Failure::Away(gone)),
            None => Ok(()),
        }
    }

    /// Returns the result of `attempt`, or waits and returns `None` if it failed for something that may pass and there
    /// is time for another attempt. The caller then tries again.
    ///
    /// Time counts from when the server was first away, whoever found that out: the calls of one request do not wait
    /// one after the other.
    pub(super) async fn finish_or_wait<T>(&mut self, attempt: Result<T, Failure>) -> Option<Result<T, Failure>> {
        let failure = match attempt {
            Ok(done) => {
                self.reach.note_answer(self.call);
                return Some(Ok(done));
            }
            Err(failure) => failure,
        };
        let away_since = self.reach.note_failure(&failure, Instant::now());
        if !failure.is_transient() {
            return Some(Err(failure));
        }
        let since = away_since.map_or(self.start, |since| since.min(self.start));
        let Some(pause) = pause_after(since.elapsed(), self.pause) else {
            return Some(Err(failure));
        };
        tokio::time::sleep(pause).await;
        self.pause = longer(self.pause);
        None
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
/// through which it writes, which looks for another server if the current one is read-only; one that reads passes the
/// [`Reach`] of that.
///
/// [`Inner`]: super::Inner
macro_rules! patiently {
    (reads $reach:expr, $attempt:block) => {
        $crate::postgres::patience::patiently!(@ $crate::postgres::reach::Call::Reads, $reach, |_| {}, $attempt)
    };
    ($inner:expr, $attempt:block) => {
        $crate::postgres::patience::patiently!(
            @ $crate::postgres::reach::Call::Writes,
            &$inner.reach,
            |failure| $inner.drop_read_only_connections(failure),
            $attempt
        )
    };
    (@ $call:expr, $reach:expr, $failed:expr, $attempt:block) => {{
        let mut patience = $crate::postgres::patience::Patience::begin($reach, $call);
        let failed: &(dyn Fn(&$crate::postgres::error::Failure) + Sync) = &$failed;
        match patience.check() {
            Err(away) => Err(away),
            // Whoever has waited makes a last attempt, and gets its failure.
            Ok(()) => loop {
                let attempt = async $attempt.await;
                if let Err(failure) = &attempt {
                    failed(failure);
                }
                if let Some(done) = patience.finish_or_wait(attempt).await {
                    break done;
                }
            },
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

    /// Calls a server that is not there until the call fails, and returns how long that took.
    async fn failed_after(reach: &Reach) -> Duration {
        let start = Instant::now();
        let done: Result<(), Failure> = patiently!(reads reach, { Err(Failure::Silent) });
        done.unwrap_err();
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_calls_of_an_outage_wait_for_its_end() {
        let reach = Reach::default();
        let late = async {
            tokio::time::sleep(WAIT_TIMEOUT * 7 / 10).await;
            failed_after(&reach).await
        };
        let (first, late) = tokio::join!(failed_after(&reach), late);
        assert!(first >= WAIT_TIMEOUT && first < WAIT_TIMEOUT + PAUSE_MAX, "{first:?}");
        assert!(
            late < WAIT_TIMEOUT / 2,
            "{late:?}: it waits for the rest of the time only"
        );
        assert_eq!(failed_after(&reach).await, Duration::ZERO, "what follows does not wait");
        reach.note_answer(Call::Reads);
        assert!(failed_after(&reach).await >= WAIT_TIMEOUT, "another outage");
    }
}
