//! A transaction in one space.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryMessage};

use super::at_work::{Activity, Backend, MOMENT, unless_idle, within};
use super::column::Statement;
use super::error::Failure;
use super::patience::Wait;
use super::reach::Reach;
use crate::place::SpaceId;
use crate::silence::millis;

/// How long after `lock_timeout` was set it is set anew: as long as nothing waits, once is enough.
const LOCK_TIMEOUT_VALID_FOR: Duration = Duration::from_millis(250);

/// The values for a statement.
pub(super) type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// The answer to BEGIN.
type Begun = Result<Vec<SimpleQueryMessage>, tokio_postgres::Error>;

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To read one state of the database.
    Read,
    /// To write.
    Write,
    /// To write something that may be lost in a power failure.
    WriteCarelessly,
}

/// A transaction that sees the rows of one space and no others. If it ends without a commit, it has written nothing.
pub(super) struct Session {
    client: Arc<Object>,
    pub(super) space: SpaceId,
    purpose: Purpose,
    /// The pending answer to BEGIN, until somebody has checked it.
    begun: Mutex<Option<BoxFuture<'static, Begun>>>,
    /// What the server calls it, once it has begun.
    backend: OnceLock<Backend>,
    is_over: AtomicBool,
    reach: Arc<Reach>,
    /// When it was begun.
    since: Instant,
    locks: Mutex<LockTimeout>,
}

/// How long statements may wait for a lock.
#[derive(Debug, Clone, Copy)]
struct LockTimeout {
    wait: Wait,
    /// When the server was last told.
    set: Instant,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({:?}, {:?})", self.space, self.purpose)
    }
}

impl Session {
    /// Begins on `client`. BEGIN is pipelined with the first statement, so it takes no round trip of its own.
    ///
    /// Its statements may wait for locks as long as `wait` says, all together. A transaction that writes first locks its
    /// space ([`super::commit::lock`]), and `wait` is the time for that whole statement: the server waits for a row that
    /// has a queue several times, each time for as long as it may wait for a lock.
    pub(super) fn begin(client: Object, space: SpaceId, purpose: Purpose, wait: Wait, reach: &Arc<Reach>) -> Self {
        let begin = match purpose {
            Purpose::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            // Every statement after the lock sees all commits made before the lock was granted.
            Purpose::Write | Purpose::WriteCarelessly => "BEGIN ISOLATION LEVEL READ COMMITTED",
        };
        let left = wait.left_millis();
        let mut sql = format!(
            "{begin}; SELECT {}, set_config('folio.space', '{}', true), set_config('lock_timeout', '{left}', true)",
            Backend::columns(),
            space.0
        );
        match purpose {
            Purpose::Read => {}
            Purpose::Write => {
                let time = "current_setting('statement_timeout')";
                sql += &format!(
                    ", set_config('folio.statement_timeout', {time}, true), \
                     CASE WHEN {time} = '0' OR {time}::interval > '{left} ms' \
                     THEN set_config('statement_timeout', '{left}', true) END"
                );
            }
            Purpose::WriteCarelessly => sql += "; SET LOCAL synchronous_commit = off",
        }
        let client = Arc::new(client);
        let sender = Arc::clone(&client);
        let sending = Some(start_sending(async move { sender.simple_query(&sql).await }.boxed()));
        Self {
            client,
            space,
            purpose,
            begun: Mutex::new(sending),
            backend: OnceLock::new(),
            is_over: AtomicBool::new(false),
            reach: Arc::clone(reach),
            since: Instant::now(),
            locks: Mutex::new(LockTimeout {
                wait,
                set: Instant::now(),
            }),
        }
    }

    /// Gives what comes next in this transaction a patience of its own: it was handed in only now.
    pub(super) fn wait_anew(&self) -> Wait {
        let wait = Wait::begin();
        self.locks.lock().wait = wait;
        wait
    }

