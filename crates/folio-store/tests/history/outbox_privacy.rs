//! What waits in the outbox is as private as what is stored: redacted before it is written there, and forgotten with
//! the rest (M7.3.26, M7.6.50).

use std::path::PathBuf;
use std::sync::Arc;

use folio_memory::id::Ref;
use folio_memory::{Actor, EntryQuery, Role, SpaceName, Tag};
use folio_store::Workspace;
use folio_store::workspace::{ForgetFilter, Forgotten};
use folio_testkit::Fault;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::house::{House, answer, contents, turn};

const WORDS: &str = "the wedding is on the fourth of june in the old mill";

/// A token of a known shape that is well-formed as the name of a type, too.
const SECRET: &str = "ghp_012345678901234567890123456789012345";

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("outbox.jsonl")
}

fn damaged(folder: &TempDir) -> PathBuf {
    folder.path().join("outbox.jsonl.damaged")
}

fn said(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn with_text(text: &str) -> ForgetFilter {
    ForgetFilter {
        text: Some(text.to_owned()),
        ..ForgetFilter::default()
    }
}

async fn forget(space: &Workspace, filter: &ForgetFilter) -> Forgotten {
    let person = Actor::new(Role::Human, "ada");
    space.forget(&person, filter, "asked").await.unwrap()
}

impl House {
    /// Makes `observations` wait, as one answer.
    async fn wait(&self, number: u32, observations: Value) {
        self.store.fail_next(Fault::Gone);
        let ingested = self.ingest_in(turn(number), answer(observations)).await;
        assert!(ingested.spooled > 0, "{ingested:?}");
        self.store.heal();
    }

    fn other_space(&self, folder: &TempDir) -> Workspace {
        let (store, clock, ids) = (self.space.store(), self.space.clock(), self.space.ids());
        let name = SpaceName::parse("other").unwrap();
        Workspace::new(Arc::clone(store), Arc::clone(clock), Arc::clone(ids), name).with_outbox(file(folder))
    }
}

#[tokio::test]
async fn outbox_items_have_secrets_redacted_in_every_field_m7_3_26() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house
        .set_policy(json!({"strict_types": "nobody", "manifests": {"wine_search": {"observes": ["*", SECRET]}}}))
        .await;
    house.space.policy().await.unwrap();
    let with_secrets = json!({
        "content": SECRET, "title": SECRET, "tags": [SECRET], "type": SECRET, "context": {SECRET: SECRET},
        "metadata": {"token": SECRET},
    });
    house.wait(1, json!([with_secrets])).await;
    let waits = said(&file(&folder));
    assert!(!waits.contains(SECRET), "{waits}");
    assert_eq!(house.space.deliver_outbox().await.unwrap().items, 1);
    let entry = house.all().await.remove(0);
    assert!(!format!("{entry:?}").contains(SECRET), "{entry:?}");
    let policy = house.space.policy().await.unwrap();
    assert!(!format!("{policy:?}").contains(SECRET), "{policy:?}");
}

#[tokio::test]
async fn observation_type_that_is_a_secret_is_stored_as_redacted_m7_6_48() {
    let house = House::new();
    let person = Actor::new(Role::Human, "ada");
    let input = serde_json::from_value(json!({"content": "x", "type": SECRET})).unwrap();
    let written = house.space.add_observation(&person, input, None).await.unwrap();
    assert_eq!(written.entry.fields.type_name.as_deref(), Some("redacted"));
    let log = house
        .space
        .store()
        .changes(house.space.space(), folio_memory::Seq(0), 100)
        .await;
    assert!(!format!("{:?}", log.unwrap()).contains(SECRET));
    let policy = house.space.policy().await.unwrap();
    assert!(policy.types().get("redacted").is_some() && !format!("{policy:?}").contains(SECRET));
}

#[tokio::test]
async fn forget_removes_matching_outbox_items_and_keeps_the_rest_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house.wait(1, json!([{"content": WORDS}, {"content": "a"}])).await;
    house.wait(2, json!([{"content": "b"}])).await;
    house
        .wait(3, json!([{"content": "c", "context": {"where": "The OLD Mill"}}]))
        .await;
    assert_eq!(house.space.waiting_to_forget(&with_text("old mill")).await.unwrap(), 2);
    assert!(said(&file(&folder)).contains(WORDS), "a look changes nothing");
    let forgotten = forget(&house.space, &with_text("old mill")).await;
    assert_eq!((forgotten.entries.len(), forgotten.waiting), (0, 2));
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    let waits = said(&file(&folder)).to_lowercase();
    assert!(!waits.contains("old mill"), "{waits}");
    let delivered = house.space.deliver_outbox().await.unwrap();
    assert_eq!((delivered.items, delivered.damaged), (3 - 1, 0));
    assert_eq!(contents(&house.all().await), ["a", "b"]);
}

