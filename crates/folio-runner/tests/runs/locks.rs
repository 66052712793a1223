//! Calls of different runs that write the same resource (E9.15).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use folio_engine::{NodeResult, Outcome, plan};
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::TraceQuery;
use folio_store::{RandomIds, Store, SystemClock, Workspace};
use folio_testkit::FaultyStore;
use folio_tools::{ArgKind, Effect, Registry, ToolResponse, ToolSpec};
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A tool that writes on a desk.
fn write_on() -> ToolSpec {
    ToolSpec::new("write_on", Effect::Idempotent, "Writes on a desk.")
        .required("desk", ArgKind::Text, "Which.")
        .writes_to("desks/{desk}")
}

fn runner(registry: Registry) -> Runner {
    runner_on(SqliteStore::open(&OpenOptions::in_memory()).unwrap(), registry)
}

fn runner_on(store: Arc<dyn Store>, registry: Registry) -> Runner {
    let workspace = Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    );
    Runner::new(workspace, registry, RunnerOptions::default())
}

/// The largest number of concurrent writers among `runs` runs that each write twice, on the desks that `desk` gives
/// them.
async fn max_concurrent_calls(runs: usize, desk: fn(usize) -> String) -> usize {
    let most = Arc::new(AtomicUsize::new(0));
    let mut registry = Registry::with_builtins();
    let (at_it, seen) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&most));
    // It writes for a while, and sees how many do.
    registry.register_fn(write_on(), move |request, _| {
        let (at_it, seen) = (Arc::clone(&at_it), Arc::clone(&seen));
        async move {
            let now = at_it.fetch_add(1, Ordering::SeqCst) + 1;
            seen.fetch_max(now, Ordering::SeqCst);
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            at_it.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolResponse::ok(&request, json!(now), ""))
        }
    });
    let runner = runner(registry);
    let mut driving = Vec::new();
    for number in 0..runs {
        let call = json!({"tool": "write_on", "args": {"desk": desk(number)}});
        let steps = json!({"version": 1, "title": "t", "steps": [{"id": "a", "do": call}, {"id": "b", "do": call}]});
        let plan = plan::from_value(&steps, &runner.known()).unwrap();
        let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
        let (run, _) = runner.submit(new).await.unwrap();
        let driver = runner.clone();
        driving.push(tokio::spawn(async move { driver.drive(run).await }));
    }
    for driven in driving {
        let result = driven.await.unwrap().unwrap();
        assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    }
    most.load(Ordering::SeqCst)
}

#[tokio::test]
async fn runs_that_write_one_resource_do_so_in_turn_e9_15() {
    assert_eq!(max_concurrent_calls(6, |_| "one".to_owned()).await, 1);
    // Of several parts of it, too, if somebody has all of it.
    let nested = |number: usize| {
        if number == 0 {
            "one".to_owned()
        } else {
            "one/part".to_owned()
        }
    };
    assert_eq!(max_concurrent_calls(6, nested).await, 1);
    let apart = max_concurrent_calls(6, |number| format!("desk {number}")).await;
    assert!(apart > 1, "nobody waits for what others write elsewhere");
}

/// A runner whose calls of `write_on` end when released.
fn holding(ends: &Arc<Semaphore>) -> Runner {
    runner(holding_tools(ends))
}

fn holding_tools(ends: &Arc<Semaphore>) -> Registry {
    let mut registry = Registry::with_builtins();
    let ends = Arc::clone(ends);
    registry.register_fn(write_on(), move |request, _| {
        let ends = Arc::clone(&ends);
        async move {
            ends.acquire().await.unwrap().forget();
            Ok(ToolResponse::ok(&request, json!(1), ""))
        }
    });
    registry
}

/// A run that writes on `desk`, and its driver.
async fn begun(runner: &Runner, desk: &str) -> (RunId, JoinHandle<Result<NodeResult, RunnerError>>) {
    let steps = json!({"title": "t", "steps": [{"id": "a", "do": {"tool": "write_on", "args": {"desk": desk}}}]});
    let plan = plan::from_value(&steps, &runner.known()).unwrap();
    let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
    let (run, _) = runner.submit(new).await.unwrap();
    let driver = runner.clone();
    (run, tokio::spawn(async move { driver.drive(run).await }))
}

