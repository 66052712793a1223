use proptest::prelude::*;

use super::*;
use crate::actor::Source;
use crate::change::FieldChange;
use crate::entry::Status;
use crate::id::{EntryHandle, Seq};
use crate::space::{SpaceName, ThreadKey};
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn item(id: &str) -> Item {
    Item {
        body: "It is the third time.".to_owned(),
        created_at_nanoseconds: 1_700_000_000_000_000_001,
        id: id.to_owned(),
        kind: "task".to_owned(),
        phase: Some("planning".to_owned()),
        progress: Some(0.25),
        status: "in_progress".to_owned(),
        tags: vec!["tests".to_owned()],
        title: "Mend the test".to_owned(),
        updated_at_nanoseconds: 1_700_000_000_000_000_002,
    }
}

fn incoming(item: &Item) -> Result<Incoming, Invalid> {
    take_in(item, &SpaceName::main(), &ThreadKey::main(), &Source::default(), NOW)
}

fn entry(item: &Item, handle: u64) -> Entry {
    Entry::added(incoming(item).unwrap().new, EntryHandle(handle), Seq(handle), NOW)
}

#[test]
fn book_is_written_as_json_with_sorted_keys_as_in_seed_003() {
    let mut pinned = entry(&item("b"), 2);
    pinned.fields.pin_rank = Some(7);
    let book = Book::of(&[pinned, entry(&item("a"), 1)], NOW);
    insta::assert_snapshot!(book.to_json(), @r#"{"items":[{"body":"It is the third time.","createdAtNanoseconds":1700000000000000001,"id":"a","kind":"task","phase":"planning","progress":0.25,"status":"in_progress","tags":["tests"],"title":"Mend the test","updatedAtNanoseconds":1700000000000000002},{"body":"It is the third time.","createdAtNanoseconds":1700000000000000001,"id":"b","kind":"task","phase":"planning","progress":0.25,"status":"in_progress","tags":["tests"],"title":"Mend the test","updatedAtNanoseconds":1700000000000000002}],"pinnedItemIDs":["b"]}"#);
    let value: Value = serde_json::from_str(&book.to_json()).unwrap();
    // A map of JSON values is sorted by its keys.
    assert_eq!(value.to_string(), book.to_json());
}

#[test]
fn malformed_book_items_and_dangling_pins_are_reported_singly() {
    let good = serde_json::to_value(item("a")).unwrap();
    let text = serde_json::json!({
        "items": [good, {"id": "x", "kind": "note"}, 7, good, {"colour": "red"}],
        "pinnedItemIDs": ["gone", "a", "a"],
    });
    let (read, left) = Book::read(&text.to_string()).unwrap();
    let codes: Vec<_> = read
        .iter()
        .map(|read| {
            (
                read.name.as_str(),
                read.item.as_ref().err().map(|error| error.code.as_str()),
            )
        })
        .collect();
    let wanted = [
        ("a", None),
        ("x", Some("item_malformed")),
        ("#3", Some("item_malformed")),
        ("a", Some("item_twice")),
        ("#5", Some("item_malformed")),
    ];
    assert_eq!(codes, wanted);
    assert_eq!((read[0].pin, left), (Some(1), vec!["gone".to_owned()]));
    assert_eq!(read[4].unknown, ["colour"]);
    assert_eq!(Book::read("[]").unwrap_err().code, "book_malformed");
    assert_eq!(Book::read("{}").unwrap_err().code, "book_malformed");
}

#[test]
fn book_values_over_limits_are_corrected_with_warnings() {
    let odd = Item {
        title: "  two\nlines ".to_owned(),
        kind: "note".to_owned(),
        status: "blocked".to_owned(),
        tags: vec!["a b".to_owned(), "x".repeat(70)],
        created_at_nanoseconds: u64::MAX,
        ..item("a")
    };
    let Incoming { new, changed } = incoming(&odd).unwrap();
    assert_eq!(new.fields.title, "two lines");
    assert_eq!(new.fields.status, Status::Active);
    assert_eq!((new.fields.phase.clone(), new.fields.progress), (None, None));
    let tags: Vec<_> = new.fields.tags.iter().map(ToString::to_string).collect();
    assert_eq!(tags, ["a_b"]);
    let brought = new.fields.brought.unwrap();
    assert_eq!((brought.created_at, brought.updated_at), (NOW, NOW));
    let said: Vec<_> = changed.iter().map(|warning| warning.message.as_str()).collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    title: must be one line
    status: nothing blocks a note
    tags: the tag "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is longer than 64 bytes
    phase: only a task has phase and progress
    createdAtNanoseconds: is later than now
    updatedAtNanoseconds: is later than now, or before it was made
    "#);
    let refused = [
        Item {
            kind: "goal".to_owned(),
            ..item("a")
        },
        Item {
            status: "lost".to_owned(),
            ..item("a")
        },
        item(""),
        Item {
            title: " ".to_owned(),
            body: String::new(),
            ..item("a")
        },
    ];
    let refused = refused.map(|wrong| incoming(&wrong).unwrap_err());
    let refused = refused.map(|invalid| format!("{} {}: {}", invalid.code, invalid.field, invalid.message));
    insta::assert_snapshot!(refused.join("\n"), @r#"
    kind_invalid kind: "goal" is not note, todo or task
    status_invalid status: "lost" is not open, in_progress, blocked, done or archived
    item_malformed id: is empty
    title_empty title: there is neither a title nor a body
    "#);
}

#[test]
fn overlong_phase_is_cut_with_a_warning_and_exported_unchanged() {
    let odd = Item {
        phase: Some("線".repeat(200)),
        ..item("a")
    };
    let Incoming { new, changed } = incoming(&odd).unwrap();
    assert_eq!(new.fields.phase, Some("線".repeat(170)));
    assert_eq!(changed[0].message, "phase: has more than 512 bytes");
    assert_eq!(item_of(&entry(&odd, 1), NOW), odd);
}

#[test]
fn exported_item_keeps_original_values_of_unchanged_fields() {
    let odd = Item {
        title: "two\nlines".to_owned(),
        tags: vec!["a b".to_owned()],
        ..item("a")
    };
    let mut entry = entry(&odd, 1);
    assert_eq!(item_of(&entry, NOW), odd);
    entry.patch(&[FieldChange::Title("one".to_owned())], Seq(2), NOW);
    let back = item_of(&entry, NOW);
    assert_eq!((back.title.as_str(), &back.tags), ("one", &odd.tags));
    assert_eq!(back.updated_at_nanoseconds, 1_800_000_000_000_000_000);
}

fn any_item() -> impl Strategy<Value = Item> {
    let words = "[a-zé線: /_\\n\"]{0,12}";
    let times = prop_oneof![Just(0_u64), Just(u64::MAX), 0..2_000_000_000_000_000_000_u64];
    let kind = prop_oneof![Just("note"), Just("todo"), Just("task")];
    let status = prop_oneof![
        Just("open"),
        Just("in_progress"),
        Just("blocked"),
        Just("done"),
        Just("archived")
    ];
    let texts = (words, "[ -~線\\n]{1,40}", proptest::collection::vec(words, 0..4));
    let state = (
        kind,
        status,
        proptest::option::of(words),
        proptest::option::of(-1.0..2.0),
    );
    ("[a-z:0-9]{1,6}", texts, state, (times.clone(), times)).prop_map(
        |(id, (title, body, tags), (kind, status, phase, progress), (created, updated))| Item {
            body: format!("x{body}"),
            created_at_nanoseconds: created,
            id,
            kind: kind.to_owned(),
            phase,
            progress,
            status: status.to_owned(),
            tags,
            title,
            updated_at_nanoseconds: updated,
        },
    )
}

proptest! {
    #[test]
    fn imported_book_item_is_exported_unchanged(item in any_item()) {
        let back = item_of(&entry(&item, 1), NOW);
        prop_assert_eq!(&back, &item);
        // And here again, as the same entry.
        prop_assert_eq!(incoming(&back).unwrap(), incoming(&item).unwrap());
    }

    #[test]
    fn thread_file_names_are_unique_and_reversible_m7_4_38(a in "\\PC{1,120}", b in "\\PC{1,120}") {
        let (a, b) = (ThreadKey(a), ThreadKey(b));
        let name = file_name(&a).unwrap();
        prop_assert_eq!(thread_of(&name), Some(a.clone()));
        prop_assert!(name.split('/').all(|part| part.len() <= 255 && !part.starts_with('.')));
        let other = file_name(&b).unwrap();
        prop_assert_eq!(name.eq_ignore_ascii_case(&other), a == b);
    }
}

#[test]
fn similar_thread_names_get_distinct_file_names_m7_4_38() {
    let name = |key: &str| file_name(&ThreadKey(key.to_owned())).unwrap();
    insta::assert_snapshot!(
        ["a/b", "a_b", "a%2Fb", "A", "a", ".a.", "..", "線程", "/home/ada/x"].map(name).join("\n"),
        @r"
    a%2Fb.json
    a_b.json
    a%252%46b.json
    %41.json
    a.json
    %2Ea..json
    %2E..json
    %E7%B7%9A%E7%A8%8B.json
    %2Fhome%2Fada%2Fx.json
    "
    );
    assert_eq!(thread_of("Mine.json"), Some(ThreadKey("Mine".to_owned())));
    assert_eq!(thread_of("100%.json"), Some(ThreadKey("100%".to_owned())));
    assert_eq!(thread_of("notes.txt"), None);
    assert_eq!(thread_of("deep/er.json"), None);
    assert_eq!(file_name(&ThreadKey("x".repeat(MAX_THREAD_BYTES + 1))), None);
}

#[test]
fn statuses_are_read_with_their_synonyms_m7_5_40() {
    for (said, status) in [
        ("inProgress", Status::InProgress),
        ("completed", Status::Done),
        ("pending", Status::Open),
    ] {
        let item = Item {
            status: said.to_owned(),
            ..item("it")
        };
        let taken = incoming(&item).unwrap();
        assert_eq!(taken.new.fields.status, status, "{said}");
    }
}
