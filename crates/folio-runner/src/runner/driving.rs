//! Drives a run in this process, which claims it first.

use std::sync::Arc;

use folio_engine::{Event, NodeResult, Run};
use folio_memory::excerpt::short_line;
use folio_memory::id::Ref;
use folio_memory::{Actor, Role, RunId};
use folio_store::StoreError;
use folio_tools::panics::catch_panic;

use super::Runner;
use crate::busy::BusyRun;
use crate::dispatch::{Driven, Until};
use crate::drive::Drive;
use crate::error::RunnerError;
use crate::held::{Claim, Hold};

/// How much of the message of a panic is recorded.
const PANIC_MESSAGE_CHARS: usize = 200;

impl Runner {
    /// Drives a run to its end: a new one, or one whose driver is gone. Returns the result, at once if the run has
    /// ended. With [`RunnerOptions::dispatch`](super::RunnerOptions::dispatch), others drive it, and this waits for
    /// them.
    ///
    /// # Errors
    ///
    /// `Store` with kind `Conflict` if a living process drives it, this one included; `Journal` or `Folder` if it
    /// cannot be opened; `Store` with kind `Unavailable` if the store became unavailable: the run can be driven again
    /// from where it was; `Dispatch` if nobody could be told to drive it; `Leaving` after [`Runner::leave`].
    pub async fn drive(&self, run: RunId) -> Result<NodeResult, RunnerError> {
        self.drive_to_end(run, None).await
    }

    /// Like [`Runner::drive`], for a run that counts as `busy` while it does more than wait. Runs that others drive
    /// count all the time.
    ///
    /// # Errors
    ///
    /// As [`Runner::drive`].
    pub async fn drive_counted(&self, run: RunId, busy: &BusyRun) -> Result<NodeResult, RunnerError> {
        self.drive_to_end(run, Some(busy)).await
    }

    async fn drive_to_end(&self, run: RunId, busy: Option<&BusyRun>) -> Result<NodeResult, RunnerError> {
        if let Some(dispatch) = &self.shared.options.dispatch {
            return self.drive_elsewhere(&**dispatch, run).await;
        }
        match self.drive_for(run, Until::Ended, busy, || ()).await? {
            Driven::Ended(result) => Ok(result),
            Driven::Waits { .. } => Err(RunnerError::Leaving),
        }
    }

    /// Drives `run` as far as `until` says; `claimed` is called once nobody else can drive it.
    pub(crate) async fn drive_for(
        &self,
        run: RunId,
        until: Until,
        busy: Option<&BusyRun>,
        claimed: impl FnOnce(),
    ) -> Result<Driven, RunnerError> {
        let workspace = &self.shared.workspace;
        // The row says whether it has ended, and is cheaper to read than the journal.
        let row = workspace.store().run(workspace.space(), Ref::Id(run)).await?;
        if row.has_ended()
            && let Some(result) = self.shared.read(run).await?.run.result()
        {
            let result = result.clone();
            Box::pin(self.end_own_turn(run)).await;
            return Ok(Driven::Ended(result));
        }
        if self.shared.leaving.is_cancelled() {
            return Err(RunnerError::Leaving);
        }
        // The store would grant a claim by the same process, and the run would have two drivers.
        let Some(hold) = self.shared.held.hold_soon(run).await else {
            let detail = Some("this runner".to_owned());
            let run = row.handle.to_string();
            return Err(StoreError::RunTaken { run, detail }.into());
        };
        let claim = self.claim(run, hold).await?;
        claimed();
        let fence = claim.fence();
        // A failed delivery is noted in the trace.
        let _delivered = workspace.deliver_outbox().await;
        let drive_future = Box::pin(async {
            let drive = Drive::open(Arc::clone(&self.shared), (run, fence), until).await?;
            drive.run(busy).await
        });
        let result = match catch_panic(drive_future).await {
            Ok(result) => result,
            Err(message) => Err(Box::pin(self.pause_after_panic(run, message)).await),
        };
        claim.give_up().await;
        if let Ok(Driven::Ended(_)) = result {
            Box::pin(self.end_own_turn(run)).await;
        }
        // Writes the notes that were made on the way. A trace that cannot be kept does not affect the run.
        let _unwritten = workspace.flush_trace().await;
        result
    }

    /// Pauses `run`, whose driver panicked: whoever drives it next would do the same again.
    async fn pause_after_panic(&self, run: RunId, message: String) -> RunnerError {
        let message = short_line(&message, PANIC_MESSAGE_CHARS);
        let by = format!("{} ({message})", Run::BROKEN_DRIVER);
        let actor = Actor::new(Role::Client, "runner");
        let pausing = self.request_unless_ended(run, &actor, |run| {
            let by = by.clone();
            Ok((!run.is_run_paused()).then_some(Event::Paused { node: None, by }))
        });
        // What panics may be the reading of its journal.
        let is_paused = matches!(catch_panic(pausing).await, Ok(Ok(())));
        RunnerError::Panicked { message, is_paused }
    }

    /// Claims `run`, which is held. If the caller stops waiting, nothing is left behind: a claim that the store then
    /// grants is given up.
    async fn claim(&self, run: RunId, hold: Hold) -> Result<Claim, RunnerError> {
        let shared = Arc::clone(&self.shared);
        let claiming = async move {
            let workspace = &shared.workspace;
            let claimed = workspace.store().claim_run(workspace.space(), run, shared.owner.id());
            let fence = claimed.await?;
            // Not earlier: if the claim fails, the run is still to be given up.
            shared.held.forget(run);
            Ok(Claim::of(&shared, hold, fence))
        };
        let joined = tokio::spawn(claiming).await;
        let claim: Result<Claim, StoreError> =
            joined.unwrap_or_else(|join_error| std::panic::resume_unwind(join_error.into_panic()));
        Ok(claim?.mark_driven())
    }
}
