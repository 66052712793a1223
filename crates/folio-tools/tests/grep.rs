//! `grep`: lines in order, by pattern name, truncated and redacted.

mod support;

use folio_tools::FailureKind;
use serde_json::json;
use support::{World, column};

#[tokio::test]
async fn lines_are_found_in_order_with_their_place() {
    let world = World::new();
    world.file("b.rs", "// TODO: later\r\nfn x() {} // TODO again, TODO\r\n");
    world.file("a/c.rs", "nothing\n\n  TODO");
    world.file("a/d.txt", "TODO\n");
    let found = world
        .outputs("grep", json!({"pattern": "TODO", "glob": "*.rs", "context": 1}))
        .await;
    insta::assert_json_snapshot!(found, @r#"
    {
      "count": 3,
      "files": 2,
      "files_searched": 2,
      "matches": [
        {
          "before": [
            ""
          ],
          "column": 3,
          "line": 3,
          "path": "a/c.rs",
          "text": "  TODO"
        },
        {
          "after": [
            "fn x() {} // TODO again, TODO"
          ],
          "column": 4,
          "line": 1,
          "path": "b.rs",
          "text": "// TODO: later"
        },
        {
          "before": [
            "// TODO: later"
          ],
          "column": 14,
          "line": 2,
          "path": "b.rs",
          "text": "fn x() {} // TODO again, TODO"
        }
      ],
      "skipped_binary": 0,
      "skipped_large": 0,
      "truncated": false,
      "unreadable": 0
    }
    "#);
}

#[tokio::test]
async fn patterns_never_match_over_the_end_of_a_line() {
    let world = World::new();
    world.file("x.txt", "a\nb\n\nab\r\nc b\n");
    let lines = async |pattern: &str| {
        let found = world.outputs("grep", json!({"pattern": pattern})).await;
        let lines: Vec<u64> = found["matches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["line"].as_u64().unwrap())
            .collect();
        assert_eq!(found["count"], lines.len());
        lines
    };
    assert_eq!(lines(r"a\s*b").await, [4]);
    assert_eq!(lines("^b$").await, [2]);
    assert_eq!(lines("b$").await, [2, 4, 5]);
    assert_eq!(lines("^$").await, [3]);
    assert_eq!(lines("(?s)a.*c").await, [0; 0]);
    assert_eq!(lines("x*").await, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn several_patterns_are_told_apart_and_matches_can_be_cut() {
    let world = World::new();
    world.file("m.py", "# FIXME one TODO\n# TODO two\n# FIXME three\n");
    let patterns = json!([{"name": "todo", "pattern": "TODO"}, {"name": "fixme", "pattern": "FIXME"}]);
    let found = world.outputs("grep", json!({"patterns": patterns, "max": 3})).await;
    let rows: Vec<(u64, &str)> = found["matches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["line"].as_u64().unwrap(), row["name"].as_str().unwrap()))
        .collect();
    assert_eq!(rows, [(1, "fixme"), (1, "todo"), (2, "todo")]);
    assert_eq!((&found["count"], &found["truncated"]), (&json!(4), &json!(true)));
}

#[tokio::test]
async fn a_secret_never_leaves_its_file() {
    let world = World::new();
    world.file(
        "conf.py",
        "key = 'AKIA1234567890ABCDEF' + 'tail-of-secret'\npassword = hunter2 # AKIA1234567890ABCDEF\n",
    );
    let response = world
        .call(
            "grep",
            json!({"redact": true, "patterns": [
                {"name": "aws", "pattern": "AKIA[0-9A-Z]{16}"},
                {"name": "password", "pattern": r"password\s*="},
            ]}),
        )
        .await;
    assert_eq!(
        column(&response.outputs["matches"], "text"),
        ["key = '[aws]…", "[password]…", "[password]…"]
    );
    let text = serde_json::to_string(&response).unwrap();
    for secret in ["AKIA1", "tail-of-secret", "hunter2"] {
        assert!(!text.contains(secret));
    }
    let error = world
        .error("grep", json!({"pattern": "x", "redact": true, "context": 2}))
        .await;
    assert_eq!(error.kind, FailureKind::InvalidArgs);
}

#[tokio::test]
async fn a_very_long_line_is_shown_around_the_match() {
    let world = World::new();
    world.file("min.js", format!("{}needle{}", "ä".repeat(50_000), "b".repeat(50_000)));
    let found = world.outputs("grep", json!({"pattern": "needle"})).await;
    let text = found["matches"][0]["text"].as_str().unwrap();
    assert_eq!(text.chars().count(), 300);
    assert!(text.starts_with("…ä") && text.contains("needle") && text.ends_with("b…"));
    assert_eq!(found["matches"][0]["column"], 50_001);
}

#[tokio::test]
async fn a_pattern_that_cannot_be_read_is_explained() {
    let world = World::new();
    let error = world.error("grep", json!({"pattern": "a("})).await;
    assert_eq!(error.message, "grep: cannot read the pattern `a(`: unclosed group");
    world.file("a.c", "call(a(");
    let found = world
        .outputs("grep", json!({"pattern": "A(", "fixed": true, "ignore_case": true}))
        .await;
    assert_eq!(found["count"], 1);
    assert!(
        world
            .error("grep", json!({"pattern": "(a{1000}){1000}"}))
            .await
            .message
            .contains("size limit")
    );
}

#[tokio::test]
async fn a_pattern_that_goes_over_the_ends_of_lines_costs_one_pass_and_finds_the_same_lines() {
    let world = World::new();
    // Held against all the rest after each line, this would take hours.
    world.file("long.txt", "a\n".repeat(1_000_000) + "b\nab\n");
    let found = world.outputs("grep", json!({"pattern": r"a[\s\S]*b"})).await;
    assert_eq!(
        (&found["count"], &found["matches"][0]["line"]),
        (&json!(1), &json!(1_000_002))
    );
    // A match in one line that is found only after a look at all the rest is no better.
    let found = world.outputs("grep", json!({"pattern": r"a[\s\S]*c|b"})).await;
    assert_eq!(found["count"], 2);
    let found = world.outputs("grep", json!({"pattern": "^a$", "max": 3})).await;
    assert_eq!(
        (&found["count"], &found["matches"][2]["line"]),
        (&json!(1_000_000), &json!(3))
    );
}

#[tokio::test]
async fn lines_are_the_same_however_often_the_rest_is_searched_at_once() {
    let world = World::new();
    let text: String = (0..100).map(|n| format!("line {n}\n{}", "\n".repeat(n % 3))).collect();
    world.file("many.txt", &text);
    let lines: Vec<u64> = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| line.ends_with('7'))
        .map(|(_, number)| number)
        .collect();
    for pattern in ["7$", r"7\s*$", r"(?:7)(?:\n)*"] {
        let found = world.outputs("grep", json!({"pattern": pattern, "fixed": false})).await;
        let told: Vec<u64> = found["matches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["line"].as_u64().unwrap())
            .filter(|line| lines.contains(line))
            .collect();
        assert_eq!(told, lines, "{pattern}");
    }
}

#[tokio::test]
async fn a_search_within_a_file_is_stopped() {
    let mut world = World::new();
    world.file("long.txt", "a\n".repeat(100_000));
    world.context.cancel.cancel();
    let stopped = world.error("grep", json!({"pattern": "a"})).await;
    assert_eq!(stopped.kind, FailureKind::Cancelled);
    world.context.cancel = Default::default();
    assert_eq!(world.outputs("grep", json!({"pattern": "a"})).await["count"], 100_000);
}

#[tokio::test]
async fn a_mark_in_front_of_a_text_is_no_part_of_its_first_line() {
    let world = World::new();
    world.file("bom.txt", "\u{feff}foo\nbar\n");
    let found = world.outputs("grep", json!({"pattern": "^foo$"})).await;
    assert_eq!(
        (&found["count"], &found["matches"][0]["column"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn folders_that_are_too_deep_make_a_search_one_of_a_part() {
    let world = World::new().with_limits(|limits| limits.walk_depth = 2);
    world.file("a/b/c/d.txt", "secret");
    let found = world.outputs("grep", json!({"pattern": "secret"})).await;
    assert_eq!((&found["count"], &found["truncated"]), (&json!(0), &json!(true)));
}
