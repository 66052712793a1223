//! The loop of one run: find out what is due, record it, and do it once the record is durable.

mod appends;
mod beginning;
mod calls;
mod ended;
mod opening;
mod put_away;
mod telling;
mod writing;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::run::{Action, CheckFinding, ModelAnswer};
use folio_engine::{Event, NodeId, Run};
use folio_memory::{Change, EntryId, Timestamp};
use folio_store::{ErrorKind, Workspace};
use folio_tools::ToolContext;
use folio_tools::panics::caught_now;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::calls::{Call, Calls};
use crate::bodies::Bodies;
use crate::busy::BusyRun;
use crate::compact::CompactionResult;
use crate::derive::Circumstances;
use crate::dispatch::{Driven, Until};
use crate::error::RunnerError;
use crate::locks::{HeldUp, RunLocks};
use crate::memory::{MemoryWriter, observations_from_rules};
use crate::models::AskEnded;
use crate::observer::DriveFollower;
use crate::others::Followed;
use crate::outage::{Patience, PatienceEnd};
use crate::pages::RunPages;
use crate::pending_writes::PendingWrites;
use crate::perform::Performed;
use crate::prefer::Preferences;
use crate::results::Question;
use crate::run_time::RunTime;
use crate::runner::Shared;
use crate::sessions::SessionBegun;
use crate::steps::{Outside, UnderWay};

/// Bytes of model answers after which no more go into the same commit. A plan in them takes many times as much memory
/// while it is parsed, turned into nodes and pages, and written.
const MAX_REPLY_BYTES_PER_COMMIT: usize = 256 * 1024;

/// How many model answers go into the same commit. While they are being written, the others are read. Without the
/// limit, where models answer at once, all calls under way would end together, and the writer and the driver of the run
/// would wait for one another.
const MAX_ANSWERS_PER_COMMIT: usize = 32;

/// A run that continues by itself within this time counts as busy.
const SOON: Duration = Duration::from_secs(5);

/// How long calls that are under way have to end when their run is given up.
const GIVE_UP_GRACE: Duration = Duration::from_secs(2);

/// How often the clock is read while waiting for a point in time.
const LOOKED_AT: Duration = Duration::from_secs(30);

/// The outcome of an effect: recorded, and then kept until it is durable.
#[derive(Debug)]
enum Done {
    /// A call ended. Its beginning is recorded in this batch.
    Call(Box<Performed>, u64),
    /// The criteria of a node were checked. For checks by commands, their beginning is recorded in this batch.
    Checked(NodeId, Option<u64>, Vec<CheckFinding>),
    /// A model answered, or failed to. The question is recorded in this batch.
    Asked(Box<AskEnded>, u64),
    /// An agent program that was asked has begun a session. The question is recorded in this batch.
    Session(Box<SessionBegun>, u64),
    /// A compaction ended. Its beginning is recorded in this batch.
    PutAway(Box<CompactionResult>, u64),
}

impl Done {
    /// Whether giving up the run before this is recorded would lose it: a call that may not simply be made again, or an
    /// answer that was paid for.
    fn is_lost_if_unrecorded(&self) -> bool {
        match self {
            Self::Call(performed, _) => !performed.is_repeatable,
            Self::Asked(..) | Self::Session(..) => true,
            // Checks are made again, and what was put away is found.
            Self::Checked(..) | Self::PutAway(..) => false,
        }
    }

    /// How many bytes a model answered.
    fn reply_bytes(&self) -> usize {
        match self {
            Self::Asked(ended, _) => match &ended.answer {
                ModelAnswer::Replied { reply, .. } => reply.text.len(),
                ModelAnswer::Failed(_) | ModelAnswer::Stopped { .. } => 0,
            },
            _ => 0,
        }
    }
}

/// The outcome of a call. It fails if the store is unavailable or damaged and could not keep what was to be put away.
type Outcome = Result<Done, RunnerError>;

