//! Scale: one run of 100,000 nodes, 1,000 runs at the same time, and the fold of 100,000 events.
//!
//! ```sh
//! cargo bench -p folio-runner --bench scale            # all parts, each in a process of its own
//! cargo bench -p folio-runner --bench scale -- nodes   # one part: nodes, items, planned, tasks, calls, models, fold
//! ```
//!
//! The store is a file with a full fsync for every acknowledged commit. Memory is the peak resident memory of the
//! process of a part, the program itself included; it is measured on Linux only.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark measures, and prints what it measured"
)]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use folio_engine::plan::Plan;
use folio_engine::run::PlanMode;
use folio_engine::template::Templates;
use folio_engine::{Outcome, Run};
use folio_memory::{RunId, Seq};
use folio_model::{Delta, Model, ModelError, Reply, Request, StopCause, ToolCall, Usage};
use folio_runner::{NewRun, Runner, RunnerModel, RunnerModels, RunnerOptions};
use folio_tools::Registry;
use serde_json::{Value, json};
use support::{leaf, new_run, workspace_at};

/// How long the model takes to answer.
const LATENCY: Duration = Duration::from_millis(50);
const RUNS: u32 = 1_000;
const STEPS: u32 = 10;

/// A model that reports the task as done, after a while.
#[derive(Debug)]
struct Finishing;

#[async_trait]
impl Model for Finishing {
    async fn reply(&self, _: &Request, _: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        tokio::time::sleep(LATENCY).await;
        Ok(Reply {
            permissions: Vec::new(),
            stop: StopCause::ToolCalls,
            text: String::new(),
            tool_calls: vec![ToolCall {
                id: "1".to_owned(),
                tool: "finish".to_owned(),
                args: json!({"status": "ok", "notes": "done", "output": 1}),
            }],
            usage: Some(Usage {
                tokens_in: 1_000,
                tokens_out: 20,
                ..Usage::default()
            }),
        })
    }
}

fn runner_on(path: &Path) -> Runner {
    let model = RunnerModel::new("finishing", Arc::new(Finishing)).at_a_time(RUNS as usize);
    let options = RunnerOptions {
        models: Some(RunnerModels::one(model)),
        ..RunnerOptions::default()
    };
    Runner::new(workspace_at(path), Registry::with_builtins(), options)
}

/// 99,218 nodes, all written out: nine parallel tasks with eleven children each, each of which has a thousand children.
fn tree() -> Value {
    let leaves: Vec<Value> = (0..1_000).map(|n| leaf(&format!("c{n}"))).collect();
    let below = |count: u32, name: &str, members: &[Value]| -> Vec<Value> {
        (0..count)
            .map(|n| json!({"id": format!("{name}{n}"), "plan": {"steps": [{"parallel": members}]}}))
            .collect()
    };
    let groups = below(11, "b", &leaves);
    json!([{"parallel": below(9, "a", &groups)}])
}

/// 99,202 nodes: 100 items with 990 nested items each.
fn items() -> Value {
    let list = |count: u32| (0..count).collect::<Vec<_>>();
    let inner = json!({"id": "inner", "for_each": list(990), "max_items": 1_000, "step": leaf("leaf")});
    let group = json!({"id": "group", "plan": {"steps": [inner]}});
    json!([{"id": "outer", "for_each": list(100), "max_items": 1_000, "step": group}])
}

/// A run of `steps` in which no model divides a task.
fn undivided(steps: &Value) -> NewRun {
    let budget = json!({"nodes": 200_000, "depth": 8, "children": 1_000, "concurrency": 64, "tool_calls": 1_000_000});
    NewRun {
        plan_mode: PlanMode::Never,
        ..new_run(steps, &budget)
    }
}

/// The peak resident memory of this process, in MB of 1,000,000 bytes.
fn memory_most() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1_000_000.0)
}

fn memory_in_words() -> String {
    memory_most().map_or_else(String::new, |mb| format!(", at most {mb:.0} MB resident"))
}

