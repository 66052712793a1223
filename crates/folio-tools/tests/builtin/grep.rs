//! `grep`: lines in order, by pattern name, truncated and redacted.

use crate::support::{World, column};
use folio_tools::FailureKind;
use serde_json::json;

#[tokio::test]
async fn grep_returns_matches_in_order_with_line_column_and_context() {
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
async fn grep_matches_never_span_lines() {
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
async fn grep_names_the_matched_pattern_and_truncates_at_max() {
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
async fn grep_redact_hides_matched_secrets_and_line_tails() {
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
    // Nobody gets fewer lines than they asked for without being told.
    let error = world.error("grep", json!({"pattern": "x", "context": 21})).await;
    assert_eq!(error.kind, FailureKind::InvalidArgs);
    assert!(error.message.contains("20"), "{}", error.message);
}

#[tokio::test]
async fn grep_shortens_long_lines_around_the_match() {
    let world = World::new();
    world.file("min.js", format!("{}needle{}", "ä".repeat(50_000), "b".repeat(50_000)));
    let found = world.outputs("grep", json!({"pattern": "needle"})).await;
    let text = found["matches"][0]["text"].as_str().unwrap();
    assert_eq!(text.chars().count(), 300);
    assert!(text.starts_with("…ä") && text.contains("needle") && text.ends_with("b…"));
    assert_eq!(found["matches"][0]["column"], 50_001);
}

#[tokio::test]
async fn grep_explains_invalid_patterns_and_fixed_takes_them_literally() {
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
async fn grep_pattern_spanning_lines_searches_a_large_file_in_linear_time() {
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
async fn grep_finds_the_same_lines_with_line_spanning_patterns() {
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
        let found = world.outputs("grep", json!({"pattern": pattern})).await;
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
async fn grep_stops_within_a_large_file_when_cancelled() {
    let mut world = World::new();
    world.file("long.txt", "a\n".repeat(100_000));
    world.context.cancel.cancel();
    let stopped = world.error("grep", json!({"pattern": "a"})).await;
    assert_eq!(stopped.kind, FailureKind::Cancelled);
    world.context.cancel = Default::default();
    assert_eq!(world.outputs("grep", json!({"pattern": "a"})).await["count"], 100_000);
}

#[tokio::test]
async fn grep_ignores_byte_order_mark_before_the_first_line() {
    let world = World::new();
    world.file("bom.txt", "\u{feff}foo\nbar\n");
    let found = world.outputs("grep", json!({"pattern": "^foo$"})).await;
    assert_eq!(
        (&found["count"], &found["matches"][0]["column"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn grep_is_truncated_when_folders_exceed_the_walk_depth() {
    let world = World::new().with_limits(|limits| limits.walk_depth = 2);
    world.file("a/b/c/d.txt", "secret");
    let found = world.outputs("grep", json!({"pattern": "secret"})).await;
    assert_eq!((&found["count"], &found["truncated"]), (&json!(0), &json!(true)));
}
