//! Files and copies of them are accessible to their owner alone, and a killed process leaves nothing of a file that it
//! was creating.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use folio_store::OwnerId;
use folio_store::sqlite::{Look, OpenOptions, SqliteStore, restore};
use folio_testkit::contract::scene::Scene;

/// The permissions of the file or folder at `path`.
fn rights(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// A store at `path` with something in it, open.
async fn store(path: &Path) -> Scene {
    let scene = Scene::on(SqliteStore::open(&OpenOptions::at(path)).unwrap());
    scene.a_note("secret").await;
    scene
}

#[tokio::test]
async fn copies_are_owner_only_and_replaced_stores_keep_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    store(&at("folio.db"))
        .await
        .store
        .back_up(&at("copy.db"))
        .await
        .unwrap();
    restore(&at("copy.db"), &at("new/deep/other.db"), false, Look::AtEverything).unwrap();
    for (path, wanted) in [
        ("copy.db", 0o600),
        ("new", 0o700),
        ("new/deep", 0o700),
        ("new/deep/other.db", 0o600),
    ] {
        assert_eq!(rights(&at(path)), wanted, "{path}");
    }
    for mode in [0o600, 0o640] {
        let there = at("new/deep/other.db");
        std::fs::set_permissions(&there, Permissions::from_mode(mode)).unwrap();
        restore(&at("copy.db"), &there, true, Look::AtEverything).unwrap();
        assert_eq!(rights(&there), mode);
    }
}

#[tokio::test]
async fn store_created_through_a_dangling_symlink_is_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("inner")).unwrap();
    symlink("inner/second", at("first")).unwrap();
    symlink("../folio.db", at("inner/second")).unwrap();
    store(&at("first")).await;
    assert_eq!(rights(&at("folio.db")), 0o600);
}

#[tokio::test]
async fn next_copy_removes_an_unfinished_one_of_a_dead_process() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let unfinished = |name: &str| at(&format!("{name}-{}.unfinished", OwnerId::random().0));
    let (dead, alive) = (unfinished("other.db"), unfinished("copy.db"));
    let journal = |path: &Path| at(&format!("{}-journal", path.file_name().unwrap().display()));
    let (of_dead, of_alive, orphan) = (journal(&dead), journal(&alive), journal(&unfinished("gone.db")));
    for path in [&dead, &alive, &at("mine.unfinished"), &of_dead, &of_alive, &orphan] {
        std::fs::write(path, "half").unwrap();
    }
    let held = File::open(&alive).unwrap();
    held.lock().unwrap();
    store(&at("folio.db"))
        .await
        .store
        .back_up(&at("copy.db"))
        .await
        .unwrap();
    assert!(!dead.exists() && !of_dead.exists() && !orphan.exists());
    assert!(of_alive.exists());
    assert!(alive.exists() && at("mine.unfinished").exists());
}

#[tokio::test]
async fn stores_with_non_utf8_names_are_backed_up_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    let scene = store(&at(b"folio\xff.db")).await;
    scene.store.back_up(&at(b"copy\xfe.db")).await.unwrap();
    restore(&at(b"copy\xfe.db"), &at(b"other\xfd.db"), false, Look::AtEverything).unwrap();
    for name in [&b"copy\xfe.db"[..], b"other\xfd.db"] {
        let again = Scene::on(SqliteStore::open(&OpenOptions::at(at(name))).unwrap());
        assert_eq!(again.head().await, scene.head().await);
    }
}

#[tokio::test]
async fn emptied_store_with_a_wal_is_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole.db"), folder.path().join("cut.db"));
    let log = |path: &Path| path.with_extension("db-wal");
    let scene = store(&whole).await;
    std::fs::copy(log(&whole), log(&cut)).unwrap();
    drop(scene);
    let bytes = log(&cut).metadata().unwrap().len();
    assert!(bytes > 0);
    File::create(&cut).unwrap();
    let refused = SqliteStore::open(&OpenOptions::at(&cut)).unwrap_err();
    assert!(
        refused.to_string().contains("it is empty, but the log of a store"),
        "{refused}"
    );
    assert_eq!(log(&cut).metadata().unwrap().len(), bytes);
}
