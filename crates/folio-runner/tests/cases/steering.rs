//! What people, and time, do to a running run, whatever drives it.

use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::{Event, Outcome, Run};
use folio_memory::RunId;
use folio_runner::{RunnerError, Watch};
use folio_tools::{Effect, Tool, ToolContext, ToolError, ToolRequest, ToolResponse, ToolSpec};
use serde_json::json;
use tokio::sync::Notify;

use super::{Equipment, House, Houses, ada, drive, echo, ended, house, result_at, steered, submit};

pub(super) fn wait(id: &str, ms: u64) -> serde_json::Value {
    json!({"id": id, "do": {"tool": "wait", "args": {"ms": ms}}})
}

fn in_flight(run: &Run, _: &[Event]) -> bool {
    !run.in_flight().is_empty()
}

pub(super) async fn a_call_that_is_refused_is_not_made(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let plan = json!({"title": "Roof", "steps": [
        {"id": "up", "optional": true, "do": {"tool": "climb", "args": {"what": "roof"}}}, echo("after", json!(1)),
    ]});
    let run = submit(&house, &plan).await;
    let waits = |run: &Run, _: &[Event]| !run.pending_approvals().is_empty();
    let result = steered(&house, run, waits, async |runner, now| {
        let node = now.pending_approvals()[0].0;
        runner.reject(run, node, "it rains", &ada()).await.unwrap();
    });
    assert_eq!(result.await.status, Outcome::Ok);
    assert_eq!(house.effects.lock().unwrap().len(), 0);
    (house, run)
}

pub(super) async fn a_plan_is_edited_while_it_is_carried_out(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let plan =
        json!({"title": "Edit", "steps": [wait("first", 700), echo("second", json!(2)), echo("third", json!(3))]});
    let run = submit(&house, &plan).await;
    let result = steered(&house, run, in_flight, async |runner, _| {
        let text = json!([wait("first", 700), echo("third", json!(3)), echo("fourth", json!(4))]).to_string();
        runner.edit_plan(run, None, &text, None, &ada()).await.unwrap();
    });
    assert_eq!(result.await.status, Outcome::Ok);
    let now = ended(&house, run).await;
    let is_ok = |path: &str| {
        now.node_at(path)
            .and_then(|node| node.result)
            .map(|result| result.status == Outcome::Ok)
    };
    assert_eq!((is_ok("third"), is_ok("fourth")), (Some(true), Some(true)));
    assert_ne!(is_ok("second"), Some(true), "what was taken out is not done");
    (house, run)
}

pub(super) async fn a_part_is_paused_and_the_rest_goes_on(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let plan = json!({"title": "Pause", "steps": [{"id": "both", "parallel": [
        {"id": "left", "plan": {"steps": [wait("one", 500), echo("two", json!(2))]}},
        {"id": "right", "plan": {"steps": [wait("one", 500), echo("two", json!(2))]}},
    ]}]});
    let run = submit(&house, &plan).await;
    let both = |run: &Run, _: &[Event]| run.in_flight().len() == 2;
    let result = steered(&house, run, both, async |runner, now| {
        let left = now.node_at("both/left").unwrap().id;
        runner.pause(run, Some(left), &ada()).await.unwrap();
        let workspace = runner.workspace();
        let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), run);
        let has_ended = |run: &Run, path: &str| run.node_at(path).is_some_and(|node| node.result.is_some());
        while !(has_ended(watch.run(), "both/right") && has_ended(watch.run(), "both/left/one")) {
            watch.next().await.unwrap();
        }
        assert!(!has_ended(watch.run(), "both/left/two"), "it is paused");
        runner.go_on(run, Some(left), &ada()).await.unwrap();
    });
    assert_eq!(result.await.status, Outcome::Ok);
    (house, run)
}

