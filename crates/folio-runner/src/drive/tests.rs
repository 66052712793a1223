//! A run that is driven step by step, to look at it in between.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::{Outcome, plan};
use folio_memory::{Actor, Clock as _, Role, RunId, Seq, SpaceName};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{RandomIds, SystemClock, Workspace};
use folio_testkit::SimClock;
use folio_tools::{Effect, Registry, Tool, ToolContext, ToolRequest, ToolResponse, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::calls::Calls;
use super::{Done, Drive};
use crate::dispatch::{Driven, Until};
use crate::error::RunnerError;
use crate::new_run::NewRun;
use crate::runner::{Runner, RunnerOptions, Shared};
use crate::steps::MAX_CONCURRENT_STEPS;

/// Bytes of each output.
const OUTPUT_BYTES: usize = 100_000;

/// A runner with a store of its own.
fn runner_with_store(registry: Registry, options: RunnerOptions) -> (tempfile::TempDir, Runner) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let ids = Arc::new(RandomIds::default());
    let workspace = Workspace::new(store, Arc::new(SystemClock), ids, SpaceName::main());
    (folder, Runner::new(workspace, registry, options))
}

/// A run of `steps` that nobody drives yet.
async fn submit_steps(runner: &Runner, steps: Value) -> RunId {
    let plan = json!({"version": 1, "title": "t", "budget": {"concurrency": 4}, "steps": steps});
    let plan = plan::from_value(&plan, &runner.known()).unwrap();
    let (run, _) = runner.submit(NewRun::of(plan, ada())).await.unwrap();
    run
}

fn ada() -> Actor {
    Actor::new(Role::Human, "ada")
}

/// Opens the run to drive it.
async fn open_drive(runner: &Runner, run: RunId, until: Until) -> Drive {
    let (store, space) = (runner.workspace().store(), runner.workspace().space());
    let fence = store.claim_run(space, run, runner.shared.owner.id()).await.unwrap();
    let shared = Arc::clone(&runner.shared);
    Drive::open(shared, (run, fence), until).await.unwrap()
}

/// The maximum size of the large outputs that a run of `steps` keeps in memory after any of its steps, and how many
/// outputs that is.
async fn peak_loaded_outputs(steps: Value, outputs_at_hand: Option<usize>) -> (usize, usize) {
    let options = RunnerOptions {
        outputs_at_hand,
        ..RunnerOptions::default()
    };
    let (_folder, runner) = runner_with_store(Registry::with_builtins(), options);
    let run = submit_steps(&runner, steps).await;
    let mut drive = open_drive(&runner, run, Until::Ended).await;
    let (mut most, mut times, mut done) = (0, 0, Vec::<Done>::new());
    let mut calls = Calls::default();
    loop {
        calls.add_all(&mut drive.unpolled_calls);
        drive.step(std::mem::take(&mut done)).await.unwrap();
        most = most.max(drive.run.cached_bytes());
        times += 1;
        if drive.run.result().is_some() && drive.pending_writes.is_durable() {
            let result = drive.run.result().unwrap();
            assert_eq!(result.status.as_str(), "ok", "{}", result.notes);
            return (most, times);
        }
        tokio::select! {
            (writing, written) = drive.pending_writes.wait_for_write() => drive.handle_write_result(writing, written).await.unwrap(),
            Some(first) = calls.next(true) => done.push(first.unwrap()),
        }
    }
}

fn echo(id: &str, value: &Value) -> Value {
    json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": value}}})
}

/// `steps` steps with large outputs, each of which reads the previous output and looks at the first.
fn chain(steps: usize) -> Value {
    let text = "x".repeat(OUTPUT_BYTES);
    let step = |n: usize| match n {
        0 => echo("s0", &json!(text)),
        n => {
            let before = format!("{{{{ results.s{}.output.value[:-1] }}}}y", n - 1);
            let mut step = echo(&format!("s{n}"), &json!(before));
            step["criteria"] = json!([{"check": {"regex": {"pattern": "^x", "of": "results.s0.output.value"}}}]);
            step
        }
    };
    (0..steps).map(step).collect()
}

#[tokio::test]
async fn large_outputs_in_memory_are_bounded_whatever_the_run_length() {
    let most = 4 * OUTPUT_BYTES;
    let (few, _) = Box::pin(peak_loaded_outputs(chain(10), Some(most))).await;
    let (many, times) = Box::pin(peak_loaded_outputs(chain(60), Some(most))).await;
    assert!(times >= 60, "it was looked at {times} times");
    // What is on its way to the disk and what the next step reads come on top.
    assert!(many <= most + 4 * OUTPUT_BYTES, "{many}");
    assert!(many <= few + OUTPUT_BYTES, "{few} and {many}");
    // Without a limit of its own it has all of them.
    let (all, _) = Box::pin(peak_loaded_outputs(chain(60), None)).await;
    assert!(all > 60 * OUTPUT_BYTES, "{all}");
}

