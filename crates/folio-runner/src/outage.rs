//! Outages of a run's store. A driver that would lose something holds it until the store can be written again
//! (decision 0152): how calls ended that may not simply be repeated, and what models answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use folio_engine::Event;
use folio_memory::RunId;
use folio_memory::excerpt::short_line;
use folio_store::{Commit, Committed, Expected, StoreError};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::RunnerError;
use crate::runner::Shared;

/// How long a driver holds what it would lose, unless the options say otherwise.
pub(crate) const PATIENCE_DEFAULT: Duration = Duration::from_secs(10 * 60);
/// How long it does that once the process is about to end.
const PATIENCE_WHEN_LEAVING: Duration = Duration::from_secs(10);
/// The first pause before the store is tried again, and the longest. What is written to it then does not wait for
/// whoever takes over runs of silent drivers.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// How much of the error of a store is repeated in the result of a step.
const REASON_CHARS: usize = 300;

/// How long the driver of a run has waited for its store.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    shared: Arc<Shared>,
    run: RunId,
    /// Since when the store has been away.
    since: Arc<Mutex<Option<Instant>>>,
    /// Since when it is known here that the process is about to end.
    leaving_since: Arc<Mutex<Option<Instant>>>,
    /// Whether something would be lost if the run were given up.
    would_lose: Arc<AtomicBool>,
    /// Cancelled when the run is no longer driven.
    ended: CancellationToken,
}

/// Ends the waiting for the store, and what others are told of it, when it is dropped.
#[derive(Debug)]
pub(crate) struct PatienceEnd(Patience);

impl Drop for PatienceEnd {
    fn drop(&mut self) {
        let Self(patience) = self;
        patience.ended.cancel();
        patience.tell(None);
    }
}

/// Whether `error` says that the store is away, or cannot be written.
pub(crate) fn is_outage(error: &RunnerError) -> bool {
    matches!(error, RunnerError::Store(StoreError::Unavailable { .. }))
}

impl Patience {
    /// The patience of the driver of `run`, and what ends it.
    pub(crate) fn of(shared: &Arc<Shared>, run: RunId) -> (Self, PatienceEnd) {
        let patience = Self {
            shared: Arc::clone(shared),
            run,
            since: Arc::default(),
            leaving_since: Arc::default(),
            would_lose: Arc::default(),
            ended: CancellationToken::new(),
        };
        (patience.clone(), PatienceEnd(patience))
    }

    /// No patience: an outage is reported at once.
    pub(crate) fn none(&self) -> Self {
        Self {
            would_lose: Arc::default(),
            ..self.clone()
        }
    }

    /// Notes whether something would be lost if the run were given up now.
    pub(crate) fn set_would_lose(&self, would_lose: bool) {
        self.would_lose.store(would_lose, Ordering::Relaxed);
    }

    /// Whether something would be lost if the run were given up.
    pub(crate) fn would_lose(&self) -> bool {
        self.would_lose.load(Ordering::Relaxed)
    }

    /// The answer to `ask`, which reads the store or writes what may be written twice. If something would be lost if the
    /// run were given up, `ask` is repeated during an outage. Whatever a driver reads of its store while it drives a run
    /// is read in this way.
    ///
    /// # Errors
    ///
    /// As `ask`. If something would be lost, of kind `Unavailable` only once the time is over.
    pub(crate) async fn outlast<T, E: Into<RunnerError>, A: Future<Output = Result<T, E>>>(
        &self,
        mut ask: impl FnMut() -> A,
    ) -> Result<T, RunnerError> {
        let mut was_away = false;
        loop {
            match ask().await.map_err(Into::into) {
                Err(error) if is_outage(&error) && self.would_lose() && self.wait(&error).await => was_away = true,
                answer => {
                    // What waits besides this has a limit of its own until it is there for that, too.
                    if was_away && !answer.as_ref().is_err_and(is_outage) {
                        self.end_outage();
                    }
                    return answer;
                }
            }
        }
    }

