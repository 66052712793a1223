//! Nothing leads out of a granted folder.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{World, column, put};
use folio_tools::{Access, FailureKind, Root, RootError, Roots};
use serde_json::json;

/// A world with a secret beside the granted folder.
fn world() -> World {
    let world = World::new();
    world.file("inside.txt", "harmless\n");
    put(&world.folder.path().join("outside/secret.txt"), "the secret\n");
    world
}

#[tokio::test]
async fn paths_outside_the_root_are_denied_in_every_spelling() {
    let world = world();
    let secret = world.folder.path().join("outside/secret.txt");
    symlink(&secret, world.repo().join("link.txt")).unwrap();
    symlink("../outside", world.repo().join("folder")).unwrap();
    symlink("/", world.repo().join("slash")).unwrap();
    symlink("folder/secret.txt", world.repo().join("twice")).unwrap();
    let absolute = secret.to_str().unwrap().to_owned();
    let dotted = format!("{}/../outside/secret.txt", world.repo().display());
    for path in [
        "../outside/secret.txt",
        "./../outside/secret.txt",
        "x/../../outside/secret.txt",
        "link.txt",
        "folder/secret.txt",
        "twice",
        "slash/etc/passwd",
        "repo:../outside/secret.txt",
        "repo:/../outside/secret.txt",
        "run:../../outside/secret.txt",
        "/etc/passwd",
        "/proc/self/environ",
        "..\\x2foutside/secret.txt",
        &absolute,
        &dotted,
    ] {
        for tool in ["read", "list", "grep"] {
            let args = match tool {
                "grep" => json!({"path": path, "pattern": "."}),
                _ => json!({"path": path}),
            };
            let response = world.call(tool, args).await;
            let error = response
                .error
                .unwrap_or_else(|| panic!("{tool} {path}: {}", response.outputs));
            assert!(
                matches!(error.kind, FailureKind::Denied | FailureKind::NotFound),
                "{tool} {path}: {error:?}"
            );
            assert!(!error.message.contains("the secret"));
        }
    }
}

#[tokio::test]
async fn list_and_grep_report_symlinks_without_following_them() {
    let world = world();
    symlink("../outside", world.repo().join("folder")).unwrap();
    symlink("inside.txt", world.repo().join("alias")).unwrap();
    symlink(".", world.repo().join("loop")).unwrap();
    let listed = world.outputs("list", json!({})).await;
    assert_eq!(column(&listed["files"], "path"), ["inside.txt"]);
    assert_eq!(column(&listed["links"], "path"), ["alias", "folder", "loop"]);
    assert_eq!(column(&listed["links"], "to"), ["inside.txt", "../outside", "."]);
    let found = world.outputs("grep", json!({"pattern": "secret|harmless"})).await;
    assert_eq!(column(&found["matches"], "path"), ["inside.txt"]);
    // Inside of the root a link is as good as what it names.
    assert_eq!(
        world.outputs("read", json!({"path": "alias"})).await["text"],
        "harmless\n"
    );
}

#[tokio::test]
async fn absolute_path_inside_a_root_is_accepted() {
    let world = world();
    let path = world.repo().join("inside.txt");
    let read = world.outputs("read", json!({"path": path})).await;
    assert_eq!(read["path"], "inside.txt");
}

#[tokio::test]
async fn root_prefix_before_colon_selects_another_root() {
    let mut world = world();
    put(&world.folder.path().join("docs/guide.md"), "read me\n");
    world.file("docs:x", "a file, not a root\n");
    let root = |name: &str, path: &str| Root::open(name, world.folder.path().join(path), Access::ReadWrite).unwrap();
    let roots = Roots::new(vec![root("repo", "repo"), root("docs", "docs")]).unwrap();
    world.context.roots = roots;
    let listed = world.outputs("list", json!({"path": "docs:"})).await;
    assert_eq!(column(&listed["files"], "path"), ["docs:guide.md"]);
    assert_eq!(
        world.outputs("read", json!({"path": "docs:guide.md"})).await["text"],
        "read me\n"
    );
    let listed = world.outputs("list", json!({"glob": "docs*"})).await;
    assert_eq!(column(&listed["files"], "path"), ["./docs:x"]);
    assert_eq!(
        world.outputs("read", json!({"path": "./docs:x"})).await["text"],
        "a file, not a root\n"
    );
    let written = world
        .outputs("write", json!({"path": "docs:new.md", "content": "x"}))
        .await;
    assert_eq!(written["path"], "docs:new.md");
}

