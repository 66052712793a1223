//! What memory holds for a task that a model does: what was observed, what stands in the scratchbook, what the pages of the
//! run have come to (seeds 000, 003 and 004).

use folio_engine::{NodeId, Run, projection};
use folio_memory::context::Section;
use folio_memory::id::Ref;
use folio_memory::tokens::{Tokens, for_model};
use folio_memory::view::{PageTail, planner_block};
use folio_memory::{PageId, PageQuery, PageRole, ThreadKey, TurnId};
use folio_store::workspace::{ContextRequest, Workspace, WorkspaceError};
use folio_store::{ErrorKind, StoreError};

/// Tokens of what memory holds.
const MEMORY_TOKENS: u32 = 1_500;
/// Tokens of what the pages of the run have come to.
const PAGES_TOKENS: u32 = 1_000;
/// Pages of executors that are looked at.
const PAGES: u32 = 20;
/// Levels below the root whose planners look at the pages; further down they are given the results they build on.
const NEAR: u32 = 2;
/// Entries at the end of a page that stand for it.
const TAIL: u32 = 4;

/// What is told to the model called `model` before it begins with `node`. The same memory gives the same text.
pub(crate) async fn brief(
    workspace: &Workspace,
    run: &Run,
    node: NodeId,
    thread: &ThreadKey,
    turn: Option<TurnId>,
    model: &str,
) -> Result<String, WorkspaceError> {
    let tokens = for_model(model);
    let request = ContextRequest {
        thread: thread.clone(),
        turn: turn.map(Ref::Id),
        prompt: run.title(node),
        budget: MEMORY_TOKENS,
        sections: vec![
            (Section::ScratchPage, 50),
            (Section::Scratchbook, 30),
            (Section::Semantic, 20),
        ],
    };
    let context = workspace.assemble_context(request, &tokens).await?.text;
    let is_near = run.node(node).is_some_and(|view| view.depth <= NEAR);
    let pages = if is_near {
        pages(workspace, run, &tokens).await?
    } else {
        String::new()
    };
    Ok([context.trim_end(), pages.trim_end()]
        .iter()
        .filter(|part| !part.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join("\n"))
}

/// The planner's block of seed 000, once there is something on a page besides the goal.
async fn pages(workspace: &Workspace, run: &Run, tokens: &dyn Tokens) -> Result<String, WorkspaceError> {
    let query = PageQuery {
        run: Some(run.id()),
        roles: vec![PageRole::ScratchpadExec],
        limit: PAGES,
        ..PageQuery::default()
    };
    let executors = workspace.pages(&query).await?;
    if executors.is_empty() {
        return Ok(String::new());
    }
    let Some(main) = tail(workspace, projection::main_page(run.id())).await? else {
        return Ok(String::new());
    };
    let mut tails = Vec::with_capacity(executors.len());
    for page in executors {
        tails.extend(tail(workspace, page.id).await?);
    }
    Ok(planner_block(&main, &tails, PAGES_TOKENS, tokens))
}

/// The end of a page; nothing if there is no such page yet.
async fn tail(workspace: &Workspace, page: PageId) -> Result<Option<PageTail>, WorkspaceError> {
    match workspace.page(Ref::Id(page)).await {
        Ok(page) => {
            let tail = workspace.tail(Ref::Id(page.id), TAIL).await?;
            Ok(Some(PageTail { page, tail }))
        }
        Err(WorkspaceError::Store(error)) if StoreError::kind(&error) == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
