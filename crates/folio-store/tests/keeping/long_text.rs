use folio_memory::entry::MAX_INLINE_BYTES;
use folio_memory::id::Ref;
use folio_memory::scratchbook::{ItemInput, ItemPatch};
use folio_memory::{Entry, EntryKind, EntryQuery, Role, ThreadKey};
use folio_store::ErrorKind;
use folio_store::workspace::{ForgetFilter, Guard, IngestContext, PageInput};
use serde_json::json;

use crate::house::{DAY, House, human};

/// A text of more than 64 KiB with `word` near its end, that begins as its name says.
fn long(name: &str, word: &str) -> String {
    let mut text = format!("{name}: what the build said\n");
    for line in 0..4_000 {
        text.push_str(&format!("{name}, line {line}: compiled — ☃\n"));
    }
    text.push_str(word);
    text.push_str("\r\n  trailing blanks  ");
    assert!(text.len() > MAX_INLINE_BYTES);
    text
}

async fn check(house: &House, entry: &Entry, whole: &str) {
    for entry in [entry.clone(), house.get(entry).await] {
        let body = entry.fields.body_ref.clone().unwrap();
        assert_eq!(body.bytes, whole.len() as u64);
        assert!(entry.fields.body.len() <= 2 * 1024 && whole.starts_with(&entry.fields.body));
        assert_eq!(house.workspace.whole_text(&entry).await.unwrap(), whole);
        assert_eq!(house.workspace.in_whole(entry).await.unwrap().fields.body, whole);
    }
}

#[tokio::test]
async fn long_text_round_trips_byte_for_byte_from_every_writer_m7_3_29() {
    let house = House::new();
    let seen = house.say(&long("seen", "the end")).await;
    check(&house, &seen, &long("seen", "the end")).await;
    let input = ItemInput {
        kind: EntryKind::Note,
        title: None,
        body: long("noted", "x"),
        tags: Vec::new(),
        phase: None,
        progress: None,
    };
    let space = &house.workspace;
    let noted = space.add_item(&human(), &ThreadKey::main(), input, None).await.unwrap();
    check(&house, &noted.entry, &long("noted", "x")).await;
    let input = PageInput {
        title: "log".to_owned(),
        ..PageInput::default()
    };
    let page = space.new_page(&human(), input).await.unwrap();
    let block = space
        .append(&human(), Ref::Id(page.id), "build", long("block", "y"), &[], None)
        .await
        .unwrap();
    check(&house, &block.entry, &long("block", "y")).await;
    let request = serde_json::from_value(json!({"tool_id": "t", "scratch_page_query": {}})).unwrap();
    let shown = space.tool_context(&human(), &request).await;
    assert_eq!(
        (shown[0].handle, &shown[0].content_ref),
        (seen.handle, &seen.fields.body_ref)
    );
    assert!(shown[0].content_ref.is_some());
    let markdown = space.page_markdown(Ref::Id(page.id)).await.unwrap();
    let notice = format!("bytes of {}]", block.entry.handle);
    assert!(markdown.len() < 4_000 && markdown.contains(&notice), "{markdown}");
    let answer = serde_json::from_value(json!({
        "request_id": "r", "observations": [{"content": long("answered", "z")}],
    }))
    .unwrap();
    let tool = folio_memory::Actor::new(Role::Tool, "build");
    let ingested = space.ingest(&tool, &answer, &IngestContext::default()).await;
    assert_eq!(ingested.rejected, []);
    check(&house, &ingested.stored[0], &long("answered", "z")).await;
    let found = EntryQuery {
        text: Some("answered".to_owned()),
        ..EntryQuery::default()
    };
    assert_eq!(house.total(found).await, 1, "the beginning is found by its words");
    let late = EntryQuery {
        text: Some("watermill".to_owned()),
        ..EntryQuery::default()
    };
    house.say(&long("late", "the old watermill")).await;
    let mut answer = space.observations(late.clone()).await.unwrap();
    assert_eq!(answer.total, 1, "and so is all that follows it (M7.2.17)");
    let words = late.text_query().unwrap();
    space.begin_with_matches(&mut answer, &words).await.unwrap();
    assert!(answer.items[0].fields.body.contains("the old watermill"));
    house.assert_sound().await;
}

