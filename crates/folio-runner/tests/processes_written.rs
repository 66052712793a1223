//! Processes that drive runs of one file, whose calls write the same resource (E9.15).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod written_support;

use written_support::{Place, one_after_the_other, who_dies_with_a_name, who_is_stopped_with_a_name};

fn in_a_file(folder: &tempfile::TempDir) -> Place {
    let store = folder.path().join("folio.db").display().to_string();
    Place::new(folder.path(), &store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_a_resource_in_turn_in_sqlite_e9_15() {
    let folder = tempfile::tempdir().unwrap();
    one_after_the_other(&in_a_file(&folder)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_process_frees_its_resources_in_sqlite_e9_15() {
    let folder = tempfile::tempdir().unwrap();
    who_dies_with_a_name(&in_a_file(&folder)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_process_loses_its_resources_and_its_fence_in_sqlite_e9_15() {
    let folder = tempfile::tempdir().unwrap();
    who_is_stopped_with_a_name(&in_a_file(&folder)).await;
}
