//! `list`, `read`, `grep` and `write` on ordinary and odd files.

mod support;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use folio_tools::{FailureKind, RunFolder};
use serde_json::json;
use support::{World, column, put};

#[tokio::test]
async fn files_are_listed_in_the_order_of_their_paths_with_sizes_and_languages() {
    let world = World::new();
    world.file("a/b.rs", "fn main() {}\n");
    world.file("a.txt", "one\ntwo");
    world.file("a/z/c.RS", "");
    world.file("Makefile", "all:\n");
    world.file(".hidden/x.rs", "");
    let listed = world.outputs("list", json!({"details": true})).await;
    insta::assert_json_snapshot!(listed, @r#"
    {
      "by_extension": [
        {
          "bytes": 13,
          "extension": "rs",
          "files": 2,
          "language": "Rust",
          "lines": 1
        },
        {
          "bytes": 7,
          "extension": "txt",
          "files": 1,
          "lines": 2
        },
        {
          "bytes": 5,
          "extension": "",
          "files": 1,
          "language": "Make",
          "lines": 1
        }
      ],
      "count": 4,
      "files": [
        {
          "bytes": 5,
          "extension": "",
          "language": "Make",
          "lines": 1,
          "path": "Makefile"
        },
        {
          "bytes": 7,
          "extension": "txt",
          "lines": 2,
          "path": "a.txt"
        },
        {
          "bytes": 13,
          "extension": "rs",
          "language": "Rust",
          "lines": 1,
          "path": "a/b.rs"
        },
        {
          "bytes": 0,
          "extension": "rs",
          "language": "Rust",
          "lines": 0,
          "path": "a/z/c.RS"
        }
      ],
      "folders": [
        {
          "bytes": 13,
          "files": 2,
          "lines": 1,
          "path": "a"
        }
      ],
      "languages": [
        {
          "bytes": 13,
          "files": 2,
          "language": "Rust",
          "lines": 1
        },
        {
          "bytes": 5,
          "files": 1,
          "language": "Make",
          "lines": 1
        }
      ],
      "links": [],
      "links_count": 0,
      "total_bytes": 25,
      "total_lines": 4,
      "truncated": false,
      "unreadable": 0
    }
    "#);
}

#[tokio::test]
async fn what_gitignore_names_is_left_out_at_every_level() {
    let world = World::new();
    world.file(".gitignore", "/target/\n*.log\n!keep.log\n");
    world.file("target/big.bin", "x");
    world.file("src/target/kept.rs", "x");
    world.file("src/a.log", "x");
    world.file("src/keep.log", "x");
    world.file("src/.gitignore", "gen/\n!b.log\n");
    world.file("src/gen/x.rs", "x");
    world.file("src/b.log", "x");
    world.file(".git/info/exclude", "secret.txt\n");
    world.file("secret.txt", "x");
    let listed = world.outputs("list", json!({})).await;
    assert_eq!(
        column(&listed["files"], "path"),
        ["src/b.log", "src/keep.log", "src/target/kept.rs"]
    );
    let below = world.outputs("list", json!({"path": "src"})).await;
    assert_eq!(listed["files"], below["files"]);
    let all = world
        .outputs("list", json!({"respect_gitignore": false}))
        .await;
    assert_eq!(all["count"], 7);
}

#[tokio::test]
async fn a_list_can_be_cut_and_still_counts_everything() {
    let world = World::new();
    for file in 0..30 {
        world.file(&format!("f{file:02}.rs"), "12345");
    }
    let response = world
        .call("list", json!({"max": "2", "glob": ["*.rs", "!f00.rs"]}))
        .await;
    let listed = &response.outputs;
    assert_eq!(column(&listed["files"], "path"), ["f01.rs", "f02.rs"]);
    assert_eq!(
        (&listed["count"], &listed["total_bytes"]),
        (&json!(29), &json!(145))
    );
    assert_eq!(listed["truncated"], true);
    assert_eq!(response.notes, "29 files, 145 bytes; 2 of them named");
    let summary = world.outputs("list", json!({"max": 0})).await;
    assert_eq!(summary["languages"][0]["files"], 30);
}

#[tokio::test]
async fn names_that_are_no_text_are_listed_and_can_be_read_back() {
    let world = World::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9 \xf0\x9f.txt");
    put(&world.repo().join(name), "coffee\n");
    put(&world.repo().join("two\nlines\\x41.txt"), "odd\n");
    let listed = world.outputs("list", json!({})).await;
    let paths = column(&listed["files"], "path");
    assert_eq!(
        paths,
        ["caf\\xe9 \\xf0\\x9f.txt", "two\\x0alines\\\\x41.txt"]
    );
    for (path, text) in paths.iter().zip(["coffee\n", "odd\n"]) {
        let read = world.outputs("read", json!({"path": path})).await;
        assert_eq!(read["text"], text);
        let found = world
            .outputs("grep", json!({"pattern": "o", "path": path}))
            .await;
        assert_eq!(found["matches"][0]["path"], *path);
    }
}

#[tokio::test]
async fn a_file_that_is_no_utf8_is_read_with_a_mark() {
    let world = World::new();
    world.file("latin.txt", b"caf\xe9\n");
    let read = world.outputs("read", json!({"path": "latin.txt"})).await;
    assert_eq!(
        (&read["text"], &read["encoding_lossy"]),
        (&json!("caf\u{fffd}\n"), &json!(true))
    );
    let found = world.outputs("grep", json!({"pattern": "caf"})).await;
    assert_eq!(found["matches"][0]["text"], "caf\u{fffd}");
}

#[tokio::test]
async fn of_a_binary_file_only_the_size_is_told() {
    let world = World::new();
    world.file("logo.png", b"\x89PNG\0\0secret");
    let read = world.outputs("read", json!({"path": "logo.png"})).await;
    assert_eq!(
        (&read["binary"], &read["bytes"], &read["text"]),
        (&json!(true), &json!(12), &json!(""))
    );
    let found = world.outputs("grep", json!({"pattern": "secret"})).await;
    assert_eq!(
        (&found["count"], &found["skipped_binary"]),
        (&json!(0), &json!(1))
    );
}

#[tokio::test]
async fn lines_are_read_by_their_numbers() {
    let world = World::new();
    world.file("five.txt", "1\n2\n3\n4\n5");
    let response = world
        .call(
            "read",
            json!({"path": "five.txt", "from_line": 2, "to_line": 4}),
        )
        .await;
    insta::assert_json_snapshot!(response, @r#"
    {
      "request_id": "call-1",
      "status": "ok",
      "outputs": {
        "binary": false,
        "bytes": 9,
        "encoding_lossy": false,
        "from_line": 2,
        "next": null,
        "path": "five.txt",
        "text": "2\n3\n4\n",
        "to_line": 4,
        "total_lines": 5,
        "truncated": false
      },
      "notes": "five.txt: lines 2 to 4 of 5",
      "observations": [],
      "scratch_page_writes": [],
      "memory_writes": [],
      "evidence": [
        {
          "kind": "file",
          "id": "five.txt",
          "hash": "sha256:b5584a1464119498204d2bffb86944984de652acb277cb0d2a6810944ee13350",
          "span": "L2-L4"
        }
      ]
    }
    "#);
    let past = world
        .call("read", json!({"path": "five.txt", "from_line": 9}))
        .await;
    assert_eq!(past.notes, "five.txt has only 5 lines");
    assert_eq!(past.outputs["text"], "");
    let end = world
        .outputs(
            "read",
            json!({"path": "five.txt", "from_line": 5, "to_line": 99}),
        )
        .await;
    assert_eq!(
        (&end["text"], &end["to_line"], &end["total_lines"]),
        (&json!("5"), &json!(5), &json!(5))
    );
    for wrong in [
        json!({"from_line": 0}),
        json!({"from_line": 3, "to_line": 2}),
        json!({"from_byte": 1, "to_line": 2}),
    ] {
        let mut args = json!({"path": "five.txt"});
        args.as_object_mut()
            .unwrap()
            .extend(wrong.as_object().unwrap().clone());
        assert_eq!(
            world.error("read", args).await.kind,
            FailureKind::InvalidArgs
        );
    }
}

#[tokio::test]
async fn a_large_file_can_be_read_part_by_part_to_the_last_byte() {
    let world = World::new();
    let mut content = String::new();
    for line in 0..2_000 {
        content.push_str(&format!("line {line} ünïcödé\n"));
    }
    content.push_str(&"日本語".repeat(3_000));
    world.file("large.txt", &content);
    let mut args = json!({"path": "large.txt", "max_bytes": 1_000});
    let mut text = String::new();
    loop {
        let read = world.outputs("read", args).await;
        assert!(read["text"].as_str().unwrap().len() <= 1_000);
        assert_eq!(
            (&read["encoding_lossy"], &read["total_lines"]),
            (&json!(false), &json!(2_001))
        );
        text.push_str(read["text"].as_str().unwrap());
        if read["truncated"] == false {
            break;
        }
        args = read["next"].clone();
        args["max_bytes"] = json!(1_000);
    }
    assert!(text == content);
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named_with_what_to_try() {
    let world = World::new();
    let error = world.error("read", json!({"path": "nope.txt"})).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::NotFound, "not_found")
    );
    assert_eq!(
        error.message,
        "cannot read nope.txt: there is no such file or folder"
    );
    world
        .outputs("write", json!({"path": "report.md", "content": "x"}))
        .await;
    let error = world.error("read", json!({"path": "report.md"})).await;
    assert!(error.hints.contains(&"there is run:report.md".to_owned()));
    world.file("src/a.rs", "");
    let error = world.error("read", json!({"path": "src"})).await;
    assert_eq!(error.message, "src is a folder");
}

#[tokio::test]
async fn lines_are_found_in_order_with_their_place() {
    let world = World::new();
    world.file(
        "b.rs",
        "// TODO: later\r\nfn x() {} // TODO again, TODO\r\n",
    );
    world.file("a/c.rs", "nothing\n\n  TODO");
    world.file("a/d.txt", "TODO\n");
    let found = world
        .outputs(
            "grep",
            json!({"pattern": "TODO", "glob": "*.rs", "context": 1}),
        )
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
    let patterns =
        json!([{"name": "todo", "pattern": "TODO"}, {"name": "fixme", "pattern": "FIXME"}]);
    let found = world
        .outputs("grep", json!({"patterns": patterns, "max": 3}))
        .await;
    let rows: Vec<(u64, &str)> = found["matches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["line"].as_u64().unwrap(), row["name"].as_str().unwrap()))
        .collect();
    assert_eq!(rows, [(1, "fixme"), (1, "todo"), (2, "todo")]);
    assert_eq!(
        (&found["count"], &found["truncated"]),
        (&json!(4), &json!(true))
    );
}

#[tokio::test]
async fn a_secret_never_leaves_its_file() {
    let world = World::new();
    world.file("conf.py", "key = 'AKIA1234567890ABCDEF' + 'tail-of-secret'\npassword = hunter2 # AKIA1234567890ABCDEF\n");
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
        .error(
            "grep",
            json!({"pattern": "x", "redact": true, "context": 2}),
        )
        .await;
    assert_eq!(error.kind, FailureKind::InvalidArgs);
}

#[tokio::test]
async fn a_very_long_line_is_shown_around_the_match() {
    let world = World::new();
    world.file(
        "min.js",
        format!("{}needle{}", "ä".repeat(50_000), "b".repeat(50_000)),
    );
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
    assert_eq!(
        error.message,
        "grep: cannot read the pattern `a(`: unclosed group"
    );
    world.file("a.c", "call(a(");
    let found = world
        .outputs(
            "grep",
            json!({"pattern": "A(", "fixed": true, "ignore_case": true}),
        )
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
async fn a_file_is_written_whole_and_the_same_call_changes_nothing_more() {
    let world = World::new();
    let args = json!({"path": "deep/er/report.md", "content": "hello"});
    let first = world.call("write", args.clone()).await;
    insta::assert_json_snapshot!(first, @r#"
    {
      "request_id": "call-1",
      "status": "ok",
      "outputs": {
        "bytes": 5,
        "path": "run:deep/er/report.md",
        "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
      },
      "notes": "run:deep/er/report.md: 5 bytes written",
      "observations": [],
      "scratch_page_writes": [],
      "memory_writes": [],
      "evidence": [
        {
          "kind": "file",
          "id": "run:deep/er/report.md",
          "hash": "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        }
      ]
    }
    "#);
    let path = world.folder.path().join("runs/1/deep/er/report.md");
    let before = std::fs::metadata(&path).unwrap();
    assert_eq!(world.call("write", args).await, first);
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&before),
        std::os::unix::fs::MetadataExt::ino(&after)
    );
    let read = world
        .outputs("read", json!({"path": first.outputs["path"]}))
        .await;
    assert_eq!(read["text"], "hello");
    world
        .outputs(
            "write",
            json!({"path": "deep/er/report.md", "content": "new"}),
        )
        .await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    let names: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["report.md"]);
}

#[tokio::test]
async fn create_does_not_write_over_another_file() {
    let world = World::new();
    let args = |content: &str| json!({"path": "a.txt", "content": content, "mode": "create"});
    world.outputs("write", args("one")).await;
    world.outputs("write", args("one")).await;
    let error = world.error("write", args("two")).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Failed, "already_exists")
    );
}