#[tokio::test]
async fn long_text_can_be_edited_in_place_or_shortened_m7_3_29() {
    let house = House::new();
    let entry = house.say(&long("seen", "the end")).await;
    let space = &house.workspace;
    let (id, guard) = (Ref::Id(entry.id), Guard::default());
    let replaced = space.str_replace(&human(), id, "the end", "a new end", guard).await;
    check(&house, &replaced.unwrap().entry, &long("seen", "a new end")).await;
    let missing = space
        .str_replace(&human(), id, "the end", "x", Guard::default())
        .await
        .unwrap_err();
    assert!(
        missing.to_string().starts_with("old: the text does not contain it"),
        "{missing}"
    );
    let same = house
        .update(&entry, json!({"content": long("seen", "a new end")}))
        .await;
    assert_eq!(same.version, 2, "the same text again is no change");
    let short = house.update(&entry, json!({"content": "short"})).await;
    assert_eq!((short.fields.body.as_str(), short.fields.body_ref), ("short", None));
    house.assert_sound().await;
}

#[tokio::test]
async fn beginning_of_a_long_text_that_is_sent_back_leaves_it_whole_m7_3_29() {
    let house = House::new();
    let (seen_text, noted_text) = (long("seen", "the end"), long("noted", "x"));
    let seen = house.say(&seen_text).await;
    let read = seen.fields.body.clone();
    let same = house.update(&seen, json!({"content": read})).await;
    assert_eq!(same.version, 1, "nothing was changed");
    check(&house, &same, &seen_text).await;
    let other = house.update(&seen, json!({"content": read, "tags": ["ci"]})).await;
    assert_eq!((other.version, other.fields.tags.len()), (2, 1));
    check(&house, &other, &seen_text).await;
    let input: ItemInput = serde_json::from_value(json!({"kind": "note", "body": noted_text})).unwrap();
    let (space, main) = (&house.workspace, ThreadKey::main());
    let noted = space.add_item(&human(), &main, input, None).await.unwrap().entry;
    let patch = |value| ItemPatch::from_json(value).unwrap();
    let sent_back = patch(json!({"body": noted.fields.body, "title": "log"}));
    let id = Ref::Id(noted.id);
    let written = space.update_item(&human(), id, sent_back, None).await.unwrap();
    assert_eq!(written.entry.fields.title, "log");
    check(&house, &written.entry, &noted_text).await;
    let shorter = patch(json!({"body": format!("{} and no more", noted.fields.body)}));
    let written = space.update_item(&human(), id, shorter, None).await.unwrap();
    assert_eq!(written.entry.fields.body_ref, None, "another text replaces it");
    house.assert_sound().await;
}

#[tokio::test]
async fn secret_near_the_end_of_a_long_text_is_redacted_m7_6_48() {
    let house = House::new();
    let secret = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let entry = house.say(&long("seen", &secret)).await;
    let whole = house.workspace.whole_text(&entry).await.unwrap();
    assert_eq!(whole, long("seen", "[redacted:github_token]"));
    assert!(!house.holds(&secret));
}

#[tokio::test]
async fn forget_erases_a_long_text_and_its_earlier_versions_m7_6_50() {
    let house = House::new();
    let entry = house.say(&long("seen", "the wedding is in the old mill")).await;
    house
        .update(
            &entry,
            json!({"content": long("seen", "the funeral is in the new mill")}),
        )
        .await;
    let other = house.say(&long("other", "nothing of the kind")).await;
    house
        .workspace
        .archive(&human(), Ref::Id(entry.id), None)
        .await
        .unwrap();
    house.clock.advance(DAY);
    house.tidy().await;
    let before = [house.get(&entry).await, entry].map(|entry| entry.fields.body_ref.unwrap());
    let filter = ForgetFilter {
        text: Some("the WEDDING is".to_owned()),
        ..ForgetFilter::default()
    };
    let forgotten = house.workspace.forget(&human(), &filter, "").await.unwrap();
    assert_eq!(forgotten.entries.len(), 1);
    let told = &forgotten.residue.found;
    assert!(told.iter().all(|place| !place.contains("free space")), "{told:?}");
    for body in before {
        let hash = folio_store::BlobHash(body.hash);
        let gone = house.workspace.blob(&hash).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
    }
    check(&house, &other, &long("other", "nothing of the kind")).await;
    house.assert_sound().await;
}
