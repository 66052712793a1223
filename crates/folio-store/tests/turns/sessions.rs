//! What a conversation is told that keeps what it is told.

use folio_memory::context::Section;
use folio_memory::id::Ref;
use folio_memory::tokens::Estimate;
use folio_memory::{EntryQuery, ThreadKey};
use folio_store::workspace::{ContextRequest, ForgetFilter};
use serde_json::{Value, json};

use crate::scene::{Scene, person};

/// The sections that a prompt is told.
const SECTIONS: [(Section, u32); 2] = [(Section::ScratchPage, 60), (Section::Episodic, 40)];

/// What a new turn of `session` is told within `budget`.
async fn tell(scene: &Scene, session: &str, prompt: &str, budget: u32) -> String {
    let turn = scene.begin(prompt).await;
    let request = ContextRequest {
        turn: Some(Ref::Id(turn.turn.begun.id)),
        budget,
        sections: SECTIONS.to_vec(),
        ..ContextRequest::of(ThreadKey::main())
    };
    let told = scene
        .workspace
        .assemble_context_for_session(session, request, &Estimate)
        .await
        .unwrap();
    scene.end(&turn).await;
    told.text
}

async fn notice(scene: &Scene, observation: Value) {
    let input = serde_json::from_value(observation).unwrap();
    scene.workspace.add_observation(&person(), input, None).await.unwrap();
}

#[tokio::test]
async fn what_had_no_room_is_told_with_the_next_prompt_m7_11_4() {
    let scene = Scene::new();
    for n in 10..30 {
        notice(&scene, json!({"content": format!("Quay {n} is closed")})).await;
    }
    let mut told = vec![tell(&scene, "s", "hello", 100).await];
    assert!(told[0].contains("more"), "{}", told[0]);
    while told.len() < 12 && !told.last().unwrap().is_empty() {
        told.push(tell(&scene, "s", "go on", 100).await);
    }
    assert_eq!(told.last().unwrap(), "", "nothing is told twice: {told:#?}");
    let all = told.concat();
    for n in 10..30 {
        let fact = format!("Quay {n} is closed");
        assert_eq!(all.matches(&fact).count(), 1, "{n}: {told:#?}");
    }
    // What is gone meanwhile is not told.
    let mut other = tell(&scene, "other", "hello", 100).await;
    let left: Vec<_> = (10..30).filter(|n| !other.contains(&format!("Quay {n}"))).collect();
    let query = EntryQuery {
        limit: 100,
        ..EntryQuery::default()
    };
    for entry in scene.workspace.observations(query).await.unwrap().items {
        let (ada, id) = (person(), Ref::Id(entry.id));
        scene.workspace.archive(&ada, id, None).await.unwrap();
    }
    other.push_str(&tell(&scene, "other", "go on", 1_000).await);
    assert!(left.iter().all(|n| !other.contains(&format!("Quay {n}"))), "{other}");
}

#[tokio::test]
async fn news_is_told_however_much_matters_more_m7_11_4() {
    let scene = Scene::new();
    for n in 0..120 {
        let alarm = json!({"type": "risk_alert", "content": format!("Alarm {n}"), "confidence": 0.9});
        notice(&scene, alarm).await;
    }
    tell(&scene, "s", "hello", 20_000).await;
    notice(&scene, json!({"content": "The kettle is new", "confidence": 0.1})).await;
    let told = tell(&scene, "s", "go on", 20_000).await;
    let first = told.lines().nth(1).unwrap_or_default();
    assert!(first.contains("The kettle is new"), "{told}");
    tell(&scene, "s", "go on", 20_000).await;
    for n in 0..200 {
        notice(&scene, json!({"content": format!("Kettle {n}"), "confidence": 0.1})).await;
    }
    let told = tell(&scene, "s", "go on", 20_000).await;
    assert!(told.contains("+160 more"), "what is not listed is counted: {told}");
}

#[tokio::test]
async fn session_is_known_however_many_others_there_are_m7_11_4() {
    let scene = Scene::new();
    notice(&scene, json!({"content": "Quay 1 is closed"})).await;
    assert!(tell(&scene, "s", "hello", 1_000).await.contains("Quay 1"));
    for n in 0..600 {
        scene.workspace.forget_told(&format!("session {n}"));
    }
    assert_eq!(tell(&scene, "s", "go on", 1_000).await, "");
    scene.workspace.forget_told("s");
    assert!(tell(&scene, "s", "go on", 1_000).await.contains("Quay 1"));
}

#[tokio::test]
async fn turn_whose_input_was_forgotten_is_no_earlier_turn_of_a_prompt_m7_6_50() {
    let scene = Scene::new();
    for input in ["Call Eleonora of Winterbourne", "Water the plants"] {
        let turn = scene.begin(input).await;
        scene.end(&turn).await;
    }
    let context = async || {
        let request = ContextRequest::of(ThreadKey::main());
        scene.workspace.assemble_context(request, &Estimate).await.unwrap().text
    };
    let before = context().await;
    assert!(before.contains("t1 ") && before.contains("t2 "), "{before}");
    let filter = ForgetFilter {
        text: Some("Eleonora of Winterbourne".to_owned()),
        ..ForgetFilter::default()
    };
    let forgotten = scene.workspace.forget(&person(), &filter, "she asked for it").await;
    assert_eq!(forgotten.unwrap().turns.len(), 1);
    let after = context().await;
    assert!(!after.contains("t1 ") && after.contains("t2 "), "{after}");
}
