//! Seed 002, scenarios 3 and 5: how long observations last, and that they last across turns.

use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::observation::ObservationPatch;
use folio_memory::{EntryId, EntryQuery, State, ThreadKey};
use folio_store::workspace::{TraceQuery, TurnInput};
use serde_json::{from_value, json};

use crate::scene::{Scene, person};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn scenario_3_observation_expires_exactly_after_its_ttl_minute() {
    let scene = Scene::new();
    let turn = scene.begin("look").await;
    let entry = scene
        .notice("t", turn.turn.begun.id, json!({"content": "brief", "ttl_minutes": 1}))
        .await;
    assert_eq!(entry.fields.lifetime.expires_at(), Some(entry.created_at.plus(MINUTE)));
    let live = || scene.texts(EntryQuery::default());
    assert_eq!(live().await, ["brief"]);
    scene.clock.advance(Duration::from_secs(30));
    assert_eq!(live().await, ["brief"]);
    scene
        .clock
        .set(entry.created_at.plus(Duration::from_nanos(59_999_999_999)));
    assert_eq!(live().await, ["brief"], "just before the boundary");
    scene.clock.set(entry.created_at.plus(MINUTE));
    assert!(live().await.is_empty(), "at the boundary");
    scene.clock.set(entry.created_at.plus(Duration::from_secs(61)));
    assert!(live().await.is_empty());
    let expired = EntryQuery {
        include_expired: true,
        ..EntryQuery::default()
    };
    assert_eq!(scene.texts(expired).await, ["brief"]);
    assert_eq!(scene.read(entry.id).await.state(scene.workspace.now()), State::Expired);
}