/// The same, once it writes.
async fn writing(runner: &Runner, desk: &str) -> (RunId, JoinHandle<Result<NodeResult, RunnerError>>) {
    let (run, driven) = begun(runner, desk).await;
    let mut watch = runner.watch(run);
    while watch.run().in_flight().is_empty() {
        watch.next().await.unwrap();
    }
    (run, driven)
}

#[tokio::test]
async fn run_no_longer_driven_is_not_reported_as_waiting_e9_15() {
    let ends = Arc::new(Semaphore::new(0));
    let runner = holding(&ends);
    let (_, one) = writing(&runner, "one").await;
    let (second, other) = begun(&runner, "one").await;
    let held_up = runner.held_up(second, None).await.unwrap();
    other.abort();
    assert!(other.await.unwrap_err().is_cancelled());
    assert_eq!(runner.held_up(second, Some(&held_up)).now_or_never(), Some(None));
    ends.add_permits(1);
    assert_eq!(one.await.unwrap().unwrap().status, Outcome::Ok);
}

#[tokio::test]
async fn waiting_run_names_the_resource_and_its_holder_e9_15() {
    let ends = Arc::new(Semaphore::new(0));
    let runner = holding(&ends);
    let (first, one) = writing(&runner, "one").await;
    let (second, other) = begun(&runner, "one/part").await;
    let held_up = runner.held_up(second, None).await.unwrap();
    assert_eq!((held_up.name.as_str(), held_up.by), ("desks/one", first));
    let (row, _) = runner.seen(second).await.unwrap();
    let (known, by) = runner.held_up_now(&row).await.unwrap().unwrap();
    assert_eq!((&known, by.id, by.handle.to_string().as_str()), (&held_up, first, "r1"));
    // Who does not drive it knows as much.
    let another = Runner::new(
        runner.workspace().clone(),
        Registry::with_builtins(),
        RunnerOptions::default(),
    );
    let (known, by) = another.held_up_now(&row).await.unwrap().unwrap();
    assert_eq!((&known, by.id), (&held_up, first));
    let (row, _) = runner.seen(first).await.unwrap();
    assert_eq!(another.held_up_now(&row).await.unwrap(), None);
    ends.add_permits(2);
    assert_eq!(runner.held_up(second, Some(&held_up)).await, None);
    for driven in [one, other] {
        assert_eq!(driven.await.unwrap().unwrap().status, Outcome::Ok);
    }
    let (row, _) = runner.seen(second).await.unwrap();
    assert_eq!(another.held_up_now(&row).await.unwrap(), None);
    let notes = runner.workspace().trace(TraceQuery::default()).await.unwrap();
    let told = notes.iter().filter(|note| note.operation == "wait_for_run");
    let told: Vec<_> = told.map(|note| (note.run, note.detail.clone())).collect();
    let detail = json!({"text": format!("{first} writes desks/one")});
    assert_eq!(told, [(Some(second), Some(detail))]);
}

#[tokio::test]
async fn waiting_runs_do_not_starve_runs_beyond_the_step_limit_e9_15() {
    assert_eq!(max_concurrent_calls(160, |_| "one".to_owned()).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_waiting_for_one_elsewhere_is_not_folded_at_each_commit_of_it_e9_15() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let (ends, counted) = (Arc::new(Semaphore::new(0)), Arc::new(FaultyStore::new(open())));
    // Two processes.
    let there = runner_on(open(), holding_tools(&ends));
    let here = runner_on(Arc::clone(&counted) as Arc<dyn Store>, holding_tools(&ends));
    let (first, one) = writing(&there, "one").await;
    let mut asked = counted.written_names_asked();
    let (second, other) = begun(&here, "one").await;
    here.held_up(second, None).await.unwrap();
    let read = counted.journals_read();
    let ada = Actor::new(Role::Human, "ada");
    for _ in 0..4 {
        let before = *asked.borrow_and_update();
        there.pause(first, None, &ada).await.unwrap();
        there.go_on(first, None, &ada).await.unwrap();
        asked.wait_for(|asked| *asked > before + 1).await.unwrap();
    }
    assert_eq!(counted.journals_read(), read);
    ends.add_permits(2);
    for driven in [one, other] {
        assert_eq!(driven.await.unwrap().unwrap().status, Outcome::Ok);
    }
    tokio::task::spawn_blocking(|| drop((there, here, counted)))
        .await
        .unwrap();
}
