//! A question of the clarifier belongs to the thread of its turn (M7.11.1, M7.11.2).

use folio_memory::id::Ref;
use folio_memory::tokens::Estimate;
use folio_memory::turn::{Stage, Urgency};
use folio_memory::{Entry, ThreadKey};
use folio_store::workspace::{ContextRequest, ViewRequest};
use serde_json::json;

use crate::scene::{Scene, person, used};

/// What the thread is shown: its context for a prompt, and the view of its scratchbook.
async fn texts_in(scene: &Scene, thread: &str) -> [String; 2] {
    let thread = ThreadKey(thread.to_owned());
    let context = ContextRequest {
        prompt: "what next".to_owned(),
        ..ContextRequest::of(thread.clone())
    };
    let context = scene.workspace.assemble_context(context, &Estimate).await.unwrap();
    let view = scene.workspace.view(ViewRequest::of(thread), &Estimate).await.unwrap();
    [context.text, view.rendered.text.clone()]
}

async fn unclear_in(scene: &Scene, thread: &str) -> Entry {
    let unclear = scene.begin_in(thread, "fix it").await;
    scene.end(&unclear).await;
    unclear.question.unwrap()
}

#[tokio::test]
async fn clarifier_question_is_shown_and_counted_in_its_own_thread_only_m7_11_2() {
    let scene = Scene::new();
    let question = unclear_in(&scene, "one").await;
    let line = format!("{} [pending_confirmation", question.handle);
    for text in texts_in(&scene, "one").await {
        assert!(text.contains(&line), "{text}");
    }
    for text in texts_in(&scene, "two").await {
        assert!(!text.contains(&line), "{text}");
        assert!(!text.contains("more"), "nothing is left out: {text}");
    }
    let elsewhere = scene.begin_in("two", "Write the report on the harvest").await;
    assert_eq!(elsewhere.assessment.urgency, Urgency::Normal);
    let executor = elsewhere.turn.decision(Stage::Executor).unwrap();
    assert!(!used(executor).contains(&question.handle), "{executor:?}");
    scene.end(&elsewhere).await;
    // A question that is named is meant wherever that is said.
    let named = scene.begin_in("two", &format!("no {}", question.handle)).await;
    assert_eq!(named.answered.map(|entry| entry.id), Some(question.id));
}

#[tokio::test]
async fn questions_of_other_threads_displace_nothing_m7_11_2() {
    let scene = Scene::new();
    let turn = scene.begin("Begin with something that is clear enough").await;
    let ask = json!({"type": "pending_confirmation", "content": "Shall the cellar be pumped?", "confidence": 0.2});
    let own = scene.notice("pump", turn.turn.begun.id, ask).await;
    for number in 0..120 {
        unclear_in(&scene, &format!("thread {number}")).await;
    }
    for text in texts_in(&scene, "main").await {
        assert!(text.contains("Shall the cellar be pumped?"), "{text}");
        assert!(!text.contains("fix it") && !text.contains("mean"), "{text}");
    }
    let begun = scene.begin("Write the report on the harvest").await;
    let router = begun.turn.decision(Stage::Router).unwrap();
    assert_eq!(used(router), [own.handle]);
    scene
        .workspace
        .end_turn(&person(), Ref::Id(begun.turn.begun.id))
        .await
        .unwrap();
}
