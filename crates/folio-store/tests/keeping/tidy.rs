use std::time::Duration;

use folio_memory::entry::Status;
use folio_memory::id::Ref;
use folio_memory::keeping::{ArchivedFor, ErasedFor};
use folio_memory::{Clock as _, Entry, EntryQuery, NoteQuery, SpaceName, State, ThreadKey};
use folio_store::ErrorKind;
use folio_store::workspace::{Guard, TurnInput};
use serde_json::json;

use crate::house::{DAY, HOUR, House, human};

#[tokio::test]
async fn old_observation_is_archived_then_erased_to_a_tombstone_m7_6_44() {
    let house = House::new();
    // Neither the entry whose commit made the page nor the last one is ever reduced to its number.
    let for_ever = async || house.add(json!({"content": "for ever", "ttl_minutes": null})).await;
    for_ever().await;
    let entry = house.say("the build is slow").await;
    let kept = for_ever().await;
    house.clock.advance(6 * DAY + 23 * HOUR);
    assert!(house.tidy().await.is_nothing());
    house.clock.advance(HOUR);
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Age], 1);
    let archived = house.get(&entry).await;
    assert_eq!(
        (archived.fields.status, archived.fields.body.as_str()),
        (Status::Archived, "the build is slow")
    );
    assert!(house.tidy().await.is_nothing(), "once is enough");
    house.clock.advance(30 * DAY);
    assert_eq!(house.tidy().await.erased[&ErasedFor::Expired], 1);
    let erased = house.get(&entry).await;
    assert_eq!(
        (erased.fields.body.as_str(), erased.fields.erased),
        ("", Some(ErasedFor::Expired))
    );
    assert_eq!(erased.created_at, entry.created_at);
    house.scrub().await;
    assert!(!house.holds("the build is slow"));
    house.assert_sound().await;
    assert_eq!(house.get(&kept).await.state(house.now()), State::Live);
    let revisions = house.workspace.history(Ref::Id(entry.id)).await.unwrap();
    let reasons: Vec<_> = revisions.iter().map(|revision| revision.reason.as_deref()).collect();
    assert_eq!(reasons, [None, Some("age"), Some("expired")]);
    // The tombstone lasts for thirty days as well; then only its number is left.
    house.clock.advance(29 * DAY);
    assert_eq!(house.tidy().await.buried, 0);
    assert_eq!(house.get(&entry).await.fields.erased, Some(ErasedFor::Expired));
    house.clock.advance(DAY);
    assert_eq!(house.tidy().await.buried, 1);
    let gone = house.workspace.entry(Ref::Id(entry.id)).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
    house.assert_sound().await;
}

#[tokio::test]
async fn clock_that_is_ahead_for_a_minute_erases_nothing_m7_1_10() {
    let house = House::new();
    let entry = house.say("precious").await;
    let start = house.clock.now();
    house.clock.set(start.plus(60 * DAY));
    for _ in 0..2 {
        house.tidy().await;
        house.clock.advance(Duration::from_secs(60));
    }
    house.clock.set(start.plus(Duration::from_secs(180)));
    assert!(house.tidy().await.erased.is_empty());
    let kept = house.get(&entry).await;
    assert_eq!(
        (kept.fields.status, kept.fields.body.as_str()),
        (Status::Archived, "precious")
    );
    let there = (Ref::Id(entry.id), Guard::default());
    house.workspace.restore(&human(), there.0, there.1).await.unwrap();
    assert_eq!(house.get(&entry).await.fields.status, Status::Active);
}

#[tokio::test]
async fn resolved_observation_is_archived_after_a_day_unless_pinned_m7_5_42() {
    let house = House::new();
    let (entry, pinned) = (house.say("done with").await, house.say("done with, and pinned").await);
    for entry in [&entry, &pinned] {
        house.update(entry, json!({"status": "resolved"})).await;
    }
    house.workspace.pin_item(&human(), Ref::Id(pinned.id)).await.unwrap();
    house.clock.advance(23 * HOUR);
    assert!(house.tidy().await.is_nothing());
    house.clock.advance(HOUR);
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Resolved], 1);
    assert_eq!(house.get(&entry).await.fields.archived_for, Some(ArchivedFor::Resolved));
    assert_eq!(house.get(&pinned).await.fields.status, Status::Resolved);
    house.assert_sound().await;
}