#[tokio::test]
async fn outputs_loaded_for_arguments_are_released_once_these_are_made() {
    let item = echo("item", &json!("{{ results.first.output.value }}{{ n }}"));
    let items = json!({"id": "each", "for_each": "{{ range(20) | list }}", "as": "n", "step": item});
    let counted = echo("counted", &json!("{{ results.each.output | length }}"));
    let after = (0..3).map(|n| echo(&format!("a{n}"), &json!(n)));
    let first = echo("first", &json!("x".repeat(OUTPUT_BYTES)));
    let steps: Vec<Value> = [first, items, counted].into_iter().chain(after).collect();
    let (most, _) = Box::pin(peak_loaded_outputs(json!(steps), Some(OUTPUT_BYTES))).await;
    // They are let go of as soon as the arguments are made.
    assert!(most < 12 * OUTPUT_BYTES, "{most}");
}

/// A tool that ends once it may. Before that, if told so, it takes all permits for runs that take a step, and releases
/// them.
#[derive(Debug)]
struct Gate {
    spec: ToolSpec,
    begun: Notify,
    release: Notify,
    places: OnceLock<Arc<Shared>>,
    asks: AtomicBool,
    had_step_permits: AtomicBool,
}

impl Gate {
    fn of(name: &str) -> Arc<Self> {
        Arc::new(Self {
            spec: ToolSpec::new(name, Effect::Read, "ends when it may"),
            begun: Notify::new(),
            release: Notify::new(),
            places: OnceLock::new(),
            asks: AtomicBool::new(false),
            had_step_permits: AtomicBool::new(false),
        })
    }
}

#[async_trait]
impl Tool for Gate {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        self.begun.notify_one();
        self.release.notified().await;
        if let Some(shared) = self.places.get() {
            self.asks.store(true, Ordering::SeqCst);
            drop(shared.stepping.acquire_many(all_step_permits()).await);
            self.had_step_permits.store(true, Ordering::SeqCst);
        }
        ToolResponse::ok(request, json!({}), "")
    }
}

fn all_step_permits() -> u32 {
    u32::try_from(MAX_CONCURRENT_STEPS).unwrap()
}

