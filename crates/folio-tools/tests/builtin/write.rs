//! `write`: whole files in the folder of the run, and nowhere else.

use crate::support::{World, column};
use folio_tools::{FailureKind, RunFolder};
use serde_json::json;

#[tokio::test]
async fn repeated_write_call_leaves_the_file_unchanged() {
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
    let one = world.call("write", json!({"path": "one", "content": "x"})).await;
    assert_eq!(one.notes, "run:one: 1 byte written");
    let path = world.folder.path().join("runs/1/deep/er/report.md");
    let before = std::fs::metadata(&path).unwrap();
    assert_eq!(world.call("write", args).await, first);
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&before),
        std::os::unix::fs::MetadataExt::ino(&after)
    );
    let read = world.outputs("read", json!({"path": first.outputs["path"]})).await;
    assert_eq!(read["text"], "hello");
    world
        .outputs("write", json!({"path": "deep/er/report.md", "content": "new"}))
        .await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    let names: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["report.md"]);
}

#[tokio::test]
async fn run_folder_files_are_accessible_to_their_owner_only() {
    let world = World::new();
    for mode in ["replace", "append"] {
        let args = json!({"path": "deep/er/report.md", "content": mode, "mode": mode});
        world.outputs("write", args).await;
    }
    let shared = |path: &str| {
        let found = std::fs::metadata(world.folder.path().join(path)).unwrap();
        std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o077
    };
    for path in [
        "runs",
        "runs/1",
        "runs/1/deep",
        "runs/1/deep/er",
        "runs/1/deep/er/report.md",
    ] {
        assert_eq!(shared(path), 0, "{path}");
    }
}

#[tokio::test]
async fn write_create_refuses_to_overwrite_different_content() {
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
async fn append_with_the_same_call_id_appends_once() {
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
async fn write_is_denied_outside_the_run_folder() {
    let world = World::new();
    world.file("a.txt", "mine");
    let in_repo = world.repo().join("a.txt");
    for path in ["repo:a.txt", in_repo.to_str().unwrap()] {
        let error = world.error("write", json!({"path": path, "content": "x"})).await;
        assert_eq!(
            (error.kind, error.code.as_str()),
            (FailureKind::Denied, "read_only_root")
        );
    }
    for path in ["../x", "a/../../x", "/etc/x", "run:../x"] {
        let error = world.error("write", json!({"path": path, "content": "x"})).await;
        assert_eq!(
            (error.kind, error.code.as_str()),
            (FailureKind::Denied, "path_outside_root"),
            "{path}"
        );
    }
    for path in [".git/hooks/post-commit", "sub/.GIT/config"] {
        assert_eq!(
            world.error("write", json!({"path": path, "content": "x"})).await.code,
            "git_folder"
        );
    }
    assert_eq!(std::fs::read_to_string(in_repo).unwrap(), "mine");
    let mut without = World::new();
    without.context.run_folder = RunFolder::none();
    assert_eq!(
        without.error("write", json!({"path": "x", "content": ""})).await.code,
        "no_run_folder"
    );
}

#[tokio::test]
async fn write_and_append_refuse_files_over_the_size_limit() {
    let world = World::new().with_limits(|limits| limits.write_bytes = 10);
    let error = world
        .error("write", json!({"path": "x", "content": "12345678901"}))
        .await;
    assert_eq!(error.kind, FailureKind::TooLarge);
    world.outputs("write", json!({"path": "x", "content": "123456"})).await;
    let error = world
        .error("write", json!({"path": "x", "content": "123456", "mode": "append"}))
        .await;
    assert_eq!(error.kind, FailureKind::TooLarge);
    assert_eq!(
        world.error("write", json!({"path": ".", "content": ""})).await.kind,
        FailureKind::InvalidArgs
    );
}
