//! The contract of files: the same queries to a space and to a folder with the same files.

use std::sync::Arc;

use folio::files::{Files, FilesError};
use folio::memory::files::FileKind;
use folio::memory::passage::{Part, Reading};
use folio::memory::tokens::Estimate;
use folio::store::ErrorKind;
use folio::store::workspace::{Eviction, Offload, PageInput};
use folio::tools::Folder;
use folio::{Actor, Folio, ItemInput, Role, SpaceName, ThreadKey, Workspace};
use serde_json::json;

/// A space with something in each folder.
async fn space() -> Workspace {
    let space = Folio::open("memory:").await.unwrap().workspace(SpaceName::main());
    let person = Actor::new(Role::Human, "ada");
    for thread in ["a/b", "a_b"] {
        let input: ItemInput =
            serde_json::from_value(json!({"kind": "note", "body": format!("oak of {thread}")})).unwrap();
        space
            .add_item(&person, &ThreadKey(thread.to_owned()), input, None)
            .await
            .unwrap();
    }
    let page = PageInput {
        title: "Findings".to_owned(),
        ..PageInput::default()
    };
    let page = space.new_page(&person, page).await.unwrap();
    let block = "stone\noak and oak\nriver".to_owned();
    space
        .append(&person, folio::memory::id::Ref::Id(page.id), "", block, &[], None)
        .await
        .unwrap();
    let how = Eviction {
        limit_tokens: 20,
        tokens: Arc::new(Estimate),
        ..Eviction::default()
    };
    let result = std::io::Cursor::new("line of a result\n".repeat(500).into_bytes());
    space.evict(&person, result, how).await.unwrap();
    let messages: Vec<_> = (0..12)
        .map(|n| json!({"role": "user", "content": format!("oak {n}")}))
        .collect();
    let how = Offload {
        force: true,
        keep_last: 2,
        ..Offload::default()
    };
    space
        .offload(&person, &ThreadKey("a/b".to_owned()), &json!(messages), &how)
        .await
        .unwrap();
    space
}

/// Every file below `path`, with its text.
async fn all(files: &dyn Files, path: &str) -> Vec<(String, Vec<u8>)> {
    let (mut found, mut waiting) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in files.list(&folder).await.unwrap() {
            match entry.kind {
                FileKind::Folder => waiting.push(entry.path),
                FileKind::File => {
                    let read = files.read(&entry.path, &Part::WHOLE, 1 << 20).await.unwrap();
                    let Reading::Passage(passage) = read.reading else {
                        panic!("no text")
                    };
                    found.push((entry.path, passage.bytes));
                }
            }
        }
    }
    found.sort();
    found
}

/// The contract. `one` is a file of more than three lines with `oak` in it, below a folder.
async fn keeps_its_promises(files: &dyn Files, one: &str) {
    for way_out in ["..", "/../x", "/a/../../b", "a//b", "./x", "a\\..\\b"] {
        for refused in [
            files.list(way_out).await.err(),
            files.read(way_out, &Part::WHOLE, 10).await.err(),
            files.search(way_out, "x", None, 10).await.err(),
        ] {
            assert!(
                matches!(refused, Some(FilesError::Escapes(_)))
                    && refused
                        .as_ref()
                        .is_some_and(|error| (error.code(), error.kind()) == ("path_escapes", ErrorKind::Invalid)),
                "{way_out}: {refused:?}"
            );
        }
    }
    for missing in ["/nothing", "/pages/p99.md", "/pages/p99.md/deeper"] {
        let read = files.read(missing, &Part::WHOLE, 10).await;
        assert!(matches!(read, Err(FilesError::NotFound(_))), "{missing}: {read:?}");
        let error = read.unwrap_err();
        assert_eq!((error.code(), error.kind()), ("not_found", ErrorKind::NotFound));
        let found = files.search(missing, "oak", None, 10).await;
        assert!(matches!(found, Err(FilesError::NotFound(_))), "{missing}: {found:?}");
    }
    assert!(
        matches!(files.list(one).await, Err(FilesError::NotFound(_))),
        "a file is no folder"
    );
    assert!(
        matches!(
            files.read("/pages", &Part::WHOLE, 10).await,
            Err(FilesError::NotFound(_))
        ),
        "nor the other way round"
    );
    let listed = files.list("/").await.unwrap();
    assert!(listed.is_sorted() && listed.iter().all(|entry| entry.kind == FileKind::Folder));
    assert_eq!(files.list("").await.unwrap(), listed);

    // What is capped says what reads on, and all parts together are the whole.
    let whole = files.read(one, &Part::WHOLE, 1 << 20).await.unwrap();
    let Reading::Passage(whole_passage) = &whole.reading else {
        panic!("no text")
    };
    for first in [Part::WHOLE, Part::Lines { from: 1, to: u64::MAX }] {
        let (mut part, mut bytes) = (Some(first), Vec::new());
        while let Some(next) = part {
            let read = files.read(one, &next, 16).await.unwrap();
            assert_eq!(
                (read.total_bytes, read.total_lines),
                (whole.total_bytes, whole.total_lines)
            );
            let Reading::Passage(passage) = read.reading else {
                panic!("no text")
            };
            assert!(!passage.bytes.is_empty() && passage.bytes.len() <= 16);
            bytes.extend(passage.bytes);
            part = passage.next;
        }
        assert_eq!(bytes, whole_passage.bytes);
    }
    let second = files.read(one, &Part::Lines { from: 2, to: 2 }, 1 << 20).await.unwrap();
    let Reading::Passage(second) = second.reading else {
        panic!("no text")
    };
    assert_eq!(second.from_line, 2);

    // A search of everything is that of each file, and goes on where it stopped.
    let everything = files.search("/", "OAK", None, 1 << 20).await.unwrap();
    assert!(everything.hits.iter().any(|hit| hit.path == one) && everything.next.is_none());
    let (mut hits, mut after) = (Vec::new(), None);
    loop {
        let some = files.search("/", "oak", after.as_deref(), 1).await.unwrap();
        hits.extend(some.hits.into_iter().map(|hit| hit.path));
        after = some.next;
        if after.is_none() {
            break;
        }
    }
    let mut paths: Vec<_> = everything.hits.iter().map(|hit| hit.path.clone()).collect();
    paths.dedup();
    hits.dedup();
    assert_eq!(hits, paths);
    let in_one = files.search(one, "oak", None, 1 << 20).await.unwrap();
    assert!(!in_one.hits.is_empty() && in_one.hits.iter().all(|hit| hit.path == one));
    assert_eq!(files.search("/", "no such words", None, 100).await.unwrap().hits, []);
}