pub(super) async fn a_whole_run_is_stopped(houses: &dyn Houses) -> (House, RunId) {
    let stubborn = Stubborn::default();
    let mut equipment = Equipment::of(Vec::new());
    equipment.registry.register(Arc::new(stubborn.clone()));
    let house = houses.house(equipment).await;
    let plan = json!({"title": "Stop", "steps": [{"id": "long", "do": {"tool": "hold", "args": {}}}, echo("after", json!(1))]});
    let run = submit(&house, &plan).await;
    let result = steered(&house, run, in_flight, async |runner, _| {
        runner.cancel(run, None, &ada()).await.unwrap();
        // Whoever drives it has heard of that, and cannot end the run yet: the second request finds it as it is
        // everywhere.
        let workspace = runner.workspace();
        let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), run);
        while watch.run().node_at("after").is_none_or(|node| node.result.is_none()) {
            watch.next().await.unwrap();
        }
        runner.cancel(run, None, &ada()).await.unwrap();
        stubborn.lets_go.notify_one();
    });
    assert_eq!(result.await.status, Outcome::Cancelled);
    let now = ended(&house, run).await;
    assert_eq!(
        now.cancel_requests(),
        1,
        "the second changes nothing, and is not written down"
    );
    assert_eq!(result_at(&house, run, "long").await.status, Outcome::Cancelled);
    assert_eq!(result_at(&house, run, "after").await.status, Outcome::Cancelled);
    (house, run)
}

/// A call that ends only when it is released, even if it was cancelled.
#[derive(Debug, Clone)]
struct Stubborn {
    spec: ToolSpec,
    lets_go: Arc<Notify>,
}

impl Default for Stubborn {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new("hold", Effect::Idempotent, "Holds something until it is let go."),
            lets_go: Arc::default(),
        }
    }
}

#[async_trait]
impl Tool for Stubborn {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        context.cancel.cancelled().await;
        self.lets_go.notified().await;
        ToolResponse::failed(request, ToolError::cancelled())
    }
}

pub(super) async fn a_run_ends_at_its_deadline(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let plan = json!({"title": "Late", "budget": {"deadline": "800ms"}, "steps": [wait("long", 60_000)]});
    let run = submit(&house, &plan).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_ne!(result.status, Outcome::Ok);
    assert_eq!(result_at(&house, run, "long").await.status, Outcome::Cancelled);
    (house, run)
}

pub(super) async fn a_call_that_takes_too_long_is_stopped(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let plan = json!({"title": "Slow", "steps": [
        {"id": "slow", "optional": true, "timeout": "50ms", "do": {"tool": "wait", "args": {"ms": 60_000}}}, echo("after", json!(1)),
    ]});
    let run = submit(&house, &plan).await;
    drive(&house, run).await;
    assert_eq!(result_at(&house, run, "slow").await.status, Outcome::Failed);
    (house, run)
}

pub(super) async fn a_large_output_is_kept_beside_and_read_by_what_follows(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let large = "word\n".repeat(20_000);
    let plan = json!({"title": "Large", "steps": [
        echo("text", json!(large)),
        {"id": "count", "do": {"tool": "text", "args": {"op": "count", "value": "{{ results.text.output.value }}", "of": "lines"}}},
    ]});
    let run = submit(&house, &plan).await;
    drive(&house, run).await;
    let output = async |path| json!(result_at(&house, run, path).await.output);
    assert!(output("text").await.get("blob").is_some());
    assert_eq!(output("count").await, json!({"inline": {"value": 20_000}}));
    (house, run)
}

pub(super) async fn a_driver_that_leaves_is_followed_by_another(houses: &dyn Houses) -> (House, RunId) {
    let mut house = house(houses, Vec::new()).await;
    let plan =
        json!({"title": "Handed over", "steps": (0..4).map(|n| wait(&format!("w{n}"), 300)).collect::<Vec<_>>()});
    let run = submit(&house, &plan).await;
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let workspace = house.runner.workspace();
    let mut watch = Watch::new(workspace.store().clone(), workspace.space().clone(), run);
    while watch.run().node_at("w1").is_none_or(|node| node.started_at.is_none()) {
        watch.next().await.unwrap();
    }
    houses.another(&mut house, Equipment::of(Vec::new())).await;
    let result = match driving.await.unwrap() {
        Err(RunnerError::Leaving) => house.runner.drive(run).await,
        driven => driven,
    };
    assert_eq!(result.unwrap().status, Outcome::Ok);
    (house, run)
}
