//! The run of a process that was killed.

use folio_memory::RunId;
use folio_runner::Runner;
use folio_store::RunQuery;

/// The only run, if it exists already.
pub(crate) async fn only_run(runner: &Runner) -> Option<RunId> {
    let workspace = runner.workspace();
    let rows = workspace
        .store()
        .runs(workspace.space(), &RunQuery::default())
        .await
        .expect("the store can be read");
    assert!(rows.len() <= 1);
    rows.first().map(|row| row.id)
}
