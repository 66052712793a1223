//! Opens a run that was claimed: with what is not part of its journal, and with the calls that a driver before had
//! begun.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::event::FORMAT;
use folio_engine::{Event, NodeId, Run};
use folio_memory::id::Ref;
use folio_memory::{RunId, ThreadKey, TurnId};
use folio_store::workspace::WorkspaceError;
use folio_store::{StoreError, Workspace};
use folio_tools::{Roots, ToolContext};

use super::{Drive, PendingCancellations};
use crate::attendance;
use crate::bodies::Bodies;
use crate::book::RunBook;
use crate::dispatch::Until;
use crate::error::RunnerError;
use crate::grants;
use crate::locks::RunLocks;
use crate::memory::{MemoryWriter, turn_of};
use crate::outage::Patience;
use crate::pending_writes::PendingWrites;
use crate::prefer::Preferences;
use crate::results::RunResults;
use crate::run_time::SLEEP_MIN;
use crate::runner::Shared;
use crate::steps::{UnderWay, is_ending};
use crate::submitted::Opened;

impl Drive {
    /// Opens a run that was claimed under the given fence.
    ///
    /// Calls that had begun and have no outcome are due again, by the effect of their tools.
    pub(crate) async fn open(
        shared: Arc<Shared>,
        (id, fence): (RunId, u64),
        until: Until,
    ) -> Result<Self, RunnerError> {
        let Opened { run, head, at, pages } = shared.open(id).await?;
        let policy = shared.workspace.policy().await?;
        // Another process that has a model can continue the run; here it would only fail. The same holds for tools, and
        // for executors: the default model is no substitute for the one that is named.
        shared.check_needs(&run.needs())?;
        let roots = match grants::roots_of(&run) {
            Ok(roots) => roots,
            // A run that only has to end needs no folders: nothing begins in it any more.
            Err(_) if is_ending(&run, shared.workspace.now()) => Roots::none(),
            Err(error) => return Err(error),
        };
        let (results, questions) = RunResults::new(&shared.workspace);
        let context = ToolContext {
            results,
            ..tool_context(&shared, &run, roots)
        };
        let turn = turn_of(&run);
        let thread = thread_of(&shared.workspace, turn).await?;
        let memory = MemoryWriter::new(shared.workspace.clone(), turn, thread, policy);
        let locks = RunLocks::of(&shared.locks, &run);
        let has_person = attendance::has_person(&run, shared.options.has_person, until);
        let prefer = Preferences::of(&shared.workspace).await?;
        let allowed_tools = grants::allowed_tools_of(&run);
        let follower = shared.others.follow(&shared.workspace, id, head);
        let time = shared.kept_lags.time_of(id);
        let (patience, patience_end) = Patience::of(&shared, id);
        let bodies = Bodies::of(&shared.workspace, shared.options.outputs_at_hand).with_patience(patience.clone());
        // If somebody else drove the run since, they know better.
        let unrecorded = shared.unrecorded.lock().remove(&id);
        let unrecorded = unrecorded.and_then(|(at, reason)| (at == head).then_some(reason));
        let mut drive = Self {
            shared,
            run,
            bodies,
            followed: follower,
            followed_at: at,
            fence,
            context,
            memory,
            until,
            has_person,
            allowed_tools,
            locks,
            prefer,
            under_way: UnderWay::default(),
            unpolled_calls: Vec::new(),
            actions_computed_at: None,
            time,
            uncounted: Duration::ZERO,
            questions,
            pending_writes: PendingWrites::default(),
            archived_entries: HashSet::new(),
            lacking: None,
            conflicts: 0,
            pages,
            held_up: HashSet::new(),
            pending_cancellations: PendingCancellations::default(),
            patience,
            _patience_end: patience_end,
            unrecorded: None,
        };
        drive.configure_run();
        let resumed = Box::pin(drive.resume()).await;
        // Not earlier: it holds until more is durable than that the run goes on.
        drive.unrecorded = unrecorded;
        drive.run.set_unrecorded(drive.unrecorded.clone());
        if let Err(error) = resumed {
            drive.keep_unrecorded(&error);
            return Err(error);
        }
        drive.uncounted = drive.run.left_out();
        Ok(drive)
    }

