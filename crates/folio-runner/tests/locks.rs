//! Calls of different runs that write the same (E9.15).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use folio_engine::{Outcome, plan};
use folio_memory::{Actor, Role, SpaceName};
use folio_runner::{NewRun, Runner, RunnerOptions};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{RandomIds, SystemClock, Workspace};
use folio_tools::{ArgKind, Effect, Registry, Tool, ToolContext, ToolRequest, ToolResponse, ToolSpec};
use serde_json::json;

/// Writes on a desk for a while, and sees how many do.
#[derive(Debug)]
struct Writes {
    spec: ToolSpec,
    at_it: AtomicUsize,
    most: Arc<AtomicUsize>,
}

#[async_trait]
impl Tool for Writes {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        let at_it = self.at_it.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(at_it, Ordering::SeqCst);
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        self.at_it.fetch_sub(1, Ordering::SeqCst);
        ToolResponse::ok(request, json!(at_it), "")
    }
}

/// The most that wrote at one time, of `runs` that each write twice: on the desks that `desk` gives them.
async fn most_at_one_time(runs: usize, desk: fn(usize) -> String) -> usize {
    let most = Arc::new(AtomicUsize::new(0));
    let mut registry = Registry::with_builtins();
    registry.register(Arc::new(Writes {
        spec: ToolSpec::new("write_on", Effect::Idempotent, "Writes on a desk.")
            .required("desk", ArgKind::Text, "Which.")
            .writes_to("desks/{desk}"),
        at_it: AtomicUsize::new(0),
        most: Arc::clone(&most),
    }));
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let workspace = Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    );
    let runner = Runner::new(workspace, registry, RunnerOptions::default());
    let mut driving = Vec::new();
    for number in 0..runs {
        let call = json!({"tool": "write_on", "args": {"desk": desk(number)}});
        let steps = json!({"version": 1, "title": "t", "steps": [{"id": "a", "do": call}, {"id": "b", "do": call}]});
        let plan = plan::from_value(&steps, &runner.known()).unwrap();
        let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
        let (run, _) = runner.submit(new).await.unwrap();
        let driver = runner.clone();
        driving.push(tokio::spawn(async move { driver.drive(run).await }));
    }
    for driven in driving {
        let result = driven.await.unwrap().unwrap();
        assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    }
    most.load(Ordering::SeqCst)
}

#[tokio::test]
async fn runs_that_write_the_same_do_so_one_after_the_other_e9_15() {
    assert_eq!(most_at_one_time(6, |_| "one".to_owned()).await, 1);
    // Of several parts of it, too, if somebody has all of it.
    let nested = |number: usize| {
        if number == 0 {
            "one".to_owned()
        } else {
            "one/part".to_owned()
        }
    };
    assert_eq!(most_at_one_time(6, nested).await, 1);
    let apart = most_at_one_time(6, |number| format!("desk {number}")).await;
    assert!(apart > 1, "nobody waits for what others write elsewhere");
}

#[tokio::test]
async fn of_more_runs_than_may_take_a_step_at_one_time_none_is_kept_from_its_end_by_those_that_wait_e9_15() {
    assert_eq!(most_at_one_time(160, |_| "one".to_owned()).await, 1);
}
