//! The pages that calls want to append to.

use folio_engine::{CallOutcome, Failure, Run, StopReason, projection};
use folio_memory::id::{PageRef, Ref};
use folio_memory::{Page, PageId, PageRole, RunId};
use folio_store::StoreError;
use folio_store::workspace::Workspace;
use folio_tools::PageTarget;

use crate::error::RunnerError;
use crate::outage::Patience;
use crate::perform::Performed;
use crate::runner::Shared;

/// The tool whose only effect is an append.
const PAGE_APPEND: &str = "page_append";

/// Of how many runs it is looked which of them was forked from the next one.
const MAX_ORIGINS: usize = 100;

/// Replaces handles of pages by their ids. For a page of the run from which this one was forked, or of one from which
/// that one was, it is the page in its place: plans and models that the fork kept name the old one. A page that does
/// not exist or belongs to another run stays a handle and is rejected later; a call of the append tool then fails.
pub(super) async fn resolve_pages(
    shared: &Shared,
    run: &Run,
    patience: &Patience,
    performed: &mut Performed,
) -> Result<(), RunnerError> {
    let mut problem = None;
    for append in &mut performed.writes.page_appends {
        let PageTarget::Handle(handle) = &append.page else {
            continue;
        };
        let Ok(reference) = handle.parse() else { continue };
        match patience.outlast(|| meant_page(shared, run, reference)).await? {
            Meant::Page(page) => append.page = PageTarget::Handle(page.to_string()),
            Meant::OfAnotherRun => {
                problem = Some(format!(
                    "{handle} is a page of another run; name one of this run, or a title"
                ));
                append.page = PageTarget::Handle(format!("{handle} (of another run)"));
            }
            Meant::Nothing => {
                problem = Some(format!("there is no page {handle}; name another one, or a title"));
                append.page = PageTarget::Handle(format!("{handle} (not found)"));
            }
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

/// What the handle of a page stands for.
#[derive(Debug)]
enum Meant {
    Page(PageId),
    /// A page of another run, and none of this run is in its place.
    OfAnotherRun,
    Nothing,
}

async fn meant_page(shared: &Shared, run: &Run, reference: PageRef) -> Result<Meant, RunnerError> {
    let workspace = &shared.workspace;
    let page = match workspace.store().page(workspace.space(), reference).await {
        Ok(page) => page,
        Err(StoreError::NotFound { .. }) => return Ok(Meant::Nothing),
        Err(error) => return Err(error.into()),
    };
    if page.fields.run.is_none_or(|of| of == run.id()) {
        return Ok(Meant::Page(page.id));
    }
    match page_in_place_of(shared, run, &page).await? {
        Some(page) if is_there(workspace, page).await? => Ok(Meant::Page(page)),
        _ => Ok(Meant::OfAnotherRun),
    }
}

/// The page of `run` in place of `page`, if that belongs to the run from which it was forked, or to one before that.
async fn page_in_place_of(shared: &Shared, run: &Run, page: &Page) -> Result<Option<PageId>, RunnerError> {
    let Some(origin) = page.fields.run else { return Ok(None) };
    if !is_origin_of(&shared.workspace, run, origin).await? {
        return Ok(None);
    }
    Ok(match page.fields.role {
        PageRole::Workspace => Some(projection::workspace_page(run.id())),
        PageRole::ScratchpadRoot => Some(projection::main_page(run.id())),
        PageRole::Plan => Some(projection::plan_page(run.id())),
        // Several branches may have one path, those of different versions of a plan.
        PageRole::ScratchpadExec => match shared.folded(origin).await {
            Ok(origin) => run.branch_in_place_of(&origin, page.id),
            Err(RunnerError::Journal { .. } | RunnerError::Store(StoreError::NotFound { .. })) => None,
            Err(error) => return Err(error),
        },
        // The note with the same title, if the fork has it.
        PageRole::Note => Some(projection::note_page(run.id(), &page.fields.title)),
        _ => None,
    })
}

/// Whether `run` was forked from `origin`, or from a run that was.
async fn is_origin_of(workspace: &Workspace, run: &Run, origin: RunId) -> Result<bool, RunnerError> {
    let mut before = run.summary().forked_from;
    for _ in 0..MAX_ORIGINS {
        match before {
            Some(source) if source == origin => return Ok(true),
            Some(source) => {
                let summaries = workspace.store().runs_so_far(workspace.space(), vec![source]).await?;
                before = summaries.first().and_then(|(_, summary)| summary.forked_from);
            }
            None => break,
        }
    }
    Ok(false)
}

async fn is_there(workspace: &Workspace, page: PageId) -> Result<bool, RunnerError> {
    match workspace.store().page(workspace.space(), Ref::Id(page)).await {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
