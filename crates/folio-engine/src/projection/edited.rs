//! What people who steer a run write to the tree of pages: changes of plans, approvals and rejections, changed limits.

use folio_memory::entry::{EntryFields, EntryKind, Owner, Status};
use folio_memory::{Change, FieldChange, NewEntry, PageId, Trust};
use serde_json::json;

use super::{Projection, branch_page, plan_page, step_parts};
use crate::event::{Event, PlanDifference};
use crate::node::NodeId;
use crate::result::StopReason;
use crate::run::NodeView;

impl Projection<'_> {
    /// Writes the difference as a block of the log, the new steps, and for every step its place on the page.
    pub(super) fn plan_edited(&mut self, node: NodeId, version: u32, difference: &PlanDifference, by: &str) {
        let Some(view) = self.run.node(node) else { return };
        let is_root = view.parent.is_none();
        if is_root {
            self.iteration_replaced(version.saturating_sub(1), "");
        }
        let title = if is_root {
            format!("Iteration {version}: plan, edited by {by}")
        } else {
            format!("Plan, version {version}, edited by {by}")
        };
        let steps = self.run.steps(node);
        let titles: Vec<String> = steps
            .iter()
            .filter(|step| step.result.is_none())
            .map(|step| self.title_or_members(step))
            .collect();
        let parts = json!({ "remaining": titles });
        self.log(
            branch_page(self.run, node),
            &format!("plan/{version}/{node}"),
            &title,
            format!("{}.", difference.in_words()),
            Some(parts),
            Owner::user(),
        );
        let page = if is_root {
            plan_page(self.run.id())
        } else {
            branch_page(self.run, node)
        };
        let dropped = self.run.steps_dropped(node);
        for dropped_step in &dropped {
            self.archive_step(dropped_step);
        }
        // For an edit that approves a waiting plan, this includes the steps of the plan that counted until then.
        self.archive_replaced_steps(node, &steps, |old_step| {
            dropped.iter().all(|step| step.id != old_step.id)
        });
        let mut order = 0;
        for step in steps {
            let is_new = node.child(version, step.slug(), "") == step.id;
            self.write_step_entries(page, &step, is_new, (&mut order, 0));
        }
    }

    /// Writes a request for approval, the answer to it, or changed limits.
    pub(super) fn record_approval_event(&mut self, event: &Event) {
        let Some(node) = event.node().or_else(|| self.run.tree().first().map(|root| root.id)) else {
            return;
        };
        let (title, body) = match event {
            Event::ApprovalAsked { approval, .. } => ("Waiting for approval", approval.in_words()),
            Event::CallApproved { .. } => ("Approved", event.in_words()),
            Event::CallRejected { .. } => ("Rejected", event.in_words()),
            Event::PlanApproved { .. } => ("Plan approved", event.in_words()),
            Event::PlanRejected { .. } => ("Plan rejected", event.in_words()),
            _ => ("Limits changed", event.in_words()),
        };
        if let Some(view) = self
            .run
            .node(node)
            .filter(|view| view.kind.is_task() && view.parent.is_some())
        {
            self.branch(&view);
        }
        match event {
            Event::PlanRejected { .. } => {
                for dropped_step in self.run.steps_dropped(node) {
                    self.archive_step(&dropped_step);
                }
            }
            Event::PlanApproved { .. } => self.plan_approved(node),
            _ => {}
        }
        let count = self.run.steered();
        let id = format!("{}/{count}/{node}", event.name());
        self.log(branch_page(self.run, node), &id, title, body, None, Owner::user());
    }

    /// Archives a step that is no longer part of the plan, together with its members.
    pub(super) fn archive_step(&mut self, step: &NodeView<'_>) {
        self.archive_step_entry(step);
        if step.kind.is_group() {
            for member in self.run.children(step.id) {
                self.archive_step(&member);
            }
        }
    }

    /// Archives a step that is no longer part of the plan, without its members. It stays in the groups that it was
    /// planned in, after the steps that have a place.
    pub(super) fn archive_step_entry(&mut self, step: &NodeView<'_>) {
        let parents = std::iter::successors(step.parent.and_then(|id| self.run.node(id)), |above| {
            self.run.node(above.parent?)
        });
        let groups = parents.take_while(|above| above.kind.is_group());
        let parts = step_parts(step, groups.count(), None);
        self.changes.push(Change::PatchEntry {
            entry: self.step_entry(step),
            fields: vec![
                FieldChange::Status(Status::Archived),
                FieldChange::Phase(Some(StopReason::Superseded.to_string())),
                FieldChange::Parts(Some(parts)),
            ],
            expected_version: None,
            base_version: None,
        });
    }

    /// Writes the entry of a step and those of its members at their places: the number on the page, and the number of
    /// groups around.
    pub(super) fn write_step_entries(
        &mut self,
        page: PageId,
        step: &NodeView<'_>,
        is_new: bool,
        (order, depth): (&mut usize, usize),
    ) {
        let parts = Some(step_parts(step, depth, Some(*order)));
        *order += 1;
        let entry = self.step_entry(step);
        if is_new {
            let mut fields = EntryFields::new(EntryKind::Step, Owner::executor(), Trust::ToolInternal);
            fields.title = self.run.title(step.id);
            fields.iteration = Some(self.iteration());
            fields.source = self.source(step.id);
            fields.parts = parts;
            self.changes.push(Change::AddEntry(Box::new(NewEntry {
                id: entry,
                page,
                kind: EntryKind::Step,
                fields,
            })));
        } else {
            self.changes.push(Change::PatchEntry {
                entry,
                fields: vec![FieldChange::Parts(parts)],
                expected_version: None,
                base_version: None,
            });
        }
        if step.kind.is_group() {
            for member in self.run.children(step.id) {
                self.write_step_entries(page, &member, is_new, (&mut *order, depth + 1));
            }
        }
    }
}
