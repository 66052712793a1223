//! What PostgreSQL reads for a commit does not grow with the space, also while it knows nothing of its tables yet.

use folio_memory::{Change, PageRole};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_testkit::contract::scene::Scene;
use folio_testkit::postgres::Database;

/// Entries that are added, one in a commit.
const ADDED: u64 = 1_000;
/// How often it is looked whether connections have ended.
const LOOKS_MAX: u32 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_commit_looks_up_is_found_by_its_keys_alone() {
    let database = Database::fresh();
    let store = PostgresStore::open(&OpenOptions::at(database.url())).expect("a store");
    let scene = Scene::on(store.clone());
    let page = scene.a_page().await;
    for number in 0..ADDED {
        let pages = Change::EnsurePage(Box::new(scene.page(PageRole::Plan)));
        let note = scene.note(page, &format!("note {number}"));
        scene.commit(vec![pages, Change::AddEntry(Box::new(note))]).await;
    }
    drop(scene);
    drop(store);
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                  AND backend_type = 'client backend'";
    // What a connection has read is told when it ends.
    assert!((0..LOOKS_MAX).any(|_| database.ask(others).unwrap() == "0"));
    for index in ["entry_id", "page_id"] {
        let sql = format!("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = '{index}'");
        let read: u64 = database.ask(&sql).unwrap().parse().unwrap();
        assert!(read <= 4 * ADDED, "{read} read by {index} for {ADDED} commits");
    }
}
