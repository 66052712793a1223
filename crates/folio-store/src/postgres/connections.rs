//! The connections to the server: some to read with, a few to write with.
//!
//! A server may take fewer than the pools hold. Then whoever needs one waits for one that is there, of either pool:
//! they differ only in what they are kept for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Object, Pool, Timeouts};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::error::Failure;
use super::patience::Wait;
use super::reach::Call;

/// How long to wait for one of the present connections until another one is tried.
const FREE_WITHIN: Duration = Duration::from_secs(1);
/// The pause between two looks for a free connection.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The pools of connections.
#[derive(Debug)]
pub(super) struct Connections {
    readers: Pool,
    writers: Pool,
    /// Whether the server has refused a connection because there were too many.
    are_few: AtomicBool,
    /// Notified when there is no connection at all and the server takes none: the one that listens is then needed.
    none_left: Notify,
}

impl Connections {
    pub(super) fn of((readers, writers): (Pool, Pool)) -> Self {
        Self {
            readers,
            writers,
            are_few: AtomicBool::new(false),
            none_left: Notify::new(),
        }
    }

    /// A connection for a `call` of an operation that waits.
    pub(super) async fn take(&self, call: Call, wait: Wait) -> Result<Object, Failure> {
        // How long a new connection takes is limited for each address.
        let within = || Timeouts {
            wait: Some(wait.left()),
            ..Timeouts::new()
        };
        let (own, other) = match call {
            Call::Reads => (&self.readers, &self.writers),
            Call::Writes => (&self.writers, &self.readers),
        };
        let mut refused = match own.timeout_get(&within()).await.map_err(Failure::from) {
            Err(failure) if failure.is_too_many() => failure,
            taken => return taken,
        };
        self.are_few.store(true, Ordering::Release);
        if own.status().size + other.status().size == 0 {
            self.none_left.notify_one();
        }
        let until = Instant::now() + FREE_WITHIN;
        while Instant::now() < until {
            for pool in [own, other] {
                // Somebody else may be faster, and then a new connection is tried.
                if pool.status().available > 0 {
                    match pool.timeout_get(&within()).await.map_err(Failure::from) {
                        Err(failure) if failure.is_too_many() => refused = failure,
                        taken => return taken,
                    }
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Err(refused)
    }

    /// Drops idle connections that are older than `age`.
    pub(super) fn drop_idle(&self, age: Duration) {
        for pool in [&self.writers, &self.readers] {
            drop(pool.retain(|_, metrics| metrics.age() < age));
        }
    }

    /// Whether the server takes fewer connections than there were to be.
    pub(super) fn are_few(&self) -> bool {
        self.are_few.load(Ordering::Acquire)
    }

    /// Returns when somebody needs a connection, none is left, and the server takes no further one.
    pub(super) async fn until_none_is_left(&self) {
        self.none_left.notified().await;
    }
}
