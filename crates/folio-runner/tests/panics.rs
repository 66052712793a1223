//! A tool that breaks off takes nothing from what runs beside it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::{Outcome, plan};
use folio_memory::{Actor, Role, SpaceName};
use folio_runner::{NewRun, Runner, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, SystemClock, Workspace};
use folio_tools::{Effect, Registry, Tool, ToolContext, ToolRequest, ToolResponse, ToolSpec};
use serde_json::json;
use tokio::sync::Barrier;

/// Waits until five are at work; then the third breaks off, and the others answer.
#[derive(Debug)]
struct Breaks {
    spec: ToolSpec,
    all: Barrier,
}

#[async_trait]
impl Tool for Breaks {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _: &ToolContext) -> ToolResponse {
        self.all.wait().await;
        let number = request.args["number"].as_u64().unwrap();
        assert_ne!(number, 3, "not this one");
        ToolResponse::ok(request, json!(number), "")
    }
}

#[tokio::test]
async fn of_five_at_work_one_panics_and_four_results_are_there_for_what_follows() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
    let mut registry = Registry::with_builtins();
    registry.register(Arc::new(Breaks {
        spec: ToolSpec::new("breaks", Effect::Read, "breaks off").required(
            "number",
            folio_tools::ArgKind::Count,
            "which",
        ),
        all: Barrier::new(5),
    }));
    let runner = Runner::new(
        Workspace::new(store, clock, ids, SpaceName::main()),
        registry,
        RunnerOptions::default(),
    );
    let member =
        |number: u32| json!({"id": format!("m{number}"), "do": {"tool": "breaks", "args": {"number": number}}});
    let members: Vec<_> = (1..=5).map(member).collect();
    let document = json!({
        "title": "five", "budget": {"concurrency": 5},
        "steps": [{"id": "all", "parallel": members}],
        "report": "{% for n in results.all.output %}{{ n }}={{ results.all.output[n] }} {% endfor %}",
    });
    let plan = plan::from_value(&document, &runner.known()).unwrap();
    let run = runner
        .submit(NewRun::of(plan, Actor::new(Role::Human, "test")))
        .await
        .unwrap()
        .0;
    let result = runner.drive(run).await.unwrap();
    let run = runner.load(run).await.unwrap();
    let ended = |number: u32| run.node_at(&format!("all/m{number}")).unwrap().result.unwrap().status;
    assert_eq!(
        (1..=5).map(ended).collect::<Vec<_>>(),
        [Outcome::Ok, Outcome::Ok, Outcome::Failed, Outcome::Ok, Outcome::Ok]
    );
    let broken = run.node_at("all/m3").unwrap().result.unwrap();
    assert!(
        broken.notes.contains("breaks broke off") && broken.notes.contains("not this one"),
        "{}",
        broken.notes
    );
    assert_eq!(run.report().unwrap().1, "m1=1 m2=2 m3=null m4=4 m5=5 ");
    assert_eq!(result.status, Outcome::Failed, "a group is as its worst member");
}
