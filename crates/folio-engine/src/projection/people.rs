//! What people who steer a run write to the tree of pages: approvals and rejections, changed limits, pauses, and requests
//! to stop.

use folio_memory::entry::Owner;

use super::{Block, Projection, main_page};
use crate::event::Event;
use crate::node::NodeId;
use crate::run::Run;

impl Projection<'_> {
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
        let id = format!("{}/{}", event.name(), self.run.steered());
        self.log_of(node, Block::new(Owner::user(), id, title).with_body(body));
    }

    /// Writes that `by` paused the run or a part of it, or continued it; `verb` says which.
    pub(super) fn pause_changed(&mut self, node: Option<NodeId>, by: &str, (verb, title): (&str, &str)) {
        let id = format!("{verb}/{}", self.run.pauses());
        let body = format!("{by} {verb} {}.", self.target(node));
        let block = Block::new(Owner::planner(), id, title).with_body(body);
        self.log(main_page(self.run.id()), block);
    }

    pub(super) fn cancel_requested(&mut self, node: Option<NodeId>, by: &str) {
        let target = self.target(node);
        let body = match by {
            Run::DEADLINE => format!("The time for {target} is over."),
            by => format!("{by} asked to stop {target}."),
        };
        let id = format!("cancel/{}", self.run.cancel_requests());
        let block = Block::new(Owner::planner(), id, "Cancellation").with_body(body);
        self.log(main_page(self.run.id()), block);
    }

    /// The root of the subtree that a request is about, in words.
    fn target(&self, node: Option<NodeId>) -> &str {
        node.and_then(|node| self.run.node(node))
            .map(|view| view.path)
            .filter(|path| !path.is_empty())
            .unwrap_or("the run")
    }
}
