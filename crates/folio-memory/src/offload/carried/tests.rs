use serde_json::{Value, json};

use super::super::{Extract, Loss, StandInText, extract, fit_stand_in, stand_in_head, summary_title};
use super::*;
use crate::id::EntryHandle;

fn fitted(body: &str, bytes: usize) -> String {
    let summary = StandInText {
        title: "Summary",
        handle: EntryHandle(8),
        body,
    };
    let fits = |text: &str| text.len() <= bytes;
    fit_stand_in(summary, StandInText::NONE, Loss::Any, |parts| parts.concat(), fits).unwrap()
}

fn rules() -> Vec<String> {
    ["Never push.", "Always test."].map(str::to_owned).into()
}

fn touching(paths: std::ops::Range<u32>, found: Extract) -> Extract {
    let call = |n| json!({"id": format!("c{n}"), "name": "read", "arguments": {"path": format!("part{n}.py")}});
    let calls: Vec<Value> = paths.map(call).collect();
    let list = json!([{"role": "assistant", "content": "", "tool_calls": calls}]);
    extract(found, &Message::read_all(&list).unwrap(), &|_| true)
}

#[test]
fn long_paragraph_is_shortened_to_what_fits_m7_8_v8() {
    let paragraph = with_rules(&"word ".repeat(2_000), &rules(), 16 * 1024);
    for bytes in [400, 1_000, 4_000, 8_000] {
        let text = fitted(&paragraph, bytes);
        assert!(text.len() > bytes - 20, "{} of {bytes}", text.len());
        assert!(
            text.ends_with("The user said:\n- Never push.\n- Always test."),
            "{text}"
        );
    }
}

#[test]
fn lines_of_a_compactor_go_before_the_rules_of_the_user_m7_8_v8() {
    let lines: String = (0..60)
        .map(|n| format!("Part {n} holds nothing of importance.\n"))
        .collect();
    let body = with_rules(&lines, &rules(), 16 * 1024);
    let text = fitted(&body, 700);
    assert!(text.contains("Part 0 holds") && text.contains("more, in e8"), "{text}");
    assert!(text.ends_with("- Never push.\n- Always test."), "{text}");
}

#[test]
fn rules_are_added_to_a_summary_and_taken_off_again_m7_8_v8() {
    let text = "GOAL: find it.\nThe user said:\n- hello";
    let body = with_rules(text, &rules(), 16 * 1024);
    assert_eq!(without_rules(&body), text);
    assert_eq!(with_rules(text, &[], 9), text);
    let long = with_rules(&"word ".repeat(99), &rules(), 100);
    assert!(long.len() <= 100 && long.ends_with("- Always test."), "{long}");
}

#[test]
fn what_a_summary_takes_over_is_told_apart_from_its_own_m7_8_v8() {
    let found = Extract {
        request: Some("Go on".to_owned()),
        obligations: rules(),
        ..Extract::default()
    };
    let text = carried("GOAL: find it.\n\n- It is in part 7.\nThe user said:\n- hello");
    let body = found.summary_after(&text);
    assert_eq!(
        body,
        "Last request: Go on\nSummarized before:\nGOAL: find it.\n- It is in part 7.\n- hello\nThe user said:\n\
         - Never push.\n- Always test.\n"
    );
    assert_eq!(carried_in(&body), text);
    assert_eq!(without_carried(&body), found.summary().trim_end());
    assert_eq!(carried_in(&found.summary()), "");
    assert_eq!(without_carried(&found.summary()), found.summary());
    // Without any rule, all below the line is what was taken over.
    let body = Extract::default().summary_after(&text);
    assert_eq!(carried_in(&body), text);
    assert!(carried(&"long ".repeat(9_000)).len() <= 8 * 1024);
}

#[test]
fn first_request_is_kept_beside_the_last_m7_8_v8() {
    let said = |text: &str| Message::read_all(&json!([{"role": "user", "content": text}])).unwrap();
    let first = extract(Extract::default(), &said("Find the bugs of tally."), &|_| true);
    assert_eq!(first.summary(), "Last request: Find the bugs of tally.\n");
    let kept = serde_json::from_value(json!(first)).unwrap();
    let then = extract(kept, &said("Go on"), &|_| true);
    assert_eq!(
        then.summary(),
        "First request: Find the bugs of tally.\nLast request: Go on\n"
    );
    // Whoever deletes the line decides that it is not carried on.
    assert_eq!(then.retain_mentioned_in("Last request: Go on").first, None);
    // What an earlier version kept does not say what came first.
    let old = serde_json::from_value(json!({"request": "Go on"})).unwrap();
    assert_eq!(extract(old, &said("And then?"), &|_| true).first, None);
}

#[test]
fn summary_says_how_many_others_were_touched_m7_8_v8() {
    let found = touching(0..29, Extract::default());
    let summary = found.summary();
    assert!(
        summary.starts_with("Touched: +9 more, part9.py, part10.py,"),
        "{summary}"
    );
    // One that is touched again is not counted twice.
    let again = touching(0..1, serde_json::from_value(json!(found)).unwrap()).summary();
    assert!(again.starts_with("Touched: +9 more, part10.py,"), "{again}");
    assert!(again.ends_with("part28.py, part0.py\n"), "{again}");
    assert!(
        touching(0..20, Extract::default())
            .summary()
            .starts_with("Touched: part0.py")
    );
    // Where space is short, those that are left out are counted with them.
    let short = fitted(&summary, 80);
    let (left, named) = (29 - short.matches("part").count(), short.split(", ").nth(1));
    assert!(short.contains(&format!("Touched: +{left} more, ")), "{short}");
    assert!(named.is_some_and(|name| name.starts_with("part")), "{short}");
}

#[test]
fn stand_in_of_another_history_says_its_summary_only_m7_8_v8() {
    let head = stand_in_head(&[(1, 9)], EntryHandle(7));
    let message = |text: &str| {
        Message::read_all(&json!([{"role": "user", "content": text}]))
            .unwrap()
            .remove(0)
    };
    for first in [1, 5] {
        let title = summary_title(first, 9);
        let text = format!("{head}\nSearch with history_search.\n\n{title} (e8):\nGOAL: find it.\n");
        assert_eq!(carried_of(&message(&text)).unwrap(), "GOAL: find it.");
        let with_view = format!("{text}\nNext actions (e9):\n- Look.\n\n{HEADING}\n- [e3] A note.\n");
        let carried = carried_of(&message(&with_view)).unwrap();
        assert_eq!(carried, "GOAL: find it.\nNext actions (e9):\n- Look.");
    }
    assert_eq!(carried_of(&message("[e7]")).unwrap(), "");
    assert_eq!(carried_of(&message("GOAL: find it.")), None);
}
