//! What models do, whatever drives the run.

use folio_engine::{Outcome, StopReason};
use folio_memory::{EntryQuery, RunId};
use folio_model::{ModelErrorKind, When};
use serde_json::json;

use super::{House, Houses, drive, ended, house, submit};
use crate::models_support::{calling, doing, finishing, handing_back, mending, of_goal, three_towns};

pub(super) async fn what_was_not_met_is_planned_anew(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, mending()).await;
    let goal = of_goal("mend the clock", json!({"criteria": ["it ticks"]}));
    let (run, _) = house.runner.submit(goal).await.unwrap();
    drive(&house, run).await;
    let loaded = house.runner.load(run).await.unwrap();
    let versions = loaded.node(folio_engine::NodeId::root(run)).unwrap().plan_version;
    assert_eq!(versions, 2);
    assert_eq!(house.effects.lock().unwrap().len(), 2, "what was done stays done");
    (house, run)
}

pub(super) async fn each_item_that_was_found_is_a_task(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, three_towns()).await;
    let (run, _) = house
        .runner
        .submit(of_goal("visit three towns", json!({})))
        .await
        .unwrap();
    assert_eq!(drive(&house, run).await.notes, "all three");
    assert_eq!(house.effects.lock().unwrap().len(), 3);
    (house, run)
}

pub(super) async fn a_limit_has_a_task_hand_back_what_it_has(houses: &dyn Houses) -> (House, RunId) {
    let cues = vec![
        doing("count the stars", "mend", json!({"what": "1"})),
        calling("count the stars", "", "mend", json!({"what": "2"})),
        handing_back("some are counted"),
    ];
    let house = house(houses, cues).await;
    let goal = of_goal("count the stars", json!({"budget": {"model_calls": 5}}));
    let (run, _) = house.runner.submit(goal).await.unwrap();
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(
        (result.status, result.notes.as_str()),
        (Outcome::Partial, "some are counted")
    );
    (house, run)
}

pub(super) async fn a_model_that_refuses_its_key_ends_the_run(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, vec![When::any().error(ModelErrorKind::Unauthorised).always()]).await;
    let (run, _) = house.runner.submit(of_goal("paint the door", json!({}))).await.unwrap();
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Failed, Some(StopReason::Auth))
    );
    (house, run)
}

pub(super) async fn a_task_of_a_model_stands_between_calls(houses: &dyn Houses) -> (House, RunId) {
    let fine = json!({"notes": "three is fine", "output": {"fine": true}});
    let house = house(houses, vec![doing("judge it\nthere are 3", "finish", fine)]).await;
    let plan = json!({"title": "Count and judge", "output": "{{ results.say.output.value }}", "steps": [
        {"id": "count", "do": {"tool": "text", "args": {"op": "count", "value": ["a", "b", "c"]}}},
        {"id": "judge", "title": "judge it", "description": "there are {{ results.count.output.value }}"},
        {"id": "say", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ results.judge.output.fine }}"}}},
    ]});
    let run = submit(&house, &plan).await;
    assert_eq!(json!(drive(&house, run).await.output), json!({"inline": true}));
    (house, run)
}

pub(super) async fn what_a_model_notices_reaches_memory_once(houses: &dyn Houses) -> (House, RunId) {
    let seen = json!({"type": "learning", "content": "the guest likes Burgundy", "tags": ["wine"]});
    let house = house(
        houses,
        vec![doing("choose a wine", "observe", seen), finishing("choose a wine")],
    )
    .await;
    let (run, _) = house.runner.submit(of_goal("choose a wine", json!({}))).await.unwrap();
    drive(&house, run).await;
    let workspace = house.runner.workspace();
    let stored = workspace.observations(EntryQuery::default()).await.unwrap();
    assert_eq!((stored.total, stored.items[0].fields.source.run), (1, Some(run)));
    (house, run)
}

pub(super) async fn a_question_that_nobody_answers_has_its_default(houses: &dyn Houses) -> (House, RunId) {
    let asked = json!({"question": "Which colour?", "default": "grey", "minutes": 0.01});
    let cues = vec![
        doing("paint the door", "ask_person", asked),
        calling("paint the door", "grey", "finish", json!({"notes": "painted grey"})),
    ];
    let house = house(houses, cues).await;
    let (run, _) = house.runner.submit(of_goal("paint the door", json!({}))).await.unwrap();
    assert_eq!(drive(&house, run).await.notes, "painted grey");
    assert!(ended(&house, run).await.questions().is_empty());
    (house, run)
}
