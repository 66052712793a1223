//! The results of a run do not depend on which of its large outputs are in memory (decision 0087).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::models_support::*;
use folio_engine::plan::{from_value, to_markdown};
use folio_engine::run::ForkAt;
use folio_engine::{NodeId, NodeResult, Outcome, Run};
use folio_memory::id::Ref;
use folio_memory::{EntryQuery, PageQuery, RunId, Seq, SpaceName, ThreadKey, Timestamp};
use folio_model::{Cue, ScriptedModel};
use folio_runner::{ForkOptions, NewRun, Runner, RunnerError, RunnerModel, RunnerModels, RunnerOptions};
use folio_store::{Store, StoreError, Workspace};
use folio_testkit::{Fault, FaultyStore, SeededIds, SimClock};
use serde_json::{Value, json};

/// A text that is too long for a journal.
fn long(word: &str) -> String {
    format!("{word} ").repeat(80_000 / word.len())
}

/// Everything that can read outputs reads large ones: arguments, lists, titles, criteria of every kind, observations,
/// outputs of plans, the report, models and judges.
fn steps() -> Value {
    let rows: Vec<Value> = (0..100).map(|n| json!({"n": n, "text": "row ".repeat(200)})).collect();
    json!([
        {"id": "big", "do": {"tool": "text", "args": {"op": "echo", "value": {"name": "large.txt", "text": long("word")}}}},
        {"id": "rows", "do": {"tool": "text", "args": {"op": "echo", "value": {"name": "rows", "rows": rows}}}},
        {"id": "titled", "title": "Of {{ results.big.output.value.name }}",
         "do": {"tool": "text", "args": {"op": "echo", "value": "{{ results.rows.output.value.rows[7].text }}"}},
         "criteria": [{"check": {"file_exists": "{{ results.big.output.value.name }}"}}],
         "observe": [{"type": "learning", "for_each": "results.rows.output.value.rows[:2]", "content": "row {{ item.n }} of {{ results.big.output.value.name }}"}]},
        {"id": "each", "for_each": "{{ results.rows.output.value.rows[:3] }}", "as": "row", "step":
            {"id": "item", "title": "Row {{ row.n }} of {{ results.rows.output.value.name }}",
             "do": {"tool": "text", "args": {"op": "echo", "value": {"n": "{{ row.n }}", "text": "{{ results.big.output.value.text }}{{ row.n }}"}}},
             "criteria": [{"check": {"regex": {"pattern": "large", "of": "results.big.output.value.name"}}}],
             "observe": [{"type": "learning", "content": "{{ result.output.value.text | length }} of {{ results.rows.output.value.name }}"}]}},
        {"id": "collect", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ results.each.output | length }} {{ results.each.output[2].value.n }}"}}},
        {"id": "sub", "title": "Plan of {{ results.big.output.value.name }}",
         "plan": {"steps": [{"id": "in", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ results.big.output.value.name }}"}}}],
                  "output": "{{ results.big.output.value.text }}"},
         "criteria": [{"check": {"json_schema": {"schema": {"const": "rows"}, "of": "results.rows.output.value.name"}}}]},
        {"id": "judged", "do": {"tool": "mend", "args": {"what": "{{ results.big.output.value.text }}"}},
         "criteria": [{"id": "c1", "text": "it is long enough"}],
         "observe": [{"type": "learning", "content": "{{ result.output.done.what | length }}, {{ results.rows.output.value.name }}"}]},
        {"id": "tell", "title": "tell of {{ results.big.output.value.name }}", "description": "{{ results.rows.output.value.name }}", "criteria": ["told"]},
    ])
}

fn cues() -> Vec<Cue> {
    let title = "tell of large.txt";
    vec![
        judging("it is long enough", "met"),
        doing(title, "mend", json!({"what": long("mended")})),
        finishing(title),
        judging("", "met"),
    ]
}