async fn one_run(name: &str, runner: &Runner, steps: Value) -> RunId {
    let new = undivided(&steps);
    // The run has its own copy by now.
    drop(steps);
    run_to_end(name, runner, new).await
}

async fn run_to_end(name: &str, runner: &Runner, new: NewRun) -> RunId {
    let began = Instant::now();
    let (run, _) = runner.submit(new).await.expect("the plan is right");
    let submitted = began.elapsed();
    let began = Instant::now();
    let result = runner.drive(run).await.expect("the store works");
    let took = began.elapsed();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let memory = memory_in_words();
    let nodes = runner.load(run).await.expect("it was written").len();
    println!(
        "{name}: {nodes} nodes in {:.2} s, {:.3} ms a node (submitted in {:.2} s){memory}",
        took.as_secs_f64(),
        took.as_secs_f64() * 1_000.0 / nodes as f64,
        submitted.as_secs_f64(),
    );
    run
}

/// Ten steps in a row, each of which asks a model.
fn asking() -> Value {
    (0..STEPS)
        .map(|n| json!({"id": format!("s{n}"), "description": format!("take step {n}")}))
        .collect()
}

/// Ten steps in a row that take as long as a model answer but need no model.
fn waiting() -> Value {
    let ms = u64::try_from(LATENCY.as_millis()).unwrap_or(u64::MAX);
    (0..STEPS)
        .map(|n| json!({"id": format!("s{n}"), "do": {"tool": "wait", "args": {"ms": ms}}}))
        .collect()
}

/// A model that divides a goal into a hundred parallel tasks and each of these into as many more, and does the tasks
/// that are left.
#[derive(Debug)]
struct Planning {
    /// The definition of the smallest tasks, without the id.
    smallest: Value,
}

const BRANCHES: usize = 100;
const LEAVES: usize = 990;

/// A task for a model with no constraint on its output.
fn task(title: &str) -> Value {
    json!({"title": title, "criteria": [{"id": "c1", "text": "it is there", "check": {"json_schema": {"schema": true}}}]})
}

impl Planning {
    fn decision(&self, task: &str) -> Value {
        let members = |count: usize, each: &Value| -> Vec<Value> {
            let named = (0..count).map(|n| {
                let mut member = each.clone();
                member["id"] = json!(format!("m{n}"));
                member
            });
            named.collect()
        };
        let apart = |steps: Vec<Value>| json!({"decision": "plan", "reason": "it is much", "steps": [steps]});
        if task.starts_with("everything") {
            apart(members(BRANCHES, &self::task("a branch")))
        } else if task.starts_with("a branch") {
            let mut smallest = self.smallest.clone();
            smallest["satisfies"] = json!(["c1"]);
            apart(members(LEAVES, &smallest))
        } else {
            let finish = json!({"status": "ok", "notes": "done", "output": 1});
            json!({"decision": "execute", "reason": "it is little", "action": {"tool": "finish", "args": finish}})
        }
    }
}

#[async_trait]
impl Model for Planning {
    async fn reply(&self, request: &Request, _: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let asked: Vec<&str> = request.messages.iter().map(|said| said.text.as_str()).collect();
        let asked = asked.join("\n");
        let task = asked.split("# Task\n").nth(1).unwrap_or_default();
        let answer = if asked.contains("Decide how") {
            self.decision(task)
        } else {
            json!({"status": "ok", "notes": "done"})
        };
        Ok(Reply {
            permissions: Vec::new(),
            stop: StopCause::Done,
            text: answer.to_string(),
            tool_calls: Vec::new(),
            usage: Some(Usage {
                tokens_in: 1_000,
                tokens_out: 20,
                ..Usage::default()
            }),
        })
    }
}

