//! Scratchbooks in the format of seed 003 (`import --from colony`, `export --format colony`).

use folio_memory::id::Ref;
use folio_memory::scratchbook::colony::Book;
use folio_memory::scratchbook::{ItemInput, ItemPatch};
use folio_memory::{Actor, EntryKind, Role, ThreadKey};
use folio_store::WorkspaceError;
use folio_store::workspace::{BookFilter, Fate, Guard, Imported};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::house::House;

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn thread(name: &str) -> ThreadKey {
    ThreadKey(name.to_owned())
}

fn item(id: &str, kind: &str, title: &str, created: u64) -> Value {
    json!({
        "id": id, "kind": kind, "title": title, "body": format!("about {title}"), "status": "open", "tags": ["t"],
        "createdAtNanoseconds": created, "updatedAtNanoseconds": created + 1,
    })
}

async fn import(house: &House, name: &str, book: &Value) -> Imported {
    let text = book.to_string();
    house
        .space
        .import_book(&person(), &thread(name), &text, false)
        .await
        .unwrap()
}

/// How many were added, present, changed, different, and refused.
fn counts(report: &Imported) -> (u64, u64, u64, u64, u64) {
    let Imported {
        entries,
        present,
        changed,
        differs,
        refused,
        ..
    } = report;
    (*entries, *present, *changed, *differs, *refused)
}

fn codes(report: &Imported) -> Vec<(Fate, &str)> {
    report
        .remarks
        .iter()
        .map(|remark| (remark.fate, remark.code.as_str()))
        .collect()
}

