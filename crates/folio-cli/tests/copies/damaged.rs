//! Copies of a damaged store, and tokens that were revoked before a copy replaces a store.

use crate::support::Folio;
use serde_json::{Value, json};

fn with_store<'a>(store: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--store", store]].concat()
}

/// A healthy store `good.db`, and a store `bad.db` with an unreadable commit.
fn folio() -> Folio {
    let folio = Folio::new();
    folio.ok(&with_store("sqlite:good.db", &["observe", "add", "good"]));
    folio.ok(&with_store("sqlite:bad.db", &["observe", "add", "bad"]));
    replace_in_file(&folio, "bad.db", b"\"add_entry\"", b"\"odd_entry\"");
    folio
}

/// Replaces `right` by `wrong` everywhere in the file `name`.
fn replace_in_file(folio: &Folio, name: &str, right: &[u8], wrong: &[u8]) {
    let mut bytes = std::fs::read(folio.path().join(name)).unwrap();
    let places: Vec<_> = (0..bytes.len())
        .filter(|place| bytes.get(*place..).unwrap().starts_with(right))
        .collect();
    assert!(!places.is_empty(), "nothing of this is in the file");
    for place in places {
        bytes
            .get_mut(place..place + wrong.len())
            .unwrap()
            .copy_from_slice(wrong);
    }
    folio.file(name, bytes);
}

fn contents(folio: &Folio, store: &str) -> Value {
    folio.json(&with_store(store, &["observe", "list"]))["items"][0]["content"].clone()
}

fn count_files(folio: &Folio, name: &str) -> usize {
    let entries = std::fs::read_dir(folio.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|found| found.starts_with(name)).count()
}

#[test]
fn restore_refuses_a_damaged_backup_unless_unchecked() {
    let folio = folio();
    for (store, arguments) in [
        ("sqlite:good.db", &["restore", "bad.db", "--replace"][..]),
        ("sqlite:new.db", &["restore", "bad.db"]),
    ] {
        let called = folio.call(&with_store(store, arguments));
        assert_eq!(called.code, 6, "{called}");
        assert!(called.stderr.contains("problem: space main: "), "{called}");
        assert!(called.stderr.contains("everything is as it was"), "{called}");
    }
    assert_eq!(contents(&folio, "sqlite:good.db"), "good");
    assert_eq!((count_files(&folio, "good.db"), count_files(&folio, "new.db")), (1, 0));
    // Whoever wants it all the same has it.
    let called = folio.call(&with_store(
        "sqlite:good.db",
        &["restore", "bad.db", "--replace", "--no-check"],
    ));
    assert_eq!(called.code, 0, "{called}");
    assert_eq!(contents(&folio, "sqlite:good.db.replaced-1"), "good");
}

#[test]
fn backup_of_a_damaged_store_reports_the_damage() {
    let folio = folio();
    let called = folio.call(&with_store("sqlite:bad.db", &["backup", "copy.db", "--json"]));
    assert_eq!(called.code, 6, "{called}");
    let told: Value = serde_json::from_str(&called.stdout).unwrap();
    assert!(told["problems"][0].as_str().unwrap().contains("space main: "), "{told}");
    let called = folio.call(&with_store("sqlite:bad.db", &["backup", "second.db"]));
    assert!(called.stderr.contains("keep your earlier copies"), "{called}");
    let unseen = folio.json(&with_store("sqlite:bad.db", &["backup", "third.db", "--no-check"]));
    assert_eq!((&unseen["checked"], &unseen["problems"]), (&json!([]), &json!([])));
    let whole = folio.json(&with_store("sqlite:good.db", &["backup", "fourth.db"]));
    assert!(!whole["checked"].as_array().unwrap().is_empty(), "{whole}");
    assert_eq!(count_files(&folio, "fourth.db"), 1, "nothing is left beside it");
}

#[test]
fn revoked_token_stays_revoked_after_restoring_an_older_backup() {
    let folio = Folio::new();
    let store = "sqlite:f.db";
    for _ in 0..2 {
        folio.ok(&with_store(store, &["token", "new", "--role", "client"]));
    }
    folio.ok(&with_store(store, &["backup", "copy.db"]));
    let list = |store| folio.json(&with_store(store, &["token", "list"]))["items"].clone();
    let id = list(store)[0]["id"].as_str().unwrap().to_owned();
    folio.ok(&with_store(store, &["token", "revoke", &id]));
    let restored = folio.json(&with_store(store, &["restore", "copy.db", "--replace"]));
    assert_eq!(
        (&restored["tokens_valid"], &restored["tokens_revoked"]),
        (&json!(1), &json!(1))
    );
    let left = list(store);
    assert_eq!(left.as_array().unwrap().len(), 1);
    assert_ne!(left[0]["id"], id);

    // Where no store is replaced nobody knows, and it is said.
    let called = folio.call(&with_store("sqlite:new.db", &["restore", "copy.db"]));
    assert_eq!(called.code, 0, "{called}");
    assert!(
        called.stderr.contains("2 access tokens can be used with it"),
        "{called}"
    );
}

