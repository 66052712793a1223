//! The first plan of a node, and those that replace it.

use std::collections::HashSet;

use folio_memory::PageId;
use folio_memory::counted::counted;
use folio_memory::entry::{Owner, Status};
use serde_json::json;

use super::{Block, Projection, branch_page, main_page, plan_page};
use crate::event::PlanDifference;
use crate::node::NodeId;
use crate::result::StopReason;
use crate::run::{NodeKind, NodeView};

impl Projection<'_> {
    pub(super) fn expanded(&mut self, node: NodeId) {
        let Some(view) = self.run.node(node) else { return };
        match view.kind {
            NodeKind::Plan => self.written_plan_begun(&view),
            NodeKind::ForEach => self.list_begun(&view),
            NodeKind::Parallel | NodeKind::Sequence => {}
            NodeKind::Call | NodeKind::Model | NodeKind::Action | NodeKind::RollUp => return,
        }
        if view.parent.is_some() {
            self.patch_step(&view, Status::InProgress, None);
        }
    }

    fn written_plan_begun(&mut self, view: &NodeView<'_>) {
        let steps = self.run.children(view.id);
        let page = if view.parent.is_none() {
            let titles: Vec<String> = steps.iter().map(|step| self.run.title(step.id)).collect();
            let block = Block::new(Owner::planner(), "plan/1", plan_title(view, 1))
                .with_body(format!("{}.", steps_planned(titles.len())))
                .with_parts(Some(json!({ "remaining": titles })));
            self.log(main_page(self.run.id()), block);
            plan_page(self.run.id())
        } else {
            self.branch(view)
        };
        for step in steps {
            self.add_steps(page, &step, 0);
        }
    }

    fn list_begun(&mut self, view: &NodeView<'_>) {
        let items = self.run.children(view.id);
        let names: Vec<String> = items.iter().take(64).map(|item| self.run.title(item.id)).collect();
        let owner = if view.depth <= 1 {
            Owner::planner()
        } else {
            Owner::executor()
        };
        let title = format!("{}: {}", self.run.title(view.id), counted(items.len() as u64, "item"));
        let block = Block::new(owner, "items", title).with_lines("actions", &names);
        self.log_of(view.id, block);
    }

    /// Writes a plan that a model made. One that `awaits` approval does not replace the plan before it yet.
    pub(super) fn planned(&mut self, node: NodeId, version: u32, reason: &str, kept: usize, awaits: bool) {
        let Some(view) = self.run.node(node) else { return };
        if view.parent.is_none() && version > 1 && !awaits {
            self.iteration_replaced();
        }
        let steps = self.run.steps_of_plan(node, version);
        self.log_plan(&view, version, &steps, reason, kept);
        let page = self.page_of_steps(&view);
        if version == 1 {
            for step in steps {
                self.add_steps(page, &step, 0);
            }
            return;
        }
        if !awaits {
            let new: HashSet<NodeId> = steps.iter().map(|step| step.id).collect();
            self.replace_plan_steps(&view, &new);
            return;
        }
        // The plan before it counts until this one is approved, and comes first on the page.
        let mut order = self.run.steps_before(node).len();
        for step in steps {
            self.write_step_entries(page, &step, true, (&mut order, 0));
        }
    }

    fn log_plan(&mut self, view: &NodeView<'_>, version: u32, steps: &[NodeView<'_>], reason: &str, kept: usize) {
        let titles: Vec<String> = steps.iter().map(|step| self.title_or_members(step)).collect();
        let kept = match kept {
            0 => String::new(),
            1 => ", 1 is kept".to_owned(),
            kept => format!(", {kept} are kept"),
        };
        let body = format!("{reason}\n\n{}{kept}.", steps_planned(titles.len()));
        let block = Block::new(Owner::planner(), format!("plan/{version}"), plan_title(view, version))
            .with_body(body.trim())
            .with_parts(Some(json!({ "remaining": titles })));
        self.log_of(view.id, block);
    }

    /// Writes the difference as a block of the log, the new steps, and for every step its place on the page.
    pub(super) fn plan_edited(&mut self, node: NodeId, version: u32, difference: &PlanDifference, by: &str) {
        let Some(view) = self.run.node(node) else { return };
        if view.parent.is_none() {
            self.iteration_replaced();
        }
        let steps = self.run.steps(node);
        let titles: Vec<String> = steps
            .iter()
            .filter(|step| step.result.is_none())
            .map(|step| self.title_or_members(step))
            .collect();
        let title = format!("{}, edited by {by}", plan_title(&view, version));
        let block = Block::new(Owner::user(), format!("plan/{version}"), title)
            .with_body(format!("{}.", difference.in_words()))
            .with_parts(Some(json!({ "remaining": titles })));
        self.log_of(node, block);
        let dropped = self.run.steps_dropped(node);
        for dropped_step in &dropped {
            self.archive_step(dropped_step);
        }
        // For an edit that approves a waiting plan, this includes the steps of the plan that counted until then.
        self.archive_replaced_steps(node, &steps, |old_step| {
            dropped.iter().all(|step| step.id != old_step.id)
        });
        let page = self.page_of_steps(&view);
        let mut order = 0;
        for step in steps {
            let is_new = node.child(version, step.slug(), "") == step.id;
            self.write_step_entries(page, &step, is_new, (&mut order, 0));
        }
    }

    /// Writes that a plan that waited was approved.
    pub(super) fn plan_approved(&mut self, node: NodeId) {
        let Some(view) = self.run.node(node).filter(|view| view.plan_version > 1) else {
            return;
        };
        if view.parent.is_none() {
            self.iteration_replaced();
        }
        self.replace_plan_steps(&view, &HashSet::new());
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
    fn archive_replaced_steps(&mut self, node: NodeId, all: &[NodeView<'_>], is_meant: impl Fn(&NodeView<'_>) -> bool) {
        let counts = self.with_members(all);
        for replaced_step in self.run.steps_before(node) {
            if !counts.contains(&replaced_step.id) && is_meant(&replaced_step) {
                self.archive_step_entry(&replaced_step);
                self.supersede_branches(replaced_step);
            }
        }
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
                self.set_page_status(branch_page(self.run, view.id), StopReason::Superseded);
            }
            rest.extend(self.run.children(view.id));
        }
    }
}

/// What the log calls version `version` of the plan of `view`. Each plan of the root is an iteration.
fn plan_title(view: &NodeView<'_>, version: u32) -> String {
    if view.parent.is_none() {
        format!("Iteration {version}: plan")
    } else {
        format!("Plan, version {version}")
    }
}

/// `1 step is planned`, `2 steps are planned`.
fn steps_planned(count: usize) -> String {
    let are = if count == 1 { "is" } else { "are" };
    format!("{} {are} planned", counted(count as u64, "step"))
}