    /// Makes `commit`, which continues the journal of the run, as soon as the store can be written. It may have been
    /// written although nobody learnt of it; then it is found.
    ///
    /// # Errors
    ///
    /// As the workspace. Of kind `Unavailable` only once the time is over.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<Committed, RunnerError> {
        let committed = self.committed(commit).await;
        if !committed.as_ref().is_err_and(is_outage) {
            self.end_outage();
        }
        committed
    }

    async fn committed(&self, commit: Commit) -> Result<Committed, RunnerError> {
        let mut was_away = false;
        loop {
            let error = match self.shared.workspace.commit(commit.clone()).await {
                Ok(committed) => return Ok(committed),
                Err(error) => RunnerError::from(error),
            };
            let is_away = is_outage(&error);
            let may_be_own = was_away && matches!(error, RunnerError::Store(StoreError::StaleRun { .. }));
            if !is_away && !may_be_own || is_away && !self.wait(&error).await {
                return Err(error);
            }
            was_away = true;
            match self.find_written(&commit).await {
                Ok(Some(committed)) => return Ok(committed),
                Ok(None) if is_away => {}
                // Somebody else wrote to the journal.
                Ok(None) => return Err(error),
                Err(missing) if is_outage(&missing) && self.wait(&missing).await => {}
                Err(missing) => return Err(missing),
            }
        }
    }

    /// The commit that wrote what `commit` was to write, if there is one.
    async fn find_written(&self, commit: &Commit) -> Result<Option<Committed>, RunnerError> {
        let workspace = &self.shared.workspace;
        let known = commit.expected.iter().find_map(|expected| match expected {
            Expected::RunHead { head, .. } => Some(*head),
            _ => None,
        });
        let (Some(known), Some(append)) = (known, &commit.record.run) else {
            return Ok(None);
        };
        let found = workspace
            .store()
            .run_commits(workspace.space(), self.run, known, 1)
            .await?;
        let as_json = |events: &[Event]| serde_json::to_value(events).ok();
        let own = as_json(&append.events);
        let row = found.commits.into_iter().next().filter(|row| {
            let written = row.record.run.as_ref().map(|append| &append.events);
            written.is_some_and(|events| as_json(events) == own)
        });
        Ok(row.map(|row| Committed {
            seq: row.seq,
            at: row.at,
            replayed: true,
            entries: Vec::new(),
            pages: Vec::new(),
            run: None,
        }))
    }

    /// Waits a moment before something is tried again that failed with `error`; false if it is not to be tried again.
    async fn wait(&self, error: &RunnerError) -> bool {
        let now = Instant::now();
        let since = *self.since.lock().get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        let limit = if self.shared.leaving.is_cancelled() {
            // However long the store was away before.
            let leaving_since = *self.leaving_since.lock().get_or_insert(now);
            let before = leaving_since.saturating_duration_since(since);
            before.saturating_add(PATIENCE_WHEN_LEAVING).min(self.limit())
        } else {
            self.limit()
        };
        if waited >= limit || self.ended.is_cancelled() {
            return false;
        }
        self.tell(Some(error.to_string()));
        let pause = (waited / 4)
            .clamp(FIRST_PAUSE, MAX_PAUSE)
            .min(limit.saturating_sub(waited));
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.ended.cancelled() => false,
        }
    }

    /// How long the store is waited for.
    fn limit(&self) -> Duration {
        self.shared.options.outage_patience.unwrap_or(PATIENCE_DEFAULT)
    }

    /// Why what was held could not be recorded; `None` if it was not the store.
    pub(crate) fn reason(&self, error: &RunnerError) -> Option<String> {
        let since = self.since.lock().filter(|_| is_outage(error))?;
        let waited = since.elapsed().as_secs();
        let error = short_line(&error.to_string(), REASON_CHARS);
        Some(format!("the store was not to be used for {waited} s: {error}"))
    }

    /// Notes that the store is there again.
    fn end_outage(&self) {
        if self.since.lock().take().is_some() {
            self.tell(None);
        }
    }

    /// Tells whoever watches that the run waits for its store because of `error`, or no longer.
    fn tell(&self, error: Option<String>) {
        self.shared.outages.send_if_modified(|outages| match error {
            // What each further try says differs only in what was tried.
            Some(_) if outages.contains_key(&self.run) || self.ended.is_cancelled() => false,
            Some(error) => outages.insert(self.run, error).is_none(),
            None => outages.remove(&self.run).is_some(),
        });
    }
}
