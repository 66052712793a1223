//! What a program relies on that runs plans with tools of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::{Outcome, StopReason, plan};
use folio_memory::{Actor, Clock, Role, RunId, SpaceName, Timestamp};
use folio_model::{Delta, Model, ModelError, Reply, Request, Worker};
use folio_runner::{
    Busy, DriveFollower, Driven, NewRun, Observer, Runner, RunnerError, RunnerModel, RunnerModels, RunnerOptions,
};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, SystemClock, Workspace};
use folio_testkit::SimClock;
use folio_tools::{CallArgs, Effect, Mistake, Registry, Tool, ToolContext, ToolRequest, ToolResponse, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::Notify;

fn space() -> Workspace {
    space_at(Arc::new(SystemClock))
}

fn space_at(clock: Arc<dyn Clock>) -> Workspace {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    Workspace::new(store, clock, Arc::new(RandomIds::default()), SpaceName::main())
}

fn ada() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn new_run(runner: &Runner, document: &Value) -> NewRun {
    let plan = plan::from_value(document, &runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
    NewRun::of(plan, ada())
}

async fn submitted(runner: &Runner, document: &Value) -> RunId {
    runner.submit(new_run(runner, document)).await.unwrap().0
}

/// A plan of one call without arguments.
fn calls(tool: &str) -> Value {
    json!({"title": "one", "steps": [{"id": "a", "do": {"tool": tool}}]})
}

/// A plan that lists the folder of its input `p`, which is `path` by default.
fn lists(path: &Path) -> Value {
    json!({"title": "look", "inputs": {"p": {"type": "path", "default": path}},
        "steps": [{"id": "a", "do": {"tool": "list"}}]})
}

/// A registry with a tool that must not be called unless somebody allowed it, and how often it was.
fn with_wipe() -> (Registry, Arc<AtomicU32>) {
    let wiped = Arc::new(AtomicU32::new(0));
    let mut registry = Registry::empty();
    let spec = ToolSpec::new("wipe", Effect::Destructive, "Removes everything.").needs_approval();
    let count = Arc::clone(&wiped);
    registry.register_fn(spec, move |request, _| {
        count.fetch_add(1, Ordering::Relaxed);
        async move { Ok(ToolResponse::ok(&request, json!("gone"), "")) }
    });
    (registry, wiped)
}

#[tokio::test]
async fn call_that_needs_approval_is_refused_where_nobody_is_there_e9_14() {
    for (has_person, is_unattended, allow_tools, is_called) in [
        (false, false, vec![], false),
        (true, true, vec![], false),
        (false, false, vec!["wipe".to_owned()], true),
        (true, true, vec!["wipe".to_owned()], true),
    ] {
        let (registry, wiped) = with_wipe();
        let options = RunnerOptions {
            has_person,
            ..RunnerOptions::default()
        };
        let runner = Runner::new(space(), registry, options);
        let new = NewRun {
            is_unattended,
            allow_tools,
            ..new_run(&runner, &calls("wipe"))
        };
        let run = runner.submit(new).await.unwrap().0;
        let result = runner.drive(run).await.unwrap();
        assert_eq!(wiped.load(Ordering::Relaxed), u32::from(is_called));
        if is_called {
            assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
            continue;
        }
        assert_eq!(result.status, Outcome::Failed);
        let run = runner.load(run).await.unwrap();
        let refused = run.node_at("a").unwrap().result.unwrap();
        assert_eq!(refused.stop_reason, Some(StopReason::PolicyDenied));
        assert!(
            refused
                .notes
                .contains("wipe was not called: this run does not allow it"),
            "{}",
            refused.notes
        );
    }
}

#[tokio::test]
async fn call_that_a_person_approved_is_made() {
    let (registry, wiped) = with_wipe();
    let options = RunnerOptions {
        has_person: true,
        ..RunnerOptions::default()
    };
    let runner = Runner::new(space(), registry, options);
    let run = submitted(&runner, &calls("wipe")).await;
    let approving = async {
        loop {
            let loaded = runner.load(run).await.unwrap();
            if let Some((node, _)) = loaded.pending_approvals().first() {
                return runner.approve(run, *node, None, &ada()).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    let (result, ()) = tokio::join!(runner.drive(run), approving);
    assert_eq!(
        (result.unwrap().status, wiped.load(Ordering::Relaxed)),
        (Outcome::Ok, 1)
    );
}

#[tokio::test]
async fn cancelled_run_ends_though_its_folder_is_gone_e9_11() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Runner::new(space(), Registry::with_builtins(), RunnerOptions::default());
    let run = submitted(&runner, &lists(folder.path())).await;
    drop(folder);
    // Whoever puts the folder back can still drive it.
    let error = runner.drive(run).await.unwrap_err();
    assert_eq!(error.code(), "folder_unusable");
    runner.cancel(run, None, &ada()).await.unwrap();
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Cancelled);
    assert!(runner.unfinished().await.unwrap().is_empty());
}

#[tokio::test]
async fn run_that_is_out_of_time_ends_though_its_folder_is_gone_e9_9() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SimClock::at(Timestamp::from_millis(1_000));
    let space = space_at(Arc::new(clock.clone()));
    let runner = Runner::new(space, Registry::with_builtins(), RunnerOptions::default());
    let mut plan = lists(folder.path());
    plan["budget"] = json!({"deadline": "1m"});
    let run = submitted(&runner, &plan).await;
    clock.advance(Duration::from_secs(60));
    drop(folder);
    assert_ne!(runner.drive(run).await.unwrap().status, Outcome::Ok);
    assert!(runner.unfinished().await.unwrap().is_empty());
}

#[tokio::test]
async fn run_in_a_folder_that_does_not_exist_is_not_submitted() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let runner = Runner::new(space(), Registry::with_builtins(), RunnerOptions::default());
    let here = NewRun {
        folder: Some(missing.clone()),
        ..new_run(
            &runner,
            &json!({"title": "look", "steps": [{"id": "a", "do": {"tool": "list"}}]}),
        )
    };
    for new in [new_run(&runner, &lists(&missing)), here] {
        let error = runner.submit(new).await.unwrap_err();
        assert!(
            matches!(&error, RunnerError::Folder { path, .. } if *path == missing.display().to_string()),
            "{error}"
        );
    }
}

#[tokio::test]
async fn relative_paths_of_a_run_are_recorded_as_absolute_ones() {
    let current = std::env::current_dir().unwrap().canonicalize().unwrap();
    let runner = Runner::new(space(), Registry::with_builtins(), RunnerOptions::default());
    let new = NewRun {
        folder: Some(PathBuf::from("src/..")),
        ..new_run(&runner, &lists(Path::new(".")))
    };
    let run = runner.submit(new).await.unwrap().0;
    let run = runner.load(run).await.unwrap();
    let recorded = (&run.inputs()["p"], &run.variable()["folder"]);
    assert_eq!(recorded, (&json!(current), &json!(current)));
}

/// Panics where it can be asked without being called.
#[derive(Debug)]
struct PanicsInChecks(ToolSpec);

#[async_trait]
impl Tool for PanicsInChecks {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn mistakes(&self, _: CallArgs<'_>) -> Vec<Mistake> {
        panic!("not today")
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        ToolResponse::ok(request, json!(1), "")
    }
}

#[derive(Debug)]
struct PanickingObserver;

impl Observer for PanickingObserver {
    fn drive_started(&self, _: DriveFollower) {
        panic!("nothing to see")
    }
}

#[tokio::test]
async fn panics_of_a_check_or_an_observer_stop_no_run() {
    let mut registry = Registry::empty();
    let spec = ToolSpec::new("odd", Effect::Pure, "Answers.");
    registry.register(Arc::new(PanicsInChecks(spec)));
    let options = RunnerOptions {
        observer: Some(Arc::new(PanickingObserver)),
        ..RunnerOptions::default()
    };
    let runner = Runner::new(space(), registry, options);
    let run = submitted(&runner, &calls("odd")).await;
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok);
}