/// One run while this process drives it.
///
/// Whatever causes an effect is durable before the effect begins. Calls that only compute have no effect: while the
/// disk writes one batch, the run continues with them, and their outcomes form the next batch. Nobody sees that batch
/// before it is durable, and if somebody else wrote to the journal first, it is discarded.
pub(crate) struct Drive {
    shared: Arc<Shared>,
    /// The run with everything applied, durable or not.
    run: Run,
    /// Its large outputs.
    bodies: Bodies,
    /// Where the journal ends, as far as `run` knows it, and who else writes to it.
    followed: Arc<Followed>,
    /// The time of the commit at which the journal ends, as far as `run` knows it.
    followed_at: Option<Timestamp>,
    fence: u64,
    context: ToolContext,
    memory: MemoryWriter,
    /// How far the run is to be driven.
    until: Until,
    /// Whether a person is there to answer, here or where the run was submitted.
    has_person: bool,
    /// The tools that the run's submitter allowed.
    allowed_tools: Vec<String>,
    /// What its calls write, and how that relates to other runs.
    locks: RunLocks,
    /// What comes first, if somebody waits for something.
    prefer: Option<Preferences>,
    under_way: UnderWay,
    /// Calls that were begun since the last look. Nobody has polled them yet.
    unpolled_calls: Vec<Call<Outcome>>,
    /// The time for which due actions were last computed.
    actions_computed_at: Option<Timestamp>,
    /// The clock of the run.
    time: RunTime,
    /// How long in all nobody drove the run, or this machine slept while it did: what its journal is to say.
    uncounted: Duration,
    /// Requests of calls for results.
    questions: mpsc::Receiver<Question>,
    pending_writes: PendingWrites<Done>,
    /// Step entries that somebody has archived or erased; nothing is written to them any more.
    archived_entries: HashSet<EntryId>,
    /// What this process lacks for the plan as somebody has edited it: what is under way ends, nothing else begins, and
    /// then the run is left as it is.
    lacking: Option<RunnerError>,
    /// How often in a row somebody else wrote to the journal first.
    conflicts: u32,
    /// What the run's pages say, once somebody asked, as far as that is known.
    pages: Option<RunPages>,
    /// What has held up the run; each is reported once.
    held_up: HashSet<HeldUp>,
    pending_cancellations: PendingCancellations,
    /// How it waits out an outage of the store.
    patience: Patience,
    _patience_end: PatienceEnd,
    /// Why what was under way before could not be recorded, if this process drove the run until then, and the journal
    /// does not say it yet.
    unrecorded: Option<String>,
}

/// The executors elsewhere that are being told that nobody waits for their answer any more. Each has the time that its
/// settings give it, even if the run is no longer driven here.
#[derive(Debug, Default)]
struct PendingCancellations(JoinSet<()>);

impl Drop for PendingCancellations {
    fn drop(&mut self) {
        self.0.detach_all();
    }
}

impl Drive {
    /// Tells the observer that this run is driven from now on.
    fn tell_observer(&self) {
        if let Some(observer) = &self.shared.options.observer {
            let watch = self.shared.watch(self.run.id());
            let models = self.shared.options.models.clone();
            let follower = DriveFollower::new(watch, self.followed.from, self.followed.heads(), models);
            // Whatever watches a run does not stop it.
            let _panicked = caught_now(|| observer.drive_started(follower)).is_err();
        }
    }

