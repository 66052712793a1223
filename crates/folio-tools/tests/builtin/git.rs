//! `git` on ordinary repositories.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::support::{World, column, git, put};
use folio_tools::{Access, FailureKind, Root, Roots};
use serde_json::{Value, json};

/// Three commits: `a.txt` twice, `lib/b.rs` once, `gone.txt` created and deleted.
fn world() -> World {
    let world = World::new();
    world.git(&["init", "--quiet"]);
    world.file("a.txt", "one\n");
    world.file("gone.txt", "x\n");
    world.commit("first");
    world.file("a.txt", "one\ntwo\n");
    std::fs::remove_file(world.repo().join("gone.txt")).unwrap();
    world.commit("second");
    world.file("lib/b.rs", "fn b() {}\n");
    world.git(&["add", "--all"]);
    world.git(&[
        "-c",
        "user.email=bob@example.org",
        "-c",
        "user.name=Bob",
        "commit",
        "--quiet",
        "-m",
        "third: b|c",
    ]);
    world
}

/// Removes hashes, which are stable but say nothing.
fn without_hashes(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) if text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            json!("<hash>")
        }
        Value::Array(items) => items.drain(..).map(without_hashes).collect(),
        Value::Object(fields) => std::mem::take(fields)
            .into_iter()
            .map(|(name, value)| (name, without_hashes(value)))
            .collect(),
        _ => value,
    }
}

#[tokio::test]
async fn git_summary_reports_branch_commits_and_authors() {
    let summary = world().outputs("git", json!({"command": "summary"})).await;
    assert_eq!(
        without_hashes(summary),
        json!({
            "branch": "main", "head": "<hash>", "commits": 3, "authors": 2, "is_shallow": false,
            "first_date": "2026-01-02T03:04:05Z", "last_date": "2026-01-02T03:04:05Z",
        })
    );
}

#[tokio::test]
async fn git_hot_files_orders_by_commit_count_and_applies_filters() {
    let world = world();
    let hot = without_hashes(world.outputs("git", json!({"command": "hot_files"})).await);
    assert_eq!(
        hot,
        json!({
            "authors": 2, "commits_total": 3, "truncated": false,
            "files": [
                {"path": "a.txt", "commits": 2, "added": 2, "deleted": 0, "authors": 1, "last_commit": "<hash>", "last_date": "2026-01-02T03:04:05Z"},
                {"path": "lib/b.rs", "commits": 1, "added": 1, "deleted": 0, "authors": 1, "last_commit": "<hash>", "last_date": "2026-01-02T03:04:05Z"},
            ],
        })
    );
    let with_deleted = world
        .outputs("git", json!({"command": "hot_files", "deleted": true}))
        .await;
    assert_eq!(
        column(&with_deleted["files"], "path"),
        ["a.txt", "gone.txt", "lib/b.rs"]
    );
    assert_eq!(with_deleted["files"][1]["is_there"], false);
    let in_lib = world
        .outputs("git", json!({"command": "hot_files", "path": "lib/"}))
        .await;
    assert_eq!(column(&in_lib["files"], "path"), ["lib/b.rs"]);
    let later = world
        .outputs("git", json!({"command": "hot_files", "since": "2026-01-03"}))
        .await;
    assert_eq!((&later["files"], &later["commits_total"]), (&json!([]), &json!(0)));
    let top = world.outputs("git", json!({"command": "hot_files", "max": 1})).await;
    assert_eq!(column(&top["files"], "path"), ["a.txt"]);
}

#[tokio::test]
async fn git_file_history_follows_renames() {
    let world = world();
    world.git(&["mv", "a.txt", "z.txt"]);
    world.commit("moved");
    let history = world
        .outputs("git", json!({"command": "file_history", "path": "z.txt"}))
        .await;
    assert_eq!(column(&history["commits"], "subject"), ["moved", "second", "first"]);
    assert_eq!(column(&history["commits"], "path"), ["z.txt", "a.txt", "a.txt"]);
    assert_eq!(history["commits"][1]["added"], 1);
    for (max, subjects, truncated) in [(3, 3, false), (4, 3, false), (2, 2, true), (0, 0, true)] {
        let history = world
            .outputs("git", json!({"command": "file_history", "path": "z.txt", "max": max}))
            .await;
        let told = (history["count"].as_u64(), history["truncated"].as_bool());
        assert_eq!(told, (Some(subjects), Some(truncated)), "{max}");
    }
    let none = world
        .outputs("git", json!({"command": "file_history", "path": "nope"}))
        .await;
    assert_eq!(none["commits"], json!([]));
}

