//! Runs that other processes are to drive, and what happens to those that wait for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::plan;
use folio_engine::{Outcome, StopReason};
use folio_memory::{Actor, Role, RunId, Seq, SpaceName};
use folio_runner::{Busy, Dispatch, Fate, NewRun, Runner, RunnerError, RunnerOptions};
use folio_tools::Registry;
use serde_json::json;
use tokio::time::Instant;

/// The answers, in order, to queries for the fate of a run; the last one is repeated.
#[derive(Debug)]
struct Scripted {
    fates: Mutex<VecDeque<Result<Fate, ()>>>,
    asked: Mutex<u32>,
    /// The runner that drives the run after so many queries.
    worker: Option<(Runner, u32)>,
}

#[async_trait]
impl Dispatch for Scripted {
    async fn dispatch(&self, _: &SpaceName, _: RunId, _: Seq) -> Result<(), RunnerError> {
        Ok(())
    }

    async fn fate(&self, _: &SpaceName, run: RunId, _: Seq) -> Result<Fate, RunnerError> {
        let asked = {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        if let Some((worker, _)) = self.worker.as_ref().filter(|(_, after)| *after == asked) {
            worker.drive(run).await.unwrap();
        }
        let mut fates = self.fates.lock().unwrap();
        let fate = if fates.len() > 1 {
            fates.pop_front()
        } else {
            fates.front().cloned()
        };
        fate.unwrap().map_err(|()| RunnerError::Dispatch {
            at: "there".to_owned(),
            reason: "it is away".to_owned(),
        })
    }
}

struct House {
    submitter: Runner,
    others: Arc<Scripted>,
    _folder: tempfile::TempDir,
}

impl House {
    /// Others that report `fates` of a run, and drive it after `driven_after` queries, if ever.
    fn new(fates: impl IntoIterator<Item = Result<Fate, ()>>, driven_after: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::models_support::sqlite(&folder.path().join("folio.db"));
        let runner = |dispatch: Option<Arc<dyn Dispatch>>| {
            let options = RunnerOptions {
                dispatch,
                ..RunnerOptions::default()
            };
            let workspace = crate::models_support::workspace(Arc::clone(&store));
            Runner::new(workspace, Registry::with_builtins(), options)
        };
        let others = Arc::new(Scripted {
            fates: Mutex::new(fates.into_iter().collect()),
            asked: Mutex::default(),
            worker: driven_after.map(|after| (runner(None), after)),
        });
        Self {
            submitter: runner(Some(Arc::clone(&others) as Arc<dyn Dispatch>)),
            others,
            _folder: folder,
        }
    }

    async fn submit(&self) -> RunId {
        let echo = json!({"title": "Echo", "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}]});
        let plan = plan::from_value(&echo, &self.submitter.known()).unwrap();
        let new = NewRun::of(plan, Actor::new(Role::Human, "test"));
        self.submitter.submit(new).await.unwrap().0
    }

    fn asked(&self) -> u32 {
        *self.others.asked.lock().unwrap()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "one of several answers")]
fn refused() -> Result<Fate, ()> {
    Ok(Fate::Refused {
        at: "there".to_owned(),
        reason: "it uses another store".to_owned(),
    })
}

fn is_refusal(error: &RunnerError) -> bool {
    matches!(error, RunnerError::Dispatch { reason, .. } if reason == "it uses another store")
}

#[tokio::test(start_paused = true)]
async fn drive_fails_after_three_refusals_by_workers() {
    let house = House::new([refused()], None);
    let run = house.submit().await;
    let began = Instant::now();
    let error = house.submitter.drive(run).await.unwrap_err();
    assert!(is_refusal(&error), "{error}");
    // Said three times: a worker that finds the run in its store may have needed that long.
    assert_eq!(house.asked(), 3);
    assert!(began.elapsed() >= Duration::from_secs(14), "{:?}", began.elapsed());
    let error = house
        .submitter
        .ensure_driven_to_end(run, &Busy::default().begin())
        .await
        .unwrap_err();
    assert!(is_refusal(&error), "{error}");
}

#[tokio::test(start_paused = true)]
async fn refused_run_is_awaited_if_another_worker_drives_it() {
    let house = House::new([refused()], Some(2));
    let run = house.submit().await;
    let result = house.submitter.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok);
    let house = House::new([refused()], Some(2));
    let run = house.submit().await;
    house
        .submitter
        .ensure_driven_to_end(run, &Busy::default().begin())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn run_without_a_worker_is_awaited_without_a_time_limit() {
    let answers = (0..20).map(|n| if n % 3 == 0 { Err(()) } else { Ok(Fate::Open) });
    let house = House::new(answers, Some(20));
    let run = house.submit().await;
    let began = Instant::now();
    let result = house.submitter.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok);
    // Twenty times, more and more seldom. Each time the store is read, which the clock here does not wait for: it runs
    // ahead meanwhile, so how much longer it was depends on the machine.
    assert_eq!(house.asked(), 20);
    let waited = began.elapsed();
    assert!(waited.as_secs() >= 62 + 15 * 60, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn dispatcher_is_not_queried_again_after_the_run_was_taken() {
    let house = House::new([Ok(Fate::Taken), refused()], None);
    let run = house.submit().await;
    let waiting = tokio::time::timeout(Duration::from_secs(3_600), house.submitter.drive(run));
    assert!(waiting.await.is_err(), "it is still waited for");
    assert_eq!(house.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_waiter_of_a_run_is_notified_of_its_end() {
    let house = House::new([Ok(Fate::Open)], Some(2));
    let run = house.submit().await;
    let busy = [Busy::default().begin(), Busy::default().begin()];
    let both = busy
        .each_ref()
        .map(|busy| house.submitter.ensure_driven_to_end(run, busy));
    let ended = tokio::time::timeout(Duration::from_hours(24 * 365), futures_util::future::try_join_all(both));
    let ended = ended.await.expect("nobody waits for a run that has ended").unwrap();
    assert_eq!(ended.len(), 2);
    let run = house.submitter.load(run).await.unwrap();
    assert!(
        run.result().is_some(),
        "they were told when it had ended, and not before"
    );
}

#[tokio::test]
async fn unattended_run_asks_no_person_even_on_an_attended_worker_e9_14() {
    let house = House::new([refused()], None);
    let plan = json!({"title": "Look", "steps": [{"id": "visit", "title": "Go down and look", "executor": "human"}]});
    let plan = plan::from_value(&plan, &house.submitter.known()).unwrap();
    let new = NewRun {
        is_unattended: true,
        ..NewRun::of(plan, Actor::new(Role::Human, "test"))
    };
    let run = house.submitter.submit(new).await.unwrap().0;
    // Somebody is there where it is driven.
    let options = RunnerOptions {
        has_person: true,
        ..RunnerOptions::default()
    };
    let worker = Runner::new(house.submitter.workspace().clone(), Registry::with_builtins(), options);
    let result = worker.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Failed, "{}", result.notes);
    let loaded = worker.load(run).await.unwrap();
    let reason = loaded.node_at("visit").unwrap().result.unwrap().stop_reason;
    assert_eq!(reason, Some(StopReason::NeedsInput));
}