    /// Drives the run to its end; or, depending on [`Until`], until everything has waited for the given time and goes
    /// on waiting; or, if the process is about to end, until nothing is under way. Meanwhile `busy` is told whether the
    /// run does more than wait.
    pub(crate) async fn run(mut self, busy: Option<&BusyRun>) -> Result<Driven, RunnerError> {
        self.tell_observer();
        let mut calls = Calls::default();
        let driven = Box::pin(self.run_with(&mut calls, busy)).await;
        // If somebody else drives the run by now, its calls may be made again at any moment: these end at once.
        let may_linger = |error: &RunnerError| match error {
            RunnerError::Store(error) => error.kind() != ErrorKind::Conflict,
            _ => true,
        };
        if driven.as_ref().is_err_and(may_linger) {
            self.stop_calls(&mut calls).await;
        }
        if let Err(error) = &driven {
            self.keep_unrecorded(error);
        }
        driven
    }

    /// Keeps for the next driver in this process why what was under way could not be recorded: because of `error`, or
    /// as the driver before this one left it, if that is not recorded either.
    fn keep_unrecorded(&self, error: &RunnerError) {
        if let Some(reason) = self.patience.reason(error).or_else(|| self.unrecorded.clone()) {
            let head = self.followed.head();
            self.shared.unrecorded.lock().insert(self.run.id(), (head, reason));
        }
    }

    /// Stops what is under way in a run that is given up, because its store is unavailable for example: how it ends
    /// cannot be recorded any more. What asks programs to end and removes what it has begun gets a moment for that, as
    /// it does if this process is killed.
    async fn stop_calls(&mut self, calls: &mut Calls<Outcome>) {
        let checks = self.under_way.checks.values();
        let under_way = self.under_way.calls.values().map(|call| &call.cancel).chain(checks);
        under_way.for_each(CancellationToken::cancel);
        let ended = async { while calls.next(true).await.is_some() {} };
        let _in_time = tokio::time::timeout(GIVE_UP_GRACE, ended).await;
    }

    async fn run_with(&mut self, calls: &mut Calls<Outcome>, busy: Option<&BusyRun>) -> Result<Driven, RunnerError> {
        let follower = Arc::clone(&self.followed);
        let leaving = self.shared.leaving.clone();
        let mut outcomes: Vec<Done> = Vec::new();
        let locks = self.locks.locks();
        loop {
            // From here on no release of a lock by another run is missed.
            let mut lock_released = pin!(locks.wait_for_release());
            lock_released.as_mut().enable();
            calls.add_all(&mut self.unpolled_calls);
            self.note_would_lose(&outcomes);
            calls
                .poll_alongside(pin!(self.step(std::mem::take(&mut outcomes))))
                .await?;
            calls.add_all(&mut self.unpolled_calls);
            let is_waiting = self.locks.take_waited();
            self.report_held_up(is_waiting);
            let is_durable = self.pending_writes.is_durable();
            if let Some(result) = self.run.result().filter(|_| is_durable) {
                let calling_off = &mut self.pending_cancellations.0;
                calls
                    .poll_alongside(pin!(async { while calling_off.join_next().await.is_some() {} }))
                    .await;
                return Ok(Driven::Ended(result.clone()));
            }
            let until = self.run.wakes_after(self.actions_computed_at);
            let wake = until.map(|at| at.since(self.time.now(&self.shared.workspace)));
            let has_room = self.pending_writes.has_room();
            let is_idle = is_durable && calls.is_empty();
            // Executors that are being told that nobody waits any more would otherwise not hear it: no journal records
            // that they were told.
            let is_over = is_idle && self.pending_cancellations.0.is_empty();
            if is_over && leaving.is_cancelled() {
                return Err(RunnerError::Leaving);
            }
            if is_over && let Some(lacking) = self.lacking.take() {
                return Err(lacking);
            }
            // What becomes due soon is waited for here.
            let (is_idle, is_over) = (is_idle && !is_waiting, is_over && !is_waiting);
            if let Some(busy) = busy {
                busy.set_waiting(is_idle && wake.is_none_or(|wake| wake > SOON));
            }
            let patience = self
                .until
                .patience(&self.run)
                .filter(|patience| is_over && wake.is_none_or(|wake| wake > *patience * 2));
            tokio::select! {
                biased;
                (writing, written) = self.pending_writes.wait_for_write() => calls.poll_alongside(pin!(self.handle_write_result(writing, written))).await?,
                // What was begun continues even while no more outcomes can be taken in.
                Some(first) = calls.next(has_room) => outcomes.push(first?),
                Some(question) = self.questions.recv() => question.answer(&self.run, &self.pending_writes),
                () = follower.wait_for_foreign_write(), if is_durable => calls.poll_alongside(pin!(self.catch_up())).await?,
                () = &mut lock_released, if is_waiting => {}
                Some(_told) = self.pending_cancellations.0.join_next() => {}
                () = wait_until(&self.time, &self.shared.workspace, until.unwrap_or(Timestamp::MAX)), if until.is_some() && has_room => {}
                () = tokio::time::sleep(patience.unwrap_or(Duration::MAX)), if patience.is_some() => {
                    let now = self.time.now(&self.shared.workspace);
                    if until.is_some() {
                        self.shared.kept_lags.keep(self.run.id(), &self.time);
                    }
                    return Ok(Driven::Waits { until, wait: until.map(|at| at.since(now)), head: follower.head() });
                }
                () = leaving.cancelled(), if !leaving.is_cancelled() => {}
            }
            // Whatever else has ended meanwhile goes into the same commit.
            let mut reply_count: usize = outcomes.iter().map(Done::reply_bytes).sum();
            let mut answer_count = outcomes.iter().filter(|done| matches!(done, Done::Asked(..))).count();
            while has_room
                && reply_count < MAX_REPLY_BYTES_PER_COMMIT
                && answer_count < MAX_ANSWERS_PER_COMMIT
                && let Some(Some(more)) = futures_util::FutureExt::now_or_never(calls.next(true))
            {
                let more = more?;
                reply_count += more.reply_bytes();
                answer_count += usize::from(matches!(more, Done::Asked(..)));
                outcomes.push(more);
            }
        }
    }