fn plan(runner: &Runner, folder: &Path) -> NewRun {
    std::fs::write(folder.join("large.txt"), "there").unwrap();
    let report = json!({"title": "On {{ results.big.output.value.name }}", "body": "{{ results.sub.output | length }} of {{ result.output | length }}"});
    let plan = json!({"version": 1, "title": "Read all of it", "budget": {"concurrency": 1}, "steps": steps(),
        "report": report, "output": "{{ results.sub.output }}",
        "criteria": [{"check": {"regex": {"pattern": "rows", "of": "results.rows.output.value.name"}}}]});
    let plan = from_value(&plan, &runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
    NewRun {
        folder: Some(folder.to_owned()),
        ..NewRun::of(plan, person("test"))
    }
}

/// A runner that keeps at most so many bytes of large outputs in memory. Its ids and its time are deterministic.
fn runner(store: Arc<dyn Store>, seed: u16, outputs_at_hand: Option<usize>) -> Runner {
    let clock = Arc::new(SimClock::at(Timestamp::from_millis(1_000_000)));
    let workspace = Workspace::new(store, clock, Arc::new(SeededIds::new(seed)), SpaceName::main());
    let model = RunnerModel::new("scripted", Arc::new(ScriptedModel::new(cues())));
    let options = RunnerOptions {
        models: Some(RunnerModels::one(model)),
        outputs_at_hand,
        // The process of a run whose store is gone counts as killed.
        outage_patience: Some(Duration::ZERO),
        ..RunnerOptions::default()
    };
    Runner::new(workspace, registry(&Effects::default()), options)
}

/// Nothing, less than two outputs, and the default.
const CACHE_LIMITS: [Option<usize>; 3] = [Some(0), Some(150_000), None];

/// The events of a run, its pages with their entries, and its observations, without what differs each time.
async fn seen(runner: &Runner, run: RunId, folder: &Path) -> Vec<String> {
    let workspace = runner.workspace();
    let mut seen = Vec::new();
    for (_, event) in workspace.journal(run, Seq(0)).await.unwrap().events {
        let mut event = json!(event);
        without_durations(&mut event);
        seen.push(event.to_string());
    }
    for page in workspace.pages(&PageQuery::default()).await.unwrap() {
        if page.fields.run == Some(run) {
            seen.push(page.fields.title.clone());
            let entries = workspace.page_entries(Ref::Id(page.id)).await.unwrap();
            seen.extend(
                entries
                    .iter()
                    .map(|entry| format!("{}\n{}", entry.fields.title, entry.fields.body)),
            );
        }
    }
    let observed = workspace.observations(EntryQuery::default()).await.unwrap();
    seen.extend(observed.items.into_iter().map(|entry| entry.fields.body));
    let folder = folder.display().to_string();
    seen.iter().map(|text| text.replace(&folder, "FOLDER")).collect()
}

fn without_durations(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.remove("duration_us");
            entries.values_mut().for_each(without_durations);
        }
        Value::Array(items) => items.iter_mut().for_each(without_durations),
        _ => {}
    }
}

/// The result of each node.
fn outcomes(run: &Run) -> Vec<Value> {
    let (mut outcomes, mut rest) = (Vec::new(), vec![NodeId::root(run.id())]);
    while let Some(node) = rest.pop() {
        let view = run.node(node).unwrap();
        let result = view.result.unwrap();
        outcomes.push(json!([
            view.path,
            run.title(node),
            result.status,
            result.notes,
            result.output,
            result.verdicts
        ]));
        rest.extend(run.children(node).into_iter().map(|child| child.id));
    }
    outcomes
}

fn assert_same(what: &str, some: &[String], others: &[String]) {
    for (at, (one, other)) in some.iter().zip(others).enumerate() {
        let cut = |text: &str| text.chars().take(2_000).collect::<String>();
        assert!(one == other, "{what}, {at}:\n{}\n{}", cut(one), cut(other));
    }
    assert_eq!(some.len(), others.len(), "{what}");
}

