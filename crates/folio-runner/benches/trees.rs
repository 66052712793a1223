//! What a node costs when every node is durable: a tree, a wide run, a chain; the tool answers at once.
//!
//! The store is a file with a full fsync for every acknowledged commit. Divide the times by the number of nodes, which
//! stands in each name, and compare them with `bare_commit` of the same run of this benchmark: machines are noisy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use folio_engine::Outcome;
use folio_engine::plan::{self, Known};
use folio_memory::{Actor, Role, SpaceName};
use folio_runner::{NewRun, Runner, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, SystemClock, Workspace};
use folio_tools::Registry;
use serde_json::{Value, json};

fn runner_on(path: &Path) -> Runner {
    let store = SqliteStore::open(&OpenOptions::at(path)).expect("a temporary folder can be written");
    let workspace = Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    );
    Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default())
}

fn leaf(id: &str) -> Value {
    json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": 1}}})
}

/// `branching` parallel children each, `depth` levels below the root.
fn tree(branching: u32, depth: u32) -> Value {
    let members: Vec<Value> = (0..branching)
        .map(|n| {
            let id = format!("n{n}");
            if depth == 1 {
                leaf(&id)
            } else {
                json!({"id": id, "plan": {"steps": tree(branching, depth - 1)}})
            }
        })
        .collect();
    json!([{ "parallel": members }])
}

fn chain(steps: u32) -> Value {
    (0..steps).map(|n| leaf(&format!("s{n}"))).collect()
}

fn wide(groups: u32, members: u32) -> Value {
    (0..groups)
        .map(|g| json!({"parallel": (0..members).map(|m| leaf(&format!("g{g}-{m}"))).collect::<Vec<_>>()}))
        .collect()
}

fn new_run(steps: &Value) -> NewRun {
    let plan = json!({"title": "bench", "budget": {"nodes": 100_000, "depth": 8, "children": 1_000, "concurrency": 64}, "steps": steps});
    let known = Known {
        limits: plan::Limits {
            children: 1_000,
            ..plan::Limits::default()
        },
        ..Known::default()
    };
    let plan = plan::from_value(&plan, &known).unwrap_or_else(|errors| panic!("{errors}"));
    NewRun {
        plan,
        goal: None,
        inputs: BTreeMap::new(),
        folder: None,
        shell: Default::default(),
        allow_tools: Vec::new(),
        plan_mode: Default::default(),
        plan_gate: Default::default(),
        thread: folio_memory::ThreadKey::main(),
        actor: Actor::new(Role::Human, "bench"),
    }
}

fn runs(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let mut group = criterion.benchmark_group("run");
    group.sample_size(10);
    let shapes = [
        ("tree_4_5_of_1365", tree(4, 5)),
        ("wide_10_by_100_of_1001", wide(10, 100)),
        ("chain_of_2000", chain(2_000)),
    ];
    for (name, steps) in shapes {
        let new = new_run(&steps);
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    let folder = tempfile::tempdir().expect("a temporary folder can be made");
                    let runner = runner_on(&folder.path().join("folio.db"));
                    (folder, runner, new.clone())
                },
                |(folder, runner, new)| {
                    runtime.block_on(async {
                        let (run, _) = runner.submit(new).await.expect("the plan is right");
                        let result = runner.drive(run).await.expect("the store works");
                        assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
                    });
                    (folder, runner)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, runs);
criterion_main!(benches);
