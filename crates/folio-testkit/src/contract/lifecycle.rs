//! The life cycle of entries: concurrent changes of a field, expiry, and restoring from the archive.

use std::time::Duration;

use folio_memory::{Change, EntryId, EntryQuery, FieldChange, Lifetime, Order, Status, Timestamp};
use serde_json::json;

use super::Home;
use super::scene::{Scene, patch};

fn title(text: &str) -> FieldChange {
    FieldChange::Title(text.to_owned())
}

/// A patch whose author had read version `base`.
fn since(base: u32, entry: EntryId, fields: Vec<FieldChange>) -> Change {
    Change::PatchEntry {
        entry,
        fields,
        expected_version: None,
        base_version: Some(base),
    }
}

/// The conflict names both values, and the version that was overwritten.
pub async fn later_patch_of_a_field_wins_and_reports_the_conflict_m7_4_33(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("one").await;
    let first = scene.commit(vec![since(1, id, vec![title("two")])]).await;
    assert_eq!(first.entries[0].conflicts, []);
    scene
        .commit(vec![patch(id, vec![FieldChange::Phase(Some("late".to_owned()))])])
        .await;
    let second = scene.commit(vec![since(1, id, vec![title("three")])]).await;
    assert_eq!(
        serde_json::to_value(&second.entries[0].conflicts).expect("JSON"),
        json!([{"field": "title", "base_version": 1, "overwrote_version": 2, "theirs": "two", "ours": "three"}])
    );
    assert_eq!(scene.read(id).await.fields.title, "three");
    let knowing = scene.commit(vec![since(4, id, vec![title("four")])]).await;
    assert_eq!(knowing.entries[0].conflicts, []);
}

/// Both patches hold.
pub async fn patches_of_different_fields_do_not_conflict_m7_4_33(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("one").await;
    scene.commit(vec![since(1, id, vec![title("two")])]).await;
    let other = scene
        .commit(vec![since(1, id, vec![FieldChange::Status(Status::Resolved)])])
        .await;
    assert_eq!(other.entries[0].conflicts, []);
    let same = scene.commit(vec![since(1, id, vec![title("two")])]).await;
    assert!(
        same.entries[0].conflicts.is_empty() && !same.entries[0].changed,
        "it is as wished"
    );
    let found = scene.read(id).await;
    assert_eq!(
        (found.fields.title.as_str(), found.fields.status),
        ("two", Status::Resolved)
    );
}

/// A patch that changes nothing is in the log without being a version.
pub async fn patch_without_effect_neither_causes_nor_hides_a_conflict_m7_4_33(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("one").await;
    scene.commit(vec![since(1, id, vec![title("two")])]).await;
    let active = vec![FieldChange::Status(Status::Active)];
    let same = scene.commit(vec![patch(id, active.clone())]).await;
    assert!(!same.entries[0].changed);
    let settled = scene
        .commit(vec![since(1, id, vec![FieldChange::Status(Status::Resolved)])])
        .await;
    assert_eq!(settled.entries[0].conflicts, [], "nobody had set another status");
    scene.commit(vec![patch(id, active)]).await;
    for _ in 0..3 {
        scene.commit(vec![patch(id, vec![title("two")])]).await;
    }
    let later = scene.commit(vec![since(1, id, vec![title("three")])]).await;
    assert_eq!(
        serde_json::to_value(&later.entries[0].conflicts).expect("JSON"),
        json!([{"field": "title", "base_version": 1, "overwrote_version": 2, "theirs": "two", "ours": "three"}])
    );
}

/// A writer may send back what it read, with one field changed.
pub async fn unchanged_field_of_a_patch_does_not_conflict_m7_4_33(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("one").await;
    let body = |text: &str| FieldChange::Body(text.to_owned());
    scene.commit(vec![patch(id, vec![body("text")])]).await;
    scene.commit(vec![patch(id, vec![title("two"), body("text")])]).await;
    let other = scene.commit(vec![since(2, id, vec![body("changed")])]).await;
    assert_eq!(other.entries[0].conflicts, [], "nobody had changed the text");
    let same = scene.commit(vec![since(2, id, vec![title("three")])]).await;
    assert_eq!(same.entries[0].conflicts.len(), 1);
}

/// Restoring needs a change of its own; an ordinary patch is refused.
pub async fn archived_entry_can_be_restored_m7_5_39(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("one").await;
    scene
        .commit(vec![patch(id, vec![FieldChange::Status(Status::Archived)])])
        .await;
    scene
        .try_commit(vec![patch(id, vec![FieldChange::Status(Status::Active)])])
        .await
        .expect_err("final");
    scene
        .commit(vec![patch(id, vec![FieldChange::Restored(Status::Active)])])
        .await;
    assert_eq!(scene.read(id).await.fields.status, Status::Active);
    assert_eq!(
        scene.store.check().await.expect("a check").problems,
        Vec::<String>::new()
    );
}

async fn ended(scene: &Scene, by: Timestamp) -> Vec<(EntryId, Timestamp)> {
    scene.store.ended(&scene.space, by, 10).await.expect("what has ended")
}