    /// Takes a step as soon as fewer than [`MAX_CONCURRENT_STEPS`] runs are taking one.
    async fn step(&mut self, outcomes: Vec<Done>) -> Result<(), RunnerError> {
        let shared = Arc::clone(&self.shared);
        let _place = shared.stepping.acquire().await;
        self.apply_and_write(outcomes).await
    }

    /// Applies outcomes and all that follows, has it written, and begins what may begin.
    async fn apply_and_write(&mut self, mut outcomes: Vec<Done>) -> Result<(), RunnerError> {
        // A call that was begun ahead may no longer be due.
        let is_expected = |performed: &Performed, batch| {
            let begun_call = self.under_way.calls.get(&performed.node);
            begun_call.is_some_and(|call| call.batch == batch)
        };
        outcomes.retain(|done| !matches!(done, Done::Call(performed, batch) if !is_expected(performed, *batch)));
        self.note_sleep();
        self.record_sleep().await?;
        for outcome in &mut outcomes {
            if let Done::Call(performed, ..) = outcome {
                appends::resolve_pages(&self.shared, &self.run, &self.patience, performed).await?;
            }
        }
        self.conclude_all(outcomes).await?;
        loop {
            let actions = self.derive().await?;
            self.under_way.stop_checks(&self.run);
            self.observe_ended().await?;
            self.begin_ahead();
            // A task may be briefed before the events that make it due are durable, if these change nothing in memory
            // but the run's own pages: then both go into one commit.
            let is_briefing_only = actions.load.is_empty() && actions.compact.is_empty() && actions.verify.is_empty();
            if (self.pending_writes.may_write()
                || !self.pending_writes.batch.is_empty() && self.pending_writes.has_room())
                && !self.pending_writes.has_calls()
                && is_briefing_only
                && !actions.brief.is_empty()
                && self.brief_ahead(&actions.brief).await?
            {
                continue;
            }
            if self.pending_writes.may_write() {
                if self.pending_writes.has_calls() || self.under_way.has_any() {
                    self.write_in_background().await;
                    return Ok(());
                }
                // Nothing can be done meanwhile, so a switch to another thread is not worth it.
                self.write_and_wait().await?;
                continue;
            }
            if !self.pending_writes.is_durable() {
                return Ok(());
            }
            for check in actions.verify {
                self.begin_checking(check, None);
            }
            if actions.load.is_empty() && actions.brief.is_empty() && actions.compact.is_empty() {
                return Ok(());
            }
            for hash in actions.load {
                let value = self.bodies.read(&hash).await?;
                self.run.supply(&hash, Arc::new(value));
            }
            if !self.brief_all(&actions.brief).await? {
                // Everything is durable, so the pages can be read.
                self.pages = None;
                self.brief_all(&actions.brief).await?;
            }
            for action in actions.compact {
                self.compact(action).await?;
            }
        }
    }

