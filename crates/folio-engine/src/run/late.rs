//! What remains of a task when its time is over: what was done is kept, and combined without a model (E9.8, E9.10).

use super::agent::Agent;
use super::agent::verify::unverifiable;
use super::state::Run;
use super::tree::{Cancel, NodeKind};
use crate::event::Event;
use crate::result::{NodeResult, Outcome, StopReason};

/// The finding for a criterion that was not checked in time.
const NOT_CHECKED: &str = "the time was over before it was checked";

impl Run {
    /// The result of node `index`, which was stopped because its own deadline or that of something around it passed:
    /// what was proposed, which nobody can judge any more; or what was done, combined without a model. `None` if there
    /// is nothing, or somebody else stopped it.
    pub(super) fn late_result(&self, index: usize) -> Option<NodeResult> {
        let node = &self.nodes[index];
        let agent = node
            .agent
            .as_deref()
            .filter(|_| node.cancel == Some(Cancel::ByDeadline))?;
        let reason = agent.spent.unwrap_or(StopReason::Deadline);
        let event = if node.kind == NodeKind::RollUp {
            self.rolled_up_alone(index, reason)
        } else if let Some(proposal) = agent.proposal.as_deref().or(agent.interim_proposal.as_deref()) {
            let mut verdicts = agent.verdicts.clone();
            verdicts.extend(self.open_verdicts(index, NOT_CHECKED, |_| true));
            self.concluded(index, proposal, verdicts, Some(reason))
        } else if self.has_done_some(index, agent) {
            let verdicts = unverifiable(&agent.task.criteria, NOT_CHECKED);
            self.concluded(index, &self.put_together(index, Some(reason)), verdicts, Some(reason))
        } else {
            return None;
        };
        let Event::Finished { result, .. } = event else {
            return None;
        };
        let stop_reason = result.stop_reason.filter(|_| result.status != Outcome::Ok);
        Some(NodeResult { stop_reason, ..*result })
    }

    /// Whether some work was done for node `index`, which a model does: by its steps, or else by the calls that the
    /// model wanted, or a result with which it wanted to finish.
    fn has_done_some(&self, index: usize, agent: &Agent) -> bool {
        if agent.has_plan() {
            return self.has_completed_step(index);
        }
        let mut calls = self.nodes[index]
            .children
            .iter()
            .filter_map(|call| self.nodes[*call].result.as_ref());
        calls.any(|result| result.status <= Outcome::Partial) || self.last_finish(index).is_some()
    }
}
