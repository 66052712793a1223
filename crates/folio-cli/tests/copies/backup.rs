//! `folio backup` and `folio restore`: a copy while others write, the way back, and what is refused.

use crate::support::Folio;
use serde_json::{Value, json};

const STORE: [&str; 2] = ["--store", "sqlite:f.db"];
const OTHER_STORE: [&str; 2] = ["--store", "sqlite:other/g.db"];

fn with_store<'a>(arguments: &[&'a str], store: [&'a str; 2]) -> Vec<&'a str> {
    [arguments, &store[..]].concat()
}

impl Folio {
    fn contents(&self, store: [&str; 2]) -> Vec<String> {
        let list = self.json(&with_store(&["observe", "list", "--limit", "1000"], store));
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["content"].as_str().unwrap().to_owned()).collect()
    }

    fn refusal(&self, arguments: &[&str], code: i32) -> String {
        let called = self.call(arguments);
        assert_eq!(called.code, code, "{}", called.stderr);
        called.stderr
    }
}

#[test]
fn backup_is_a_complete_store_that_can_be_restored() {
    let folio = Folio::new();
    for content in ["one", "two"] {
        folio.ok(&with_store(&["observe", "add", content], STORE));
    }
    let copied = folio.json(&with_store(&["backup", "copy.db"], STORE));
    assert!(copied["bytes"].as_u64().unwrap() > 4096, "{copied}");
    folio.ok(&with_store(&["observe", "add", "three"], STORE));
    // Into a folder that is not there yet.
    let restored = folio.json(&with_store(&["restore", "copy.db"], OTHER_STORE));
    assert!(!restored["checked"].as_array().unwrap().is_empty(), "{restored}");
    assert_eq!(folio.contents(OTHER_STORE), ["two", "one"]);
    assert_eq!(folio.contents(STORE), ["three", "two", "one"]);
    assert_eq!(folio.json(&with_store(&["doctor"], OTHER_STORE))["problems"], json!([]));
    // What is there stays, unless it is said that it goes: then it has another name.
    let told = folio.refusal(&with_store(&["restore", "copy.db"], STORE), 4);
    assert!(
        told.contains("exists already") && told.contains("hint: --replace "),
        "{told}"
    );
    let replaced = folio.json(&with_store(&["restore", "copy.db", "--replace"], STORE));
    assert_eq!(folio.contents(STORE), ["two", "one"]);
    let before = replaced["replaced"].as_str().unwrap().to_owned();
    let before = format!("sqlite:{before}");
    assert_eq!(folio.contents(["--store", &before]), ["three", "two", "one"]);
}

#[test]
fn backup_taken_during_writes_is_consistent() {
    let folio = Folio::new();
    folio.ok(&with_store(&["observe", "add", "first"], STORE));
    let mut writers = Vec::new();
    for writer in 0..3 {
        let observations: Vec<_> = (0..900).map(|n| format!("w{writer} {n}")).collect();
        let entity =
            json!({"type": "entity", "name": format!("w{writer}"), "entityType": "x", "observations": observations});
        let file = format!("w{writer}.jsonl");
        folio.file(&file, entity.to_string());
        writers.push(folio.spawn(&with_store(&["import", "--from", "mcp-memory", &file], STORE)));
    }
    // One after the other, so that at least one is made while they write; whether it is sound can be seen later.
    let names: Vec<_> = (0..5).map(|number| format!("copy{number}.db")).collect();
    for name in &names {
        folio.ok(&with_store(&["backup", name], STORE));
    }
    for writer in writers {
        let written = writer.wait();
        assert_eq!(written.code, 0, "{written}");
    }
    let all = 1 + 3 * 900;
    let mut totals = Vec::new();
    for name in &names {
        let url = format!("sqlite:{name}");
        let copy = ["--store", url.as_str()];
        assert_eq!(folio.json(&with_store(&["doctor"], copy))["problems"], json!([]));
        totals.push(
            folio.json(&with_store(&["observe", "list"], copy))["total"]
                .as_u64()
                .unwrap(),
        );
    }
    assert!(totals.is_sorted() && totals[0] >= 1, "{totals:?}");
    assert!(
        totals.iter().any(|total| (2..all).contains(total)),
        "none was made during the writes: {totals:?}"
    );
    assert_eq!(folio.json(&with_store(&["observe", "list"], STORE))["total"], all);
}

#[test]
fn restore_refuses_invalid_backups_and_stores_in_use() {
    let folio = Folio::new();
    folio.ok(&with_store(&["observe", "add", "kept"], STORE));
    folio.file(
        "text.txt",
        "no store, but a text that is long enough to be looked at as one, twice over",
    );
    folio.file("empty.db", "");
    folio.ok(&with_store(&["backup", "copy.db"], STORE));
    let told = folio.refusal(&with_store(&["backup", "copy.db"], STORE), 4);
    assert!(told.contains("hint: every backup is a new file"), "{told}");
    for (arguments, store, code, reason) in [
        (
            &["backup", "no/such/folder/copy.db"][..],
            STORE,
            3,
            "there is no folder no/such/folder",
        ),
        (
            &["restore", "nowhere.db"],
            OTHER_STORE,
            3,
            "there is no file nowhere.db",
        ),
        (
            &["restore", "text.txt", "--replace"],
            STORE,
            6,
            "text.txt is damaged: it is not an SQLite file",
        ),
        (
            &["restore", "empty.db", "--replace"],
            STORE,
            2,
            "empty.db is empty\n  hint: FILE is a file that `folio backup --store",
        ),
        (
            &["restore", "copy.db"],
            ["--store", "memory:"],
            2,
            "only a store in a file can be restored",
        ),
    ] {
        let told = folio.refusal(&with_store(arguments, store), code);
        assert!(told.contains(reason), "{arguments:?}: {told}");
    }
    // A process that has it open goes on with it.
    let serving = folio.spawn(&with_store(&["serve", "--listen", "127.0.0.1:0"], STORE));
    folio.until(&with_store(&["doctor"], STORE), |found: &Value| {
        found["healthy"] == true
    });
    let told = folio.refusal(&with_store(&["restore", "copy.db", "--replace"], STORE), 5);
    assert!(told.contains("another process has it open"), "{told}");
    serving.kill();
    assert_eq!(folio.contents(STORE), ["kept"]);
    folio.ok(&with_store(&["restore", "copy.db", "--replace"], STORE));
    assert_eq!(folio.contents(STORE), ["kept"]);
}