#[tokio::test]
async fn imported_scratchbook_keeps_times_and_pins_and_exports_unchanged() {
    let house = House::new();
    let book = json!({
        "items": [item("a", "task", "one", 1_600_000_000_000_000_007), item("b", "note", "two", 1_600_000_000_000_000_009),
                  item("c", "todo", "three", 5)],
        "pinnedItemIDs": ["c", "a"],
    });
    let report = import(&house, "t", &book).await;
    assert_eq!((counts(&report), report.pages), ((3, 0, 0, 0, 0), 1));
    let items = house
        .space
        .book_items(&thread("t"), BookFilter::default())
        .await
        .unwrap();
    let seen: Vec<_> = items.items.iter().map(|item| item.fields.title.as_str()).collect();
    assert_eq!(seen, ["three", "one", "two"], "by their pins");
    assert_eq!(items.items[1].created_at.as_nanos(), 1_600_000_000_000_000_007);
    assert_eq!(items.items[1].updated_at.as_nanos(), 1_600_000_000_000_000_008);
    let (back, left_out) = house.space.export_book(&thread("t")).await.unwrap();
    assert_eq!(
        (serde_json::from_str::<Value>(&back.to_json()).unwrap(), left_out),
        (book, 0)
    );
    assert_eq!(
        house.space.store().check().await.unwrap().problems,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn scratchbook_import_keeps_existing_items_and_reports_changes() {
    let house = House::new();
    let book = json!({"items": [item("a", "task", "one", 3), item("b", "note", "two", 4)], "pinnedItemIDs": ["a"]});
    import(&house, "t", &book).await;
    let head = house.space.head().await.unwrap();
    assert_eq!(counts(&import(&house, "t", &book).await), (0, 2, 0, 0, 0));
    assert_eq!(house.space.head().await.unwrap(), head, "nothing was written");
    let changed = json!({"items": [item("a", "task", "other", 3), item("c", "note", "three", 5)], "pinnedItemIDs": []});
    let report = import(&house, "t", &changed).await;
    assert_eq!(counts(&report), (1, 0, 0, 1, 0));
    assert_eq!(
        report.remarks[0].message,
        "e1 stays as it is; the file differs in: title, body, pin"
    );
    // The same id in another thread is another item.
    assert_eq!(counts(&import(&house, "u", &book).await), (2, 0, 0, 0, 0));
    assert_eq!(house.space.book_threads().await.unwrap(), [thread("t"), thread("u")]);
}

#[tokio::test]
async fn scratchbook_import_judges_each_item_and_dry_run_writes_nothing() {
    let house = House::new();
    // Assembled at run time, so that no scanner takes this file for a leak.
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let mut odd = item("b", "note", "spaced  out", 4);
    odd["status"] = json!("blocked");
    odd["colour"] = json!("red");
    let book = json!({
        "items": [item("a", "task", &format!("key {token}"), 3), odd, {"id": "x"}, item("d", "goal", "no", 1)],
        "pinnedItemIDs": ["gone"],
    });
    let dry = house
        .space
        .import_book(&person(), &thread("t"), &book.to_string(), true)
        .await
        .unwrap();
    assert_eq!((counts(&dry), dry.pages), ((2, 0, 2, 0, 3), 1));
    assert_eq!(house.space.head().await.unwrap().0, 0);
    let report = import(&house, "t", &book).await;
    let mut said = codes(&report);
    said.sort_by_key(|(_, code)| *code);
    let wanted = [
        (Fate::Changed, "item_adapted"),
        (Fate::Changed, "item_adapted"),
        (Fate::Refused, "item_malformed"),
        (Fate::Changed, "key_unknown"),
        (Fate::Refused, "kind_invalid"),
        (Fate::Refused, "pin_without_item"),
        (Fate::Changed, "redacted"),
    ];
    assert_eq!(said, wanted);
    let kept = house.space.entry("e1".parse().unwrap()).await.unwrap();
    assert!(!kept.fields.title.contains(&token), "{}", kept.fields.title);
    assert_eq!(
        counts(&import(&house, "t", &book).await),
        (0, 2, 0, 0, 3),
        "as it was kept"
    );
}

#[tokio::test]
async fn only_people_may_import_a_scratchbook_m7_7() {
    let house = House::new();
    let book = json!({"items": [item("a", "note", "one", 3)], "pinnedItemIDs": []}).to_string();
    for role in Role::ALL {
        let refused = house
            .space
            .import_book(&Actor::new(role, "x"), &thread("t"), &book, false)
            .await;
        assert_eq!(
            matches!(refused, Err(WorkspaceError::Refused(_))),
            role != Role::Human,
            "{role}"
        );
    }
    let seen = house.space.asked_by(&Actor::new(Role::Executor, "x"));
    assert!(matches!(
        seen.export_book(&thread("t")).await,
        Err(WorkspaceError::Refused(_))
    ));
}

#[tokio::test]
async fn scratchbook_export_counts_omissions_and_forgotten_items_stay_gone() {
    let house = House::new();
    let goal = folio_memory::goals::GoalInput {
        title: "a goal".to_owned(),
        ..Default::default()
    };
    house
        .space
        .add_goal(&person(), &thread("t"), EntryKind::Goal, goal, None)
        .await
        .unwrap();
    let book = json!({"items": [item("a", "note", "one-and-only", 3)], "pinnedItemIDs": []});
    import(&house, "t", &book).await;
    let filter = folio_store::workspace::ForgetFilter {
        entries: vec!["e2".parse().unwrap()],
        ..Default::default()
    };
    house.space.forget(&person(), &filter, "").await.unwrap();
    let (left, left_out) = house.space.export_book(&thread("t")).await.unwrap();
    assert_eq!((left, left_out), (Book::default(), 2));
    assert_eq!(codes(&import(&house, "t", &book).await), [(Fate::Refused, "forgotten")]);
}

/// An operation on a scratchbook.
#[derive(Debug, Clone)]
enum Act {
    Add(&'static str, String, Vec<String>),
    Change(usize, String),
    Complete(usize),
    Pin(usize),
    Unpin(usize),
    Archive(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    let kind = prop_oneof![Just("note"), Just("todo"), Just("task")];
    let words = "[a-z線]{1,8}( [a-z\\n]{1,8}){0,2}";
    prop_oneof![
        4 => (kind, words, proptest::collection::vec("[a-z]{1,5}", 0..3)).prop_map(|(k, t, tags)| Act::Add(k, t, tags)),
        1 => (0..8_usize, words).prop_map(|(at, text)| Act::Change(at, text)),
        1 => (0..8_usize).prop_map(Act::Complete),
        1 => (0..8_usize).prop_map(Act::Pin),
        1 => (0..8_usize).prop_map(Act::Unpin),
        1 => (0..8_usize).prop_map(Act::Archive),
    ]
}

async fn act(house: &House, act: Act, thread: &ThreadKey) {
    let (space, actor) = (&house.space, person());
    let of = |at: usize| Ref::Handle(folio_memory::EntryHandle(at as u64 + 1));
    // Some name what is not there, or is archived: then nothing happens.
    let _unimportant = match act {
        Act::Add(kind, text, tags) => {
            let input: ItemInput = serde_json::from_value(json!({"kind": kind, "body": text, "tags": tags})).unwrap();
            space.add_item(&actor, thread, input, None).await
        }
        Act::Change(at, text) => {
            let patch = ItemPatch {
                body: Some(text),
                ..ItemPatch::default()
            };
            space.update_item(&actor, of(at), patch, None).await
        }
        Act::Complete(at) => space.complete(&actor, of(at), Guard::default()).await,
        Act::Pin(at) => space.pin_item(&actor, of(at)).await,
        Act::Unpin(at) => space.unpin_item(&actor, of(at)).await,
        Act::Archive(at) => space.archive(&actor, of(at), None).await,
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn exported_scratchbook_imports_identically(acts in proptest::collection::vec(any_act(), 1..16)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (one, other) = (House::new(), House::new());
            // What is brought in is never from later than now.
            other.clock.advance(std::time::Duration::from_secs(60));
            let thread = thread("a/線");
            for one_act in acts {
                act(&one, one_act, &thread).await;
            }
            let (book, _) = one.space.export_book(&thread).await.unwrap();
            let text = book.to_json();
            let report = other.space.import_book(&person(), &thread, &text, false).await.unwrap();
            prop_assert_eq!(report.remarks, vec![]);
            let (again, _) = other.space.export_book(&thread).await.unwrap();
            prop_assert_eq!(again.to_json(), text.clone());
            // Ids lead back where they came from, too.
            let report = one.space.import_book(&person(), &thread, &text, false).await.unwrap();
            prop_assert_eq!((report.present, report.entries), (book.items.len() as u64, 0));
            Ok(())
        })?;
    }
}