/// One goal that a model divides at two levels; the results of many steps are combined in parts.
async fn planned(name: &str, path: &Path, smallest: Value) {
    let model = RunnerModel::new("planning", Arc::new(Planning { smallest })).at_a_time(64);
    let options = RunnerOptions {
        models: Some(RunnerModels::one(model)),
        ..RunnerOptions::default()
    };
    let runner = Runner::new(workspace_at(path), Registry::with_builtins(), options);
    let budget = json!({"nodes": 200_000, "children": 1_000, "concurrency": 64, "tool_calls": 1_000_000, "tokens": 10_000_000_000_u64});
    let mut new = new_run(&json!([leaf("any")]), &budget);
    new.plan = Plan {
        budget: new.plan.budget,
        ..Plan::of_goal("everything")
    };
    run_to_end(name, &runner, new).await;
}

/// Many runs at the same time.
async fn many_runs(name: &str, runner: &Runner, steps: &Value) {
    let new = undivided(steps);
    let began = Instant::now();
    let submitted = futures_util::future::join_all((0..RUNS).map(|_| runner.submit(new.clone()))).await;
    let runs: Vec<RunId> = submitted
        .into_iter()
        .map(|run| run.expect("the plan is right").0)
        .collect();
    let took_to_submit = began.elapsed();
    let began = Instant::now();
    let driving: Vec<_> = runs
        .into_iter()
        .map(|run| {
            let runner = runner.clone();
            tokio::spawn(async move { runner.drive(run).await })
        })
        .collect();
    for driven in driving {
        let result = driven.await.expect("no driver panics").expect("the store works");
        assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    }
    let ideal = LATENCY * STEPS;
    println!(
        "{name}: {RUNS} runs of {STEPS} steps in {:.3} s, of which steps take {:.1} s (submitted in {:.2} s){}",
        began.elapsed().as_secs_f64(),
        ideal.as_secs_f64(),
        took_to_submit.as_secs_f64(),
        memory_in_words()
    );
}

/// Folds the first 100,000 events of a journal from memory, and once more from the file.
async fn fold(runner: &Runner, run: RunId) {
    let workspace = runner.workspace();
    let began = Instant::now();
    let journal = workspace
        .store()
        .journal(workspace.space(), run, Seq(0))
        .await
        .expect("it was written");
    let read = began.elapsed();
    let templates = Arc::new(Templates::new());
    let mut times = Vec::new();
    for _ in 0..5 {
        let mut folded = Run::new(run, Arc::clone(&templates));
        let began = Instant::now();
        for (at, event) in journal.events.iter().take(100_000) {
            folded.apply(*at, event).expect("it was written by a runner");
        }
        times.push(began.elapsed());
    }
    times.sort_unstable();
    println!(
        "fold: 100000 events in {:.0} ms (median of 5; the journal of {} events is read in {:.0} ms)",
        times[2].as_secs_f64() * 1_000.0,
        journal.events.len(),
        read.as_secs_f64() * 1_000.0
    );
}

fn part(name: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let runner = runner_on(&folder.path().join("folio.db"));
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    runtime.block_on(async {
        match name {
            "nodes" => drop(one_run(name, &runner, tree()).await),
            "items" => drop(one_run(name, &runner, items()).await),
            "planned" => Box::pin(planned(name, &folder.path().join("planned.db"), leaf(""))).await,
            "tasks" => Box::pin(planned(name, &folder.path().join("planned.db"), task("a leaf"))).await,
            "models" => many_runs(name, &runner, &asking()).await,
            "calls" => many_runs(name, &runner, &waiting()).await,
            "fold" => {
                let run = one_run("the run that is folded", &runner, items()).await;
                fold(&runner, run).await;
            }
            other => panic!("{other}: the parts are nodes, items, planned, tasks, calls, models and fold"),
        }
    });
}

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if let [name] = parts.as_slice() {
        return part(name);
    }
    let this = std::env::current_exe().expect("a program knows where it is");
    for name in ["nodes", "items", "planned", "tasks", "calls", "models", "fold"] {
        let ended = Command::new(&this).arg(name).status().expect("it was started before");
        assert!(ended.success(), "{name}: {ended}");
    }
}
