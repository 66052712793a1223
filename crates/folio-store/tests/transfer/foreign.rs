//! Imports from other programs.

use folio_memory::foreign::{Destination, Foreign, beads, memory_bank};
use folio_memory::{EntryId, Source, SpaceName, ThreadKey, Timestamp};
use folio_store::workspace::{Fate, ImportOptions, Imported};

use crate::house::House;
use crate::spaces::{later, person};

fn to(thread: &str) -> Destination {
    Destination {
        space: SpaceName::main(),
        thread: ThreadKey(thread.to_owned()),
        source: Source::default(),
        now: Timestamp::from_millis(1_000),
    }
}

async fn import(house: &House, foreign: Foreign) -> Imported {
    let (ada, options) = (person(), ImportOptions::default());
    let mut silent = |_: &Imported| {};
    let imported = house.space.import_foreign(&ada, foreign, options, &mut silent);
    Box::pin(imported).await.unwrap()
}

/// `foreign` as an earlier version created it.
fn earlier(mut foreign: Foreign) -> Foreign {
    for item in &mut foreign.items {
        let (new, old): (_, EntryId) = (item.new.id.to_string(), item.earlier.take().unwrap());
        item.new.id = old;
        for (_, link) in &mut foreign.links {
            for end in [&mut link.src, &mut link.dst] {
                if *end == new {
                    *end = old.to_string();
                }
            }
        }
    }
    foreign
}

#[tokio::test]
async fn second_project_imports_beside_the_first_and_earlier_ids_match() {
    let issues = r#"{"id": "bd-1", "title": "one"}
        {"id": "bd-2", "title": "two", "dependencies": [{"depends_on_id": "bd-1", "type": "blocks"}]}"#;
    let house = later();
    let first = import(&house, earlier(beads(issues, &to("one")))).await;
    assert_eq!((first.entries, first.links, first.present), (2, 1, 0));
    let again = import(&house, beads(issues, &to("one"))).await;
    assert_eq!((again.entries, again.links, again.present), (0, 0, 4), "{again:?}");
    for (entries, present) in [(2, 0), (0, 4)] {
        let second = import(&house, beads(issues, &to("two"))).await;
        assert_eq!((second.entries, second.refused), (entries, 0), "{second:?}");
        assert_eq!(second.present, present);
    }
}

#[tokio::test]
async fn inserted_section_is_imported_without_duplicating_others() {
    let house = later();
    let bank = |text: &str| {
        let file = folio_memory::foreign::TextFile {
            path: "a.md".to_owned(),
            text: text.to_owned(),
        };
        memory_bank("bank", &[file], &to("one"))
    };
    import(&house, earlier(bank("# One\na\n"))).await;
    assert_eq!(import(&house, bank("# One\na\n# Three\nc\n")).await.entries, 1);
    let put_in = import(&house, bank("# One\na\n# Two\nb\n# Three\nc\n")).await;
    assert_eq!(
        (put_in.entries, put_in.differs, put_in.refused),
        (1, 0, 0),
        "{put_in:?}"
    );
}

/// `foreign` as the previous version created it.
fn as_before(mut foreign: Foreign) -> Foreign {
    foreign.take_earlier_ids();
    foreign
}

#[tokio::test]
async fn memory_banks_with_equal_file_names_are_imported_separately() {
    let bank = |name: &str, thread: &str, text: &str| {
        let file = folio_memory::foreign::TextFile {
            path: "projectbrief.md".to_owned(),
            text: text.to_owned(),
        };
        memory_bank(name, &[file], &to(thread))
    };
    let (first, second) = (
        "# Brief\nA mill.\n# Goals\nGrind.\n",
        "# Brief\nA barn.\n# Goals\nKeep hay.\n",
    );
    let is_brought = |imported: &Imported| (imported.pages, imported.entries, imported.present, imported.differs);
    for was_before in [true, false] {
        let house = later();
        let one = || bank("one/memory-bank", "main", first);
        import(&house, if was_before { as_before(one()) } else { one() }).await;
        assert_eq!(is_brought(&import(&house, one()).await), (0, 0, 4, 0), "{was_before}");
        let changed = bank("one/memory-bank", "main", &first.replace("A mill", "A wind mill"));
        assert_eq!(is_brought(&import(&house, changed).await), (0, 0, 3, 1), "{was_before}");
        for (name, thread) in [
            ("two/memory-bank", "main"),
            ("one/memory-bank", "two"),
            ("memory-bank", "three"),
        ] {
            let imported = import(&house, bank(name, thread, second)).await;
            assert_eq!(is_brought(&imported), (2, 2, 0, 0), "{name} {thread} {was_before}");
            let again = import(&house, bank(name, thread, second)).await;
            assert_eq!(is_brought(&again), (0, 0, 4, 0), "{name} {thread} {was_before}");
        }
    }
}

#[tokio::test]
async fn foreign_import_refuses_supersede_cycles() {
    let depends = |on: &str| format!(r#"[{{"depends_on_id": "{on}", "type": "supersedes"}}]"#);
    let issues = format!(
        r#"{{"id": "bd-1", "title": "one", "dependencies": {}}}
        {{"id": "bd-2", "title": "two", "dependencies": {}}}
        {{"id": "bd-3", "title": "three", "dependencies": {}}}"#,
        depends("bd-1"),
        depends("bd-3"),
        depends("bd-2"),
    );
    let report = import(&later(), beads(&issues, &to("one"))).await;
    let told: Vec<_> = report
        .remarks
        .iter()
        .map(|remark| (remark.fate, remark.item.as_str(), remark.code.as_str()))
        .collect();
    let refused = |item| (Fate::Refused, item, "supersede_cycle");
    assert_eq!(told, [refused("bd-1 supersedes bd-1"), refused("bd-3 supersedes bd-2")]);
    assert_eq!(report.links, 1);
}
