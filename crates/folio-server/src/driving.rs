//! The runs that this server drives: few at a time, stopped with the request that started them, and waited for at the end.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use folio::memory::{Actor, RunId};
use folio::runner::{Busy, BusyRun, Runner, RunnerError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::problem::Problem;

/// Runs that do something at the same time here.
const MOST: usize = 8;
/// Runs that are driven here together with those that only wait, for a person or for a time: they are kept in memory.
const MOST_WITH_WAITING: usize = 256;
/// Runs that are waited for at the same time where workers drive them.
const MOST_ELSEWHERE: usize = 1_024;
/// How long runs that were taken back may take to stop once the server ends.
const GRACE: Duration = Duration::from_secs(5);

/// The runs that are driven.
#[derive(Debug)]
pub(crate) struct Driving {
    most: usize,
    busy: Busy,
    places: Arc<Semaphore>,
    /// Whether each was taken back, and when it is over.
    runs: Mutex<Vec<(RunId, CancellationToken, JoinHandle<()>)>>,
}

/// A place for a run.
#[derive(Debug)]
pub(crate) struct Place {
    busy: BusyRun,
    _held: OwnedSemaphorePermit,
}

/// The request that a run was started by. Dropped, it takes the run back.
#[derive(Debug)]
pub(crate) struct AskedFor(DropGuard);

impl AskedFor {
    /// Lets the run go on without the request.
    pub(crate) fn keep_going(self) {
        self.0.disarm();
    }
}

impl Driving {
    /// None yet, of those that `runner` drives.
    pub(crate) fn of(runner: &Runner) -> Arc<Self> {
        let (most, with_waiting) = if runner.is_elsewhere() {
            (MOST_ELSEWHERE, MOST_ELSEWHERE)
        } else {
            (MOST, MOST_WITH_WAITING)
        };
        Arc::new(Self {
            most,
            busy: Busy::default(),
            places: Arc::new(Semaphore::new(with_waiting)),
            runs: Mutex::default(),
        })
    }

    /// A place for one more run. One that only waits leaves its place to others.
    pub(crate) fn place(&self) -> Result<Place, Problem> {
        let refused = |detail: String| {
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "runs_busy", detail)
                .hint("wait until one of them has ended, then start it again")
        };
        let held = Arc::clone(&self.places).try_acquire_owned();
        let held = held.map_err(|_| refused("as many runs wait here as one server keeps".to_owned()))?;
        let busy = self.busy.begin_below(self.most);
        let busy = busy.ok_or_else(|| {
            let most = self.most;
            refused(format!(
                "{most} runs are under way, which is as many as one server drives"
            ))
        })?;
        Ok(Place { busy, _held: held })
    }

    /// Drives the run `id` until it ends. It is stopped in the name of `by` when its request is dropped. Nothing if it is driven here already.
    pub(crate) fn drive(&self, runner: Runner, id: RunId, by: Actor, place: Place) -> Option<AskedFor> {
        // Held until it is among them: two requests with one key are answered at the same time.
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|(.., driven)| !driven.is_finished());
        if runs.iter().any(|(run, ..)| *run == id) {
            return None;
        }
        let taken_back = CancellationToken::new();
        let token = taken_back.clone();
        let driven = tokio::spawn(async move {
            // All of it: a part that is not named here would be given back at once.
            let Place { busy, _held } = place;
            let stopping = Box::pin(async {
                token.cancelled().await;
                runner.cancel(id, None, &by).await.is_ok()
            });
            // What a run comes to is in its journal, and so is that nobody drives it.
            driven(Box::pin(runner.see_to(id, &busy)), stopping).await;
        });
        runs.push((id, taken_back.clone(), driven));
        Some(AskedFor(taken_back.drop_guard()))
    }

    /// Has a run recorded by `recording`, and driven until it ends in the name of `by`. Both are done once they are begun, also if whoever asked for
    /// it does not wait: a run that is there and that nobody drives would not go on when it is asked for again.
    /// Answers its id, and whether it was there.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        runner: Runner,
        by: Actor,
        place: Option<Place>,
        recording: impl Future<Output = Result<(RunId, bool), RunnerError>> + Send + 'static,
    ) -> Result<(RunId, bool), RunnerError> {
        let driving = Arc::clone(self);
        brought_to_its_end(Box::pin(async move {
            let (id, replayed) = recording.await?;
            // Asked for again, it is driven already, or whoever drove it is gone.
            if let Some(asked_for) = place.and_then(|place| driving.drive(runner, id, by, place)) {
                asked_for.keep_going();
            }
            Ok((id, replayed))
        }))
        .await
    }

    /// The same for a request that takes the run back: also when that is while the run is recorded. Answers its id, and what takes it back;
    /// nothing if it was there and is driven already.
    pub(crate) async fn begin_for(
        self: &Arc<Self>,
        runner: Runner,
        by: Actor,
        place: Place,
        recording: impl Future<Output = Result<RunId, RunnerError>> + Send + 'static,
    ) -> Result<(RunId, Option<AskedFor>), RunnerError> {
        let driving = Arc::clone(self);
        brought_to_its_end(Box::pin(async move {
            let id = recording.await?;
            // Dropped with the answer if nobody takes that.
            Ok((id, driving.drive(runner, id, by, place)))
        }))
        .await
    }

    /// Whether the run `id` is driven here, or about to be: its row says so only when its driver has claimed it.
    pub(crate) fn drives(&self, id: RunId) -> bool {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().any(|(run, _, driven)| *run == id && !driven.is_finished())
    }

    /// Waits a little for the runs that were taken back. The others are left to who takes them up.
    pub(crate) async fn wind_down(&self) {
        let runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
        let stopping = async {
            for (_, taken_back, driven) in runs {
                if taken_back.is_cancelled() {
                    let _over = driven.await;
                }
            }
        };
        let _in_time = tokio::time::timeout(GRACE, stopping).await;
    }
}