/// Panics before it answers.
#[derive(Debug)]
struct PanickingModel;

#[async_trait]
impl Model for PanickingModel {
    async fn reply(&self, _: &Request, _: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        panic!("nor does it answer")
    }

    fn worker(&self) -> Option<Worker<'_>> {
        panic!("nobody knows who works")
    }
}

#[tokio::test]
async fn panic_of_a_model_fails_its_task_alone() {
    let options = RunnerOptions {
        models: Some(RunnerModels::one(RunnerModel::new("odd", Arc::new(PanickingModel)))),
        ..RunnerOptions::default()
    };
    let runner = Runner::new(space(), Registry::with_builtins(), options);
    let plan = json!({"title": "two", "steps": [
        {"id": "think", "title": "Think", "optional": true},
        {"id": "wait", "do": {"tool": "wait", "args": {"ms": 1}}}
    ]});
    let run = submitted(&runner, &plan).await;
    runner.drive(run).await.unwrap();
    let run = runner.load(run).await.unwrap();
    let result = |path| run.node_named(path).unwrap().result.unwrap();
    let failed = result("think");
    assert_eq!(failed.status, Outcome::Failed);
    assert!(
        failed.notes.contains("it panicked: nobody knows who works"),
        "{}",
        failed.notes
    );
    assert_eq!(result("wait").status, Outcome::Ok);
}

