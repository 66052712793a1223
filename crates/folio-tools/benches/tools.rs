//! How long single calls take, on a large repository and on small input. Prints one line a call; a second pass shows
//! what a warm page cache does.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers stop where they fail, and print what they measure"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::{World, request};

const FILES: usize = 10_000;
const COMMITS: usize = 10_000;

/// A repository of 10,000 files in 100 folders and 10,000 commits, checked out.
fn large_repository() -> World {
    let world = World::new();
    world.git(&["init", "--quiet"]);
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet", "--date-format=raw"])
        .current_dir(world.repo())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream = std::io::BufWriter::new(import.stdin.take().unwrap());
    for commit in 0..COMMITS {
        let mut text = format!(
            "commit refs/heads/main\ncommitter Author {0} <a{0}@example.org> {1} +0000\ndata 2\nc\n",
            commit % 50,
            1_700_000_000 + commit * 600
        );
        let changed: Vec<usize> = if commit == 0 {
            (0..FILES).collect()
        } else {
            vec![(commit * 7) % FILES, (commit * commit) % FILES, commit % 97]
        };
        for file in changed {
            let mut body = String::new();
            for line in 0..100 {
                let mark = if line == 50 && file.is_multiple_of(10) {
                    "TODO "
                } else {
                    ""
                };
                let version = if line < 3 { commit } else { 0 };
                writeln!(
                    body,
                    "    let value_{line} = compute({mark}{file}, {version}); // a line of text"
                )
                .unwrap();
            }
            write!(
                text,
                "M 100644 inline d{:02}/f{file}.rs\ndata {}\n{body}\n",
                file % 100,
                body.len()
            )
            .unwrap();
        }
        stream.write_all(text.as_bytes()).unwrap();
    }
    stream.flush().unwrap();
    drop(stream);
    assert!(import.wait().unwrap().success());
    world.git(&["reset", "--quiet", "--hard", "main"]);
    world
}

async fn timed(world: &World, tool: &str, args: Value) -> Value {
    let start = tokio::time::Instant::now();
    let outputs = world.outputs(tool, args.clone()).await;
    println!("{:>8.1?}  {tool} {args}", start.elapsed());
    outputs
}

async fn large_calls() {
    let world = large_repository();
    for _ in 0..2 {
        let listed = timed(&world, "list", json!({})).await;
        assert_eq!(listed["count"], FILES);
        timed(&world, "list", json!({"details": true, "max": 0})).await;
        let found = timed(&world, "grep", json!({"pattern": "TODO"})).await;
        assert_eq!(found["count"], FILES / 10);
        timed(
            &world,
            "grep",
            json!({"pattern": r"value_\d+ = \w+\(TODO", "ignore_case": true}),
        )
        .await;
        timed(
            &world,
            "grep",
            json!({"patterns": [
            {"name": "todo", "pattern": "TODO|FIXME|XXX"},
            {"name": "aws", "pattern": "AKIA[0-9A-Z]{16}"},
            {"name": "key", "pattern": "-----BEGIN [A-Z ]*PRIVATE KEY-----"},
            {"name": "token", "pattern": r#"(?i)(api_?key|token|secret)\s*[:=]\s*['"][^'"]{8,}"#},
        ], "redact": true}),
        )
        .await;
        let hot = timed(&world, "git", json!({"command": "hot_files", "max": 20})).await;
        assert_eq!(hot["commits_total"], COMMITS);
        timed(&world, "git", json!({"command": "summary"})).await;
        timed(&world, "git", json!({"command": "file_history", "path": "d00/f0.rs"})).await;
        timed(&world, "git", json!({"command": "status"})).await;
    }
}

async fn small_calls() {
    let world = World::new();
    world.file("a.txt", "one\ntwo\n");
    let items: Vec<Value> = (0..1_000)
        .map(|n| json!({"path": format!("f{n}"), "bytes": (n * 7919) % 1_000}))
        .collect();
    for (count, tool, args) in [
        (200_000_u32, "text", json!({"op": "echo", "value": "x"})),
        (200_000, "text", json!({"op": "count", "value": [1, 2, 3]})),
        (
            100_000,
            "text",
            json!({"op": "template", "template": "{{ value }} and {{ a }}", "value": 1, "data": {"a": 2}}),
        ),
        (
            2_000,
            "text",
            json!({"op": "top", "by": "bytes", "n": 10, "value": items.clone()}),
        ),
        (
            500,
            "text",
            json!({"op": "filter", "where": "item.bytes > 500", "value": items}),
        ),
        (100_000, "observe", json!({"content": "x", "tags": ["a"]})),
        (5_000, "read", json!({"path": "a.txt"})),
        (500, "write", json!({"path": "a.txt", "content": "x"})),
    ] {
        let request = request("call", tool, args);
        let start = tokio::time::Instant::now();
        for _ in 0..count {
            assert!(world.registry.call(&request, &world.context).await.is_ok());
        }
        println!(
            "{:>8.2?} per call  {tool} {}",
            start.elapsed() / count,
            request.args["op"]
        );
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(small_calls());
    runtime.block_on(large_calls());
}