    async fn conclude_all(&mut self, all: Vec<Done>) -> Result<(), RunnerError> {
        for mut outcome in all {
            // Nobody waits for the session any more, and its program ends.
            if let Done::Session(session, _) = &outcome
                && self.session_began_event(session).is_none()
            {
                self.under_way.calls.remove(&session.ask.0);
                continue;
            }
            self.conclude(&mut outcome).await?;
            self.pending_writes.keep(outcome);
        }
        Ok(())
    }

    /// Applies everything that follows from the state.
    async fn derive(&mut self) -> Result<Outside, RunnerError> {
        if !self.pending_writes.has_room() {
            return Ok(Outside::default());
        }
        let now = self.time.now(&self.shared.workspace);
        self.actions_computed_at = Some(now);
        if self.lacking.is_some() {
            self.stop_what_is_over(now).await?;
            return Ok(Outside::default());
        }
        self.locks.follow(&self.run);
        self.under_way.waiting = self.pending_writes.waiting_calls();
        let concurrency = self.concurrency();
        let circumstances = Circumstances {
            registry: &self.shared.registry,
            under_way: &self.under_way,
            prefer: self.prefer.as_ref(),
            lost: &self.shared.options.lost_calls,
            locks: &self.locks,
            concurrency,
            now,
        };
        let (state, batch) = ((&mut self.run, &mut self.bodies), &mut self.pending_writes.batch);
        let actions = circumstances.derive(state, batch).await?;
        self.bodies.evict_excess(&self.run);
        Ok(actions)
    }

    /// Stops what somebody cancelled and what is out of time, and lets everything else be as it is.
    async fn stop_what_is_over(&mut self, now: Timestamp) -> Result<(), RunnerError> {
        loop {
            let mut is_stopping_more = false;
            for action in self.run.due(now, 0) {
                match action {
                    Action::Stop(node) => {
                        if let Some(call) = self.under_way.calls.get(&node) {
                            call.cancel.cancel();
                        }
                    }
                    Action::Record(event @ Event::CancelRequested { .. }) => {
                        self.record(event).await?;
                        is_stopping_more = true;
                    }
                    _ => {}
                }
            }
            if !is_stopping_more {
                return Ok(());
            }
        }
    }

    /// Applies how a call or a check ended. An outcome that was overtaken by a cancellation still counts: it did
    /// happen.
    async fn conclude(&mut self, done: &mut Done) -> Result<(), RunnerError> {
        let now = self.time.now(&self.shared.workspace);
        match done {
            Done::Call(performed, _) => self.conclude_call(performed, now).await,
            Done::Asked(ended, _) => {
                let ended = &**ended;
                let (node, _) = ended.ask;
                self.under_way.calls.remove(&node);
                let make_event = |run: &Run| run.model_answered(node, ended.answer.clone(), ended.duration, now);
                let event = self.bodies.with_outputs_loaded(&self.run, make_event).await?;
                self.record_if_some(event).await
            }
            Done::Session(session, _) => {
                let event = self.session_began_event(session);
                self.record_if_some(event).await
            }
            Done::PutAway(compaction, _) => {
                self.under_way.calls.remove(&compaction.node);
                self.put_away_ended(compaction.as_ref().clone()).await
            }
            Done::Checked(node, batch, found) => {
                let (node, found) = (&*node, &*found);
                match batch {
                    Some(_) => drop(self.under_way.calls.remove(node)),
                    None => drop(self.under_way.checks.remove(node)),
                }
                let verified = |run: &Run| run.check_findings_event(*node, found);
                let event = self.bodies.with_outputs_loaded(&self.run, verified).await?;
                self.record_if_some(event).await
            }
        }
    }

