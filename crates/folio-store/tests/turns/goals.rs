//! Goals and pending actions (seed 004, "Frontal Cortex Integration").

use std::sync::Arc;

use folio_memory::entry::Status;
use folio_memory::goals::GoalInput;
use folio_memory::id::Ref;
use folio_memory::keeping::ArchivedFor;
use folio_memory::observation::ObservationPatch;
use folio_memory::{Change, EntryFields, EntryId, EntryKind, NewEntry, Owner, Relation, ThreadKey, Trust};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{GoalState, Guard, Write};
use folio_store::{ErrorKind, Store};
use folio_testkit::{FaultyStore, Work};
use serde_json::{from_value, json};

use crate::scene::{Scene, person};

fn input(title: &str, key: &str) -> GoalInput {
    GoalInput {
        title: title.to_owned(),
        key: Some(key.to_owned()),
        ..GoalInput::default()
    }
}

#[tokio::test]
async fn goal_progress_is_the_closed_part_of_its_linked_entries_m7_11_3() {
    let scene = Scene::new();
    let (thread, kind) = (ThreadKey::main(), EntryKind::Goal);
    let goal = input("Book a flight to Paris", "book_flight_to_paris");
    let goal = scene
        .workspace
        .add_goal(&person(), &thread, kind, goal, None)
        .await
        .unwrap()
        .entry;
    let turn = scene.begin("Find flights").await;
    let linked = json!({"type": "contextual_insight", "content": "Found 3 flights matching criteria",
                        "context": {"goal_id": "book_flight_to_paris"}});
    let first = scene.notice("flights", turn.turn.begun.id, linked).await;
    let by_handle = json!({"content": "Paris weather is typical", "context": {"goal_id": goal.handle.to_string()}});
    scene.notice("weather", turn.turn.begun.id, by_handle).await;
    scene.end(&turn).await;
    assert_eq!(scene.read(goal.id).await.fields.progress, Some(0.0));

    let next = scene.begin("Take the first one").await;
    let patch: ObservationPatch = from_value(json!({"status": "resolved"})).unwrap();
    let actor = person().in_turn(next.turn.begun.id);
    scene
        .workspace
        .update_observation(&actor, Ref::Id(first.id), patch, None)
        .await
        .unwrap();
    let ended = scene.end(&next).await;
    assert_eq!(ended.goals[0].progress.progress, Some(0.5));
    assert_eq!(scene.read(goal.id).await.fields.progress, Some(0.5));
    // The resolved one is archived by now, and still counts as done.
    let state = scene.workspace.goals(Some(&thread), false).await.unwrap();
    assert_eq!((state[0].progress.open, state[0].progress.closed), (1, 1));
}

#[tokio::test]
async fn goal_progress_counts_over_a_thousand_linked_entries_m7_11_3() {
    let scene = Scene::new();
    let (thread, workspace) = (ThreadKey::main(), &scene.workspace);
    let goal = input("Count the sheep", "sheep");
    let added = workspace
        .add_goal(&person(), &thread, EntryKind::Goal, goal, None)
        .await;
    added.unwrap();
    let (page, adds_page) = workspace.scratch_page().await.unwrap();
    let mut changes: Vec<Change> = adds_page.into_iter().collect();
    for number in 0..1_003 {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.body = format!("sheep number {number}");
        fields.context = Some(json!({"goal_id": "sheep"}));
        let id = EntryId::derived(&["sheep", &number.to_string()]);
        let kind = EntryKind::Observation;
        changes.push(Change::AddEntry(Box::new(NewEntry { id, page, kind, fields })));
    }
    workspace.record(&person(), Write::of(changes)).await.unwrap();
    let states = workspace.goals(Some(&thread), false).await.unwrap();
    assert_eq!((states[0].progress.open, states[0].progress.closed), (1_003, 0));
}

/// Adds `count` entries that are linked to the goal with the key `key`.
async fn link(scene: &Scene, key: &str, count: u32) {
    let (page, adds_page) = scene.workspace.scratch_page().await.unwrap();
    let mut changes: Vec<Change> = adds_page.into_iter().collect();
    for number in 0..count {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.body = format!("{key} number {number}");
        fields.context = Some(json!({ "goal_id": key, "pending_action_id": key }));
        let id = EntryId::derived(&[key, &number.to_string()]);
        let kind = EntryKind::Observation;
        changes.push(Change::AddEntry(Box::new(NewEntry { id, page, kind, fields })));
    }
    scene.workspace.record(&person(), Write::of(changes)).await.unwrap();
}