#[tokio::test]
async fn manually_archived_entry_is_not_erased_by_tidying_m7_6_45() {
    let house = House::new();
    let of = |name: &'static str| json!({"content": name, "ttl_minutes": 60});
    let (restored, kept, ended) = (
        house.add(of("r")).await,
        house.add(of("k")).await,
        house.add(of("e")).await,
    );
    house.clock.advance(8 * DAY);
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Age], 3);
    let (person, id) = (human(), |entry: &Entry| Ref::Id(entry.id));
    let archive = async |entry| house.workspace.archive(&person, id(entry), None).await.unwrap().entry;
    let back = house
        .workspace
        .restore(&person, id(&restored), Guard::default())
        .await
        .unwrap();
    assert_eq!(back.entry.fields.archived_for, None);
    for (entry, version) in [(&restored, 4), (&kept, 3)] {
        let by_hand = archive(entry).await;
        assert_eq!((by_hand.fields.archived_for, by_hand.version), (None, version));
        assert_eq!(archive(entry).await.version, version, "twice is once");
    }
    house.clock.advance(100 * DAY);
    house.tidy().await;
    assert!(house.get(&ended).await.fields.erased.is_some(), "nobody put this away");
    for entry in [&restored, &kept] {
        assert_eq!(house.get(entry).await.fields.erased, None);
    }
    assert_eq!(
        archive(&ended).await.fields.archived_for,
        house.get(&ended).await.fields.archived_for
    );
    house.assert_sound().await;
}

#[tokio::test]
async fn quota_archives_resolved_and_oldest_observations_first_m7_6_46() {
    let house = House::new();
    let alert = house.add(json!({"content": "fire", "type": "alert"})).await;
    let resolved = house.add(json!({"content": "out", "type": "alert"})).await;
    house.update(&resolved, json!({"status": "resolved"})).await;
    let oldest = house.say("one").await;
    for n in 2..6 {
        house.say(&format!("{n}")).await;
    }
    house.set_policy(json!({"quota": {"live_observations": 5}})).await;
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Quota], 2);
    for (entry, status) in [
        (alert, Status::Active),
        (resolved, Status::Archived),
        (oldest, Status::Archived),
    ] {
        assert_eq!(house.get(&entry).await.fields.status, status, "{}", entry.handle);
    }
    assert_eq!(house.total(EntryQuery::default()).await, 5);
    assert!(house.tidy().await.is_nothing());
    let lines = house.workspace.trace(Default::default()).await.unwrap();
    let quota = lines
        .iter()
        .filter(|line| line.detail.as_ref().is_some_and(|d| d.to_string().contains("quota")));
    assert_eq!(quota.count(), 2, "the trace says why");
    house.assert_sound().await;
}

#[tokio::test]
async fn adding_keeps_live_observations_within_five_percent_of_quota_m7_6_46() {
    let house = House::new();
    house.set_policy(json!({"quota": {"live_observations": 100}})).await;
    for n in 0..600 {
        house.say(&format!("number {n}")).await;
    }
    let live = house.total(EntryQuery::default()).await;
    assert!((100..=105).contains(&live), "{live}");
    assert_eq!(
        house
            .total(EntryQuery {
                status: Status::ALL.to_vec(),
                ..EntryQuery::default()
            })
            .await,
        600
    );
}

#[tokio::test]
async fn adding_enforces_a_small_or_lowered_quota_m7_6_46() {
    let house = House::new();
    house.say("before anybody set a quota").await;
    for (quota, most) in [(20, 21), (1, 1), (40, 42)] {
        house.set_policy(json!({"quota": {"live_observations": quota}})).await;
        for n in 0..139 {
            house.say(&format!("number {n} of {quota}")).await;
            let live = house.total(EntryQuery::default()).await;
            assert!(live <= most, "{live} after {n} of {quota}");
        }
    }
}

#[tokio::test]
async fn one_add_archives_at_most_a_thousand_observations_above_the_quota_m7_6_46() {
    let house = House::new();
    for n in 0..1_199 {
        house.say(&format!("number {n}")).await;
    }
    house.set_policy(json!({"quota": {"live_observations": 50}})).await;
    house.say("the first above it").await;
    assert_eq!(house.total(EntryQuery::default()).await, 200);
    house.say("the second").await;
    house.say("the third").await;
    let live = house.total(EntryQuery::default()).await;
    assert!(live <= 52, "the next adds archive the rest: {live}");
    house.set_policy(json!({"quota": {"live_observations": 10}})).await;
    let tidied = house.tidy().await;
    assert_eq!(house.total(EntryQuery::default()).await, 10);
    assert!(!tidied.more);
}

