//! What the doctor finds in a file that was changed behind the store's back.

use std::path::Path;
use std::sync::Arc;

use folio_store::Store as _;
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_testkit::contract::scene::Scene;
use rusqlite::Connection;

fn open(path: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(&OpenOptions::at(path)).expect("a store")
}

#[tokio::test]
async fn sqlite_check_reports_problems_beside_an_unreadable_row() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    crate::damage::fill(&Scene::on(open(&whole))).await;
    crate::damage::assert_found(&*open(&whole), "none", &[]).await;
    // The number of a row is in the lower forty bits of its place.
    for (damage, wanted) in crate::damage::damages(|number| format!("place & 1099511627775 = {number}")) {
        let path = folder.path().join("damaged.db");
        std::fs::copy(&whole, &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(&damage).unwrap();
        crate::damage::assert_found(&*open(&path), &damage, &wanted).await;
    }
}

#[tokio::test]
async fn sqlite_check_finds_damage_in_more_than_it_holds_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("much.db");
    crate::damage::fill_much(&Scene::on(open(&path))).await;
    crate::damage::assert_found(&*open(&path), "none", &[]).await;
    let (damage, wanted) = crate::damage::damage_to_much(|number| format!("place & 1099511627775 = {number}"));
    Connection::open(&path).unwrap().execute_batch(&damage).unwrap();
    crate::damage::assert_found(&*open(&path), &damage, &wanted).await;
}

/// With every write, the trigger would let somebody in as a person.
#[tokio::test]
async fn trigger_and_view_of_somebody_else_have_no_effect_and_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    drop(open(&path));
    let planted = "CREATE TABLE planted (x INTEGER);
        CREATE TRIGGER door AFTER INSERT ON log BEGIN INSERT INTO planted VALUES (1); END;
        CREATE VIEW endless AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n;";
    Connection::open(&path).unwrap().execute_batch(planted).unwrap();
    let store = open(&path);
    crate::damage::fill(&Scene::on(store.clone())).await;
    let problems = store.check().await.unwrap().problems;
    assert_eq!(
        problems,
        [
            r#"the file contains the trigger "door" (on "log"), which Folio did not make"#,
            r#"the file contains the view "endless" (on "endless"), which Folio did not make"#,
        ]
    );
    let count = "SELECT count(*) FROM planted";
    let fired: i64 = Connection::open(&path)
        .unwrap()
        .query_row(count, [], |row| row.get(0))
        .unwrap();
    assert_eq!(fired, 0);
}

#[tokio::test]
async fn store_reports_its_file_size_and_none_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    assert!(store.bytes().await.unwrap().is_some_and(|bytes| bytes >= 4_096));
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    assert_eq!(store.bytes().await.unwrap(), None);
}
