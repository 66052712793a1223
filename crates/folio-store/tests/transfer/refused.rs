//! What is not imported from a file, or only with corrections: each with its line, its field and its reason.

use folio_memory::id::Ref;
use folio_memory::scratchbook::ItemInput;
use folio_memory::{Clock as _, EntryHandle, EntryId, EntryQuery, ThreadKey};
use folio_store::Workspace;
use folio_store::workspace::{Fate, ImportOptions, Imported, PageInput};
use serde_json::{Value, json};

use crate::house::House;
use crate::spaces::{export, import, import_with, later, observe, person};

/// The codes with what each is about, without the ids.
fn told(report: &Imported) -> Vec<(Fate, &str, &str)> {
    let told = report.remarks.iter().map(|remark| {
        let place = remark.item.split(':').next().unwrap_or_default();
        (remark.fate, place, remark.code.as_str())
    });
    told.collect()
}

/// Imports `text` into an empty store, with a dry run first; both have the same result.
async fn imported(text: &str) -> (House, Imported) {
    let house = later();
    let dry_run = ImportOptions {
        dry_run: true,
        ..ImportOptions::default()
    };
    let dry = import_with(&house.space, text, dry_run).await;
    assert_eq!(house.space.head().await.unwrap().0, 0, "nothing is written");
    let report = import(&house.space, text).await;
    assert_eq!(dry, report, "a dry run tells what would become of it");
    let problems = house.space.store().check().await.unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
    (house, report)
}

async fn task(space: &Workspace, title: &str) {
    let task: ItemInput = serde_json::from_value(json!({"kind": "task", "title": title, "progress": 0.5})).unwrap();
    space.add_item(&person(), &ThreadKey::main(), task, None).await.unwrap();
}

/// A file with a page, two observations and two tasks: lines 1 to 9 are the space, the scratch page, the scratchbook,
/// the entries and the end.
async fn lines() -> Vec<String> {
    let house = House::new();
    observe(&house.space, "oak").await;
    observe(&house.space, "stone").await;
    task(&house.space, "one").await;
    task(&house.space, "two").await;
    let text = export(&house.space).await;
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 8, "{lines:?}");
    lines
}

/// `line` with other values in these fields.
fn with(line: &str, fields: Value) -> String {
    let (Ok(Value::Object(mut line)), Value::Object(fields)) = (serde_json::from_str(line), fields) else {
        panic!("objects")
    };
    line.extend(fields);
    Value::Object(line).to_string()
}

/// The positions of the entries in [`lines`].
const ENTRIES: std::ops::Range<usize> = 3..7;

#[tokio::test]
async fn import_reports_content_after_the_end_record() {
    let one = lines().await;
    let (_, report) = imported(&(one.join("\n") + "\n\n  \n")).await;
    assert_eq!(report.remarks, []);
    let other = House::new();
    observe(&other.space, "river").await;
    let both = format!("{}\n{}", one.join("\n"), export(&other.space).await);
    let (_, report) = imported(&both).await;
    assert_eq!(told(&report), [(Fate::Refused, "line 9", "file_goes_on")]);
    assert_eq!((report.entries, report.refused), (4, 1));
    assert!(report.remarks[0].message.contains("one by one"));
}

#[tokio::test]
async fn truncated_import_file_is_reported_as_incomplete() {
    let lines = lines().await;
    let without_end = lines[..7].join("\n");
    let without_a_line = [&lines[..6], &lines[7..]].concat().join("\n");
    for text in [without_end, without_a_line] {
        let (_, report) = imported(&text).await;
        assert_eq!(told(&report).last().unwrap().2, "file_incomplete");
    }
}

#[tokio::test]
async fn duplicate_or_too_deep_records_are_refused_individually() {
    let mut lines = lines().await;
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let mut nested = |at: usize, levels: usize| {
        let value: Value = serde_json::from_str(&deep(levels)).unwrap();
        lines[at] = with(&lines[at], json!({"metadata": value}));
    };
    // As deep as it can be, and one level more.
    nested(3, 97);
    nested(4, 98);
    let twice = lines[5].clone();
    lines.insert(6, twice);
    lines[8] = with(&lines[8], json!({"entries": 5}));
    let (house, report) = imported(&lines.join("\n")).await;
    assert_eq!(
        told(&report),
        [
            (Fate::Refused, "line 5", "value_too_deep"),
            (Fate::Refused, "line 7", "item_twice")
        ]
    );
    assert!(report.remarks[0].message.starts_with("metadata: "));
    assert_eq!(report.entries, 3);
    let depth = house
        .space
        .entry(Ref::Handle(EntryHandle(1)))
        .await
        .unwrap()
        .fields
        .metadata;
    assert_eq!(depth.unwrap().to_string(), deep(97));
}

