//! What a program relies on that makes plans in code, and makes and drops runners as it likes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::Outcome;
use folio_engine::plan::{self, Plan, Slug, Step};
use folio_memory::{Actor, Clock, Role, RunId, SpaceName};
use folio_runner::{Driven, Hindrance, NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{ErrorKind, RandomIds, RunQuery, SqliteStore, Store, SystemClock, Workspace};
use folio_testkit::SimClock;
use folio_tools::{Effect, Registry, ToolSpec};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

fn workspace(store: &Arc<SqliteStore>, clock: Arc<dyn Clock>) -> Workspace {
    let store = Arc::clone(store) as Arc<dyn Store>;
    Workspace::new(store, clock, Arc::new(RandomIds::default()), SpaceName::main())
}

fn runner(store: &Arc<SqliteStore>, registry: Registry) -> Runner {
    let workspace = workspace(store, Arc::new(SystemClock));
    Runner::new(workspace, registry, RunnerOptions::default())
}

/// A registry with the tool `endless`, which announces that it was called.
fn endless(called: &Arc<Notify>) -> Registry {
    let (mut registry, called) = (Registry::empty(), Arc::clone(called));
    registry.register_fn(ToolSpec::new("endless", Effect::Pure, "Never ends."), move |_, _| {
        called.notify_one();
        std::future::pending()
    });
    registry
}

fn new_run(steps: &str) -> NewRun {
    let text = format!("title: From code\nsteps: {steps}");
    let plan = plan::parse(&text, &plan::Known::default()).unwrap();
    NewRun::of(plan, Actor::new(Role::Human, "ada"))
}

/// The plan of two calls, `a` and `b`, changed by `change`.
fn changed(change: impl FnOnce(&mut Plan)) -> NewRun {
    let mut new = new_run(
        "[{id: a, do: {tool: text, args: {op: echo, value: 1}}}, {id: b, do: {tool: text, args: {op: echo, value: 2}}}]",
    );
    change(&mut new.plan);
    new
}

#[tokio::test]
async fn plan_made_in_code_is_checked_before_it_is_recorded() {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let runner = runner(&store, Registry::with_builtins());
    let need = |plan: &mut Plan, at: usize, id: &str| match &mut plan.steps[at] {
        Step::Task(task) => Arc::make_mut(task).needs = Some(vec![Slug::parse(id).unwrap()]),
        step => panic!("{step:?}"),
    };
    let circle = |plan: &mut Plan| {
        need(plan, 0, "b");
        need(plan, 1, "a");
    };
    let cases = [
        ("wait for each other", changed(circle)),
        ("already", changed(|plan| plan.steps[1] = plan.steps[0].clone())),
        ("nowhere", changed(|plan| need(plan, 0, "nowhere"))),
    ];
    for (wrong, new) in cases {
        let error = runner.submit(new).await.unwrap_err();
        assert!(matches!(error, RunnerError::Plan(_)), "{error:?}");
        assert_eq!((error.code(), error.kind()), ("plan_invalid", ErrorKind::Invalid));
        assert!(error.to_string().contains(wrong), "{error}");
    }
    let runs = runner.workspace().runs(&RunQuery::default()).await.unwrap();
    assert!(runs.is_empty(), "{runs:?}");
}

#[tokio::test]
async fn goal_without_steps_is_a_plan_for_whoever_has_a_model() {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let goal = || {
        NewRun::of(
            Plan::of_goal("Say which wine goes with it"),
            Actor::new(Role::Human, "ada"),
        )
    };
    let error = runner(&store, Registry::with_builtins())
        .submit(goal())
        .await
        .unwrap_err();
    assert!(matches!(error, RunnerError::NeedsModel { .. }), "{error:?}");
    let mut wrong = goal();
    wrong.plan.version = 7;
    let error = runner(&store, Registry::with_builtins())
        .submit(wrong)
        .await
        .unwrap_err();
    assert!(matches!(error, RunnerError::Plan(_)), "{error:?}");
}

/// The files in `folder` by whose locks others see that a driver is alive.
fn locks(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).unwrap();
    files
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains("-owner-"))
        .count()
}

