//! Answers of tools that wait while the store cannot write (M7.3.26).

use std::path::PathBuf;
use std::time::Duration;

use folio_store::workspace::{Delivered, Guard};
use folio_testkit::{Fault, Work};
use serde_json::json;
use tempfile::TempDir;

use crate::house::{House, answer, codes, contents, turn};

/// A store with one waiting answer, because writing it failed with `fault`.
async fn waiting(fault: Fault) -> (TempDir, House) {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house.observed(json!([{"content": "before"}])).await;
    house.store.fail_next(fault);
    let items = json!([{"content": "a", "ttl_minutes": 60}, {"content": "b"}]);
    let ingested = house.ingest_in(turn(2), answer(items)).await;
    assert_eq!((ingested.spooled, ingested.rejected.len()), (2, 0));
    house.store.heal();
    (folder, house)
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("outbox.jsonl")
}

#[tokio::test]
async fn outbox_delivers_items_once_and_is_emptied_m7_3_26() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    let expires = house.space.now().plus(Duration::from_secs(3600));
    house.clock.advance(Duration::from_secs(600));
    let delivered = house.space.deliver_outbox().await.unwrap();
    assert_eq!((delivered.items, delivered.replayed), (2, 0));
    assert_eq!(house.space.deliver_outbox().await.unwrap(), Delivered::default());
    assert_eq!(std::fs::metadata(file(&folder)).unwrap().len(), 0);
    let found = house.all().await;
    assert_eq!(contents(&found), ["b", "a", "before"]);
    let end = found[1].fields.lifetime.expires_at().unwrap();
    assert_eq!(
        end.plus(Duration::from_millis(1)),
        expires,
        "it holds as long as was meant"
    );
    assert_eq!(
        found[1].fields.source.turn,
        Some(turn(2)),
        "and says when it was noticed"
    );
    assert_eq!(house.traced("spool_observations").await.len(), 1);
    assert_eq!(house.traced("deliver_observations").await.len(), 1);
}

#[tokio::test]
async fn confirming_an_item_expired_in_the_outbox_renews_its_lifetime_m7_1_6() {
    let (_folder, house) = waiting(Fault::NotWritten).await;
    house.clock.advance(Duration::from_secs(2 * 3600));
    house.space.deliver_outbox().await.unwrap();
    let all = folio_memory::EntryQuery {
        include_expired: true,
        ..folio_memory::EntryQuery::default()
    };
    let found = house.space.observations(all).await.unwrap().items;
    let late = found.iter().find(|entry| entry.fields.body == "a").unwrap();
    assert_eq!(late.state(house.space.now()), folio_memory::State::Expired);
    let person = folio_memory::Actor::new(folio_memory::Role::Human, "ada");
    let named = folio_memory::id::Ref::Id(late.id);
    let confirmed = house.space.confirm(&person, named, Guard::default()).await.unwrap();
    let end = confirmed.entry.fields.lifetime.expires_at().unwrap();
    let left = end.since(confirmed.entry.fields.validated_at.unwrap());
    assert_eq!(left, Duration::from_secs(3600));
}

#[tokio::test]
async fn beginning_a_turn_delivers_the_outbox() {
    let (_folder, house) = waiting(Fault::NotWritten).await;
    let input = folio_store::workspace::TurnInput {
        thread: folio_memory::ThreadKey::main(),
        input: "what did you find?".to_owned(),
        run: None,
        background: false,
    };
    let person = folio_memory::Actor::new(folio_memory::Role::Human, "ada");
    house.space.begin_turn(&person, input).await.unwrap();
    let found = house.all().await;
    assert_eq!(contents(&found), ["b", "a", "before"], "each of them once");
}

#[tokio::test]
async fn outbox_does_not_repeat_a_write_whose_answer_was_lost() {
    let (_folder, house) = waiting(Fault::WrittenUnanswered).await;
    let delivered = house.space.deliver_outbox().await.unwrap();
    assert_eq!((delivered.items, delivered.replayed), (0, 2), "it had been written");
    assert_eq!(contents(&house.all().await), ["b", "a", "before"]);
}

