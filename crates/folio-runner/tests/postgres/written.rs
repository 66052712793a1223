//! Processes that drive runs of one shared store, whose calls write the same resource (E9.15).

use crate::written_support::{Place, one_after_the_other, who_dies_with_a_name, who_is_stopped_with_a_name};
use folio_testkit::postgres::Database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_a_resource_in_turn_in_postgres_e9_15() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh());
    one_after_the_other(&Place::new(folder.path(), &database.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_process_frees_its_resources_in_postgres_e9_15() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh());
    who_dies_with_a_name(&Place::new(folder.path(), &database.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_process_loses_its_resources_and_its_fence_in_postgres_e9_15() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh());
    who_is_stopped_with_a_name(&Place::new(folder.path(), &database.url())).await;
}