/// Lets everything run that can continue without outside events. Returns true as soon as `is` holds.
async fn eventually_holds(is: impl Fn() -> bool) -> bool {
    for _ in 0..100 {
        if is() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    is()
}

#[tokio::test]
async fn driver_waiting_for_a_step_permit_keeps_polling_its_calls() {
    let (first, taker) = (Gate::of("first"), Gate::of("taker"));
    let mut registry = Registry::with_builtins();
    registry.register(Arc::clone(&first) as Arc<dyn Tool>);
    registry.register(Arc::clone(&taker) as Arc<dyn Tool>);
    let (_folder, runner) = runner_with_store(registry, RunnerOptions::default());
    let shared = &runner.shared;
    taker.places.set(Arc::clone(shared)).unwrap();
    let call = |tool: &str| json!({"id": tool, "do": {"tool": tool}});
    let steps = json!([{"id": "both", "parallel": [call("first"), call("taker")]}]);
    let run = submit_steps(&runner, steps).await;
    let driving = tokio::spawn(open_drive(&runner, run, Until::Ended).await.run(None));
    first.begun.notified().await;
    taker.begun.notified().await;
    // One call waits for permits, and then a step of the run waits to take in the outcome of the other call.
    let all = shared.stepping.acquire_many(all_step_permits()).await.unwrap();
    taker.release.notify_one();
    assert!(eventually_holds(|| taker.asks.load(Ordering::SeqCst)).await);
    first.release.notify_one();
    assert!(!eventually_holds(|| taker.had_step_permits.load(Ordering::SeqCst)).await);
    drop(all);
    assert!(
        eventually_holds(|| taker.had_step_permits.load(Ordering::SeqCst)).await,
        "it is let go on"
    );
    assert!(matches!(driving.await.unwrap(), Ok(Driven::Ended(_))));
}

#[tokio::test]
async fn redundant_pause_continue_and_cancel_commit_nothing_e9_11() {
    let (_folder, runner) = runner_with_store(Registry::with_builtins(), RunnerOptions::default());
    let run = submit_steps(&runner, json!([echo("a", &json!(1))])).await;
    let head = async || runner.shared.read(run).await.unwrap().head;
    let first = head().await;
    // It is not paused.
    runner.go_on(run, None, &ada()).await.unwrap();
    assert_eq!(head().await, first);
    runner.pause(run, None, &ada()).await.unwrap();
    let paused = head().await;
    runner.pause(run, None, &ada()).await.unwrap();
    assert_eq!(head().await, paused);
    runner.go_on(run, None, &ada()).await.unwrap();
    runner.cancel(run, None, &ada()).await.unwrap();
    let cancelled = head().await;
    runner.cancel(run, None, &ada()).await.unwrap();
    assert_eq!(head().await, cancelled);
    assert!(first < paused && paused < cancelled);
}

/// A run in which nothing can be done while an executor elsewhere is told that nobody waits for its answer, and the
/// channel on which the executor confirms this.
async fn drive_with_cancellation(runner: &Runner) -> (Drive, oneshot::Sender<()>) {
    let run = submit_steps(runner, json!([echo("a", &json!(1))])).await;
    runner.pause(run, None, &ada()).await.unwrap();
    let mut drive = open_drive(runner, run, Until::Idle(Duration::ZERO)).await;
    let (tell, told) = oneshot::channel();
    drive.pending_cancellations.0.spawn(async move { told.await.unwrap() });
    (drive, tell)
}

#[tokio::test]
async fn remote_cancellation_completes_after_another_driver_takes_over_e9_14() {
    let (_folder, runner) = runner_with_store(Registry::with_builtins(), RunnerOptions::default());
    let (drive, tell) = drive_with_cancellation(&runner).await;
    // Somebody else has taken it over.
    let (store, space) = (runner.workspace().store(), runner.workspace().space());
    store
        .claim_run(space, drive.run.id(), runner.shared.owner.id())
        .await
        .unwrap();
    runner.go_on(drive.run.id(), None, &ada()).await.unwrap();
    drive.run(None).await.unwrap_err();
    // A call that was to be aborted would have ended by now.
    tokio::task::yield_now().await;
    tell.send(()).expect("it goes on");
}

#[tokio::test(start_paused = true)]
async fn run_is_released_only_after_remote_cancellation_completes_e9_14() {
    for is_leaving in [false, true] {
        let (_folder, runner) = runner_with_store(Registry::with_builtins(), RunnerOptions::default());
        let (drive, tell) = drive_with_cancellation(&runner).await;
        if is_leaving {
            runner.leave();
        }
        let mut driving = pin!(drive.run(None));
        let waited = tokio::time::timeout(Duration::from_secs(60), &mut driving).await;
        assert!(waited.is_err(), "{waited:?}");
        tell.send(()).unwrap();
        match driving.await {
            Err(RunnerError::Leaving) => assert!(is_leaving),
            Ok(Driven::Waits { .. }) => assert!(!is_leaving),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_passed_while_the_machine_slept_is_noticed_on_wake() {
    let minutes = |n: u64| Duration::from_secs(n * 60);
    let (clock, ids) = (SimClock::default(), Arc::new(RandomIds::default()));
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let workspace = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
    let options = RunnerOptions {
        has_person: true,
        ..RunnerOptions::default()
    };
    let runner = Runner::new(workspace, Registry::with_builtins(), options);
    let asked = json!([{"id": "look", "title": "look at it", "executor": "human", "timeout": "20m"}]);
    let run = submit_steps(&runner, asked).await;
    let drive = open_drive(&runner, run, Until::Ended).await;
    let driving = tokio::spawn(drive.run(None));
    while runner.load(run).await.unwrap().questions().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // By then the run does nothing but wait.
    tokio::time::sleep(minutes(1)).await;
    // The wall clock has advanced, and the clock of the timers has not.
    clock.advance(minutes(21));
    let woken = tokio::time::timeout(minutes(10), driving).await;
    let ended = woken.expect("it looks how late it is").unwrap().unwrap();
    assert!(matches!(ended, Driven::Ended(_)), "{ended:?}");
}

/// A run of two steps, the first of which has begun, its gate, and the task that drives it. If `is_set`, somebody set
/// its time limit, half an hour.
async fn driven_to_the_gate(clock: &SimClock, is_set: bool) -> (Runner, RunId, Arc<Gate>, JoinHandle<Ended>) {
    let gate = Gate::of("gate");
    let mut registry = Registry::with_builtins();
    registry.register(Arc::clone(&gate) as Arc<dyn Tool>);
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let ids = Arc::new(RandomIds::default());
    let workspace = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
    let runner = Runner::new(workspace, registry, RunnerOptions::default());
    let budget = if is_set { json!({"deadline": "30m"}) } else { json!({}) };
    let steps = json!([{"id": "gate", "do": {"tool": "gate"}}, echo("after", &json!(1))]);
    let plan = json!({"version": 1, "title": "t", "budget": budget, "steps": steps});
    let plan = plan::from_value(&plan, &runner.known()).unwrap();
    let (run, _) = runner.submit(NewRun::of(plan, ada())).await.unwrap();
    let driving = tokio::spawn(open_drive(&runner, run, Until::Ended).await.run(None));
    gate.begun.notified().await;
    (runner, run, gate, driving)
}

type Ended = Result<Driven, RunnerError>;

fn status_of(ended: Ended) -> Outcome {
    match ended.unwrap() {
        Driven::Ended(result) => result.status,
        waits @ Driven::Waits { .. } => panic!("{waits:?}"),
    }
}

/// How much time the journal of `run` leaves out, event by event.
async fn left_out(runner: &Runner, run: RunId) -> Vec<Duration> {
    let journal = runner.workspace().journal(run, Seq(0)).await.unwrap();
    let uncounted = journal.events.iter().map(|(_, event)| event.uncounted());
    uncounted.filter(|time| !time.is_zero()).collect()
}

const TWO_HOURS: Duration = Duration::from_secs(7_200);

#[tokio::test]
async fn default_time_of_a_run_does_not_count_while_the_machine_sleeps_e9_10() {
    for (is_set, status) in [(false, Outcome::Ok), (true, Outcome::Partial)] {
        let clock = SimClock::default();
        let (runner, run, gate, driving) = driven_to_the_gate(&clock, is_set).await;
        clock.set(clock.now().plus(TWO_HOURS));
        gate.release.notify_one();
        assert_eq!(status_of(driving.await.unwrap()), status);
        let expected = if is_set { vec![] } else { vec![TWO_HOURS] };
        assert_eq!(left_out(&runner, run).await, expected);
        let differences = runner.replay(run).await.unwrap().differences;
        assert_eq!(differences, Vec::<String>::new());
    }
}

#[tokio::test]
async fn default_time_of_a_run_counts_while_its_call_goes_on_e9_10() {
    let clock = SimClock::default();
    let (runner, run, gate, driving) = driven_to_the_gate(&clock, false).await;
    clock.advance(TWO_HOURS);
    gate.release.notify_one();
    assert_eq!(status_of(driving.await.unwrap()), Outcome::Partial);
    assert_eq!(left_out(&runner, run).await, []);
}

#[tokio::test]
async fn run_taken_over_after_hours_goes_on_unless_somebody_set_its_time_e9_10() {
    for (is_set, status) in [(false, Outcome::Ok), (true, Outcome::Failed)] {
        let clock = SimClock::default();
        let (runner, run, gate, driving) = driven_to_the_gate(&clock, is_set).await;
        driving.abort();
        driving.await.unwrap_err();
        clock.advance(TWO_HOURS);
        let driving = tokio::spawn(open_drive(&runner, run, Until::Ended).await.run(None));
        gate.release.notify_one();
        assert_eq!(status_of(driving.await.unwrap()), status);
        let expected = if is_set { vec![] } else { vec![TWO_HOURS] };
        assert_eq!(left_out(&runner, run).await, expected);
    }
}

#[tokio::test]
async fn default_time_of_a_run_begins_with_its_first_driver_e9_10() {
    let clock = SimClock::default();
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let ids = Arc::new(RandomIds::default());
    let workspace = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
    let runner = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
    let run = submit_steps(&runner, json!([echo("only", &json!(1))])).await;
    clock.advance(TWO_HOURS);
    let ended = open_drive(&runner, run, Until::Ended).await.run(None).await;
    assert_eq!(status_of(ended), Outcome::Ok);
}

#[tokio::test(start_paused = true)]
async fn run_is_left_as_it_is_once_an_edit_needs_a_model_that_is_not_there_e9_14() {
    let options = RunnerOptions {
        has_person: true,
        ..RunnerOptions::default()
    };
    let (_folder, runner) = runner_with_store(Registry::with_builtins(), options);
    let look = json!({"id": "look", "title": "look at it", "executor": "human"});
    let run = submit_steps(&runner, json!([look, echo("last", &json!(1))])).await;
    let edit = |text: &'static str, version| {
        let runner = runner.clone();
        async move { runner.edit_plan(run, None, text, version, &ada()).await.unwrap() }
    };
    let mut driving = Box::pin(open_drive(&runner, run, Until::Ended).await.run(None));
    let waited = tokio::time::timeout(Duration::from_secs(5), &mut driving).await;
    assert!(waited.is_err(), "it waits for the person: {waited:?}");
    edit("- look {#look}\n- think {#think}\n- last {#last}\n", Some(1)).await;
    let left = driving.await;
    assert!(
        matches!(&left, Err(RunnerError::NeedsModel { tasks }) if tasks == &["think"]),
        "{left:?}"
    );
    let states = |run: &folio_engine::Run| run.tree().iter().filter(|view| view.result.is_some()).count();
    assert_eq!(states(&runner.load(run).await.unwrap()), 0, "nothing has ended");
    // Another edit takes the task out again.
    edit("- look {#look}\n- last {#last}\n", Some(2)).await;
    let drive = open_drive(&runner, run, Until::Ended).await;
    assert!(drive.lacking.is_none());
}
