//! What a failure leaves of a run, whatever drives it.

use folio_engine::{Event, Outcome};
use folio_memory::RunId;
use serde_json::{Value, json};

use super::steering::wait;
use super::{House, Houses, echo, house, journal, result_at, submit};

/// A step that exceeds its timeout.
fn broken(id: &str) -> Value {
    json!({"id": id, "timeout": "50ms", "do": {"tool": "wait", "args": {"ms": 60_000}}})
}

async fn outcomes<const N: usize>(house: &House, run: RunId, paths: [&str; N]) -> [Outcome; N] {
    let mut outcomes = [Outcome::Ok; N];
    for (outcome, path) in outcomes.iter_mut().zip(paths) {
        *outcome = result_at(house, run, path).await.status;
    }
    outcomes
}

pub(super) async fn a_required_step_that_is_read_fails_its_run(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let plan = json!({"title": "Broken", "steps": [
        broken("slow"), echo("reader", json!("{{ results.slow.output }}")), echo("after", json!(1)),
    ]});
    let run = submit(&house, &plan).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Failed, result_at(&house, run, "slow").await.stop_reason)
    );
    assert_eq!(
        outcomes(&house, run, ["slow", "reader", "after"]).await,
        [Outcome::Failed, Outcome::Skipped, Outcome::Skipped]
    );
    (house, run)
}

pub(super) async fn a_required_step_that_nobody_reads_leaves_the_rest(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let plan = json!({"title": "Half", "steps": [echo("before", json!(1)), broken("slow"), echo("after", json!(2))]});
    let run = submit(&house, &plan).await;
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Partial);
    assert_eq!(
        outcomes(&house, run, ["before", "slow", "after"]).await,
        [Outcome::Ok, Outcome::Failed, Outcome::Ok]
    );
    (house, run)
}

pub(super) async fn a_member_that_fails_hard_stops_the_others(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let reader = echo("reader", json!("{{ results.slow.output }}"));
    let plan = json!({"title": "Group", "steps": [{"id": "both", "on_hard": "cancel", "parallel": [
        wait("long", 60_000), {"id": "row", "sequence": [wait("a-while", 300), broken("slow"), reader]},
    ]}, echo("after", json!(1))]});
    let run = submit(&house, &plan).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(
        (result.status, result.stop_reason),
        (
            Outcome::Failed,
            result_at(&house, run, "both/row/slow").await.stop_reason
        )
    );
    assert_eq!(
        outcomes(&house, run, ["both/long", "both/row/a-while", "both/row/slow", "after"]).await,
        [Outcome::Cancelled, Outcome::Ok, Outcome::Failed, Outcome::Skipped]
    );
    (house, run)
}

pub(super) async fn what_fails_is_tried_as_often_as_it_may(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let mut slow = broken("slow");
    // Longer than anybody keeps a run in which nothing happens.
    slow["retry"] = json!({"max_attempts": 3, "delay": "300ms", "factor": 1.0});
    let run = submit(&house, &json!({"title": "Again", "steps": [slow]})).await;
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Failed);
    let begun = journal(&house, run).await.into_iter().filter_map(|event| match event {
        Event::Started { attempt, .. } => Some(attempt),
        _ => None,
    });
    assert_eq!(begun.collect::<Vec<_>>(), [1, 2, 3]);
    (house, run)
}
