//! `kill -9` at two hundred moments of one run: each time it resumes where it was and ends the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::only_run::only_run;
use folio_engine::{Event, NodeId, Run};
use folio_memory::{Actor, EntryQuery, Order, PageQuery, Role, RunId, Seq, SpaceName};
use folio_runner::{NewRun, Runner, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, SystemClock, Workspace};
use folio_tools::Registry;
use serde_json::{Value, json};

/// The number of moments; the commits of an undisturbed run are divided into as many.
const KILL_COUNT: u32 = 200;

/// The variable with the store of a child process; without it the child's test does nothing.
const STORE_ENV: &str = "FOLIO_TEST_KILL_STORE";

const PLAN: &str = "
title: Killed
steps:
  - {id: list, do: {tool: text, args: {op: echo, value: [a, b, c, d, e, f]}}}
  - id: meanwhile
    parallel:
      - {id: w1, do: {tool: wait, args: {ms: 4}}}
      - {id: w2, do: {tool: wait, args: {ms: 7}}}
      - {id: say, do: {tool: observe, args: {type: learning, content: said once}}}
  - id: each
    for_each: results.list.output.value
    concurrency: 3
    step:
      id: one
      plan:
        steps:
          - {id: wait, do: {tool: wait, args: {ms: 3}}}
          - {id: note, do: {tool: observe, args: {type: observation, content: 'saw {{ item }}'}}}
          - {id: log, do: {tool: page_append, args: {page: main, title: 'Item {{ item }}', body: 'item {{ item }} was here'}}}
        output: {letter: '{{ item }}'}
  - {id: sum, do: {tool: text, args: {op: count, value: '{{ results.each.output }}'}}}
output: {n: '{{ results.sum.output.value }}'}
report: {title: End, body: 'counted {{ results.sum.output.value }}'}
";

fn runner_on(path: &Path) -> Runner {
    let store = SqliteStore::open(&OpenOptions::at(path)).unwrap();
    let workspace = Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    );
    Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default())
}

/// What the child process does: submits the run and drives it until it is killed or done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(path) = std::env::var_os(STORE_ENV) else {
        return;
    };
    let runner = runner_on(Path::new(&path));
    let plan = folio_engine::plan::parse(PLAN, &runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
    let actor = Actor::new(Role::Human, "test");
    let (run, _) = runner.submit(NewRun::of(plan, actor)).await.unwrap();
    runner.drive(run).await.unwrap();
}

fn start_child(store: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "run::child", "--test-threads=1"])
        .env(STORE_ENV, store)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Everything that a run left behind, without what differs between runs: ids, handles, times.
#[derive(Debug, PartialEq)]
struct Remains {
    nodes: BTreeMap<String, Value>,
    pages: BTreeSet<String>,
    entries: Vec<String>,
    observations: Vec<String>,
}

async fn remains(runner: &Runner, id: RunId) -> Remains {
    let workspace = runner.workspace();
    let (store, space, now) = (workspace.store(), workspace.space(), workspace.now());
    let run = runner.load(id).await.unwrap();
    let nodes = run.tree().into_iter().map(|node| {
        let result = node.result.expect("a run that has ended has results");
        (
            node.path.to_owned(),
            json!([result.status, result.notes, result.output, result.attempts]),
        )
    });
    let pages = store
        .pages(
            space,
            &PageQuery {
                run: Some(id),
                ..PageQuery::default()
            },
        )
        .await
        .unwrap();
    let observed = workspace
        .observations(EntryQuery {
            limit: 1_000,
            ..EntryQuery::default()
        })
        .await
        .unwrap()
        .items;
    let mut entries = Vec::new();
    for page in &pages {
        let query = EntryQuery {
            page: Some(page.id),
            order: Order::Oldest,
            limit: 1_000,
            ..EntryQuery::default()
        };
        for entry in store.entries(space, &query, now).await.unwrap().items {
            let fields = entry.fields;
            let branch = page.fields.branch_id.as_deref().unwrap_or_default();
            let mut text = format!(
                "{} {branch} {} {} {} {:?}",
                page.fields.role, fields.status, fields.title, fields.body, fields.parts
            );
            // Every run has pages of its own: where one is named, it is by its branch here.
            for named in &pages {
                text = text.replace(
                    &named.id.to_string(),
                    named.fields.branch_id.as_deref().unwrap_or("main"),
                );
            }
            // As are observations, in the evidence of the step that made them.
            for named in &observed {
                text = text.replace(&named.id.to_string(), &named.fields.body);
            }
            entries.push(text);
        }
    }
    entries.sort();
    let mut observations: Vec<String> = observed.into_iter().map(|entry| entry.fields.body).collect();
    observations.sort();
    Remains {
        nodes: nodes.collect(),
        pages: pages
            .iter()
            .map(|p| {
                format!(
                    "{} {:?} {} {}",
                    p.fields.role, p.fields.branch_id, p.fields.title, p.fields.status
                )
            })
            .collect(),
        entries,
        observations,
    }
}

