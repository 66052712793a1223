//! A file that is moved, replaced or removed while a process has it open, and a log that is left without its file.

use std::fs::{remove_file, rename};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use folio_memory::{Change, PageRole, RunId};
use folio_store::sqlite::{Look, OpenOptions, SqliteStore, restore};
use folio_store::{Committed, ErrorKind, StoreError};
use folio_testkit::contract::scene::Scene;

/// A store in a folder of its own, open, with a note in it.
struct House {
    folder: tempfile::TempDir,
    scene: Scene,
}

impl House {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Scene::on(open(&folder.path().join("s.db")).unwrap());
        scene.a_note("one").await;
        Self { folder, scene }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Why nothing can be written.
    async fn refusal(&self) -> String {
        let refused = try_to_write(&self.scene).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        // What asks whether the store is ready is told the same: a write that changes nothing.
        let nobody = RunId::derived(&["nobody"]);
        let ready = self.scene.store.release_run(&self.scene.space, nobody, 0).await;
        assert_eq!(ready.unwrap_err().to_string(), refused.to_string());
        refused.to_string()
    }
}

/// Commits a page, or returns why it could not.
async fn try_to_write(scene: &Scene) -> Result<Committed, StoreError> {
    let page = scene.page(PageRole::Note);
    scene.try_commit(vec![Change::EnsurePage(Box::new(page))]).await
}

fn open(path: &Path) -> Result<std::sync::Arc<SqliteStore>, StoreError> {
    SqliteStore::open(&OpenOptions::at(path))
}

#[tokio::test]
async fn commits_to_a_renamed_file_are_refused_until_its_return() {
    let house = House::new().await;
    let head = house.scene.head().await;
    rename(house.at("s.db"), house.at("moved.db")).unwrap();
    let refused = house.refusal().await;
    assert!(refused.contains("was moved or removed while this process"), "{refused}");
    // What it has can be read by whoever has it open already.
    assert_eq!(house.scene.head().await, head);
    rename(house.at("moved.db"), house.at("s.db")).unwrap();
    try_to_write(&house.scene).await.unwrap();
    let House { folder, scene } = house;
    drop(scene);
    let again = Scene::on(open(&folder.path().join("s.db")).unwrap());
    assert_eq!(again.head().await.0, head.0 + 1);
    assert_eq!(again.store.check().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn commits_to_a_removed_or_replaced_file_are_refused() {
    let house = House::new().await;
    for name in ["s.db", "s.db-wal", "s.db-shm"] {
        remove_file(house.at(name)).unwrap();
    }
    let refused = house.refusal().await;
    assert!(refused.contains("was moved or removed while this process"), "{refused}");
    // Whoever makes a new one has a store of his own, which the old process neither writes to nor reads from.
    let other = Scene::on(open(&house.at("s.db")).unwrap());
    let refused = house.refusal().await;
    assert!(refused.contains("another file has taken its place"), "{refused}");
    let copied = house.scene.store.back_up(&house.at("copy.db")).await;
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::Unavailable);
    other.a_note("new").await;
}

#[tokio::test]
async fn commits_are_refused_when_the_wal_or_shm_is_removed() {
    for name in ["s.db-wal", "s.db-shm"] {
        let house = House::new().await;
        remove_file(house.at(name)).unwrap();
        let refused = house.refusal().await;
        assert!(refused.contains("the -wal or -shm beside it"), "{refused}");
    }
}

#[tokio::test]
async fn store_opened_through_a_symlink_notices_a_moved_file() {
    let folder = tempfile::tempdir().unwrap();
    let (link, file) = (folder.path().join("link.db"), folder.path().join("s.db"));
    symlink("s.db", &link).unwrap();
    let scene = Scene::on(open(&link).unwrap());
    scene.a_note("one").await;
    rename(&file, folder.path().join("moved.db")).unwrap();
    try_to_write(&scene).await.unwrap_err();
}

#[tokio::test]
async fn opening_a_wal_without_its_file_creates_no_store() {
    let house = House::new().await;
    rename(house.at("s.db"), house.at("moved.db")).unwrap();
    let refused = open(&house.at("s.db")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.to_string().contains("put it back"), "{refused}");
    assert!(!house.at("s.db").exists());
    rename(house.at("moved.db"), house.at("s.db")).unwrap();
    assert_eq!(
        Scene::on(open(&house.at("s.db")).unwrap()).head().await,
        house.scene.head().await
    );
}

#[test]
fn opening_an_empty_wal_without_its_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    std::fs::write(folder.path().join("s.db-wal"), "").unwrap();
    let refused = open(&path).unwrap_err();
    assert!(refused.to_string().contains("its -wal is there"), "{refused}");
    assert!(!path.exists());
}

