//! A run that is driven step by step, to look at it in between.

use std::sync::Arc;

use folio_engine::plan;
use folio_memory::{Actor, Role, SpaceName};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{RandomIds, SystemClock, Workspace};
use folio_tools::Registry;
use serde_json::{Value, json};

use super::{Done, Drive};
use crate::dispatch::Until;
use crate::new_run::NewRun;
use crate::runner::{Runner, RunnerOptions};

/// Bytes of each output.
const OUTPUT: usize = 100_000;

/// The most bytes of large outputs that a run of `steps` has at hand after any of its steps, and how many of those there are.
async fn most_at_hand(steps: Value, outputs_at_hand: Option<usize>) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let ids = Arc::new(RandomIds::default());
    let workspace = Workspace::new(store, Arc::new(SystemClock), ids, SpaceName::main());
    let options = RunnerOptions {
        outputs_at_hand,
        ..RunnerOptions::default()
    };
    let runner = Runner::new(workspace, Registry::with_builtins(), options);
    let plan = json!({"version": 1, "title": "t", "budget": {"concurrency": 4}, "steps": steps});
    let plan = plan::from_value(&plan, &runner.known()).unwrap();
    let (run, _) = runner
        .submit(NewRun::of(plan, Actor::new(Role::Human, "ada")))
        .await
        .unwrap();
    let (store, space) = (runner.workspace().store(), runner.workspace().space());
    let fence = store.claim_run(space, run, &runner.shared.owner).await.unwrap();
    let mut drive = Drive::open(Arc::clone(&runner.shared), (run, fence), Until::Ended)
        .await
        .unwrap();
    let (mut most, mut times, mut done) = (0, 0, Vec::<Done>::new());
    loop {
        drive.step(std::mem::take(&mut done)).await.unwrap();
        most = most.max(drive.run.bytes_at_hand());
        times += 1;
        if drive.run.result().is_some() && drive.ahead.is_durable() {
            let result = drive.run.result().unwrap();
            assert_eq!(result.status.as_str(), "ok", "{}", result.notes);
            return (most, times);
        }
        tokio::select! {
            (writing, written) = drive.ahead.written() => drive.take_in(writing, written).await.unwrap(),
            Some(first) = futures_util::StreamExt::next(&mut drive.pending) => done.push(first.unwrap()),
        }
    }
}

fn echo(id: &str, value: &Value) -> Value {
    json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": value}}})
}

/// So many steps with large outputs, each of which reads the one before, and looks at the first.
fn chain(steps: usize) -> Value {
    let text = "x".repeat(OUTPUT);
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
async fn what_is_at_hand_of_large_outputs_does_not_grow_with_the_run() {
    let most = 4 * OUTPUT;
    let (few, _) = most_at_hand(chain(10), Some(most)).await;
    let (many, times) = most_at_hand(chain(60), Some(most)).await;
    assert!(times >= 60, "it was looked at {times} times");
    // What is on its way to the disk and what the next step reads come on top.
    assert!(many <= most + 4 * OUTPUT, "{many}");
    assert!(many <= few + OUTPUT, "{few} and {many}");
    // Without a limit of its own it has all of them.
    let (all, _) = most_at_hand(chain(60), None).await;
    assert!(all > 60 * OUTPUT, "{all}");
}

#[tokio::test]
async fn what_reads_all_outputs_has_all_of_them_at_hand_and_no_longer_than_it_needs_them() {
    let item = echo("item", &json!("{{ results.first.output.value }}{{ n }}"));
    let items = json!({"id": "each", "for_each": "{{ range(20) | list }}", "as": "n", "step": item});
    let counted = echo("counted", &json!("{{ results.each.output | length }}"));
    let after = (0..3).map(|n| echo(&format!("a{n}"), &json!(n)));
    let first = echo("first", &json!("x".repeat(OUTPUT)));
    let steps: Vec<Value> = [first, items, counted].into_iter().chain(after).collect();
    let (most, _) = most_at_hand(json!(steps), Some(OUTPUT)).await;
    // They are let go of as soon as the arguments are made.
    assert!(most < 12 * OUTPUT, "{most}");
}
