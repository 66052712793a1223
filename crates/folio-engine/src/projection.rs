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

mod edited;
mod models;

use folio_memory::counted::counted;
use folio_memory::entry::{EntryFields, EntryKind, Owner, Status};
use folio_memory::excerpt::cut;
use folio_memory::{
    Change, EntryId, FieldChange, NewEntry, NewPage, PageFields, PageId, PageRole, RunId, Source, Timestamp, Trust,
};
use serde_json::{Value, json};

use crate::event::Event;
use crate::node::NodeId;
use crate::plan::is_generated_id;
use crate::result::{Evidence, NodeResult, Outcome, Output, StopReason, counts_in_words};
use crate::run::{NodeKind, NodeView, Run};

/// The most characters of an output that a log shows.
const PREVIEW_CHARS: usize = 600;

/// The workspace page of `run`: the root of its tree.
#[must_use]
pub fn workspace_page(run: RunId) -> PageId {
    page_of(run, &["workspace"])
}

/// The main scratchpad of `run`.
#[must_use]
pub fn main_page(run: RunId) -> PageId {
    page_of(run, &["main"])
}

/// The plan page of `run`.
#[must_use]
pub fn plan_page(run: RunId) -> PageId {
    page_of(run, &["plan"])
}

/// The report page of `run`; it exists once the run has ended, if its plan has a report.
#[must_use]
pub fn report_page(run: RunId) -> PageId {
    page_of(run, &["report"])
}

/// The summary page of the last iteration of `run` that has ended; before that, of the first. Each plan that replaces
/// another has a summary page of its own.
#[must_use]
pub fn summary_page(run: &Run) -> PageId {
    let version = run.node(NodeId::root(run.id())).map_or(1, |root| root.plan_version);
    let ended = if run.result().is_some() {
        version
    } else {
        version.saturating_sub(1)
    };
    iteration_summary_page(run.id(), ended.max(1))
}

/// The summary page of an iteration, counted from 1.
#[must_use]
pub fn iteration_summary_page(run: RunId, iteration: u32) -> PageId {
    page_of(run, &["summary", &iteration.to_string()])
}

/// The page that the work of `node` is written on: its branch if it is a task, otherwise the branch of the task around
/// it.
///
/// The page exists from the moment when the node begins.
#[must_use]
pub fn branch_page(run: &Run, node: NodeId) -> PageId {
    let mut at = run.node(node);
    while let Some(view) = at {
        match view.parent {
            None => break,
            Some(_) if view.kind.is_task() => return page_of(run.id(), &["branch", &view.id.to_string()]),
            Some(parent) => at = run.node(parent),
        }
    }
    main_page(run.id())
}

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
        } => {
            let body = format!("{}\n\n{}", failure.message, next_attempt(*retry_at));
            let id = ["attempt", &node.to_string(), &attempt.to_string()].join("/");
            pages.log(
                branch_page(run, *node),
                &id,
                &format!("Attempt {attempt} failed"),
                body,
                None,
                Owner::executor(),
            );
        }
        Event::Finished { node, result } => pages.finished(*node, result),
        Event::CancelRequested { node, by } => {
            let target = node
                .and_then(|node| run.node(node))
                .map_or("the run".to_owned(), |view| view.path.to_owned());
            let id = format!("cancel/{}", run.cancel_requests());
            pages.log(
                main_page(run.id()),
                &id,
                "Cancellation",
                match by.as_str() {
                    Run::DEADLINE => format!("The time for {target} is over."),
                    by => format!("{by} asked to stop {target}."),
                },
                None,
                Owner::planner(),
            );
        }
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

/// The id of a page of `run`. It begins with the run's own time, so that a store keeps the pages of a run together; the
/// rest derives from `parts`.
fn page_of(run: RunId, parts: &[&str]) -> PageId {
    PageId::derived_at(run.made_at(), &[&[run.to_string().as_str()], parts].concat())
}

