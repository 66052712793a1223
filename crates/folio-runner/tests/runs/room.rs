//! What a driver does while a call that is to be retried waits for room (E9.9).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use folio_engine::{Outcome, plan};
use folio_memory::{Actor, Clock, Role, SpaceName, Timestamp};
use folio_runner::{NewRun, Runner, RunnerOptions};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{RandomIds, Workspace};
use folio_testkit::SimClock;
use folio_tools::{Effect, FailureKind, Registry, Tool, ToolContext, ToolError, ToolRequest, ToolResponse, ToolSpec};
use serde_json::json;
use tokio::sync::Semaphore;

/// A clock that counts how often it is read: a driver reads it in every iteration.
#[derive(Debug, Default)]
struct CountingClock {
    clock: SimClock,
    times: AtomicUsize,
}

impl Clock for CountingClock {
    fn now(&self) -> Timestamp {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.clock.now()
    }
}

/// Signals that it has begun, and ends when released.
#[derive(Debug)]
struct BlockingTool {
    spec: ToolSpec,
    begun: Arc<Semaphore>,
    may_end: Arc<Semaphore>,
}

#[async_trait]
impl Tool for BlockingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        self.begun.add_permits(1);
        self.may_end.acquire().await.unwrap().forget();
        ToolResponse::ok(request, json!(1), "")
    }
}

/// Fails the first time.
#[derive(Debug)]
struct FailingTool {
    spec: ToolSpec,
    times: AtomicUsize,
}

#[async_trait]
impl Tool for FailingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        match self.times.fetch_add(1, Ordering::SeqCst) {
            0 => ToolResponse::failed(request, ToolError::new(FailureKind::Unavailable, "away", "not now")),
            _ => ToolResponse::ok(request, json!(2), ""),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn driver_does_not_spin_while_a_retry_lacks_room_e9_9() {
    let clock = Arc::new(CountingClock::default());
    let (begun, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut registry = Registry::with_builtins();
    registry.register(Arc::new(BlockingTool {
        spec: ToolSpec::new("hold", Effect::Read, "Waits."),
        begun: Arc::clone(&begun),
        may_end: Arc::clone(&may_end),
    }));
    registry.register(Arc::new(FailingTool {
        spec: ToolSpec::new("fail_once", Effect::Read, "Fails once."),
        times: AtomicUsize::new(0),
    }));
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let ids = Arc::new(RandomIds::default());
    let workspace = Workspace::new(store, Arc::clone(&clock) as Arc<dyn Clock>, ids, SpaceName::main());
    let runner = Runner::new(workspace, registry, RunnerOptions::default());
    let steps = json!([{"parallel": [
        {"id": "a", "do": {"tool": "fail_once"}, "retry": {"max_attempts": 2, "delay": "1s"}},
        {"id": "b", "do": {"tool": "hold"}},
    ]}]);
    let plan = json!({"version": 1, "title": "t", "budget": {"concurrency": 1}, "steps": steps});
    let plan = plan::from_value(&plan, &runner.known()).unwrap();
    let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
    let (run, _) = runner.submit(new).await.unwrap();
    let driver = runner.clone();
    let driven = tokio::spawn(async move { driver.drive(run).await });
    begun.acquire().await.unwrap().forget();

    // The time of the retry comes while there is no room for it.
    clock.clock.advance(Duration::from_secs(2));
    tokio::time::advance(Duration::from_secs(2)).await;
    let turns = |times: usize| async move {
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    };
    turns(100).await;
    let before = clock.times.load(Ordering::SeqCst);
    turns(2_000).await;
    let looked = clock.times.load(Ordering::SeqCst) - before;
    assert!(looked < 50, "it went round {looked} times");

    // What ends makes room, and has it looked at.
    may_end.add_permits(1);
    let result = driven.await.unwrap().unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
}