    /// Records which calls were under way when the driver before this one was gone, and for how long nobody drove the
    /// run, if that does not count (E9.10). And that this version drives the run, if an older one did before: also of a
    /// run that only waits, so that people can edit its plan (E9.9).
    async fn resume(&mut self) -> Result<(), RunnerError> {
        // A request to stop may come in between; the calls in flight are then determined again.
        loop {
            let in_flight = self.run.in_flight();
            let undriven = self.run.undriven_until(self.time.now(&self.shared.workspace));
            let uncounted = Some(undriven).filter(|undriven| *undriven >= SLEEP_MIN);
            let event = if !in_flight.is_empty() || uncounted.is_some() {
                resumed_event(in_flight, uncounted.unwrap_or_default())
            } else if self.run.format() < FORMAT {
                Event::FormatRaised { format: FORMAT }
            } else {
                return Ok(());
            };
            let batch = self.pending_writes.batch_number();
            self.record(event).await?;
            self.write_and_wait().await?;
            if self.pending_writes.has_written(batch) {
                return Ok(());
            }
        }
    }

    /// Notes for how long this machine has slept, if that time counted against the run. It must be asked before anything
    /// else happens to the run: until then the run was as it is now.
    pub(super) fn note_sleep(&mut self) {
        let slept = self.time.take_slept(&self.shared.workspace);
        if self.run.counts_time() {
            self.uncounted += slept;
        }
    }

    /// Records what was noted, so that it does not count (E9.10).
    pub(super) async fn record_sleep(&mut self) -> Result<(), RunnerError> {
        let slept = self.uncounted.saturating_sub(self.run.left_out());
        if slept < SLEEP_MIN || self.run.result().is_some() {
            return Ok(());
        }
        self.record(resumed_event(Vec::new(), slept)).await
    }

    /// Tells the run what is not part of its journal: which calls need approval, what calls write, and which models
    /// there are.
    pub(super) fn configure_run(&mut self) {
        let (shared, run) = (&self.shared, &mut self.run);
        let registry = &shared.registry;
        if self.has_person {
            run.set_approval_policy(Some(grants::approval_policy_of(registry, run)));
        }
        run.set_unrecorded(self.unrecorded.clone());
        run.set_written_elsewhere(Some(self.locks.elsewhere()));
        let tool_registry = registry.clone();
        run.set_read_only_tools(Some(Arc::new(move |tool| grants::is_read_only(&tool_registry, tool))));
        run.set_declared_writes(Some(grants::writes_of(registry, &self.context, &shared.workspace, run)));
        if let Some(models) = &shared.options.models {
            run.equip(
                shared
                    .equipped
                    .of(models, registry, self.has_person, run, &self.memory.policy),
            );
        }
    }
}

fn resumed_event(in_flight: Vec<NodeId>, uncounted: Duration) -> Event {
    Event::Resumed {
        in_flight,
        uncounted_us: u64::try_from(uncounted.as_micros()).unwrap_or(u64::MAX),
    }
}

/// What calls of `run` may use, except for earlier results.
fn tool_context(shared: &Shared, run: &Run, roots: Roots) -> ToolContext {
    let run_folder = grants::run_folder(shared.options.run_folders.as_deref(), run);
    let mut context = ToolContext::new(roots, run_folder);
    context.shell = Arc::new(grants::shell_of(run));
    context.hosts = Arc::new(grants::hosts_of(run));
    context.environment = Arc::new(shared.options.environment.clone());
    context.scratchbook = Arc::new(RunBook {
        workspace: shared.workspace.clone(),
        run: run.id(),
        turn: turn_of(run),
    });
    context
}

/// The thread of `turn`. If the turn is not in this store, or there is none, it is the main one.
async fn thread_of(workspace: &Workspace, turn: Option<TurnId>) -> Result<ThreadKey, RunnerError> {
    let Some(turn) = turn else {
        return Ok(ThreadKey::main());
    };
    match workspace.turn(Ref::Id(turn)).await {
        Ok(turn) => Ok(turn.begun.thread),
        Err(WorkspaceError::Store(StoreError::NotFound { .. })) => Ok(ThreadKey::main()),
        Err(error) => Err(error.into()),
    }
}
