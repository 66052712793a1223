//! Reaching a limit is reported, and a call that is cancelled ends soon.

use std::time::Duration;

use crate::support::{World, column};
use folio_tools::FailureKind;
use serde_json::json;

#[tokio::test]
async fn list_is_truncated_at_the_walk_entry_limit() {
    let world = World::new().with_limits(|limits| limits.walk_entries = 10);
    for file in 0..20 {
        world.file(&format!("f{file:02}"), "");
    }
    let response = world.call("list", json!({})).await;
    assert_eq!(
        (&response.outputs["count"], &response.outputs["truncated"]),
        (&json!(10), &json!(true))
    );
    assert!(
        response
            .notes
            .ends_with("there are more entries than one walk looks at")
    );
}

#[tokio::test]
async fn list_counts_folders_beyond_the_walk_depth() {
    let world = World::new().with_limits(|limits| limits.walk_depth = 3);
    world.file("a/b/c/in.txt", "");
    world.file("a/b/c/d/out.txt", "");
    let response = world.call("list", json!({})).await;
    assert_eq!(column(&response.outputs["files"], "path"), ["a/b/c/in.txt"]);
    assert_eq!(response.notes, "1 file, 0 bytes; 1 folder is too deep");
    let below = world.outputs("list", json!({"path": "a/b"})).await;
    assert_eq!(below["count"], 2);
}

#[tokio::test]
async fn list_survives_two_hundred_nested_folders() {
    let world = World::new();
    let script = "for i in $(seq 200); do mkdir d && cd d || exit 1; done; touch end";
    let made = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(world.repo())
        .status()
        .unwrap();
    assert!(made.success());
    let response = world.call("list", json!({})).await;
    assert_eq!(response.notes, "0 files, 0 bytes; 1 folder is too deep");
}

#[tokio::test]
async fn grep_skips_and_counts_files_over_the_size_limit() {
    let world = World::new().with_limits(|limits| limits.grep_file_bytes = 10);
    world.file("large", "needle needle");
    world.file("small", "needle");
    let response = world.call("grep", json!({"pattern": "needle"})).await;
    assert_eq!(column(&response.outputs["matches"], "path"), ["small"]);
    assert_eq!(response.notes, "1 matching line in 1 file; 1 large file skipped");
}

#[tokio::test]
async fn grep_truncates_matches_to_the_output_limit() {
    let world = World::new().with_limits(|limits| limits.output_bytes = 100_000);
    world.file("many", format!("{}\n", "x".repeat(280)).repeat(5_000));
    let found = world
        .outputs("grep", json!({"pattern": "x", "max": 20_000, "context": 20}))
        .await;
    assert_eq!((&found["count"], &found["truncated"]), (&json!(5_000), &json!(true)));
    assert!(found["matches"].as_array().unwrap().len() >= 4);
}

#[tokio::test]
async fn read_of_a_file_over_the_scan_limit_omits_total_lines() {
    let world = World::new().with_limits(|limits| limits.scan_bytes = 1_000);
    world.file("large", "0123456789\n".repeat(20_000));
    let read = world.outputs("read", json!({"path": "large", "to_line": 2})).await;
    assert_eq!(read["text"], "0123456789\n0123456789\n");
    assert_eq!(read["total_lines"], json!(null));
    let read = world
        .outputs("read", json!({"path": "large", "from_line": 15_000, "to_line": 15_000}))
        .await;
    assert_eq!(read["text"], "0123456789\n");
    assert_eq!(read["from_line"], 15_000);
}

/// Set for a process in which file permissions hold.
const UNPRIVILEGED: &str = "FOLIO_TEST_UNPRIVILEGED";

#[tokio::test]
async fn list_counts_unreadable_folders() {
    let world = World::new();
    world.file("open.txt", "x");
    world.file("closed/x.txt", "x");
    let closed = world.repo().join("closed");
    let mode = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o000);
    if std::fs::read_dir(&closed).is_ok() {
        // Root may read any folder, so this test is repeated in a process that may not.
        assert!(
            std::env::var_os(UNPRIVILEGED).is_none(),
            "file permissions do not hold here"
        );
        let less = "-dac_override,-dac_read_search";
        let mut again = std::process::Command::new("setpriv");
        again
            .args(["--inh-caps", less, "--bounding-set", less])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "limits::list_counts_unreadable_folders"])
            .env(UNPRIVILEGED, "1");
        let ended = again.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let listed = world.outputs("list", json!({})).await;
    mode(0o755);
    assert_eq!((&listed["count"], &listed["unreadable"]), (&json!(1), &json!(1)));
}

/// A folder that takes a while to search.
fn slow() -> World {
    let world = World::new();
    let line = format!("{}\n", "abcdefghij ".repeat(10));
    for file in 0..40 {
        world.file(&format!("f{file}"), line.repeat(10_000));
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn grep_with_an_expensive_pattern_ends_when_cancelled() {
    let world = slow();
    let cancel = world.context.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        cancel.cancel();
    });
    let error = world
        .error(
            "grep",
            json!({"pattern": "(a|b|c|d|e)[a-j ]{5,60}k", "ignore_case": true}),
        )
        .await;
    assert_eq!(error.kind, FailureKind::Cancelled);
}

/// A call of `text` that takes minutes.
fn slow_text() -> serde_json::Value {
    let items: Vec<u32> = (0..20_000).collect();
    json!({"op": "map", "value": items, "template": "{% for _ in range(5000) %}{% endfor %}"})
}

#[tokio::test]
async fn text_that_takes_long_leaves_the_thread_to_others_and_ends_when_cancelled() {
    let world = World::new();
    let cancel = world.context.cancel.clone();
    // There is one thread: a call that kept it would let nothing cancel it.
    let (error, ()) = tokio::join!(world.error("text", slow_text()), async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        cancel.cancel();
    });
    assert_eq!(error.kind, FailureKind::Cancelled);
}

#[tokio::test]
async fn text_that_takes_long_is_dropped_at_its_time_limit() {
    let world = World::new();
    let timed_out = tokio::time::timeout(Duration::from_millis(30), world.call("text", slow_text())).await;
    assert!(timed_out.is_err());
}

#[tokio::test]
async fn grep_bounds_the_memory_of_all_patterns_together() {
    let world = World::new();
    let one = json!({"name": "p", "pattern": r"\w{100}"});
    world.outputs("grep", json!({"patterns": [one]})).await;
    let error = world.error("grep", json!({"patterns": vec![one; 200]})).await;
    assert!(error.message.contains("size limit"), "{}", error.message);
}
