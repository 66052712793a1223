//! How long an operation waits, for connections, for locks and for the server, and retries of what may succeed later: a
//! server restarts, or another one takes its place.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Failure;
use super::open::WAIT_TIMEOUT;
use super::reach::{Call, Reach};
use crate::silence::millis;

/// How long after the first failure the next attempt is made; the pause then doubles.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause: after a longer one, a server that is back would be noticed late.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the last attempt may wait once the time is over: long enough to get what is free.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// How long a statement of a transaction that is under way may wait for a lock at least: it may have been at work and
/// not waiting, and what it has done would be lost.
const UNDER_WAY_WAIT: Duration = Duration::from_secs(2);

/// The waiting of one operation: for its turn, for a connection, and for locks. All of it together lasts no longer than
/// [`WAIT_TIMEOUT`], however many statements and attempts there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    since: Instant,
}

impl Wait {
    /// Begins to count now.
    pub(super) fn begin() -> Self {
        Self { since: Instant::now() }
    }

    /// How long the operation has taken so far.
    pub(super) fn waited(self) -> Duration {
        self.since.elapsed()
    }

    /// How long the next step of it may wait.
    pub(super) fn left(self) -> Duration {
        WAIT_TIMEOUT.saturating_sub(self.waited()).max(LAST_WAIT)
    }

    /// The same in milliseconds, as the server's settings have it. Rounded up: what the server refuses then is over here,
    /// too.
    pub(super) fn left_millis(self) -> i64 {
        millis(self.left()).saturating_add(1)
    }

    /// How long a further statement of a transaction may wait, in milliseconds.
    pub(super) fn left_under_way_millis(self) -> i64 {
        millis(self.left().max(UNDER_WAY_WAIT)).saturating_add(1)
    }

    /// Whether it has waited for as long as anybody waits.
    pub(super) fn is_over(self) -> bool {
        self.waited() >= WAIT_TIMEOUT
    }
}

/// How long the attempts have gone on.
#[derive(Debug)]
pub(super) struct Patience<'r> {
    reach: &'r Reach,
    call: Call,
    wait: Wait,
    pause: Duration,
}

impl<'r> Patience<'r> {
    pub(super) fn begin(reach: &'r Reach, call: Call, wait: Wait) -> Self {
        Self {
            reach,
            call,
            wait,
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
            Err(failure) => failure.after_waiting(self.wait),
        };
        let away_since = self.reach.note_failure(&failure, Instant::now());
        if !failure.is_transient() {
            return Some(Err(failure));
        }
        let since = away_since.map_or(self.wait.since, |since| since.min(self.wait.since));
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

/// Retries a block until it succeeds, fails for good, or the patience is over, which counts from the beginning of the
/// given [`Wait`]. Connections of the [`Inner`] that a failure shows to be of no use are dropped before the next attempt,
/// as are those to a read-only server by a block that writes. A block that opens the store has only a [`Reach`].
///
/// [`Inner`]: super::Inner
macro_rules! patiently {
    (opens $reach:expr, $wait:expr, $attempt:block) => {
        $crate::postgres::patience::patiently!(@ $crate::postgres::reach::Call::Reads, $reach, $wait, |_| {}, $attempt)
    };
    (reads $inner:expr, $wait:expr, $attempt:block) => {
        $crate::postgres::patience::patiently!(
            @ $crate::postgres::reach::Call::Reads,
            &$inner.reach,
            $wait,
            |failure| $inner.drop_useless_connections(failure),
            $attempt
        )
    };
    ($inner:expr, $wait:expr, $attempt:block) => {
        $crate::postgres::patience::patiently!(
            @ $crate::postgres::reach::Call::Writes,
            &$inner.reach,
            $wait,
            |failure| {
                $inner.drop_useless_connections(failure);
                $inner.drop_read_only_connections(failure);
            },
            $attempt
        )
    };
    (@ $call:expr, $reach:expr, $wait:expr, $failed:expr, $attempt:block) => {{
        let mut patience = $crate::postgres::patience::Patience::begin($reach, $call, $wait);
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

    #[tokio::test(start_paused = true)]
    async fn steps_of_an_operation_share_its_patience() {
        let wait = Wait::begin();
        assert_eq!((wait.left(), wait.is_over()), (WAIT_TIMEOUT, false));
        tokio::time::sleep(WAIT_TIMEOUT * 7 / 10).await;
        assert_eq!(wait.left(), WAIT_TIMEOUT * 3 / 10);
        tokio::time::sleep(WAIT_TIMEOUT).await;
        assert_eq!(
            (wait.left(), wait.is_over()),
            (LAST_WAIT, true),
            "it still takes what is free"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_was_waited_before_the_first_attempt_counts() {
        let (reach, wait) = (Reach::default(), Wait::begin());
        tokio::time::sleep(WAIT_TIMEOUT * 7 / 10).await;
        let start = Instant::now();
        let done: Result<(), Failure> = patiently!(opens & reach, wait, { Err(Failure::Silent) });
        done.unwrap_err();
        assert!(start.elapsed() < WAIT_TIMEOUT / 2, "{:?}", start.elapsed());
    }

    /// Calls a server that is not there until the call fails, and returns how long that took.
    async fn failed_after(reach: &Reach) -> Duration {
        let start = Instant::now();
        let done: Result<(), Failure> = patiently!(opens reach, Wait::begin(), { Err(Failure::Silent) });
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