#[test]
fn opening_a_device_is_refused_with_the_reason() {
    let refused = open(Path::new("/dev/null")).unwrap_err();
    assert!(
        refused.to_string().contains("it is a device, a pipe or a socket"),
        "{refused}"
    );
}

#[test]
fn file_name_too_long_for_its_companion_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{}.db", "n".repeat(249)));
    let refused = open(&path).unwrap_err();
    assert!(refused.to_string().contains("is too long"), "{refused}");
    assert!(!path.exists());
}

#[tokio::test]
async fn file_with_a_second_name_is_opened_under_neither() {
    let house = House::new().await;
    std::fs::hard_link(house.at("s.db"), house.at("other.db")).unwrap();
    for name in ["s.db", "other.db"] {
        let refused = open(&house.at(name)).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert!(refused.to_string().contains("another name"), "{refused}");
    }
    assert!(!house.at("other.db-wal").exists());
    // Who had it open before goes on, and others do as soon as the second name is gone.
    house.scene.a_note("two").await;
    remove_file(house.at("other.db")).unwrap();
    drop(open(&house.at("s.db")).unwrap());
}

#[tokio::test]
async fn second_name_left_by_a_killed_restore_is_removed() {
    let house = House::new().await;
    let left = house.at("s.db-0123456789abcdef0123456789abcdef.unfinished");
    std::fs::hard_link(house.at("s.db"), &left).unwrap();
    drop(open(&house.at("s.db")).unwrap());
    assert!(!left.exists());
}

/// A store at `path` with notes, which were made at a time that only this store has.
async fn store_with(path: &Path, seconds: u64, notes: &[&str]) -> Scene {
    let scene = Scene::on(open(path).unwrap());
    scene.clock.advance(Duration::from_secs(seconds));
    for note in notes {
        scene.a_note(note).await;
    }
    scene
}

/// Copies the file of a store and the log beside it, or only the log, to the place of another.
fn copy_beside(from: &Path, to: &Path, suffixes: &[&str]) {
    for suffix in suffixes {
        let with = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        std::fs::copy(with(from), with(to)).unwrap();
    }
}

/// As after a store was killed, and another file was copied over it.
#[tokio::test]
async fn file_is_not_opened_beside_the_log_of_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let other = store_with(&at("other.db"), 2, &["of another store", "and another"]).await;
    for (name, notes) in [("less.db", &["one"][..]), ("more.db", &["one", "two", "three", "four"])] {
        let file = at(name);
        let own = store_with(&file, 1, notes).await;
        let head = own.head().await;
        drop(own);
        let before = std::fs::read(&file).unwrap();
        copy_beside(&at("other.db"), &file, &["-wal"]);
        for _ in 0..2 {
            let refused = open(&file).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
            assert!(
                refused.to_string().contains("its -wal belongs to another file"),
                "{refused}"
            );
        }
        let restored = restore(&file, &at("copy.db"), false, Look::AtEverything);
        assert_eq!(restored.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(std::fs::read(&file).unwrap(), before, "nothing was written");
        for suffix in ["-wal", "-shm"] {
            drop(remove_file(at(&format!("{name}{suffix}"))));
        }
        let again = Scene::on(open(&file).unwrap());
        assert_eq!(again.head().await, head);
        assert_eq!(again.store.check().await.unwrap().problems, Vec::<String>::new());
    }
    // A copy that was made while the store was open has its own log.
    let head = other.head().await;
    copy_beside(&at("other.db"), &at("pair.db"), &["", "-wal"]);
    let pair = Scene::on(open(&at("pair.db")).unwrap());
    assert_eq!(pair.head().await, head);
}

/// Both go back to the same beginning.
#[tokio::test]
async fn file_is_not_opened_beside_the_log_of_the_store_that_it_is_a_copy_of() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    drop(store_with(&at("s.db"), 1, &["one", "two"]).await);
    std::fs::copy(at("s.db"), at("copy.db")).unwrap();
    let _other = store_with(&at("s.db"), 9, &["three"]).await;
    drop(store_with(&at("copy.db"), 5, &["another three"]).await);
    copy_beside(&at("s.db"), &at("copy.db"), &["-wal"]);
    let refused = open(&at("copy.db")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
}
