//! Calls that had begun when their driver died, and whose repetition may not be safe (E9.12).

use super::action::CallAction;
use super::approval::approval_of;
use super::state::Run;
use crate::event::{Approval, Event};
use crate::node::{NodeId, NodeState};
use crate::result::{NodeResult, Outcome, Severity, StopReason};

impl Run {
    /// The event for `call`, which had begun when its driver died and whose repetition may not be safe: a request to a
    /// person whether to make it again, or, if nobody is there, the result that its outcome is unknown (E9.12).
    #[must_use]
    pub fn call_lost(&self, call: &CallAction) -> Event {
        let Some(index) = self.index(call.node).ok().filter(|_| self.asks_first.is_some()) else {
            return self.outcome_unknown(call.node, "");
        };
        let state = self.nodes[index].state;
        if state != NodeState::Executing {
            return self.outcome_unknown(call.node, "");
        }
        let approval = Approval {
            again: true,
            ..approval_of(&call.tool, &call.args)
        };
        Event::ApprovalAsked {
            node: call.node,
            approval: Box::new(approval),
        }
    }

    /// The event that records a call with an unknown effect that is not repeated, without asking anybody (E9.12).
    #[must_use]
    pub fn call_given_up(&self, call: &CallAction) -> Event {
        self.outcome_unknown(call.node, ", as the settings say")
    }

    /// The event that records a call as done that had begun when its driver died: the settings say that this can be
    /// assumed (E9.12).
    #[must_use]
    pub fn call_assumed_done(&self, call: &CallAction) -> Event {
        let notes = "it had started when its driver stopped, and the settings count it as done; its output is unknown";
        Event::Finished {
            node: call.node,
            result: Box::new(NodeResult {
                attempts: call.attempt,
                ..NodeResult::new(Outcome::Ok, notes)
            }),
        }
    }

    /// Sets why it could not be recorded how the calls ended that were under way before, if whoever drives the run
    /// knows. It goes into the results of calls with an unknown effect.
    pub fn set_unrecorded(&mut self, why: Option<String>) {
        self.unrecorded = why.map(String::into_boxed_str);
    }

    /// The event that records a call with an unknown effect that was not repeated.
    pub(super) fn outcome_unknown(&self, node: NodeId, why: &str) -> Event {
        let before = match &self.unrecorded {
            Some(reason) => format!("it had started, and how it ended could not be recorded ({reason})"),
            None => "it had started, and its driver stopped before it recorded how it ended".to_owned(),
        };
        let notes = format!("{before}; it is unknown whether it took effect, and it was not retried{why}");
        let result = NodeResult::failed(Severity::Hard, StopReason::OutcomeUnknown, notes);
        Event::Finished {
            node,
            result: Box::new(result),
        }
    }
}