async fn a_note_until(scene: &Scene, end: Timestamp) -> EntryId {
    let id = scene.a_note("ends").await;
    scene
        .commit(vec![patch(id, vec![FieldChange::Lifetime(Lifetime::Until(end))])])
        .await;
    id
}

/// Expired entries come in the order in which they expired, and only from their own space.
pub async fn expired_entry_is_reported_until_its_expiry_is_recorded_m7_1_8(home: &dyn Home) {
    let scene = Scene::of(home);
    let (soon, later) = (
        scene.now().plus(Duration::from_secs(60)),
        scene.now().plus(Duration::from_secs(120)),
    );
    let (second, first) = (a_note_until(&scene, later).await, a_note_until(&scene, soon).await);
    assert_eq!(ended(&scene, Timestamp::from_nanos(soon.as_nanos() - 1)).await, []);
    assert_eq!(ended(&scene, soon).await, [(first, soon)]);
    assert_eq!(ended(&scene, later).await, [(first, soon), (second, later)]);
    assert_eq!(ended(&scene.other_space("other"), later).await, []);
    let noted = scene.commit(vec![patch(first, vec![FieldChange::Ended(soon)])]).await;
    let again = scene.commit(vec![patch(first, vec![FieldChange::Ended(soon)])]).await;
    assert!(noted.entries[0].changed && !again.entries[0].changed);
    assert_eq!(ended(&scene, later).await, [(second, later)]);
    assert_eq!(
        scene.store.check().await.expect("a check").problems,
        Vec::<String>::new()
    );
}

/// A pinned, archived or confirmed entry is not found as expired.
pub async fn pinned_archived_or_extended_entry_is_not_reported_as_expired_m7_1_7(home: &dyn Home) {
    let scene = Scene::of(home);
    let (soon, later) = (
        scene.now().plus(Duration::from_secs(60)),
        scene.now().plus(Duration::from_secs(120)),
    );
    let pinned = a_note_until(&scene, soon).await;
    scene
        .commit(vec![patch(pinned, vec![FieldChange::PinRank(Some(1))])])
        .await;
    let archived = a_note_until(&scene, soon).await;
    scene
        .commit(vec![patch(archived, vec![FieldChange::Status(Status::Archived)])])
        .await;
    let confirmed = a_note_until(&scene, soon).await;
    scene
        .commit(vec![patch(
            confirmed,
            vec![FieldChange::Lifetime(Lifetime::Until(later))],
        )])
        .await;
    assert_eq!(ended(&scene, soon).await, []);
    scene
        .commit(vec![patch(pinned, vec![FieldChange::PinRank(None)])])
        .await;
    assert_eq!(ended(&scene, later).await, [(pinned, soon), (confirmed, later)]);
    assert_eq!(
        scene.store.check().await.expect("a check").problems,
        Vec::<String>::new()
    );
}

/// Such an entry is found by its words, too, and whether or not it was changed since. An entry that had expired by then
/// is not found.
pub async fn query_as_of_a_commit_finds_entries_that_expired_since_m7_2_16(home: &dyn Home) {
    let scene = Scene::of(home);
    let minutes = |number: u64| scene.now().plus(Duration::from_secs(60 * number));
    let (short, long) = (minutes(1), minutes(60));
    let (left, confirmed) = (a_note_until(&scene, short).await, a_note_until(&scene, short).await);
    let before = scene.head().await;
    scene.clock.advance(Duration::from_secs(30));
    scene
        .commit(vec![patch(
            confirmed,
            vec![FieldChange::Lifetime(Lifetime::Until(long))],
        )])
        .await;
    scene.clock.advance(Duration::from_secs(60));
    let after = scene.head().await;
    scene.a_note("begins").await;
    let later = scene.head().await;
    scene.a_note("goes on").await;
    let found = async |text: Option<&str>, as_of| {
        let query = EntryQuery {
            text: text.map(str::to_owned),
            as_of,
            order: Order::Oldest,
            ..EntryQuery::default()
        };
        let items = scene.list(&query).await.expect("a list").items;
        items.into_iter().map(|entry| entry.id).collect::<Vec<_>>()
    };
    for text in [None, Some("ends")] {
        assert_eq!(found(text, Some(before)).await, [left, confirmed], "{text:?}");
        assert_eq!(found(text, Some(after)).await, [left, confirmed], "{text:?}");
    }
    assert_eq!(found(Some("ends"), Some(later)).await, [confirmed]);
    assert_eq!(found(Some("ends"), None).await, [confirmed]);
    let first = EntryQuery {
        as_of: Some(before),
        limit: 1,
        ..EntryQuery::default()
    };
    let page = scene.list(&first).await.expect("a list");
    assert_eq!((page.items[0].id, page.total), (confirmed, 2));
    let second = EntryQuery {
        cursor: page.next,
        ..first
    };
    assert_eq!(scene.list(&second).await.expect("a list").items[0].id, left);
}
