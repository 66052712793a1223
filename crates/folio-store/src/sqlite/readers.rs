//! Connections that read.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::error::Failure;
use super::open::Target;
use crate::error::StoreError;

/// Most reads at one moment; the others wait.
const READERS: usize = 8;

/// A few connections, made when they are needed and kept.
#[derive(Debug)]
pub(super) struct Readers {
    target: Target,
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

impl Readers {
    /// None yet.
    pub(super) fn new(target: Target) -> Arc<Self> {
        Arc::new(Self { target, idle: Mutex::default(), places: Arc::new(Semaphore::new(READERS)) })
    }

    /// Lets `question` read from one state of the database, on a thread where that may take its time.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(self);
        let place = Arc::clone(&self.places).acquire_owned().await;
        let answer = tokio::task::spawn_blocking(move || {
            let answer = readers.read_here(question);
            drop(place);
            answer
        });
        match answer.await {
            Ok(answer) => answer.map_err(|failure| failure.into_error("read from", &self.target.location)),
            Err(error) => Err(StoreError::Unavailable {
                doing: "read from",
                location: self.target.location.clone(),
                reason: "the reader stopped".to_owned(),
                source: Some(Box::new(error)),
            }),
        }
    }

    fn read_here<T>(&self, question: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = idle.map_or_else(|| self.target.connect_reader(), Ok)?;
        conn.prepare_cached("BEGIN")?.execute([])?;
        let answer = question(&conn);
        // Nothing was written, so a failure to end the transaction takes nothing away from the answer. But such a
        // connection would hold on to an old state: it is dropped.
        let ended = conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        if ended.is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
        answer
    }
}