#[test]
fn doctor_reports_a_damaged_database_page_and_suggests_export() {
    let folio = Folio::new();
    let store = "sqlite:f.db";
    for content in ["one", "two", "three"] {
        folio.ok(&with_store(store, &["observe", "add", content]));
    }
    folio.ok(&with_store(store, &["book", "add", "note", "a note"]));
    // A page of a table is overwritten; the first half, which says what tables there are, is as it was.
    let mut bytes = std::fs::read(folio.path().join("f.db")).unwrap();
    let from = bytes.len() * 3 / 4 / 4096 * 4096;
    bytes.get_mut(from..from + 4096).unwrap().fill(0xA5);
    folio.file("f.db", bytes);
    let called = folio.call(&with_store(store, &["doctor"]));
    assert_eq!(called.code, 6, "{called}");
    assert!(
        called.stdout.contains("problem ") && !called.stdout.contains("no problems found"),
        "{called}"
    );
    assert!(
        called
            .stderr
            .contains("`folio export --store sqlite:f.db` saves what is still readable"),
        "{called}"
    );
}

/// The records of an export, each as JSON.
fn records(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn export_writes_what_is_readable_around_a_damaged_text() {
    let folio = Folio::new();
    let store = "sqlite:f.db";
    folio.ok(&with_store(store, &["observe", "add", "one"]));
    // Numbers that cannot be made much shorter, so that the middle of the file is in this text.
    let long: String = (1..60_000_u64)
        .map(|n| format!("{:x} ", n.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .collect();
    folio.file("long.txt", &long);
    folio.ok(&with_store(store, &["evict", "long.txt"]));
    folio.ok(&with_store(store, &["observe", "add", "three"]));
    let mut bytes = std::fs::read(folio.path().join("f.db")).unwrap();
    let middle = bytes.len() / 2;
    for byte in bytes.get_mut(middle..middle + 16).unwrap() {
        *byte ^= 0x55;
    }
    folio.file("f.db", bytes);

    let called = folio.call(&with_store(store, &["export", "--out", "out.jsonl"]));
    assert_eq!(called.code, 6, "{called}");
    assert!(
        called
            .stderr
            .contains("cannot be read: the text of e2 after its beginning: "),
        "{called}"
    );
    let written = records(&std::fs::read_to_string(folio.path().join("out.jsonl")).unwrap());
    let contents = |records: &[Value]| -> Vec<String> {
        let entries = records.iter().filter(|record| record["record"] == "entry");
        entries
            .map(|entry| entry["body"].as_str().unwrap().to_owned())
            .collect()
    };
    let found = contents(&written);
    assert_eq!((found.len(), found[0].as_str(), found[2].as_str()), (3, "one", "three"));
    assert!(!found[1].is_empty() && long.starts_with(&found[1]), "{}", found[1]);
    assert_eq!(written.last().unwrap()["entries"], 3);
    // Another store takes it in whole.
    folio.ok(&with_store(
        "sqlite:new.db",
        &["import", "out.jsonl", "--from", "folio"],
    ));
    assert_eq!(
        contents(&records(&folio.ok(&with_store("sqlite:new.db", &["export"])))),
        found
    );
    // On standard output, as a folder and as JSON it is the same.
    let called = folio.call(&with_store(store, &["export"]));
    assert_eq!(
        (called.code, contents(&records(&called.stdout))),
        (6, found),
        "{called}"
    );
    let called = folio.call(&with_store(
        store,
        &["export", "--format", "markdown", "--out", "there", "--json"],
    ));
    let told: Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(
        (called.code, told["problems"].as_array().unwrap().len()),
        (6, 1),
        "{told}"
    );
    assert!(folio.path().join("there").is_dir());
}

#[test]
fn export_writes_the_entries_beside_a_damaged_database_page() {
    let folio = Folio::new();
    let store = "sqlite:f.db";
    let lines: Vec<String> = (1..=400)
        .map(|n| json!({"id": format!("bd-{n}"), "title": format!("needle {n} {}", "x".repeat(200))}).to_string())
        .collect();
    folio.file("issues.jsonl", lines.join("\n"));
    folio.ok(&with_store(store, &["import", "issues.jsonl", "--from", "beads"]));
    // Everything that was written is in the copy, which has no log beside it.
    folio.ok(&with_store(store, &["backup", "copy.db", "--no-check"]));
    let mut bytes = std::fs::read(folio.path().join("copy.db")).unwrap();
    // The last pages of the file hold entries: the commit that added them was written before.
    let damaged = bytes
        .chunks_mut(4096)
        .rfind(|page| page.windows(11).any(|window| window == b"needle 200 "));
    damaged.unwrap().fill(0xA5);
    folio.file("copy.db", bytes);

    let called = folio.call(&with_store("sqlite:copy.db", &["export"]));
    assert_eq!(called.code, 6, "{called}");
    let written = records(&called.stdout);
    let entries = written.iter().filter(|record| record["record"] == "entry").count();
    assert!((300..400).contains(&entries), "{entries}: {called}");
    assert_eq!(written.last().unwrap()["entries"], entries);
}