/// The entry with the answer to a question of `node`, by the name of its block.
pub(crate) fn answer_entry(run: RunId, block: &str, node: NodeId) -> EntryId {
    entry_of(run, &["log", &format!("{block}/{node}")])
}

/// The entry with the whole notes of a result of `node`, which its model gave in its `call`th answer.
pub(crate) fn notes_entry(run: RunId, call: u32, node: NodeId) -> EntryId {
    entry_of(run, &["log", &format!("{}/{node}", notes_block(call))])
}

/// The name of the block with these notes.
fn notes_block(call: u32) -> String {
    format!("notes/{call}")
}

/// Like [`page_of`], for entries.
fn entry_of(run: RunId, parts: &[&str]) -> EntryId {
    EntryId::derived_at(run.made_at(), &[&[run.to_string().as_str()], parts].concat())
}

/// `1 step is planned`, `2 steps are planned`.
fn steps_planned(count: usize) -> String {
    let are = if count == 1 { "is" } else { "are" };
    format!("{} {are} planned", counted(count as u64, "step"))
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

impl Projection<'_> {
    fn page(
        &mut self,
        id: PageId,
        role: PageRole,
        title: &str,
        parent: Option<PageId>,
        owner: Owner,
        branch: Option<&str>,
    ) {
        self.page_with(id, role, title, parent, owner, (branch, self.iteration()));
    }

    /// The number of the current iteration, which is the number of plans that the root has had.
    fn iteration(&self) -> u32 {
        self.run
            .node(NodeId::root(self.run.id()))
            .map_or(1, |root| root.plan_version.max(1))
    }

    fn page_with(
        &mut self,
        id: PageId,
        role: PageRole,
        title: &str,
        parent: Option<PageId>,
        owner: Owner,
        (branch, iteration): (Option<&str>, u32),
    ) {
        let mut fields = PageFields::new(role, title, owner);
        fields.parent = parent;
        fields.run = Some(self.run.id());
        fields.branch_id = branch.map(str::to_owned);
        fields.iteration = Some(iteration).filter(|_| !matches!(role, PageRole::Workspace | PageRole::Note));
        self.changes.push(Change::EnsurePage(Box::new(NewPage { id, fields })));
    }

    /// The source of an entry about `node`. The page tells the run.
    fn source(&self, node: NodeId) -> Source {
        Source {
            node: Some(node.to_string()),
            ..Source::default()
        }
    }

    /// Adds a block to a log. `id` is unique within the run.
    fn log(&mut self, page: PageId, id: &str, title: &str, body: String, parts: Option<Value>, owner: Owner) {
        let mut fields = EntryFields::new(EntryKind::Log, owner, Trust::ToolInternal);
        title.clone_into(&mut fields.title);
        fields.body = body;
        fields.parts = parts;
        fields.iteration = Some(self.iteration());
        let id = entry_of(self.run.id(), &["log", id]);
        self.changes.push(Change::AddEntry(Box::new(NewEntry {
            id,
            page,
            kind: EntryKind::Log,
            fields,
        })));
    }

    fn run_started(&mut self) {
        let run = self.run.id();
        let title = if self.run.plan().title.is_empty() {
            self.run.goal().to_owned()
        } else {
            self.run.plan().title.clone()
        };
        self.page(
            workspace_page(run),
            PageRole::Workspace,
            &title,
            None,
            Owner::planner(),
            None,
        );
        self.page(
            main_page(run),
            PageRole::ScratchpadRoot,
            "Main scratchpad",
            Some(workspace_page(run)),
            Owner::planner(),
            None,
        );
        self.page(
            plan_page(run),
            PageRole::Plan,
            "Plan",
            Some(workspace_page(run)),
            Owner::planner(),
            None,
        );
        let inputs = self.run.inputs().as_object().filter(|inputs| !inputs.is_empty());
        let parts = inputs.map(|inputs| {
            let lines: Vec<String> = inputs
                .iter()
                .map(|(name, value)| format!("input {name}: {}", preview(value)))
                .collect();
            json!({ "artifacts": lines })
        });
        self.log(
            main_page(run),
            "goal",
            "Goal",
            self.run.goal().to_owned(),
            parts,
            Owner::planner(),
        );
    }

    fn expanded(&mut self, node: NodeId) {
        let Some(view) = self.run.node(node) else { return };
        match view.kind {
            NodeKind::Plan => {
                let is_root = view.parent.is_none();
                let page = if is_root {
                    plan_page(self.run.id())
                } else {
                    self.branch(&view)
                };
                let steps = self.run.children(node);
                let titles: Vec<String> = steps.iter().map(|step| self.run.title(step.id)).collect();
                if is_root {
                    let body = format!("{}.", steps_planned(titles.len()));
                    let parts = json!({ "remaining": titles });
                    self.log(
                        main_page(self.run.id()),
                        "plan/1",
                        "Iteration 1: plan",
                        body,
                        Some(parts),
                        Owner::planner(),
                    );
                }
                for step in steps {
                    self.add_steps(page, &step, 0);
                }
            }
            NodeKind::ForEach => {
                let children = self.run.children(node);
                let items = counted(children.len() as u64, "item");
                let title = format!("{}: {items}", self.run.title(node));
                let names: Vec<String> = children.iter().take(64).map(|child| self.run.title(child.id)).collect();
                let parts = (!names.is_empty()).then(|| json!({ "actions": names }));
                let owner = if view.depth <= 1 {
                    Owner::planner()
                } else {
                    Owner::executor()
                };
                self.log(
                    branch_page(self.run, node),
                    &format!("items/{node}"),
                    &title,
                    String::new(),
                    parts,
                    owner,
                );
                self.patch_step(&view, Status::InProgress, None);
            }
            NodeKind::Parallel | NodeKind::Sequence => self.patch_step(&view, Status::InProgress, None),
            NodeKind::Call | NodeKind::Model | NodeKind::Action | NodeKind::RollUp => {}
        }
        if view.kind == NodeKind::Plan && view.parent.is_some() {
            self.patch_step(&view, Status::InProgress, None);
        }
    }

    /// Adds the entry of `step`, which is inside `depth` groups, and those of its members if it is a group.
    fn add_steps(&mut self, page: PageId, step: &NodeView<'_>, depth: usize) {
        let mut fields = EntryFields::new(EntryKind::Step, Owner::executor(), Trust::ToolInternal);
        fields.title = self.run.title(step.id);
        fields.iteration = Some(self.iteration());
        fields.source = self.source(step.id);
        fields.parts = Some(step_parts(step, depth, None));
        let id = self.step_entry(step);
        self.changes.push(Change::AddEntry(Box::new(NewEntry {
            id,
            page,
            kind: EntryKind::Step,
            fields,
        })));
        if step.kind.is_group() {
            for member in self.run.children(step.id) {
                self.add_steps(page, &member, depth + 1);
            }
        }
    }

    /// Whether `view` is a step of a plan. A node in the body of a `for_each` is not: the items are branches.
    fn has_step(&self, view: &NodeView<'_>) -> bool {
        if matches!(view.kind, NodeKind::Action | NodeKind::RollUp) {
            return false;
        }
        let mut parents = std::iter::successors(view.parent.and_then(|id| self.run.node(id)), |above| {
            self.run.node(above.parent?)
        });
        parents
            .find(|above| matches!(above.kind, NodeKind::Plan | NodeKind::Model | NodeKind::ForEach))
            .is_some_and(|above| above.kind != NodeKind::ForEach)
    }

    fn step_entry(&self, view: &NodeView<'_>) -> EntryId {
        entry_of(self.run.id(), &["step", &view.id.to_string()])
    }

    /// Updates the step entry of `view`, if it has one.
    fn patch_step(&mut self, view: &NodeView<'_>, status: Status, outcome: Option<Outcome>) {
        if !self.has_step(view) {
            return;
        }
        let mut fields = vec![FieldChange::Status(status)];
        if let Some(outcome) = outcome {
            fields.push(FieldChange::Phase(Some(outcome.to_string())));
        }
        self.changes.push(Change::PatchEntry {
            entry: self.step_entry(view),
            fields,
            expected_version: None,
            base_version: None,
        });
    }

    /// Creates the branch of a task, below the branch of the task around it.
    fn branch(&mut self, view: &NodeView<'_>) -> PageId {
        let page = branch_page(self.run, view.id);
        let parent = view
            .parent
            .map_or(workspace_page(self.run.id()), |parent| branch_page(self.run, parent));
        let title = self.run.title(view.id);
        let owner = if view.kind == NodeKind::Plan {
            Owner::planner()
        } else {
            Owner::executor()
        };
        self.page(
            page,
            PageRole::ScratchpadExec,
            &title,
            Some(parent),
            owner,
            Some(view.path),
        );
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

    fn finished(&mut self, node: NodeId, result: &NodeResult) {
        let Some(view) = self.run.node(node) else { return };
        let status = match result.status {
            Outcome::Ok | Outcome::Partial => Status::Done,
            Outcome::Failed | Outcome::Skipped | Outcome::Cancelled => Status::Blocked,
        };
        if matches!(view.kind, NodeKind::Action | NodeKind::RollUp) {
            if view.started_at.is_some() {
                self.action_finished(node);
            }
            return;
        }
        // A step that another version of the plan superseded was archived with that change.
        if view.parent.is_some() && result.stop_reason != Some(StopReason::Superseded) {
            self.patch_step(&view, status, Some(result.status));
        }
        // A task that never began has no branch to write on.
        if view.parent.is_none() {
            self.run_finished(result);
        } else if view.kind.is_task() && view.started_at.is_some() {
            self.task_finished(&view, result);
        }
    }

    fn task_finished(&mut self, view: &NodeView<'_>, result: &NodeResult) {
        let page = branch_page(self.run, view.id);
        let mut title = result.status.to_string();
        if let Some(reason) = result.stop_reason {
            title = format!("{title} ({reason})");
        }
        if view.attempt > 1 {
            title = format!("{title}, attempt {}", view.attempt);
        }
        let mut parts = serde_json::Map::new();
        // What a task of a model did stands in blocks of its own.
        if view.kind == NodeKind::Call && !view.call.is_empty() {
            parts.insert("actions".to_owned(), json!([view.call]));
        }
        let has_plan = view.kind == NodeKind::Plan || view.plan_version > 0;
        if has_plan {
            parts.insert("results".to_owned(), json!(self.roll_up(view.id)));
        } else if let Some(preview) = output_preview(&result.output) {
            parts.insert("results".to_owned(), json!([preview]));
        }
        if !has_plan && !result.evidence.is_empty() {
            parts.insert("evidence".to_owned(), self.evidence_lines(result).into());
        }
        let parts = (!parts.is_empty()).then_some(Value::Object(parts));
        let owner = if has_plan { Owner::planner() } else { Owner::executor() };
        self.log(
            page,
            &format!("result/{}", view.id),
            &title,
            result.notes.clone(),
            parts,
            owner,
        );
        self.changes.push(Change::SetPageStatus {
            page,
            status: result.status.to_string(),
        });
    }

    /// One line per branch: `look-inside ok: 3 marks [page_…]`.
    fn roll_up(&self, node: NodeId) -> Vec<String> {
        self.roll_up_of(&self.run.steps(node))
    }

    /// A line for each of `steps`, with the page of its branch; for a group, a line for each of its members.
    fn roll_up_of(&self, steps: &[NodeView<'_>]) -> Vec<String> {
        let branches = self.expand_groups(steps);
        let mut lines: Vec<String> = branches
            .iter()
            .take(64)
            .filter_map(|branch| self.branch_line(branch))
            .collect();
        if branches.len() > 64 {
            lines.push(format!("and {} more", branches.len() - 64));
        }
        lines
    }

    fn branch_line(&self, branch: &NodeView<'_>) -> Option<String> {
        let result = branch.result?;
        let notes = result.notes.lines().next().unwrap_or_default();
        let separator = if notes.is_empty() { "" } else { ": " };
        let mut line = format!("{} {}{separator}{}", branch.slug(), result.status, cut(notes, 160));
        // A task that never began has no page.
        if branch.kind.is_task() && branch.started_at.is_some() {
            line.push_str(&format!(" [{}]", branch_page(self.run, branch.id)));
        }
        Some(line)
    }

    /// `steps`, with the members of groups in place of the groups.
    fn expand_groups<'r>(&'r self, steps: &[NodeView<'r>]) -> Vec<NodeView<'r>> {
        let mut rest: Vec<NodeView<'r>> = steps.iter().rev().copied().collect();
        let mut branches = Vec::with_capacity(rest.len());
        while let Some(step) = rest.pop() {
            match step.kind {
                NodeKind::Parallel | NodeKind::Sequence => rest.extend(self.run.children(step.id).into_iter().rev()),
                _ => branches.push(step),
            }
        }
        branches
    }

    fn run_finished(&mut self, result: &NodeResult) {
        let run = self.run.id();
        let steps = self.run.steps(NodeId::root(run));
        let summary = self.summary(result, &steps);
        self.iteration_ended(self.iteration(), result.status, (&result.notes, summary), &steps);
        if let Some((title, body)) = self.run.report() {
            let page = report_page(run);
            self.page(
                page,
                PageRole::Note,
                &title,
                Some(workspace_page(run)),
                Owner::planner(),
                None,
            );
            self.log(page, "report", "", body, None, Owner::planner());
            self.changes.push(Change::SetPageStatus {
                page,
                status: result.status.to_string(),
            });
        }
        for page in [plan_page(run), main_page(run), workspace_page(run)] {
            self.changes.push(Change::SetPageStatus {
                page,
                status: result.status.to_string(),
            });
        }
    }

    /// The first twenty references of `result`. Nodes are named by their paths.
    fn evidence_lines(&self, result: &NodeResult) -> Vec<String> {
        let line = |evidence: &Evidence| {
            let span = evidence.span.as_deref();
            let span = span.map(|span| format!(":{span}")).unwrap_or_default();
            let node = evidence.id.parse().ok().and_then(|id| self.run.node(id));
            let id = node.map_or(evidence.id.as_str(), |node| node.path);
            format!("{} {id}{span}", evidence.kind)
        };
        result.evidence.iter().take(20).map(line).collect()
    }

    /// How the steps of the run ended, how everything below the root did if that is more, and what `result` notes
    /// besides.
    fn summary(&self, result: &NodeResult, steps: &[NodeView<'_>]) -> String {
        let ended = steps.iter().filter_map(|step| step.result);
        let of_steps = counts_in_words(ended.map(|result| (result.status, 1)));
        let mut lines = Vec::new();
        if !steps.is_empty() {
            lines.push(format!("{}: {of_steps}.", counted(steps.len() as u64, "step")));
        }
        let below_root = self.run.len().saturating_sub(1);
        if below_root > steps.len() {
            let of_root = |outcome: Outcome| u32::from(outcome == result.status);
            let all = self.run.counts().iter();
            let of_all =
                counts_in_words(all.map(|(outcome, count)| (*outcome, count.saturating_sub(of_root(*outcome)))));
            lines.push(format!(
                "The whole run, {}: {of_all}.",
                counted(below_root as u64, "node")
            ));
        }
        let counts = (!lines.is_empty()).then(|| lines.join("\n"));
        let notes = Some(result.notes.as_str()).filter(|notes| !notes.is_empty() && *notes != of_steps);
        let paragraphs: Vec<&str> = counts.as_deref().into_iter().chain(notes).collect();
        paragraphs.join("\n\n")
    }

    /// The titles of those of `steps` that are not done.
    fn remaining(&self, steps: &[NodeView<'_>]) -> Vec<String> {
        let not_done = |view: &NodeView<'_>| {
            !view
                .result
                .is_some_and(|r| matches!(r.status, Outcome::Ok | Outcome::Partial))
        };
        steps
            .iter()
            .filter(|view| not_done(view))
            .map(|view| self.title_or_members(view))
            .collect()
    }

    /// The title of `step`, or of a group without title and id the titles of its members.
    fn title_or_members(&self, step: &NodeView<'_>) -> String {
        let title = self.run.title(step.id);
        if !(step.kind.is_group() && title == step.slug() && is_generated_id(&title)) {
            return title;
        }
        let members = self.expand_groups(&[*step]);
        let titles: Vec<String> = members.iter().take(8).map(|member| self.run.title(member.id)).collect();
        match members.len() - titles.len() {
            _ if titles.is_empty() => title,
            0 => titles.join(", "),
            more => format!("{} and {more} more", titles.join(", ")),
        }
    }
}

/// The position of a step: how many groups it is in, and `order`, its place on the page if a change of the plan moved
/// it.
fn step_parts(view: &NodeView<'_>, depth: usize, order: Option<usize>) -> Value {
    let mut parts = json!({ "kind": view.kind.as_str(), "depth": depth, "path": view.path });
    if let Some(order) = order {
        parts["order"] = order.into();
    }
    parts
}

fn output_preview(output: &Output) -> Option<String> {
    match output {
        Output::Inline(inline) if inline.is_null() => None,
        Output::Inline(inline) => Some(preview(&inline.value())),
        Output::Blob { hash, bytes } => Some(format!("{bytes} bytes, kept as blob:{hash}; read it with result_read")),
    }
}

/// The beginning of a value as JSON text, made without serializing a large value first.
fn preview(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text, PREVIEW_CHARS),
        other => {
            let mut beginning = Beginning {
                bytes: Vec::new(),
                left: PREVIEW_CHARS * 4,
            };
            // The only error means "enough".
            let is_all = serde_json::to_writer(&mut beginning, other).is_ok();
            // The last character may be cut in the middle.
            let text = beginning.bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            let excerpt = cut(text, PREVIEW_CHARS);
            if is_all || excerpt.ends_with('…') {
                excerpt
            } else {
                format!("{excerpt}…")
            }
        }
    }
}

/// A writer that keeps the first bytes that are written to it.
struct Beginning {
    bytes: Vec<u8>,
    left: usize,
}

impl std::io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = bytes.len().min(self.left);
        self.bytes.extend_from_slice(&bytes[..count]);
        self.left -= count;
        if count < bytes.len() {
            return Err(std::io::Error::other("enough"));
        }
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn preview_shows_the_start_of_a_long_text_within_limits() {
        for text in ["long ".repeat(1_000), "ä😀".repeat(2_000)] {
            let shown = preview(&json!({"text": text}));
            let begins = format!("{{\"text\":\"{}", &text[..500]);
            assert!(text.is_char_boundary(500) && shown.starts_with(&begins), "{shown}");
            assert!(
                (PREVIEW_CHARS - 1..=PREVIEW_CHARS).contains(&shown.chars().count()),
                "{shown}"
            );
            assert!(shown.ends_with('…') && !shown.contains(char::REPLACEMENT_CHARACTER));
        }
        assert_eq!(preview(&json!({"a": [1, "ä"]})), r#"{"a":[1,"ä"]}"#);
    }
}
