//! The pages of a run (seed 000): what each event writes into the tree that people and planners read.
//!
//! Pages are a projection: every id derives from the run and the node, so the same event writes the same entries
//! whoever applies it, and a page can be rebuilt from the journal.
//!
//! ```text
//! workspace
//! ├─ main scratchpad        the planner's log; the branch of the root
//! │  ├─ branch of a task    what its executor did and found
//! │  │  └─ sub-branch       a task of its own plan
//! │  └─ iteration summary
//! ├─ plan                   one step entry for each node of the root's plan
//! └─ report
//! ```

mod ids;
mod models;
mod people;
mod plans;
mod preview;
mod results;
mod steps;
mod waiting;

use folio_memory::entry::{EntryFields, EntryKind, Owner, Status};
use folio_memory::{
    Change, EntryId, FieldChange, NewEntry, NewPage, PageFields, PageId, PageRole, Source, Timestamp, Trust,
};
use serde_json::{Value, json};

use crate::event::Event;
use crate::node::NodeId;
use crate::result::Failure;
use crate::run::{NodeKind, NodeView, Run};
use ids::entry_of;
pub(crate) use ids::{answer_entry, copied_entry, notes_entry, page_of_branch};
pub use ids::{
    branch_page, iteration_summary_page, main_page, note_page, plan_page, report_page, summary_page, workspace_page,
};
pub(crate) use preview::preview;
pub use waiting::waiting_section;

/// The changes that `event`, which was just applied to `run`, makes. Every page comes before its entries.
#[must_use]
pub fn changes(run: &Run, event: &Event) -> Vec<Change> {
    let mut pages = Projection {
        run,
        changes: Vec::new(),
    };
    match event {
        Event::RunStarted { .. } => pages.run_started(),
        Event::Expanded { node, .. } => pages.expanded(*node),
        Event::Started { node, attempt, .. } => pages.started(*node, *attempt),
        Event::AttemptFailed {
            node,
            attempt,
            failure,
            retry_at,
        } => pages.attempt_failed(*node, *attempt, failure, *retry_at),
        Event::Finished { node, result } => pages.finished(*node, result),
        Event::CancelRequested { node, by } => pages.cancel_requested(*node, by),
        Event::Paused { node, by } => pages.pause_changed(*node, by, ("paused", "Paused")),
        Event::Continued { node, by } => pages.pause_changed(*node, by, ("continued", "Continued")),
        Event::Resumed { .. } | Event::FormatRaised { .. } | Event::SessionBegan { .. } => {}
        Event::ApprovalAsked { .. }
        | Event::CallApproved { .. }
        | Event::CallRejected { .. }
        | Event::PlanApproved { .. }
        | Event::PlanRejected { .. }
        | Event::LimitsChanged { .. } => pages.record_approval_event(event),
        Event::PlanEdited {
            node,
            version,
            difference,
            by,
            ..
        } => pages.plan_edited(*node, *version, difference, by),
        of_a_model => pages.record_model_event(of_a_model),
    }
    pages.changes
}

/// The number of the current iteration of `run`, which is that of the plan of the root.
#[must_use]
pub fn iteration(run: &Run) -> u32 {
    run.node(NodeId::root(run.id()))
        .map_or(1, |root| root.plan_version.max(1))
}

/// When the next attempt is made, to the millisecond.
fn next_attempt(at: Timestamp) -> String {
    let at = Timestamp::from_millis(at.as_millis());
    format!("The next attempt is not before {at}.")
}

struct Projection<'r> {
    run: &'r Run,
    changes: Vec<Change>,
}

/// A block of a log.
struct Block {
    /// Unique within the run.
    id: String,
    title: String,
    body: String,
    parts: Option<Value>,
    owner: Owner,
}

impl Block {
    /// A block without a body or parts.
    fn new(owner: Owner, id: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            body: String::new(),
            parts: None,
            owner,
        }
    }

    fn with_body(self, body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    fn with_parts(self, parts: Option<Value>) -> Self {
        Self { parts, ..self }
    }

    /// With one part, which consists of `lines`, if there are any.
    fn with_lines(self, part: &str, lines: &[String]) -> Self {
        self.with_parts((!lines.is_empty()).then(|| json!({ part: lines })))
    }
}

