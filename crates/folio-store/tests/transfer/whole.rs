//! Completeness of files: writes by others meanwhile, errors while reading, and input that is not text.

use std::io::{self, Cursor, Write};

use folio_memory::id::Ref;
use folio_memory::{Change, EntryHandle, Link, Relation};
use folio_store::workspace::{Fate, ForgetFilter, Guard, ImportOptions, Outgoing, PageInput, Write as Commit};
use folio_store::{ErrorKind, Workspace};

use crate::house::House;
use crate::spaces::{export, import, later, observe, person};

/// Accepts lines, and makes another writer write as soon as the first entry arrives.
struct Disturbed {
    lines: Vec<u8>,
    space: Option<Workspace>,
}

impl Write for Disturbed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if bytes.starts_with(b"{\"record\":\"entry\"")
            && let Some(space) = self.space.take()
        {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let other = std::thread::spawn(move || runtime.block_on(add_with_links(&space)));
            other.join().expect("it can write");
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn link(src: impl ToString, dst: impl ToString) -> Change {
    Change::AddLink(Link {
        src: src.to_string(),
        rel: Relation::References,
        dst: dst.to_string(),
    })
}

/// Adds an entry and a page, with links between them and what was there.
async fn add_with_links(space: &Workspace) {
    let old = space.entry(Ref::Handle(EntryHandle(1))).await.unwrap().id;
    let young = observe(space, "young").await.id;
    let page = PageInput {
        title: "young".to_owned(),
        ..PageInput::default()
    };
    let page = space.new_page(&person(), page).await.unwrap().id;
    let links = vec![link(young, old), link(old, young), link(old, page), link(page, old)];
    space.record(&person(), Commit::of(links)).await.unwrap();
}

#[tokio::test]
async fn export_reports_how_many_of_its_steps_are_done() {
    let house = House::new();
    for number in 0..450 {
        observe(&house.space, &format!("number {number}")).await;
    }
    let mut steps = Vec::new();
    let mut progress = |exported: Outgoing| steps.extend(exported.steps);
    house.space.export_space(&mut Vec::new(), &mut progress).await.unwrap();
    // Each entry is written, then its links.
    assert_eq!(steps, [200, 400, 450, 650, 850, 900].map(|done| (done, 900)));
}

#[tokio::test]
async fn own_export_is_imported_whole_after_a_replacement_was_replaced() {
    let (house, other) = (House::new(), later());
    let mut ids = Vec::new();
    for content in ["first", "second", "third"] {
        ids.push(observe(&house.space, content).await.id);
    }
    for (old, by) in [(0, 1), (0, 2), (1, 0)] {
        let (old, by) = (Ref::Id(ids[old]), Ref::Id(ids[by]));
        house
            .space
            .supersede(&person(), old, by, Guard::default())
            .await
            .unwrap();
    }
    let text = export(&house.space).await;
    let report = import(&other.space, &text).await;
    assert_eq!((report.refused, report.links), (0, 2), "{report:?}");
    assert_eq!(export(&other.space).await.lines().count(), text.lines().count());
}

#[tokio::test]
async fn export_is_a_snapshot_despite_concurrent_writes() {
    let (house, other) = (House::new(), later());
    let space = &house.space;
    let (one, two) = (observe(space, "oak").await.id, observe(space, "stone").await.id);
    space.record(&person(), Commit::of(vec![link(one, two)])).await.unwrap();
    let before = export(space).await;
    let mut out = Disturbed {
        lines: Vec::new(),
        space: Some(space.clone()),
    };
    space.export_space(&mut out, &mut |_| {}).await.unwrap();
    let text = String::from_utf8(out.lines).unwrap();
    assert_eq!(text, before);
    assert_ne!(export(space).await, before);
    let report = import(&other.space, &text).await;
    assert_eq!((report.entries, report.links, report.refused), (2, 1, 0), "{report:?}");
}

#[tokio::test]
async fn import_refuses_lines_that_are_not_valid_utf8() {
    let house = House::new();
    observe(&house.space, "oak").await;
    observe(&house.space, "café au lait").await;
    let text = export(&house.space).await;
    let latin: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    for (merge, target) in [(true, house), (false, later())] {
        let options = ImportOptions {
            merge,
            ..ImportOptions::default()
        };
        let report = target
            .space
            .import_space(&person(), Cursor::new(latin.clone()), options, &mut |_| {})
            .await
            .unwrap();
        assert_eq!((report.merged, report.differs, report.refused), (0, 0, 2), "{report:?}");
        let remark = &report.remarks[0];
        assert_eq!((remark.fate, remark.code.as_str()), (Fate::Refused, "line_malformed"));
        assert_eq!(
            (remark.item.as_str(), remark.message.as_str()),
            ("line 4", "line: is not valid UTF-8")
        );
        assert_eq!(report.remarks[1].code, "file_incomplete");
        let all = target.all().await;
        // Where it is not merged, the good line comes in; elsewhere both entries were there before.
        assert_eq!(all.len(), if merge { 2 } else { 1 }, "{all:?}");
        assert!(
            all.iter().all(|entry| !entry.fields.body.contains('\u{fffd}')),
            "{all:?}"
        );
    }
}

#[tokio::test]
async fn forgotten_entry_is_erased_after_an_earlier_broken_import() {
    let (house, other) = (House::new(), later());
    let space = &house.space;
    for content in ["oak", "stone", "moss"] {
        observe(space, content).await;
    }
    let filter = ForgetFilter {
        entries: vec![Ref::Handle(EntryHandle(2))],
        ..ForgetFilter::default()
    };
    space.forget(&person(), &filter, "").await.unwrap();
    let text = export(space).await;
    // What breaks off while it is read leaves what a whole file has before it erases.
    let broken = broken_off(&text);
    let (ada, mut silent) = (person(), |_: &_| {});
    let read = other
        .space
        .import_space(&ada, broken, ImportOptions::default(), &mut silent);
    let broken = read.await.unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::Invalid, "{broken}");
    let left = other.space.entry(Ref::Handle(EntryHandle(2))).await.unwrap().fields;
    assert_eq!(
        (left.erased, left.body.as_str()),
        (None, ""),
        "it was added, and not yet erased"
    );
    for _ in 0..2 {
        let report = import(&other.space, &text).await;
        assert_eq!(
            (report.differs, report.refused, report.remarks.len()),
            (0, 0, 0),
            "{report:?}"
        );
        let stone = other.space.entry(Ref::Handle(EntryHandle(2))).await.unwrap();
        assert!(stone.fields.erased.is_some());
    }
    assert_eq!(
        other.space.store().check().await.unwrap().problems,
        Vec::<String>::new()
    );
}

/// A source of `text` with so much after the entries that they are written, which then fails.
fn broken_off(text: &str) -> impl io::BufRead + Send + 'static {
    struct Fails;
    impl io::Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let whole = text.lines().filter(|line| !line.contains("\"record\":\"end\""));
    let mut lines: Vec<String> = whole.map(|line| format!("{line}\n")).collect();
    let last = lines.last().cloned().unwrap_or_default();
    // As many more entries as are written at once.
    for number in 0..400_u32 {
        let id = folio_memory::EntryId::derived(&["more", &number.to_string()]);
        let mut entry: serde_json::Value = serde_json::from_str(&last).unwrap();
        entry["id"] = serde_json::json!(id);
        lines.push(format!("{entry}\n"));
    }
    io::BufReader::new(io::Read::chain(Cursor::new(lines.concat().into_bytes()), Fails))
}