#[tokio::test]
async fn outbox_delivered_but_not_emptied_creates_no_duplicates() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    let waited = std::fs::read(file(&folder)).unwrap();
    house.space.deliver_outbox().await.unwrap();
    std::fs::write(file(&folder), waited).unwrap();
    let delivered = house.space.deliver_outbox().await.unwrap();
    assert_eq!((delivered.items, delivered.replayed), (0, 2));
    assert_eq!(house.all().await.len(), 3);
}

#[tokio::test]
async fn repeated_answer_is_stored_once_while_in_the_outbox() {
    let (_folder, house) = waiting(Fault::NotWritten).await;
    let items = json!([{"content": "a", "ttl_minutes": 60}, {"content": "b"}]);
    let again = house.ingest_in(turn(2), answer(items)).await;
    assert_eq!((again.replayed, again.stored.len()), (2, 2));
    assert_eq!(house.all().await.len(), 3);
}

#[tokio::test]
async fn torn_outbox_line_is_set_aside_and_the_others_delivered() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    let mut torn = std::fs::read(file(&folder)).unwrap();
    let whole = torn.len();
    torn.extend_from_within(..whole / 2);
    std::fs::write(file(&folder), &torn).unwrap();
    house.store.fail_next(Fault::Gone);
    let ingested = house.ingest_in(turn(3), answer(json!([{"content": "c"}]))).await;
    assert_eq!(ingested.spooled, 1, "it goes behind the torn line");
    house.store.heal();
    let delivered = house.space.deliver_outbox().await.unwrap();
    assert_eq!((delivered.items, delivered.damaged), (3, 1));
    assert_eq!(contents(&house.all().await), ["c", "b", "a", "before"]);
    let aside = std::fs::read(folder.path().join("outbox.jsonl.damaged")).unwrap();
    assert_eq!(aside.len(), whole / 2 + 1, "and is not lost");
}

#[tokio::test]
async fn outbox_lines_of_a_newer_version_are_kept_undelivered() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    let ours = std::fs::read_to_string(file(&folder)).unwrap();
    let newer = |number: u32| ours.replacen("\"v\":1", &format!("\"v\":{}", number + 1), 1);
    // A new version is made because its lines look otherwise.
    let (one, two) = (newer(1), "{\"space\":\"main\",\"v\":2,\"who\":\"x\"}\n".to_owned());
    std::fs::write(file(&folder), format!("{one}torn\n{ours}{two}")).unwrap();
    let delivered = house.space.deliver_outbox().await.unwrap();
    assert_eq!((delivered.items, delivered.damaged), (2, 1));
    assert_eq!(std::fs::read_to_string(file(&folder)).unwrap(), format!("{one}{two}"));
    let aside = folder.path().join("outbox.jsonl.damaged");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), "torn\n");
    assert_eq!(house.space.deliver_outbox().await.unwrap(), Delivered::default());
    assert_eq!(
        house.traced("deliver_observations").await.len(),
        2,
        "of what was delivered, and of what is damaged"
    );
    assert_eq!(contents(&house.all().await), ["b", "a", "before"]);
}

#[tokio::test]
async fn failed_delivery_keeps_the_outbox_items_waiting() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    house.store.fail_next(Fault::Gone);
    house.space.deliver_outbox().await.unwrap_err();
    assert!(std::fs::metadata(file(&folder)).unwrap().len() > 0);
    house.store.heal();
    assert_eq!(house.space.deliver_outbox().await.unwrap().items, 2);
}

#[tokio::test]
async fn failed_write_without_an_outbox_is_rejected_and_traced() {
    let house = House::new();
    house.store.fail_next(Fault::NotWritten);
    let ingested = house.ingest_in(turn(1), answer(json!([{"content": "a"}]))).await;
    assert_eq!(codes(&ingested), [(0, "storage_failed")]);
    assert_eq!(house.traced("add_observation").await[0].status, "rejected");
}

