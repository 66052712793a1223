//! Readers beside the driver of a run: when they are woken, and where they stop.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_engine::{Event, plan};
use folio_memory::{Actor, Role, RunId};
use folio_runner::{DriveFollower, Driven, NewRun, ObservedEvent, Observer, Runner, RunnerOptions};
use folio_tools::Registry;
use serde_json::{Value, json};

/// Records what it is told, in order.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<DriveFollower>>);

impl Observer for Kept {
    fn drive_started(&self, beside: DriveFollower) {
        self.0.lock().unwrap().push(beside);
    }
}

fn runner(folder: &Path, kept: &Arc<Kept>) -> Runner {
    let options = RunnerOptions {
        has_person: true,
        observer: Some(Arc::clone(kept) as Arc<dyn Observer>),
        ..RunnerOptions::default()
    };
    let workspace = crate::models_support::workspace(crate::models_support::sqlite(&folder.join("folio.db")));
    Runner::new(workspace, Registry::with_builtins(), options)
}

async fn submit(runner: &Runner, steps: Value) -> RunId {
    let plan = plan::from_value(&json!({ "steps": steps }), &runner.known()).unwrap();
    let new = NewRun::of(plan, Actor::new(Role::Human, "test"));
    runner.submit(new).await.unwrap().0
}

fn echo(id: &str) -> Value {
    json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": 1}}})
}

fn visit() -> Value {
    json!({"id": "visit", "title": "Go and look", "executor": "human"})
}

/// The number of nodes that ended, as far as readable: before the drive, and during it.
async fn ended(beside: &mut DriveFollower) -> (usize, usize) {
    let mut ended = (0, 0);
    let mut count = |happened: ObservedEvent<'_>| {
        if matches!(happened.event, Event::Finished { .. }) {
            if happened.is_of_this_drive {
                ended.1 += 1;
            } else {
                ended.0 += 1;
            }
        }
    };
    while beside.read(&mut count).await.unwrap() {}
    ended
}

#[tokio::test]
async fn progress_of_one_run_does_not_wake_readers_of_another() {
    let kept = Arc::<Kept>::default();
    let folder = tempfile::tempdir().unwrap();
    let runner = runner(folder.path(), &kept);
    let waits = submit(&runner, json!([visit()])).await;
    let driving = tokio::spawn({
        let runner = runner.clone();
        async move { runner.drive(waits).await }
    });
    let mut beside = loop {
        if let Some(beside) = kept.0.lock().unwrap().pop() {
            break beside;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(ended(&mut beside).await, (0, 0));
    let other = submit(&runner, json!([echo("a"), echo("b")])).await;
    let _ended = runner.drive(other).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_millis(200), beside.wait_for_more()).await;
    assert!(woken.is_err() && !beside.is_given_up());
    driving.abort();
    assert!(driving.await.unwrap_err().is_cancelled());
    tokio::time::timeout(Duration::from_secs(20), beside.wait_until_given_up())
        .await
        .unwrap();
}

#[tokio::test]
async fn drive_reader_sees_its_beginning_and_nothing_after_its_end() {
    let kept = Arc::<Kept>::default();
    let folder = tempfile::tempdir().unwrap();
    let runner = runner(folder.path(), &kept);
    let run = submit(&runner, json!([echo("a"), visit(), echo("b"), echo("c")])).await;
    let driven = runner.drive_while_due(run, Duration::from_millis(20)).await.unwrap();
    assert!(matches!(driven, Driven::Waits { .. }), "{driven:?}");
    let node = runner.load(run).await.unwrap().node_at("visit").unwrap().id;
    let person = Actor::new(Role::Human, "test");
    runner.answer(run, node, "seen", &person).await.unwrap();
    let _ended = runner.drive(run).await.unwrap();
    let mut drives = std::mem::take(&mut *kept.0.lock().unwrap());
    let [first, second] = drives.as_mut_slice() else {
        panic!("{drives:?}")
    };
    assert!(first.is_given_up() && second.is_given_up());
    // Both begin to read when all is over.
    assert_eq!(ended(first).await, (0, 1));
    assert_eq!(ended(second).await, (1, 4));
}