    async fn conclude_call(&mut self, performed: &Performed, now: Timestamp) -> Result<(), RunnerError> {
        let node = performed.node;
        self.under_way.calls.remove(&node);
        // Outputs that criteria and rules read may have been dropped while the call was under way.
        let mut writes = performed.writes.clone();
        let named = self.memory.outcome_with_ids(&performed.outcome, &mut writes);
        let outcome = named.as_ref().unwrap_or(&performed.outcome);
        let make_event = |run: &Run| run.conclude(node, outcome.clone(), performed.duration, now);
        let mut event = self.bodies.with_outputs_loaded(&self.run, make_event).await?;
        self.shared.workspace.clean_event(&mut event);
        let check_rules = |run: &Run| match &event {
            Event::Finished { result, .. } => observations_from_rules(run, node, result),
            _ => (Vec::new(), Vec::new()),
        };
        let (rule_observations, problems) = self.bodies.with_outputs_loaded(&self.run, check_rules).await?;
        let intake = self
            .memory
            .ingest_items(&self.run, node, writes, rule_observations, problems);
        self.pending_writes.batch.notes.extend(intake.notes);
        let recorded = self.record_with(now, event, intake.changes).await;
        self.locks.follow(&self.run);
        recorded
    }

    fn session_began_event(&self, session: &SessionBegun) -> Option<Event> {
        let (node, call) = session.ask;
        self.run.session_began(node, call, &session.new.id)
    }

    /// Applies `event`, cleaned of what the space does not want stored, and has it written.
    async fn record(&mut self, mut event: Event) -> Result<(), RunnerError> {
        self.shared.workspace.clean_event(&mut event);
        let now = self.time.now(&self.shared.workspace);
        self.record_with(now, event, Vec::new()).await
    }

    async fn record_if_some(&mut self, event: Option<Event>) -> Result<(), RunnerError> {
        match event {
            Some(event) => self.record(event).await,
            None => Ok(()),
        }
    }

    /// Applies `event`, and has it written with the changes `more`.
    async fn record_with(&mut self, now: Timestamp, event: Event, more: Vec<Change>) -> Result<(), RunnerError> {
        let (run, bodies) = (&mut self.run, &mut self.bodies);
        self.pending_writes.batch.record(run, bodies, now, event, more).await
    }

    fn concurrency(&self) -> usize {
        if self.shared.leaving.is_cancelled() {
            return 0;
        }
        self.shared
            .options
            .concurrency
            .unwrap_or(self.run.limits().concurrency)
            .max(1) as usize
    }

    fn journal_error(&self, source: folio_engine::run::JournalError) -> RunnerError {
        RunnerError::Journal {
            run: self.run.id(),
            source,
        }
    }
}

/// Waits until the space's clock shows `at`. The timer uses another clock, which stands still while the machine sleeps,
/// so the time is read now and then, which costs nothing.
async fn wait_until(time: &RunTime, workspace: &Workspace, at: Timestamp) {
    loop {
        let left = at.since(time.now(workspace));
        tokio::time::sleep(left.min(LOOKED_AT)).await;
        if left <= LOOKED_AT {
            break;
        }
    }
}

#[cfg(test)]
mod tests;