#[tokio::test]
async fn goal_progress_is_told_without_reading_what_is_linked_m7_11_3() {
    let store = Arc::new(FaultyStore::new(SqliteStore::open(&OpenOptions::in_memory()).unwrap()));
    let scene = Scene::on(Arc::clone(&store) as Arc<dyn Store>);
    let (thread, workspace) = (ThreadKey::main(), &scene.workspace);
    for (title, kind) in [
        ("Count the sheep", EntryKind::Goal),
        ("Shear the sheep", EntryKind::PendingAction),
    ] {
        let goal = input(title, "sheep");
        workspace.add_goal(&person(), &thread, kind, goal, None).await.unwrap();
    }
    link(&scene, "sheep", 500).await;
    // The first turn learns from what is new.
    let first = scene.begin("Hello").await;
    scene.end(&first).await;
    let turn = scene.begin("How many are there?").await;
    let read = || (store.entries_listed(), store.links_and_entries());
    let (listed, one_by_one) = read();
    let states = workspace.goals(Some(&thread), false).await.unwrap();
    let open: Vec<_> = states.iter().map(|state| state.progress.open).collect();
    assert_eq!(open, [500, 500]);
    assert_eq!(read(), (listed + 2, one_by_one), "only the goals are read");
    let ended = scene.end(&turn).await;
    assert_eq!(ended.goals[1].progress.progress, Some(0.0));
    assert!(
        store.entries_listed() < listed + 500,
        "the end of a turn does not list what is linked"
    );
}

