//! The runs that this server drives: a limited number at a time, cancelled with the request that started them, and
//! given up when the server ends.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use folio::memory::{Actor, RunId, SpaceName};
use folio::runner::{Busy, BusyRun, Runner, RunnerError};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::problem::Problem;
use crate::shares::{NoPlace, Place, SharedPlaces, may_take};
use crate::spaces::Spaces;

/// The most runs that do something at the same time in this process.
const MAX_ACTIVE_RUNS: usize = 8;
/// The most runs that this process drives, with those that only wait for a person or for a time: all are kept in
/// memory.
const MAX_DRIVEN_RUNS: usize = 256;
/// The most runs that are waited for at the same time if workers drive them.
const MAX_AWAITED_RUNS: usize = 1_024;
/// How long, when the server ends, cancelled runs may take to stop, and what is under way in the others to end.
const GRACE: Duration = Duration::from_secs(5);

/// The runs that are driven, and the places for them.
#[derive(Debug)]
pub(crate) struct Driving {
    max_active: usize,
    busy: Busy,
    /// The part of `busy` of each space that has started a run.
    by_space: Mutex<BTreeMap<SpaceName, Busy>>,
    places: SharedPlaces,
    spaces: Spaces,
    /// The runs that have a task here.
    runs: Mutex<Vec<DrivenRun>>,
}

/// A driven run: its space and its id, its task, and what tells the task to cancel the run. The request that started the
/// run may do so as well ([`CancelOnDrop`]).
type DrivenRun = ((SpaceName, RunId), CancellationToken, JoinHandle<()>);

/// A place for one run.
#[derive(Debug)]
pub(crate) struct RunSlot {
    busy: BusyRun,
    _held: Place,
}

/// Held by the request that started a run: dropping it cancels the run, unless it was [detached](Self::detach).
#[derive(Debug)]
pub(crate) struct CancelOnDrop(DropGuard);

impl CancelOnDrop {
    /// Lets the run go on without the request.
    pub(crate) fn detach(self) {
        self.0.disarm();
    }
}

impl Driving {
    /// Creates the record of the runs that are driven in `spaces`, with none yet.
    pub(crate) fn of(spaces: Spaces) -> Arc<Self> {
        let (max_active, max_driven) = if spaces.first().has_dispatcher() {
            (MAX_AWAITED_RUNS, MAX_AWAITED_RUNS)
        } else {
            (MAX_ACTIVE_RUNS, MAX_DRIVEN_RUNS)
        };
        Arc::new(Self {
            max_active,
            busy: Busy::default(),
            by_space: Mutex::default(),
            places: SharedPlaces::new(max_driven, spaces.clone()),
            spaces,
            runs: Mutex::default(),
        })
    }