#[tokio::test]
async fn events_and_pages_do_not_depend_on_outputs_in_memory() {
    let mut all = Vec::new();
    for at_hand in CACHE_LIMITS {
        let folder = tempfile::tempdir().unwrap();
        let runner = runner(sqlite(&folder.path().join("folio.db")), 1, at_hand);
        let run = submit(&runner, plan(&runner, folder.path())).await;
        let result = runner.drive(run).await.unwrap();
        assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
        assert!(result.output.blob_hash().is_some(), "its output is large, too");
        let seen = seen(&runner, run, folder.path()).await;
        for expected in [
            "Of large.txt",
            "Row 2 of rows",
            "Plan of large.txt",
            "On large.txt",
            "row 1 of large.txt",
        ] {
            assert!(seen.iter().any(|text| text.contains(expected)), "{expected}");
        }
        assert!(!seen.iter().any(|text| text.contains("is missing")));
        // Whoever looks again, and whoever goes on from a moment of it, has at hand as little.
        assert_eq!(runner.replay(run).await.unwrap().differences, Vec::<String>::new());
        let ended = runner.load(run).await.unwrap();
        let at = ForkAt::Node(ended.node_at("collect").unwrap().id);
        let forked = runner
            .fork(run, at, ThreadKey::main(), person("test"), ForkOptions::default())
            .await
            .unwrap()
            .id;
        assert_eq!(runner.drive(forked).await.unwrap().status, Outcome::Ok);
        assert_eq!(runner.replay(forked).await.unwrap().differences, Vec::<String>::new());
        all.push((seen, self::seen(&runner, forked, folder.path()).await));
    }
    let (last, others) = all.split_last().unwrap();
    for (at, other) in others.iter().enumerate() {
        assert_same(&format!("run {at}"), &other.0, &last.0);
        assert_same(&format!("fork {at}"), &other.1, &last.1);
    }
}

#[tokio::test]
async fn pages_of_an_edited_plan_do_not_depend_on_outputs_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let runner = runner(sqlite(&folder.path().join("folio.db")), 1, Some(0));
    let run = submit(&runner, plan(&runner, folder.path())).await;
    runner.drive(run).await.unwrap();
    let at = ForkAt::Node(runner.load(run).await.unwrap().node_at("collect").unwrap().id);
    let options = ForkOptions {
        paused: true,
        ..ForkOptions::default()
    };
    let fork = runner.fork(run, at, ThreadKey::main(), person("test"), options).await;
    let forked = fork.unwrap().id;
    let shown = runner
        .load(forked)
        .await
        .unwrap()
        .shown_plan(NodeId::root(forked))
        .unwrap();
    let step = "- [ ] Again {{ results.big.output.value.name }} {#again}\n  ```yaml\n  do: {tool: mend, args: {what: it}}\n  ```\n";
    let text = format!("{}{step}", to_markdown(&shown.steps));
    let edited = runner.edit_plan(forked, None, &text, Some(1), &person("test")).await;
    assert_eq!(edited.unwrap().1.added, ["again"]);
    let seen = seen(&runner, forked, folder.path()).await;
    assert!(
        seen.iter().any(|text| text.starts_with("Again large.txt\n")),
        "{seen:#?}"
    );
    assert_eq!(runner.replay(forked).await.unwrap().differences, Vec::<String>::new());
}

/// Drives a run whose first driver is about to release it.
async fn taken_up(runner: &Runner, run: RunId) -> NodeResult {
    for _ in 0..500 {
        match runner.drive(run).await {
            Err(RunnerError::Store(StoreError::RunTaken { .. })) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            driven => return driven.unwrap(),
        }
    }
    panic!("its first driver never lets go of it");
}

#[tokio::test]
async fn resumed_results_do_not_depend_on_outputs_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(sqlite(&folder.path().join("whole.db"))));
    let whole = runner(Arc::clone(&store) as Arc<dyn Store>, 1, None);
    let run = submit(&whole, plan(&whole, folder.path())).await;
    let before = store.commits();
    whole.drive(run).await.unwrap();
    let expected = outcomes(&whole.load(run).await.unwrap());
    for last in before + 1..=store.commits() {
        let path = folder.path().join(format!("{last}.db"));
        let store = Arc::new(FaultyStore::new(sqlite(&path)));
        let first = runner(Arc::clone(&store) as Arc<dyn Store>, 1, Some(0));
        let run = submit(&first, plan(&first, folder.path())).await;
        store.fail(last, Fault::Gone);
        let _ended = first.drive(run).await;
        drop((first, store));
        let second = runner(sqlite(&path), 2, (last % 2 == 0).then_some(0));
        let result = taken_up(&second, run).await;
        assert_eq!(result.status, Outcome::Ok, "{last}: {}", result.notes);
        assert_eq!(
            outcomes(&second.load(run).await.unwrap()),
            expected,
            "cut off at {last}"
        );
        assert_eq!(
            second.replay(run).await.unwrap().differences,
            Vec::<String>::new(),
            "{last}"
        );
    }
}
