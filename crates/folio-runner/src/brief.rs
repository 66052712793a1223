//! What memory holds for a task that a model does: what was observed, what stands in the scratchbook, what the pages of the
//! run have come to (seeds 000, 003 and 004).

use folio_engine::event::BookView;
use folio_engine::{NodeId, Run, projection};
use folio_memory::context::Section;
use folio_memory::id::Ref;
use folio_memory::tokens::{Tokens, for_model};
use folio_memory::view::planner_block;
use folio_memory::{PageQuery, PageRole, ThreadKey, TurnId};
use folio_store::workspace::{ContextRequest, ViewRequest, Workspace, WorkspaceError};
use folio_store::{ErrorKind, StoreError};

use crate::memory::MemoryWriter;
use crate::models::RunnerModels;

/// Tokens of what memory holds, besides the scratchbook.
const MEMORY_TOKENS: u32 = 1_050;
/// Tokens of what the pages of the run have come to.
const PAGES_TOKENS: u32 = 1_000;
/// Which part of a window either has at most.
const MEMORY_PART: u32 = 12;
/// Pages of executors that are looked at.
const PAGES: u32 = 20;
/// Levels below the root whose planners look at the pages; further down they are given the results they build on.
const NEAR: u32 = 2;
/// Entries at the end of a page that stand for it.
const TAIL: u32 = 4;

/// For whom memory is put into words.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The name of the model, by which tokens are counted.
    pub(crate) model: String,
    /// The smaller of the windows of those that read it.
    window: u32,
    pub(crate) thread: ThreadKey,
    turn: Option<TurnId>,
}

impl Reader {
    /// The models of a run in the turn that `memory` writes for.
    pub(crate) fn of(models: &RunnerModels, memory: &MemoryWriter) -> Self {
        Self {
            model: models.planner.name.clone(),
            window: models.planner.window.min(models.executor.window),
            thread: memory.thread.clone(),
            turn: memory.turn,
        }
    }

    /// What is told to it of memory before it begins with `node`. The same memory gives the same text.
    pub(crate) async fn memory(
        &self,
        workspace: &Workspace,
        run: &Run,
        node: NodeId,
    ) -> Result<String, WorkspaceError> {
        let tokens = for_model(&self.model);
        let request = ContextRequest {
            thread: self.thread.clone(),
            turn: self.turn.map(Ref::Id),
            prompt: run.title(node),
            budget: MEMORY_TOKENS.min(self.window / MEMORY_PART),
            sections: vec![(Section::ScratchPage, 70), (Section::Semantic, 30)],
        };
        let context = workspace.assemble_context(request, &tokens).await?.text;
        let is_near = run.node(node).is_some_and(|view| view.depth <= NEAR);
        let pages = if is_near {
            pages(workspace, run, PAGES_TOKENS.min(self.window / MEMORY_PART), &tokens).await?
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

    /// The view of the scratchbook of its thread, for the place that the policy gives it; none if there is nothing in it, or
    /// there are no scratchbooks (M7.8 V6, seed 003 A5).
    pub(crate) async fn book(&self, workspace: &Workspace) -> Result<Option<Box<BookView>>, WorkspaceError> {
        let request = ViewRequest {
            turn: self.turn.map(Ref::Id),
            window: Some(self.window),
            ..ViewRequest::of(self.thread.clone())
        };
        let view = workspace.view(request, &for_model(&self.model)).await?;
        let text = view.rendered.text.clone();
        let placement = view.placement;
        Ok((!text.is_empty()).then(|| Box::new(BookView { text, placement })))
    }
}

/// The planner's block of seed 000, once there is something on a page besides the goal.
async fn pages(workspace: &Workspace, run: &Run, budget: u32, tokens: &dyn Tokens) -> Result<String, WorkspaceError> {
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
    let main = match workspace.page(Ref::Id(projection::main_page(run.id()))).await {
        Ok(main) => main,
        // There is none yet.
        Err(WorkspaceError::Store(error)) if StoreError::kind(&error) == ErrorKind::NotFound => {
            return Ok(String::new());
        }
        Err(error) => return Err(error),
    };
    let pages = std::iter::once(main).chain(executors).collect();
    let tails = workspace.tails(pages, TAIL).await?;
    let Some((main, executors)) = tails.split_first() else {
        return Ok(String::new());
    };
    Ok(planner_block(main, executors, budget, tokens))
}
