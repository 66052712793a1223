//! What the benchmarks of runs share: the workspace, the smallest step, and a run of steps.

use std::path::Path;
use std::sync::Arc;

use folio_engine::plan::{self, Known};
use folio_memory::{Actor, Role, SpaceName};
use folio_runner::NewRun;
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, SystemClock, Workspace};
use serde_json::{Value, json};

/// The same allocator as in the program.
#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A workspace in a new file at `path`.
pub(crate) fn workspace_at(path: &Path) -> Workspace {
    let store = SqliteStore::open(&OpenOptions::at(path)).expect("a temporary folder can be written");
    Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    )
}

/// A step whose tool answers at once.
pub(crate) fn leaf(id: &str) -> Value {
    json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": 1}}})
}

/// A run of any number of `steps` within `budget`.
pub(crate) fn new_run(steps: &Value, budget: &Value) -> NewRun {
    let plan = json!({"title": "bench", "budget": budget, "steps": steps});
    let known = Known {
        limits: plan::Limits {
            children: 1_000,
            steps: 200_000,
            ..plan::Limits::default()
        },
        ..Known::default()
    };
    let plan = plan::from_value(&plan, &known).unwrap_or_else(|errors| panic!("{errors}"));
    NewRun::of(plan, Actor::new(Role::Human, "bench"))
}
