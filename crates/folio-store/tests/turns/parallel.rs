//! Turns beside one another and in the background (M7.11.7).

use folio_memory::turn::Urgency;
use folio_memory::{EntryQuery, ThreadKey};
use folio_store::workspace::TurnInput;
use serde_json::json;

use crate::scene::{Scene, person};

#[tokio::test]
async fn turns_beside_one_another_share_the_page_and_know_what_came_since_m7_11_7() {
    let scene = Scene::new();
    let (one, two) = (scene.begin("one").await, scene.begin_in("other", "two").await);
    let preference = json!({"content": "User prefers Burgundy", "tags": ["wine"]});
    scene.notice("wine_search", one.turn.begun.id, preference).await;
    // The second turn sees it although it began before, and can tell that it is new.
    let since = EntryQuery {
        since: Some(two.turn.begun.as_of),
        ..EntryQuery::default()
    };
    assert_eq!(scene.texts(since).await, ["User prefers Burgundy"]);
    let three = scene.begin("three").await;
    let since = EntryQuery {
        since: Some(three.turn.begun.as_of),
        ..EntryQuery::default()
    };
    assert!(scene.texts(since).await.is_empty(), "the third one knew of it");
    // And it can go on reading what it saw when it began.
    let then = EntryQuery {
        as_of: Some(two.turn.begun.as_of),
        ..EntryQuery::default()
    };
    assert!(scene.texts(then).await.is_empty());
    // Each leaves behind what it did itself.
    let two = scene.end(&two).await;
    assert!(two.export.touched.is_empty());
    assert_eq!(scene.end(&one).await.export.touched.len(), 1);
}

#[tokio::test]
async fn a_background_turn_is_marked_waits_and_its_findings_are_used_later_m7_11_7() {
    let scene = Scene::new();
    let input = TurnInput {
        thread: ThreadKey::main(),
        input: "continue the research".to_owned(),
        run: None,
        background: true,
    };
    let background = scene.workspace.begin_turn(&person(), input).await.unwrap();
    assert_eq!(background.assessment.urgency, Urgency::Low);
    assert!(background.turn.begun.background);
    let found = json!({"type": "observation", "content": "Research findings"});
    let found = scene.notice("search", background.turn.begun.id, found).await;
    scene.end(&background).await;
    let next = scene.begin("What did you find out about it so far?").await;
    assert!(next.order.order.iter().any(|used| used.id == found.id));
}
