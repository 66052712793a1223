//! What a program relies on that makes plans in code, and makes and drops runners as it likes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::plan::{self, Plan, Slug, Step};
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{ErrorKind, RandomIds, RunQuery, SqliteStore, Store, SystemClock, Workspace};
use folio_tools::{Effect, Registry, ToolSpec};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

fn workspace(store: &Arc<SqliteStore>) -> Workspace {
    let store = Arc::clone(store) as Arc<dyn Store>;
    Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    )
}

fn runner(store: &Arc<SqliteStore>, registry: Registry) -> Runner {
    Runner::new(workspace(store), registry, RunnerOptions::default())
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
        let mut registry = Registry::empty();
        let calls = Arc::clone(&called);
        registry.register_fn(ToolSpec::new("endless", Effect::Pure, "Never ends."), move |_, _| {
            calls.notify_one();
            std::future::pending()
        });
        let runner = runner(&store, registry);
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