/// Looks for a task that was started again although it had not been in flight when a process died.
async fn calls_again(runner: &Runner, id: RunId) -> (usize, Vec<NodeId>) {
    let workspace = runner.workspace();
    let journal = workspace.store().journal(workspace.space(), id, Seq(0)).await.unwrap();
    let mut run = Run::new(id, Arc::default());
    let (mut allowed, mut again, mut unexpected) = (BTreeSet::new(), 0, Vec::new());
    for (at, event) in &journal.events {
        match event {
            Event::Resumed { in_flight, .. } => allowed = in_flight.iter().copied().collect(),
            Event::Started { node, .. } if run.node(*node).is_some_and(|view| view.attempt > 0) => {
                again += 1;
                if !allowed.remove(node) {
                    unexpected.push(*node);
                }
            }
            _ => {}
        }
        run.apply(*at, event).unwrap();
    }
    (again, unexpected)
}

#[tokio::test(flavor = "multi_thread")]
async fn run_killed_at_any_moment_resumes_to_the_same_result_e9_9() {
    let folder = tempfile::tempdir().unwrap();
    let undisturbed = folder.path().join("undisturbed.db");
    assert!(start_child(&undisturbed).wait().unwrap().success());
    let runner = runner_on(&undisturbed);
    let run = only_run(&runner).await.unwrap();
    let expected = remains(&runner, run).await;
    let commits = runner.workspace().store().head(&SpaceName::main()).await.unwrap().0;
    assert_eq!(expected.observations.len(), 7);

    let (mut before_start, mut in_the_middle, mut after_end, mut called_again) = (0, 0, 0, 0);
    for moment in 0..KILL_COUNT {
        let path = folder.path().join(format!("{moment}.db"));
        // The parent looks on through the same file, and kills when so much has been written, or a little later.
        let runner = runner_on(&path);
        let mut child = start_child(&path);
        // News of the last commits comes when the run has ended, so the moments are of the first four fifths.
        let written = Seq(commits * u64::from(moment) * 4 / (u64::from(KILL_COUNT) * 5));
        let space = SpaceName::main();
        let seen = runner.workspace().store().wait(&space, written);
        tokio::time::timeout(Duration::from_secs(10), seen)
            .await
            .unwrap_or(Ok(written))
            .unwrap();
        tokio::time::sleep(Duration::from_micros(u64::from(moment % 7) * 300)).await;
        child.kill().unwrap();
        child.wait().unwrap();

        let Some(run) = only_run(&runner).await else {
            before_start += 1;
            continue;
        };
        if runner.load(run).await.unwrap().result().is_some() {
            after_end += 1;
        } else {
            in_the_middle += 1;
        }
        tokio::time::timeout(Duration::from_secs(60), runner.drive(run))
            .await
            .expect("a dead process's run is taken over")
            .unwrap();
        assert_eq!(
            remains(&runner, run).await,
            expected,
            "killed at moment {moment} of {KILL_COUNT}"
        );
        let (again, unexpected) = calls_again(&runner, run).await;
        assert_eq!(unexpected, [], "killed at moment {moment} of {KILL_COUNT}");
        called_again += again;
        let checkup = runner.workspace().store().check().await.unwrap();
        assert_eq!(
            checkup.problems,
            Vec::<String>::new(),
            "killed at moment {moment} of {KILL_COUNT}"
        );
    }
    println!(
        "killed {KILL_COUNT} times: {before_start} before the run existed, {in_the_middle} in the middle, {after_end} after its end; \
         {called_again} calls in flight were made again, no other"
    );
    assert!(
        in_the_middle > KILL_COUNT / 2,
        "most moments missed the run: {before_start} too early, {after_end} too late"
    );
}