#[tokio::test]
async fn archived_text_is_compressed_and_still_read_unchanged_m7_6_45() {
    let house = House::new();
    let text =
        "The build of the web client fails on the second machine because an older version made the cache. ".repeat(8);
    let entry = house.say(&text).await;
    house
        .workspace
        .archive(&human(), Ref::Id(entry.id), None)
        .await
        .unwrap();
    assert!(house.holds("on the second machine"));
    assert_eq!(house.tidy().await.packed, 1);
    drop(
        house
            .workspace
            .store()
            .scrub(&SpaceName::main(), Vec::new())
            .await
            .unwrap(),
    );
    assert!(!house.holds("on the second machine"), "it is kept in another form");
    let entry = house.get(&entry).await;
    assert_eq!(entry.fields.body, text);
    let archived = EntryQuery {
        status: vec![Status::Archived],
        ..EntryQuery::default()
    };
    let listed = house.workspace.observations(archived).await.unwrap().items;
    assert_eq!(listed, std::slice::from_ref(&entry));
    let history = house.workspace.history(Ref::Id(entry.id)).await.unwrap();
    assert!(format!("{:?}", history[0].change).contains("on the second machine"));
    house.assert_sound().await;
    assert!(house.tidy().await.is_nothing());
    let restored = house
        .workspace
        .restore(&human(), Ref::Id(entry.id), Guard::default())
        .await
        .unwrap();
    assert_eq!(
        (restored.entry.fields.status, &restored.entry.fields.body),
        (Status::Active, &text)
    );
    assert_eq!(house.get(&entry).await, restored.entry);
    house.assert_sound().await;
}

#[tokio::test]
async fn tidying_does_nothing_without_retention_periods_m7_6_44() {
    let house = House::new();
    let never = json!({"archive_after_minutes": null, "archive_resolved_after_minutes": null, "purge_after_minutes": null,
        "pii_archive_after_minutes": null, "pii_erase_after_minutes": null, "tombstone_minutes": null});
    house.set_policy(json!({ "retention": never })).await;
    let entry = house.say("mail a@example.org").await;
    house.clock.advance(400 * DAY);
    assert!(house.tidy().await.is_nothing());
    assert_eq!(house.get(&entry).await, entry);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_tidying_archives_each_entry_once_m7_6_44() {
    let house = House::new();
    for n in 0..700 {
        house.say(&format!("observation {n}")).await;
    }
    let other = House::at(&house.path, 2);
    house.clock.advance(8 * DAY);
    other.clock.advance(8 * DAY);
    let (one, two) = tokio::join!(house.tidy(), other.tidy());
    let archived =
        |tidied: folio_store::workspace::Tidied| tidied.archived.get(&ArchivedFor::Age).copied().unwrap_or(0);
    assert_eq!(archived(one) + archived(two), 700);
    let versions = EntryQuery {
        status: vec![Status::Archived],
        limit: 1000,
        include_expired: true,
        ..EntryQuery::default()
    };
    let listed = house.workspace.observations(versions).await.unwrap().items;
    assert_eq!(listed.len(), 700);
    assert!(listed.iter().all(|entry| entry.version == 2));
    house.assert_sound().await;
}

#[tokio::test]
async fn ending_a_turn_archives_entries_that_have_become_due_m7_6_44() {
    let house = House::new();
    let entry = house.say("the build is slow").await;
    let turn = async || {
        let input = TurnInput {
            thread: ThreadKey::main(),
            input: "hello".to_owned(),
            run: None,
            background: false,
        };
        let begun = house.workspace.begin_turn(&human(), input).await.unwrap();
        let id = Ref::Id(begun.turn.begun.id);
        house.workspace.end_turn(&human(), id).await.unwrap();
        house.get(&entry).await.fields.status
    };
    assert_eq!((turn().await, turn().await), (Status::Active, Status::Active));
    house.clock.advance(7 * DAY);
    assert_eq!(turn().await, Status::Archived);
}

#[tokio::test]
async fn tidying_deletes_old_and_surplus_notes_of_the_trace_m7_10() {
    let house = House::new();
    let notes = async || {
        let query = NoteQuery {
            limit: 10_000,
            ..NoteQuery::default()
        };
        let notes = house.workspace.store().notes(&SpaceName::main(), &query).await;
        notes.unwrap().len()
    };
    house.say("the build is slow").await;
    for _ in 0..1_500 {
        house.workspace.note(house.workspace.noted("memory", "list_entries"));
    }
    house.workspace.flush_trace().await.unwrap();
    assert_eq!(notes().await, 1_500);
    house.set_policy(json!({"trace": {"notes_max": 1_000}})).await;
    house.tidy().await;
    assert_eq!(notes().await, 1_000);
    house.clock.advance(31 * DAY);
    house.tidy().await;
    assert_eq!(notes().await, 0);
    house.assert_sound().await;
}
