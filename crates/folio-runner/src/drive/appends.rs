//! The pages that calls want to append to.

use folio_engine::{CallOutcome, Failure, StopReason};
use folio_memory::RunId;
use folio_store::StoreError;
use folio_store::workspace::Workspace;
use folio_tools::PageTarget;

use crate::error::RunnerError;
use crate::perform::Performed;

/// The tool whose only effect is an append.
const PAGE_APPEND: &str = "page_append";

/// Replaces handles of pages by their ids. A page that does not exist or belongs to another run stays a handle and is
/// rejected later; a call of the append tool then fails.
pub(super) async fn resolve_pages(
    workspace: &Workspace,
    run: RunId,
    performed: &mut Performed,
) -> Result<(), RunnerError> {
    let mut problem = None;
    for append in &mut performed.writes.page_appends {
        let PageTarget::Handle(handle) = &append.page else {
            continue;
        };
        let Ok(reference) = handle.parse() else { continue };
        match workspace.store().page(workspace.space(), reference).await {
            Ok(page) if page.fields.run.is_some_and(|of| of != run) => {
                problem = Some(format!(
                    "{handle} is a page of another run; name one of this run, or a title"
                ));
                append.page = PageTarget::Handle(format!("{handle} (of another run)"));
            }
            Ok(page) => append.page = PageTarget::Handle(page.id.to_string()),
            Err(StoreError::NotFound { .. }) => {
                problem = Some(format!("there is no page {handle}; name another one, or a title"));
                append.page = PageTarget::Handle(format!("{handle} (not found)"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(message) = problem.filter(|_| performed.writes.tool == PAGE_APPEND) {
        performed.writes.page_appends.clear();
        performed.outcome = CallOutcome::from(Failure {
            code: "not_found".to_owned(),
            message,
            reason: StopReason::InvalidInput,
            may_retry: false,
        });
    }
    Ok(())
}