    /// The waiting of the operation for which it is there.
    pub(super) fn wait(&self) -> Wait {
        self.locks.lock().wait
    }

    /// Until when it may wait for locks, in milliseconds since it was begun.
    pub(super) fn locks_until_millis(&self) -> i64 {
        millis(self.since.elapsed()).saturating_add(self.wait().left_millis())
    }

    /// The statement that tells the server how long the next ones may wait for locks, if that has changed.
    fn next_lock_timeout(&self) -> Option<String> {
        let mut locks = self.locks.lock();
        if locks.set.elapsed() < LOCK_TIMEOUT_VALID_FOR {
            return None;
        }
        locks.set = Instant::now();
        Some(format!(
            "SET LOCAL lock_timeout = {}",
            locks.wait.left_under_way_millis()
        ))
    }

    /// The rows of a fixed statement, which is prepared once.
    pub(super) async fn query(&self, sql: &str, values: Parameters<'_>) -> Result<Vec<Row>, Failure> {
        self.having_begun(async {
            let statement = self.client.prepare_cached(sql).await?;
            self.client.query(&statement, values).await
        })
        .await
    }

    /// The only row of such a statement, if there is one.
    pub(super) async fn one(&self, sql: &str, values: Parameters<'_>) -> Result<Option<Row>, Failure> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// The number of rows that a fixed statement has written.
    pub(super) async fn execute(&self, sql: &str, values: Parameters<'_>) -> Result<u64, Failure> {
        self.having_begun(async {
            let statement = self.client.prepare_cached(sql).await?;
            self.client.execute(&statement, values).await
        })
        .await
    }

    /// The rows of a statement that was built at run time, planned for its values.
    pub(super) async fn ask(&self, statement: &Statement) -> Result<Vec<Row>, Failure> {
        let values = statement.parameters();
        self.having_begun(self.client.query_typed(&statement.sql, &values))
            .await
    }

    /// Prepares `statements`, so that they can be pipelined in order.
    pub(super) async fn prepare(&self, statements: &[&str]) -> Result<(), Failure> {
        self.having_begun(async {
            for sql in statements {
                self.client.prepare_cached(sql).await?;
            }
            Ok(())
        })
        .await
    }

    /// Executes `writes` in order.
    pub(super) async fn write(&self, writes: &[Write]) -> Result<(), Failure> {
        for write in writes {
            let values: Vec<_> = write
                .values
                .iter()
                .map(|value| &**value as &(dyn ToSql + Sync))
                .collect();
            self.execute(write.sql, &values).await?;
        }
        Ok(())
    }

    /// Executes `writes` in order and commits. Everything is pipelined: if one statement fails, the final COMMIT
    /// commits nothing.
    pub(super) async fn write_and_commit(&self, writes: &[Write]) -> Result<(), Unwritten> {
        let statements = self
            .having_begun(async {
                let mut prepared = Vec::with_capacity(writes.len());
                for write in writes {
                    prepared.push(self.client.prepare_cached(write.sql).await?);
                }
                Ok(prepared)
            })
            .await?;
        let values: Vec<Vec<_>> = writes
            .iter()
            .map(|write| {
                write
                    .values
                    .iter()
                    .map(|value| &**value as &(dyn ToSql + Sync))
                    .collect()
            })
            .collect();
        let mut sent = Vec::with_capacity(writes.len());
        for (statement, values) in statements.iter().zip(&values) {
            sent.push(start_sending(self.client.execute(statement, values).boxed()));
        }
        let committed = start_sending(self.client.batch_execute("COMMIT").boxed());
        let answers = async {
            let mut written = Ok(());
            for write in sent {
                written = written.and(write.await.map(drop));
            }
            Ok::<_, Failure>((written, committed.await))
        };
        let answered = self.answered(answers).await;
        let (written, committed) = answered.map_err(Unwritten::Perhaps)?;
        self.is_over.store(committed.is_ok(), Ordering::Release);
        match written {
            Ok(()) => committed.map_err(|error| Unwritten::Perhaps(error.into())),
            // A statement that the server rejects ends the transaction.
            Err(error) if Failure::is_refusal(&error) => Err(Unwritten::Certainly(error.into())),
            Err(error) => Err(Unwritten::Perhaps(error.into())),
        }
    }

    /// Commits the transaction.
    pub(super) async fn commit(&self) -> Result<(), Failure> {
        self.having_begun(self.client.batch_execute("COMMIT")).await?;
        self.is_over.store(true, Ordering::Release);
        Ok(())
    }

    /// The result of `query`, if the transaction has begun.
    ///
    /// All answers are awaited together: they arrive in order, and an answer that nobody reads blocks everything behind
    /// it.
    fn having_begun<'s, T: Send + 's>(
        &'s self,
        query: impl Future<Output = Result<T, tokio_postgres::Error>> + Send + 's,
    ) -> BoxFuture<'s, Result<T, Failure>> {
        let all = async move {
            let sending = self.begun.lock().take();
            let lock_timeout = match &sending {
                Some(_) => None,
                None => self.next_lock_timeout(),
            };
            let set = lock_timeout
                .as_deref()
                .map(|sql| self.client.batch_execute(sql).boxed());
            let set = set.map(start_sending);
            let beginning = async {
                match sending {
                    // BEGIN waits for nothing.
                    Some(sending) => {
                        if let Some(backend) = Backend::of(&within(MOMENT, sending).await?) {
                            self.backend.get_or_init(|| backend);
                        }
                        Ok(())
                    }
                    None => Ok(()),
                }
            };
            // If the transaction has failed, the query says so as well.
            let setting = async {
                drop(OptionFuture::from(set).await);
                Ok(())
            };
            let query = async { Ok::<_, Failure>(query.await?) };
            let all = futures_util::future::try_join3(beginning, setting, query).await;
            Ok::<_, Failure>(all?.2)
        };
        self.answered(all)
    }

