//! The entries of steps: each step of a plan has one, on the page of the plan, and groups come before their members.

use folio_memory::entry::{EntryFields, EntryKind, Owner, Status};
use folio_memory::{EntryId, FieldChange, PageId, Trust};
use serde_json::{Value, json};

use super::Projection;
use super::ids::entry_of;
use crate::plan::is_generated_id;
use crate::result::{Outcome, StopReason};
use crate::run::{NodeKind, NodeView};

impl Projection<'_> {
    /// Adds the entry of `step`, which is inside `depth` groups, and those of its members if it is a group.
    pub(super) fn add_steps(&mut self, page: PageId, step: &NodeView<'_>, depth: usize) {
        self.add_step_entry(page, step, step_parts(step, depth, None));
        if step.kind.is_group() {
            for member in self.run.children(step.id) {
                self.add_steps(page, &member, depth + 1);
            }
        }
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
        let parts = step_parts(step, depth, Some(*order));
        *order += 1;
        if is_new {
            self.add_step_entry(page, step, parts);
        } else {
            self.patch_entry(self.step_entry(step), vec![FieldChange::Parts(Some(parts))]);
        }
        if step.kind.is_group() {
            for member in self.run.children(step.id) {
                self.write_step_entries(page, &member, is_new, (&mut *order, depth + 1));
            }
        }
    }

    fn add_step_entry(&mut self, page: PageId, step: &NodeView<'_>, parts: Value) {
        let mut fields = EntryFields::new(EntryKind::Step, Owner::executor(), Trust::ToolInternal);
        fields.title = self.run.title(step.id);
        fields.iteration = Some(self.iteration());
        fields.source = self.source(step.id);
        fields.parts = Some(parts);
        self.add_entry(page, self.step_entry(step), EntryKind::Step, fields);
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
        let groups = self.ancestors(step).take_while(|above| above.kind.is_group());
        let parts = step_parts(step, groups.count(), None);
        let fields = vec![
            FieldChange::Status(Status::Archived),
            FieldChange::Phase(Some(StopReason::Superseded.to_string())),
            FieldChange::Parts(Some(parts)),
        ];
        self.patch_entry(self.step_entry(step), fields);
    }

    /// Whether `view` is a step of a plan. A node in the body of a `for_each` is not: the items are branches.
    fn has_step(&self, view: &NodeView<'_>) -> bool {
        if matches!(view.kind, NodeKind::Action | NodeKind::RollUp) {
            return false;
        }
        self.ancestors(view)
            .find(|above| matches!(above.kind, NodeKind::Plan | NodeKind::Model | NodeKind::ForEach))
            .is_some_and(|above| above.kind != NodeKind::ForEach)
    }

    /// The nodes around `view`, the nearest first.
    fn ancestors<'r>(&'r self, view: &NodeView<'r>) -> impl Iterator<Item = NodeView<'r>> {
        std::iter::successors(view.parent.and_then(|id| self.run.node(id)), |above| {
            self.run.node(above.parent?)
        })
    }

    fn step_entry(&self, view: &NodeView<'_>) -> EntryId {
        entry_of(self.run.id(), &["step", &view.id.to_string()])
    }

    /// Updates the step entry of `view`, if it has one.
    pub(super) fn patch_step(&mut self, view: &NodeView<'_>, status: Status, outcome: Option<Outcome>) {
        if !self.has_step(view) {
            return;
        }
        let mut fields = vec![FieldChange::Status(status)];
        if let Some(outcome) = outcome {
            fields.push(FieldChange::Phase(Some(outcome.to_string())));
        }
        self.patch_entry(self.step_entry(view), fields);
    }

    /// The title of `step`, or of a group without title and id the titles of its members.
    pub(super) fn title_or_members(&self, step: &NodeView<'_>) -> String {
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

    /// `steps`, with the members of groups in place of the groups.
    pub(super) fn expand_groups<'r>(&'r self, steps: &[NodeView<'r>]) -> Vec<NodeView<'r>> {
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
