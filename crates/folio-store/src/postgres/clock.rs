//! The server's clock: all who share a database use one clock, whatever the clocks of their machines say (M7.1.9).
//!
//! The server cannot be asked every time. It is asked when the store is opened, and then with every renewal of leases
//! ([`super::lease`]); in between, its time is extrapolated by a monotonic clock of this process.

use std::fmt;
use std::time::Duration;

use folio_memory::{Clock, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::error::Failure;
use crate::system::awake;

/// In microseconds, the precision of the server.
const TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The server's time, as far as this process can tell.
pub(super) struct ServerClock(Mutex<TimeEstimate>);

impl ServerClock {
    /// Asks the server at the other end of `client`.
    pub(super) async fn of(client: &Client) -> Result<Self, Failure> {
        Ok(Self(Mutex::new(TimeEstimate::from(&ask(client).await?))))
    }

    /// Asks again: clocks are set, drift, and sleep with their machine, and another server may have taken the place of
    /// the first.
    pub(super) async fn set_by(&self, client: &Client) -> Result<(), Failure> {
        let reading = ask(client).await?;
        let mut reckoned = self.lock_estimate();
        *reckoned = reckoned.after(&reading);
        Ok(())
    }

    fn lock_estimate(&self) -> MutexGuard<'_, TimeEstimate> {
        self.0.lock()
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        self.lock_estimate().at(Instant::now())
    }

    fn awake(&self) -> Option<Duration> {
        Some(awake())
    }
}

impl fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerClock")
    }
}

async fn ask(client: &Client) -> Result<ServerReading, Failure> {
    let asked = Instant::now();
    let row = client.query_one(TIME, &[]).await?;
    let answered = Instant::now();
    let micros: i64 = row.try_get(0)?;
    Ok(ServerReading {
        asked,
        time: Timestamp::from_nanos(micros.saturating_mul(1_000)),
        answered,
    })
}

/// The server's answer: its time was `time` at some moment between `asked` and `answered`.
struct ServerReading {
    asked: Instant,
    time: Timestamp,
    answered: Instant,
}

/// The server's time is taken to have been `time` at the moment `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimeEstimate {
    at: Instant,
    time: Timestamp,
}

impl From<&ServerReading> for TimeEstimate {
    /// The error is at most half of the time that the answer took.
    fn from(reading: &ServerReading) -> Self {
        let round_trip = reading.answered.saturating_duration_since(reading.asked);
        Self {
            at: reading.asked + round_trip / 2,
            time: reading.time,
        }
    }
}

impl TimeEstimate {
    fn at(&self, moment: Instant) -> Timestamp {
        match moment.checked_duration_since(self.at) {
            Some(later) => self.time.plus(later),
            None => self.time.minus(self.at.saturating_duration_since(moment)),
        }
    }

    /// Keeps the reckoning if `reading` agrees with it, so that varying latency does not make the time jump; otherwise
    /// starts over.
    fn after(self, reading: &ServerReading) -> Self {
        // The server truncates to microseconds.
        let earliest = self.at(reading.asked).minus(Duration::from_micros(1));
        if (earliest..=self.at(reading.answered)).contains(&reading.time) {
            self
        } else {
            Self::from(reading)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn told(asked: Instant, took: Duration, time: Timestamp) -> ServerReading {
        ServerReading {
            asked,
            time,
            answered: asked + took,
        }
    }

    fn noon() -> Timestamp {
        Timestamp::parse("2026-03-01T12:00:00Z").unwrap()
    }

    #[test]
    fn server_clock_ignores_the_time_of_the_local_machine_m7_1() {
        let clock = ServerClock(Mutex::new(TimeEstimate::from(&told(Instant::now(), 4 * MILLI, noon()))));
        // The machine's clock is in another year.
        let now = clock.now();
        assert!(now.since(noon()) < HOUR && noon().since(now) < HOUR, "{now}");
    }

    #[test]
    fn server_time_advances_from_the_midpoint_of_the_last_answer() {
        let start = Instant::now();
        let reckoned = TimeEstimate::from(&told(start, 4 * MILLI, noon()));
        assert_eq!(reckoned.at(start + 2 * MILLI), noon());
        assert_eq!(reckoned.at(start + 2 * MILLI + HOUR), noon().plus(HOUR));
        assert_eq!(reckoned.at(start), noon().minus(2 * MILLI));
    }

    #[test]
    fn server_time_is_reset_only_by_a_contradicting_answer() {
        let start = Instant::now();
        let reckoned = TimeEstimate::from(&told(start, 4 * MILLI, noon()));
        let later = start + HOUR;
        let expected = noon().plus(HOUR);
        // The answer took longer, so its middle is elsewhere, but it does not contradict the reckoning.
        let fits = told(later, 20 * MILLI, expected);
        assert_eq!(reckoned.after(&fits), reckoned);
        // The server's clock was set back, or it is another server.
        let other = told(later, 20 * MILLI, noon());
        assert_eq!(reckoned.after(&other).at(later + 10 * MILLI), noon());
        // This machine has slept for a while, and its own clock with it.
        let slept = told(later, 20 * MILLI, expected.plus(HOUR));
        assert_eq!(reckoned.after(&slept).at(later + 10 * MILLI), expected.plus(HOUR));
    }
}