#[tokio::test]
async fn duplicate_page_record_is_imported_once() {
    let mut lines = lines().await;
    lines.insert(2, lines[1].clone());
    let (_, report) = imported(&lines.join("\n")).await;
    assert_eq!(told(&report)[0], (Fate::Refused, "line 3", "item_twice"));
    assert_eq!((report.pages, report.entries), (2, 4));
}

#[tokio::test]
async fn import_refuses_values_that_a_write_would_refuse() {
    let far = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
    let (observation, item) = (3, 5);
    for (at, field, value, code) in [
        (item, "progress", json!(1.5), "progress_invalid"),
        (item, "progress", json!(-0.5), "progress_invalid"),
        (item, "phase", json!("x".repeat(513)), "phase_too_long"),
        (item, "title", json!("x".repeat(513)), "title_too_long"),
        (item, "title", json!(" \n"), "title_empty"),
        (item, "status", json!("active"), "status_invalid"),
        (item, "type", json!("alert"), "field_not_of_kind"),
        (observation, "type", json!("No Such"), "type_invalid"),
        (observation, "context", far(9), "context_too_deep"),
        (
            observation,
            "context",
            json!({"a": "x".repeat(16 * 1024)}),
            "context_too_large",
        ),
        (observation, "owner", json!("a b"), "owner_invalid"),
        (observation, "owner", json!(""), "owner_invalid"),
        (observation, "tags", json!(["sys:x"]), "tag_invalid"),
        (observation, "body", json!("\u{0}"), "content_empty"),
    ] {
        let mut lines = lines().await;
        lines[at] = with(&lines[at], json!({ field: value }));
        let (_, report) = imported(&lines.join("\n")).await;
        let place = format!("line {}", at + 1);
        assert_eq!(told(&report), [(Fate::Refused, &*place, code)], "{field}");
        let named = if field == "body" { "content" } else { field };
        assert!(
            report.remarks[0].message.starts_with(&format!("{named}: ")),
            "{report:?}"
        );
        assert_eq!(report.entries, 3, "the others are taken in");
    }
}

#[tokio::test]
async fn import_corrects_and_reports_values_that_a_write_would_correct() {
    let mut lines = lines().await;
    lines[3] = with(
        &lines[3],
        json!({"confidence": 1.5, "body": "o\u{0}ak", "validated_at": "2200-01-01T00:00:00Z"}),
    );
    lines[4] = with(&lines[4], json!({"titel": "x", "Body": "y"}));
    let (house, report) = imported(&lines.join("\n")).await;
    assert_eq!(
        told(&report),
        [
            (Fate::Changed, "line 4", "nul_removed"),
            (Fate::Changed, "line 4", "confidence_clamped"),
            (Fate::Changed, "line 4", "later_than_now"),
            (Fate::Changed, "line 5", "key_unknown"),
        ]
    );
    assert_eq!(report.remarks[3].message, "nothing reads Body, titel");
    let first = house.space.entry(Ref::Handle(EntryHandle(1))).await.unwrap().fields;
    assert_eq!(first.body, "oak");
    assert!((first.confidence.unwrap().value() - 1.0).abs() < f64::EPSILON);
    assert!(
        first.validated_at.unwrap() <= house.clock.now(),
        "nothing is from later than now"
    );
}

#[tokio::test]
async fn import_corrects_times_in_the_future_and_too_long_lifetimes_m7_1_4() {
    let mut lines = lines().await;
    let future = "2099-01-01T00:00:00Z";
    lines[1] = with(&lines[1], json!({"created_at": future}));
    lines[3] = with(&lines[3], json!({"lifetime": {"until": future}}));
    lines[4] = with(&lines[4], json!({"created_at": future, "updated_at": future}));
    let (house, report) = imported(&lines.join("\n")).await;
    assert_eq!(
        told(&report),
        [
            (Fate::Changed, "line 2", "later_than_now"),
            (Fate::Changed, "line 4", "ttl_invalid"),
            (Fate::Changed, "line 5", "later_than_now"),
        ]
    );
    let entry = async |number| house.space.entry(Ref::Handle(EntryHandle(number))).await.unwrap();
    let (first, second) = (entry(1).await, entry(2).await);
    let week = std::time::Duration::from_hours(7 * 24);
    assert_eq!(first.fields.lifetime.expires_at(), Some(first.created_at.plus(week)));
    assert!(second.created_at <= house.clock.now());
}

