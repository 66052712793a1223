//! Connections that read.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::error::Failure;
use super::open::Target;
use crate::error::StoreError;

/// The most concurrent reads of a kind; the others wait.
const READERS: usize = 8;

/// Connections that read: a few for slow queries, and a few for queries that look at a row or two, so that these are
/// answered at once however many slow ones wait.
#[derive(Debug)]
pub(super) struct Readers {
    usual: Pool,
    quick: Pool,
    // Dropped after the connections.
    target: Target,
}

/// A few connections, opened when they are needed and kept.
#[derive(Debug)]
struct Pool {
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

impl Pool {
    fn new() -> Self {
        Self {
            idle: Mutex::default(),
            places: Arc::new(Semaphore::new(READERS)),
        }
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().pop()
    }

    fn ask<T>(&self, conn: Connection, question: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        conn.prepare_cached("BEGIN")?.execute([])?;
        let answer = question(&conn);
        // Nothing was written, so the answer is valid even if the transaction could not be ended. But such a connection
        // would stay at an old state, so it is dropped.
        let ended = conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        if ended.is_ok() {
            self.idle.lock().push(conn);
        }
        answer
    }
}

impl Readers {
    pub(super) fn new(target: Target) -> Arc<Self> {
        Arc::new(Self {
            usual: Pool::new(),
            quick: Pool::new(),
            target,
        })
    }

    /// Lets `question` read from one state of the database, on a thread for blocking work.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_by(|readers| &readers.usual, question).await
    }

    /// The same for a query of a row or two: runs right here if a connection is idle, because changing the thread twice
    /// takes ten times as long as such a query.
    pub(super) async fn read_one<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Some(conn) = self.quick.take() {
            return self.answer(self.quick.ask(conn, question));
        }
        // With few readers, one connection is enough for all.
        let place = self.usual.places.try_acquire();
        match place.as_ref().ok().and_then(|_| self.usual.take()) {
            Some(conn) => self.answer(self.usual.ask(conn, question)),
            None if place.is_ok() => {
                drop(place);
                self.read(question).await
            }
            None => self.read_by(|readers| &readers.quick, question).await,
        }
    }

    /// Lets `question` read on another thread, with a connection of `pool`.
    async fn read_by<T: Send + 'static>(
        self: &Arc<Self>,
        pool: fn(&Self) -> &Pool,
        question: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(self);
        let place = Arc::clone(&pool(self).places).acquire_owned().await;
        let answer = tokio::task::spawn_blocking(move || {
            let pool = pool(&readers);
            let conn = pool.take().map_or_else(|| readers.target.connect_reader(), Ok);
            let answer = conn.and_then(|conn| pool.ask(conn, question));
            drop(place);
            answer
        });
        match answer.await {
            Ok(answer) => self.answer(answer),
            Err(error) => Err(StoreError::Unavailable {
                doing: "read from",
                location: self.target.location.clone(),
                reason: "the reader stopped".to_owned(),
                source: Some(Box::new(error)),
            }),
        }
    }

    fn answer<T>(&self, answer: Result<T, Failure>) -> Result<T, StoreError> {
        answer.map_err(|failure| failure.into_error("read from", &self.target.location))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::super::open::OpenOptions;
    use super::*;

    /// On which thread a query was answered, and what it found.
    fn question(conn: &Connection) -> Result<(thread::ThreadId, i64), Failure> {
        let found = conn.query_row("SELECT count(*) FROM log", [], |row| row.get(0))?;
        Ok((thread::current().id(), found))
    }

    #[tokio::test]
    async fn quick_read_does_not_wait_for_long_reads() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::of(&OpenOptions::at(folder.path().join("folio.db")));
        let _writes = target.prepare().unwrap();
        let readers = Readers::new(target);
        let (begun, begins) = mpsc::channel();
        let mut ends = Vec::new();
        // More long ones than there are places: some of them wait.
        let long = (0..READERS + 3).map(|_| {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let (readers, begun) = (Arc::clone(&readers), begun.clone());
            tokio::spawn(async move {
                let wait = move |conn: &Connection| {
                    begun.send(()).unwrap();
                    ended.recv().unwrap_err();
                    question(conn)
                };
                readers.read(wait).await.unwrap().1
            })
        });
        let long: Vec<_> = long.collect();
        let begins = tokio::task::spawn_blocking(move || {
            (0..READERS).for_each(|_| begins.recv().unwrap());
            begins
        });
        let _begins = begins.await.unwrap();
        let (_, found) = readers.read_one(question).await.unwrap();
        assert_eq!(found, 0);
        // Its connection is at hand from then on.
        let (answered_by, _) = readers.read_one(question).await.unwrap();
        assert_eq!(answered_by, thread::current().id());
        drop(ends);
        for long in long {
            assert_eq!(long.await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn sequential_reads_share_one_connection() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::of(&OpenOptions::at(folder.path().join("folio.db")));
        let _writes = target.prepare().unwrap();
        let readers = Readers::new(target);
        readers.read_one(question).await.unwrap();
        readers.read(question).await.unwrap();
        let (answered_by, _) = readers.read_one(question).await.unwrap();
        assert_eq!(answered_by, thread::current().id());
        let idle = |pool: &Pool| pool.idle.lock().len();
        assert_eq!((idle(&readers.usual), idle(&readers.quick)), (1, 0));
    }
}
