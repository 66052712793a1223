//! Decides whether an owner that drives runs and was silent for too long is to blame for that.
//!
//! After the whole machine slept, or its clock was set forward, all owners have been silent for too long. Therefore an
//! owner that holds its lock gets time to renew its sign of life while somebody watches (decision 0096). This applies
//! to every store with a lock for each owner.

use std::time::Duration;

use tokio::time::Instant;

/// How long a silent owner that holds its lock may take to renew its sign of life, in addition to the time between two
/// such signs. The same time is given to a process that lost all its connections, as happens when a server restarts.
pub(crate) const RENEWAL_GRACE: Duration = Duration::from_secs(2);

/// How long a process that wants to drive a run waits before it checks again whether the run's silent driver goes on.
pub(crate) const DRIVER_RECHECK_PAUSE: Duration = Duration::from_millis(250);

/// No sign of life is valid for longer than this: an hour is the longest lease, and the longest that rewriting a file
/// may take. A later time was written before the clock was set back, and counts as an expired lease.
const LONGEST: Duration = Duration::from_secs(61 * 60);

/// What is known about an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// The owner is there and goes on.
    GoesOn,
    /// The owner is there, but has been silent for too long, though not yet while this process was watching.
    Silent,
    /// The owner is gone, or hangs.
    Gone,
}

/// An owner that is there but silent, with the moment when that was first seen by this process's monotonic clock, which
/// stands still while the machine sleeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    /// Until when the owner last said that it goes on; `None` if that is not known any more.
    until: Option<i64>,
    since: Instant,
}

impl Silence {
    /// Judges an owner that is there and said that it goes on `until`, seen `at`, when the database's clock says `now`;
    /// `until` and `now` are in milliseconds. Updates `before`, what was seen of its silence earlier.
    pub(crate) fn judged(
        before: &mut Option<Self>,
        (until, now): (Option<i64>, i64),
        at: Instant,
        patience: Duration,
    ) -> Life {
        let latest = now.saturating_add(millis(LONGEST));
        if until.is_some_and(|until| (now..=latest).contains(&until)) {
            *before = None;
            return Life::GoesOn;
        }
        let same = before.filter(|silence| silence.until == until);
        let silence = before.insert(same.unwrap_or(Self { until, since: at }));
        if at.saturating_duration_since(silence.since) < patience {
            Life::Silent
        } else {
            Life::Gone
        }
    }
}

/// `duration` in milliseconds, as a column stores it.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(7);
    const HOUR: i64 = 60 * 60 * 1000;

    #[test]
    fn lock_holder_counts_as_gone_only_after_silence_while_watched() {
        let began = Instant::now();
        let mut silence = None;
        // The end of the lease and the database's clock, in milliseconds; and for how many seconds this process has
        // watched.
        let mut seen = |until: Option<i64>, now: i64, looked: u64| {
            let at = began + Duration::from_secs(looked);
            Silence::judged(&mut silence, (until, now), at, PATIENCE)
        };
        assert_eq!(seen(Some(15_000), 15_000, 0), Life::GoesOn);
        // The machine slept for an hour, and then all processes look at once.
        assert_eq!(seen(Some(15_000), 3_600_000, 1), Life::Silent);
        assert_eq!(seen(Some(15_000), 3_604_000, 5), Life::Silent);
        assert_eq!(seen(Some(3_620_000), 3_605_000, 6), Life::GoesOn);
        // After another sleep its silence begins anew.
        assert_eq!(seen(Some(3_620_000), 9_000_000, 7), Life::Silent);
        assert_eq!(seen(Some(8_000_000), 9_005_000, 12), Life::Silent);
        assert_eq!(seen(Some(8_000_000), 9_011_999, 18), Life::Silent);
        assert_eq!(seen(Some(8_000_000), 9_012_000, 19), Life::Gone);
        assert_eq!(seen(Some(8_000_000), 9_020_000, 30), Life::Gone);
    }

    #[test]
    fn owner_must_renew_its_lease_after_a_clock_setback() {
        let (began, mut silence) = (Instant::now(), None);
        let mut seen = |until: i64, now: i64, looked: u64| {
            let at = began + Duration::from_secs(looked);
            Silence::judged(&mut silence, (Some(until), now), at, PATIENCE)
        };
        let until = 100 * HOUR;
        assert_eq!(seen(until, until - HOUR, 0), Life::GoesOn);
        assert_eq!(seen(until, until - 2 * HOUR, 1), Life::Silent);
        assert_eq!(seen(until, until - 2 * HOUR + 3_000, 4), Life::Silent);
        // It has renewed its lease by the clock as it is now.
        assert_eq!(
            seen(until - 2 * HOUR + 18_000, until - 2 * HOUR + 3_000, 4),
            Life::GoesOn
        );
        assert_eq!(seen(until, until - 2 * HOUR, 5), Life::Silent);
        assert_eq!(seen(until, until - 2 * HOUR + 7_000, 12), Life::Gone);
    }

    #[test]
    fn lock_holder_without_a_known_lease_gets_a_grace_period() {
        let (began, mut silence) = (Instant::now(), None);
        let mut seen = |looked| Silence::judged(&mut silence, (None, 0), began + looked, PATIENCE);
        assert_eq!(seen(Duration::ZERO), Life::Silent);
        assert_eq!(seen(PATIENCE), Life::Gone);
    }
}