#[tokio::test]
async fn runner_that_is_gone_leaves_nothing_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    for _ in 0..3 {
        let runner = runner(&store, Registry::with_builtins());
        let (run, _) = runner.submit(changed(|_| {})).await.unwrap();
        runner.drive(run).await.unwrap();
        assert_eq!(locks(folder.path()), 1);
        // Others in the process, for other spaces, claim under the same name.
        let beside = runner.in_space("beside".parse().unwrap());
        drop(runner);
        assert_eq!(locks(folder.path()), 1);
        drop(beside);
        assert_eq!(locks(folder.path()), 0);
    }
}

#[test]
fn run_whose_runtime_ended_is_driven_by_the_next_runner() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let called = Arc::new(Notify::new());
    let run: RunId = {
        let runner = runner(&store, endless(&called));
        let runtime = Runtime::new().unwrap();
        let run = runtime.block_on(async {
            let (run, _) = runner.submit(new_run("[{id: a, do: {tool: endless}}]")).await.unwrap();
            let driving = runner.clone();
            tokio::spawn(async move { driving.drive(run).await });
            called.notified().await;
            run
        });
        runtime.shutdown_timeout(Duration::from_secs(5));
        run
    };
    let runner = runner(&store, Registry::with_builtins());
    Runtime::new().unwrap().block_on(async {
        let error = runner.drive(run).await.unwrap_err();
        assert!(
            matches!(error, RunnerError::NotEquipped { .. }),
            "nobody else drives it: {error:?}"
        );
    });
}

#[tokio::test]
async fn run_whose_drive_was_aborted_is_unfinished_at_once() {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let called = Arc::new(Notify::new());
    let runner = runner(&store, endless(&called));
    let mut driving = Vec::new();
    for _ in 0..20 {
        let (run, _) = runner.submit(new_run("[{id: a, do: {tool: endless}}]")).await.unwrap();
        let runner = runner.clone();
        driving.push(tokio::spawn(async move { runner.drive(run).await }));
        called.notified().await;
    }
    for task in &driving {
        task.abort();
    }
    for task in driving {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert_eq!(runner.unfinished().await.unwrap().len(), 20);
}

#[tokio::test]
async fn leftover_run_is_resumed_unless_something_hinders_that() {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let clock = SimClock::default();
    let runner = |has_person| {
        let options = RunnerOptions {
            has_person,
            ..RunnerOptions::default()
        };
        Runner::new(
            workspace(&store, Arc::new(clock.clone())),
            Registry::with_builtins(),
            options,
        )
    };
    let (attended, later) = (runner(true), runner(false));
    let person = Actor::new(Role::Human, "ada");
    let call = "[{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
    let submit = async |steps: &str| attended.submit(new_run(steps)).await.unwrap().0;

    // Its driver asked a person, and is gone.
    let asks = submit("[{id: sign, title: Sign, description: Sign it, executor: human}]").await;
    let asked = attended.drive_while_due(asks, Duration::from_millis(1)).await.unwrap();
    assert!(matches!(asked, Driven::Waits { .. }), "{asked:?}");
    let paused = submit(call).await;
    attended.pause(paused, None, &person).await.unwrap();
    let never_driven = submit(call).await;
    clock.advance(Duration::from_secs(15));
    let new = submit(call).await;

    let leftovers = later.leftovers().await.unwrap();
    let hindrances: Vec<_> = leftovers.iter().map(|one| (one.row.id, one.hindrance)).collect();
    let expected = [
        (asks, Some(Hindrance::NeedsPerson)),
        (paused, Some(Hindrance::Paused)),
        (never_driven, None),
        (new, Some(Hindrance::BeingBegun)),
    ];
    assert_eq!(hindrances, expected);

    let resumed = later.resume_leftovers().await.unwrap().join_all().await;
    let ended: Vec<_> = resumed
        .iter()
        .map(|(row, driven)| (row.id, driven.as_ref().unwrap()))
        .collect();
    assert!(
        matches!(ended[..], [(run, Driven::Ended(result))] if run == never_driven && result.status == Outcome::Ok),
        "{ended:?}"
    );
    // The question is still open for the person, and the submitter has its run.
    assert_eq!(later.load(asks).await.unwrap().questions().len(), 1);
    assert_eq!(attended.drive(new).await.unwrap().status, Outcome::Ok);
}
