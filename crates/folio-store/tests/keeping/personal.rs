//! When entries with personal data are archived, and when their content is erased (M7.6.49).

use folio_memory::entry::{ImportedTimes, Status};
use folio_memory::foreign::{Destination, beads};
use folio_memory::id::Ref;
use folio_memory::keeping::{ArchivedFor, ErasedFor};
use folio_memory::{Entry, EntryQuery, Source, SpaceName, State, ThreadKey};
use folio_store::workspace::{Guard, ImportOptions, Imported};
use serde_json::json;

use crate::house::{DAY, HOUR, House, human};

#[tokio::test]
async fn personal_data_is_archived_then_erased_even_if_pinned_m7_6_49() {
    let house = House::new();
    let input = json!({"content": "ask jane.doe@example.org", "ttl_minutes": null});
    let (entry, pinned) = (house.add(input.clone()).await, house.add(input).await);
    assert_eq!(entry.fields.pii, [folio_memory::Pii::Email]);
    house.workspace.pin_item(&human(), Ref::Id(pinned.id)).await.unwrap();
    house.clock.advance(30 * DAY);
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Pii], 2);
    house.clock.advance(30 * DAY);
    assert_eq!(house.tidy().await.erased[&ErasedFor::Pii], 2);
    for entry in [&entry, &pinned] {
        assert_eq!(house.get(entry).await.fields.body, "");
    }
    house.scrub().await;
    assert!(!house.holds("jane.doe@example.org"));
    house.assert_sound().await;
}

#[tokio::test]
async fn retention_of_personal_data_starts_when_an_update_adds_it_m7_6_49() {
    let house = House::new();
    let entry = house
        .add(json!({"content": "the dentist is on Main Street", "ttl_minutes": null}))
        .await;
    house.workspace.pin_item(&human(), Ref::Id(entry.id)).await.unwrap();
    house.clock.advance(61 * DAY);
    assert!(house.tidy().await.is_nothing());
    house
        .update(&entry, json!({"content": "dentist: anna.miller@example.org"}))
        .await;
    assert!(house.tidy().await.is_nothing(), "it came in just now");
    house.clock.advance(29 * DAY);
    house.update(&entry, json!({"title": "The dentist"})).await;
    assert!(house.tidy().await.is_nothing());
    house.clock.advance(DAY);
    // Another process looks it up for itself.
    let other = House::at(&house.path, 2);
    other.clock.advance(91 * DAY);
    assert_eq!(other.tidy().await.archived[&ArchivedFor::Pii], 1);
    house.clock.advance(29 * DAY);
    assert!(house.tidy().await.is_nothing());
    assert_eq!(house.get(&entry).await.fields.body, "dentist: anna.miller@example.org");
    house.clock.advance(DAY);
    assert_eq!(house.tidy().await.erased[&ErasedFor::Pii], 1);
    house.assert_sound().await;
}

#[tokio::test]
async fn overdue_personal_data_is_archived_before_it_is_erased_m7_6_49() {
    let house = House::new();
    let input = json!({"content": "ask jane.doe@example.org", "ttl_minutes": null});
    let (left, by_hand) = (house.add(input.clone()).await, house.add(input).await);
    house.clock.advance(90 * DAY);
    house
        .workspace
        .archive(&human(), Ref::Id(by_hand.id), None)
        .await
        .unwrap();
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Pii], 1);
    assert!(
        house.tidy().await.is_nothing(),
        "there is a period in which it is missed"
    );
    house.clock.advance(29 * DAY);
    assert!(house.tidy().await.is_nothing());
    house.clock.advance(DAY);
    assert_eq!(house.tidy().await.erased[&ErasedFor::Pii], 2);
    for entry in [&left, &by_hand] {
        assert_eq!(house.get(entry).await.fields.body, "");
    }
    house.assert_sound().await;
}

#[tokio::test]
async fn retention_of_imported_personal_data_starts_at_import_m7_6_49() {
    let house = House::new();
    house.clock.advance(100 * DAY);
    let long_ago = |days: u32| house.now().minus(days * DAY);
    let issues: Vec<String> = [90, 40]
        .iter()
        .map(|days| {
            json!({"id": format!("bd-{days}"), "title": "Call back", "description": "jane.doe@example.org",
                "created_at": long_ago(*days), "updated_at": long_ago(*days)})
            .to_string()
        })
        .collect();
    let to = Destination {
        space: SpaceName::main(),
        thread: ThreadKey::main(),
        source: Source::default(),
        now: house.now(),
    };
    let (ada, options) = (human(), ImportOptions::default());
    let mut silent = |_: &Imported| {};
    let imported = house
        .workspace
        .import_foreign(&ada, beads(&issues.join("\n"), &to), options, &mut silent);
    assert_eq!(Box::pin(imported).await.unwrap().entries, 2);
    let all = async || -> Vec<Entry> {
        let query = EntryQuery {
            status: Status::ALL.to_vec(),
            ..EntryQuery::default()
        };
        let found = house.workspace.entries(&query).await.unwrap().items;
        found
            .into_iter()
            .filter(|entry| entry.fields.brought.is_some())
            .collect()
    };
    assert_eq!(all().await.len(), 2);
    let first = &all().await[0];
    let brought: ImportedTimes = first.fields.brought.unwrap();
    assert!(brought.created_at == first.created_at && first.created_at < house.now());
    assert_eq!(first.fields.pii, [folio_memory::Pii::Email]);
    for days in [0, 29] {
        house.clock.advance(days * DAY);
        assert!(house.tidy().await.is_nothing(), "after {days} days");
    }
    assert!(all().await.iter().all(|entry| entry.state(house.now()) == State::Live));
    house.clock.advance(DAY);
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Pii], 2);
    house.clock.advance(29 * DAY + 23 * HOUR);
    assert!(house.tidy().await.is_nothing());
    house.clock.advance(HOUR);
    assert_eq!(house.tidy().await.erased[&ErasedFor::Pii], 2);
    house.assert_sound().await;
}

#[tokio::test]
async fn restored_entry_gets_a_new_retention_period_m7_1_10() {
    let house = House::new();
    let entry = house.say("the build is slow").await;
    house.clock.advance(7 * DAY);
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Age], 1);
    house
        .workspace
        .archive(&human(), Ref::Id(entry.id), None)
        .await
        .unwrap();
    house.clock.advance(100 * DAY);
    house
        .workspace
        .restore(&human(), Ref::Id(entry.id), Guard::default())
        .await
        .unwrap();
    assert!(house.tidy().await.is_nothing());
    house.clock.advance(7 * DAY);
    assert_eq!(house.tidy().await.archived[&ArchivedFor::Age], 1);
    house.clock.advance(22 * DAY);
    assert!(house.tidy().await.is_nothing());
    house.clock.advance(DAY);
    assert_eq!(house.tidy().await.erased[&ErasedFor::Expired], 1);
}
