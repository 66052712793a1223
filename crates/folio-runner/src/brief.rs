//! What memory holds for a task that a model does: observations, the scratchbook, and a digest of the pages of the run
//! (seeds 000, 003 and 004).

use folio_engine::event::BookView;
use folio_engine::{NodeId, Run};
use folio_memory::context::Section;
use folio_memory::id::Ref;
use folio_memory::tokens::for_model;
use folio_memory::{ThreadKey, TurnId};
use folio_store::workspace::{ContextRequest, Moment, ViewRequest, Workspace, WorkspaceError};

use crate::memory::MemoryWriter;
use crate::models::RunnerModels;
use crate::pages::{MustReread, RunPages};

/// Token limit for memory, without the scratchbook.
const MEMORY_TOKENS: u32 = 1_050;
/// Token limit for the pages of the run.
const PAGES_TOKENS: u32 = 1_000;
/// Each of the two takes at most one part in this many of a window.
const WINDOW_DIVISOR: u32 = 12;
/// How many levels below the root planners see the pages. Further down they are given the results they build on.
const MAX_PAGES_DEPTH: u32 = 2;

/// For whom memory is put into words.
#[derive(Debug)]
pub(crate) struct BriefReader {
    /// The address of the model whose tokenizer counts.
    pub(crate) model: String,
    /// The smallest window of the models that read it.
    window: u32,
    pub(crate) thread: ThreadKey,
    turn: Option<TurnId>,
}

impl BriefReader {
    /// The models that are asked for a task of a run that `executor` does, or the usual one, in the turn that `memory`
    /// writes for.
    pub(crate) fn of(models: &RunnerModels, memory: &MemoryWriter, executor: Option<&str>) -> Self {
        let executor = models.executor_named(executor);
        Self {
            model: models.planner.name.clone(),
            window: models.planner.window.min(executor.window),
            thread: memory.thread.clone(),
            turn: memory.turn,
        }
    }

    /// The text about `pages`, the pages of `run`, for `node` before it begins.
    ///
    /// # Errors
    ///
    /// Fails if the pages have to be read first.
    pub(crate) fn pages(&self, pages: Option<&RunPages>, run: &Run, node: NodeId) -> Result<String, MustReread> {
        match pages.filter(|_| is_near(run, node)) {
            Some(pages) => {
                pages.render_planner_block(PAGES_TOKENS.min(self.window / WINDOW_DIVISOR), &for_model(&self.model))
            }
            None => Ok(String::new()),
        }
    }

    /// The text about memory at `moment` for the task called `title`, before it begins. The same memory gives the same
    /// text.
    ///
    /// `pages` is the text about the pages of the run; it may be empty.
    pub(crate) async fn memory(
        &self,
        workspace: &Workspace,
        moment: Moment,
        title: &str,
        pages: &str,
    ) -> Result<String, WorkspaceError> {
        let tokens = for_model(&self.model);
        let request = ContextRequest {
            thread: self.thread.clone(),
            turn: self.turn.map(Ref::Id),
            prompt: title.to_owned(),
            budget: MEMORY_TOKENS.min(self.window / WINDOW_DIVISOR),
            sections: vec![(Section::ScratchPage, 70), (Section::Semantic, 30)],
        };
        let context = workspace.assemble_context_at(moment, request, &tokens).await?.text;
        Ok([context.trim_end(), pages.trim_end()]
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join("\n"))
    }

    /// The view of the thread's scratchbook, for the placement that the policy sets, without what `memory`, the text
    /// about memory that the task was told, says already; `None` if it is empty or scratchbooks are disabled (M7.8 V6,
    /// seed 003 A5).
    pub(crate) async fn book(
        &self,
        workspace: &Workspace,
        moment: Moment,
        memory: &str,
    ) -> Result<Option<Box<BookView>>, WorkspaceError> {
        let request = ViewRequest {
            turn: self.turn.map(Ref::Id),
            window: Some(self.window),
            above: memory.to_owned(),
            ..ViewRequest::of(self.thread.clone())
        };
        let view = workspace.view_at(moment, request, &for_model(&self.model)).await?;
        let text = view.rendered.text.clone();
        let placement = view.placement;
        Ok((!text.is_empty()).then(|| Box::new(BookView { text, placement })))
    }
}

/// Whether the text for `node` includes the pages.
pub(crate) fn is_near(run: &Run, node: NodeId) -> bool {
    let Some(mut view) = run.node(node) else {
        return false;
    };
    // The level of a group counts for nothing: its members are steps of the same plan as those beside it.
    let mut levels = 0;
    while let Some(parent) = view.parent.and_then(|parent| run.node(parent)) {
        levels += u32::from(!view.kind.is_group());
        if levels > MAX_PAGES_DEPTH {
            return false;
        }
        view = parent;
    }
    true
}