#[tokio::test]
async fn trace_of_a_turn_has_expiries_of_entries_that_it_touched_or_used_m7_10() {
    let scene = Scene::new();
    let for_minutes = |content: &str, ttl_minutes: u32| json!({"content": content, "ttl_minutes": ttl_minutes});
    let other = scene.begin_in("elsewhere", "Something else").await.turn.begun.id;
    let alert = json!({"type": "risk_alert", "content": "The cellar is flooded", "tags": ["cellar"], "ttl_minutes": 2});
    let used = scene.notice("scan", other, alert).await;
    // What others have to do is not used to order the agent's work.
    let for_others = json!({"content": "not of this turn", "ttl_minutes": 2, "owner": "user"});
    let foreign = scene.notice("scan", other, for_others).await;
    let turn = scene.begin("What happens in the cellar?").await;
    let id = turn.turn.begun.id;
    let touched = scene.notice("scan", id, for_minutes("brief", 1)).await;
    let later = scene.notice("scan", id, for_minutes("longer than the turn", 10)).await;
    scene.clock.advance(3 * MINUTE);
    scene.workspace.note_ended().await.unwrap();
    scene.end(&turn).await;
    scene.clock.advance(20 * MINUTE);
    scene.workspace.note_ended().await.unwrap();
    let expired = async |query: TraceQuery| -> Vec<EntryId> {
        let lines = scene.workspace.trace(query).await.unwrap();
        let expired = lines.iter().filter(|line| line.source == "expiry");
        expired.map(|line| line.entry.unwrap()).collect()
    };
    let of_turn = TraceQuery {
        turn: Some(id),
        limit: 100,
        ..TraceQuery::default()
    };
    let mut found = expired(of_turn.clone()).await;
    found.sort_unstable();
    let mut wanted = [used.id, touched.id];
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    // Of one entry, and of a turn that goes on.
    for (entry, is_there) in [(&touched, true), (&foreign, false), (&later, false)] {
        let of_entry = TraceQuery {
            entry: Some(Ref::Id(entry.id)),
            ..of_turn.clone()
        };
        assert_eq!(
            expired(of_entry).await.len(),
            usize::from(is_there),
            "{}",
            entry.fields.body
        );
    }
    let of_other = TraceQuery {
        turn: Some(other),
        ..of_turn
    };
    let mut found = expired(of_other).await;
    found.sort_unstable();
    let mut wanted = [used.id, foreign.id];
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn open_turn_is_joined_whatever_happened_in_its_thread_since_m7_11_1() {
    let scene = Scene::new();
    let open = scene.begin("a long job").await;
    let joined = || async { scene.workspace.joined(person(), &ThreadKey::main()).await.turn };
    for number in 0..45 {
        // Some go on, some have ended.
        let input = TurnInput {
            thread: ThreadKey::main(),
            input: "beside it".to_owned(),
            run: None,
            background: true,
        };
        let beside = scene.workspace.begin_turn(&person(), input).await.unwrap();
        if number % 2 == 0 {
            scene.end(&beside).await;
        }
    }
    assert_eq!(joined().await, Some(open.turn.begun.id));
    let second = scene.begin("another").await;
    assert_eq!(joined().await, None, "which one is meant is unknown");
    scene.end(&second).await;
    scene.clock.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(joined().await, None, "it was left open");
}

#[tokio::test]
async fn scenario_3_zero_and_seven_day_ttl_expire_on_time() {
    let scene = Scene::new();
    let turn = scene.begin("look").await;
    let gone = scene
        .notice("t", turn.turn.begun.id, json!({"content": "gone", "ttl_minutes": 0}))
        .await;
    assert_eq!(gone.state(scene.workspace.now()), State::Expired);
    let week = scene
        .notice(
            "t",
            turn.turn.begun.id,
            json!({"content": "week", "ttl_minutes": 10080}),
        )
        .await;
    assert_eq!(scene.texts(EntryQuery::default()).await, ["week"]);
    let almost = Duration::from_nanos(7 * 24 * 60 * 60 * 1_000_000_000 - 1);
    let seven_days = Duration::from_secs(7 * 24 * 60 * 60);
    scene.clock.set(week.created_at.plus(almost));
    assert_eq!(scene.texts(EntryQuery::default()).await, ["week"]);
    scene.clock.set(week.created_at.plus(seven_days));
    assert!(scene.texts(EntryQuery::default()).await.is_empty());
}

#[tokio::test]
async fn scenario_5_next_turn_finds_observations_with_unchanged_expiry() {
    let scene = Scene::new();
    let burgundy = json!({"content": "User prefers Burgundy", "ttl_minutes": 1440});
    let entry = scene.turn_with("Which wine?", "wine_search", burgundy).await;
    scene.clock.advance(Duration::from_secs(3600));
    let second = scene.begin("And for dinner?").await;
    let found = scene.workspace.observations(EntryQuery::default()).await.unwrap().items;
    assert_eq!(found[0].fields.body, "User prefers Burgundy");
    assert_eq!(
        found[0].fields.lifetime, entry.fields.lifetime,
        "reading does not make it last longer"
    );
    assert_ne!(found[0].fields.source.turn, Some(second.turn.begun.id));
    assert!(found[0].fields.source.turn.is_some());
}

#[tokio::test]
async fn scenario_5_observations_expired_between_turns_are_not_listed() {
    let scene = Scene::new();
    let first = scene.begin("one").await;
    for (text, minutes) in [("short", 10), ("long", 1440), ("longer", 2880)] {
        let input = json!({"content": text, "ttl_minutes": minutes});
        scene.notice("t", first.turn.begun.id, input).await;
    }
    scene.end(&first).await;
    scene.clock.advance(11 * MINUTE);
    scene.begin("two").await;
    assert_eq!(scene.texts(EntryQuery::default()).await, ["longer", "long"]);
}

#[tokio::test]
async fn scenario_5_update_between_turns_keeps_expiry_and_is_seen_next() {
    let scene = Scene::new();
    let input = json!({"type": "risk_alert", "content": "x", "tags": ["database"], "ttl_minutes": 60});
    let entry = scene.turn_with("one", "t", input).await;
    scene.clock.advance(30 * MINUTE);
    let patch: ObservationPatch = from_value(json!({"tags": ["payment"]})).unwrap();
    let changed = scene
        .workspace
        .update_observation(&person(), Ref::Id(entry.id), patch, None)
        .await
        .unwrap();
    assert_eq!(changed.entry.fields.lifetime, entry.fields.lifetime);
    let next = scene.begin("Migrate the database").await;
    assert!(next.assessment.used.is_empty(), "it is no longer about the database");
    let pay = scene.begin("pay").await;
    assert_eq!(pay.assessment.used[0].version, 2, "the version that was read is named");
    scene.clock.advance(30 * MINUTE);
    assert!(scene.begin("pay").await.assessment.used.is_empty(), "its hour is over");
}