    /// Returns the spaces whose runs are driven.
    pub(crate) fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Takes a place for one more run of `space`. A run that only waits leaves its place to others.
    pub(crate) fn take_slot(&self, space: &SpaceName) -> Result<RunSlot, Problem> {
        let refused = |detail: String| {
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "runs_busy", detail)
                .hint("wait until one of them has ended, then start it again")
        };
        let slot = self.places.take(space).map_err(|reason| {
            refused(match reason {
                NoPlace::Full => "this server has reached its limit of runs, including those that only wait".to_owned(),
                NoPlace::Share => {
                    "this space has its share of the runs of this server, including those that only wait".to_owned()
                }
            })
        })?;
        let mut by_space = self.by_space.lock();
        let space_busy = by_space.entry(space.clone()).or_insert_with(|| self.busy.part());
        let free = self.max_active.saturating_sub(self.busy.runs());
        if !may_take(space_busy.runs(), free, self.spaces.is_only_one()) {
            return Err(refused(match free {
                0 => format!(
                    "{} runs are under way, the most that one server drives",
                    self.max_active
                ),
                _ => format!(
                    "{} runs of this space are under way, its share of the server",
                    space_busy.runs()
                ),
            }));
        }
        Ok(RunSlot {
            busy: space_busy.begin(),
            _held: slot,
        })
    }

    /// Drives the run `id` until it ends. If what is returned is dropped, the run is cancelled in the name of `by`.
    /// Returns `None` if the run is driven here already.
    pub(crate) fn drive(&self, runner: Runner, id: RunId, by: Actor, place: RunSlot) -> Option<CancelOnDrop> {
        // Held until the run is in the list, since two requests with one key may be answered at the same time.
        let key = (runner.workspace().space().clone(), id);
        let mut runs = self.runs.lock();
        runs.retain(|(.., task)| !task.is_finished());
        if runs.iter().any(|(run, ..)| *run == key) {
            return None;
        }
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let task = tokio::spawn(async move {
            // Both parts are named: a part that is not would be dropped at once.
            let RunSlot { busy, _held } = place;
            let stopping = Box::pin(async {
                token.cancelled().await;
                runner.cancel(id, None, &by).await.is_ok()
            });
            // The journal has the outcome of the run, or that nobody drives it any more.
            drive_until_stopped(Box::pin(runner.ensure_driven_to_end(id, &busy)), stopping).await;
        });
        runs.push((key, cancel.clone(), task));
        Some(CancelOnDrop(cancel.drop_guard()))
    }

    /// Records a run with `recording` and drives it until it ends, in the name of `by`. Once begun, both are completed
    /// even if whoever asked for the run stops waiting: a recorded run that nobody drives would not go on when it is
    /// asked for again. Returns the run's id, and whether the run existed already.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        runner: Runner,
        by: Actor,
        place: Option<RunSlot>,
        recording: impl Future<Output = Result<(RunId, bool), RunnerError>> + Send + 'static,
    ) -> Result<(RunId, bool), RunnerError> {
        let driving = Arc::clone(self);
        run_to_completion(Box::pin(async move {
            let (id, replayed) = recording.await?;
            // Of a repeated request, the run is driven already, or whoever drove it is gone.
            if let Some(asked_for) = place.and_then(|place| driving.drive(runner, id, by, place)) {
                asked_for.detach();
            }
            Ok((id, replayed))
        }))
        .await
    }

    /// Does the same for a request that cancels the run when it is dropped, even while the run is being recorded.
    /// Returns the run's id, and what cancels it; `None` if the run existed already: another request started it.
    pub(crate) async fn begin_for(
        self: &Arc<Self>,
        runner: Runner,
        by: Actor,
        place: Option<RunSlot>,
        recording: impl Future<Output = Result<(RunId, bool), RunnerError>> + Send + 'static,
    ) -> Result<(RunId, Option<CancelOnDrop>), RunnerError> {
        let driving = Arc::clone(self);
        run_to_completion(Box::pin(async move {
            let (id, replayed) = recording.await?;
            let mut asked_for = place.and_then(|place| driving.drive(runner, id, by, place));
            if replayed && let Some(asked_for) = asked_for.take() {
                asked_for.detach();
            }
            // Dropped with the answer if nobody receives that.
            Ok((id, asked_for))
        }))
        .await
    }

    /// Returns whether the run `id` of `space` is driven here, or about to be: its row says so only once its driver has
    /// claimed it.
    pub(crate) fn is_driving(&self, space: &SpaceName, id: RunId) -> bool {
        let runs = self.runs.lock();
        runs.iter()
            .any(|((run_space, run), _, task)| run_space == space && *run == id && !task.is_finished())
    }

    /// Waits up to five seconds for the runs that were taken back. Then `runner`, and with it those that it made for
    /// other spaces ([`Runner::in_space`]), begins nothing more: what is under way in the other runs has as long to
    /// end, and then each run is given up where it is, for another process to resume. When this returns, no run is
    /// driven here any more.
    pub(crate) async fn wind_down(&self, runner: &Runner) {
        let runs = std::mem::take(&mut *self.runs.lock());
        let (cancelled, others): (Vec<_>, _) = runs.into_iter().partition(|(_, token, _)| token.is_cancelled());
        wait_or_abort(GRACE, cancelled).await;
        runner.leave();
        // Runs that workers drive are only waited for here, so there is nothing to end.
        let time = if runner.has_dispatcher() { Duration::ZERO } else { GRACE };
        wait_or_abort(time, others).await;
    }
}