#[tokio::test]
async fn appending_again_after_a_crash_appends_once() {
    let world = World::new();
    let line = |text: &str| json!({"path": "log.txt", "content": text, "mode": "append"});
    world.call_as("one", "write", line("a\n")).await;
    world.call_as("two", "write", line("a\n")).await;
    world.call_as("two", "write", line("a\n")).await;
    world.call_as("three", "write", line("b\n")).await;
    let last = world.call_as("one", "write", line("a\n")).await;
    assert_eq!(last.outputs["bytes"], 6);
    let text = std::fs::read_to_string(world.folder.path().join("runs/1/log.txt")).unwrap();
    assert_eq!(text, "a\na\nb\n");
    let listed = world.outputs("list", json!({"path": "run:"})).await;
    assert_eq!(column(&listed["files"], "path"), ["run:log.txt"]);
}

#[tokio::test]
async fn only_the_folder_of_the_run_can_be_written() {
    let world = World::new();
    world.file("a.txt", "mine");
    let in_repo = world.repo().join("a.txt");
    for path in ["repo:a.txt", in_repo.to_str().unwrap()] {
        let error = world
            .error("write", json!({"path": path, "content": "x"}))
            .await;
        assert_eq!(
            (error.kind, error.code.as_str()),
            (FailureKind::Denied, "read_only_root")
        );
    }
    for path in ["../x", "a/../../x", "/etc/x", "run:../x"] {
        let error = world
            .error("write", json!({"path": path, "content": "x"}))
            .await;
        assert_eq!(
            (error.kind, error.code.as_str()),
            (FailureKind::Denied, "path_outside_root"),
            "{path}"
        );
    }
    for path in [".git/hooks/post-commit", "sub/.GIT/config"] {
        assert_eq!(
            world
                .error("write", json!({"path": path, "content": "x"}))
                .await
                .code,
            "git_folder"
        );
    }
    assert_eq!(std::fs::read_to_string(in_repo).unwrap(), "mine");
    let mut without = World::new();
    without.context.run_folder = RunFolder::none();
    assert_eq!(
        without
            .error("write", json!({"path": "x", "content": ""}))
            .await
            .code,
        "no_run_folder"
    );
}

#[tokio::test]
async fn a_file_over_the_limit_is_not_written() {
    let world = World::new().with_limits(|limits| limits.write_bytes = 10);
    let error = world
        .error("write", json!({"path": "x", "content": "12345678901"}))
        .await;
    assert_eq!(error.kind, FailureKind::TooLarge);
    world
        .outputs("write", json!({"path": "x", "content": "123456"}))
        .await;
    let error = world
        .error(
            "write",
            json!({"path": "x", "content": "123456", "mode": "append"}),
        )
        .await;
    assert_eq!(error.kind, FailureKind::TooLarge);
    assert_eq!(
        world
            .error("write", json!({"path": ".", "content": ""}))
            .await
            .kind,
        FailureKind::InvalidArgs
    );
}

#[tokio::test]
async fn a_full_disk_is_said_to_be_full() {
    // A device that is always full stands for a full disk: the write beside it goes wrong the same way.
    if !Path::new("/dev/full").exists() {
        return;
    }
    let error = std::fs::write("/dev/full", "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
