//! What a node costs when every node is durable: a tree, a wide run, a chain; the tool answers at once.
//!
//! The store is a file with a full fsync for every acknowledged commit. Divide the times by the number of nodes, which
//! is part of each name, and compare them with `bare_commit` of the same benchmark run: machines are noisy.

mod support;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use folio_engine::Outcome;
use folio_runner::{Runner, RunnerOptions};
use folio_tools::Registry;
use serde_json::{Value, json};
use support::{leaf, new_run, workspace_at};

/// A tree of `depth` levels below the root, with `branching` parallel children per node.
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

fn runs(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let mut group = criterion.benchmark_group("run");
    group.sample_size(10);
    let shapes = [
        ("tree_4_5_of_1365", tree(4, 5)),
        ("wide_10_by_100_of_1001", wide(10, 100)),
        ("chain_of_2000", chain(2_000)),
    ];
    let budget = json!({"nodes": 100_000, "depth": 8, "children": 1_000, "concurrency": 64});
    for (name, steps) in shapes {
        let new = new_run(&steps, &budget);
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    let folder = tempfile::tempdir().expect("a temporary folder can be made");
                    let workspace = workspace_at(&folder.path().join("folio.db"));
                    let runner = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
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
