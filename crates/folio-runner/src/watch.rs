//! A run as others see it, live: the same events that the driver records, read from the log.

use std::fmt::Debug;
use std::sync::Arc;

use folio_engine::template::Templates;
use folio_engine::{Event, Run};
use folio_memory::{RunId, Seq, SpaceName, Timestamp};
use folio_store::Store;

use crate::error::RunnerError;

/// Is told which runs are driven in this process, to follow them beside their drivers.
pub trait Observer: Debug + Send + Sync {
    /// A run is driven from now on, the instant `from`: what happened before was driven by others. `watch` has read nothing yet.
    /// Must return at once.
    fn drives(&self, watch: Watch, from: Timestamp);
}

/// Follows one run from its beginning. The list of updates that terminal, JSON lines and every other surface read.
#[derive(Debug)]
pub struct Watch {
    store: Arc<dyn Store>,
    space: SpaceName,
    run: Run,
    head: Seq,
}

impl Watch {
    /// Follows `run`, of which nothing has been read yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, space: SpaceName, run: RunId) -> Self {
        Self {
            store,
            space,
            run: Run::new(run, Arc::new(Templates::new())),
            head: Seq(0),
        }
    }

    /// The run as far as it was read.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The last commit that was read.
    #[must_use]
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Waits for news, applies them, and returns them in order. Never empty; `None` when the run has ended and all was
    /// read. May be dropped while it waits.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn next(&mut self) -> Result<Option<Vec<(Timestamp, Event)>>, RunnerError> {
        let mut seen = self.head;
        loop {
            let news = self.read().await?;
            if !news.is_empty() {
                return Ok(Some(news));
            }
            if self.run.result().is_some() {
                return Ok(None);
            }
            // The space may have grown without this run having news.
            seen = self.store.wait(&self.space, seen.max(self.head)).await?;
        }
    }

    /// What has happened since the last look, without waiting.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn read(&mut self) -> Result<Vec<(Timestamp, Event)>, RunnerError> {
        let journal = self.store.journal(&self.space, self.run.id(), self.head).await?;
        for (at, event) in &journal.events {
            let run = self.run.id();
            self.run
                .apply(*at, event)
                .map_err(|source| RunnerError::Journal { run, source })?;
        }
        self.head = self.head.max(journal.head);
        Ok(journal.events)
    }
}
