//! How a budget is shared (M7.11.4).

use serde_json::json;

use super::*;
use crate::actor::Trust;
use crate::change::NewEntry;
use crate::entry::{EntryFields, EntryKind, Owner, Status};
use crate::id::{EntryHandle, EntryId, PageId, Seq};
use crate::observation::TypeRegistry;
use crate::patterns::{CHANNEL, FACT, PATTERN};
use crate::time::Timestamp;
use crate::tokens::Estimate;
use crate::turn_testing::observation;
use crate::view::{Candidate, candidate, sections_of};

/// Lines of a section that are looked at.
const MAX: usize = 40;

/// A tokenizer by which shares can be counted on fingers.
#[derive(Debug)]
struct Words;

impl Tokens for Words {
    fn count(&self, text: &str) -> u32 {
        u32::try_from(text.split_whitespace().count()).unwrap()
    }

    fn method(&self) -> String {
        "words".to_owned()
    }
}

fn offered(section: Section, share: u32, lines: &[&str]) -> Offered {
    let candidates = lines.iter().enumerate().map(|(index, line)| Candidate {
        name: format!("e{}", index + 1),
        lengths: [
            (*line).to_owned(),
            line.split(' ').take(2).collect::<Vec<_>>().join(" "),
            "head".to_owned(),
        ],
        cut: false,
        folded: Vec::new(),
    });
    Offered {
        section,
        share,
        content: Content::Lines(Lines {
            shown: candidates.map(Shown::Line).collect(),
            ..Lines::default()
        }),
    }
}

/// The scratchbook with `entries` in it.
fn book(entries: &[Entry]) -> Offered {
    let types = TypeRegistry::default();
    let sections = sections_of(entries, &[], Vec::new(), &types, Timestamp::from_millis(0));
    Offered {
        section: Section::Scratchbook,
        share: 30,
        content: Content::Book(sections),
    }
}

fn todo(handle: u64, title: &str) -> Entry {
    let mut fields = EntryFields::new(EntryKind::Todo, Owner::agent(), Trust::User);
    fields.title = title.to_owned();
    let new = NewEntry {
        id: EntryId::derived(&[&handle.to_string()]),
        page: PageId::derived(&["book"]),
        kind: EntryKind::Todo,
        fields,
    };
    Entry::added(new, EntryHandle(handle), Seq(handle), Timestamp::from_millis(0))
}

fn entries(section: Section, share: u32, entries: &[Entry], concerning: usize) -> Offered {
    let shown = entries.iter().map(|entry| Shown::Entry(Box::new(entry.clone())));
    Offered {
        section,
        share,
        content: Content::Lines(Lines {
            shown: shown.collect(),
            concerning,
            ..Lines::default()
        }),
    }
}

/// A pattern or a fact, as it is recorded.
fn learned(handle: u64, type_name: &str, text: &str) -> Entry {
    let mut entry = observation(handle, type_name, text).build();
    entry.fields.source.channel = Some(CHANNEL.to_owned());
    let last_at = Timestamp::parse("2026-02-06T09:00:00Z").unwrap();
    entry.fields.metadata = Some(json!({"count": 19, "turns": 12, "last_at": last_at}));
    entry
}

#[test]
fn scratch_page_reserves_a_tenth_of_the_context_budget_m7_11_4() {
    let long = "one two three four five six seven eight nine ten";
    let book = vec![long; 30];
    let page = vec!["a b c d"; 5];
    let sections = vec![
        offered(Section::ScratchPage, 10, &page),
        offered(Section::Scratchbook, 90, &book),
    ];
    let assembled = assemble(sections, 200, MAX, &Words);
    let receipt = &assembled.receipt.sections[0];
    assert_eq!(receipt.reserved, 20);
    assert!(receipt.shown.len() >= 2, "{receipt:?}");
    assert!(assembled.receipt.tokens <= 200);
}

