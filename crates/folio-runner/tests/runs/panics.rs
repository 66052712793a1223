//! What panics, or is dropped, does not affect what runs beside it or continues later.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::{Outcome, plan};
use folio_memory::id::Ref;
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_model::{Delta, Model, ModelError, Reply, Request};
use folio_runner::{NewRun, Runner, RunnerError, RunnerModel, RunnerModels, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, SystemClock, Workspace};
use folio_testkit::{FaultyStore, Work};
use folio_tools::{Effect, Reconciled, Registry, Tool, ToolContext, ToolRequest, ToolResponse, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Semaphore};

#[tokio::test]
async fn panic_in_one_call_leaves_the_results_of_its_siblings() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
    let mut registry = Registry::with_builtins();
    let spec = ToolSpec::new("breaks", Effect::Read, "breaks off");
    let spec = spec.required("number", folio_tools::ArgKind::Count, "which");
    let all = Arc::new(Barrier::new(5));
    // It waits until five are at work; then the third breaks off, and the others answer.
    registry.register_fn(spec, move |request, _| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            let number = request.args["number"].as_u64().unwrap();
            assert_ne!(number, 3, "not this one");
            Ok(ToolResponse::ok(&request, json!(number), ""))
        }
    });
    let runner = Runner::new(
        Workspace::new(store, clock, ids, SpaceName::main()),
        registry,
        RunnerOptions::default(),
    );
    let member =
        |number: u32| json!({"id": format!("m{number}"), "do": {"tool": "breaks", "args": {"number": number}}});
    let members: Vec<_> = (1..=5).map(member).collect();
    let document = json!({
        "title": "five", "budget": {"concurrency": 5},
        "steps": [{"id": "all", "parallel": members}],
        "report": "{% for n in results.all.output %}{{ n }}={{ results.all.output[n] }} {% endfor %}",
    });
    let plan = plan::from_value(&document, &runner.known()).unwrap();
    let run = runner
        .submit(NewRun::of(plan, Actor::new(Role::Human, "test")))
        .await
        .unwrap()
        .0;
    let result = runner.drive(run).await.unwrap();
    let run = runner.load(run).await.unwrap();
    let ended = |number: u32| run.node_at(&format!("all/m{number}")).unwrap().result.unwrap().status;
    assert_eq!(
        (1..=5).map(ended).collect::<Vec<_>>(),
        [Outcome::Ok, Outcome::Ok, Outcome::Failed, Outcome::Ok, Outcome::Ok]
    );
    let broken = run.node_at("all/m3").unwrap().result.unwrap();
    assert!(
        broken.notes.contains("breaks panicked") && broken.notes.contains("not this one"),
        "{}",
        broken.notes
    );
    assert_eq!(run.report().unwrap().1, "m1=1 m2=2 m3=null m4=4 m5=5 ");
    assert_eq!(result.status, Outcome::Failed, "a group is as its worst member");
}

fn space() -> Workspace {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    )
}

async fn submitted(runner: &Runner, document: &Value) -> RunId {
    let plan = plan::from_value(document, &runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
    let new = NewRun::of(plan, Actor::new(Role::Human, "test"));
    runner.submit(new).await.unwrap().0
}

#[derive(Debug)]
struct Broken;

#[async_trait]
impl Model for Broken {
    async fn reply(&self, _: &Request, _: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        panic!("no words today")
    }
}

#[tokio::test]
async fn model_panic_fails_its_task_and_ends_the_run() {
    let options = RunnerOptions {
        models: Some(RunnerModels::one(RunnerModel::new("broken", Arc::new(Broken)))),
        ..RunnerOptions::default()
    };
    let runner = Runner::new(space(), Registry::with_builtins(), options);
    let run = submitted(&runner, &json!({"title": "one", "steps": [{"title": "Say something"}]})).await;
    let result = runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Failed);
    let folded = runner.load(run).await.unwrap();
    let notes = &folded.node_at("say-something").unwrap().result.unwrap().notes;
    assert!(notes.contains("it panicked: no words today"), "{notes}");
}

/// Panics because it reads a missing argument.
#[derive(Debug)]
struct PanickingTool {
    spec: ToolSpec,
}

#[async_trait]
impl Tool for PanickingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resources(&self, args: &Value, _: &ToolContext) -> Vec<String> {
        vec![args["id"].as_str().unwrap().to_owned()]
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        ToolResponse::ok(request, json!(1), "done")
    }
}

#[tokio::test]
async fn tool_that_panics_while_naming_its_resources_is_still_called() {
    let mut registry = Registry::with_builtins();
    registry.register(Arc::new(PanickingTool {
        spec: ToolSpec::new("careless", Effect::Read, "does not look"),
    }));
    let runner = Runner::new(space(), registry, RunnerOptions::default());
    let run = submitted(
        &runner,
        &json!({"title": "one", "steps": [{"id": "a", "do": {"tool": "careless", "args": {}}}]}),
    )
    .await;
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok);
}

/// Signals that it is running, and ends when released.
#[derive(Debug)]
struct BlockingTool {
    spec: ToolSpec,
    at_work: Semaphore,
    let_go: Semaphore,
}

#[async_trait]
impl Tool for BlockingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        self.at_work.add_permits(1);
        self.let_go.acquire().await.unwrap().forget();
        ToolResponse::ok(request, json!(1), "done")
    }
}

