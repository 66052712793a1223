//! Whether a process that drives runs is still there.
//!
//! Two signs must agree. It holds a lock of the server, which goes with its connection the moment the process is gone, so a
//! run whose driver was killed can be taken up at once. And it says every few seconds that it goes on, by the server's clock, so
//! that one which hangs can be replaced; when it wakes up again, its fence is no longer the current one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio_postgres::{AsyncMessage, Client};

use super::clock::ServerClock;
use super::error::Failure;
use super::open::Target;
use super::session::Session;
use super::wake::{CHANNEL, Wake};
use crate::error::StoreError;
use crate::store::OwnerId;

/// How long after a connection was lost the next one is tried.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// How long an answer may take, if a lease is not shorter. Of the usual lease there is time left then for another connection.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Rows of owners that were silent for this long are of no use to anybody.
const FORGOTTEN_AFTER: &str = "24 hours";

/// The owners that live in this process, and a way to ask after others.
#[derive(Debug)]
pub(super) struct Owners {
    lease: Duration,
    here: Mutex<HashSet<OwnerId>>,
    /// The connection that holds their locks, and listens.
    client: tokio::sync::Mutex<Option<Arc<Client>>>,
}

impl Owners {
    /// Nobody yet.
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            lease,
            here: Mutex::default(),
            client: tokio::sync::Mutex::new(None),
        }
    }

    /// Keeps a connection that listens and holds the locks, for ever; whenever it was lost, another one.
    pub(super) async fn keep_watch(&self, target: &Target, clock: &ServerClock, wake: &Wake) {
        loop {
            // What goes wrong here is seen by whoever needs the server: a run is not claimed without a lock.
            drop(self.watch(target, clock, wake).await);
            *self.client.lock().await = None;
            wake.ring_all();
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn watch(&self, target: &Target, clock: &ServerClock, wake: &Wake) -> Result<(), Failure> {
        let (client, mut connection) = target.connect().await?;
        let client = Arc::new(client);
        let hearing = async {
            while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(told) = message? {
                    wake.hear(told.payload());
                }
            }
            Ok::<_, Failure>(())
        };
        let holding = async {
            self.in_time(client.batch_execute(&format!("LISTEN {CHANNEL}")))
                .await??;
            wake.ring_all();
            {
                let mut current = self.client.lock().await;
                let owners: Vec<_> = self.here().iter().cloned().collect();
                for owner in owners {
                    self.in_time(take(&client, &owner)).await??;
                }
                *current = Some(Arc::clone(&client));
            }
            loop {
                self.in_time(self.renew_all(&client)).await??;
                self.in_time(clock.set_by(&client)).await??;
                tokio::time::sleep(self.lease / 3).await;
            }
        };
        tokio::select! {
            heard = hearing => heard,
            held = holding => held,
        }
    }

    /// Makes `owner` visibly alive. Does nothing if it is already.
    pub(super) async fn hold(&self, owner: &OwnerId) -> Result<(), Failure> {
        if self.here().contains(owner) {
            return Ok(());
        }
        let client = self.client.lock().await;
        if let Some(client) = client.as_ref() {
            take(client, owner).await?;
        }
        // Without a connection it is taken with the next one.
        self.here().insert(owner.clone());
        Ok(())
    }

    /// Says in `session` that `owner` goes on.
    pub(super) async fn renew(&self, session: &Session, owner: &OwnerId) -> Result<(), Failure> {
        session
            .execute(RENEW, &[&owner.0, &lock_of(owner), &millis(self.lease)])
            .await?;
        Ok(())
    }

    async fn renew_all(&self, client: &Client) -> Result<(), Failure> {
        let owners: Vec<_> = self.here().iter().cloned().collect();
        for owner in &owners {
            client
                .execute(RENEW, &[&owner.0, &lock_of(owner), &millis(self.lease)])
                .await?;
        }
        let sql = format!("DELETE FROM owner WHERE until < now() - interval '{FORGOTTEN_AFTER}'");
        Ok(client.batch_execute(&sql).await?)
    }

    /// Whether `owner` is there and goes on.
    pub(super) async fn is_alive(&self, session: &Session, owner: &OwnerId) -> Result<bool, Failure> {
        let alive = self.alive(session, HashSet::from([owner.clone()])).await?;
        Ok(alive.contains(owner))
    }

    /// Those of `owners` that are there and go on: of many in one question, and of those of this process in none.
    pub(super) async fn alive(&self, session: &Session, owners: HashSet<OwnerId>) -> Result<HashSet<OwnerId>, Failure> {
        let (mut alive, others): (HashSet<_>, HashSet<_>) = {
            let here = self.here();
            owners.into_iter().partition(|owner| here.contains(owner))
        };
        if others.is_empty() {
            return Ok(alive);
        }
        let others: Vec<String> = others.into_iter().map(|owner| owner.0).collect();
        let sql = "SELECT owner.id FROM owner JOIN pg_locks ON pg_locks.locktype = 'advisory' AND pg_locks.granted
                       AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                       AND (pg_locks.classid::bigint << 32 | pg_locks.objid::bigint) = owner.lock AND pg_locks.objsubid = 1
                   WHERE owner.id = ANY($1) AND owner.until >= clock_timestamp()";
        for row in session.query(sql, &[&others]).await? {
            alive.insert(OwnerId(row.try_get(0)?));
        }
        Ok(alive)
    }

    /// Says that nobody of this process drives anything any more.
    pub(super) async fn leave(&self) {
        let owners: Vec<_> = self.here().drain().map(|owner| owner.0).collect();
        let client = self.client.lock().await.take();
        if let (Some(client), false) = (client, owners.is_empty()) {
            // If this fails, the locks go with the connection.
            drop(
                self.in_time(client.execute("DELETE FROM owner WHERE id = ANY($1)", &[&owners]))
                    .await,
            );
        }
    }

    /// What `asking` comes to, unless the server has stopped answering without a word: then the connection is of no use, and another
    /// one may be.
    async fn in_time<T>(&self, asking: impl Future<Output = T>) -> Result<T, Failure> {
        let answer = tokio::time::timeout(ANSWER_WITHIN.min(self.lease), asking).await;
        answer.map_err(|_| StoreError::Invalid("the server has stopped answering".to_owned()).into())
    }

    fn here(&self) -> MutexGuard<'_, HashSet<OwnerId>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const RENEW: &str =
    "INSERT INTO owner (id, lock, until) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
                     ON CONFLICT (id) DO UPDATE SET until = excluded.until";

/// Takes the lock of `owner`. A namesake in this process may have it; then both live as long as the process.
async fn take(client: &Client, owner: &OwnerId) -> Result<(), Failure> {
    client
        .query_one("SELECT pg_try_advisory_lock($1)", &[&lock_of(owner)])
        .await?;
    Ok(())
}

/// The lock by which others see that `owner` is alive.
fn lock_of(owner: &OwnerId) -> i64 {
    let digest: [u8; 32] = Sha256::digest(owner.0.as_bytes()).into();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    // Not negative, so that it is the same number however the server shows it.
    i64::from_be_bytes(bytes) & i64::MAX
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