#[tokio::test]
async fn git_reports_non_utf8_file_names_escaped() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = world();
    put(
        &world.repo().join(std::ffi::OsStr::from_bytes(b"caf\xe9\t\"x\n.txt")),
        "1\n",
    );
    world.commit("odd");
    let hot = world.outputs("git", json!({"command": "hot_files"})).await;
    let path = "caf\\xe9\\x09\"x\\x0a.txt";
    assert!(column(&hot["files"], "path").contains(&path));
    let history = world
        .outputs("git", json!({"command": "file_history", "path": path}))
        .await;
    assert_eq!(column(&history["commits"], "subject"), ["odd"]);
    assert_eq!(history["commits"][0]["path"], path);
}

#[tokio::test]
async fn plain_git_commands_return_their_output_as_text() {
    let world = world();
    world.file("new.txt", "");
    world.file("a.txt", "one\nTWO\n");
    let text = async |command: &str, args: Value| {
        let outputs = world.outputs("git", json!({"command": command, "args": args})).await;
        outputs["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(text("log", json!(["--format=%s", "-2"])).await, "third: b|c\nsecond\n");
    assert_eq!(
        text("log", json!(["--format=%s", "-n", "1", "--", "a.txt"])).await,
        "second\n"
    );
    assert_eq!(
        text("show", json!(["--no-patch", "--format=%an", "HEAD"])).await,
        "Bob\n"
    );
    assert_eq!(text("show", json!(["HEAD:lib/b.rs"])).await, "fn b() {}\n");
    assert_eq!(text("diff", json!(["--name-only"])).await, "a.txt\n");
    assert!(
        text("diff", json!(["HEAD~1", "HEAD", "--", "lib"]))
            .await
            .contains("+fn b() {}")
    );
    assert_eq!(text("status", json!("--short")).await, " M a.txt\n?? new.txt\n");
    assert_eq!(text("ls-files", json!([])).await, "a.txt\nlib/b.rs\n");
    assert!(
        text("blame", json!(["-s", "HEAD", "--", "a.txt"]))
            .await
            .contains("1) one")
    );
    assert_eq!(text("rev-parse", json!(["--abbrev-ref", "HEAD"])).await, "main\n");
    assert_eq!(
        text("shortlog", json!(["-sn"]))
            .await
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["2", "Ada", "1", "Bob"]
    );
    assert_eq!(text("cat-file", json!(["-t", "HEAD"])).await, "commit\n");
    assert_eq!(text("branch", json!([])).await, "* main\n");
    assert_eq!(text("tag", json!([])).await, "");
    assert_eq!(text("rev-list", json!(["--count", "HEAD"])).await, "3\n");
    assert_eq!(
        text("describe", json!(["--always", "--abbrev=7"])).await.trim().len(),
        7
    );
}

#[tokio::test]
async fn git_errors_explain_bad_revisions_commands_flags_and_arguments() {
    let world = world();
    let error = world
        .error("git", json!({"command": "log", "args": ["no-such-branch"]}))
        .await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::NotFound, "git_not_found")
    );
    let error = world.error("git", json!({"command": "push"})).await;
    assert_eq!(error.kind, FailureKind::InvalidArgs);
    let error = world
        .error("git", json!({"command": "log", "args": ["--output=x"]}))
        .await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Denied, "git_flag_not_allowed")
    );
    let error = world.error("git", json!({"command": "file_history"})).await;
    assert_eq!(error.message, "git file_history: `path` is missing");
    for (name, value) in [
        ("path", json!("a.txt")),
        ("max", json!(2)),
        ("since", json!("2020-01-01")),
        ("deleted", json!(true)),
    ] {
        let mut args = json!({"command": "log"});
        args[name] = value;
        let error = world.error("git", args).await;
        let said = format!("git log: `{name}` is not for git's own commands");
        assert_eq!((error.kind, error.message), (FailureKind::InvalidArgs, said));
    }
    for path in ["../x", "/etc/passwd", "."] {
        let args = json!({"command": "file_history", "path": path});
        let response = world.call("git", args).await;
        assert!(
            path == "." || response.error.unwrap().kind == FailureKind::InvalidArgs,
            "{path}"
        );
    }
}

#[tokio::test]
async fn git_commands_succeed_in_a_repository_without_commits() {
    let world = World::new();
    world.git(&["init", "--quiet"]);
    let summary = world.outputs("git", json!({"command": "summary"})).await;
    assert_eq!(
        (&summary["branch"], &summary["head"], &summary["commits"]),
        (&json!("main"), &json!(null), &json!(0))
    );
    assert_eq!(
        world.outputs("git", json!({"command": "hot_files"})).await["files"],
        json!([])
    );
    assert_eq!(
        world
            .outputs("git", json!({"command": "file_history", "path": "a"}))
            .await["commits"],
        json!([])
    );
    let log = world.call("git", json!({"command": "log"})).await;
    assert_eq!(
        (log.outputs["text"].as_str(), log.notes.as_str()),
        (Some(""), "there are no commits yet")
    );
}

