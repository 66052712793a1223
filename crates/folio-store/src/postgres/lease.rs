//! Tells whether a process that drives runs is still alive.
//!
//! Two signs must agree. Each of its connections holds an advisory lock of the server, which is released with the last
//! of them the moment the process is gone, so that a run whose driver was killed can be taken over at once. And it
//! renews its lease every few seconds, by the server's clock, so that a process that hangs can be replaced; when it
//! wakes up again, its fence is no longer the current one. When the server's machine paused, or its clock was set
//! forward, all leases have expired: an owner that has its lock gets time to renew its lease while somebody watches
//! (decision 0096).
//!
//! Nobody else can hold that lock exclusively: it is a shared lock, and a session of ours that the server has not
//! dropped yet does not block another one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Client};

use super::Inner;
use super::connections::Connections;
use super::error::Failure;
use super::open::{ProcessLock, Target};
use super::patience::Wait;
use super::reach::Call;
use super::session::Session;
use super::wake::CHANNEL;
use crate::error::released_owner;
use crate::silence::{Life, RENEWAL_GRACE, Silence};
use crate::store::OwnerId;

/// How long after a lost connection the next one is tried; the pause doubles as long as none is available.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause, if a third of a lease is not shorter: a process that waits longer may be taken for dead when the
/// server is back. Until then every call of this process fails.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long this process does without listening after others needed the connection.
const YIELDED: Duration = Duration::from_secs(60);
/// How long a connection is kept that hears nothing because its server is read-only: another one may lead to the server
/// that writes.
const STANDBY_CONNECTION_MAX_AGE: Duration = Duration::from_secs(60);
/// How long an answer may take, if a lease is not shorter. With the default lease this leaves time for another
/// connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time between two questions whether the server still answers.
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);
/// Rows of owners that were silent for this long are deleted.
const OWNER_ROW_RETENTION: &str = "24 hours";

/// The owners in this process, and a way to ask about others.
#[derive(Debug)]
pub(super) struct Owners {
    lease: Duration,
    lock: ProcessLock,
    here: Mutex<HashSet<OwnerId>>,
    /// Owners that claim nothing any more, although a claim of theirs may still be under way.
    released: Mutex<HashSet<OwnerId>>,
    /// When the connection was last lost, or could not be opened.
    lost: Mutex<Option<Instant>>,
    /// Owners of other processes that have their locks but were silent when last looked at.
    silent: Mutex<HashMap<OwnerId, Silence>>,
}

