use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::actor::Trust;
use crate::change::NewEntry;
use crate::entry::{Entry, EntryFields, EntryKind, Owner};
use crate::id::{EntryHandle, PageHandle, Seq};
use crate::page::{Page, PageFields, PageRole};
use crate::space::SpaceName;
use crate::time::Timestamp;
use crate::transfer::{EntryLine, FORMAT, PieceLine};

/// The sections of `text`.
fn places(text: &str) -> Vec<Place> {
    let mut places = Places::default();
    text.split_inclusive('\n').for_each(|line| places.line(line));
    assert_eq!(places.bytes(), text.len());
    places.all()
}

/// The folder that `lines` become.
fn written(lines: &[Line]) -> BTreeMap<String, String> {
    let mut writer = Writer::default();
    let mut files = BTreeMap::new();
    for line in lines {
        let (file, section) = writer.section(line).unwrap();
        files.entry(file).or_insert_with(String::new).push_str(&section);
    }
    files
}

/// The lines that a folder stands for.
fn read(files: &BTreeMap<String, String>) -> Vec<Line> {
    let sections = files.values().flat_map(|text| {
        places(text)
            .into_iter()
            .map(|place| (place.n, &text[place.from..place.to]))
    });
    let mut sections: Vec<_> = sections.collect();
    sections.sort_by_key(|(n, _)| n.unwrap_or(u64::MAX));
    sections
        .into_iter()
        .map(|(_, section)| line(section).unwrap())
        .collect()
}

fn page(number: u64, title: &str) -> Line {
    let id = PageId::derived(&["p", &number.to_string()]);
    let at = Timestamp::from_millis(1_700_000_000_000);
    let fields = json!({"id": id, "handle": PageHandle(number), "created_at": at, "updated_at": at,
                        "role": "note", "title": title, "owner": "user", "status": "open"});
    Line::Page(Box::new(serde_json::from_value(fields).unwrap()))
}

fn entry(number: u64, of: u64, title: &str, body: &str, tags: &[String]) -> Line {
    let mut fields = EntryFields::new(EntryKind::Note, Owner::user(), Trust::User);
    fields.title = title.to_owned();
    fields.body = body.to_owned();
    fields.tags = tags
        .iter()
        .filter_map(|tag| crate::entry::Tag::parse(tag).ok())
        .collect();
    let new = NewEntry {
        id: EntryId::derived(&["e", &number.to_string()]),
        page: PageId::derived(&["p", &of.to_string()]),
        kind: EntryKind::Note,
        fields,
    };
    let entry = Entry::added(
        new,
        EntryHandle(number),
        Seq(9),
        Timestamp::from_millis(1_700_000_000_000),
    );
    Line::Entry(Box::new(EntryLine::of(entry)))
}

fn space() -> Line {
    Line::Space {
        format: FORMAT,
        space: SpaceName::main(),
        as_of: Seq(7),
    }
}

/// Texts that are hard to preserve: line endings of all kinds, and lines that look like sections.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => ".{0,12}",
        2 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("<!-- folio:entry {\"n\":1} -->".to_owned()),
        1 => Just("\n<!-- folio:entry {} -->\n".to_owned()),
        1 => Just("\\".to_owned()),
        1 => Just("\n\\<!-- folio:end".to_owned()),
        1 => Just("\n## heading\n".to_owned()),
        1 => Just("-->".to_owned()),
        1 => Just("\u{2028}\u{0}".to_owned()),
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn transfer_lines_round_trip_through_a_markdown_folder(
        titles in prop::collection::vec(text(), 1..4),
        entries in prop::collection::vec((any::<prop::sample::Index>(), text(), text(), prop::collection::vec("[a-z]{1,5}", 0..3),
                                          prop::option::of(text())), 0..8),
    ) {
        let mut lines = vec![space()];
        lines.extend(titles.iter().zip(1..).map(|(title, number)| page(number, title)));
        for ((of, title, body, tags, piece), number) in entries.iter().zip(1..) {
            lines.push(entry(number, of.index(titles.len()) as u64 + 1, title, body, tags));
            if let Some(text) = piece {
                let of = EntryId::derived(&["e", &number.to_string()]);
                lines.push(Line::Piece(PieceLine { of, number: 1, text: Some(text.clone()), base64: None }));
            }
        }
        lines.push(Line::End { pages: titles.len() as u64, entries: entries.len() as u64, links: 0 });
        let files = written(&lines);
        prop_assert_eq!(&read(&files), &lines);
        for text in files.values() {
            for place in places(text) {
                prop_assert_eq!(written_below(&text[place.from..place.to]), None);
            }
        }
        prop_assert_eq!(written(&read(&files)), files);
    }
}