/// The tool, and two runners of one space for a run whose only step calls it.
fn waiting() -> (Arc<BlockingTool>, Workspace, [Runner; 2], Value) {
    let waits = Arc::new(BlockingTool {
        spec: ToolSpec::new("waits", Effect::Read, "waits"),
        at_work: Semaphore::new(0),
        let_go: Semaphore::new(0),
    });
    let mut registry = Registry::with_builtins();
    registry.register(Arc::clone(&waits) as _);
    let workspace = space();
    let runners = [(); 2].map(|()| Runner::new(workspace.clone(), registry.clone(), RunnerOptions::default()));
    let document = json!({"title": "one", "steps": [{"id": "a", "do": {"tool": "waits", "args": {}}}]});
    (waits, workspace, runners, document)
}

#[tokio::test]
async fn dropped_drive_releases_the_run_to_any_runner() {
    let (waits, workspace, [one, other], document) = waiting();
    let run = submitted(&one, &document).await;
    for _ in 0..3 {
        // The same one goes on at once, whatever became of giving it up.
        tokio::select! {
            ended = one.drive(run) => panic!("{ended:?}"),
            begun = waits.at_work.acquire() => begun.unwrap().forget(),
        }
    }
    // Whoever else wants it waits until it is given up.
    assert_given_up(&workspace, run).await;
    let taken = |error: &RunnerError| error.code() == "run_taken";
    waits.let_go.add_permits(1);
    let ended = other.drive(run).await;
    assert!(!ended.as_ref().is_err_and(taken), "{ended:?}");
    assert_eq!(ended.unwrap().status, Outcome::Ok);
}

/// Waits until `run` is no longer driven.
async fn assert_given_up(workspace: &Workspace, run: RunId) {
    let mut tries = 0;
    while workspace.run(Ref::Id(run)).await.unwrap().driven {
        tries += 1;
        assert!(tries < 100_000, "it is not given up");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn dropped_claim_releases_the_run_to_any_runner_e9_9() {
    let (waits, workspace, [one, other], document) = waiting();
    waits.let_go.add_permits(2);
    let store = Arc::new(FaultyStore::new(Arc::clone(workspace.store())));
    let (clock, ids) = (Arc::clone(workspace.clock()), Arc::clone(workspace.ids()));
    let held_up = Workspace::new(Arc::clone(&store) as _, clock, ids, SpaceName::main());
    let drops = Runner::new(held_up, one.tools().clone(), RunnerOptions::default());
    for is_the_same in [false, true] {
        let run = submitted(&one, &document).await;
        let gate = store.hold(Work::Claim);
        tokio::select! {
            ended = drops.drive(run) => panic!("{ended:?}"),
            () = gate.wait_until_reached() => {}
        }
        let ended = if is_the_same {
            // It is not refused for the one that has gone away.
            let mut again = Box::pin(drops.drive(run));
            let refused = tokio::time::timeout(Duration::from_millis(20), &mut again).await;
            assert!(refused.is_err(), "{refused:?}");
            gate.open();
            again.await
        } else {
            gate.open();
            assert_given_up(&workspace, run).await;
            other.drive(run).await
        };
        assert_eq!(ended.unwrap().status, Outcome::Ok);
    }
}

#[test]
fn cancel_reaches_a_driver_after_an_earlier_runtime_is_gone() {
    let (waits, _, [one, other], document) = waiting();
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    let run = first.block_on(async {
        let run = submitted(&one, &document).await;
        tokio::select! {
            ended = one.drive(run) => panic!("{ended:?}"),
            begun = waits.at_work.acquire() => begun.unwrap().forget(),
        }
        run
    });
    drop(first);
    let ended = runtime().block_on(async {
        let driving = tokio::spawn({
            let one = one.clone();
            async move { one.drive(run).await }
        });
        waits.at_work.acquire().await.unwrap().forget();
        other.cancel(run, None, &Actor::new(Role::Human, "ada")).await.unwrap();
        tokio::time::timeout(Duration::from_secs(20), driving).await
    });
    assert_eq!(
        ended.expect("it is told of it").unwrap().unwrap().status,
        Outcome::Cancelled
    );
}

/// Never ends, and neither does its reconciliation.
#[derive(Debug)]
struct Deaf {
    spec: ToolSpec,
    at_work: Semaphore,
    asked: Semaphore,
}

#[async_trait]
impl Tool for Deaf {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: &ToolRequest, _: &ToolContext) -> ToolResponse {
        self.at_work.add_permits(1);
        std::future::pending().await
    }

    async fn reconcile(&self, _: &ToolRequest, _: &ToolContext) -> Reconciled {
        self.asked.add_permits(1);
        std::future::pending().await
    }
}

#[tokio::test]
async fn cancel_ends_a_run_whose_reconciliation_never_returns_e9_12() {
    let deaf = Arc::new(Deaf {
        spec: ToolSpec::new("deaf", Effect::Guarded, "hears nothing"),
        at_work: Semaphore::new(0),
        asked: Semaphore::new(0),
    });
    let mut registry = Registry::with_builtins();
    registry.register(Arc::clone(&deaf) as _);
    let runner = Runner::new(space(), registry, RunnerOptions::default());
    let document = json!({"title": "one", "steps": [{"id": "a", "do": {"tool": "deaf", "args": {}}}]});
    let run = submitted(&runner, &document).await;
    tokio::select! {
        ended = runner.drive(run) => panic!("{ended:?}"),
        begun = deaf.at_work.acquire() => begun.unwrap().forget(),
    }
    let cancelling = async {
        deaf.asked.acquire().await.unwrap().forget();
        runner.cancel(run, None, &Actor::new(Role::Human, "ada")).await
    };
    let (ended, cancelled) = tokio::join!(
        tokio::time::timeout(Duration::from_secs(60), runner.drive(run)),
        cancelling
    );
    cancelled.unwrap();
    assert_eq!(ended.expect("it ends").unwrap().status, Outcome::Cancelled);
}