impl Owners {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            lease: target.lease,
            lock: target.lock,
            here: Mutex::default(),
            released: Mutex::default(),
            lost: Mutex::default(),
            silent: Mutex::default(),
        }
    }

    /// Keeps a connection that listens for notifications, for ever, and replaces it whenever it is lost. Renews the
    /// leases of the owners meanwhile: over that connection, or over one that writes while there is none.
    pub(super) async fn keep_watch(&self, inner: &Inner) {
        let listening = async {
            let mut pause = FIRST_RETRY_PAUSE;
            loop {
                let yielded = tokio::select! {
                    ended = self.watch(inner) => {
                        // Whoever needs the server gets the error as well.
                        if let Err(failure) = ended {
                            inner.reach.note_failure(&failure, Instant::now());
                        }
                        false
                    }
                    // Without it everybody hears of commits later. Without any other, nothing works at all.
                    () = inner.connections.until_none_is_left() => true,
                };
                let was_there = inner.reach.set_listening(None).is_some();
                *locked(&self.lost) = Some(Instant::now());
                inner.wake.ring_all();
                let since = Instant::now();
                // Whether an outage is over is found out here.
                while yielded && since.elapsed() < YIELDED && inner.reach.gone_for(Instant::now()).is_none() {
                    tokio::time::sleep(PAUSE_MAX).await;
                }
                pause = if was_there { FIRST_RETRY_PAUSE } else { pause };
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX).min(self.lease / 3);
            }
        };
        let going_on = async {
            loop {
                tokio::time::sleep(self.lease / 3).await;
                // If no renewal arrives, others take over.
                drop(self.renew_all(inner).await);
            }
        };
        tokio::join!(listening, going_on);
    }

    async fn watch(&self, inner: &Inner) -> Result<(), Failure> {
        let (client, mut connection) = inner.target.connect().await?;
        let client = Arc::new(client);
        let hearing = async {
            while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(told) = message? {
                    inner.wake.hear(told.payload());
                }
            }
            Ok::<_, Failure>(())
        };
        let maintaining = async {
            inner.note_server_start(self.in_time(started(&client)).await??);
            inner.reach.note_answer(Call::Reads);
            let mut hears = self.listen(&client).await?;
            let connected = Instant::now();
            inner.wake.ring_all();
            // After a long absence the leases are renewed at once. A server that cannot be written to can still be
            // listened to.
            drop(self.in_time(self.renew_here(&client)).await?);
            inner.reach.set_listening(Some(Arc::clone(&client)));
            // A connection that hears nothing is replaced after a while, in case another server would notify.
            while hears || connected.elapsed() < STANDBY_CONNECTION_MAX_AGE {
                self.in_time(inner.clock.set_by(&client)).await??;
                // Whatever one call found out about its own connection, the server is there.
                inner.reach.note_answer(Call::Reads);
                // The server is checked as often as leases of the default length are renewed, however long they are.
                tokio::time::sleep((self.lease / 3).min(HEARTBEAT_MAX)).await;
                if !hears {
                    hears = self.listen(&client).await?;
                    if hears {
                        inner.wake.ring_all();
                    }
                }
            }
            Ok(())
        };
        tokio::select! {
            result = hearing => result,
            result = maintaining => result,
        }
    }

    /// Makes `client` listen for commits. False on a standby, which does not notify: then waiters must look for
    /// themselves.
    async fn listen(&self, client: &Client) -> Result<bool, Failure> {
        let sql = format!("LISTEN {CHANNEL}");
        match self.in_time(client.batch_execute(&sql)).await?.map_err(Failure::from) {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_read_only() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Makes `owner` visibly alive through `session`, whose connection holds the lock of this process, as every
    /// connection does. Refused if the owner was released.
    pub(super) async fn hold(&self, session: &Session, owner: &OwnerId) -> Result<(), Failure> {
        {
            let mut here = locked(&self.here);
            if locked(&self.released).contains(owner) {
                return Err(released_owner().into());
            }
            here.insert(owner.clone());
        }
        session
            .execute(RENEW, &[&vec![owner.0.as_str()], &self.lock.0, &millis(self.lease)])
            .await?;
        Ok(())
    }

    /// Forgets `owner`, whose lease is not renewed any more; returns whether it had one.
    pub(super) fn release(&self, owner: &OwnerId) -> bool {
        let mut here = locked(&self.here);
        locked(&self.released).insert(owner.clone());
        here.remove(owner)
    }

    /// Renews the leases of all owners in this process.
    async fn renew_all(&self, inner: &Inner) -> Result<(), Failure> {
        if locked(&self.here).is_empty() {
            return Ok(());
        }
        if let Some(client) = inner.reach.listening()
            && let Ok(Ok(())) = self.in_time(self.renew_here(&client)).await
        {
            return Ok(());
        }
        // An owner that can still write goes on: it need not hear of commits for that.
        self.in_time(async {
            self.renew_here(&*inner.connections.take(Call::Writes, Wait::begin()).await?)
                .await
        })
        .await?
    }

    /// The same over `client`; does nothing if there are no owners.
    async fn renew_here(&self, client: &Client) -> Result<(), Failure> {
        let owners: Vec<_> = locked(&self.here).iter().map(|owner| owner.0.clone()).collect();
        if owners.is_empty() {
            return Ok(());
        }
        client
            .execute(RENEW, &[&owners, &self.lock.0, &millis(self.lease)])
            .await?;
        let sql = format!("DELETE FROM owner WHERE until < now() - interval '{OWNER_ROW_RETENTION}'");
        Ok(client.batch_execute(&sql).await?)
    }

    /// Whether `owner` is alive, as far as is known.
    pub(super) async fn is_alive(&self, session: &Session, owner: &OwnerId) -> Result<bool, Failure> {
        Ok(self.life_of(session, owner).await? != Life::Gone)
    }

    /// Whether `owner` is there and goes on.
    pub(super) async fn life_of(&self, session: &Session, owner: &OwnerId) -> Result<Life, Failure> {
        let lives = self.lives_of(session, HashSet::from([owner.clone()])).await?;
        Ok(lives.get(owner).copied().unwrap_or(Life::Gone))
    }

    /// Whether `owners` are there and go on: looked up together, and those of this process not at all. An owner that is
    /// missing in the answer is gone.
    pub(super) async fn lives_of(
        &self,
        session: &Session,
        owners: HashSet<OwnerId>,
    ) -> Result<HashMap<OwnerId, Life>, Failure> {
        let (own, others): (HashSet<_>, HashSet<_>) = {
            let here = locked(&self.here);
            owners.into_iter().partition(|owner| here.contains(owner))
        };
        let mut lives: HashMap<_, _> = own.into_iter().map(|owner| (owner, Life::GoesOn)).collect();
        if others.is_empty() {
            return Ok(lives);
        }
        // When all processes have lost their connections, none could renew its leases: the first one that is back must
        // not take the others for dead.
        let back_within = self.lease / 3 + RENEWAL_GRACE;
        let was_lost = locked(&self.lost).is_some_and(|lost| lost.elapsed() < back_within);
        let owner_ids: Vec<&str> = others.iter().map(|owner| owner.0.as_str()).collect();
        let sql = "SELECT owner.id, (extract(epoch FROM owner.until) * 1000)::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
                       $2 OR pg_postmaster_start_time() > clock_timestamp() - $3 * interval '1 millisecond',
                       EXISTS (SELECT 1 FROM pg_locks WHERE pg_locks.locktype = 'advisory' AND pg_locks.granted
                           AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                           AND (pg_locks.classid::bigint << 32 | pg_locks.objid::bigint) = owner.lock
                           AND pg_locks.objsubid = 1)
                   FROM owner WHERE owner.id = ANY($1)";
        let rows = session
            .query(sql, &[&owner_ids, &was_lost, &millis(back_within)])
            .await?;
        let mut silent = locked(&self.silent);
        let mut before: HashMap<_, _> = others.iter().filter_map(|owner| silent.remove_entry(owner)).collect();
        for row in rows {
            let owner = OwnerId(row.try_get(0)?);
            let lease_row = (Some(row.try_get(1)?), row.try_get(2)?);
            let (nobody_is_gone, has_lock) = (row.try_get(3)?, row.try_get(4)?);
            let mut silence = before.remove(&owner);
            let life = match (nobody_is_gone, has_lock) {
                (true, _) => Life::GoesOn,
                (false, false) => Life::Gone,
                (false, true) => Silence::judged(&mut silence, lease_row, Instant::now(), back_within),
            };
            if let Some(silence) = silence.filter(|_| has_lock) {
                silent.insert(owner.clone(), silence);
            }
            lives.insert(owner, life);
        }
        Ok(lives)
    }

    /// Deletes the leases of all owners in this process.
    pub(super) async fn delete_all_leases(&self, connections: &Connections) {
        let owners: Vec<_> = locked(&self.here).drain().map(|owner| owner.0).collect();
        self.delete_leases(owners, connections).await;
    }

    /// Deletes the leases of `owners`, which drive nothing any more.
    pub(super) async fn delete_leases(&self, owners: Vec<String>, connections: &Connections) {
        if !owners.is_empty() {
            let leaving = async {
                let client = connections.take(Call::Writes, Wait::begin()).await?;
                client
                    .execute("DELETE FROM owner WHERE id = ANY($1)", &[&owners])
                    .await?;
                Ok::<_, Failure>(())
            };
            // If this fails, the leases end by themselves.
            drop(self.in_time(leaving).await);
        }
    }

    /// The result of `query`, unless the server has silently stopped answering: then the connection is of no use, but
    /// another one may be.
    async fn in_time<T>(&self, query: impl Future<Output = T>) -> Result<T, Failure> {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT.min(self.lease), query).await;
        answer.map_err(|_| Failure::Silent)
    }
}

/// When the server at the other end of `client` was started, in microseconds.
async fn started(client: &Client) -> Result<i64, Failure> {
    let sql = "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

const RENEW: &str = "INSERT INTO owner (id, lock, until)
                     SELECT unnest($1::text[]), $2, clock_timestamp() + $3 * interval '1 millisecond'
                     ON CONFLICT (id) DO UPDATE SET lock = excluded.lock, until = excluded.until";

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