#[tokio::test]
async fn unwritable_outbox_rejects_the_item_and_blocks_no_later_write() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    // A folder stands where the file should be.
    std::fs::create_dir(file(&folder)).unwrap();
    house.store.fail_next(Fault::NotWritten);
    let ingested = house.ingest_in(turn(1), answer(json!([{"content": "a"}]))).await;
    assert_eq!(codes(&ingested), [(0, "storage_failed")]);
    let ingested = house.ingest_in(turn(2), answer(json!([{"content": "b"}]))).await;
    assert_eq!(contents(&ingested.stored), ["b"]);
}

#[tokio::test]
async fn secrets_are_redacted_before_reaching_the_outbox() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house.store.fail_next(Fault::NotWritten);
    let secret = "ghp_012345678901234567890123456789012345";
    house
        .ingest_in(turn(1), answer(json!([{"content": format!("it is {secret}")}])))
        .await;
    let text = std::fs::read_to_string(file(&folder)).unwrap();
    assert!(!text.contains(secret) && text.contains("[redacted:"), "{text}");
}

#[tokio::test]
async fn outbox_delivers_items_to_their_own_space() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    let other = folio_store::Workspace::new(
        std::sync::Arc::clone(house.space.store()),
        std::sync::Arc::clone(house.space.clock()),
        std::sync::Arc::clone(house.space.ids()),
        folio_memory::SpaceName::parse("other").unwrap(),
    );
    let other = other.with_outbox(file(&folder));
    assert_eq!(other.deliver_outbox().await.unwrap().items, 2);
    assert_eq!(
        other
            .observations(folio_memory::EntryQuery::default())
            .await
            .unwrap()
            .total,
        0
    );
    assert_eq!(contents(&house.all().await), ["b", "a", "before"]);
}

#[tokio::test]
async fn answer_waits_behind_older_ones_that_cannot_be_delivered_m7_3_26() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    let before = house.store.commits();
    house.store.fail_next(Fault::Gone);
    for (number, content) in [(3, "c"), (4, "d")] {
        let ingested = house
            .ingest_in(turn(number), answer(json!([{"content": content}])))
            .await;
        assert_eq!(ingested.spooled, 1);
    }
    assert_eq!(
        house.store.commits() - before,
        2,
        "each tries to deliver what is older, and not again to write what is its own"
    );
    let lines = std::fs::read_to_string(file(&folder)).unwrap();
    assert_eq!(lines.lines().count(), 3);
    house.store.heal();
    house.space.deliver_outbox().await.unwrap();
    assert_eq!(contents(&house.all().await), ["d", "c", "b", "a", "before"]);
}

#[tokio::test]
async fn answer_spooled_during_a_delivery_is_not_held_up_and_waits_for_the_next() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    let gate = house.store.hold(Work::Commit);
    let space = house.space.clone();
    let delivering = tokio::spawn(async move { space.deliver_outbox().await });
    gate.wait_until_reached().await;
    house.store.fail_next(Fault::NotWritten);
    let ingested = house.ingest_in(turn(3), answer(json!([{"content": "c"}]))).await;
    assert_eq!(ingested.spooled, 1);
    gate.open();
    assert_eq!(delivering.await.unwrap().unwrap().items, 2);
    let left = std::fs::read_to_string(file(&folder)).unwrap();
    assert!(left.lines().count() == 1 && left.contains("\"c\""), "{left}");
    assert_eq!(house.space.deliver_outbox().await.unwrap().items, 1);
    assert_eq!(contents(&house.all().await), ["c", "b", "a", "before"]);
}

#[tokio::test(start_paused = true)]
async fn answer_goes_into_the_outbox_if_the_store_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house.observed(json!([{"content": "before"}])).await;
    let _never_opened = house.store.hold(Work::Commit);
    let start = tokio::time::Instant::now();
    let ingested = house.ingest_in(turn(2), answer(json!([{"content": "a"}]))).await;
    assert_eq!(ingested.spooled, 1);
    let waited = start.elapsed();
    assert!((1..=15).contains(&waited.as_secs()), "{waited:?}");
}
