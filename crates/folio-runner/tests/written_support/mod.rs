//! Runs of several processes that write on one desk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::{Event, Outcome, plan};
use folio_memory::{Actor, Role, RunId, Seq, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::{self, SqliteStore};
use folio_store::{PostgresStore, RandomIds, Store, StoreError, SystemClock, Workspace, postgres};
use folio_testkit::process::{Process, orders, say};
use folio_tools::{ArgKind, Effect, Registry, Tool, ToolContext, ToolRequest, ToolResponse, ToolSpec};
use rustix::process::Signal;
use serde_json::json;

/// Longer than a busy machine needs to renew its lease.
const LEASE: Duration = Duration::from_millis(1500);
const RUNS: usize = 3;

/// The process that begins first and waits for the file `go`.
const FIRST: u16 = 1;
/// A process that writes immediately, and ends.
const SECOND: u16 = 2;
/// Processes that drive several runs at a time have this number or a higher one.
const SEVERAL: u16 = 3;

/// A folder, and a store that processes share.
#[derive(Debug)]
pub(crate) struct Place(PathBuf);

impl Place {
    /// The store at `store`, which is the path of a file or the address of a server.
    pub(crate) fn new(folder: &Path, store: &str) -> Self {
        std::fs::write(folder.join("store"), store).unwrap();
        Self(folder.to_owned())
    }

    fn store(&self) -> Arc<dyn Store> {
        let at = std::fs::read_to_string(self.0.join("store")).unwrap();
        if at.contains("://") {
            let options = postgres::OpenOptions {
                lease: LEASE,
                ..postgres::OpenOptions::at(at)
            };
            return PostgresStore::open(&options).unwrap();
        }
        let options = sqlite::OpenOptions {
            lease: LEASE,
            ..sqlite::OpenOptions::at(at)
        };
        SqliteStore::open(&options).unwrap()
    }

    fn runner(&self, number: u16) -> Runner {
        let ids = Arc::new(RandomIds::default());
        let workspace = Workspace::new(self.store(), Arc::new(SystemClock), ids, SpaceName::main());
        let mut registry = Registry::with_builtins();
        registry.register(Arc::new(Writes {
            spec: ToolSpec::new("write_on", Effect::Idempotent, "Writes on a desk.")
                .required("desk", ArgKind::Text, "Which.")
                .writes_to("desks/{desk}"),
            folder: self.0.clone(),
            number,
        }));
        Runner::new(workspace, registry, RunnerOptions::default())
    }

    fn start(&self, number: u16) -> Process {
        Process::start("written_support::child_drives_runs", &self.0, number)
    }
}

/// Writes on a desk for a while, and records whether it is alone there.
#[derive(Debug)]
struct Writes {
    spec: ToolSpec,
    folder: PathBuf,
    number: u16,
}

#[async_trait]
impl Tool for Writes {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        if self.number == FIRST {
            say("writes");
            while !self.folder.join("go").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        } else if self.number >= SEVERAL {
            let at_it = self.folder.join("at_it");
            if File::create_new(&at_it).is_err() {
                File::create(self.folder.join("met")).expect("a note");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            std::fs::remove_file(&at_it).unwrap_or_default();
        }
        ToolResponse::ok(request, json!(self.number), "")
    }
}

async fn submit(runner: &Runner, desks: [&str; 2]) -> RunId {
    let call = |desk: &str| json!({"tool": "write_on", "args": {"desk": desk}});
    let steps = json!([{"id": "a", "do": call(desks[0])}, {"id": "b", "do": call(desks[1])}]);
    let value = json!({"version": 1, "title": "t", "steps": steps});
    let plan = plan::from_value(&value, &runner.known()).unwrap();
    let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
    runner.submit(new).await.unwrap().0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by the tests"]
async fn child_drives_runs() {
    let Some(orders) = orders() else { return };
    let runner = Place(orders.path).runner(orders.number);
    let (runs, desks) = match orders.number {
        FIRST => (1, ["one", "two"]),
        SECOND => (1, ["one/part", "other"]),
        _ => (RUNS, ["one", "one/part"]),
    };
    let mut driving = Vec::new();
    for _ in 0..runs {
        let run = submit(&runner, desks).await;
        say(run);
        let driver = runner.clone();
        driving.push(tokio::spawn(async move { driver.drive(run).await }));
    }
    for driven in driving {
        match driven.await.expect("a driver") {
            Ok(result) => say(result.status),
            Err(RunnerError::Store(StoreError::RunTaken { .. })) => say("taken"),
            Err(error) => panic!("{error}"),
        }
    }
}

fn run_of(process: &mut Process) -> RunId {
    process.next_line().and_then(|id| id.parse().ok()).expect("a run")
}

/// How many calls of `run` have begun, and how many have ended.
async fn calls_of(store: &Arc<dyn Store>, run: RunId) -> (usize, usize) {
    let journal = store.journal(&SpaceName::main(), run, Seq(0)).await.unwrap();
    let count = |is: fn(&Event) -> bool| journal.events.iter().filter(|(_, event)| is(event)).count();
    (
        count(|event| matches!(event, Event::Started { .. })),
        count(|event| matches!(event, Event::Finished { .. })),
    )
}

/// Two processes with three runs each, of which each writes twice.
pub(crate) async fn one_after_the_other(place: &Place) {
    drop(place.store());
    let mut processes = [place.start(SEVERAL), place.start(SEVERAL + 1)];
    for process in &mut processes {
        let said: Vec<_> = std::iter::from_fn(|| process.next_line()).collect();
        assert_eq!(said[RUNS..], vec![Outcome::Ok.to_string(); RUNS]);
        assert!(process.wait_for_success());
    }
    assert!(!place.0.join("met").exists(), "two were at it at one time");
}

/// Another process takes over the name of a killed process; until then it waits.
pub(crate) async fn who_dies_with_a_name(place: &Place) {
    let store = place.store();
    let mut first = place.start(FIRST);
    run_of(&mut first);
    assert_eq!(first.next_line().as_deref(), Some("writes"));
    let mut second = place.start(SECOND);
    let waiting = run_of(&mut second);
    // Longer than what is refused is remembered: it asks again, and is refused again.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(calls_of(&store, waiting).await.0, 0, "nothing of it has begun");
    first.kill();
    assert_eq!(second.next_line().as_deref(), Some("ok"));
    assert!(second.wait_for_success());
}

/// Another process takes over the name of a process that is stopped for longer than its lease. When the stopped one
/// continues, it writes nothing more.
pub(crate) async fn who_is_stopped_with_a_name(place: &Place) {
    let store = place.store();
    let mut first = place.start(FIRST);
    let stopped = run_of(&mut first);
    assert_eq!(first.next_line().as_deref(), Some("writes"));
    let before = calls_of(&store, stopped).await;
    first.signal(Signal::STOP);
    let mut second = place.start(SECOND);
    run_of(&mut second);
    assert_eq!(second.next_line().as_deref(), Some("ok"));
    File::create(place.0.join("go")).unwrap();
    first.signal(Signal::CONT);
    assert_eq!(first.next_line().as_deref(), Some("taken"));
    assert!(first.wait_for_success());
    assert_eq!(
        calls_of(&store, stopped).await,
        before,
        "neither how its call ended, nor another one"
    );
    // Whoever takes it up makes the call again.
    let result = place.runner(SECOND).drive(stopped).await.unwrap();
    assert_eq!(result.status, Outcome::Ok);
}
