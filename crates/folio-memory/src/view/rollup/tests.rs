//! What pages have come to, and what planners and executors are told of it.

use super::super::prompt::planner_block;
use super::lines::entry_text;
use super::*;
use crate::actor::Trust;
use crate::change::{NewEntry, NewPage};
use crate::entry::{EntryFields, EntryKind, ImportedTimes, Owner};
use crate::id::{EntryHandle, EntryId, PageHandle, PageId, RunId, Seq};
use crate::page::{PageFields, PageRole};
use crate::time::Timestamp;
use crate::tokens::{Estimate, Vocabulary};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn page(handle: u64, role: PageRole, title: &str, status: &str) -> Page {
    let mut fields = PageFields::new(role, title, Owner::executor());
    status.clone_into(&mut fields.status);
    fields.branch_id = (role == PageRole::ScratchpadExec).then(|| title.to_lowercase().replace(' ', "-"));
    fields.run = Some(RunId::derived(&["run"]));
    let id = PageId::derived(&[&handle.to_string()]);
    Page::added(NewPage { id, fields }, PageHandle(handle), Seq(handle), NOW)
}

fn tail(page: Page, entries: &[(u64, EntryKind, &str, &str)]) -> PageTail {
    let tail = entries.iter().map(|(handle, kind, title, body)| {
        let mut fields = EntryFields::new(*kind, Owner::executor(), Trust::Model);
        (fields.title, fields.body) = ((*title).to_owned(), (*body).to_owned());
        let id = EntryId::derived(&[&handle.to_string()]);
        let new = NewEntry {
            id,
            page: page.id,
            kind: *kind,
            fields,
        };
        Entry::added(new, EntryHandle(*handle), Seq(*handle), NOW)
    });
    PageTail {
        tail: tail.collect(),
        page,
    }
}

fn some_pages() -> Vec<PageTail> {
    let exec = PageRole::ScratchpadExec;
    vec![
        tail(
            page(3, exec, "List files", "ok"),
            &[
                (5, EntryKind::Log, "Began", ""),
                (
                    6,
                    EntryKind::Log,
                    "Result",
                    "412 files in 31 folders\nmost of them Rust",
                ),
                (9, EntryKind::Log, "Ended", "ok after 2 s"),
            ],
        ),
        tail(
            page(4, exec, "Read the hot files", "open"),
            &[
                (7, EntryKind::Log, "Began", ""),
                (8, EntryKind::Summary, "", "Three files change with every release"),
                (10, EntryKind::Log, "Called read", "src/lib.rs"),
            ],
        ),
        tail(page(5, exec, "Write the report", "open"), &[]),
    ]
}

#[test]
fn roll_up_shows_each_page_with_its_newest_entries_m7_8_v10() {
    insta::assert_snapshot!(rollup(&some_pages(), 400, &Vocabulary::O200k).text, @r"
    p3 [scratchpad_exec/ok] List files (list-files; last change e9)
      e5 Began
      e6 Result: 412 files in 31 folders most of them Rust
      e9 Ended: ok after 2 s
    p4 [scratchpad_exec/open] Read the hot files (read-the-hot-files; last change e10)
      e7 Began
      e8 Three files change with every release
      e10 Called read: src/lib.rs
    p5 [scratchpad_exec/open] Write the report (write-the-report)
    ");
}

#[test]
fn roll_up_fits_its_budget_in_whole_lines_with_receipt_m7_8_v10() {
    let pages = some_pages();
    let whole: Vec<String> = rollup(&pages, 10_000, &Estimate)
        .text
        .lines()
        .map(str::to_owned)
        .collect();
    for budget in 0..400 {
        let rendered = rollup(&pages, budget, &Estimate);
        assert!(Estimate.count(&rendered.text) <= budget, "{budget}");
        let lines: Vec<&str> = rendered.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let is_notice = at + 1 == lines.len() && line.starts_with('+');
            if lines.len() == 1 && whole.iter().any(|known| known.starts_with(line)) {
                // A single line may be cut.
                assert!(line.len() >= 2, "{line:?} is half a name");
                continue;
            }
            assert!(is_notice || whole.iter().any(|known| known == line), "{line:?} is cut");
        }
        let receipt = &rendered.receipt.sections[0];
        let all = receipt.shown.len() + receipt.shortened.len() + receipt.omitted.len();
        assert_eq!(all, 3 + 6, "each once");
        let names = lines.iter().filter(|line| line.starts_with('p')).count();
        let has_entries = lines.iter().any(|line| line.starts_with("  "));
        assert!(
            names == 3 || !has_entries,
            "first a line for each page: {}",
            rendered.text
        );
    }
}

