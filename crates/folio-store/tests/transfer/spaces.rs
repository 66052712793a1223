//! Whole spaces as lines (`export`, `import --from folio`).

use std::io::Cursor;
use std::sync::Arc;

use folio_memory::evict::ResultOf;
use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::scratchbook::ItemInput;
use folio_memory::tokens::Estimate;
use folio_memory::{
    Actor, Entry, EntryHandle, EntryQuery, Link, Order, Page, Pii, Relation, Role, SpaceName, Status, TextMatch,
    ThreadKey, Trust,
};
use folio_store::workspace::{Eviction, Fate, ForgetFilter, Guard, ImportOptions, Imported, PageInput, ViewRequest};
use folio_store::{Workspace, WorkspaceError};
use proptest::prelude::*;
use serde_json::json;

use crate::house::House;

pub(crate) fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

pub(crate) async fn export(space: &Workspace) -> String {
    let mut out = Vec::new();
    space.export_space(&mut out, &mut |_| {}).await.unwrap();
    String::from_utf8(out).unwrap()
}

pub(crate) async fn import_with(space: &Workspace, text: &str, options: ImportOptions) -> Imported {
    let source = Cursor::new(text.to_owned().into_bytes());
    space
        .import_space(&person(), source, options, &mut |_| {})
        .await
        .unwrap()
}

pub(crate) async fn import(space: &Workspace, text: &str) -> Imported {
    import_with(space, text, ImportOptions::default()).await
}

/// A house whose clock is ahead of all others, so that nothing is imported from the future.
pub(crate) fn later() -> House {
    let house = House::new();
    house.clock.advance(std::time::Duration::from_secs(3_600));
    house
}

#[tokio::test]
async fn import_keeps_flags_of_personal_data_in_earlier_versions_m7_6_48() {
    let house = House::new();
    let memory = &house.space;
    let noticed = ObservationInput {
        content: "Write to jane.doe@example.org".to_owned(),
        ..ObservationInput::default()
    };
    let entry = memory.add_observation(&person(), noticed, None).await.unwrap().entry;
    let patch = serde_json::from_value(json!({"content": "Write to her"})).unwrap();
    let changed = memory
        .update_observation(&person(), Ref::Id(entry.id), patch, None)
        .await
        .unwrap();
    assert_eq!(changed.entry.fields.pii, [Pii::Email]);
    let other = later();
    assert_eq!(import(&other.space, &export(memory).await).await.entries, 1);
    let brought = other.space.entry(Ref::Id(entry.id)).await.unwrap();
    assert_eq!(brought.fields.pii, [Pii::Email]);
}

fn plain(mut entry: Entry) -> Entry {
    // How it came to be what it is stays behind.
    (entry.version, entry.fields.brought) = (1, None);
    (entry.created_seq, entry.updated_seq) = (folio_memory::Seq(0), folio_memory::Seq(0));
    if entry.fields.erased.is_some() {
        entry.updated_at = entry.created_at;
    }
    entry
}

fn plain_page(mut page: Page) -> Page {
    (page.version, page.fields.brought, page.created_seq) = (1, None, folio_memory::Seq(0));
    page
}

/// Everything that is visible of a space.
async fn seen(space: &Workspace) -> Vec<String> {
    let mut seen = Vec::new();
    for order in [Order::Newest, Order::Oldest, Order::Priority] {
        for status in [vec![], Status::ALL.to_vec()] {
            let query = EntryQuery {
                order,
                status,
                include_expired: true,
                include_superseded: true,
                limit: 1_000,
                ..EntryQuery::default()
            };
            let list = space.entries(&query).await.unwrap();
            seen.push(format!("{order:?} {}", list.total));
            seen.extend(list.items.into_iter().map(|entry| format!("{:?}", plain(entry))));
        }
    }
    for words in ["oak", "oak stone", "river"] {
        let query = EntryQuery {
            text: Some(words.to_owned()),
            text_match: TextMatch::Any,
            limit: 100,
            ..EntryQuery::default()
        };
        let found = space.entries(&query).await.unwrap();
        let handles: Vec<_> = found.items.iter().map(|entry| entry.handle).collect();
        seen.push(format!("{words}: {handles:?}"));
    }
    for node in space.tree(None).await.unwrap() {
        seen.push(format!("{} {:?}", node.depth, plain_page(node.page.clone())));
        seen.push(space.page_markdown(Ref::Id(node.page.id)).await.unwrap());
        seen.push(format!("{:?}", space.links(&node.page.id.to_string()).await.unwrap()));
    }
    for thread in space.book_threads().await.unwrap() {
        let request = ViewRequest {
            view_token_limit: Some(300),
            ..ViewRequest::of(thread)
        };
        let view = space.view(request, &Estimate).await.unwrap();
        seen.push(view.rendered.text.clone());
    }
    let query = EntryQuery {
        status: Status::ALL.to_vec(),
        limit: 1_000,
        ..EntryQuery::default()
    };
    for entry in space.entries(&query).await.unwrap().items {
        seen.push(format!("{:?}", space.links(&entry.id.to_string()).await.unwrap()));
        seen.push(space.whole_text(&entry).await.unwrap());
    }
    seen
}

