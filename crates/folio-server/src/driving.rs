//! The runs that this server drives: few at a time, stopped with the request that started them, and waited for at the end.

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
            let driving = runner.see_to(id, &busy);
            tokio::pin!(driving);
            // What a run comes to is in its journal, and so is that nobody drives it.
            tokio::select! {
                _ended = &mut driving => {}
                () = token.cancelled() => {
                    if runner.cancel(id, None, &by).await.is_ok() {
                        let _ended = driving.await;
                    }
                }
            }
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
        let begun = tokio::spawn(async move {
            let (id, replayed) = recording.await?;
            // Asked for again, it is driven already, or whoever drove it is gone.
            if let Some(asked_for) = place.and_then(|place| driving.drive(runner, id, by, place)) {
                asked_for.keep_going();
            }
            Ok((id, replayed))
        });
        // It is aborted by nobody.
        begun
            .await
            .unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
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

#[cfg(test)]
mod tests {
    use folio::Folio;
    use folio::engine::{Outcome, plan};
    use folio::memory::{Role, SpaceName};
    use folio::runner::{NewRun, RunnerOptions, Watch};
    use folio::tools::Registry;
    use tokio::sync::oneshot;

    use super::*;

    /// A store, what drives its runs, and a run that is to be.
    async fn house() -> (Folio, Runner, NewRun) {
        let folio = Folio::open("memory:").await.expect("a store");
        let workspace = folio.workspace(SpaceName::main());
        let runner = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
        let text = "title: One\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
        let plan = plan::parse(text, &runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
        (folio, runner, NewRun::of(plan, Actor::new(Role::Human, "ada")))
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
        let (go_on, held) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let recording = async move {
            let _let_go = held.await;
            let submitted = submits.submit_once(new).await?;
            let _kept = tell.send(submitted.id);
            Ok((submitted.id, submitted.replayed))
        };
        let place = driving.place().expect("a place");
        let asked = driving.begin(runner.clone(), by, Some(place), recording);
        assert!(tokio::time::timeout(Duration::ZERO, asked).await.is_err());
        go_on.send(()).expect("what was begun goes on");
        let id = told.await.expect("it is recorded");
        let mut watch = Watch::new(Arc::clone(folio.store()), SpaceName::main(), id);
        while watch.next().await.expect("its journal").is_some() {}
        assert_eq!(watch.run().result().map(|result| result.status), Some(Outcome::Ok));
    }
}