#[tokio::test]
async fn named_pipes_do_not_block_read_grep_or_list() {
    let world = world();
    let made = std::process::Command::new("mkfifo")
        .arg(world.repo().join("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    let error = world.error("read", json!({"path": "pipe"})).await;
    assert_eq!(error.message, "pipe is not a regular file");
    let found = world.outputs("grep", json!({"pattern": "x"})).await;
    assert_eq!(found["count"], 0);
    assert_eq!(world.outputs("list", json!({"details": true})).await["count"], 1);
}

#[test]
fn invalid_duplicate_and_reserved_root_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| Root::open(name, folder.path(), Access::Read);
    assert!(matches!(open("a:b"), Err(RootError::Name { .. })));
    assert!(matches!(open(""), Err(RootError::Name { .. })));
    assert!(matches!(
        Root::open("x", "/no/such/folder", Access::Read),
        Err(RootError::Open { .. })
    ));
    let twice = Roots::new(vec![open("a").unwrap(), open("a").unwrap()]);
    assert!(matches!(twice, Err(RootError::Taken { .. })));
    assert!(matches!(
        Roots::new(vec![open("run").unwrap()]),
        Err(RootError::Taken { .. })
    ));
}

/// Swaps a folder for a link to the outside and back, as fast as it can.
#[tokio::test(flavor = "multi_thread")]
async fn symlink_swapped_in_during_a_read_never_leaks_outside_files() {
    let world = world();
    world.file("real/secret.txt", "harmless\n");
    let repo = world.repo();
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (repo, stop) = (repo.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut swaps = 0_u64;
            symlink("../outside", repo.join("evil")).unwrap();
            std::fs::rename(repo.join("real"), repo.join("target")).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(repo.join("target"), repo.join("aside")).unwrap();
                std::fs::rename(repo.join("evil"), repo.join("target")).unwrap();
                std::fs::rename(repo.join("target"), repo.join("evil")).unwrap();
                std::fs::rename(repo.join("aside"), repo.join("target")).unwrap();
                swaps += 1;
            }
            swaps
        })
    };
    let mut read_inside = 0;
    for _ in 0..1_500 {
        for (tool, args) in [
            ("read", json!({"path": "target/secret.txt"})),
            ("grep", json!({"path": "target", "pattern": "secret"})),
            ("grep", json!({"pattern": "the secret"})),
        ] {
            let response = world.call(tool, args).await;
            let text = serde_json::to_string(&response).unwrap();
            assert!(!text.contains("the secret"), "{text}");
            read_inside += u32::from(text.contains("harmless"));
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapping.join().unwrap() > 100);
    assert!(read_inside > 0);
}

/// The same for writing: no file may appear outside.
#[tokio::test(flavor = "multi_thread")]
async fn symlink_swapped_in_during_a_write_never_writes_outside() {
    let world = world();
    world
        .outputs("write", json!({"path": "target/first.txt", "content": "x"}))
        .await;
    let run = world.folder.path().join("runs/1");
    symlink(world.folder.path().join("outside"), run.join("evil")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (run, stop) = (run.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut swaps = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(run.join("target"), run.join("aside")).unwrap_or_default();
                swaps += u64::from(std::fs::rename(run.join("evil"), run.join("target")).is_ok());
                std::fs::rename(run.join("target"), run.join("evil")).unwrap_or_default();
                // A call may have made a new folder in the gap.
                std::fs::remove_dir_all(run.join("target")).unwrap_or_default();
                std::fs::rename(run.join("aside"), run.join("target")).unwrap_or_default();
            }
            swaps
        })
    };
    let mut written = 0;
    for number in 0..300 {
        let args = json!({"path": format!("target/{number}.txt"), "content": "x"});
        let response = world.call_as(&format!("call-{number}"), "write", args).await;
        written += u32::from(response.is_ok());
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapping.join().unwrap() > 0);
    assert!(written > 0);
    let outside: Vec<_> = std::fs::read_dir(world.folder.path().join("outside"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(outside, ["secret.txt"]);
}