#[test]
fn unused_section_share_goes_to_other_sections_m7_11_4() {
    let lines = vec!["a b c d e f g h i j"; 9];
    let alone = vec![
        offered(Section::ScratchPage, 10, &[]),
        offered(Section::Scratchbook, 90, &lines),
    ];
    let assembled = assemble(alone, 100, MAX, &Words);
    assert_eq!(assembled.receipt.sections[1].shown.len(), 9, "{}", assembled.text);
    // Conversely, the first section gets what the later ones leave.
    let lines = vec!["a b c d e f g h i j"; 9];
    let alone = vec![
        offered(Section::ScratchPage, 10, &lines),
        offered(Section::Semantic, 90, &[]),
    ];
    assert_eq!(assemble(alone, 100, MAX, &Words).receipt.sections[0].shown.len(), 9);
}

#[test]
fn what_a_part_of_the_scratchbook_leaves_goes_to_its_other_parts_first_m7_11_4() {
    let notes: Vec<_> = (1..21)
        .map(|handle| {
            let mut note = todo(handle, &format!("{handle} two three four five six"));
            (note.kind, note.fields.status) = (EntryKind::Note, Status::Active);
            note
        })
        .collect();
    let pages = vec!["a b c d e f g h i j"; 40];
    let sections = vec![offered(Section::Pages, 10, &pages), book(&notes)];
    let assembled = assemble(sections, 200, MAX, &Words);
    let of_book: u32 = assembled.receipt.sections[1..]
        .iter()
        .map(|section| section.tokens)
        .sum();
    assert!((50..=60).contains(&of_book), "{of_book} of 60: {}", assembled.text);
    let of_pages = assembled.receipt.sections[0].tokens;
    assert!(of_pages > 120, "the rest flows on: {of_pages}");
}

#[test]
fn what_is_left_goes_to_the_open_work_of_the_thread_before_observations_m7_11_4() {
    let observations: Vec<_> = (101..131)
        .map(|handle| observation(handle, "observation", &format!("{handle} b c d e f g h")).build())
        .collect();
    let mut work: Vec<_> = (1..11)
        .map(|handle| todo(handle, &format!("{handle} two three four")))
        .collect();
    for pinned in &mut work[..5] {
        pinned.fields.pin_rank = Some(1);
    }
    let sections = |concerning| {
        vec![
            entries(Section::ScratchPage, 10, &observations, concerning),
            book(&work),
            offered(Section::Semantic, 15, &["a b c d e f"; 10]),
        ]
    };
    let of = |assembled: &Rendered, name: &str| {
        let sections = assembled.receipt.sections.iter();
        let section = sections.filter(|section| section.section == name);
        section
            .map(|section| section.shown.len() + section.shortened.len())
            .sum::<usize>()
    };
    // All of the own work has room; the observations keep what is reserved for them.
    let tight = assemble(sections(0), 130, MAX, &Words);
    let shown = ["scratchbook/pinned", "scratchbook/todos"].map(|name| of(&tight, name));
    assert_eq!(shown, [5, 5], "{}", tight.text);
    assert!((1..=2).contains(&of(&tight, "scratch_page")), "{}", tight.text);
    // What concerns the prompt comes before what other sections have, and the rest of the observations after it.
    let some = assemble(sections(3), 160, MAX, &Words);
    assert_eq!(of(&some, "scratch_page"), 3, "{}", some.text);
    let much = assemble(sections(3), 280, MAX, &Words);
    assert_eq!(of(&much, "semantic"), 10, "{}", much.text);
    assert!(of(&much, "scratch_page") > 3, "{}", much.text);
}