#[tokio::test]
async fn tool_with_a_name_that_models_cannot_call_is_refused() {
    for (name, reason) in [
        ("finish", "a tool of this name"),
        ("ask_person", "a tool of this name"),
        ("agent:bob", "the names of agents"),
        ("", "1 to 200 characters"),
        ("a b", "white space"),
        ("a\u{0}", "control characters"),
    ] {
        let mut registry = Registry::with_builtins();
        let spec = ToolSpec::new(name, Effect::Pure, "Answers.");
        registry.register_fn(spec, |request, _| async move {
            Ok(ToolResponse::ok(&request, json!(1), ""))
        });
        assert!(registry.get(name).is_none());
        assert_eq!(registry.check_name(name).unwrap_err().code, "tool_name_invalid");
        let runner = Runner::new(space(), registry, RunnerOptions::default());
        let plan = json!({"title": "one", "steps": [{"id": "a", "do": {"tool": "wait", "args": {"ms": 1}}}]});
        let error = runner.submit(new_run(&runner, &plan)).await.unwrap_err();
        assert_eq!(error.code(), "tool_name_invalid");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn output_of_a_result_is_read_wherever_it_is_kept() {
    let runner = Runner::new(space(), Registry::with_builtins(), RunnerOptions::default());
    for value in ["short".to_owned(), "long ".repeat(20_000)] {
        let plan = json!({"title": "say", "inputs": {"text": {"type": "string"}},
            "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ inputs.text }}"}}}],
            "output": "{{ results.a.output }}"});
        let mut new = new_run(&runner, &plan);
        new.inputs.insert("text".to_owned(), json!(value));
        let run = runner.submit(new).await.unwrap().0;
        let result = runner.drive(run).await.unwrap();
        assert_eq!(result.output.value().is_some(), value == "short");
        assert_eq!(*runner.output(&result).await.unwrap(), json!({"value": value}));
    }
}

/// A clock that panics once after it was armed.
#[derive(Debug, Default)]
struct BrokenClock(AtomicBool);

impl Clock for BrokenClock {
    fn now(&self) -> Timestamp {
        assert!(!self.0.swap(false, Ordering::Relaxed), "the clock fell down");
        SystemClock.now()
    }
}

#[tokio::test]
async fn run_whose_driver_panicked_is_paused_and_says_why_e9_9() {
    let clock = Arc::new(BrokenClock::default());
    let calls_made = Arc::new(AtomicU32::new(0));
    let mut registry = Registry::empty();
    let (armed, count) = (Arc::clone(&clock), Arc::clone(&calls_made));
    registry.register_fn(
        ToolSpec::new("odd", Effect::Pure, "Breaks the driver."),
        move |request, _| {
            // What follows from its outcome panics.
            if count.fetch_add(1, Ordering::Relaxed) < 2 {
                armed.0.store(true, Ordering::Relaxed);
            }
            async move { Ok(ToolResponse::ok(&request, json!(1), "")) }
        },
    );
    let runner = Runner::new(space_at(clock), registry, RunnerOptions::default());
    let run = submitted(&runner, &calls("odd")).await;
    for tries in 1..=2 {
        let error = runner.drive(run).await.unwrap_err();
        assert_eq!(error.code(), "driver_panicked");
        assert_eq!(
            error.to_string(),
            "the driver of the run panicked, so the run is paused: the clock fell down"
        );
        let loaded = runner.load(run).await.unwrap();
        assert_eq!(
            loaded.paused_by(),
            Some("its driver, which panicked (the clock fell down)")
        );
        drop(loaded);
        // Nobody who takes it over tries the same again.
        let driven = runner.drive_while_due(run, Duration::ZERO).await.unwrap();
        assert!(matches!(driven, Driven::Waits { until: None, .. }), "{driven:?}");
        assert_eq!(calls_made.load(Ordering::Relaxed), tries);
        runner.go_on(run, None, &ada()).await.unwrap();
    }
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok);
}

#[tokio::test]
async fn process_says_that_it_resumes_a_run_only_once_it_has_it() {
    let called = Arc::new(Notify::new());
    let mut registry = Registry::empty();
    let (begins, ends) = (Arc::clone(&called), Arc::new(Notify::new()));
    let end = Arc::clone(&ends);
    registry.register_fn(ToolSpec::new("long", Effect::Pure, "Waits."), move |request, _| {
        let (begins, end) = (Arc::clone(&begins), Arc::clone(&end));
        async move {
            begins.notify_one();
            end.notified().await;
            Ok(ToolResponse::ok(&request, json!(1), ""))
        }
    });
    let space = space();
    let [one, other] = [(); 2].map(|()| Runner::new(space.clone(), registry.clone(), RunnerOptions::default()));
    let run = submitted(&one, &calls("long")).await;
    let busy = Busy::default();
    let claims = AtomicU32::new(0);
    let leftover = async |runner: &Runner| {
        let claimed = || {
            claims.fetch_add(1, Ordering::Relaxed);
        };
        runner.drive_leftover(run, None, &busy.begin(), claimed).await
    };
    let second = async {
        called.notified().await;
        let refused = leftover(&other).await.unwrap_err();
        assert_eq!(
            (refused.code(), claims.load(Ordering::Relaxed)),
            ("run_taken", 1),
            "{refused}"
        );
        ends.notify_one();
    };
    let (first, ()) = tokio::join!(leftover(&one), second);
    assert!(matches!(first, Ok(Driven::Ended(_))), "{first:?}");
}