#[tokio::test]
async fn space_files_and_folder_files_satisfy_the_same_contract() {
    let space = space().await;
    let page = "/pages/p3.md";
    keeps_its_promises(&space, page).await;
    let copied = tempfile::tempdir().unwrap();
    let files = all(&space, "/").await;
    for (path, text) in &files {
        let to = copied.path().join(&path[1..]);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, text).unwrap();
    }
    let folder = Folder::open(copied.path()).unwrap();
    keeps_its_promises(&folder, page).await;
    assert_eq!(all(&folder, "/").await, files);
    let found = |files: Arc<dyn Files>| async move { files.search("/", "oak", None, 1 << 20).await.unwrap() };
    assert_eq!(found(Arc::new(space)).await, found(Arc::new(folder)).await);
}

#[tokio::test]
async fn space_files_have_the_names_of_seed_003() {
    let space = space().await;
    for missing in ["/conversation_history/none", "/scratchbook/none.md"] {
        let found = Files::search(&space, missing, "oak", None, 10).await.unwrap_err();
        assert!(found.to_string().contains(missing), "{found}");
    }
    let mut names: Vec<_> = all(&space, "/").await.into_iter().map(|(path, _)| path).collect();
    names.retain(|name| !name.starts_with("/pages/"));
    assert_eq!(
        names,
        [
            "/conversation_history/a%2Fb/1-10",
            "/large_tool_results/e4",
            "/scratchbook/a%2Fb.json",
            "/scratchbook/a%2Fb.md",
            "/scratchbook/a_b.json",
            "/scratchbook/a_b.md",
        ]
    );
    let said = Files::read(&space, "/conversation_history/a%2Fb/3-4", &Part::WHOLE, 1_000)
        .await
        .unwrap();
    let Reading::Passage(said) = said.reading else {
        panic!("no text")
    };
    assert_eq!(said.text().lines().count(), 2);
    let everything = Files::read(&space, "/conversation_history/a%2Fb", &Part::WHOLE, 10_000)
        .await
        .unwrap();
    assert_eq!(everything.total_lines, 10);
}

#[tokio::test]
async fn files_outside_a_role_are_unlisted_and_refused_on_read_m7_7() {
    let space = space().await;
    for role in [Role::Tool, Role::Executor, Role::Compactor] {
        let seen = space
            .asked_by(&Actor::new(role, "x"))
            .in_thread(&ThreadKey("a_b".to_owned()));
        let names: Vec<_> = all(&seen, "/").await.into_iter().map(|(path, _)| path).collect();
        let is_own = |name: &String| role == Role::Compactor && (name.contains("a_b") || name == "/pages/p2.md");
        assert!(names.iter().all(is_own), "{role} {names:?}");
        for refused in [
            "/scratchbook/a%2Fb.md",
            "/scratchbook/a%2Fb.json",
            "/large_tool_results/e4",
            "/conversation_history/a%2Fb/1-2",
        ] {
            let read = Files::read(&seen, refused, &Part::WHOLE, 100).await;
            assert!(
                matches!(read, Err(FilesError::Refused(_))),
                "{role} {refused}: {read:?}"
            );
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn symlinks_do_not_lead_outside_the_folder() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret.txt"), "oak").unwrap();
    std::os::unix::fs::symlink(outside.path(), inside.path().join("way")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), inside.path().join("file.txt")).unwrap();
    let folder = Folder::open(inside.path()).unwrap();
    assert_eq!(Files::list(&folder, "/").await.unwrap(), []);
    for way in ["/file.txt", "/way/secret.txt"] {
        let read = Files::read(&folder, way, &Part::WHOLE, 10).await;
        assert!(matches!(read, Err(FilesError::Escapes(_))), "{way}: {read:?}");
    }
    assert_eq!(Files::search(&folder, "/", "oak", None, 100).await.unwrap().hits, []);
}
