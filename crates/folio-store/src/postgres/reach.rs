//! Whether the server can be reached, as far as this process has found out.
//!
//! All calls share this knowledge: an outage is waited for once, not again by every call, and once it has lasted for as
//! long as anybody waits, further calls fail at once. The task that listens for commits keeps looking for the server
//! ([`super::lease`]); its first answer ends the outage for everybody.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::at_work::{Activity, Backend};
use super::error::Failure;
use super::open::WAIT_TIMEOUT;

/// How often a call that is under way checks whether the server is gone.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Since when the server has not been there for its callers, and how to ask it.
#[derive(Debug, Default)]
pub(super) struct Reach {
    outages: Mutex<Outages>,
    /// The connection that listens for commits, while there is one.
    listening: Mutex<Option<Arc<Client>>>,
}

#[derive(Debug, Default)]
struct Outages {
    /// Since when nothing has reached it.
    unreachable: Option<Instant>,
    /// Since when it has accepted no writes.
    read_only: Option<Instant>,
}

/// What a call does with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Reads,
    Writes,
}

impl Reach {
    /// Notes that the server has carried out a `call`.
    pub(super) fn note_answer(&self, call: Call) {
        let mut outages = self.outages.lock();
        outages.unreachable = None;
        if call == Call::Writes {
            outages.read_only = None;
        }
    }

    /// Notes what `failure` tells about the server. Returns since when it has been away in that way, if it is.
    pub(super) fn note_failure(&self, failure: &Failure, now: Instant) -> Option<Instant> {
        let mut outages = self.outages.lock();
        if failure.is_loss() {
            return Some(*outages.unreachable.get_or_insert(now));
        }
        if failure.is_answer() {
            outages.unreachable = None;
        }
        failure.is_read_only().then(|| *outages.read_only.get_or_insert(now))
    }

    /// For how long nothing has reached the server, if that is so long that no call waits for it any more.
    pub(super) fn gone_for(&self, now: Instant) -> Option<Duration> {
        let since = self.outages.lock().unreachable?;
        Some(now.saturating_duration_since(since)).filter(|gone| *gone >= WAIT_TIMEOUT)
    }

    /// The connection that listens for commits, if there is one.
    pub(super) fn listening(&self) -> Option<Arc<Client>> {
        self.listening.lock().clone()
    }

    /// Sets the connection that listens for commits; returns the one before.
    pub(super) fn set_listening(&self, client: Option<Arc<Client>>) -> Option<Arc<Client>> {
        std::mem::replace(&mut *self.listening.lock(), client)
    }

    /// What the server does in `backend`, as it says over the connection that listens.
    pub(super) async fn activity_of(&self, backend: Backend) -> Activity {
        match self.listening() {
            Some(client) => backend.activity(&client).await,
            None => Activity::Unknown,
        }
    }

    /// The result of `query`, which waits for an answer of the server; fails once nothing has reached the server for so
    /// long that no call waits for it any more. The connection may still be there, and nothing will come over it.
    pub(super) async fn unless_gone<T, E>(&self, query: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        let gone = async {
            while self.gone_for(Instant::now()).is_none() {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            done = query => Ok(done?),
            () = gone => Err(Failure::Silent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn call_under_way_ends_when_the_server_is_gone() {
        let (reach, start) = (Reach::default(), Instant::now());
        let never = std::future::pending::<Result<(), Failure>>();
        let away = async {
            tokio::time::sleep(60 * SECOND).await;
            reach.note_failure(&Failure::Silent, Instant::now());
        };
        let (ended, ()) = tokio::join!(reach.unless_gone(never), away);
        assert!(matches!(ended, Err(Failure::Silent)), "{ended:?}");
        let waited = start.elapsed();
        assert!(waited >= 70 * SECOND && waited <= 72 * SECOND, "{waited:?}");
    }

    #[test]
    fn outage_counts_from_its_first_failure_until_the_first_answer() {
        let (reach, start) = (Reach::default(), Instant::now());
        assert_eq!(reach.note_failure(&Failure::Silent, start), Some(start));
        assert_eq!(reach.note_failure(&Failure::Silent, start + 3 * SECOND), Some(start));
        assert_eq!(reach.gone_for(start + 9 * SECOND), None);
        assert_eq!(reach.gone_for(start + 10 * SECOND), Some(10 * SECOND));
        // That a caller waited in vain for a free connection says nothing about the server.
        let busy = Failure::Pool(deadpool_postgres::PoolError::Timeout(
            deadpool_postgres::TimeoutType::Wait,
        ));
        assert_eq!(reach.note_failure(&busy, start + 10 * SECOND), None);
        assert_eq!(reach.gone_for(start + 11 * SECOND), Some(11 * SECOND));
        reach.note_answer(Call::Reads);
        assert_eq!(reach.gone_for(start + 60 * SECOND), None);
        let later = start + 61 * SECOND;
        assert_eq!(reach.note_failure(&Failure::Silent, later), Some(later));
    }
}