/// Does `work`, also if whoever asked for it does not wait for it.
async fn brought_to_its_end<T: Send + 'static>(work: Pin<Box<dyn Future<Output = T> + Send>>) -> T {
    // It is aborted by nobody.
    tokio::spawn(work)
        .await
        .unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
}

/// Waits for the end of `driving`, or until `stopping` says that the run could not be stopped. Each goes on while the other waits: it may have
/// been given what the other one needs (decision 0096).
async fn driven(driving: impl Future, stopping: impl Future<Output = bool>) {
    let given_up = async {
        if stopping.await {
            // It comes to its end.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ended = driving => {}
        () = given_up => {}
    }
}

#[cfg(test)]
mod tests {
    use folio::Folio;
    use folio::engine::{Outcome, plan};
    use folio::memory::{Role, SpaceName};
    use folio::runner::{NewRun, RunnerOptions, Watch};
    use folio::tools::Registry;
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    /// A store, what drives its runs, and a run that is to be.
    async fn house() -> (Folio, Runner, NewRun) {
        let step = "{id: a, do: {tool: text, args: {op: echo, value: 1}}}";
        house_with(step).await
    }

    async fn house_with(step: &str) -> (Folio, Runner, NewRun) {
        let folio = Folio::open("memory:").await.expect("a store");
        let workspace = folio.workspace(SpaceName::main());
        let runner = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
        let text = format!("title: One\nsteps: [{step}]");
        let plan = plan::parse(&text, &runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
        (folio, runner, NewRun::of(plan, Actor::new(Role::Human, "ada")))
    }

    /// `recording` that begins once it is let go.
    fn held<T>(recording: impl Future<Output = T>) -> (oneshot::Sender<()>, impl Future<Output = T>) {
        let (go_on, held) = oneshot::channel();
        let recording = Box::pin(recording);
        let recording = async move {
            let _let_go = held.await;
            recording.await
        };
        (go_on, recording)
    }

    /// What the run comes to that is told when it is recorded.
    async fn comes_to(folio: &Folio, told: oneshot::Receiver<RunId>) -> Option<Outcome> {
        let id = told.await.expect("it is recorded");
        let mut watch = Watch::new(Arc::clone(folio.store()), SpaceName::main(), id);
        while watch.next().await.expect("its journal").is_some() {}
        watch.run().result().map(|result| result.status)
    }

    #[tokio::test]
    async fn a_run_that_two_requests_ask_for_at_once_is_driven_once() {
        let (_folio, runner, new) = house().await;
        let by = new.actor.clone();
        let (id, _) = runner.submit(new).await.expect("a run");
        let driving = Driving::of(&runner);
        let place = || driving.place().expect("a place");
        let first = driving.drive(runner.clone(), id, by.clone(), place());
        assert!(driving.drive(runner.clone(), id, by, place()).is_none());
        assert_eq!(driving.places.available_permits(), MOST_WITH_WAITING - 1);
        first.expect("the first one").keep_going();
    }

    #[tokio::test]
    async fn a_run_is_driven_although_whoever_asked_for_it_went_away_while_it_was_recorded() {
        let (folio, runner, new) = house().await;
        let (by, submits) = (new.actor.clone(), runner.clone());
        let driving = Driving::of(&runner);
        let (tell, told) = oneshot::channel();
        let (go_on, recording) = held(async move {
            let submitted = submits.submit_once(new).await?;
            let _kept = tell.send(submitted.id);
            Ok((submitted.id, submitted.replayed))
        });
        let place = driving.place().expect("a place");
        let asked = driving.begin(runner.clone(), by, Some(place), recording);
        assert!(tokio::time::timeout(Duration::ZERO, asked).await.is_err());
        go_on.send(()).expect("what was begun goes on");
        assert_eq!(comes_to(&folio, told).await, Some(Outcome::Ok));
    }

    #[tokio::test]
    async fn a_run_that_is_taken_back_while_it_is_recorded_is_stopped() {
        let (folio, runner, new) = house_with("{id: a, do: {tool: wait, args: {ms: 60000}}}").await;
        let (by, submits) = (new.actor.clone(), runner.clone());
        let driving = Driving::of(&runner);
        let (tell, told) = oneshot::channel();
        let (go_on, recording) = held(async move {
            let (id, _) = submits.submit(new).await?;
            let _kept = tell.send(id);
            Ok(id)
        });
        let place = driving.place().expect("a place");
        let asked = driving.begin_for(runner.clone(), by, place, recording);
        assert!(tokio::time::timeout(Duration::ZERO, asked).await.is_err());
        go_on.send(()).expect("what was begun goes on");
        assert_eq!(comes_to(&folio, told).await, Some(Outcome::Cancelled));
    }

    #[test]
    fn what_is_driven_goes_on_while_it_is_being_stopped() {
        let places = Semaphore::new(1);
        let taken = places.try_acquire().expect("the only one");
        let driving = async { drop(places.acquire().await) };
        let stopping = async {
            // It waits behind what is driven.
            tokio::task::yield_now().await;
            drop(places.acquire().await);
            true
        };
        let mut driven = std::pin::pin!(driven(driving, stopping));
        for _ in 0..2 {
            assert_eq!(driven.as_mut().now_or_never(), None);
        }
        drop(taken);
        assert_eq!(driven.now_or_never(), Some(()));
    }
}
