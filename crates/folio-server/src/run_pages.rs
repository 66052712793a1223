//! The handles of the pages of a run, which its wire types contain.

use std::collections::{BTreeMap, HashMap};

use folio::engine::{Run, projection};
use folio::memory::id::Ref;
use folio::memory::query::MAX_LIMIT;
use folio::memory::{PageHandle, PageId, PageQuery, RunId};
use folio::store::{StoreError, Workspace, WorkspaceError};

/// Returns the handles of a run's pages except those of its branches, by purpose: `workspace`, `main`, `plan`,
/// `summary`, `report`. A run that has just begun has not created all of them.
///
/// # Errors
///
/// Those of the store.
pub async fn main_pages(workspace: &Workspace, run: &Run) -> Result<BTreeMap<&'static str, String>, WorkspaceError> {
    let mut pages = BTreeMap::new();
    let page_ids = [
        ("workspace", projection::workspace_page(run.id())),
        ("main", projection::main_page(run.id())),
        ("plan", projection::plan_page(run.id())),
        ("summary", projection::summary_page(run)),
        ("report", projection::report_page(run.id())),
    ];
    for (name, id) in page_ids {
        match workspace.page(Ref::Id(id)).await {
            Ok(page) => drop(pages.insert(name, page.handle.to_string())),
            Err(WorkspaceError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pages)
}

/// Returns the handles of all pages of `run` that exist.
///
/// # Errors
///
/// Those of the store.
pub async fn page_handles(workspace: &Workspace, run: RunId) -> Result<HashMap<PageId, PageHandle>, WorkspaceError> {
    let mut handles = HashMap::new();
    let mut query = PageQuery {
        run: Some(run),
        limit: MAX_LIMIT,
        ..PageQuery::default()
    };
    loop {
        let pages = workspace.pages(&query).await?;
        handles.extend(pages.iter().map(|page| (page.id, page.handle)));
        match pages.last() {
            Some(last) if pages.len() >= MAX_LIMIT as usize => query.after = Some(last.handle.0),
            _ => return Ok(handles),
        }
    }
}