#[tokio::test]
async fn git_ignores_repositories_above_the_granted_root() {
    let mut world = world();
    put(&world.repo().join("sub/x.txt"), "");
    let sub = Root::open("sub", world.repo().join("sub"), Access::Read).unwrap();
    let inside = world
        .outputs(
            "git",
            json!({"command": "rev-list", "args": ["--count", "HEAD"], "repo": "sub"}),
        )
        .await;
    assert_eq!(inside["text"], "3\n");
    world.context.roots = Roots::new(vec![sub]).unwrap();
    let error = world.error("git", json!({"command": "summary"})).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::NotFound, "not_a_repository")
    );
}

#[tokio::test]
async fn missing_git_program_fails_with_git_missing() {
    let mut world = world();
    world.context.environment = vec![("PATH".to_owned(), "/nowhere".to_owned())].into();
    let error = world.error("git", json!({"command": "summary"})).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Unavailable, "git_missing")
    );
}

#[tokio::test]
async fn linked_worktree_works_when_its_main_repository_is_not_granted() {
    let mut world = world();
    let tree = world.folder.path().join("tree");
    world.git(&["worktree", "add", "--quiet", tree.to_str().unwrap(), "-b", "topic"]);
    world.context.roots = Roots::new(vec![Root::open("tree", &tree, Access::Read).unwrap()]).unwrap();
    let summary = world.outputs("git", json!({"command": "summary"})).await;
    assert_eq!((&summary["branch"], &summary["commits"]), (&json!("topic"), &json!(3)));
    let status = world
        .outputs("git", json!({"command": "status", "args": ["--short"]}))
        .await;
    assert_eq!(status["text"], "");
}

#[tokio::test]
async fn git_works_in_bare_and_shallow_repositories() {
    let mut world = world();
    let origin = world.repo();
    // In no folder of the other one, which would be found there.
    let bare = world.folder.path().join("bare.git");
    git(&origin, &["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let roots = [("repo", &origin), ("bare", &bare)].map(|(name, path)| Root::open(name, path, Access::Read).unwrap());
    world.context.roots = Roots::new(roots.into()).unwrap();
    let summary = world
        .outputs("git", json!({"command": "summary", "repo": "bare:"}))
        .await;
    assert_eq!(summary["commits"], 3);
    // It has no files, and what needs none goes as ever.
    let is_bare =
        json!({"command": "rev-parse", "args": ["--is-bare-repository", "--is-inside-work-tree"], "repo": "bare:"});
    assert_eq!(world.outputs("git", is_bare).await["text"], "true\nfalse\n");
    world
        .outputs(
            "git",
            json!({"command": "blame", "args": ["HEAD", "--", "a.txt"], "repo": "bare:"}),
        )
        .await;
    // Git takes the newest commit by itself.
    world
        .outputs("git", json!({"command": "blame", "args": ["a.txt"], "repo": "bare:"}))
        .await;
    let error = world.error("git", json!({"command": "status", "repo": "bare:"})).await;
    assert!(error.message.contains("work tree"), "{}", error.message);
    let url = format!("file://{}", bare.display());
    git(&origin, &["clone", "--quiet", "--depth=1", &url, "shallow"]);
    let summary = world
        .outputs("git", json!({"command": "summary", "repo": "shallow"}))
        .await;
    assert_eq!((&summary["commits"], &summary["is_shallow"]), (&json!(1), &json!(true)));
}

#[tokio::test]
async fn git_hot_files_returns_partial_history_on_timeout() {
    let mut world = world().with_limits(|limits| {
        limits.git_timeout = Duration::from_millis(1_500);
        limits.kill_grace = Duration::from_millis(200);
    });
    // A git that prints its log and then never ends.
    let slow = world.folder.path().join("bin/git");
    let script =
        "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\ngit \"$@\"\ncase \"$*\" in *' log '*) sleep 60;; esac\n";
    put(&slow, script);
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", slow.parent().unwrap().display());
    world.context.environment = vec![("PATH".to_owned(), path)].into();

    let hot = world.call("git", json!({"command": "hot_files"})).await;
    assert_eq!(
        (&hot.outputs["truncated"], &hot.outputs["commits_total"]),
        (&json!(true), &json!(3))
    );
    assert!(hot.notes.contains("not counted in time"));
    let error = world.error("git", json!({"command": "log"})).await;
    assert_eq!(error.kind, FailureKind::TimedOut);
}
