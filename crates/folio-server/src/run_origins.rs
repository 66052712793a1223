//! The handles of the runs that others were forked from, which lists of runs contain.

use std::collections::HashMap;

use folio::engine::run::RunSummary;
use folio::memory::RunId;
use folio::memory::id::Ref;
use folio::store::{RunRow, StoreError, Workspace, WorkspaceError};

/// Returns the handles of the runs from which the runs with these `summaries` were forked, by id; `rows` are runs that
/// are known already. A run that is gone keeps its id as its name.
///
/// # Errors
///
/// Those of the store.
pub async fn origin_handles(
    workspace: &Workspace,
    rows: &[RunRow],
    summaries: impl IntoIterator<Item = &RunSummary>,
) -> Result<HashMap<RunId, String>, WorkspaceError> {
    let known: HashMap<RunId, String> = rows.iter().map(|row| (row.id, row.handle.to_string())).collect();
    let mut handles = HashMap::new();
    for origin in summaries.into_iter().filter_map(|summary| summary.forked_from) {
        if handles.contains_key(&origin) {
            continue;
        }
        let handle = match known.get(&origin) {
            Some(handle) => handle.clone(),
            None => match workspace.store().run(workspace.space(), Ref::Id(origin)).await {
                Ok(row) => row.handle.to_string(),
                Err(StoreError::NotFound { .. }) => origin.to_string(),
                Err(error) => return Err(error.into()),
            },
        };
        handles.insert(origin, handle);
    }
    Ok(handles)
}