#[test]
fn exported_page_is_readable_markdown() {
    let lines = [
        space(),
        page(2, "What we found"),
        entry(1, 2, "Oak", "It is old.\n\nVery.", &[]),
    ];
    let files = written(&lines);
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["folio.md", "pages/p2-what-we-found.md"]
    );
    let shown: Vec<_> = files["pages/p2-what-we-found.md"]
        .lines()
        .filter(|line| !line.starts_with(BEGIN))
        .collect();
    assert_eq!(
        shown,
        ["# What we found", "", "## Oak", "", "It is old.", "", "Very.", ""]
    );
}

#[test]
fn entry_whose_page_is_missing_is_in_the_root_file() {
    let lines = [
        space(),
        page(1, "Kept"),
        entry(1, 1, "On it", "a", &[]),
        entry(2, 2, "Left over", "b", &[]),
    ];
    let files = written(&lines);
    assert!(
        files[ROOT].contains("Left over") && !files[ROOT].contains("On it"),
        "{files:?}"
    );
    assert_eq!(read(&files), lines);
}

#[test]
fn text_that_belongs_to_no_entry_is_reported() {
    let files = written(&[space(), page(1, "Oaks")]);
    let of_page = &files["pages/p1-oaks.md"];
    assert_eq!(written_below(of_page), None);
    let told = written_below(&format!("{of_page}Old ones.\n\nVery.\n")).unwrap();
    assert_eq!(
        told.message,
        "\"Old ones.\" belongs to no entry and is not imported; put a line <!-- folio:entry --> above it to make it one"
    );
    let told = written_below(&format!("{}- a list\n", files[ROOT])).unwrap();
    assert!(told.message.contains("- a list"), "{}", told.message);
}

#[test]
fn invalid_markdown_section_is_refused_with_the_reason() {
    for (text, why) in [
        ("<!-- folio:entry nonsense -->\n", "the comment cannot be read"),
        ("<!-- folio:page {\"title\":true} -->\ntext\n", "there is no heading"),
        ("<!-- folio:weather {} -->\n", "unknown variant"),
    ] {
        let error = line(text).unwrap_err();
        assert_eq!(error.code, "line_malformed");
        assert!(error.message.contains(why), "{}", error.message);
    }
    let newer = "<!-- folio:space {\"format\":99,\"space\":\"main\",\"as_of\":1} -->\n";
    assert_eq!(line(newer).unwrap_err().code, "transfer_unknown");
    let piece = json!({"record": "piece", "of": EntryId::derived(&["e"]), "number": 1, "text": "left over"});
    let piece: Line = serde_json::from_value(piece).unwrap();
    assert_eq!(Writer::default().section(&piece).unwrap_err().code, "line_malformed");
}

#[test]
fn markdown_with_crlf_or_byte_order_mark_parses_unchanged() {
    let mut fields = EntryFields::new(EntryKind::Note, Owner::user(), Trust::User);
    fields.title = "one".to_owned();
    fields.body = "first\n\nlast\n".to_owned();
    let (page, id) = (PageId::derived(&["p"]), EntryId::derived(&["e"]));
    let new = NewEntry {
        id,
        page,
        kind: EntryKind::Note,
        fields,
    };
    let entry = Entry::added(new, EntryHandle(1), Seq(1), Timestamp::default());
    let written = Line::Entry(Box::new(EntryLine::of(entry)));
    let mut writer = Writer::default();
    let of = Page {
        id: page,
        handle: PageHandle(1),
        version: 1,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        created_seq: Seq(1),
        fields: PageFields::new(PageRole::Note, "page", Owner::user()),
    };
    let parts = [Line::Page(Box::new(PageLine::of(of))), written];
    let text: String = parts.iter().map(|part| writer.section(part).unwrap().1).collect();
    for text in [text.clone(), text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
        let read: Vec<Line> = places(&text)
            .iter()
            .map(|place| line(&text[place.from..place.to]).unwrap())
            .collect();
        assert_eq!(read, parts, "{text:?}");
    }
}

#[test]
fn places_find_sections_page_and_preceding_text_line_by_line() {
    let page = PageId::derived(&["p"]);
    let section = format!("{BEGIN}page {{\"id\":\"{page}\",\"role\":\"note\",\"n\":3}}{END}\n# One\n");
    for (before, has_text) in [("", false), ("\u{feff}", false), (" \n\n", false), ("mine\n", true)] {
        let text = format!("{before}{section}{BEGIN}entry{END}\nnew\n");
        let mut places = Places::default();
        text.split_inclusive('\n').for_each(|line| places.line(line));
        assert_eq!(places.has_text_before(), has_text, "{before:?}");
        assert_eq!(places.page().map(|page| page.id), Some(page));
        let (from, to) = (before.len(), before.len() + section.len());
        let wanted = [
            Place { n: Some(3), from, to },
            Place {
                n: None,
                from: to,
                to: text.len(),
            },
        ];
        assert_eq!(places.all(), wanted);
    }
}
