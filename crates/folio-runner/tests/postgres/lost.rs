//! Runs whose server restarts, or loses the last commits because a copy takes its place, while their process lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::{NodeResult, Outcome, plan};
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{RandomIds, StoreError, SystemClock, Workspace};
use folio_testkit::cluster::{Cluster, ClusterOptions};
use folio_tools::{Effect, Registry, Tool, ToolContext, ToolRequest, ToolResponse, ToolSpec};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// No failover takes this long.
const FAR_AWAY: Duration = Duration::from_secs(60);

/// A tool that ends once it may, and counts its calls.
#[derive(Debug)]
struct Gate {
    spec: ToolSpec,
    begun: Notify,
    release: Notify,
    calls: AtomicU32,
}

#[async_trait]
impl Tool for Gate {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.begun.notify_one();
        self.release.notified().await;
        ToolResponse::ok(request, json!({}), "")
    }
}

/// A process with a run that calls the gate, and then asks a person.
struct Scene {
    runner: Runner,
    gate: Arc<Gate>,
    run: RunId,
}

fn ada() -> Actor {
    Actor::new(Role::Human, "ada")
}

async fn open_store(cluster: &Cluster) -> Arc<PostgresStore> {
    let options = OpenOptions {
        lease: Duration::from_secs(2),
        ..OpenOptions::at(cluster.url())
    };
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&options)).await;
    opened.unwrap().unwrap()
}

impl Scene {
    async fn on(cluster: &Cluster) -> Self {
        let ids = Arc::new(RandomIds::default());
        let store = open_store(cluster).await;
        let workspace = Workspace::new(store, Arc::new(SystemClock), ids, SpaceName::main());
        let gate = Arc::new(Gate {
            spec: ToolSpec::new("gate", Effect::Read, "Ends when it may."),
            begun: Notify::new(),
            release: Notify::new(),
            calls: AtomicU32::new(0),
        });
        let mut registry = Registry::with_builtins();
        registry.register(Arc::clone(&gate) as Arc<dyn Tool>);
        let options = RunnerOptions {
            has_person: true,
            ..RunnerOptions::default()
        };
        let runner = Runner::new(workspace, registry, options);
        let steps = json!([
            {"id": "call", "do": {"tool": "gate"}},
            {"id": "look", "title": "look at it", "executor": "human"},
        ]);
        let plan = plan::from_value(&json!({"version": 1, "title": "t", "steps": steps}), &runner.known()).unwrap();
        let (run, _) = runner.submit(NewRun::of(plan, ada())).await.unwrap();
        Self { runner, gate, run }
    }

    fn drive(&self) -> JoinHandle<Result<NodeResult, RunnerError>> {
        let (runner, run) = (self.runner.clone(), self.run);
        tokio::spawn(async move { runner.drive(run).await })
    }

    /// Waits until the run asks the person.
    async fn wait_for_question(&self) {
        let asked = async {
            while self
                .runner
                .load(self.run)
                .await
                .is_ok_and(|run| run.questions().is_empty())
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(FAR_AWAY, asked).await.expect("a question");
    }

    async fn answer(&self) {
        let node = self.runner.load(self.run).await.unwrap().questions()[0].0;
        self.runner.answer(self.run, node, "fine", &ada()).await.unwrap();
    }

    /// Waits until the process has noticed that another server answers than at `lineage`.
    async fn wait_for_another_server(&self, lineage: u64) {
        let noticed = async {
            while self.lineage() == lineage {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(FAR_AWAY, noticed).await.expect("another server");
    }

    fn lineage(&self) -> u64 {
        self.runner.workspace().store().lineage()
    }
}

async fn ended(driving: JoinHandle<Result<NodeResult, RunnerError>>) -> Result<NodeResult, RunnerError> {
    let driven = tokio::time::timeout(FAR_AWAY, driving).await;
    driven.expect("the run stands still").unwrap()
}

/// Drives a run that asks a person, and replaces its server by a copy from when its call had begun. `others_write` makes
/// others write to the run afterwards until its journal is longer than it was.
async fn lose_question_and_end_of_call(others_write: bool) {
    let cluster = Cluster::start(ClusterOptions::default());
    let scene = Scene::on(&cluster).await;
    let driving = scene.drive();
    scene.gate.begun.notified().await;
    let copy = cluster.copy();
    scene.gate.release.notify_one();
    scene.wait_for_question().await;
    let head = scene.runner.load(scene.run).await.unwrap().head();
    let lineage = scene.lineage();
    copy.replace();
    if others_write {
        let other = Scene::on(&cluster).await.runner;
        while other.load(scene.run).await.unwrap().head() <= head {
            other.pause(scene.run, None, &ada()).await.unwrap();
            other.go_on(scene.run, None, &ada()).await.unwrap();
        }
    }
    match ended(driving).await {
        Err(RunnerError::Store(StoreError::Unavailable { reason, .. })) => assert!(reason.contains("lost"), "{reason}"),
        driven => panic!("{driven:?}"),
    }
    // Until then, this process may still know what is lost.
    scene.wait_for_another_server(lineage).await;
    // Like the run of a dead driver: the call is made again, and then the person is asked again.
    let driving = scene.drive();
    scene.gate.release.notify_one();
    scene.wait_for_question().await;
    assert_eq!(scene.gate.calls.load(Ordering::SeqCst), 2);
    scene.answer().await;
    assert_eq!(ended(driving).await.unwrap().status, Outcome::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_whose_last_commits_are_lost_is_given_up_and_continues_from_what_is_left() {
    lose_question_and_end_of_call(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_with_other_commits_in_place_of_lost_ones_is_given_up() {
    lose_question_and_end_of_call(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_reports_that_what_it_has_read_is_lost() {
    let cluster = Cluster::start(ClusterOptions::default());
    let scene = Scene::on(&cluster).await;
    let driving = scene.drive();
    scene.gate.begun.notified().await;
    let copy = cluster.copy();
    scene.gate.release.notify_one();
    scene.wait_for_question().await;
    let other = Scene::on(&cluster).await.runner;
    let (mut whole, mut lost) = (other.watch(scene.run), other.watch(scene.run));
    lost.catch_up().await.unwrap();
    let waiting = tokio::spawn(async move {
        let next = lost.next().await;
        (next, lost.head())
    });
    copy.replace();
    // The log stays shorter than it was.
    let (next, head) = tokio::time::timeout(FAR_AWAY, waiting)
        .await
        .expect("an answer")
        .unwrap();
    match next {
        Err(RunnerError::Store(StoreError::Unavailable { reason, .. })) => assert!(reason.contains("lost"), "{reason}"),
        next => panic!("{next:?}"),
    }
    // A new one shows what is left.
    whole.next().await.unwrap().unwrap();
    assert!(whole.head() < head);
    ended(driving).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_goes_on_when_its_server_restarts_and_nothing_is_lost() {
    let cluster = Cluster::start(ClusterOptions::default());
    let scene = Scene::on(&cluster).await;
    let driving = scene.drive();
    scene.gate.begun.notified().await;
    let lineage = scene.lineage();
    cluster.kill();
    cluster.start_again();
    scene.wait_for_another_server(lineage).await;
    // Longer than it takes to look at the journals again.
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.gate.release.notify_one();
    scene.wait_for_question().await;
    scene.answer().await;
    assert_eq!(ended(driving).await.unwrap().status, Outcome::Ok);
    assert_eq!(scene.gate.calls.load(Ordering::SeqCst), 1);
}
