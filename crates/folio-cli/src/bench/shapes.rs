//! Plans for measurements: their tasks answer immediately, so that everything else is measured.

use std::collections::BTreeMap;

use folio::engine::plan::{self, Known, Limits};
use folio::runner::NewRun;
use folio::{Actor, Role};
use serde_json::{Value, json};

fn leaf(id: &str) -> Value {
    json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": 1}}})
}

/// A tree with `branching` parallel children per node, `depth` levels below the root.
pub(super) fn tree(branching: u32, depth: u32) -> Value {
    let members = (0..branching).map(|n| {
        let id = format!("n{n}");
        if depth == 1 {
            leaf(&id)
        } else {
            json!({"id": id, "plan": {"steps": tree(branching, depth - 1)}})
        }
    });
    json!([{ "parallel": members.collect::<Vec<_>>() }])
}

/// A sequence of `groups` groups, each of `members` tasks in parallel.
pub(super) fn wide(groups: u32, members: u32) -> Value {
    let group = |g| json!({"parallel": (0..members).map(|m| leaf(&format!("g{g}-{m}"))).collect::<Vec<_>>()});
    (0..groups).map(group).collect()
}

/// A sequence of `steps` tasks.
pub(super) fn chain(steps: u32) -> Value {
    (0..steps).map(|n| leaf(&format!("s{n}"))).collect()
}

/// The plan of `steps`, with limits that they fit into.
pub(super) fn plan(steps: &Value) -> Value {
    json!({"title": "bench", "budget": {"nodes": 100_000, "depth": 8, "children": 1_000, "concurrency": 64}, "steps": steps})
}

/// A run of `steps`.
pub(super) fn new_run(steps: &Value) -> NewRun {
    let known = Known {
        limits: Limits {
            children: 1_000,
            ..Limits::default()
        },
        ..Known::default()
    };
    let plan = plan::from_value(&plan(steps), &known).expect("the shapes are plans");
    run_of(plan, BTreeMap::new())
}

/// A run of `plan` with `inputs`.
pub(super) fn run_of(plan: plan::Plan, inputs: BTreeMap<String, Value>) -> NewRun {
    NewRun {
        inputs,
        ..NewRun::of(plan, Actor::new(Role::Human, "bench"))
    }
}
