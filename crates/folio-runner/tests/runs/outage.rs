//! Runs whose store is away, or cannot be written, when their calls end (decision 0152).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use folio_engine::{Event, NodeResult, Outcome, StopReason, plan};
use folio_memory::{Actor, Role, RunId, Seq, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{ErrorKind, RandomIds, Store, SystemClock, Workspace};
use folio_testkit::{Fault, FaultyStore};
use folio_tools::{Effect, Registry, ToolResponse, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The calls of a tool that may not simply be repeated. Each ends when it may.
#[derive(Debug)]
struct Calls {
    begun: Semaphore,
    may_end: Semaphore,
    made: AtomicUsize,
    /// How many were told to stop.
    stopped: AtomicUsize,
}

struct House {
    store: Arc<FaultyStore>,
    runner: Runner,
    calls: Arc<Calls>,
}

impl House {
    fn new(effect: Effect) -> Self {
        Self::with(effect, RunnerOptions::default())
    }

    fn with(effect: Effect, options: RunnerOptions) -> Self {
        let store = Arc::new(FaultyStore::new(SqliteStore::open(&OpenOptions::in_memory()).unwrap()));
        let workspace = workspace_of(&store);
        let calls = Arc::new(Calls {
            begun: Semaphore::new(0),
            may_end: Semaphore::new(0),
            made: AtomicUsize::default(),
            stopped: AtomicUsize::default(),
        });
        let mut registry = Registry::with_builtins();
        let seen = Arc::clone(&calls);
        registry.register_fn(
            ToolSpec::new("send", effect, "Sends a letter."),
            move |request, context| {
                let calls = Arc::clone(&seen);
                async move {
                    calls.made.fetch_add(1, Ordering::SeqCst);
                    calls.begun.add_permits(1);
                    tokio::select! {
                        () = context.cancel.cancelled() => drop(calls.stopped.fetch_add(1, Ordering::SeqCst)),
                        may_end = calls.may_end.acquire() => may_end.unwrap().forget(),
                    }
                    Ok(ToolResponse::ok(&request, json!("sent"), "it is sent"))
                }
            },
        );
        Self {
            store,
            runner: Runner::new(workspace, registry, options),
            calls,
        }
    }

    async fn submitted(&self, steps: Value) -> RunId {
        let plan = plan::from_value(&json!({"title": "t", "steps": steps}), &self.runner.known()).unwrap();
        let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
        self.runner.submit(new).await.unwrap().0
    }

    fn driving(&self, run: RunId) -> JoinHandle<Result<NodeResult, RunnerError>> {
        let runner = self.runner.clone();
        tokio::spawn(async move { runner.drive(run).await })
    }

    async fn begun(&self, count: u32) {
        self.calls.begun.acquire_many(count).await.unwrap().forget();
    }

    fn made_and_stopped(&self) -> (usize, usize) {
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (of(&self.calls.made), of(&self.calls.stopped))
    }

    /// Asserts that nobody knows how the only call of `run` ended, that its result says why, and that it was not repeated.
    async fn assert_unknown_because_of_the_store(&self, run: RunId) {
        let ended = self.runner.load(run).await.unwrap();
        let result = ended.node_at("a").unwrap().result.unwrap();
        assert_eq!(result.stop_reason, Some(StopReason::OutcomeUnknown));
        let reason = "how it ended could not be recorded (the store was not to be used for 600 s: cannot write to ";
        assert!(result.notes.contains(reason), "{}", result.notes);
        assert_eq!(self.made_and_stopped(), (1, 0));
    }

    /// How many events of the run say that a driver was gone, and how many that something ended.
    async fn resumed_and_finished(&self, run: RunId) -> (usize, usize) {
        let journal = self.store.journal(&SpaceName::main(), run, Seq(0)).await.unwrap();
        let count = |is: fn(&Event) -> bool| journal.events.iter().filter(|(_, event)| is(event)).count();
        (
            count(|event| matches!(event, Event::Resumed { .. })),
            count(|event| matches!(event, Event::Finished { .. })),
        )
    }
}

fn workspace_of(store: &Arc<FaultyStore>) -> Workspace {
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
    Workspace::new(Arc::clone(store) as _, clock, ids, SpaceName::main())
}

fn letter(id: &str) -> Value {
    json!({"id": id, "do": {"tool": "send"}})
}

#[tokio::test(start_paused = true)]
async fn living_driver_holds_outcomes_until_its_store_can_be_written_e9_12() {
    let house = House::new(Effect::Opaque);
    let run = house.submitted(json!([{"parallel": [letter("a"), letter("b")]}])).await;
    let driving = house.driving(run);
    house.begun(2).await;
    // As when the disk is full, or somebody has the store locked.
    house.store.take_away();
    house.calls.may_end.add_permits(1);
    let told = house.runner.store_outage(run, None).await.unwrap();
    assert!(told.contains("the test wants it to fail"), "{told}");
    assert_eq!(house.runner.waiting_for_store(), Some((1, told.clone())));
    tokio::time::sleep(PATIENCE / 2).await;
    assert!(!driving.is_finished());
    house.store.heal();
    assert_eq!(house.runner.store_outage(run, Some(&told)).await, None);
    house.calls.may_end.add_permits(1);
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
    assert_eq!(house.made_and_stopped(), (2, 0));
    assert_eq!(house.resumed_and_finished(run).await.0, 0);
    assert_eq!(house.runner.waiting_for_store(), None);
}

#[tokio::test(start_paused = true)]
async fn outcome_that_is_not_held_any_longer_is_unknown_for_its_true_reason_e9_12() {
    let house = House::new(Effect::Opaque);
    let run = house.submitted(json!([letter("a")])).await;
    let driving = house.driving(run);
    house.begun(1).await;
    house.store.take_away();
    house.calls.may_end.add_permits(1);
    let began = Instant::now();
    let error = driving.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
    assert_eq!(house.runner.waiting_for_store(), None);
    house.store.heal();
    house.runner.drive(run).await.unwrap();
    house.assert_unknown_because_of_the_store(run).await;
}

#[tokio::test(start_paused = true)]
async fn true_reason_outlasts_drivers_that_cannot_record_it_e9_12() {
    // Of the next driver, the first commit says that it goes on with the run, and the second how the call ended.
    for failing in 1..=2 {
        let house = House::new(Effect::Opaque);
        let run = house.submitted(json!([letter("a")])).await;
        let driving = house.driving(run);
        house.begun(1).await;
        house.store.take_away();
        house.calls.may_end.add_permits(1);
        driving.await.unwrap().unwrap_err();
        house.store.heal();
        house.store.fail(house.store.commits() + failing, Fault::NotWritten);
        let error = house.runner.drive(run).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        house.runner.drive(run).await.unwrap();
        house.assert_unknown_because_of_the_store(run).await;
    }
}

#[tokio::test(start_paused = true)]
async fn driver_that_holds_outcomes_waits_for_outputs_that_it_reads_e9_12() {
    let house = House::with(
        Effect::Opaque,
        RunnerOptions {
            outputs_at_hand: Some(0),
            ..RunnerOptions::default()
        },
    );
    let large = json!({"name": "large", "text": "word ".repeat(20_000)});
    let big = json!({"id": "big", "do": {"tool": "text", "args": {"op": "echo", "value": large}}});
    let mut observed = letter("b");
    observed["observe"] = json!([{"type": "learning", "content": "it is {{ results.big.output.value.name }}"}]);
    let run = house
        .submitted(json!([big, {"parallel": [letter("a"), observed]}]))
        .await;
    let driving = house.driving(run);
    house.begun(2).await;
    house.store.take_away();
    house.calls.may_end.add_permits(2);
    let told = house.runner.store_outage(run, None).await.unwrap();
    tokio::time::sleep(PATIENCE / 2).await;
    assert!(!driving.is_finished());
    house.store.heal();
    assert_eq!(house.runner.store_outage(run, Some(&told)).await, None);
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
    assert_eq!(house.made_and_stopped(), (2, 0));
    assert_eq!(house.resumed_and_finished(run).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn driver_that_holds_outcomes_waits_for_the_journal_that_it_reads_again_e9_12() {
    let house = House::new(Effect::Opaque);
    let run = house.submitted(json!([letter("a")])).await;
    // The driver learns of what others write when it writes itself.
    house.store.stall_heads();
    let driving = house.driving(run);
    house.begun(1).await;
    let registry = Registry::with_builtins();
    let beside = Runner::new(workspace_of(&house.store), registry, RunnerOptions::default());
    let ada = Actor::new(Role::Human, "ada");
    beside.pause(run, None, &ada).await.unwrap();
    house.store.fail_journals(3);
    house.calls.may_end.add_permits(1);
    let told = house.runner.store_outage(run, None).await.unwrap();
    assert_eq!(house.runner.store_outage(run, Some(&told)).await, None);
    assert!(!driving.is_finished());
    house.runner.go_on(run, None, &ada).await.unwrap();
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
    assert_eq!(house.made_and_stopped(), (1, 0));
    assert_eq!(house.resumed_and_finished(run).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_written_without_an_answer_is_found_and_the_run_goes_on_e9_12() {
    let house = House::new(Effect::Opaque);
    let run = house.submitted(json!([letter("a"), letter("b")])).await;
    house.calls.may_end.add_permits(2);
    // The first commit says that the first call begins, the next one how it ended, and that the other one begins.
    house.store.fail(house.store.commits() + 2, Fault::WrittenUnanswered);
    house.store.fail(house.store.commits() + 3, Fault::NotWritten);
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok);
    assert_eq!(house.made_and_stopped(), (2, 0));
    assert_eq!(house.resumed_and_finished(run).await, (0, 3));
}

#[tokio::test(start_paused = true)]
async fn store_is_not_waited_for_if_calls_may_be_repeated() {
    let house = House::new(Effect::Idempotent);
    let run = house.submitted(json!([letter("a")])).await;
    let driving = house.driving(run);
    house.begun(1).await;
    house.store.take_away();
    house.calls.may_end.add_permits(1);
    let began = Instant::now();
    let error = driving.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(began.elapsed() < PATIENCE / 10, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn driver_that_is_to_leave_gives_up_soon_while_its_store_is_away() {
    let house = House::new(Effect::Opaque);
    let run = house.submitted(json!([letter("a")])).await;
    let driving = house.driving(run);
    house.begun(1).await;
    house.store.take_away();
    house.calls.may_end.add_permits(1);
    house.runner.store_outage(run, None).await.unwrap();
    house.runner.leave();
    let left = Instant::now();
    let error = driving.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(left.elapsed() < PATIENCE / 10, "{:?}", left.elapsed());
}

#[tokio::test]
async fn request_of_this_process_reaches_the_driver_without_a_look_at_the_store() {
    let house = House::new(Effect::Opaque);
    let run = house.submitted(json!([letter("a")])).await;
    house.store.stall_heads();
    let driving = house.driving(run);
    house.begun(1).await;
    let ada = Actor::new(Role::Human, "ada");
    house.runner.cancel(run, None, &ada).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), driving).await;
    assert_eq!(ended.unwrap().unwrap().unwrap().status, Outcome::Cancelled);
}