#[tokio::test]
async fn goals_are_listed_in_parts_with_their_number_m7_2_15() {
    let scene = Scene::new();
    let (thread, workspace) = (ThreadKey::main(), &scene.workspace);
    for number in 0..5 {
        let goal = input(&format!("Goal {number}"), &format!("goal_{number}"));
        let kind = EntryKind::Goal;
        workspace.add_goal(&person(), &thread, kind, goal, None).await.unwrap();
    }
    link(&scene, "goal_1", 2).await;
    let whole = workspace.goals(Some(&thread), false).await.unwrap();
    let (mut parts, mut cursor) = (Vec::new(), None);
    loop {
        let part = workspace.goals_part(Some(&thread), false, 2, cursor).await.unwrap();
        assert_eq!((part.total, part.returned), (5, part.items.len()));
        assert!(part.items.len() <= 2);
        parts.extend(part.items);
        cursor = part.next;
        if cursor.is_none() {
            break;
        }
        // What is done meanwhile stays in the list that is being read.
        let last = parts.last().unwrap().entry.id;
        workspace
            .complete(&person(), Ref::Id(last), Guard::default())
            .await
            .unwrap();
    }
    let progress = |states: &[GoalState]| {
        states
            .iter()
            .map(|state| (state.entry.id, state.progress))
            .collect::<Vec<_>>()
    };
    assert_eq!(progress(&parts), progress(&whole));
    assert_eq!(parts[3].progress.open, 2);
    let other = ThreadKey("other".to_owned());
    let first = workspace.goals_part(Some(&thread), true, 1, None).await.unwrap();
    let refused = workspace.goals_part(Some(&other), true, 1, first.next).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn goals_with_the_same_key_do_not_count_each_other_m7_11_3() {
    let scene = Scene::new();
    let thread = ThreadKey::main();
    for title in ["Book a flight", "Book another"] {
        let goal = input(title, "book");
        let added = scene
            .workspace
            .add_goal(&person(), &thread, EntryKind::Goal, goal, None)
            .await;
        added.unwrap();
    }
    let states = scene.workspace.goals(Some(&thread), false).await.unwrap();
    let counted: Vec<_> = states
        .iter()
        .map(|state| (state.progress.open, state.progress.closed))
        .collect();
    assert_eq!(counted, [(0, 0), (0, 0)]);
}

#[tokio::test]
async fn pending_action_is_done_when_its_confirmation_is_resolved_m7_11_3() {
    let scene = Scene::new();
    let (thread, kind) = (ThreadKey::main(), EntryKind::PendingAction);
    let action = input("Confirm the flight", "confirm_flight_123");
    let action = scene
        .workspace
        .add_goal(&person(), &thread, kind, action, None)
        .await
        .unwrap()
        .entry;
    let turn = scene.begin("Book the flight").await;
    let ask = json!({"type": "pending_confirmation", "content": "Waiting for user to confirm flight selection",
                     "context": {"pending_action_id": "confirm_flight_123"}});
    let ask = scene.notice("flights", turn.turn.begun.id, ask).await;
    scene.end(&turn).await;
    assert_eq!(scene.read(action.id).await.fields.status, Status::Open);
    let answer = scene.begin("yes, go ahead").await;
    assert_eq!(answer.answered.as_ref().unwrap().id, ask.id);
    scene.end(&answer).await;
    assert_eq!(scene.read(action.id).await.fields.status, Status::Done);
}

#[tokio::test]
async fn pending_action_is_done_when_a_turn_of_another_thread_resolved_its_confirmation_m7_11_3() {
    let scene = Scene::new();
    let kind = EntryKind::PendingAction;
    let mut actions = Vec::new();
    for key in ["confirm_flight_123", "confirm_hotel_7"] {
        let input = input("Confirm it", key);
        let added = scene
            .workspace
            .add_goal(&person(), &ThreadKey::main(), kind, input, None)
            .await;
        actions.push(added.unwrap().entry.id);
    }
    let turn = scene.begin("Book the flight").await;
    let mut asked = Vec::new();
    for key in ["confirm_flight_123", "confirm_hotel_7"] {
        let ask = json!({"type": "pending_confirmation", "content": key, "context": {"pending_action_id": key}});
        asked.push(scene.notice("flights", turn.turn.begun.id, ask).await.id);
    }
    scene.end(&turn).await;
    let other = scene.begin_in("phone", "The flight is fine").await;
    let actor = person().in_turn(other.turn.begun.id);
    let resolved = from_value::<ObservationPatch>(json!({"status": "resolved"})).unwrap();
    let flight = Ref::Id(asked[0]);
    scene
        .workspace
        .update_observation(&actor, flight, resolved, None)
        .await
        .unwrap();
    let ended = scene.end(&other).await;
    assert!(
        ended.goals.is_empty(),
        "it tells of the goals of its own thread: {:?}",
        ended.goals
    );
    let mut status = Vec::new();
    for action in actions {
        status.push(scene.read(action).await.fields.status);
    }
    assert_eq!(status, [Status::Done, Status::Open]);
}

#[tokio::test]
async fn declined_pending_action_is_archived_and_not_done_m7_11_3() {
    let scene = Scene::new();
    let (thread, kind) = (ThreadKey::main(), EntryKind::PendingAction);
    let action = input("Send the money", "send");
    let action = scene
        .workspace
        .add_goal(&person(), &thread, kind, action, None)
        .await
        .unwrap()
        .entry;
    let turn = scene.begin("Send the money").await;
    let ask = json!({"type": "pending_confirmation", "content": "Send 500?", "context": {"pending_action_id": "send"}});
    scene.notice("bank", turn.turn.begun.id, ask).await;
    scene.end(&turn).await;
    let answer = scene.begin("no").await;
    scene.end(&answer).await;
    let after = scene.read(action.id).await;
    assert_eq!(
        (after.fields.status, after.fields.phase.as_deref()),
        (Status::Archived, Some("declined"))
    );
}

#[tokio::test]
async fn expired_question_does_not_complete_its_pending_action_m7_11_3() {
    let scene = Scene::new();
    let thread = ThreadKey::main();
    let add = async |kind, input, from| {
        let added = scene.workspace.add_goal(&person(), &thread, kind, input, from).await;
        added.unwrap().entry
    };
    let action = add(EntryKind::PendingAction, input("Send the money", "send"), None).await;
    let turn = scene.begin("Send the money").await;
    let ask = json!({"type": "pending_confirmation", "content": "Send 500?", "context": {"pending_action_id": "send"}});
    let ask = scene.notice("bank", turn.turn.begun.id, ask).await;
    let linked =
        json!({"type": "contextual_insight", "content": "The account has 900", "context": {"goal_id": "save"}});
    let linked = scene.notice("bank", turn.turn.begun.id, linked).await;
    let goal = add(EntryKind::Goal, input("Save money", "save"), None).await;
    scene.end(&turn).await;
    scene.clock.advance(std::time::Duration::from_secs(7 * 24 * 60 * 60));
    for _ in 0..2 {
        let turn = scene.begin("What is the weather like?").await;
        scene.end(&turn).await;
    }
    for entry in [&ask, &linked] {
        assert_eq!(scene.read(entry.id).await.fields.archived_for, Some(ArchivedFor::Age));
    }
    let after = scene.read(action.id).await.fields;
    assert_eq!((after.status, after.progress), (Status::Open, None));
    assert_eq!(scene.read(goal.id).await.fields.progress, Some(0.0));
    let states = scene.workspace.goals(Some(&thread), false).await.unwrap();
    let told: Vec<_> = states.iter().map(|state| state.progress.closed).collect();
    assert_eq!(told, [0, 0]);
}

#[tokio::test]
async fn pending_action_of_an_expired_question_about_an_input_is_archived_m7_11_3() {
    let scene = Scene::new();
    let asked = scene.begin("fix it").await;
    scene.end(&asked).await;
    let thread = ThreadKey("main".to_owned());
    assert_eq!(scene.workspace.goals(Some(&thread), false).await.unwrap().len(), 1);
    scene.clock.advance(std::time::Duration::from_secs(8 * 24 * 3_600));
    let next = scene.begin("continue with the invoice of May").await;
    scene.end(&next).await;
    assert!(scene.workspace.goals(Some(&thread), false).await.unwrap().is_empty());
}

#[tokio::test]
async fn pending_action_whose_key_reads_as_a_number_is_done_m7_11_3() {
    let scene = Scene::new();
    let thread = ThreadKey("main".to_owned());
    let pay = input("Pay", "77");
    scene
        .workspace
        .add_goal(&person(), &thread, EntryKind::PendingAction, pay, None)
        .await
        .unwrap();
    let turn = scene.begin("plan the week with care").await;
    let ask = json!({"type": "pending_confirmation", "content": "Pay?", "context": {"pending_action_id": 77}});
    scene.notice("bank", turn.turn.begun.id, ask).await;
    scene.end(&turn).await;
    let ended = {
        let turn = scene.begin("yes").await;
        scene.end(&turn).await
    };
    assert_eq!(ended.goals[0].entry.fields.status, Status::Done);
}

#[tokio::test]
async fn confident_suggestion_becomes_a_goal_only_on_request_m7_11_3() {
    let scene = Scene::new();
    let turn = scene.begin("Check the certificates").await;
    let sure = json!({"type": "action_suggestion", "content": "Renew the certificate", "confidence": 0.95});
    let sure = scene.notice("tls", turn.turn.begun.id, sure).await;
    let ended = scene.end(&turn).await;
    assert_eq!(ended.proposals[0].title, "Renew the certificate");
    assert!(
        scene.workspace.goals(None, true).await.unwrap().is_empty(),
        "never silently"
    );
    let goal = GoalInput {
        title: "Renew the certificate".to_owned(),
        ..GoalInput::default()
    };
    let (thread, from) = (ThreadKey::main(), Some(Ref::Id(sure.id)));
    let goal = scene
        .workspace
        .add_goal(&person(), &thread, EntryKind::Goal, goal, from)
        .await
        .unwrap()
        .entry;
    let links = scene.workspace.links(&goal.id.to_string()).await.unwrap();
    let said: Vec<_> = links.iter().map(|link| link.rel).collect();
    assert!(said.contains(&Relation::EvidenceFor) && said.contains(&Relation::DerivedFrom));
    let state = scene.workspace.goals(None, false).await.unwrap();
    assert_eq!(state[0].progress.open, 1, "what it was made of belongs to it");
}

#[tokio::test]
async fn goal_archived_while_a_turn_ends_does_not_keep_it_from_ending_m7_11_3() {
    let store = Arc::new(FaultyStore::new(SqliteStore::open(&OpenOptions::in_memory()).unwrap()));
    let scene = Scene::on(Arc::clone(&store) as Arc<dyn Store>);
    let (workspace, thread) = (&scene.workspace, ThreadKey::main());
    let goal = input("Book a flight to Paris", "paris");
    let goal = workspace
        .add_goal(&person(), &thread, EntryKind::Goal, goal, None)
        .await;
    let goal = goal.unwrap().entry;
    let turn = scene.begin("Find flights").await;
    let found = json!({"content": "Found 3 flights", "context": {"goal_id": "paris"}});
    scene.notice("flights", turn.turn.begun.id, found).await;
    let gate = store.hold(Work::Commit);
    let others = async {
        gate.wait_until_reached().await;
        workspace.archive(&person(), Ref::Id(goal.id), None).await.unwrap();
        gate.open();
    };
    let (ended, ()) = tokio::join!(scene.end(&turn), others);
    assert_eq!(ended.goals.len(), 0, "it is not open any more");
    let goal = scene.read(goal.id).await.fields;
    assert_eq!((goal.status, goal.progress), (Status::Archived, None));
}
