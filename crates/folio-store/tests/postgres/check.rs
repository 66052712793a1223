//! What the doctor finds in a database that was changed behind the store's back.

use std::sync::Arc;

use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_testkit::contract::scene::Scene;
use folio_testkit::postgres::Database;

#[tokio::test(flavor = "multi_thread")]
async fn postgres_check_reports_problems_beside_an_unreadable_row() {
    for (damage, wanted) in crate::damage::damages(|number| format!("number = {number}")) {
        let database = Database::fresh();
        let store = PostgresStore::open(&OpenOptions::at(database.url())).unwrap();
        crate::damage::fill(&Scene::on(Arc::<PostgresStore>::clone(&store))).await;
        crate::damage::assert_found(&*store, "none", &[]).await;
        database.ask(&format!("SET search_path = folio; {damage}")).unwrap();
        crate::damage::assert_found(&*store, &damage, &wanted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_check_finds_damage_in_more_than_it_holds_in_memory() {
    let database = Database::fresh();
    let store = PostgresStore::open(&OpenOptions::at(database.url())).unwrap();
    damage::fill_much(&Scene::on(Arc::<PostgresStore>::clone(&store))).await;
    damage::assert_found(&*store, "none", &[]).await;
    let (damage, wanted) = damage::damage_to_much(|number| format!("number = {number}"));
    database.ask(&format!("SET search_path = folio; {damage}")).unwrap();
    damage::assert_found(&*store, &damage, &wanted).await;
}
