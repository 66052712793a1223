//! What the doctor finds in a file that was changed behind the store's back.

use std::path::Path;
use std::sync::Arc;

use folio_store::Store as _;
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_testkit::contract::scene::Scene;
use rusqlite::Connection;

mod damage;

fn open(path: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(&OpenOptions::at(path)).expect("a store")
}

#[tokio::test]
async fn sqlite_check_reports_problems_beside_an_unreadable_row() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    damage::fill(&Scene::on(open(&whole))).await;
    damage::assert_found(&*open(&whole), "none", &[]).await;
    // The number of a row is in the lower forty bits of its place.
    for (damage, wanted) in damage::damages(|number| format!("place & 1099511627775 = {number}")) {
        let path = folder.path().join("damaged.db");
        std::fs::copy(&whole, &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(&damage).unwrap();
        damage::assert_found(&*open(&path), &damage, &wanted).await;
    }
}

#[tokio::test]
async fn store_reports_its_file_size_and_none_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    assert!(store.bytes().await.unwrap().is_some_and(|bytes| bytes >= 4_096));
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    assert_eq!(store.bytes().await.unwrap(), None);
}