    /// The result of `query`, for as long as the server is there and at work on it.
    fn answered<'s, T: Send + 's>(
        &'s self,
        query: impl Future<Output = Result<T, Failure>> + Send + 's,
    ) -> BoxFuture<'s, Result<T, Failure>> {
        let ask = || async {
            match self.backend.get() {
                Some(backend) => self.reach.activity_of(*backend).await,
                None => Activity::Unknown,
            }
        };
        unless_idle(self.reach.unless_gone(query), ask).boxed()
    }
}

/// Polls `sending` once, which puts it on its way before everything that is sent later.
fn start_sending<'f, T: Send + 'f>(mut sending: BoxFuture<'f, T>) -> BoxFuture<'f, T> {
    match (&mut sending).now_or_never() {
        None => sending,
        Some(done) => std::future::ready(done).boxed(),
    }
}

/// Why a transaction was not made durable.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// Nothing of it was written.
    Certainly(Failure),
    /// The connection was lost after COMMIT was sent, before the server answered.
    Perhaps(Failure),
}

impl From<Failure> for Unwritten {
    fn from(failure: Failure) -> Self {
        Self::Certainly(failure)
    }
}

/// A statement that writes, with its values.
pub(super) struct Write {
    sql: &'static str,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Write {
    pub(super) fn new(sql: &'static str, values: Vec<Box<dyn ToSql + Sync + Send>>) -> Self {
        Self { sql, values }
    }
}

/// Values of a [`Write`].
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as Box<dyn tokio_postgres::types::ToSql + Sync + Send>),*]
    };
}
pub(super) use values;

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_over.load(Ordering::Acquire) {
            // The next user of the connection is queued behind this. Nobody has to wait for an answer.
            let end = match self.purpose {
                Purpose::Read => "COMMIT",
                Purpose::Write | Purpose::WriteCarelessly => "ROLLBACK",
            };
            drop(self.client.batch_execute(end).now_or_never());
        }
    }
}
