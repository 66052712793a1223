//! What tasks that models do write to the tree of pages: decisions, plans, actions, answers, checks (seed 000).

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use folio_memory::counted::counted;
use folio_memory::entry::{EntryFields, EntryKind, Owner, Status};
use folio_memory::{Change, EntryId, NewEntry, PageId, PageRole, Trust};
use serde_json::json;

use super::{Projection, branch_page, cut, entry_of, iteration_summary_page, main_page, notes_block, plan_page};
use crate::event::words::messages_offloaded;
use crate::event::{Event, LeafTests, Question};
use crate::node::NodeId;
use crate::result::{Finding, Outcome, StopReason, Verdict, counts_in_words};
use crate::run::{NodeView, PlanMode};
use crate::talk::Wanted;

impl Projection<'_> {
    /// Writes `event`, if it belongs to a task that a model does.
    pub(super) fn record_model_event(&mut self, event: &Event) {
        match event {
            Event::Briefed { node, .. } => {
                let Some(view) = self.run.node(*node) else { return };
                // A task that has been split up is only briefed again.
                if view.parent.is_some() && self.run.children(*node).is_empty() {
                    self.branch(&view);
                    self.patch_step(&view, Status::InProgress, None);
                }
            }
            Event::Compacted { node, pieces, text, .. } => {
                // This may happen more than once between two calls; the text that replaces the messages always differs.
                let id = format!(
                    "compacted/{}/{}",
                    self.calls(*node),
                    EntryId::derived(&["compacted", text])
                );
                let title = messages_offloaded(*pieces);
                self.add_block(*node, &id, &title, text.clone(), &[], Owner::executor());
            }
            Event::RollUps { node, .. } => {
                // A task may have several roll-ups, one on top of the other; each creates other nodes.
                let id = format!("roll-ups/{}", self.run.children(*node).len());
                self.add_block(*node, &id, "Roll-ups", event.in_words(), &[], Owner::planner());
            }
            Event::AskFailed {
                node,
                call,
                failure,
                retry_at,
                ..
            } => {
                let next = retry_at.map_or("It will not be retried.".to_owned(), super::next_attempt);
                let body = format!("{}\n\n{next}", failure.message);
                self.add_block(
                    *node,
                    &format!("ask/{call}"),
                    "The model did not answer",
                    body,
                    &[],
                    Owner::executor(),
                );
            }
            Event::PassedOn { node, reason } => {
                let id = self.block_name(event);
                self.add_block(
                    *node,
                    &id,
                    "Switched to the next model",
                    reason.clone(),
                    &[],
                    Owner::executor(),
                );
            }
            Event::Rejected { node, problems } => {
                let id = self.block_name(event);
                self.add_list_block(*node, &id, "Answer rejected", String::new(), "results", problems);
            }
            // If plans are switched off, nothing was decided.
            Event::Decided { by, .. } if by == PlanMode::Never.as_str() => {}
            Event::Decided {
                node,
                by,
                reason,
                tests,
                executor,
                ..
            } => {
                let by = if let Some(executor) = executor {
                    format!(" (by {executor})")
                } else if by == "model" {
                    String::new()
                } else {
                    format!(" (rule: {by})")
                };
                let body = format!("{reason}{}", tests_in_words(tests.as_ref()));
                let title = format!("Decision: execute directly{by}");
                self.add_block(*node, "decided", &title, body.trim().to_owned(), &[], Owner::planner());
            }
            Event::Planned {
                node,
                version,
                reason,
                kept,
                tests,
                awaits,
                ..
            } => self.planned(
                *node,
                *version,
                &format!("{reason}{}", tests_in_words(tests.as_ref())),
                kept.len(),
                *awaits,
            ),
            Event::Proposed { node, proposal } => {
                if let Some(notes) = &proposal.whole_notes {
                    let id = notes_block(self.calls(*node));
                    self.add_block(*node, &id, "Notes", notes.clone(), &[], Owner::executor());
                }
            }
            Event::Wants { node, calls, refused } => self.record_requested_calls(*node, calls, refused),
            Event::Checked { node, verdicts, .. } if !verdicts.is_empty() => {
                let lines: Vec<String> = verdicts.iter().map(verdict_line).collect();
                let id = self.block_name(event);
                self.add_list_block(*node, &id, "Criteria", String::new(), "results", &lines);
            }
            Event::SentBack { node, gaps } => {
                let id = self.block_name(event);
                self.add_list_block(*node, &id, "Sent back", String::new(), "remaining", gaps);
            }
            Event::Spent { node, reason } => {
                let body = "No more calls are started; the results so far are handed back.".to_owned();
                let id = self.block_name(event);
                self.add_block(
                    *node,
                    &id,
                    &format!("Limit reached: {reason}"),
                    body,
                    &[],
                    Owner::planner(),
                );
            }
            Event::Questioned { node, question } => {
                let id = self.block_name(event);
                self.record_question(*node, &id, question);
            }
            Event::Answered { node, answer, by } => {
                let id = self.block_name(event);
                self.add_block(
                    *node,
                    &id,
                    &format!("Answer by {by}"),
                    answer.clone(),
                    &[],
                    Owner::user(),
                );
            }
            Event::Paused { node, by } | Event::Continued { node, by } => {
                let (verb, title) = if matches!(event, Event::Paused { .. }) {
                    ("paused", "Paused")
                } else {
                    ("continued", "Continued")
                };
                let target = node
                    .and_then(|node| self.run.node(node))
                    .map_or("the run".to_owned(), |view| view.path.to_owned());
                let id = format!("{verb}/{}", self.run.pauses());
                let body = format!("{by} {verb} {target}.");
                self.log(main_page(self.run.id()), &id, title, body, None, Owner::planner());
            }
            _ => {}
        }
    }

    /// How often a model or a person was asked to do something for `node`.
    fn calls(&self, node: NodeId) -> u32 {
        self.run.times_asked(node)
    }

    /// The name of the block about `event`.
    fn block_name(&self, event: &Event) -> String {
        self.run.block_of(event).unwrap_or_default()
    }

    /// Adds a block to the branch of `node`.
    fn add_block(&mut self, node: NodeId, id: &str, title: &str, body: String, actions: &[String], owner: Owner) {
        let page = branch_page(self.run, node);
        let parts = (!actions.is_empty()).then(|| json!({ "actions": actions }));
        self.log(page, &format!("{id}/{node}"), title, body, parts, owner);
    }

    fn add_list_block(&mut self, node: NodeId, id: &str, title: &str, body: String, part: &str, lines: &[String]) {
        let page = branch_page(self.run, node);
        let lines: Vec<String> = lines.iter().take(64).map(|line| cut(line, 400)).collect();
        let parts = (!lines.is_empty()).then(|| json!({ part: lines }));
        self.log(page, &format!("{id}/{node}"), title, body, parts, Owner::planner());
    }

    fn planned(&mut self, node: NodeId, version: u32, reason: &str, kept: usize, awaits: bool) {
        let Some(view) = self.run.node(node) else { return };
        let is_root = view.parent.is_none();
        if is_root && version > 1 && !awaits {
            self.iteration_replaced(version - 1, self.run.previous_plan_summary(node));
        }
        let steps = self.run.steps_of_plan(node, version);
        let titles: Vec<String> = steps.iter().map(|step| self.title_or_members(step)).collect();
        let kept = match kept {
            0 => String::new(),
            1 => ", 1 is kept".to_owned(),
            kept => format!(", {kept} are kept"),
        };
        let title = if is_root {
            format!("Iteration {version}: plan")
        } else {
            format!("Plan, version {version}")
        };
        let planned = super::steps_planned(titles.len());
        let body = format!("{reason}\n\n{planned}{kept}.");
        let parts = json!({ "remaining": titles });
        self.log(
            branch_page(self.run, node),
            &format!("plan/{version}/{node}"),
            &title,
            body.trim().to_owned(),
            Some(parts),
            Owner::planner(),
        );
        if version == 1 {
            for step in steps {
                self.add_steps(self.page_of_steps(&view), &step, 0);
            }
            return;
        }
        let new: HashSet<NodeId> = steps.iter().map(|step| step.id).collect();
        if !awaits {
            self.replace_plan_steps(&view, &new);
            return;
        }
        // The plan before it counts until this one is approved, and comes first on the page.
        let mut order = self.run.steps_before(node).len();
        for step in steps {
            self.write_step_entries(self.page_of_steps(&view), &step, true, (&mut order, 0));
        }
    }

    /// The page with the steps of `view`.
    fn page_of_steps(&self, view: &NodeView<'_>) -> PageId {
        match view.parent {
            None => plan_page(self.run.id()),
            Some(_) => branch_page(self.run, view.id),
        }
    }

    /// Puts the plan of `view` in the place of the one before it. Those of its steps in `new` have no entry yet.
    fn replace_plan_steps(&mut self, view: &NodeView<'_>, new: &HashSet<NodeId>) {
        let all = self.run.steps(view.id);
        self.archive_replaced_steps(view.id, &all, |_| true);
        let page = self.page_of_steps(view);
        // A step that was kept from a group now stands on its own.
        let mut order = 0;
        for step in all {
            self.write_step_entries(page, &step, new.contains(&step.id), (&mut order, 0));
        }
    }

    /// Archives the steps of the previous plan of `node` that do not count any more (`all` are those that do) and that
    /// `is_meant` selects.
    pub(super) fn archive_replaced_steps(
        &mut self,
        node: NodeId,
        all: &[NodeView<'_>],
        is_meant: impl Fn(&NodeView<'_>) -> bool,
    ) {
        let counts = self.with_members(all);
        for replaced_step in self.run.steps_before(node) {
            if !counts.contains(&replaced_step.id) && is_meant(&replaced_step) {
                self.archive_step_entry(&replaced_step);
                self.supersede_branches(replaced_step);
            }
        }
    }

    /// Writes that a plan that waited was approved.
    pub(super) fn plan_approved(&mut self, node: NodeId) {
        let Some(view) = self.run.node(node).filter(|view| view.plan_version > 1) else {
            return;
        };
        if view.parent.is_none() {
            self.iteration_replaced(view.plan_version - 1, self.run.previous_plan_summary(node));
        }
        self.replace_plan_steps(&view, &HashSet::new());
    }

    /// `steps`, and the members of those that are groups.
    fn with_members(&self, steps: &[NodeView<'_>]) -> HashSet<NodeId> {
        let mut all = HashSet::new();
        let mut rest = steps.to_vec();
        while let Some(step) = rest.pop() {
            all.insert(step.id);
            if step.kind.is_group() {
                rest.extend(self.run.children(step.id));
            }
        }
        all
    }

    /// Marks the branches of a step that another plan replaced, and of everything in it, as superseded. The members of
    /// a group are steps of their own.
    fn supersede_branches(&mut self, replaced_step: NodeView<'_>) {
        let is_group = replaced_step.kind.is_group();
        let mut rest = if is_group { Vec::new() } else { vec![replaced_step] };
        while let Some(view) = rest.pop() {
            if view.kind.is_task() && view.started_at.is_some() {
                self.changes.push(Change::SetPageStatus {
                    page: branch_page(self.run, view.id),
                    status: StopReason::Superseded.to_string(),
                });
            }
            rest.extend(self.run.children(view.id));
        }
    }

    fn record_requested_calls(&mut self, node: NodeId, calls: &[Wanted], refused: &BTreeMap<String, String>) {
        let actions: Vec<String> = calls
            .iter()
            .map(|call| crate::run::call_in_words(&call.tool, &call.args))
            .chain(refused.values().cloned())
            .collect();
        let id = format!("wants/{}", self.calls(node));
        self.add_block(node, &id, "Actions", String::new(), &actions, Owner::executor());
    }

    fn record_question(&mut self, node: NodeId, id: &str, question: &Question) {
        let page = branch_page(self.run, node);
        let question_text = std::iter::once(question.text.clone());
        let lines: Vec<String> = question_text
            .chain(question.options.iter().map(|option| format!("- {option}")))
            .collect();
        let parts = json!({ "questions": lines });
        self.log(
            page,
            &format!("{id}/{node}"),
            "Question",
            String::new(),
            Some(parts),
            Owner::executor(),
        );
    }

    /// Writes the result of one call that a model wanted, or of one roll-up.
    pub(super) fn action_finished(&mut self, node: NodeId) {
        let Some((view, result)) = self.run.node(node).and_then(|view| Some((view, view.result?))) else {
            return;
        };
        let reason = result
            .stop_reason
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        let title = format!("{}: {}{reason}", self.run.title(node), result.status);
        let mut parts = serde_json::Map::new();
        if let Some(preview) = super::output_preview(&result.output) {
            parts.insert("results".to_owned(), json!([preview]));
        }
        if !result.evidence.is_empty() {
            parts.insert("evidence".to_owned(), self.evidence_lines(result).into());
        }
        let parts = (!parts.is_empty()).then_some(serde_json::Value::Object(parts));
        let page = branch_page(self.run, view.id);
        self.log(
            page,
            &format!("result/{node}"),
            &title,
            result.notes.clone(),
            parts,
            Owner::executor(),
        );
    }

    /// Writes the end of an iteration of the root's planner whose plan was replaced: the steps that it had, and
    /// `outcome`, which is what the planner said when it combined their results.
    pub(super) fn iteration_replaced(&mut self, iteration: u32, outcome: &str) {
        let steps = self.run.steps_before(NodeId::root(self.run.id()));
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
    }

    /// Writes the end of an iteration of the root's planner: the results of `steps`, and a page that keeps them (seed
    /// 000).
    pub(super) fn iteration_ended(
        &mut self,
        iteration: u32,
        status: Outcome,
        (notes, words): (&str, String),
        steps: &[NodeView<'_>],
    ) {
        let run = self.run.id();
        let parts = json!({ "results": self.roll_up_of(steps) });
        self.log(
            main_page(run),
            &format!("roll-up/{iteration}"),
            "Branch roll-up",
            notes.to_owned(),
            Some(parts),
            Owner::planner(),
        );
        let summary = iteration_summary_page(run, iteration);
        self.page_with(
            summary,
            PageRole::IterationSummary,
            &format!("Iteration {iteration}"),
            Some(main_page(run)),
            Owner::planner(),
            (None, iteration),
        );
        let mut fields = EntryFields::new(EntryKind::Summary, Owner::planner(), Trust::ToolInternal);
        fields.title = format!("Iteration {iteration}: {status}");
        fields.body = words;
        fields.parts = Some(json!({ "remaining": self.remaining(steps) }));
        fields.iteration = Some(iteration);
        let id = entry_of(run, &["summary", &iteration.to_string()]);
        self.changes.push(Change::AddEntry(Box::new(NewEntry {
            id,
            page: summary,
            kind: EntryKind::Summary,
            fields,
        })));
        self.changes.push(Change::SetPageStatus {
            page: summary,
            status: status.to_string(),
        });
    }
}

fn verdict_line(verdict: &Verdict) -> String {
    match &verdict.finding {
        Finding::Met => format!("{}: met", verdict.criterion),
        Finding::Unmet(gap) => format!("{}: unmet, {gap}", verdict.criterion),
        Finding::Unverifiable(why) => format!("{}: unverifiable, {why}", verdict.criterion),
    }
}

fn tests_in_words(tests: Option<&LeafTests>) -> String {
    let Some(tests) = tests else { return String::new() };
    let describe = |holds: bool, yes: &str, no: &str| if holds { yes.to_owned() } else { no.to_owned() };
    format!(
        "\n\nThe task is {}, its resources are {}, and its criteria are {}.",
        describe(tests.low_complexity, "well understood", "complex"),
        describe(tests.resources_available, "available", "not available"),
        describe(tests.criteria_testable, "testable here", "not testable here"),
    )
}
