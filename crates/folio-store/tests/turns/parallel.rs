//! Concurrent turns, and turns in the background (M7.11.7).

use folio_memory::history::FieldConflict;
use folio_memory::id::Ref;
use folio_memory::observation::ObservationPatch;
use folio_memory::turn::Urgency;
use folio_memory::{Actor, EntryQuery, ThreadKey};
use folio_store::workspace::{Begun, TurnInput};
use serde_json::json;

use crate::scene::{Scene, person};

#[tokio::test]
async fn concurrent_turns_share_the_page_and_see_what_is_new_m7_11_7() {
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
async fn turn_is_told_which_concurrent_changes_it_overwrote_m7_4_33() {
    let scene = Scene::new();
    let memory = &scene.workspace;
    let noticed = scene.begin("zero").await;
    let noticed = scene
        .notice("search", noticed.turn.begun.id, json!({"content": "first"}))
        .await;
    let (one, two) = (scene.begin("one").await, scene.begin_in("other", "two").await);
    let of = |begun: &Begun| person().in_turn(begun.turn.begun.id);
    let saying = |content: &str| -> ObservationPatch { serde_json::from_value(json!({ "content": content })).unwrap() };
    let update = async |actor: &Actor, patch| {
        let written = memory
            .update_observation(actor, Ref::Id(noticed.id), patch, None)
            .await
            .unwrap();
        let over = |lost: &FieldConflict| (lost.field.clone(), lost.overwrote_version, lost.theirs.clone());
        written.conflicts.iter().map(over).collect::<Vec<_>>()
    };
    assert_eq!(update(&of(&one), saying("by one")).await, []);
    assert_eq!(
        update(&of(&one), saying("by one again")).await,
        [],
        "what was its own it knows"
    );
    let lost = ("content".to_owned(), 3, json!("by one again"));
    assert_eq!(update(&of(&two), saying("by two")).await, [lost]);
    assert_eq!(update(&of(&two), saying("by two again")).await, []);
    assert_eq!(update(&person(), saying("by nobody in a turn")).await, []);
    let three = scene.begin("three").await;
    assert_eq!(
        update(&of(&three), saying("by three")).await,
        [],
        "nobody changed it since it began"
    );
    let title: ObservationPatch = serde_json::from_value(json!({"title": "t"})).unwrap();
    assert_eq!(update(&of(&one), title).await, [], "two of different fields both hold");
    let versions = memory.versions(Ref::Id(noticed.id)).await.unwrap();
    assert_eq!(versions[3].conflicts.len(), 1, "and the history says it");
}

#[tokio::test]
async fn background_turn_has_low_urgency_and_its_findings_are_used_m7_11_7() {
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
