//! `list` and `read` on ordinary and odd files.

use std::os::unix::ffi::OsStrExt as _;

use crate::support::{World, column, put};
use folio_tools::FailureKind;
use serde_json::json;

#[tokio::test]
async fn list_details_report_sizes_lines_and_languages_in_path_order() {
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
async fn list_respects_gitignore_files_at_every_level() {
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
    let all = world.outputs("list", json!({"respect_gitignore": false})).await;
    assert_eq!(all["count"], 7);
}

#[tokio::test]
async fn folder_excluded_by_glob_is_not_walked() {
    let world = World::new().with_limits(|limits| limits.walk_entries = 8);
    world.file("src/main.rs", "// mark\n");
    for file in 0..10 {
        world.file(&format!("web/node_modules/f{file}.js"), "// mark\n");
    }
    let listed = world.call("list", json!({"glob": "!node_modules"})).await;
    assert_eq!(column(&listed.outputs["files"], "path"), ["src/main.rs"]);
    assert_eq!(listed.notes, "1 file, 8 bytes", "the ten were not even counted");
    let found = world
        .outputs(
            "grep",
            json!({"pattern": "mark", "glob": ["*.rs", "*.js", "!node_modules/"]}),
        )
        .await;
    assert_eq!(column(&found["matches"], "path"), ["src/main.rs"]);
}

#[tokio::test]
async fn truncated_list_still_counts_all_files() {
    let world = World::new();
    for file in 0..30 {
        world.file(&format!("f{file:02}.rs"), "12345");
    }
    let response = world
        .call("list", json!({"max": "2", "glob": ["*.rs", "!f00.rs"]}))
        .await;
    let listed = &response.outputs;
    assert_eq!(column(&listed["files"], "path"), ["f01.rs", "f02.rs"]);
    assert_eq!((&listed["count"], &listed["total_bytes"]), (&json!(29), &json!(145)));
    assert_eq!(listed["truncated"], true);
    assert_eq!(response.notes, "29 files, 145 bytes; 2 of them named");
    let summary = world.outputs("list", json!({"max": 0})).await;
    assert_eq!(summary["languages"][0]["files"], 30);
}

#[tokio::test]
async fn non_utf8_file_names_are_listed_escaped_and_readable() {
    let world = World::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9 \xf0\x9f.txt");
    put(&world.repo().join(name), "coffee\n");
    put(&world.repo().join("two\nlines\\x41.txt"), "odd\n");
    let listed = world.outputs("list", json!({})).await;
    let paths = column(&listed["files"], "path");
    assert_eq!(paths, ["caf\\xe9 \\xf0\\x9f.txt", "two\\x0alines\\\\x41.txt"]);
    for (path, text) in paths.iter().zip(["coffee\n", "odd\n"]) {
        let read = world.outputs("read", json!({"path": path})).await;
        assert_eq!(read["text"], text);
        let found = world.outputs("grep", json!({"pattern": "o", "path": path})).await;
        assert_eq!(found["matches"][0]["path"], *path);
    }
}

#[tokio::test]
async fn non_utf8_file_is_read_with_encoding_lossy_flag() {
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
async fn binary_file_returns_its_size_without_text() {
    let world = World::new();
    world.file("logo.png", b"\x89PNG\0\0secret");
    let read = world.outputs("read", json!({"path": "logo.png"})).await;
    assert_eq!(
        (&read["binary"], &read["bytes"], &read["text"]),
        (&json!(true), &json!(12), &json!(""))
    );
    let found = world.outputs("grep", json!({"pattern": "secret"})).await;
    assert_eq!((&found["count"], &found["skipped_binary"]), (&json!(0), &json!(1)));
}

#[tokio::test]
async fn read_returns_the_requested_line_range() {
    let world = World::new();
    world.file("five.txt", "1\n2\n3\n4\n5");
    let response = world
        .call("read", json!({"path": "five.txt", "from_line": 2, "to_line": 4}))
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
    let past = world.call("read", json!({"path": "five.txt", "from_line": 9})).await;
    assert_eq!(past.notes, "five.txt has only 5 lines");
    assert_eq!(past.outputs["text"], "");
    let end = world
        .outputs("read", json!({"path": "five.txt", "from_line": 5, "to_line": 99}))
        .await;
    assert_eq!(
        (&end["text"], &end["to_line"], &end["total_lines"]),
        (&json!("5"), &json!(5), &json!(5))
    );
    for wrong in [
        json!({"from_line": 0}),
        json!({"from_line": 3, "to_line": 2}),
        json!({"from_byte": 1, "from_line": 2}),
    ] {
        let mut args = json!({"path": "five.txt"});
        args.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        assert_eq!(world.error("read", args).await.kind, FailureKind::InvalidArgs);
    }
}

#[tokio::test]
async fn read_next_arguments_page_through_a_large_file_completely() {
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
async fn read_error_for_missing_file_hints_at_the_run_folder() {
    let world = World::new();
    let error = world.error("read", json!({"path": "nope.txt"})).await;
    assert_eq!((error.kind, error.code.as_str()), (FailureKind::NotFound, "not_found"));
    assert_eq!(error.message, "cannot read nope.txt: there is no such file or folder");
    world
        .outputs("write", json!({"path": "report.md", "content": "x"}))
        .await;
    let error = world.error("read", json!({"path": "report.md"})).await;
    assert!(error.hints.contains(&"run:report.md exists".to_owned()));
    world.file("src/a.rs", "");
    let error = world.error("read", json!({"path": "src"})).await;
    assert_eq!(error.message, "src is a folder");
}

#[tokio::test]
async fn read_continuation_stays_within_the_requested_lines() {
    let world = World::new();
    let lines: Vec<String> = (1..=20).map(|n| format!("line {n}")).collect();
    world.file("lines.txt", lines.join("\n"));
    world.file("wide.txt", "äb🦀c\n");
    world.file("long.txt", format!("{}\nsecond\nthird\n", "x".repeat(50)));
    for (path, to, wanted) in [
        ("lines.txt", 10, lines[..10].join("\n") + "\n"),
        ("long.txt", 2, format!("{}\nsecond\n", "x".repeat(50))),
    ] {
        let mut args = json!({"path": path, "from_line": 1, "to_line": to});
        let mut text = String::new();
        for _ in 0..100 {
            args["max_bytes"] = json!(20);
            let read = world.outputs("read", args).await;
            text += read["text"].as_str().unwrap();
            args = read["next"].clone();
            if args.is_null() {
                break;
            }
        }
        assert_eq!(text, wanted, "{path}");
    }
    let read = world
        .outputs("read", json!({"path": "lines.txt", "max_bytes": 0}))
        .await;
    assert_eq!(read["next"]["from_byte"], 4, "it goes on");
    for max_bytes in [0, 1] {
        let mut args = json!({"path": "wide.txt"});
        let mut text = String::new();
        for _ in 0..10 {
            args["max_bytes"] = json!(max_bytes);
            let read = world.outputs("read", args).await;
            text += read["text"].as_str().unwrap();
            args = read["next"].clone();
            if args.is_null() {
                break;
            }
        }
        assert_eq!(text, "äb🦀c\n");
    }
}

#[tokio::test]
async fn missing_path_errors_hint_at_same_file_in_run_folder() {
    let world = World::new();
    world
        .outputs("write", json!({"path": "report.md", "content": "x"}))
        .await;
    for (tool, args) in [
        ("read", json!({"path": "report.md"})),
        ("list", json!({"path": "report.md"})),
        ("grep", json!({"pattern": "x", "path": "report.md"})),
    ] {
        let error = world.error(tool, args).await;
        assert!(error.hints.contains(&"run:report.md exists".to_owned()), "{tool}");
    }
    let other = world.error("list", json!({"path": "other.md"})).await;
    assert!(!other.hints.iter().any(|hint| hint.contains("run:")), "{other:?}");
}
