//! The current plan of a node, as people see it.

use std::sync::Arc;

use super::state::Run;
use super::tree::NodeKind;
use crate::node::{NodeId, NodeState};
use crate::plan::{self, ShownStep, Slug, Step, WAITING};
use crate::result::Outcome;

/// The current plan of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownPlan {
    /// The version of the plan.
    pub version: u32,
    /// The steps in order.
    pub steps: Vec<ShownStep>,
}

impl Run {
    /// The current plan of a node; `None` if it has none, or has not begun it.
    #[must_use]
    pub fn shown_plan(&self, node: NodeId) -> Option<ShownPlan> {
        let index = self.index(node).ok()?;
        match &self.nodes[index].plan {
            Some(plan) => Some(ShownPlan {
                version: plan.members_version,
                steps: plan.members.iter().map(|member| self.shown_step(*member)).collect(),
            }),
            // The run has not begun yet.
            None if index == 0 && self.nodes[0].kind == NodeKind::Plan => Some(ShownPlan {
                version: 1,
                steps: ShownStep::from_plan_steps(&self.plan.steps),
            }),
            None => None,
        }
    }

    /// Whether a model made the plan of a node, or of something around it.
    #[must_use]
    pub fn is_plan_of_model(&self, node: NodeId) -> bool {
        let index = self.index(node);
        index.is_ok_and(|index| {
            self.self_and_ancestors(index)
                .any(|at| self.nodes[at].kind == NodeKind::Model)
        })
    }

    pub(super) fn shown_step(&self, index: usize) -> ShownStep {
        let node = &self.nodes[index];
        let is_group = node.kind.is_group();
        let members: Vec<ShownStep> = if is_group {
            node.children.iter().map(|child| self.shown_step(*child)).collect()
        } else {
            Vec::new()
        };
        let mark = match (node.state, node.result.as_ref().map(|result| result.status)) {
            (_, Some(Outcome::Ok | Outcome::Partial)) => 'x',
            (_, Some(Outcome::Failed)) => '!',
            // `-` would mean that the line is not part of the plan.
            (_, Some(Outcome::Skipped | Outcome::Cancelled)) | (NodeState::Created, None) => ' ',
            (_, None) => '~',
        };
        ShownStep {
            slug: self.view(index).slug().to_owned(),
            step: self.named_step(index),
            title: self.title(node.id),
            mark,
            outcome: node.result.as_ref().map(|result| result.status.to_string()),
            status: self.step_status(index),
            is_open: self.is_open(index),
            members,
        }
    }

    /// The status of node `index` as a step of its plan, as [`ShownStep::status`] lists them.
    fn step_status(&self, index: usize) -> &'static str {
        let view = self.view(index);
        match (view.result, view.state) {
            (Some(_), _) if view.superseded => "superseded",
            (Some(result), _) => result.status.as_str(),
            (None, NodeState::Created) => WAITING,
            (None, NodeState::AwaitingApproval) => NodeState::AwaitingApproval.as_str(),
            (None, NodeState::WaitingInput) if self.asked_about.contains_key(&index) => {
                NodeState::AwaitingApproval.as_str()
            }
            (None, NodeState::WaitingInput) => NodeState::WaitingInput.as_str(),
            (None, _) => "running",
        }
    }

    /// The step of node `index`, with the ids that the node and the groups in it go by.
    pub(super) fn named_step(&self, index: usize) -> Step {
        let node = &self.nodes[index];
        let slug = Slug::of(self.view(index).slug());
        let Some(step) = &node.step else {
            return Step::Task(Arc::new(plan::Task::new(slug)));
        };
        let members = match node.kind {
            NodeKind::Parallel | NodeKind::Sequence => {
                node.children.iter().map(|child| self.named_step(*child)).collect()
            }
            _ => Vec::new(),
        };
        step.named(&slug, members)
    }

    /// Whether an edit may change node `index`: it has not begun, even if a person was asked to approve it, or was
    /// skipped before it could.
    pub(super) fn is_open(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        match &node.result {
            None => node.state == NodeState::Created || self.is_asked_to_begin(index),
            Some(result) => result.status == Outcome::Skipped,
        }
    }
}
