//! Runners of several spaces in one process.

use std::sync::Arc;

use folio_engine::{Outcome, plan};
use folio_memory::id::Ref;
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, StoreError, SystemClock, Workspace};
use folio_tools::Registry;

fn runners() -> [Runner; 2] {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let workspace = Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    );
    let main = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
    let other = main.in_space(SpaceName::parse("other").unwrap());
    [main, other]
}

async fn submitted(runner: &Runner) -> RunId {
    let text = "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
    let plan = plan::parse(text, &runner.known()).unwrap();
    let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
    runner.submit(new).await.unwrap().0
}

#[tokio::test]
async fn runner_sees_only_the_runs_of_its_space() {
    let both = runners();
    let runs = [submitted(&both[0]).await, submitted(&both[1]).await];
    for (at, runner) in both.iter().enumerate() {
        let (own, strange) = (runs[at], runs[1 - at]);
        for refused in [runner.drive(strange).await.err(), runner.seen(strange).await.err()] {
            let is_unknown = matches!(&refused, Some(RunnerError::Store(StoreError::NotFound { .. })));
            assert!(is_unknown, "{refused:?}");
        }
        assert_eq!(runner.drive(own).await.unwrap().status, Outcome::Ok);
        assert_eq!(runner.row(Ref::Id(own)).await.unwrap().handle.0, 1);
        assert!(runner.unfinished().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn leaving_applies_to_the_runners_of_all_spaces() {
    let [main, other] = runners();
    let run = submitted(&other).await;
    main.leave();
    other.wait_for_leave().await;
    assert!(matches!(other.drive(run).await, Err(RunnerError::Leaving)));
}
