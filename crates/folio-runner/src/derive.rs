//! From due actions to one commit: applies what follows from the state of a run without an outside event.

use folio_engine::{Action, CallAction, Event, Run};
use folio_memory::Timestamp;
use folio_tools::{Effect, Registry};

use crate::bodies::Bodies;
use crate::error::RunnerError;
use crate::locks::RunLocks;
use crate::lost::{LostCall, LostCalls};
use crate::prefer::Preferences;
use crate::steps::{Batch, Outside, UnderWay};

/// What decides, besides the state of a run, which of its due actions begin.
pub(crate) struct Circumstances<'d> {
    pub(crate) registry: &'d Registry,
    pub(crate) under_way: &'d UnderWay,
    pub(crate) prefer: Option<&'d Preferences>,
    pub(crate) lost: &'d LostCalls,
    pub(crate) locks: &'d RunLocks,
    /// How many calls may be under way at once.
    pub(crate) concurrency: usize,
    pub(crate) now: Timestamp,
}

/// The actions of one list, as they are carried out.
struct Round<'r> {
    run: &'r mut Run,
    bodies: &'r mut Bodies,
    batch: &'r mut Batch,
    now: Timestamp,
    has_recorded: bool,
}

impl Round<'_> {
    /// Records `event`, if it is still necessary; returns whether it was.
    async fn record(&mut self, event: Event) -> Result<bool, RunnerError> {
        let recorded = self.batch.record(self.run, self.bodies, self.now, event, Vec::new());
        match recorded.await {
            Ok(()) => {
                self.has_recorded = true;
                Ok(true)
            }
            // A record may make a later action of the same list unnecessary; then the run refuses it, and the next list
            // does not contain it. But the first is never unnecessary.
            Err(RunnerError::Journal { .. }) if self.has_recorded => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Circumstances<'_> {
    /// Adds to `batch` everything that follows from the state of `run`, until only an outside event can advance it, or
    /// until the batch is full.
    ///
    /// # Errors
    ///
    /// `Journal`, or `Store` if an output that it needs cannot be read.
    pub(crate) async fn derive(
        &self,
        (run, bodies): (&mut Run, &mut Bodies),
        batch: &mut Batch,
    ) -> Result<Outside, RunnerError> {
        loop {
            let under_way = self.under_way.calls.len() + self.under_way.waiting + batch.starting_call_count();
            let slots = self.concurrency.saturating_sub(under_way);
            let find_due = |run: &Run| match self.prefer {
                Some(prefer) => prefer.due(run, slots, self.now),
                None => run.due(self.now, slots),
            };
            let actions = bodies.with_outputs_loaded(run, find_due).await?;
            let mut outside = Outside {
                load: missing_outputs(&actions),
                ..Outside::default()
            };
            if !outside.load.is_empty() {
                return Ok(outside);
            }
            let mut round = Round {
                run: &mut *run,
                bodies: &mut *bodies,
                batch: &mut *batch,
                now: self.now,
                has_recorded: false,
            };
            for action in actions {
                if round.batch.is_full() {
                    return Ok(Outside::default());
                }
                if !round.has_recorded || round.run.is_still_due(&action) {
                    self.carry_out(action, &mut round, &mut outside).await?;
                }
            }
            let has_recorded = round.has_recorded;
            bodies.evict_excess(run);
            if !has_recorded {
                let checks = &self.under_way.checks;
                outside.verify.retain(|check| !checks.contains_key(&check.node));
                return Ok(outside);
            }
        }
    }

    /// Records what `action` begins, or adds it to what has to be done `outside`.
    async fn carry_out(&self, action: Action, round: &mut Round<'_>, outside: &mut Outside) -> Result<(), RunnerError> {
        match action {
            Action::Record(event) => {
                round.record(event).await?;
            }
            Action::Call(mut call) => {
                let event = self.beginning_of(&mut call, round.run);
                let is_start = matches!(event, Event::Started { .. });
                // Another run may have taken the names since the engine looked.
                if is_start && !self.locks.take(&call.writes) {
                    return Ok(());
                }
                if round.record(event).await? && is_start {
                    round.batch.calls.push(*call);
                }
            }
            Action::Ask(ask) => {
                if round.record(ask.asked()).await? {
                    round.batch.asks.push(*ask);
                }
            }
            Action::Brief(node) => outside.brief.push(node),
            Action::Compact(compact) => match compact.compacting() {
                None => outside.compact.push(*compact),
                Some(event) => {
                    if round.record(event).await? {
                        round.batch.compactions.push(*compact);
                    }
                }
            },
            Action::Verify(check) => match check.begins() {
                None => outside.verify.push(*check),
                // Another run may have taken the names since the engine looked.
                Some(_) if !self.locks.take(&check.writes) => {}
                Some(event) => {
                    if round.record(event).await? {
                        round.batch.checks.push(*check);
                    }
                }
            },
            // All outputs that exist have been read.
            Action::Load(_) => {}
            Action::Stop(node) => {
                if let Some(call) = self.under_way.calls.get(&node) {
                    call.cancel.cancel();
                }
            }
        }
        Ok(())
    }

    /// The event with which `call` begins, or does not: a driver that died may have begun it before (E9.12).
    fn beginning_of(&self, call: &mut CallAction, run: &Run) -> Event {
        let effect = self.registry.get(&call.tool).map(|tool| tool.spec().effect);
        match self.lost.of(call) {
            Some(LostCall::AssumeDone) => run.call_assumed_done(call),
            Some(LostCall::Ask) => run.call_lost(call),
            Some(LostCall::Fail) => run.call_given_up(call),
            Some(LostCall::Rerun) => {
                // Its tool is not asked about the earlier attempt either.
                call.again = false;
                call.started()
            }
            // If the tool no longer exists, the effect of a second call is unknown.
            None if call.again && matches!(effect, Some(Effect::Opaque | Effect::Destructive) | None) => {
                run.call_lost(call)
            }
            None => call.started(),
        }
    }
}

/// The outputs that the run needs before anything else of `actions`.
fn missing_outputs(actions: &[Action]) -> Vec<String> {
    let missing = actions.iter().filter_map(|action| match action {
        Action::Load(hash) => Some(hash.clone()),
        _ => None,
    });
    missing.collect()
}
