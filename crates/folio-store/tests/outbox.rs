//! Answers of tools that wait while the store cannot write (M7.3.26).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod house;

use std::path::PathBuf;
use std::time::Duration;

use folio_store::workspace::{Delivered, Guard};
use folio_testkit::Fault;
use serde_json::json;
use tempfile::TempDir;

use house::{House, answer, codes, contents, turn};

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
async fn what_waits_is_delivered_once_and_the_file_is_empty_then_m7_3_26() {
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
async fn what_waited_longer_than_it_holds_is_given_as_long_again_when_it_is_confirmed_m7_1_6() {
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
async fn the_next_turn_delivers() {
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
    let found = contents(&found);
    assert!(["b", "a"].iter().all(|content| found.contains(content)), "{found:?}");
}

#[tokio::test]
async fn a_write_of_which_nobody_heard_is_not_made_twice() {
    let (_folder, house) = waiting(Fault::WrittenUnanswered).await;
    let delivered = house.space.deliver_outbox().await.unwrap();
    assert_eq!((delivered.items, delivered.replayed), (0, 2), "it had been written");
    assert_eq!(contents(&house.all().await), ["b", "a", "before"]);
}

#[tokio::test]
async fn a_process_that_dies_between_delivering_and_emptying_duplicates_nothing() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    let waited = std::fs::read(file(&folder)).unwrap();
    house.space.deliver_outbox().await.unwrap();
    std::fs::write(file(&folder), waited).unwrap();
    let delivered = house.space.deliver_outbox().await.unwrap();
    assert_eq!((delivered.items, delivered.replayed), (0, 2));
    assert_eq!(house.all().await.len(), 3);
}

#[tokio::test]
async fn the_same_answer_that_comes_again_while_it_waits_is_stored_once() {
    let (_folder, house) = waiting(Fault::NotWritten).await;
    let items = json!([{"content": "a", "ttl_minutes": 60}, {"content": "b"}]);
    let again = house.ingest_in(turn(2), answer(items)).await;
    assert_eq!((again.replayed, again.stored.len()), (2, 2));
    assert_eq!(house.all().await.len(), 3);
}

#[tokio::test]
async fn a_line_that_was_not_ended_is_put_aside_and_the_others_are_delivered() {
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
async fn what_a_newer_version_put_there_waits_for_it_and_the_others_are_delivered_once() {
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
async fn a_store_that_goes_on_failing_keeps_everything_waiting() {
    let (folder, house) = waiting(Fault::NotWritten).await;
    house.store.fail_next(Fault::Gone);
    house.space.deliver_outbox().await.unwrap_err();
    assert!(std::fs::metadata(file(&folder)).unwrap().len() > 0);
    house.store.heal();
    assert_eq!(house.space.deliver_outbox().await.unwrap().items, 2);
}

#[tokio::test]
async fn without_an_outbox_what_cannot_be_written_is_rejected_and_said() {
    let house = House::new();
    house.store.fail_next(Fault::NotWritten);
    let ingested = house.ingest_in(turn(1), answer(json!([{"content": "a"}]))).await;
    assert_eq!(codes(&ingested), [(0, "storage_failed")]);
    assert_eq!(house.traced("add_observation").await[0].status, "rejected");
}

#[tokio::test]
async fn an_outbox_that_cannot_be_written_either_is_said_and_stops_nobody() {
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
async fn secrets_do_not_wait_in_the_outbox() {
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
async fn what_was_noticed_in_one_space_is_delivered_to_that_space() {
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