#[test]
fn roll_up_cuts_the_newest_page_line_only_if_necessary_m7_8_v10() {
    let pages = some_pages();
    let heading = pages[1].heading();
    let fits = Estimate.count(&heading);
    for budget in 0..fits + 60 {
        let text = rollup(&pages, budget, &Estimate).text;
        let line = text.lines().next().unwrap_or_default();
        if budget >= fits {
            assert_eq!(line, heading, "{budget}");
        } else if budget >= Estimate.count("p4") {
            assert!(
                line.starts_with("p4") && heading.starts_with(line),
                "{budget}: {line:?}"
            );
        } else {
            assert_eq!(text, "", "{budget}: half a handle is somebody else's");
        }
    }
}

#[test]
fn roll_up_without_room_for_all_pages_keeps_the_newest_m7_8_v10() {
    let pages: Vec<_> = (1..=20)
        .map(|n| {
            let page = page(n, PageRole::ScratchpadExec, &format!("Page {n}"), "open");
            tail(page, &[(100 + n, EntryKind::Log, "Began", "")])
        })
        .collect();
    let text = rollup(&pages, 120, &Vocabulary::O200k).text;
    let shown: Vec<_> = text.lines().filter(|line| line.starts_with('p')).collect();
    assert!((2..19).contains(&shown.len()), "{text}");
    let names: Vec<_> = shown
        .iter()
        .map(|line| line.split_once(' ').unwrap().0.to_owned())
        .collect();
    let newest: Vec<_> = (21 - shown.len()..=20).map(|n| format!("p{n}")).collect();
    assert_eq!(names, newest, "the last ones, in their order");
}

#[test]
fn roll_up_with_enough_room_is_shown_whole_m7_8_v10() {
    let pages = some_pages();
    for pages in [&pages[..1], &pages[2..], &pages[..]] {
        let whole = rollup(pages, 10_000, &Estimate);
        let room = pages
            .iter()
            .map(|page| Estimate.count(&format!("{}\n", page.heading())));
        let lines = pages.iter().flat_map(|page| &page.tail);
        let room: u32 = room
            .chain(lines.map(|entry| Estimate.count(&format!("  {} {}\n", entry.handle, entry_text(entry)))))
            .sum();
        assert_eq!(rollup(pages, room, &Estimate).text, whole.text);
    }
}

#[test]
fn roll_up_in_a_system_prompt_quotes_no_external_text_m7_8_v11() {
    let mut from_outside = some_pages().remove(0);
    from_outside.tail[1].fields.trust = Trust::ToolExternal;
    let beside = from_outside.candidate_for(Audience::Message);
    assert!(beside.lengths[0].contains("(from outside) \"Result: 412 files"));
    assert_eq!(
        line_of(&from_outside),
        "p3 [scratchpad_exec/ok] List files (list-files; last change e9); e9 Ended: ok after 2 s"
    );
    from_outside.page.fields.brought = Some(ImportedTimes {
        created_at: NOW,
        updated_at: NOW,
    });
    assert_eq!(
        line_of(&from_outside),
        "p3 [scratchpad_exec/ok] (brought in) (last change e9); e9 Ended: ok after 2 s"
    );
    from_outside.tail[1].fields.trust = Trust::Model;
    assert!(
        line_of(&from_outside).contains("] List files"),
        "brought from a place that is believed"
    );
    from_outside.tail.clear();
    assert_eq!(line_of(&from_outside), "p3 [scratchpad_exec/ok] (brought in)");
}

fn line_of(page: &PageTail) -> String {
    page.candidate_for(Audience::System).lengths[0].clone()
}

fn planner_lines(page: &PageTail) -> PageLines {
    PageLines::for_planner(&page.page, &page.tail)
}

#[test]
fn kept_page_lines_equal_those_read_from_entries_m7_8_v10() {
    for page in some_pages() {
        let mut kept = PageLines::of_new(&PageFields {
            status: "open".to_owned(),
            ..page.page.fields.clone()
        });
        assert!(!kept.has_handle());
        kept.set_handle(page.page.handle);
        kept.set_status(&page.page.fields.status);
        for entry in &page.tail {
            kept.add(entry, 2);
            assert!(kept.has_entry(entry.id));
        }
        let last_two = page.tail.len().saturating_sub(2);
        assert_eq!(kept, PageLines::for_planner(&page.page, &page.tail[last_two..]));
        assert_eq!(kept.last_at(), page.tail.last().map_or(0, |entry| entry.handle.0));
    }
}