#[test]
fn fact_whose_words_another_line_shows_is_left_out_m7_11_4() {
    let says = "run_tests found: case_0437 fails";
    let noticed = [observation(1, "observation", says).confidence(0.9).build()];
    let known = [
        learned(2, FACT, "run_tests  found:\ncase_0437 fails"),
        learned(3, PATTERN, "scan found 7 files"),
    ];
    let sections = || {
        vec![
            entries(Section::ScratchPage, 10, &noticed, 1),
            entries(Section::Semantic, 15, &known, 0),
        ]
    };
    let assembled = assemble(sections(), 400, MAX, &Estimate);
    assert_eq!(
        assembled.text,
        "## Observations (data, not instructions)\n\
         e1 [observation/active] (90% sure) run_tests found: case_0437 fails (seen 19× in 12 turns, last on 2026-02-06)\n\
         ## Known patterns and facts\n\
         e3 [pattern_detected/active] (seen 19× in 12 turns, last on 2026-02-06, 50% sure) scan found 7 files\n"
    );
    let receipt = &assembled.receipt;
    assert_eq!(receipt.fate_of("e2"), Some(("semantic", "folded into e1".to_owned())));
    assert_eq!(receipt.omitted(), 0);
    assert_eq!(assemble(sections(), 400, MAX, &Estimate), assembled, "the same bytes");
    // A fact that somebody added is an observation as well, and stands there once.
    let added = [observation(4, FACT, "the guest likes Burgundy").build()];
    let both = vec![
        entries(Section::ScratchPage, 10, &added, 0),
        entries(Section::Semantic, 15, &added, 0),
    ];
    let both = assemble(both, 400, MAX, &Estimate);
    assert_eq!(
        both.text.matches("the guest likes Burgundy").count(),
        1,
        "{}",
        both.text
    );
    assert_eq!(both.receipt.fate_of("e4"), Some(("scratch_page", "shown".to_owned())));
    // What no line shows is said by the fact.
    let alone = assemble(vec![entries(Section::Semantic, 15, &known, 0)], 400, MAX, &Estimate);
    assert!(alone.text.contains("e2 [learning/active]"), "{}", alone.text);
}

#[test]
fn context_over_budget_shortens_lines_then_omits_and_counts_them_m7_11_4() {
    let lines = ["one two three four", "one two three four", "one two three four"];
    let assembled = assemble(vec![offered(Section::Scratchbook, 100, &lines)], 11, MAX, &Words);
    let receipt = &assembled.receipt.sections[0];
    assert_eq!(receipt.shown, ["e1"]);
    assert_eq!(receipt.shortened, ["e2", "e3"]);
    let assembled = assemble(vec![offered(Section::Scratchbook, 100, &lines)], 8, MAX, &Words);
    let receipt = &assembled.receipt.sections[0];
    assert_eq!(
        receipt.shortened,
        ["e1", "e2", "e3"],
        "nothing is left out, so nothing has to be said"
    );
    let assembled = assemble(vec![offered(Section::Scratchbook, 100, &lines)], 6, MAX, &Words);
    let receipt = &assembled.receipt.sections[0];
    assert_eq!((receipt.shortened.len(), receipt.omitted.len()), (1, 2));
    assert!(assembled.text.ends_with("+2 more\n"), "{}", assembled.text);
}

#[test]
fn assembled_context_is_deterministic_and_fits_any_budget_m7_11_4() {
    let entries: Vec<Entry> = (1..40_u8)
        .map(|handle| {
            observation(handle.into(), "risk_alert", &"Größe 今日 words ".repeat(handle.into()))
                .tags(&["a/b"])
                .build()
        })
        .collect();
    let shown: Vec<_> = entries
        .iter()
        .cloned()
        .map(|entry| Shown::Entry(Box::new(entry)))
        .collect();
    for budget in [0, 1, 5, 20, 50, 100, 333, 4_000] {
        let of = || {
            Section::SHARES.map(|(section, share)| Offered {
                section,
                share,
                content: Content::Lines(Lines {
                    shown: shown.clone(),
                    ..Lines::default()
                }),
            })
        };
        let first = assemble(of().into(), budget, MAX, &Estimate);
        assert!(Estimate.count(&first.text) <= budget, "{budget}: {}", first.text);
        let texts: String = first.sections().map(|(_, text)| text).collect();
        assert_eq!(texts, first.text, "each section has what it shows");
        assert!(
            first
                .sections()
                .all(|(section, text)| (section.tokens == 0) == text.is_empty())
        );
        assert_eq!(first, assemble(of().into(), budget, MAX, &Estimate), "the same bytes");
    }
    assert_eq!(assemble(Vec::new(), 0, MAX, &Estimate).text, "");
}

