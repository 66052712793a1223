//! The life of entries, through the workspace, on a real store with a clock that tests move.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod answers;
mod lists;
mod work;

use std::sync::Arc;
use std::time::Duration;

use folio_memory::entry::Outcome;
use folio_memory::id::Ref;
use folio_memory::observation::{ObservationInput, ObservationPatch};
use folio_memory::scratchbook::ItemInput;
use folio_memory::{
    Actor, Change, Clock, Entry, EntryQuery, FieldChange, Owner, Relation, Role, SpaceName, State, Status, ThreadKey,
    Timestamp,
};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{Guard, Successor, TraceQuery, Write};
use folio_store::{ErrorKind, Workspace, WorkspaceError};
use folio_testkit::{SeededIds, SimClock};
use serde_json::{Value, json};

struct Scene {
    memory: Workspace,
    clock: SimClock,
}

fn scene() -> Scene {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let clock = SimClock::default();
    let ids = Arc::new(SeededIds::new(1));
    let memory = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
    Scene { memory, clock }
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn tool() -> Actor {
    Actor::new(Role::Tool, "t")
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

impl Scene {
    async fn add(&self, input: Value) -> Entry {
        let input: ObservationInput = serde_json::from_value(input).unwrap();
        self.memory.add_observation(&person(), input, None).await.unwrap().entry
    }

    async fn task(&self) -> Entry {
        let input: ItemInput = serde_json::from_value(json!({"kind": "task", "title": "do it"})).unwrap();
        let thread = ThreadKey::main();
        self.memory
            .add_item(&person(), &thread, input, None)
            .await
            .unwrap()
            .entry
    }

    async fn is_listed(&self, entry: &Entry) -> bool {
        let listed = self.memory.observations(EntryQuery::default()).await.unwrap();
        listed.items.iter().any(|found| found.id == entry.id)
    }

    async fn now(&self, entry: &Entry) -> Entry {
        self.memory.entry(Ref::Id(entry.id)).await.unwrap()
    }

    async fn operations(&self, entry: &Entry) -> Vec<&'static str> {
        let versions = self.memory.versions(Ref::Id(entry.id)).await.unwrap();
        versions.iter().map(|version| version.operation).collect()
    }
}

fn update(value: Value) -> ObservationPatch {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn confirming_renews_the_lifetime_but_reading_or_updating_does_not_m7_1_6() {
    let scene = scene();
    let seen = scene.add(json!({"content": "x", "ttl_minutes": 60})).await;
    scene.clock.advance(minutes(50));
    assert!(scene.is_listed(&seen).await);
    let patch = update(json!({"title": "t"}));
    scene
        .memory
        .update_observation(&person(), Ref::Id(seen.id), patch, None)
        .await
        .unwrap();
    assert_eq!(scene.now(&seen).await.fields.lifetime, seen.fields.lifetime);
    let refused = scene
        .memory
        .confirm(&tool(), Ref::Id(seen.id), Guard::default())
        .await
        .unwrap_err();
    assert!(matches!(refused, WorkspaceError::Refused { .. }), "{refused}");
    let confirmed = scene
        .memory
        .confirm(&person(), Ref::Id(seen.id), Guard::default())
        .await
        .unwrap()
        .entry;
    assert_eq!(confirmed.fields.validated_at, Some(scene.clock.now()));
    scene.clock.advance(minutes(59));
    assert!(scene.is_listed(&seen).await);
    scene.clock.advance(minutes(1));
    assert!(!scene.is_listed(&seen).await);
}

#[tokio::test]
async fn expiry_is_recorded_once_at_its_nominal_instant_m7_1_8() {
    let scene = scene();
    let seen = scene.add(json!({"content": "x", "ttl_minutes": 60})).await;
    let kept = scene.add(json!({"content": "y", "ttl_minutes": null})).await;
    let end = seen.fields.lifetime.expires_at().unwrap();
    scene.clock.advance(minutes(500));
    assert!(!scene.is_listed(&seen).await, "right without anybody having noted it");
    let both = tokio::join!(scene.memory.note_ended(), scene.memory.note_ended());
    assert!(both.0.unwrap() + both.1.unwrap() <= 1);
    assert_eq!(scene.memory.note_ended().await.unwrap(), 0);
    let now = scene.now(&seen).await;
    assert_eq!(
        (now.fields.expired_at, now.updated_at, now.version),
        (Some(end), seen.updated_at, 2)
    );
    assert_eq!(scene.operations(&seen).await, ["add", "expire"]);
    assert_eq!(scene.operations(&kept).await, ["add"]);
    assert_eq!(now.state(scene.clock.now()), State::Expired);
}

#[tokio::test]
async fn pin_keeps_an_expired_observation_listed_until_unpinned_m7_1_7() {
    let scene = scene();
    let seen = scene.add(json!({"content": "x", "ttl_minutes": 60})).await;
    scene.memory.pin_item(&person(), Ref::Id(seen.id)).await.unwrap();
    scene.clock.advance(minutes(100));
    assert_eq!(scene.memory.note_ended().await.unwrap(), 0);
    assert!(scene.is_listed(&seen).await);
    scene.memory.unpin_item(&person(), Ref::Id(seen.id)).await.unwrap();
    assert!(!scene.is_listed(&seen).await, "at once");
    while scene.memory.note_ended().await.unwrap() > 0 {}
    let now = scene.now(&seen).await;
    assert_eq!(now.fields.expired_at, seen.fields.lifetime.expires_at());
    assert_eq!(scene.operations(&seen).await, ["add", "pin", "unpin", "expire"]);
}

#[tokio::test]
async fn clock_set_back_revives_no_expired_observation_m7_1_9() {
    let scene = scene();
    let start = scene.clock.now();
    let seen = scene.add(json!({"content": "x", "ttl_minutes": 60})).await;
    scene.clock.advance(minutes(60));
    assert!(!scene.is_listed(&seen).await);
    scene.memory.note_ended().await.unwrap();
    scene.clock.set(start);
    assert!(!scene.is_listed(&seen).await);
    let later = scene.add(json!({"content": "y"})).await;
    assert!(later.created_at >= seen.created_at.plus(minutes(60)));
}

#[tokio::test]
async fn read_while_the_clock_is_wrong_does_not_move_the_time_of_a_space_m7_1_9() {
    let scene = scene();
    let start = scene.clock.now();
    let seen = scene.add(json!({"content": "x", "ttl_minutes": 60})).await;
    let ten_years = minutes(10 * 365 * 24 * 60);
    scene.clock.set(start.plus(ten_years));
    assert!(!scene.is_listed(&seen).await);
    // Whoever reads has it noted that a lifetime has ended.
    scene.memory.note_ended().await.unwrap();
    scene.clock.set(start.plus(minutes(1)));
    let end = start.plus(minutes(60));
    assert_eq!(scene.memory.now(), end, "what is noted was to end then");
    assert_eq!(scene.memory.lead().await.unwrap(), minutes(59));
    scene.clock.set(end.plus(minutes(1)));
    let later = scene.add(json!({"content": "y", "ttl_minutes": 5})).await;
    assert_eq!(later.created_at, end.plus(minutes(1)));
    assert_eq!(scene.memory.lead().await.unwrap(), Duration::ZERO);
    scene.clock.advance(minutes(5));
    assert!(!scene.is_listed(&later).await);
}

#[tokio::test]
async fn lagging_clock_of_another_process_revives_no_observation_m7_1_9() {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let process = |clock: &SimClock, seed| {
        let ids = Arc::new(SeededIds::new(seed));
        let (store, clock) = (Arc::clone(&store), clock.clone());
        let memory = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
        Scene { memory, clock }
    };
    let (ahead, behind) = (SimClock::default(), SimClock::default());
    let first = process(&ahead, 1);
    let seen = first.add(json!({"content": "x", "ttl_minutes": 60})).await;
    ahead.advance(minutes(61));
    assert_eq!(first.memory.note_ended().await.unwrap(), 1);
    let second = process(&behind, 2);
    assert!(!second.is_listed(&seen).await);
    let found = process(&behind, 3).memory.entry(Ref::Id(seen.id)).await.unwrap();
    assert_eq!(found.version, 2);
    // What is added has its whole time, from the instant at which it is added.
    let third = process(&behind, 4);
    let brief = third.add(json!({"content": "y", "ttl_minutes": 0})).await;
    assert_eq!(brief.fields.lifetime.expires_at(), Some(brief.created_at));
    assert!(brief.created_at >= found.created_at.plus(minutes(60)));
    let hour = third.add(json!({"content": "z", "ttl_minutes": 60})).await;
    let end = hour.fields.lifetime.expires_at().unwrap();
    assert_eq!(end.since(hour.created_at), minutes(60));
    // Whoever goes on hears of it when they look for what has ended.
    ahead.advance(minutes(60));
    first.memory.note_ended().await.unwrap();
    assert_eq!(first.operations(&hour).await, ["add", "expire"]);
    second.memory.note_ended().await.unwrap();
    assert!(!second.is_listed(&hour).await);
}

#[tokio::test]
async fn archiving_an_archived_entry_again_changes_nothing_m7_4_34() {
    let scene = scene();
    let (seen, task) = (scene.add(json!({"content": "x"})).await, scene.task().await);
    let memory = &scene.memory;
    for _ in 0..2 {
        let away = update(json!({"status": "archived"}));
        let written = memory
            .update_observation(&person(), Ref::Id(seen.id), away, Some(1))
            .await
            .unwrap();
        assert_eq!(
            (written.entry.fields.status, written.entry.version),
            (Status::Archived, 2)
        );
        let away = serde_json::from_value(json!({"status": "archived"})).unwrap();
        let written = memory
            .update_item(&person(), Ref::Id(task.id), away, Some(1))
            .await
            .unwrap();
        assert_eq!(
            (written.entry.fields.status, written.entry.version),
            (Status::Archived, 2)
        );
    }
    let more = update(json!({"status": "archived", "title": "t"}));
    let refused = memory.update_observation(&person(), Ref::Id(seen.id), more, None).await;
    assert!(matches!(refused, Err(WorkspaceError::Invalid(invalid)) if invalid.code == "archived"));
}

#[tokio::test]
async fn resolved_entry_can_be_reopened_and_archived_one_restored_m7_5_39() {
    let scene = scene();
    let (seen, guard) = (scene.add(json!({"content": "x"})).await, Guard::default);
    let entry = Ref::Id(seen.id);
    scene.memory.complete(&person(), entry, guard()).await.unwrap();
    scene.memory.complete(&person(), entry, guard()).await.unwrap();
    scene.memory.reopen(&person(), entry, guard()).await.unwrap();
    scene.memory.complete(&person(), entry, guard()).await.unwrap();
    scene.memory.archive(&person(), entry, None).await.unwrap();
    let reopened = scene.memory.reopen(&person(), entry, guard()).await.unwrap_err();
    assert_eq!(reopened.kind(), ErrorKind::Conflict);
    let planner = Actor::new(Role::Planner, "p");
    let refused = scene.memory.restore(&planner, entry, guard()).await.unwrap_err();
    assert!(matches!(refused, WorkspaceError::Refused { .. }), "{refused}");
    let why = Guard {
        reason: Some("needed after all".to_owned()),
        ..guard()
    };
    let restored = scene.memory.restore(&person(), entry, why).await.unwrap().entry;
    assert_eq!(restored.fields.status, Status::Resolved, "as it was before");
    let operations = scene.operations(&seen).await;
    assert_eq!(
        operations,
        ["add", "resolve", "reopen", "resolve", "archive", "restore"]
    );
    let versions = scene.memory.versions(entry).await.unwrap();
    assert_eq!(versions[5].reason.as_deref(), Some("needed after all"));
}

#[tokio::test]
async fn clear_resolved_archives_all_unpinned_ones_in_one_commit_m7_5_43() {
    let scene = scene();
    for number in 0..1_005 {
        let seen = scene
            .add(json!({"content": format!("n{number}"), "status": "resolved"}))
            .await;
        assert_eq!(seen.fields.status, Status::Resolved);
    }
    // A pin is a person's to take away (M7.7).
    let pinned = scene.add(json!({"content": "pinned", "status": "resolved"})).await;
    scene.memory.pin_item(&person(), Ref::Id(pinned.id)).await.unwrap();
    let active = scene.add(json!({"content": "active"})).await;
    scene
        .memory
        .clear_resolved(&Actor::new(Role::Client, "c"), None)
        .await
        .unwrap_err();
    let before = scene.memory.head().await.unwrap();
    let reflector = Actor::new(Role::Reflector, "r");
    assert_eq!(scene.memory.clear_resolved(&reflector, None).await.unwrap(), 1_005);
    assert_eq!(scene.memory.head().await.unwrap().0, before.0 + 1, "all in one commit");
    assert!(scene.is_listed(&active).await);
    assert_eq!(scene.now(&pinned).await.fields.status, Status::Resolved);
    let archived = EntryQuery {
        status: vec![Status::Archived],
        ..EntryQuery::default()
    };
    assert_eq!(scene.memory.observations(archived).await.unwrap().total, 1_005);
    assert_eq!(scene.memory.clear_resolved(&person(), None).await.unwrap(), 0);
}

#[tokio::test]
async fn supersede_checks_the_version_and_refuses_a_cycle_m7_4_37() {
    let scene = scene();
    let (old, new) = (
        scene.add(json!({"content": "old"})).await,
        scene.add(json!({"content": "new"})).await,
    );
    let patch = update(json!({"title": "changed meanwhile"}));
    scene
        .memory
        .update_observation(&person(), Ref::Id(old.id), patch, None)
        .await
        .unwrap();
    let (from, to) = (Ref::Id(old.id), Ref::Id(new.id));
    let stale = scene
        .memory
        .supersede(&person(), from, to, Some(1).into())
        .await
        .unwrap_err();
    assert!(matches!(stale, WorkspaceError::Stale { current, .. } if current.version == 2));
    assert!(scene.is_listed(&old).await, "it was left alone");
    let settled = scene
        .memory
        .supersede(&person(), from, to, Some(2).into())
        .await
        .unwrap()
        .entry;
    assert_eq!(
        (settled.fields.superseded_by, settled.state(scene.clock.now())),
        (Some(new.id), State::Settled)
    );
    assert!(!scene.is_listed(&old).await);
    let links = scene.memory.links(&old.id.to_string()).await.unwrap();
    assert_eq!(
        (links[0].rel, &links[0].src),
        (Relation::Supersedes, &new.id.to_string())
    );
    let circle = scene
        .memory
        .supersede(&person(), to, from, Guard::default())
        .await
        .unwrap_err();
    assert!(matches!(circle, WorkspaceError::Invalid(invalid) if invalid.code == "supersede_cycle"));
}

#[tokio::test]
async fn archived_or_expired_entry_cannot_supersede_another_m7_2_11() {
    let scene = scene();
    let old = scene
        .add(json!({"content": "the door is open", "type": "security_alert"}))
        .await;
    let archived = scene.add(json!({"content": "put away"})).await;
    scene
        .memory
        .archive(&person(), Ref::Id(archived.id), None)
        .await
        .unwrap();
    let past = scene.add(json!({"content": "over", "ttl_minutes": 1})).await;
    scene.clock.advance(minutes(2));
    for unseen in [&archived, &past] {
        let (from, to) = (Ref::Id(old.id), Ref::Id(unseen.id));
        let one = scene.memory.supersede(&person(), from, to, Guard::default()).await;
        let many = scene
            .memory
            .consolidate(&person(), &[(from, None)], Successor::There(to), None)
            .await;
        for refused in [one.unwrap_err(), many.unwrap_err()] {
            assert_eq!(refused.code(), "superseded_by_unseen", "{refused}");
        }
        assert!(scene.is_listed(&old).await);
    }
    // Asked again after an answer that was lost, it is so already (M7.4.34).
    let new = scene
        .add(json!({"content": "the door is shut", "ttl_minutes": 1}))
        .await;
    let (from, to) = (Ref::Id(old.id), Ref::Id(new.id));
    let done = scene
        .memory
        .supersede(&person(), from, to, Guard::default())
        .await
        .unwrap();
    scene.clock.advance(minutes(2));
    let again = scene
        .memory
        .supersede(&person(), from, to, Guard::default())
        .await
        .unwrap();
    assert_eq!(again.entry.version, done.entry.version);
}

#[tokio::test]
async fn superseded_entry_can_be_marked_with_an_outcome_m7_11_6() {
    let scene = scene();
    let (old, new) = (
        scene.add(json!({"content": "it will rain", "confidence": 0.9})).await,
        scene.add(json!({"content": "it rains"})).await,
    );
    let (from, to) = (Ref::Id(old.id), Ref::Id(new.id));
    let outcome = Some(Outcome::Confirmed);
    let replaced = scene
        .memory
        .supersede_as(&person(), from, to, outcome, Guard::default())
        .await;
    let fields = replaced.unwrap().entry.fields;
    assert_eq!((fields.superseded_by, fields.outcome), (Some(new.id), outcome));
    let other = scene.add(json!({"content": "it will snow"})).await;
    let named = [(Ref::Id(other.id), None)];
    let refuted = Some(Outcome::Refuted);
    let done = scene
        .memory
        .consolidate_as(&person(), &named, Successor::There(to), refuted, None)
        .await
        .unwrap();
    assert_eq!(done.superseded[0].fields.outcome, refuted);
}

#[tokio::test]
async fn imported_supersede_cycle_does_not_hang_later_supersedes() {
    let scene = scene();
    let mut entries = Vec::new();
    for content in ["one", "another", "a third"] {
        entries.push(scene.add(json!({"content": content})).await);
    }
    // An import of an earlier version looked for no circles.
    let by = |old: usize, new: usize| Change::PatchEntry {
        entry: entries[old].id,
        fields: vec![FieldChange::SupersededBy(Some(entries[new].id))],
        expected_version: None,
        base_version: None,
    };
    let circle = Write::of(vec![by(0, 1), by(1, 0)]);
    let person = person();
    scene.memory.record(&person, circle).await.unwrap();
    let (old, new) = (Ref::Id(entries[2].id), Ref::Id(entries[0].id));
    let superseded = scene.memory.supersede(&person, old, new, Guard::default());
    let done = tokio::time::timeout(minutes(1), superseded).await.unwrap().unwrap();
    assert_eq!(done.entry.fields.superseded_by, Some(entries[0].id));
}

#[tokio::test]
async fn consolidate_supersedes_only_sources_unchanged_since_read_m7_4_37() {
    let scene = scene();
    let mut sources = Vec::new();
    for n in 0..5 {
        sources.push(scene.add(json!({"content": format!("the tests fail, {n}")})).await);
    }
    let changed = Ref::Id(sources[1].id);
    let patch = update(json!({"content": "the tests pass"}));
    let memory = &scene.memory;
    memory
        .update_observation(&person(), changed, patch, None)
        .await
        .unwrap();
    memory.archive(&person(), Ref::Id(sources[3].id), None).await.unwrap();
    let read: Vec<_> = sources.iter().map(|one| (Ref::Id(one.id), Some(one.version))).collect();
    let summary = serde_json::from_value(json!({"content": "the tests fail, five times"})).unwrap();
    let reflector = Actor::new(Role::Reflector, "");
    let by = Successor::New(Box::new(summary));
    let done = memory.consolidate(&reflector, &read, by, None).await.unwrap();
    let ids = |entries: &[Entry]| entries.iter().map(|entry| entry.id).collect::<Vec<_>>();
    assert_eq!(ids(&done.superseded), [0, 2, 4].map(|n| sources[n].id));
    assert_eq!(ids(&done.left), [1, 3].map(|n| sources[n].id));
    let by = done.by.unwrap();
    assert!(
        done.superseded
            .iter()
            .all(|one| one.fields.superseded_by == Some(by.id))
    );
    assert_eq!(scene.now(&sources[1]).await.fields.body, "the tests pass");
    let seqs: Vec<_> = done.superseded.iter().map(|one| one.updated_seq).collect();
    assert_eq!(seqs, [by.created_seq; 3], "it is one commit");
    let mut links = memory.links(&by.id.to_string()).await.unwrap();
    links.retain(|link| link.rel == Relation::DerivedFrom);
    assert_eq!(links.len(), 3);

    let again = memory
        .consolidate(&person(), &read, Successor::There(Ref::Id(by.id)), None)
        .await
        .unwrap();
    assert_eq!(
        (again.superseded.len(), again.left.len()),
        (3, 2),
        "a second time changes nothing"
    );
    assert_eq!(again.superseded, done.superseded);
    let back = Successor::There(Ref::Id(sources[0].id));
    let circle = memory
        .consolidate(&person(), &[(Ref::Id(by.id), None)], back, None)
        .await;
    assert!(matches!(circle, Err(WorkspaceError::Invalid(invalid)) if invalid.code == "supersede_cycle"));
}

#[tokio::test]
async fn consolidate_with_only_stale_sources_adds_nothing_m7_4_37() {
    let scene = scene();
    let one = scene.add(json!({"content": "x"})).await;
    let summary = serde_json::from_value(json!({"content": "y"})).unwrap();
    let read = [(Ref::Id(one.id), Some(7))];
    let by = Successor::New(Box::new(summary));
    let head = scene.memory.head().await.unwrap();
    let done = scene.memory.consolidate(&person(), &read, by, None).await.unwrap();
    assert_eq!((done.by, done.left.len()), (None, 1));
    assert_eq!(scene.memory.head().await.unwrap(), head);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_source_changes_survive_consolidation_m7_4_37() {
    let scene = scene();
    let mut sources = Vec::new();
    for n in 0..20 {
        sources.push(scene.add(json!({"content": n.to_string()})).await);
    }
    let by = scene.add(json!({"content": "all of them"})).await;
    let read: Vec<_> = sources.iter().map(|one| (Ref::Id(one.id), Some(1))).collect();
    let memory = scene.memory.clone();
    let changes = tokio::spawn(async move {
        for (source, _) in read.into_iter().rev() {
            let patch = update(json!({"title": "changed"}));
            memory.update_observation(&person(), source, patch, None).await.unwrap();
        }
    });
    let read: Vec<_> = sources.iter().map(|one| (Ref::Id(one.id), Some(1))).collect();
    let by = Successor::There(Ref::Id(by.id));
    let done = scene.memory.consolidate(&person(), &read, by, None).await.unwrap();
    changes.await.unwrap();
    assert_eq!(done.superseded.len() + done.left.len(), 20);
    for left in done.left {
        assert_eq!(scene.now(&left).await.fields.superseded_by, None);
        assert_eq!(left.fields.title, "changed");
    }
    for superseded in done.superseded {
        let versions = scene.memory.versions(Ref::Id(superseded.id)).await.unwrap();
        assert_eq!(
            versions[1].operation, "supersede",
            "what was read is what it took the place of"
        );
    }
}

#[tokio::test]
async fn later_write_to_a_field_wins_and_records_the_conflict_m7_4_33() {
    let scene = scene();
    let seen = scene.add(json!({"content": "x"})).await;
    let as_read = |base| Guard {
        base_version: Some(base),
        ..Guard::default()
    };
    let set = async |patch, base| {
        let entry = Ref::Id(seen.id);
        let (actor, guard) = (person(), as_read(base));
        let written = scene
            .memory
            .update_observation_under(&actor, entry, update(patch), guard);
        written.await.unwrap()
    };
    assert_eq!(set(json!({"title": "first"}), 1).await.conflicts, []);
    assert_eq!(set(json!({"confidence": 0.9}), 1).await.conflicts, [], "another field");
    let second = set(json!({"title": "second", "tags": ["t"]}), 1).await;
    assert_eq!(
        (second.entry.fields.title.as_str(), second.conflicts.len()),
        ("second", 1)
    );
    let conflict = &second.conflicts[0];
    assert_eq!((conflict.field.as_str(), conflict.overwrote_version), ("title", 2));
    assert_eq!((&conflict.theirs, &conflict.ours), (&json!("first"), &json!("second")));
    assert!(
        second.warnings.iter().any(|warning| warning.code == "conflict"),
        "the trace has it, too"
    );
    let versions = scene.memory.versions(Ref::Id(seen.id)).await.unwrap();
    assert_eq!(versions[3].conflicts, second.conflicts, "and so has the history");
}

#[tokio::test]
async fn base_version_beyond_the_current_one_is_refused_m7_4_33() {
    let scene = scene();
    let seen = scene.add(json!({"content": "x"})).await;
    let guard = Guard {
        base_version: Some(2),
        ..Guard::default()
    };
    let patch = update(json!({"title": "y"}));
    let refused = scene
        .memory
        .update_observation_under(&person(), Ref::Id(seen.id), patch, guard)
        .await;
    let Err(WorkspaceError::Invalid(invalid)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (invalid.code.as_str(), invalid.field.as_str()),
        ("base_version_invalid", "base_version")
    );
    assert_eq!(scene.now(&seen).await.version, 1);
}

#[tokio::test]
async fn stale_version_is_refused_unless_the_entry_is_as_wished_m7_4_34() {
    let scene = scene();
    let seen = scene.add(json!({"content": "x"})).await;
    let set = async |title: &str| {
        let (entry, patch) = (Ref::Id(seen.id), update(json!({"title": title})));
        scene.memory.update_observation(&person(), entry, patch, Some(1)).await
    };
    set("one").await.unwrap();
    assert_eq!(set("one").await.unwrap().entry.version, 2, "a retry is safe");
    let stale = set("two").await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict);
    assert!(matches!(stale, WorkspaceError::Stale { current, .. } if current.fields.title == "one"));
}

#[tokio::test]
async fn claimed_work_is_free_for_others_only_after_its_lease_m7_4_35() {
    let scene = scene();
    let task = Ref::Id(scene.task().await.id);
    // A task has an instant of its own, just after that of a clock that stands still.
    scene.clock.advance(minutes(1));
    let (ada, bob) = (Owner::parse("ada").unwrap(), Owner::parse("bob").unwrap());
    let claim = async |owner: &Owner| {
        scene
            .memory
            .claim(&person(), task, owner, Some(minutes(10)), Guard::default())
            .await
    };
    let claimed = claim(&ada).await.unwrap().entry;
    assert_eq!(
        (claimed.fields.status, claimed.fields.owner),
        (Status::InProgress, ada.clone())
    );
    assert_eq!(claim(&ada).await.unwrap().entry.version, 2, "it is hers already");
    let taken = claim(&bob).await.unwrap_err();
    assert!(
        matches!(&taken, WorkspaceError::Taken(taken) if taken.owner == ada),
        "{taken}"
    );
    scene.clock.advance(minutes(10));
    assert_eq!(claim(&bob).await.unwrap().entry.fields.owner, bob);
    scene
        .memory
        .give_up(&person(), task, &ada, Guard::default())
        .await
        .unwrap_err();
    let given = scene
        .memory
        .give_up(&person(), task, &bob, Guard::default())
        .await
        .unwrap()
        .entry;
    assert_eq!(given.fields.status, Status::Open);
    let lines = scene.memory.trace(TraceQuery::default()).await.unwrap();
    let of_task: Vec<_> = lines
        .iter()
        .filter(|line| line.entry == Some(given.id) && line.status == "success")
        .map(|line| line.operation.as_str())
        .collect();
    assert_eq!(
        of_task,
        ["add_item", "claim_item", "claim_item", "give_up_item"],
        "a trace names what was done to work as its history does"
    );
}

#[tokio::test]
async fn str_replace_needs_one_match_and_applies_once_per_key_m7_4_36() {
    let scene = scene();
    let seen = scene.add(json!({"content": "one two two"})).await;
    let replace = async |old: &str, key: Option<&str>| {
        let guard = Guard {
            idempotency_key: key.map(str::to_owned),
            ..Guard::default()
        };
        scene
            .memory
            .str_replace(&person(), Ref::Id(seen.id), old, "three", guard)
            .await
    };
    let code = |error| match error {
        WorkspaceError::Invalid(invalid) => invalid.code,
        other => other.to_string(),
    };
    assert_eq!(code(replace("two", None).await.unwrap_err()), "text_not_unique");
    assert_eq!(
        replace("one", Some("k")).await.unwrap().entry.fields.body,
        "three two two"
    );
    let again = replace("one", Some("k")).await.unwrap();
    assert!(again.replayed && again.entry.version == 2, "{again:?}");
    assert_eq!(code(replace("one", None).await.unwrap_err()), "text_not_found");
}

#[tokio::test]
async fn equal_observations_are_all_stored_m7_3_27() {
    let scene = scene();
    for _ in 0..3 {
        scene.add(json!({"content": "same", "tags": ["t"]})).await;
    }
    assert_eq!(scene.memory.observations(EntryQuery::default()).await.unwrap().total, 3);
}

#[tokio::test]
async fn observation_with_zero_lifetime_expires_at_creation_m7_1_3() {
    let scene = scene();
    let seen = scene.add(json!({"content": "x", "ttl_minutes": 0})).await;
    assert_eq!(seen.state(scene.clock.now()), State::Expired);
    assert_eq!(seen.fields.lifetime.expires_at(), Some(seen.created_at));
    assert_eq!(scene.memory.note_ended().await.unwrap(), 1);
    assert_eq!(scene.operations(&seen).await, ["add", "expire"]);
    assert!(Timestamp::MIN < seen.created_at);
}

#[tokio::test]
async fn refused_operations_write_nothing_but_a_trace_note_m7_7() {
    let scene = scene();
    let seen = scene.add(json!({"content": "x", "status": "resolved"})).await;
    let (planner, head) = (Actor::new(Role::Planner, "p"), scene.memory.head().await.unwrap());
    let (memory, entry) = (&scene.memory, Ref::Id(seen.id));
    let add = Change::SetPolicy {
        policy: Box::default(),
        expected_version: None,
    };
    let write = || Write::of(vec![add.clone()]);
    let commit = folio_store::Commit {
        space: SpaceName::main(),
        at: memory.now(),
        actor: planner.clone(),
        idempotency_key: None,
        expected: Vec::new(),
        record: folio_store::Record::of(write().changes),
        blobs: Vec::new(),
    };
    let filter = folio_store::workspace::ForgetFilter::default();
    let forgotten = memory.forget(&planner, &filter, "r");
    let refusals = [
        memory.restore(&planner, entry, Guard::default()).await.unwrap_err(),
        memory.clear_resolved(&planner, None).await.unwrap_err(),
        forgotten.await.unwrap_err(),
        memory
            .set_policy(&planner, folio_memory::SpacePolicy::default(), None, None)
            .await
            .unwrap_err(),
        memory.archive(&planner, entry, None).await.unwrap_err(),
        memory.record(&planner, write()).await.unwrap_err(),
        memory.commit(commit).await.unwrap_err(),
    ];
    for refused in refusals {
        assert!(matches!(refused, WorkspaceError::Refused(_)), "{refused}");
    }
    assert_eq!(memory.head().await.unwrap(), head);
    let mut lines = memory.trace(TraceQuery::default()).await.unwrap();
    lines.retain(|line| line.status == "denied");
    let noted: Vec<_> = lines.iter().map(|line| line.operation.as_str()).collect();
    assert_eq!(
        noted,
        [
            "restore_observation",
            "clear_resolved",
            "forget",
            "set_policy",
            "archive_observation",
            "set_policy",
            "set_policy"
        ]
    );
    assert!(lines.iter().all(|line| line.source == "p"));
    assert_eq!(lines[0].entry, Some(seen.id));
}