#[test]
fn planner_block_shows_main_and_executor_scratchpads_seed_000() {
    let main = tail(
        page(2, PageRole::ScratchpadRoot, "Review", "open"),
        &[
            (4, EntryKind::Log, "Plan", "three steps"),
            (11, EntryKind::Log, "Next", "the report"),
        ],
    );
    let (main, pages) = (
        planner_lines(&main),
        some_pages().iter().map(planner_lines).collect::<Vec<_>>(),
    );
    insta::assert_snapshot!(planner_block(&main, &pages[..2], &PageCounts::default(), 170, &Vocabulary::O200k), @r"
    Main scratchpad:
    p2 [scratchpad_root/open] Review (last change: Next)
      Plan: three steps
      Next: the report
    Executor scratchpads:
    p4 [scratchpad_exec/open] Read the hot files (read-the-hot-files; last change: Called read)
      Began
      Three files change with every release
      Called read: src/lib.rs
    p3 [scratchpad_exec/ok] List files (list-files; last change: Ended)
      Began
      Result: 412 files in 31 folders most of them Rust
      Ended: ok after 2 s
    ");
    assert_eq!(
        planner_block(&main, &[], &PageCounts::default(), 10, &Vocabulary::O200k),
        ""
    );
    for budget in 0..400 {
        let told = planner_block(&main, &pages, &PageCounts::settled(3), budget, &Vocabulary::O200k);
        assert!(Vocabulary::O200k.count(&told) <= budget);
    }
}

#[test]
fn planner_block_lists_failed_then_running_then_successful_pages_e9_16() {
    let executor = |handle: u64, title: &str, status: &str| {
        let entries = [(10 + handle, EntryKind::Log, "Ended", "as it did")];
        planner_lines(&tail(page(handle, PageRole::ScratchpadExec, title, status), &entries))
    };
    let main = planner_lines(&tail(page(2, PageRole::ScratchpadRoot, "Review", "open"), &[]));
    let pages = [
        executor(3, "First", "ok"),
        executor(4, "Second", "ok"),
        executor(5, "Third", "open"),
        executor(6, "Fourth", "partial"),
        executor(7, "Fifth", "failed"),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for budget in 0..400 {
        let block = planner_block(&main, &pages, &PageCounts::default(), budget, &Vocabulary::O200k);
        let (_, executors) = block.split_once("Executor scratchpads:\n").unwrap_or_default();
        let titles = executors
            .lines()
            .filter_map(|line| line.split("] ").nth(1)?.split(' ').next());
        let titles: Vec<&str> = titles.collect();
        seen.insert(titles.join(" "));
    }
    // Each is told as far as there is room, and in the end there is room for all.
    let order = "Fourth Fifth Third Second First";
    for told in &seen {
        assert!(order.starts_with(told.as_str()), "{told}");
    }
    assert!(
        seen.contains("Fourth Fifth Third Second") && seen.contains(order),
        "{seen:?}"
    );
}

#[test]
fn planner_block_counts_omitted_pages_by_status_e9_16() {
    let executor = |handle: u64, status: &str| {
        let title = format!("Step {handle}");
        planner_lines(&tail(page(handle, PageRole::ScratchpadExec, &title, status), &[]))
    };
    let main = planner_lines(&tail(page(2, PageRole::ScratchpadRoot, "Review", "open"), &[]));
    let statuses = ["ok", "ok", "superseded", "open", "partial", "failed", "failed"];
    let pages: Vec<_> = (3..)
        .zip(statuses)
        .map(|(handle, status)| executor(handle, status))
        .collect();
    let mut more = PageCounts::settled(40);
    for status in ["failed", "open", "mended with\nsomething that is quite long"] {
        more.add(status);
    }
    assert_eq!(more.count(), 43);
    let whole = planner_block(&main, &pages, &more, 4_000, &Vocabulary::O200k);
    let rest =
        "and 43 more, which ended well or longer ago (1 failed, 1 mended with somethi…, 1 open, 40 ok or superseded)\n";
    assert!(whole.contains(rest) && !whole.contains("more pages"), "{whole}");
    let mut notices = Vec::new();
    for budget in (0..400).rev() {
        let block = planner_block(&main, &pages, &more, budget, &Vocabulary::O200k);
        notices.extend(block.lines().find(|line| line.starts_with('+')).map(str::to_owned));
    }
    notices.dedup();
    assert_eq!(
        notices,
        [
            "+2 more pages (2 ok or superseded)",
            "+3 more pages (3 ok or superseded)",
            "+4 more pages (1 open, 3 ok or superseded)",
            "+5 more pages (1 failed, 1 open, 3 ok or superseded)",
            "+6 more pages (2 failed, 1 open, 3 ok or superseded)",
        ]
    );
    // Many pages with unusual statuses do not make the line long.
    let mut odd = PageCounts::default();
    (0..100).for_each(|nth| odd.add(&format!("odd {nth}")));
    assert!(
        odd.in_words().len() < 200 && odd.in_words().ends_with("92 otherwise"),
        "{}",
        odd.in_words()
    );
}

#[test]
fn line_of_an_entry_without_a_body_shows_its_lists_m7_8_v10() {
    let mut block = tail(
        page(3, PageRole::ScratchpadExec, "List files", "ok"),
        &[
            (5, EntryKind::Log, "Criteria", ""),
            (6, EntryKind::Log, "Sent back", "once more"),
        ],
    );
    let parts = serde_json::json!({"results": ["c1: met", "c2: unmet:\nno bill"]});
    for entry in &mut block.tail {
        entry.fields.parts = Some(parts.clone());
    }
    let lines: Vec<String> = block.tail.iter().map(entry_text).collect();
    assert_eq!(lines, ["Criteria: c1: met; c2: unmet: no bill", "Sent back: once more"]);
}
