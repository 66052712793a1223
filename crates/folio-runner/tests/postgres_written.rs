//! Processes that drive runs of one shared store, whose calls write the same resource (E9.15).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod written_support;

use folio_testkit::postgres::Database;
use written_support::{Place, one_after_the_other, who_dies_with_a_name, who_is_stopped_with_a_name};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_one_after_the_other_in_postgres_e9_15() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh());
    one_after_the_other(&Place::new(folder.path(), &database.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_had_is_free_in_postgres_e9_15() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh());
    who_dies_with_a_name(&Place::new(folder.path(), &database.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stopped_process_had_is_free_and_it_writes_no_more_in_postgres_e9_15() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh());
    who_is_stopped_with_a_name(&Place::new(folder.path(), &database.url())).await;
}
