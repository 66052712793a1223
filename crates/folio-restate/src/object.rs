//! What Restate calls: one object for each run, whose only handler drives it.
//!
//! The handler has no durable steps of its own in Restate: what was done is in the journal of the run. So it may be
//! called again at any time, by any version, and always finds the current state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use folio::engine::run::JournalError;
use folio::memory::Timestamp;
use folio::memory::causes::with_causes;
use folio::runner::{Driven, RunnerError};
use folio::store::{ErrorKind, StoreError};
use parking_lot::Mutex;
use restate_sdk::prelude::*;
use tokio::sync::mpsc;

use crate::drives::{Drives, NotDriven};
use crate::ingress::{NO_SUCH_RUN, RUN_GONE};
use crate::place::RunKey;

/// The name of the object.
pub(crate) const SERVICE: &str = "FolioRun";
/// The name of its handler.
pub(crate) const HANDLER: &str = "drive";

/// Runs, as Restate sees them.
pub(crate) struct RunObject {
    pub(crate) drives: Arc<Drives>,
    /// Messages for people.
    pub(crate) says: mpsc::Sender<String>,
    /// The runs of which was said why they are not driven here, with the code of the reason. Restate offers such a run
    /// again and again.
    pub(crate) told: Mutex<HashMap<RunKey, String>>,
}

// A call sends Restate nothing while its run goes on: the connection shows whether the worker is alive.
#[object(
    name = "FolioRun",
    inactivity_timeout = "8760h",
    abort_timeout = "8760h",
    journal_retention = "0s",
    idempotency_retention = "24h",
    invocation_retry_policy(
        initial_interval = "50ms",
        factor = 2.0,
        max_interval = "1s",
        max_attempts = 1_000_000,
        on_max_attempts = "kill",
    )
)]
impl RunObject {
    /// Drives the run until it has ended, or everything in it waits; returns which of the two.
    #[handler]
    async fn drive(&self, ctx: ObjectContext<'_>) -> HandlerResult<String> {
        let key: RunKey = ctx
            .key()
            .parse()
            .map_err(|reason: String| TerminalError::new_with_code(400, reason))?;
        let driven = self.drives.drive(&key).await;
        if driven.is_ok() {
            self.told.lock().remove(&key);
        }
        match driven {
            Ok(Driven::Ended(result)) => Ok(format!("ended: {}", result.status)),
            Ok(Driven::Waits {
                until: Some(until),
                wait: Some(wait),
                ..
            }) => {
                // The time of the space, not that of the clock, which may be behind it.
                let now = until.minus(wait);
                let delay = Duration::from_millis(wait.as_millis().try_into().unwrap_or(u64::MAX));
                let again = ctx.object_client::<RunObjectClient<'_>>(ctx.key()).drive();
                let _handle = again.idempotency_key(request_until(&key, until, now)).send_after(delay);
                Ok(format!("waits until {until}"))
            }
            Ok(Driven::Waits { .. }) => Ok("waits".to_owned()),
            Err(error) => Err(self.refused(&key, &error)),
        }
    }
}

/// How near a due time must be for each call for it to have a key of its own.
const NEAR_S: u64 = 60 * 60;

/// The idempotency key of a request, made at `now`, to drive a run at `until`: for a time that is far off few keys are
/// used, however often the run begins to wait. A worker that was called too early, because Restate's clock is ahead,
/// thus asks for another call than the current one.
fn request_until(key: &RunKey, until: Timestamp, now: Timestamp) -> String {
    match until.since(now).as_secs() {
        ..NEAR_S => format!("{key}#{until}/{now}"),
        far => format!("{key}#{until}/{}", far.ilog2()),
    }
}

/// Of how many runs is remembered what was said.
const TOLD_RUNS_MAX: usize = 10_000;

/// Whether the store may take the same a moment later.
fn is_passing(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. }) || error.kind() == ErrorKind::Conflict
}