/// Whatever was written when the process died: repeating the request leaves nothing of what is to be forgotten, and
/// loses or doubles nothing else.
#[tokio::test]
async fn repeated_forget_completes_an_interrupted_outbox_rewrite_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house.wait(1, json!([{"content": WORDS}, {"content": "a"}])).await;
    house.wait(2, json!([{"content": "b"}])).await;
    house.wait(3, json!([{"content": WORDS}])).await;
    let before = std::fs::read(file(&folder)).unwrap();
    forget(&house.space, &with_text("old mill")).await;
    let after = std::fs::read(file(&folder)).unwrap();
    let (overwritten, behind) = after.split_at(before.len());
    assert!(
        !behind.is_empty(),
        "what is kept of a line is written behind the others"
    );
    // First the rests are written, then the lines are overwritten, each time up to some byte.
    let torn = (0..=behind.len()).map(|end| [&before, &behind[..end]].concat());
    let half = (0..=before.len()).map(|end| [&overwritten[..end], &before[end..], behind].concat());
    let states: Vec<_> = torn.step_by(29).chain(half.step_by(17)).collect();
    assert!(states.len() > 60, "only {} states", states.len());
    for state in states {
        let folder = tempfile::tempdir().unwrap();
        let house = House::in_folder(folder.path());
        std::fs::write(file(&folder), &state).unwrap();
        forget(&house.space, &with_text("old mill")).await;
        let left = said(&file(&folder));
        let is_left = WORDS.split(' ').any(|word| word.len() > 3 && left.contains(word));
        assert!(!is_left, "{left}");
        house.space.deliver_outbox().await.unwrap();
        assert_eq!(
            contents(&house.all().await),
            ["a", "b"],
            "{}",
            String::from_utf8_lossy(&state)
        );
        let aside = std::fs::read_to_string(damaged(&folder)).unwrap_or_default();
        assert!(!aside.contains("mill"), "{aside}");
    }
}

#[tokio::test]
async fn forgetting_an_entry_removes_outbox_items_that_quote_it_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    let entry = house
        .observed(json!([{"content": WORDS, "tags": ["of-the-family"]}]))
        .await
        .remove(0);
    house
        .wait(2, json!([{"content": format!("I heard that {WORDS}")}]))
        .await;
    house
        .wait(3, json!([{"content": "another", "tags": ["of-the-family"]}]))
        .await;
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    let forgotten = forget(&house.space, &filter).await;
    assert_eq!((forgotten.entries.len(), forgotten.waiting), (1, 1));
    assert!(!said(&file(&folder)).contains("mill"));
    let told = &forgotten.residue.found;
    assert!(
        told.len() == 1 && told[0].starts_with("1 items that wait in "),
        "the tag is told: {told:?}"
    );
    assert_eq!(house.space.deliver_outbox().await.unwrap().items, 1);
}

#[tokio::test]
async fn forgetting_by_tag_keeps_untagged_outbox_items_with_equal_text_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house
        .wait(1, json!([{"content": WORDS, "tags": ["x"]}, {"content": WORDS}]))
        .await;
    let filter = ForgetFilter {
        query: EntryQuery {
            tags: vec![Tag::parse("x").unwrap()],
            ..EntryQuery::default()
        },
        ..ForgetFilter::default()
    };
    assert_eq!(house.space.waiting_to_forget(&filter).await.unwrap(), 1);
    assert_eq!(forget(&house.space, &filter).await.waiting, 1);
    assert_eq!(house.space.deliver_outbox().await.unwrap().items, 1);
    assert!(house.all().await[0].fields.tags.is_empty());
}

#[tokio::test]
async fn forget_erases_torn_and_damaged_outbox_lines_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house.wait(1, json!([{"content": WORDS}])).await;
    let line = said(&file(&folder));
    let torn = &line[..line.find("mill").unwrap() + 4];
    std::fs::write(file(&folder), torn).unwrap();
    let theirs = torn.replace("\"space\":\"main\"", "\"space\":\"other\"");
    std::fs::write(damaged(&folder), format!("{torn}\nharmless\n{theirs}\n")).unwrap();
    let forgotten = forget(&house.space, &with_text("old mill")).await;
    assert_eq!(forgotten.waiting, 2);
    assert_eq!(said(&file(&folder)), "", "nothing is left, so it is empty");
    let aside = said(&damaged(&folder));
    let lines: Vec<_> = aside.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["harmless", &theirs]);
}

#[tokio::test]
async fn forget_matches_outbox_text_despite_unicode_form_and_spacing_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house
        .wait(1, json!([{"content": "Mu\u{308}ller is in the\nold mill"}]))
        .await;
    let line = said(&file(&folder));
    let torn = &line[..line.find(" mill").unwrap() + 5];
    std::fs::write(damaged(&folder), format!("{torn}\n")).unwrap();
    let forgotten = forget(&house.space, &with_text("müller is in the  old mill")).await;
    assert_eq!(forgotten.waiting, 2);
    assert_eq!(said(&file(&folder)) + &said(&damaged(&folder)), "");
}

#[tokio::test]
async fn forget_leaves_outbox_items_of_another_space_untouched_m7_6_51() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    house.wait(1, json!([{"content": WORDS}])).await;
    let before = std::fs::read(file(&folder)).unwrap();
    let forgotten = forget(&house.other_space(&folder), &with_text("old mill")).await;
    assert_eq!((forgotten.waiting, forgotten.residue.found.len()), (0, 0));
    assert_eq!(std::fs::read(file(&folder)).unwrap(), before);
}

#[tokio::test]
async fn outbox_beside_the_store_file_is_not_reported_as_residue_m7_6_51() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    let beside = folder.path().join(format!("folio.db{}", folio_store::OUTBOX_SUFFIX));
    house.wait(1, json!([{"content": WORDS}])).await;
    std::fs::rename(file(&folder), &beside).unwrap();
    let other = house.other_space(&folder);
    let forgotten = forget(&other, &with_text("old mill")).await;
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
}