#[tokio::test]
async fn entry_whose_successor_is_missing_is_live_after_an_import() {
    let mut lines = lines().await;
    let missing = EntryId::derived(&["nothing"]);
    lines[3] = with(&lines[3], json!({"superseded_by": missing}));
    let text = lines.join("\n");
    let (house, report) = imported(&text).await;
    assert_eq!(told(&report), [(Fate::Changed, "line 4", "item_adapted")]);
    let message = format!("superseded_by was removed: {missing} is neither here nor in the file");
    assert_eq!(report.remarks[0].message, message);
    let live = house.space.observations(EntryQuery::default()).await.unwrap();
    assert_eq!(live.total, 2);
    assert_eq!(import(&house.space, &text).await.changed, 0, "it was corrected already");
}

#[tokio::test]
async fn import_refuses_supersede_and_blocks_cycles() {
    let mut lines = lines().await;
    let id = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let ids: Vec<String> = lines[ENTRIES].iter().map(|line| id(line)).collect();
    lines[3] = with(&lines[3], json!({"superseded_by": ids[1]}));
    lines[4] = with(&lines[4], json!({"superseded_by": ids[0]}));
    let link = |src: usize, dst: usize| {
        json!({"record": "link", "src": ids[src], "rel": "blocks", "dst": ids[dst]}).to_string()
    };
    let end = with(&lines[7], json!({"links": 3}));
    lines.splice(7.., [link(2, 3), link(3, 2), link(2, 2), end]);
    let (house, report) = imported(&lines.join("\n")).await;
    assert_eq!(
        told(&report),
        [
            (Fate::Refused, "line 5", "supersede_cycle"),
            (Fate::Refused, "line 9", "blocks_itself"),
            (Fate::Refused, "line 10", "blocks_itself"),
            (Fate::Changed, "line 4", "item_adapted"),
        ]
    );
    assert_eq!(report.links, 1);
    drop(house);
    let mut alone = lines[..7].to_vec();
    alone[3] = with(&alone[3], json!({"superseded_by": ids[0]}));
    let (_, report) = imported(&alone.join("\n")).await;
    assert_eq!(told(&report)[0], (Fate::Refused, "line 4", "supersede_cycle"));
}

#[tokio::test]
async fn invalid_page_is_refused_together_with_its_entries() {
    let house = House::new();
    let input = PageInput {
        title: "Findings".to_owned(),
        ..PageInput::default()
    };
    let actor = person();
    let page = house.space.new_page(&actor, input).await.unwrap();
    let body = "It is old.".to_owned();
    let append = house.space.append(&actor, Ref::Id(page.id), "", body, &[], None);
    append.await.unwrap();
    let text = export(&house.space).await;
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    for (field, value, code) in [
        ("title", json!("x".repeat(513)), "title_too_long"),
        ("title", json!(""), "title_empty"),
        ("owner", json!("\n"), "owner_invalid"),
        ("tags", json!([""]), "tag_invalid"),
    ] {
        let mut lines = lines.clone();
        lines[1] = with(&lines[1], json!({ field: value }));
        let (_, report) = imported(&lines.join("\n")).await;
        let told = told(&report);
        assert_eq!(
            told,
            [
                (Fate::Refused, "line 2", code),
                (Fate::Refused, "line 3", "page_missing")
            ],
            "{field}"
        );
    }
}

#[tokio::test]
async fn missing_text_piece_is_reported_without_losing_other_lines() {
    let house = House::new();
    observe(&house.space, &"oak and stone\n".repeat(5_000)).await;
    observe(&house.space, "river").await;
    let text = export(&house.space).await;
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let at = lines
        .iter()
        .position(|line| line.contains("\"record\":\"piece\""))
        .unwrap();
    lines.remove(at);
    let (target, report) = imported(&lines.join("\n")).await;
    assert_eq!(told(&report), [(Fate::Refused, "line 3", "line_malformed")]);
    assert_eq!(report.remarks[0].message, "record: piece 1 of its text is missing here");
    assert_eq!(report.entries, 1);
    // Where it is there already, what follows is read, too.
    import(&target.space, &text).await;
    let again = import(&target.space, &lines.join("\n")).await;
    assert_eq!((again.refused, again.present), (0, 3));
}

#[tokio::test]
async fn byte_order_mark_before_an_import_file_is_ignored() {
    let text = lines().await.join("\n");
    let (_, report) = imported(&format!("\u{feff}{text}")).await;
    assert_eq!((report.entries, report.remarks), (4, vec![]));
}