impl RunObject {
    /// A run that does not exist, or was forgotten, will never be driven; everything else is worth another attempt, here or elsewhere.
    fn refused(&self, key: &RunKey, why: &NotDriven) -> HandlerError {
        let error = match why {
            NotDriven::Busy => {
                return HandlerError::from("this worker already drives as many runs as it may".to_owned());
            }
            NotDriven::Broke(join_error) => {
                return HandlerError::from(format!("the task that drove the run failed: {join_error}"));
            }
            NotDriven::Failed(error) => error,
        };
        match error {
            RunnerError::Store(store @ StoreError::RunForgotten { .. }) => {
                TerminalError::new_with_code(RUN_GONE, store.to_string()).into()
            }
            RunnerError::Store(store @ StoreError::NotFound { what: "run", .. }) => {
                let notice = format!(
                    "the store of this worker has no run {key} ({store}): it was submitted by a process that uses another store"
                );
                // Of very many messages at once some may be dropped; and if nobody receives them, this worker is
                // ending.
                let _told = self.says.try_send(notice);
                TerminalError::new_with_code(NO_SUCH_RUN, store.to_string()).into()
            }
            // A newer worker may be called next time. The run was not changed here.
            RunnerError::Journal {
                source: JournalError::TooNew { .. },
                ..
            } => {
                self.say_once(key, error);
                HandlerError::from(format!("run_too_new: {}", with_causes(error)))
            }
            error => {
                self.say_once(key, error);
                HandlerError::from(with_causes(error))
            }
        }
    }

    /// Says why a run is not driven here, unless the same was said of it before. That its store is away is said of all
    /// runs at once.
    fn say_once(&self, key: &RunKey, error: &RunnerError) {
        if matches!(error, RunnerError::Leaving) || matches!(error, RunnerError::Store(store) if is_passing(store)) {
            return;
        }
        let mut told = self.told.lock();
        if told.len() >= TOLD_RUNS_MAX && !told.contains_key(key) {
            told.clear();
        }
        if told.insert(key.clone(), error.code().to_owned()).as_deref() != Some(error.code()) {
            let notice = format!("{key} is not driven here: {}; it is offered again", with_causes(error));
            let _told = self.says.try_send(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handler_called_too_early_requests_a_call_with_another_key() {
        let key: RunKey = "main/run_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let until: Timestamp = Timestamp::parse("2026-01-02T03:00:00Z").unwrap();
        let named = |before: u64| request_until(&key, until, until.minus(Duration::from_secs(before)));
        // However often it begins to wait, only a few calls are for the same time.
        assert_eq!(named(40_000), named(33_000));
        for (asked, called_early) in [
            (3_600, 6),
            (7, 5),
            (60, 59),
            (90, 70),
            (120, 98),
            (600, 300),
            (40_000, 3_590),
        ] {
            assert_ne!(named(asked), named(called_early), "{asked} {called_early}");
        }
    }

    #[tokio::test]
    async fn run_that_is_not_driven_is_reported_once_for_each_reason() {
        let folio = folio::Folio::open("memory:").await.unwrap();
        let drives = Drives::new(
            folio,
            folio::tools::Registry::with_builtins(),
            folio::runner::RunnerOptions::default(),
            Duration::ZERO,
            1,
        );
        let (says, mut said) = mpsc::channel(10);
        let object = RunObject {
            drives: Arc::new(drives),
            says,
            told: Mutex::default(),
        };
        let key: RunKey = "main/run_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let away = || StoreError::Unavailable {
            doing: "read from",
            location: "postgres://x".to_owned(),
            reason: "it is away".to_owned(),
            source: None,
        };
        object.refused(&key, &NotDriven::Failed(away().into()));
        assert!(
            said.try_recv().is_err(),
            "that the store is away is said of all runs at once"
        );
        for _ in 0..3 {
            object.refused(&key, &NotDriven::Failed(RunnerError::Ended));
        }
        let line = said.try_recv().unwrap();
        assert!(
            line.starts_with("main/run_01ARZ3NDEKTSV4RRFFQ69G5FAV is not driven here: "),
            "{line}"
        );
        assert!(said.try_recv().is_err());
        object.refused(&key, &NotDriven::Failed(StoreError::KeyReused.into()));
        assert!(said.try_recv().is_ok(), "another reason");
    }
}
