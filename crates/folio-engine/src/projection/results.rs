//! Results, and what the results of steps come to together.

use std::fmt::Write as _;

use folio_memory::counted::counted;
use folio_memory::entry::{EntryFields, EntryKind, Owner, Status};
use folio_memory::excerpt::{cut, one_line};
use folio_memory::{PageRole, Trust};
use serde_json::{Map, Value, json};

use super::ids::entry_of;
use super::preview::output_preview;
use super::{
    Block, Projection, branch_page, iteration_summary_page, main_page, plan_page, report_page, workspace_page,
};
use crate::node::NodeId;
use crate::result::{Evidence, NodeResult, Outcome, StopReason, counts_in_words};
use crate::run::{NodeKind, NodeView};

/// The most characters that the summary of a run says of what was found.
const FOUND_CHARS: usize = 2_000;
/// The most steps whose notes it has, the last ones, and the most characters of each.
const NOTES_MAX: usize = 20;
const NOTES_CHARS: usize = 300;

impl Projection<'_> {
    pub(super) fn finished(&mut self, node: NodeId, result: &NodeResult) {
        let Some(view) = self.run.node(node) else { return };
        if matches!(view.kind, NodeKind::Action | NodeKind::RollUp) {
            if view.started_at.is_some() {
                self.action_finished(&view, result);
            }
            return;
        }
        // A step that another version of the plan superseded was archived with that change.
        if view.parent.is_some() && result.stop_reason != Some(StopReason::Superseded) {
            let status = match result.status {
                Outcome::Ok | Outcome::Partial => Status::Done,
                Outcome::Failed | Outcome::Skipped | Outcome::Cancelled => Status::Blocked,
            };
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
        let mut title = status_and_reason(result);
        if view.attempt > 1 {
            title = format!("{title}, attempt {}", view.attempt);
        }
        let mut parts = Map::new();
        // What a task of a model did stands in blocks of its own.
        if view.kind == NodeKind::Call && !view.call.is_empty() {
            parts.insert("actions".to_owned(), json!([view.call]));
        }
        let has_plan = view.kind == NodeKind::Plan || view.plan_version > 0;
        let owner = if has_plan {
            parts.insert("results".to_owned(), json!(self.roll_up(&self.run.steps(view.id))));
            Owner::planner()
        } else {
            self.put_output(&mut parts, result);
            Owner::executor()
        };
        self.log_result(view.id, owner, title, parts, result);
        self.set_page_status(branch_page(self.run, view.id), result.status);
    }

    /// Writes the result of one call that a model wanted, or of one roll-up.
    fn action_finished(&mut self, view: &NodeView<'_>, result: &NodeResult) {
        let title = format!("{}: {}", self.run.title(view.id), status_and_reason(result));
        let mut parts = Map::new();
        self.put_output(&mut parts, result);
        self.log_result(view.id, Owner::executor(), title, parts, result);
    }

    fn log_result(
        &mut self,
        node: NodeId,
        owner: Owner,
        title: String,
        parts: Map<String, Value>,
        result: &NodeResult,
    ) {
        let parts = (!parts.is_empty()).then_some(Value::Object(parts));
        let block = Block::new(owner, "result", title)
            .with_body(result.notes.as_str())
            .with_parts(parts);
        self.log_of(node, block);
    }

    /// Puts the output of `result` into `parts`, and what supports it.
    fn put_output(&self, parts: &mut Map<String, Value>, result: &NodeResult) {
        if let Some(preview) = output_preview(&result.output) {
            parts.insert("results".to_owned(), json!([preview]));
        }
        if !result.evidence.is_empty() {
            parts.insert("evidence".to_owned(), self.evidence_lines(result).into());
        }
    }

    fn run_finished(&mut self, result: &NodeResult) {
        let run = self.run.id();
        let steps = self.run.steps(NodeId::root(run));
        let report = self.run.report();
        let found = self.found(result, report.as_ref(), &steps);
        let summary = self.summary(result, found, &steps);
        self.iteration_ended(self.iteration(), result.status, (&result.notes, summary), &steps);
        if let Some((title, body)) = report {
            let page = report_page(run);
            let fields = self.page_fields(PageRole::Note, &title, Some(workspace_page(run)), Owner::planner());
            self.add_page(page, fields);
            self.log(page, Block::new(Owner::planner(), "report", "").with_body(body));
            self.set_page_status(page, result.status);
        }
        for page in [plan_page(run), main_page(run), workspace_page(run)] {
            self.set_page_status(page, result.status);
        }
    }

    /// Writes the end of the iteration of the root's planner whose plan was just replaced: the steps that it had, and
    /// what the planner said when it combined their results.
    pub(super) fn iteration_replaced(&mut self) {
        let root = NodeId::root(self.run.id());
        let iteration = self.run.replaced_plan_version(root);
        let outcome = self.run.replaced_plan_summary(root);
        let steps = self.run.steps_before(root);
        let tasks: Vec<NodeView<'_>> = steps.into_iter().filter(|step| !step.kind.is_group()).collect();
        let ended = tasks.iter().filter_map(|step| step.result);
        let mut counts = counts_in_words(ended.map(|result| (result.status, 1)));
        let unfinished = tasks.iter().filter(|step| step.result.is_none()).count();
        if unfinished > 0 {
            let separator = if counts.is_empty() { "" } else { ", " };
            let _ = write!(counts, "{separator}{unfinished} unfinished");
        }
        let notes = "The plan was changed.";
        let outcome = match outcome.trim() {
            "" => String::new(),
            words => format!("{words}\n\n"),
        };
        let steps = match tasks.len() {
            0 => "None of its steps was carried out.".to_owned(),
            steps => format!("{}: {counts}.", counted(steps as u64, "step")),
        };
        let summary = format!("{steps}\n\n{outcome}{notes}");
        self.iteration_ended(iteration, Outcome::Partial, (notes, summary), &tasks);
        self.write_standing_pages();
    }

    /// Writes the end of an iteration of the root's planner: the results of `steps`, and a page that keeps them (seed
    /// 000).
    fn iteration_ended(
        &mut self,
        iteration: u32,
        status: Outcome,
        (notes, words): (&str, String),
        steps: &[NodeView<'_>],
    ) {
        let run = self.run.id();
        let block = Block::new(Owner::planner(), format!("roll-up/{iteration}"), "Branch roll-up")
            .with_body(notes)
            .with_parts(Some(json!({ "results": self.roll_up(steps) })));
        self.log_in(iteration, main_page(run), block);
        let page = iteration_summary_page(run, iteration);
        let title = format!("Iteration {iteration}");
        let mut fields = self.page_fields(
            PageRole::IterationSummary,
            &title,
            Some(main_page(run)),
            Owner::planner(),
        );
        fields.iteration = Some(iteration);
        self.add_page(page, fields);
        let mut fields = EntryFields::new(EntryKind::Summary, Owner::planner(), Trust::ToolInternal);
        fields.title = format!("{title}: {status}");
        fields.body = words;
        fields.parts = Some(json!({ "remaining": self.remaining(steps) }));
        fields.iteration = Some(iteration);
        let id = entry_of(run, &["summary", &iteration.to_string()]);
        self.add_entry(page, id, EntryKind::Summary, fields);
        self.set_page_status(page, status);
    }

    /// What a run of a plan has found, so that a search of memory finds it: the beginning of its report; without one,
    /// what its steps note, if it ended well. A goal says that in the notes of its result.
    fn found(&self, result: &NodeResult, report: Option<&(String, String)>, steps: &[NodeView<'_>]) -> Option<String> {
        let root = self.run.node(NodeId::root(self.run.id()))?;
        if root.kind != NodeKind::Plan {
            return None;
        }
        if let Some((title, body)) = report {
            // On the page of the summary, headings would be sections of their own.
            let lines = body.lines().map(|line| line.trim_start_matches('#').trim());
            let body = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
            return Some(cut(&format!("{title}: {body}"), FOUND_CHARS));
        }
        if result.status != Outcome::Ok {
            return None;
        }
        let branches = self.expand_groups(steps);
        let noted = branches.iter().filter_map(|branch| {
            let notes = one_line(&branch.result?.notes);
            (!notes.is_empty()).then(|| format!("{}: {}", branch.slug(), cut(&notes, NOTES_CHARS)))
        });
        let noted: Vec<String> = noted.collect();
        let last = noted.len().saturating_sub(NOTES_MAX);
        (!noted.is_empty()).then(|| cut(&noted[last..].join("\n"), FOUND_CHARS))
    }

    /// How the steps of the run ended, how everything below the root did if that is more, what was `found`, and what
    /// `result` notes besides.
    fn summary(&self, result: &NodeResult, found: Option<String>, steps: &[NodeView<'_>]) -> String {
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
        let parts = [counts.as_deref(), found.as_deref(), notes];
        let paragraphs: Vec<&str> = parts.into_iter().flatten().collect();
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

    /// A line for each of `steps`, with the page of its branch; for a group, a line for each of its members:
    /// `look-inside ok: 3 marks [page_…]`.
    fn roll_up(&self, steps: &[NodeView<'_>]) -> Vec<String> {
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
}

/// How something ended, and why if there is a reason: `ok`, `failed (timed_out)`.
fn status_and_reason(result: &NodeResult) -> String {
    match result.stop_reason {
        Some(reason) => format!("{} ({reason})", result.status),
        None => result.status.to_string(),
    }
}
