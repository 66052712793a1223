//! While the disk writes, pure computations of a run continue; effects wait for the disk.

use std::sync::{Arc, Mutex};

use folio_engine::{Event, Outcome, plan};
use folio_memory::policy::SpacePolicy;
use folio_memory::{Actor, Role, RunId, Seq, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, Store, StoreError, SystemClock, Workspace};
use folio_testkit::{Fault, FaultyStore};
use folio_tools::{Effect, Registry, ToolResponse, ToolSpec};
use serde_json::json;

struct House {
    runner: Runner,
    store: Arc<FaultyStore>,
    /// How much of a run was durable whenever its tool `witness` was called: how many nodes had begun, and how many
    /// had ended.
    seen: Arc<Mutex<Vec<(usize, usize)>>>,
    _folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let inner = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
        let store = Arc::new(FaultyStore::new(inner));
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
        let workspace = Workspace::new(store.clone(), clock, ids, SpaceName::main());
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let mut registry = Registry::with_builtins();
        let spec = ToolSpec::new("witness", Effect::Idempotent, "looks at what is durable");
        let (durable, sees) = (store.clone(), Arc::clone(&seen));
        registry.register_fn(spec, move |request, _| {
            let (durable, sees) = (durable.clone(), Arc::clone(&sees));
            async move {
                let run: RunId = request.run_id.parse().unwrap();
                let journal = durable.journal(&SpaceName::main(), run, Seq(0)).await.unwrap();
                let count = |is: fn(&Event) -> bool| journal.events.iter().filter(|(_, event)| is(event)).count();
                let begun = count(|event| matches!(event, Event::Started { .. }));
                let ended = count(|event| matches!(event, Event::Finished { .. }));
                sees.lock().unwrap().push((begun, ended));
                Ok(ToolResponse::ok(&request, json!({"begun": begun}), ""))
            }
        });
        Self {
            runner: Runner::new(workspace, registry, RunnerOptions::default()),
            store,
            seen,
            _folder: folder,
        }
    }

    async fn submit(&self, steps: serde_json::Value) -> RunId {
        let plan = json!({"title": "ahead", "steps": steps});
        let new = NewRun::of(
            plan::from_value(&plan, &self.runner.known()).unwrap(),
            Actor::new(Role::Human, "test"),
        );
        self.runner.submit(new).await.unwrap().0
    }

    fn seen(&self) -> Vec<(usize, usize)> {
        self.seen.lock().unwrap().clone()
    }
}

fn compute(id: &str) -> serde_json::Value {
    json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": 1}}})
}

fn effect(id: &str) -> serde_json::Value {
    json!({"id": id, "do": {"tool": "witness"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn effect_begins_only_after_all_earlier_events_are_durable_e9_9() {
    let house = House::new();
    let steps: Vec<_> = (0..30)
        .map(|n| match n % 3 {
            2 => effect(&format!("s{n}")),
            _ => compute(&format!("s{n}")),
        })
        .collect();
    let run = house.submit(json!(steps)).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    // The third step saw the two before it ended, and itself begun; and so on.
    let expected: Vec<_> = (0..10).map(|n| (3 * n + 3, 3 * n + 2)).collect();
    assert_eq!(house.seen(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn pure_steps_are_batched_into_fewer_commits() {
    let house = House::new();
    let steps: Vec<_> = (0..400).map(|n| compute(&format!("s{n}"))).collect();
    let run = house.submit(json!(steps)).await;
    let before = house.store.commits();
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let commits = house.store.commits() - before;
    assert!(commits < 350, "{commits} commits for 400 steps");
    let run = house.runner.load(run).await.unwrap();
    assert_eq!(run.result().unwrap().status, Outcome::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn store_failure_stops_the_run_before_its_next_effect() {
    let mut stopped = 0;
    for lost in 1..6 {
        let house = House::new();
        let steps = json!([compute("a"), compute("b"), effect("c"), compute("d"), effect("e")]);
        let run = house.submit(steps).await;
        house.store.fail(house.store.commits() + lost, Fault::Gone);
        match house.runner.drive(run).await {
            Ok(result) => assert_eq!(result.status, Outcome::Ok),
            Err(RunnerError::Store(error)) => {
                assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
                stopped += 1;
            }
            Err(error) => panic!("{error}"),
        }
        house.store.heal();
        let seen = house.seen();
        assert!(seen.iter().all(|seen| [(3, 2), (5, 4)].contains(seen)), "{seen:?}");
        let result = house.runner.drive(run).await.unwrap();
        assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
        let run = house.runner.load(run).await.unwrap();
        assert_eq!(run.in_flight(), []);
    }
    assert!(stopped > 0, "the store failed in no drive");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreleased_run_is_listed_as_unfinished_after_a_failed_claim_e9_9() {
    let house = House::new();
    let run = house.submit(json!([effect("a"), effect("b")])).await;
    house.store.fail(house.store.commits() + 2, Fault::Gone);
    house.runner.drive(run).await.unwrap_err();
    house.store.heal();
    house.store.fail_claims();
    house.runner.drive(run).await.unwrap_err();
    house.store.heal();
    let unfinished: Vec<_> = house
        .runner
        .unfinished()
        .await
        .unwrap()
        .iter()
        .map(|row| row.id)
        .collect();
    assert_eq!(unfinished, [run]);
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_changes_during_a_run_lose_no_observation() {
    let house = House::new();
    let tide = json!({"op": "echo", "value": 1});
    let noticing = |n: u32| {
        json!({"id": format!("s{n}"), "do": {"tool": "text", "args": tide},
               "observe": {"type": "contextual_insight", "content": format!("step {n}")}})
    };
    let steps: Vec<_> = (0..40).map(noticing).collect();
    let run = house.submit(json!(steps)).await;
    let workspace = house.runner.workspace().clone();
    let human = Actor::new(Role::Human, "test");
    let change = async {
        for n in 0..10 {
            let mut policy = SpacePolicy::default();
            policy.quota.live_observations = 1_000 + n;
            workspace.set_policy(&human, policy, None, None).await.unwrap();
        }
    };
    let (result, ()) = tokio::join!(house.runner.drive(run), change);
    assert_eq!(result.unwrap().status, Outcome::Ok);
    let noticed = workspace
        .observations(folio_memory::EntryQuery {
            limit: 100,
            ..Default::default()
        })
        .await
        .unwrap();
    assert_eq!(noticed.total, 40, "each step's observation is there exactly once");
}