/// An operation in a space.
#[derive(Debug, Clone)]
enum Act {
    Observe(String, &'static str, Option<f64>),
    Note(&'static str, &'static str, String),
    Page(String, Option<u64>),
    Append(u64, String),
    Link(u64, u64),
    Pin(u64),
    Complete(u64),
    Archive(u64),
    Forget(u64),
    Long(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    let words = || "(oak|stone|river|線程)( [a-z]{2,8}){0,3}";
    let class = prop_oneof![Just("risk_alert"), Just("observation"), Just("gossip")];
    let thread = prop_oneof![Just("main"), Just("a/b"), Just("a_b")];
    let kind = prop_oneof![Just("note"), Just("todo"), Just("task")];
    let at = || 1..12_u64;
    prop_oneof![
        4 => (words(), class, proptest::option::of(0.0..1.0)).prop_map(|(w, c, f)| Act::Observe(w, c, f)),
        4 => (thread, kind, words()).prop_map(|(t, k, w)| Act::Note(t, k, w)),
        2 => (words(), proptest::option::of(1..4_u64)).prop_map(|(w, p)| Act::Page(w, p)),
        2 => (1..5_u64, words()).prop_map(|(p, w)| Act::Append(p, w)),
        2 => (at(), at()).prop_map(|(a, b)| Act::Link(a, b)),
        1 => at().prop_map(Act::Pin),
        1 => at().prop_map(Act::Complete),
        1 => at().prop_map(Act::Archive),
        1 => at().prop_map(Act::Forget),
        1 => (60_000..80_000_usize).prop_map(Act::Long),
    ]
}

/// Carries out the operation; it does nothing if it names something that does not exist or is archived.
async fn act(house: &House, act: Act) -> Result<(), WorkspaceError> {
    let (space, actor) = (&house.space, person());
    house.clock.advance(std::time::Duration::from_millis(3));
    let entry = |at| Ref::Handle(EntryHandle(at));
    let page = |at| Ref::Handle(folio_memory::PageHandle(at));
    match act {
        Act::Observe(content, class, confidence) => {
            let input: ObservationInput =
                serde_json::from_value(json!({"content": content, "type": class, "confidence": confidence})).unwrap();
            space.add_observation(&actor, input, None).await?;
        }
        Act::Note(thread, kind, body) => {
            let input: ItemInput = serde_json::from_value(json!({"kind": kind, "body": body})).unwrap();
            space
                .add_item(&actor, &ThreadKey(thread.to_owned()), input, None)
                .await?;
        }
        Act::Page(title, parent) => {
            let parent = parent.map(page);
            let input = PageInput {
                title,
                parent,
                ..PageInput::default()
            };
            space.new_page(&actor, input).await?;
        }
        Act::Append(at, body) => drop(space.append(&actor, page(at), "", body, &[], None).await?),
        Act::Link(src, dst) => {
            let (src, dst) = (space.entry(entry(src)).await?.id, space.entry(entry(dst)).await?.id);
            let link = Link {
                src: src.to_string(),
                rel: Relation::References,
                dst: dst.to_string(),
            };
            let write = folio_store::workspace::Write::of(vec![folio_memory::Change::AddLink(link)]);
            space.record(&actor, write).await?;
        }
        Act::Pin(at) => drop(space.pin_item(&actor, entry(at)).await?),
        Act::Complete(at) => drop(space.complete(&actor, entry(at), Guard::default()).await?),
        Act::Archive(at) => drop(space.archive(&actor, entry(at), None).await?),
        Act::Forget(at) => {
            let filter = ForgetFilter {
                entries: vec![entry(at)],
                ..ForgetFilter::default()
            };
            space.forget(&actor, &filter, "").await?;
        }
        Act::Long(bytes) => {
            let input = ObservationInput {
                content: "oak and stone\n".repeat(bytes / 14),
                ..ObservationInput::default()
            };
            space.add_observation(&actor, input, None).await?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn exported_space_imports_identically_into_another_store(acts in proptest::collection::vec(any_act(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (one, other) = (House::new(), later());
            for one_act in acts {
                // What it names may not be there.
                let _unimportant = act(&one, one_act).await;
            }
            let text = export(&one.space).await;
            prop_assert_eq!(&export(&one.space).await, &text, "the same state, the same bytes");
            let report = import(&other.space, &text).await;
            prop_assert_eq!(report.remarks, vec![]);
            prop_assert_eq!(seen(&other.space).await, seen(&one.space).await);
            prop_assert_eq!(other.space.store().check().await.unwrap().problems, Vec::<String>::new());
            let head = other.space.head().await.unwrap();
            let again = import(&other.space, &text).await;
            prop_assert_eq!((again.entries, again.pages, again.links, again.differs, again.refused), (0, 0, 0, 0, 0));
            prop_assert_eq!(other.space.head().await.unwrap(), head, "nothing was written");
            Ok(())
        })?;
    }
}

pub(crate) async fn observe(space: &Workspace, content: &str) -> Entry {
    let input = ObservationInput {
        content: content.to_owned(),
        ..ObservationInput::default()
    };
    space.add_observation(&person(), input, None).await.unwrap().entry
}

#[tokio::test]
async fn space_import_keeps_existing_entries_and_reports_differences() {
    let (one, other) = (House::new(), later());
    observe(&one.space, "oak").await;
    observe(&one.space, "stone").await;
    let text = export(&one.space).await;
    observe(&other.space, "here before").await;
    let dry = import_with(
        &other.space,
        &text,
        ImportOptions {
            dry_run: true,
            ..ImportOptions::default()
        },
    )
    .await;
    assert_eq!(
        (dry.entries, dry.present, other.space.head().await.unwrap().0),
        (2, 1, 1)
    );
    let report = import(&other.space, &text).await;
    assert_eq!((report.entries, report.present), (2, 1), "the scratch page is there");
    let patch = serde_json::from_value(json!({"content": "another stone"})).unwrap();
    let stone = Ref::Handle(EntryHandle(3));
    other
        .space
        .update_observation(&person(), stone, patch, None)
        .await
        .unwrap();
    let report = import(&other.space, &text).await;
    assert_eq!((report.entries, report.differs), (0, 1));
    assert_eq!(
        report.remarks[0].message,
        "e3 stays as it is; the file differs in: body"
    );
    assert_eq!(other.space.entry(stone).await.unwrap().fields.body, "another stone");
}

/// `text` with `old` in place of `new`, which occurs once.
fn edited(text: &str, old: &str, new: &str) -> String {
    assert_eq!(text.matches(old).count(), 1, "{old}");
    text.replace(old, new)
}

fn merging() -> ImportOptions {
    ImportOptions {
        merge: true,
        ..ImportOptions::default()
    }
}

#[tokio::test]
async fn merging_import_applies_edits_in_the_file_field_by_field() {
    let house = House::new();
    let space = &house.space;
    for content in ["oak", "stone", "moss", "fern"] {
        observe(space, content).await;
    }
    let task: ItemInput = serde_json::from_value(json!({"kind": "task", "title": "Plant", "tags": ["a"]})).unwrap();
    space.add_item(&person(), &ThreadKey::main(), task, None).await.unwrap();
    let text = export(space).await;
    let entry = |handle| space.entry(Ref::Handle(EntryHandle(handle)));

    // Here the tags of one, the text of another and that of a third change.
    house.clock.advance(std::time::Duration::from_secs(60));
    for (handle, patch) in [
        (1, json!({"tags": ["old"]})),
        (2, json!({"content": "stone, here"})),
        (3, json!({"content": "moss, both"})),
    ] {
        let patch = serde_json::from_value(patch).unwrap();
        let named = Ref::Handle(EntryHandle(handle));
        space.update_observation(&person(), named, patch, None).await.unwrap();
    }
    // And in the file the text of each, and a status.
    let mut file = edited(&text, "\"body\":\"oak\"", "\"body\":\"oak, there\"");
    file = edited(&file, "\"body\":\"stone\"", "\"body\":\"stone, there\"");
    file = edited(&file, "\"body\":\"moss\"", "\"body\":\"moss, both\"");
    file = edited(&file, "\"title\":\"Plant\"", "\"title\":\"Plant it\"");
    file = edited(
        &file,
        "\"status\":\"open\",\"tags\":[\"a\"]",
        "\"status\":\"blocked\",\"tags\":[\"a\"]",
    );

    let told = |report: &Imported| {
        let remarks = report.remarks.iter();
        remarks.map(|one| (one.fate, one.message.clone())).collect::<Vec<_>>()
    };
    let expected = [
        (Fate::Merged, "e1 is now as the file says: body".to_owned()),
        (Fate::Differs, "e2 stays as it is; the file differs in: body".to_owned()),
        (Fate::Merged, "e5 is now as the file says: title, status".to_owned()),
    ];
    let head = space.head().await.unwrap();
    let dry = import_with(
        space,
        &file,
        ImportOptions {
            dry_run: true,
            ..merging()
        },
    )
    .await;
    assert_eq!((told(&dry), space.head().await.unwrap()), (expected.to_vec(), head));

    // Not asked to, nobody merges, and never what a stranger's file says.
    for options in [
        ImportOptions::default(),
        ImportOptions {
            distrusted: true,
            ..merging()
        },
    ] {
        assert_eq!(import_with(space, &file, options).await.merged, 0);
        assert_eq!(entry(1).await.unwrap().fields.body, "oak");
    }

    let report = import_with(space, &file, merging()).await;
    assert_eq!(told(&report), expected);
    assert_eq!((report.merged, report.differs, report.entries), (2, 1, 0));
    let oak = entry(1).await.unwrap();
    assert_eq!(
        (oak.fields.body.as_str(), oak.fields.tags[0].as_str()),
        ("oak, there", "old")
    );
    assert_eq!(entry(2).await.unwrap().fields.body, "stone, here");
    let plant = entry(5).await.unwrap();
    assert_eq!(
        (plant.fields.title.as_str(), plant.fields.status),
        ("Plant it", Status::Blocked)
    );
    let revisions = space.history(Ref::Handle(EntryHandle(1))).await.unwrap();
    assert_eq!(revisions.last().unwrap().reason.as_deref(), Some("changed in a file"));

    // The same file again changes nothing, and neither does one that nobody touched.
    let head = space.head().await.unwrap();
    for (file, merged) in [(&file, 0), (&text, 0)] {
        assert_eq!(import_with(space, file, merging()).await.merged, merged);
    }
    assert_eq!(space.head().await.unwrap(), head);
    assert_eq!(entry(1).await.unwrap().fields.body, "oak, there");
}

#[tokio::test]
async fn import_merges_nothing_from_a_file_of_another_store() {
    let (one, other) = (House::new(), later());
    let oak = observe(&one.space, "oak").await;
    import(&other.space, &export(&one.space).await).await;
    let patch = |content: &str| serde_json::from_value(json!({"content": content})).unwrap();
    for house in [&one, &other] {
        house.clock.advance(std::time::Duration::from_secs(5));
        let named = Ref::Id(oak.id);
        house
            .space
            .update_observation(&person(), named, patch("oak, once more"), None)
            .await
            .unwrap();
    }
    // Version 2 there is not version 2 here, and nobody knows what was changed since.
    let file = edited(&export(&one.space).await, "oak, once more", "oak, there");
    let report = import_with(&other.space, &file, merging()).await;
    assert_eq!((report.merged, report.differs), (0, 1));
}

#[tokio::test]
async fn import_into_a_differently_named_space_finds_standing_pages() {
    let (one, other) = (House::new(), later());
    let note: ItemInput = serde_json::from_value(json!({"kind": "note", "body": "oak"})).unwrap();
    one.space
        .add_item(&person(), &ThreadKey::main(), note, None)
        .await
        .unwrap();
    observe(&one.space, "stone").await;
    let name = SpaceName::parse("elsewhere").unwrap();
    let (store, clock) = (Arc::clone(other.space.store()), Arc::clone(other.space.clock()));
    let elsewhere = Workspace::new(store, clock, Arc::clone(other.space.ids()), name);
    import(&elsewhere, &export(&one.space).await).await;
    let items = elsewhere
        .book_items(&ThreadKey::main(), Default::default())
        .await
        .unwrap();
    assert_eq!(items.total, 1);
    observe(&elsewhere, "another").await;
    let roles: Vec<_> = elsewhere
        .tree(None)
        .await
        .unwrap()
        .iter()
        .map(|node| node.page.fields.role.as_str())
        .collect();
    assert_eq!(roles, ["scratchbook", "scratch_page"]);
    assert_eq!(other.space.head().await.unwrap().0, 0, "nothing crosses a space");
}

#[tokio::test]
async fn imported_results_keep_every_byte_except_secrets() {
    let (one, other) = (House::new(), later());
    one.set_policy(json!({"redaction": "off"})).await;
    // Assembled at run time, so that no scanner takes this file for a leak.
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let mut large: Vec<u8> = (0..300_000).flat_map(|n| format!("{n:07}\n").into_bytes()).collect();
    large.extend([0xff, 0xfe]);
    let secret = format!("{}{token}\n", "line\n".repeat(400_000));
    for result in [large.clone(), secret.into_bytes(), b"\xff\x00".repeat(3_000)] {
        let how = Eviction {
            tool: "scan".to_owned(),
            of: ResultOf::Tool,
            limit_tokens: 50,
            tokens: Arc::new(Estimate),
        };
        one.space.evict(&person(), Cursor::new(result), how).await.unwrap();
    }
    let text = export(&one.space).await;
    let report = import(&other.space, &text).await;
    let told: Vec<_> = report
        .remarks
        .iter()
        .map(|remark| (remark.fate, remark.code.as_str()))
        .collect();
    assert_eq!(report.entries, 3);
    assert_eq!(told, [(Fate::Changed, "redaction_kept"), (Fate::Changed, "redacted")]);
    for handle in ["e1", "e3"] {
        let whole = folio_memory::passage::Part::Bytes { from: 0, to: u64::MAX };
        let read = |space: &Workspace| {
            let space = space.clone();
            let whole = whole.clone();
            async move { space.read_body(handle, &whole, 16 << 20).await.unwrap() }
        };
        assert!(read(&other.space).await == read(&one.space).await, "{handle}");
    }
    let search = folio_memory::passage::Part::Search { words: token, from: 0 };
    let found = other.space.read_body("e2", &search, 1_000).await.unwrap();
    assert!(format!("{found:?}").contains("matches: []"), "{found:?}");
    assert_eq!(
        other.space.store().check().await.unwrap().problems,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn two_imports_of_one_file_with_a_result_at_once_bring_it_in_once() {
    let (one, other) = (House::new(), later());
    let how = Eviction {
        tool: "scan".to_owned(),
        of: ResultOf::Tool,
        limit_tokens: 50,
        tokens: Arc::new(Estimate),
    };
    let result = Cursor::new("a line of the result\n".repeat(3_000));
    one.space.evict(&person(), result, how).await.unwrap();
    let text = export(&one.space).await;
    let is_of_page = |line: &&str| !line.contains("\"record\":\"entry\"") && !line.contains("\"record\":\"piece\"");
    let pages: Vec<_> = text.lines().filter(is_of_page).collect();
    import(&other.space, &pages.join("\n")).await;
    other.store.let_commits_meet(2);
    let reports = tokio::join!(import(&other.space, &text), import(&other.space, &text));
    assert_eq!(reports.0.entries + reports.1.entries, 1, "{reports:?}");
    assert_eq!(reports.0.refused + reports.1.refused, 0, "{reports:?}");
    assert_eq!(
        reports.0.present + reports.1.present,
        1 + 2 * pages_of(&text),
        "{reports:?}"
    );
}

/// How many records of the file were there before, besides the result.
fn pages_of(text: &str) -> u64 {
    text.lines()
        .filter(|line| line.contains("\"record\":\"page\"") || line.contains("\"record\":\"policy\""))
        .count() as u64
}

#[tokio::test]
async fn damaged_long_text_is_refused_and_not_taken_for_redacted() {
    let (one, other) = (House::new(), later());
    observe(&one.space, &"a line of a long text\n".repeat(5_000)).await;
    let how = Eviction {
        tool: "scan".to_owned(),
        of: ResultOf::Tool,
        limit_tokens: 50,
        tokens: Arc::new(Estimate),
    };
    let large: Vec<u8> = (0..300_000).flat_map(|n| format!("{n:07}\n").into_bytes()).collect();
    one.space.evict(&person(), Cursor::new(large), how).await.unwrap();
    observe(&one.space, "oak").await;
    let text = export(&one.space).await;
    let damaged = text.replacen("0250000", "025000o", 1);
    // The last one: the entry shows the beginning of the text.
    let (before, behind) = damaged.rsplit_once("a long text\\na line").unwrap();
    let damaged = format!("{before}a l0ng text\\na line{behind}");
    for merge in [false, true] {
        let options = ImportOptions {
            merge,
            ..ImportOptions::default()
        };
        // Where it is new, and where it is there.
        for (space, code) in [(&other.space, "text_damaged"), (&one.space, "differs")] {
            let report = import_with(space, &damaged, options).await;
            let codes: Vec<_> = report.remarks.iter().map(|remark| remark.code.as_str()).collect();
            assert_eq!(codes, [code, code], "{report:?}");
        }
    }
    assert_eq!(other.all().await.len(), 1, "oak is there");
    assert_eq!(import(&one.space, &text).await.refused, 0);
}

#[tokio::test]
async fn malformed_import_line_is_reported_and_the_others_are_imported() {
    let (one, other) = (House::new(), later());
    observe(&one.space, "oak").await;
    observe(&one.space, "stone").await;
    let text = export(&one.space).await;
    let lines: Vec<&str> = text.lines().collect();
    // The page, the first entry, nonsense, the second entry with a status that it cannot have, and no end.
    let bent = lines[3].replace("\"active\"", "\"done\"");
    let broken = [lines[0], lines[1], lines[2], "{\"record\":\"entry\"", &bent].join("\n");
    let report = import(&other.space, &broken).await;
    let told: Vec<_> = report
        .remarks
        .iter()
        .map(|remark| (remark.item.as_str(), remark.code.as_str()))
        .collect();
    assert_eq!(report.entries, 1);
    assert_eq!(told[0], ("line 4", "line_malformed"));
    assert_eq!((told[1].1, told[2].1), ("status_invalid", "file_incomplete"));
    let orphan = [lines[0], lines[2]].join("\n");
    let report = import(&later().space, &orphan).await;
    assert_eq!(report.remarks[0].code, "page_missing");
    let nothing = Cursor::new(b"{}\n".to_vec());
    let refused = other
        .space
        .import_space(&person(), nothing, ImportOptions::default(), &mut |_| {})
        .await;
    assert!(matches!(refused, Err(WorkspaceError::Invalid(invalid)) if invalid.code == "transfer_malformed"));
}

#[tokio::test]
async fn only_people_may_import_a_space_and_mark_it_distrusted_m7_7() {
    let (one, other) = (House::new(), later());
    observe(&one.space, "oak").await;
    let text = export(&one.space).await;
    for role in Role::ALL {
        if role != Role::Human {
            let source = Cursor::new(text.clone().into_bytes());
            let actor = Actor::new(role, "x");
            let refused = other
                .space
                .import_space(&actor, source, ImportOptions::default(), &mut |_| {})
                .await;
            assert!(matches!(refused, Err(WorkspaceError::Refused(_))), "{role}");
        }
    }
    let options = ImportOptions {
        distrusted: true,
        ..ImportOptions::default()
    };
    import_with(&other.space, &text, options).await;
    let entry = other.space.entry(Ref::Handle(EntryHandle(1))).await.unwrap();
    assert_eq!(entry.fields.trust, Trust::Imported);
}
