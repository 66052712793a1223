//! Runs that are given up because their store fails, and what becomes of what is under way in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use folio_engine::{Outcome, plan};
use folio_memory::{Actor, Role, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{ErrorKind, RandomIds, SystemClock, Workspace};
use folio_testkit::FaultyStore;
use folio_tools::{Effect, Registry, ToolResponse, ToolSpec};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

/// Nothing takes this long.
const FAR_AWAY: Duration = Duration::from_secs(60);

/// What the calls of a tool do that goes on until it is told to stop, or may end.
#[derive(Debug, Default)]
struct Calls {
    begun: Notify,
    may_end: Notify,
    /// How many were told to stop, and had the time to clean up.
    cleaned_up: AtomicUsize,
}

#[tokio::test]
async fn calls_of_a_run_whose_store_fails_are_told_to_stop_before_they_end() {
    let store = Arc::new(FaultyStore::new(SqliteStore::open(&OpenOptions::in_memory()).unwrap()));
    let workspace = Workspace::new(
        Arc::clone(&store) as _,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    );
    let (calls, other) = (Arc::new(Calls::default()), Arc::new(Semaphore::new(0)));
    let mut registry = Registry::with_builtins();
    let seen = Arc::clone(&calls);
    registry.register_fn(
        ToolSpec::new("lasts", Effect::Idempotent, "Goes on."),
        move |request, context| {
            let calls = Arc::clone(&seen);
            async move {
                calls.begun.notify_one();
                tokio::select! {
                    () = context.cancel.cancelled() => {
                        tokio::task::yield_now().await;
                        calls.cleaned_up.fetch_add(1, Ordering::SeqCst);
                    }
                    () = calls.may_end.notified() => {}
                }
                Ok(ToolResponse::ok(&request, json!(1), ""))
            }
        },
    );
    let ends = Arc::clone(&other);
    registry.register_fn(
        ToolSpec::new("ends", Effect::Idempotent, "Ends when it may."),
        move |request, _| {
            let ends = Arc::clone(&ends);
            async move {
                ends.acquire().await.unwrap().forget();
                Ok(ToolResponse::ok(&request, json!(2), ""))
            }
        },
    );
    let runner = Runner::new(workspace, registry, RunnerOptions::default());
    let steps = json!({"title": "t", "steps": [{"parallel": [{"id": "a", "do": {"tool": "lasts"}}, {"id": "b", "do": {"tool": "ends"}}]}]});
    let plan = plan::from_value(&steps, &runner.known()).unwrap();
    let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
    let (run, _) = runner.submit(new).await.unwrap();
    let driver = runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    calls.begun.notified().await;
    // As when the disk is full.
    store.take_away();
    other.add_permits(2);
    let driven = tokio::time::timeout(FAR_AWAY, driving).await.unwrap().unwrap();
    assert!(
        matches!(&driven, Err(RunnerError::Store(error)) if error.kind() == ErrorKind::Unavailable),
        "{driven:?}"
    );
    assert_eq!(calls.cleaned_up.load(Ordering::SeqCst), 1);
    // There is room again: the same process goes on with it.
    store.heal();
    assert_eq!(runner.unfinished().await.unwrap().len(), 1);
    calls.may_end.notify_one();
    let driven = tokio::time::timeout(FAR_AWAY, runner.drive(run)).await.unwrap();
    assert_eq!(driven.unwrap().status, Outcome::Ok);
    assert_eq!(calls.cleaned_up.load(Ordering::SeqCst), 1);
}
