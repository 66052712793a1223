//! Whether a process that drives runs is still there.
//!
//! Two signs must agree. Every connection of it holds a lock of the server, which goes with the last of them the moment the process
//! is gone, so a run whose driver was killed can be taken up at once. And it says every few seconds that it goes on, by the server's
//! clock, so that one which hangs can be replaced; when it wakes up again, its fence is no longer the current one.
//!
//! Nobody else can have that lock: it is a shared one, and a session of ours that the server has not given up yet keeps no other
//! from it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Client};

use super::clock::ServerClock;
use super::error::Failure;
use super::open::{ProcessLock, Target};
use super::session::Session;
use super::wake::{CHANNEL, Wake};
use crate::error::StoreError;
use crate::store::OwnerId;

/// How long after a connection was lost the next one is tried.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// How long an answer may take, if a lease is not shorter. Of the usual lease there is time left then for another connection.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long whoever lost every connection, as everybody does when the server restarts, may need for the next, besides the time
/// between two signs of life.
const BACK_WITHIN: Duration = Duration::from_secs(2);
/// Rows of owners that were silent for this long are of no use to anybody.
const FORGOTTEN_AFTER: &str = "24 hours";

/// The owners that live in this process, and a way to ask after others.
#[derive(Debug)]
pub(super) struct Owners {
    lease: Duration,
    lock: ProcessLock,
    here: Mutex<HashSet<OwnerId>>,
    /// The connection that listens, while there is one.
    client: Mutex<Option<Arc<Client>>>,
    /// When it was lost last, or could not be had.
    lost: Mutex<Option<Instant>>,
}

impl Owners {
    /// Nobody yet.
    pub(super) fn new(target: &Target) -> Self {
        Self {
            lease: target.lease,
            lock: target.lock,
            here: Mutex::default(),
            client: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    /// Keeps a connection that listens, for ever; whenever it was lost, another one. Says meanwhile that the owners go on: over that
    /// connection, or over one of `writers` while there is none.
    pub(super) async fn keep_watch(&self, target: &Target, writers: &Pool, clock: &ServerClock, wake: &Wake) {
        let listening = async {
            loop {
                // What goes wrong here is seen by whoever needs the server.
                drop(self.watch(target, clock, wake).await);
                *locked(&self.client) = None;
                *locked(&self.lost) = Some(Instant::now());
                wake.ring_all();
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        };
        let going_on = async {
            loop {
                tokio::time::sleep(self.lease / 3).await;
                // If nobody hears it, others take over.
                drop(self.renew_all(writers).await);
            }
        };
        tokio::join!(listening, going_on);
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
        let asking = async {
            self.in_time(client.batch_execute(&format!("LISTEN {CHANNEL}")))
                .await??;
            wake.ring_all();
            // Whoever was away for longer than usual says at once that he is back. Where nothing can be written he can still hear.
            drop(self.in_time(self.renew_here(&client)).await?);
            *locked(&self.client) = Some(Arc::clone(&client));
            loop {
                self.in_time(clock.set_by(&client)).await??;
                tokio::time::sleep(self.lease / 3).await;
            }
        };
        tokio::select! {
            heard = hearing => heard,
            asked = asking => asked,
        }
    }

    /// Makes `owner` visibly alive, by `session`, which has the lock of this process as every connection has.
    pub(super) async fn hold(&self, session: &Session, owner: &OwnerId) -> Result<(), Failure> {
        locked(&self.here).insert(owner.clone());
        session
            .execute(RENEW, &[&vec![owner.0.as_str()], &self.lock.0, &millis(self.lease)])
            .await?;
        Ok(())
    }

    /// Says of all owners of this process that they go on.
    async fn renew_all(&self, writers: &Pool) -> Result<(), Failure> {
        if locked(&self.here).is_empty() {
            return Ok(());
        }
        let listening = locked(&self.client).clone();
        if let Some(client) = listening
            && let Ok(Ok(())) = self.in_time(self.renew_here(&client)).await
        {
            return Ok(());
        }
        // Whoever can still write goes on: nobody has to hear of commits for that.
        self.in_time(async { self.renew_here(&*writers.get().await?).await })
            .await?
    }

    /// The same over `client`; nothing is said where nobody is.
    async fn renew_here(&self, client: &Client) -> Result<(), Failure> {
        let owners: Vec<_> = locked(&self.here).iter().map(|owner| owner.0.clone()).collect();
        if owners.is_empty() {
            return Ok(());
        }
        client
            .execute(RENEW, &[&owners, &self.lock.0, &millis(self.lease)])
            .await?;
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
            let here = locked(&self.here);
            owners.into_iter().partition(|owner| here.contains(owner))
        };
        if others.is_empty() {
            return Ok(alive);
        }
        // When everybody has lost his connections, nobody could say that he goes on: the first who is back does not take the others for
        // dead.
        let back_within = self.lease / 3 + BACK_WITHIN;
        let was_lost = locked(&self.lost).is_some_and(|lost| lost.elapsed() < back_within);
        let others: Vec<String> = others.into_iter().map(|owner| owner.0).collect();
        let sql = "SELECT owner.id FROM owner
                   WHERE owner.id = ANY($1) AND ($2
                       OR pg_postmaster_start_time() > clock_timestamp() - $3 * interval '1 millisecond'
                       OR owner.until >= clock_timestamp() AND EXISTS (SELECT 1 FROM pg_locks WHERE pg_locks.locktype = 'advisory' AND pg_locks.granted
                           AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                           AND (pg_locks.classid::bigint << 32 | pg_locks.objid::bigint) = owner.lock
                           AND pg_locks.objsubid = 1))";
        for row in session.query(sql, &[&others, &was_lost, &millis(back_within)]).await? {
            alive.insert(OwnerId(row.try_get(0)?));
        }
        Ok(alive)
    }

    /// Says that nobody of this process drives anything any more.
    pub(super) async fn leave(&self, writers: &Pool) {
        let owners: Vec<_> = locked(&self.here).drain().map(|owner| owner.0).collect();
        if !owners.is_empty() {
            let leaving = async {
                let client = writers.get().await?;
                client
                    .execute("DELETE FROM owner WHERE id = ANY($1)", &[&owners])
                    .await?;
                Ok::<_, Failure>(())
            };
            // If this fails, the locks go with the connections.
            drop(self.in_time(leaving).await);
        }
    }

    /// What `asking` comes to, unless the server has stopped answering without a word: then the connection is of no use, and another
    /// one may be.
    async fn in_time<T>(&self, asking: impl Future<Output = T>) -> Result<T, Failure> {
        let answer = tokio::time::timeout(ANSWER_WITHIN.min(self.lease), asking).await;
        answer.map_err(|_| StoreError::Invalid("the server has stopped answering".to_owned()).into())
    }
}

const RENEW: &str = "INSERT INTO owner (id, lock, until)
                     SELECT unnest($1::text[]), $2, clock_timestamp() + $3 * interval '1 millisecond'
                     ON CONFLICT (id) DO UPDATE SET lock = excluded.lock, until = excluded.until";

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