impl Projection<'_> {
    fn add_page(&mut self, id: PageId, fields: PageFields) {
        self.changes.push(Change::EnsurePage(Box::new(NewPage { id, fields })));
    }

    /// The fields of a page of the run.
    fn page_fields(&self, role: PageRole, title: &str, parent: Option<PageId>, owner: Owner) -> PageFields {
        let has_iteration = !matches!(role, PageRole::Workspace | PageRole::Note);
        PageFields {
            parent,
            run: Some(self.run.id()),
            iteration: has_iteration.then(|| self.iteration()),
            ..PageFields::new(role, title, owner)
        }
    }

    fn iteration(&self) -> u32 {
        iteration(self.run)
    }

    fn set_page_status(&mut self, page: PageId, status: impl ToString) {
        self.changes.push(Change::SetPageStatus {
            page,
            status: status.to_string(),
        });
    }

    fn add_entry(&mut self, page: PageId, id: EntryId, kind: EntryKind, fields: EntryFields) {
        self.changes
            .push(Change::AddEntry(Box::new(NewEntry { id, page, kind, fields })));
    }

    fn patch_entry(&mut self, entry: EntryId, fields: Vec<FieldChange>) {
        self.changes.push(Change::PatchEntry {
            entry,
            fields,
            expected_version: None,
            base_version: None,
        });
    }

    /// The source of an entry about `node`. The page tells the run.
    fn source(&self, node: NodeId) -> Source {
        Source {
            node: Some(node.to_string()),
            ..Source::default()
        }
    }

    /// Adds a block to the log on `page`.
    fn log(&mut self, page: PageId, block: Block) {
        self.log_in(self.iteration(), page, block);
    }

    /// Adds a block of an iteration to the log on `page`.
    fn log_in(&mut self, iteration: u32, page: PageId, block: Block) {
        let mut fields = EntryFields::new(EntryKind::Log, block.owner, Trust::ToolInternal);
        fields.title = block.title;
        fields.body = block.body;
        fields.parts = block.parts;
        fields.iteration = Some(iteration);
        let id = entry_of(self.run.id(), &["log", &block.id]);
        self.add_entry(page, id, EntryKind::Log, fields);
    }

    /// Adds a block to the branch of `node`; its id is unique among the blocks about the node.
    fn log_of(&mut self, node: NodeId, mut block: Block) {
        block.id = format!("{}/{node}", block.id);
        self.log(branch_page(self.run, node), block);
    }

    fn run_started(&mut self) {
        let run = self.run.id();
        let title = if self.run.plan().title.is_empty() {
            self.run.goal()
        } else {
            &self.run.plan().title
        };
        let workspace = workspace_page(run);
        let fields = self.page_fields(PageRole::Workspace, title, None, Owner::planner());
        self.add_page(workspace, fields);
        self.write_standing_pages();
        let inputs = self.run.inputs().as_object().filter(|inputs| !inputs.is_empty());
        let parts = inputs.map(|inputs| {
            let lines: Vec<String> = inputs
                .iter()
                .map(|(name, value)| format!("input {name}: {}", preview(value)))
                .collect();
            json!({ "artifacts": lines })
        });
        let block = Block::new(Owner::planner(), "goal", "Goal")
            .with_body(self.run.goal())
            .with_parts(parts);
        self.log(main_page(run), block);
    }

    /// Writes the pages that stay from one iteration to the next: they name the one that is being carried out.
    fn write_standing_pages(&mut self) {
        let run = self.run.id();
        for (page, role, title) in [
            (main_page(run), PageRole::ScratchpadRoot, "Main scratchpad"),
            (plan_page(run), PageRole::Plan, "Plan"),
        ] {
            let fields = self.page_fields(role, title, Some(workspace_page(run)), Owner::planner());
            self.add_page(page, fields);
        }
    }

    /// Creates the branch of a task, below the branch of the task around it.
    fn branch(&mut self, view: &NodeView<'_>) -> PageId {
        let page = branch_page(self.run, view.id);
        let parent = view
            .parent
            .map_or(workspace_page(self.run.id()), |parent| branch_page(self.run, parent));
        let owner = if view.kind == NodeKind::Plan {
            Owner::planner()
        } else {
            Owner::executor()
        };
        let title = self.run.title(view.id);
        let mut fields = self.page_fields(PageRole::ScratchpadExec, &title, Some(parent), owner);
        fields.branch_id = Some(view.path.to_owned());
        self.add_page(page, fields);
        page
    }

    fn started(&mut self, node: NodeId, attempt: u32) {
        let Some(view) = self.run.node(node) else { return };
        if attempt == 1 && view.kind.is_task() {
            self.branch(&view);
            if view.kind == NodeKind::Call && view.parent.is_some() {
                self.patch_step(&view, Status::InProgress, None);
            }
        }
    }

    fn attempt_failed(&mut self, node: NodeId, attempt: u32, failure: &Failure, retry_at: Timestamp) {
        let id = format!("attempt/{node}/{attempt}");
        let block = Block::new(Owner::executor(), id, format!("Attempt {attempt} failed")).with_body(format!(
            "{}\n\n{}",
            failure.message,
            next_attempt(retry_at)
        ));
        self.log(branch_page(self.run, node), block);
    }
}