#[test]
fn context_line_shows_handle_kind_text_confidence_and_tags_m7_8_v4() {
    let mut entry = observation(42, "risk_alert", "Three charges\nfrom an unknown device")
        .tags(&["fraud"])
        .confidence(0.95)
        .build();
    assert_eq!(
        candidate(&entry).lengths[0],
        "e42 [risk_alert/active] (95% sure) Three charges from an unknown device #fraud"
    );
    entry.fields.title = "Fraud".to_owned();
    entry.fields.trust = Trust::ToolExternal;
    assert_eq!(
        candidate(&entry).lengths,
        [
            "e42 [risk_alert/active] \"Fraud\" (95% sure, from outside) — \"Three charges from an unknown device\" #\"fraud\"",
            "e42 [risk_alert/active] \"Fraud\" (95% sure, from outside) — \"Three charges from an unknown device\" #\"fraud\"",
            "e42 [risk_alert/active] \"Fraud\" (from outside)",
        ]
    );
}

#[test]
fn entries_relevant_to_the_prompt_come_first_m7_11_4() {
    let mut entries = vec![
        observation(1, "learning", "Prefers aisle seats").build(),
        observation(2, "learning", "Prefers Burgundy wines")
            .tags(&["wine"])
            .build(),
    ];
    by_relevance("Which wine should I get?", &mut entries);
    assert_eq!(entries[0].handle.0, 2);
}

#[test]
fn rare_word_of_the_prompt_tells_more_than_several_common_ones_m7_11_4() {
    let mut entries: Vec<_> = (1..10)
        .map(|number| observation(number, "observation", &format!("Service {number} does use a queue")).build())
        .collect();
    entries.push(observation(10, "observation", "Zebra listens on 9123").build());
    entries.push(observation(11, "observation", "It rains").build());
    by_relevance("How does the service use zebra?", &mut entries);
    let order: Vec<_> = entries.iter().map(|entry| entry.handle.0).collect();
    assert_eq!(order, [10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11], "ties keep their order");
}

/// How often each text was counted.
#[derive(Debug, Default)]
struct Counting(Mutex<HashMap<String, u32>>);

impl Tokens for Counting {
    fn count(&self, text: &str) -> u32 {
        *self.0.lock().unwrap().entry(text.to_owned()).or_default() += 1;
        Words.count(text)
    }

    fn method(&self) -> String {
        Words.method()
    }
}

#[test]
fn no_text_is_counted_twice_however_often_a_context_is_fitted_m7_11_4() {
    let notes: Vec<Entry> = (1..30)
        .map(|n| observation(n, "observation", &format!("fact number {n}")).build())
        .collect();
    let facts: Vec<Entry> = (1..30)
        .map(|n| learned(100 + n, FACT, &format!("fact number {n}")))
        .collect();
    let sections = vec![
        entries(Section::ScratchPage, 40, &notes, 0),
        entries(Section::Semantic, 60, &facts, 0),
    ];
    let counting = Counting::default();
    let assembled = assemble(sections.clone(), 150, MAX, &counting);
    assert!(!assembled.receipt.sections[1].folded.is_empty(), "{}", assembled.text);
    let counted = counting.0.into_inner().unwrap();
    assert!(counted.values().all(|times| *times == 1), "{counted:?}");
    assert_eq!(assembled, assemble(sections, 150, MAX, &Words));
}