/// Waits up to `time` until nobody drives `runs`, and aborts those that are still driven then.
async fn wait_or_abort(time: Duration, runs: Vec<DrivenRun>) {
    let handles: Vec<_> = runs.iter().map(|(.., task)| task.abort_handle()).collect();
    let mut ended = pin!(join_all(runs.into_iter().map(|(.., task)| task)));
    if tokio::time::timeout(time, &mut ended).await.is_err() {
        handles.iter().for_each(tokio::task::AbortHandle::abort);
        let _broken_off = ended.await;
    }
}

/// Completes `work`, even if the caller stops waiting for it.
async fn run_to_completion<T: Send + 'static>(work: Pin<Box<dyn Future<Output = T> + Send>>) -> T {
    // Nobody aborts this task, so it can only panic.
    tokio::spawn(work)
        .await
        .unwrap_or_else(|join_error| std::panic::resume_unwind(join_error.into_panic()))
}

/// Waits for the end of `driving`, or until `stopping` reports that the run could not be cancelled. Both are polled all
/// the while, since each may hold what the other one needs (decision 0096).
async fn drive_until_stopped(driving: impl Future, stopping: impl Future<Output = bool>) {
    let stopped = async {
        if stopping.await {
            // The cancelled run comes to its end.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ended = driving => {}
        () = stopped => {}
    }
}

#[cfg(test)]
mod tests {
    use folio::Folio;
    use folio::engine::{Outcome, plan};
    use folio::memory::{Role, SpaceName};
    use folio::runner::{NewRun, RunnerOptions, Watch};
    use folio::tools::{Effect, Registry, ToolResponse, ToolSpec};
    use futures_util::FutureExt as _;
    use serde_json::json;
    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    /// A store, a runner for it, and a run to submit.
    async fn runner_with_plan() -> (Folio, Runner, NewRun) {
        let step = "{id: a, do: {tool: text, args: {op: echo, value: 1}}}";
        runner_with_step(step).await
    }

    async fn runner_with_step(step: &str) -> (Folio, Runner, NewRun) {
        runner_with_tools(Registry::with_builtins(), step).await
    }

    async fn runner_with_tools(registry: Registry, steps: &str) -> (Folio, Runner, NewRun) {
        let folio = Folio::open("memory:").await.expect("a store");
        let workspace = folio.workspace(SpaceName::main());
        let runner = Runner::new(workspace, registry, RunnerOptions::default());
        let text = format!("title: One\nsteps: [{steps}]");
        let plan = plan::parse(&text, &runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
        (folio, runner, NewRun::of(plan, Actor::new(Role::Human, "ada")))
    }

    /// A `recording` that begins once it is released.
    fn hold_recording<T>(recording: impl Future<Output = T>) -> (oneshot::Sender<()>, impl Future<Output = T>) {
        let (go_on, held) = oneshot::channel();
        let recording = Box::pin(recording);
        let recording = async move {
            let _let_go = held.await;
            recording.await
        };
        (go_on, recording)
    }

    /// Returns the outcome of the run whose id is sent when it is recorded.
    async fn outcome_of_recorded(folio: &Folio, told: oneshot::Receiver<RunId>) -> Option<Outcome> {
        let id = told.await.expect("it is recorded");
        let mut watch = Watch::new(Arc::clone(folio.store()), SpaceName::main(), id);
        while watch.next().await.expect("its journal").is_some() {}
        watch.run().result().map(|result| result.status)
    }

    #[tokio::test]
    async fn space_drives_half_of_the_runs_once_there_is_another() {
        let (_folio, runner, _) = runner_with_plan().await;
        let spaces = Spaces::of(runner);
        let driving = Driving::of(spaces.clone());
        let (main, other) = (SpaceName::main(), SpaceName::parse("other").expect("a name"));
        let most = |space: &SpaceName| {
            let mut taken = Vec::new();
            loop {
                match driving.take_slot(space) {
                    Ok(slot) => taken.push(slot),
                    Err(problem) => return (taken, problem.text()),
                }
            }
        };
        let (alone, why) = most(&main);
        assert_eq!(alone.len(), MAX_ACTIVE_RUNS);
        assert!(why.contains("8 runs are under way, the most"), "{why}");
        drop(alone);
        spaces.runner_in(&other).expect("there is room");
        let (first, why) = most(&main);
        assert_eq!(first.len(), MAX_ACTIVE_RUNS / 2);
        assert!(why.contains("4 runs of this space are under way, its share"), "{why}");
        let (second, _) = most(&other);
        assert_eq!(second.len(), MAX_ACTIVE_RUNS / 4);
        drop(first);
        assert_eq!(
            most(&main).0.len(),
            MAX_ACTIVE_RUNS / 2 - 1,
            "half of the six that are free"
        );
    }

    #[tokio::test]
    async fn run_requested_twice_at_once_has_one_driver() {
        let (_folio, runner, new) = runner_with_plan().await;
        let by = new.actor.clone();
        let (id, _) = runner.submit(new).await.expect("a run");
        let driving = Driving::of(Spaces::of(runner.clone()));
        let place = || driving.take_slot(&SpaceName::main()).expect("a place");
        let first = driving.drive(runner.clone(), id, by.clone(), place());
        assert!(driving.drive(runner.clone(), id, by, place()).is_none());
        assert!(driving.is_driving(&SpaceName::main(), id));
        let other = SpaceName::parse("other").expect("a name");
        assert!(!driving.is_driving(&other, id), "that is none of its runs");
        assert_eq!(driving.places.taken_count(), 1);
        first.expect("the first one").detach();
    }

    #[tokio::test]
    async fn run_is_driven_after_its_requester_leaves_during_submission() {
        let (folio, runner, new) = runner_with_plan().await;
        let (by, submits) = (new.actor.clone(), runner.clone());
        let driving = Driving::of(Spaces::of(runner.clone()));
        let (tell, told) = oneshot::channel();
        let (go_on, recording) = hold_recording(async move {
            let submitted = submits.submit_once(new).await?;
            let _kept = tell.send(submitted.id);
            Ok((submitted.id, submitted.replayed))
        });
        let place = driving.take_slot(&SpaceName::main()).expect("a place");
        let asked = driving.begin(runner.clone(), by, Some(place), recording);
        assert!(tokio::time::timeout(Duration::ZERO, asked).await.is_err());
        go_on.send(()).expect("what was begun goes on");
        assert_eq!(outcome_of_recorded(&folio, told).await, Some(Outcome::Ok));
    }

    #[tokio::test]
    async fn run_withdrawn_during_submission_is_cancelled() {
        let (folio, runner, new) = runner_with_step("{id: a, do: {tool: wait, args: {ms: 60000}}}").await;
        let (by, submits) = (new.actor.clone(), runner.clone());
        let driving = Driving::of(Spaces::of(runner.clone()));
        let (tell, told) = oneshot::channel();
        let (go_on, recording) = hold_recording(async move {
            let (id, _) = submits.submit(new).await?;
            let _kept = tell.send(id);
            Ok((id, false))
        });
        let place = driving.take_slot(&SpaceName::main()).expect("a place");
        let asked = driving.begin_for(runner.clone(), by, Some(place), recording);
        assert!(tokio::time::timeout(Duration::ZERO, asked).await.is_err());
        go_on.send(()).expect("what was begun goes on");
        assert_eq!(outcome_of_recorded(&folio, told).await, Some(Outcome::Cancelled));
    }

    /// A tool that reports that it was called and ends when it is released; with the counts of both.
    fn held_tool() -> (Registry, Arc<Semaphore>, Arc<Semaphore>) {
        let (called, may) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let mut registry = Registry::with_builtins();
        let (tells, waits) = (Arc::clone(&called), Arc::clone(&may));
        registry.register_fn(ToolSpec::new("held", Effect::Read, "waits"), move |request, _| {
            let (tells, waits) = (Arc::clone(&tells), Arc::clone(&waits));
            async move {
                tells.add_permits(1);
                waits.acquire().await.expect("it is not closed").forget();
                Ok(ToolResponse::ok(&request, json!(1), ""))
            }
        });
        (registry, called, may)
    }

    #[tokio::test]
    async fn wind_down_starts_no_new_calls_and_releases_the_run() {
        let (registry, called, may) = held_tool();
        let steps = "{id: a, do: {tool: held}}, {id: b, do: {tool: held}, needs: [a]}";
        let (folio, runner, new) = runner_with_tools(registry, steps).await;
        let by = new.actor.clone();
        let (id, _) = runner.submit(new).await.expect("a run");
        let driving = Driving::of(Spaces::of(runner.clone()));
        let asked_for = driving.drive(
            runner.clone(),
            id,
            by,
            driving.take_slot(&SpaceName::main()).expect("a place"),
        );
        asked_for.expect("it is the first one").detach();
        called.acquire().await.expect("it is not closed").forget();
        let ending = async {
            // The runner is told first to begin nothing more.
            tokio::task::yield_now().await;
            may.add_permits(1);
        };
        tokio::join!(driving.wind_down(&runner), ending);
        let mut watch = Watch::new(Arc::clone(folio.store()), SpaceName::main(), id);
        watch.catch_up().await.expect("its journal");
        assert!(watch.run().result().is_none(), "somebody else goes on with it");
        let ended = |path: &str| {
            watch
                .run()
                .node_at(path)
                .and_then(|node| node.result.map(|result| result.status))
        };
        assert_eq!((ended("a"), ended("b")), (Some(Outcome::Ok), None));
        assert_eq!(called.available_permits(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn wind_down_aborts_runs_that_outlast_the_grace_period() {
        let (registry, called, _) = held_tool();
        let (folio, runner, new) = runner_with_tools(registry, "{id: a, do: {tool: held}}").await;
        let by = new.actor.clone();
        let (id, _) = runner.submit(new).await.expect("a run");
        let driving = Driving::of(Spaces::of(runner.clone()));
        let asked_for = driving.drive(
            runner.clone(),
            id,
            by,
            driving.take_slot(&SpaceName::main()).expect("a place"),
        );
        asked_for.expect("it is the first one").detach();
        called.acquire().await.expect("it is not closed").forget();
        assert_eq!(driving.places.taken_count(), 1);
        driving.wind_down(&runner).await;
        assert_eq!(driving.places.taken_count(), 0);
        let mut watch = Watch::new(Arc::clone(folio.store()), SpaceName::main(), id);
        watch.catch_up().await.expect("its journal");
        assert!(watch.run().result().is_none(), "somebody else goes on with it");
    }

    #[test]
    fn driving_is_still_polled_while_a_cancellation_waits_for_it() {
        let places = Semaphore::new(1);
        let taken = places.try_acquire().expect("the only one");
        let driving = async { drop(places.acquire().await) };
        let stopping = async {
            // It waits behind the driving.
            tokio::task::yield_now().await;
            drop(places.acquire().await);
            true
        };
        let mut driven = std::pin::pin!(drive_until_stopped(driving, stopping));
        for _ in 0..2 {
            assert_eq!(driven.as_mut().now_or_never(), None);
        }
        drop(taken);
        assert_eq!(driven.now_or_never(), Some(()));
    }
}
