//! Tasks that wait until others give back tokens or money (E9.10).
//!
//! What is set aside for a call is the most that it may cost, and most calls cost far less. So a task whose next call
//! does not fit ends only if nothing around it can give anything back: two tasks never wait for one another.

use folio_memory::Timestamp;

use super::action::Action;
use super::state::Run;
use crate::event::Event;
use crate::node::NodeId;
use crate::result::StopReason;

impl Run {
    /// The node within which others have to give something back before node `index` can go on, if `action` would end
    /// its work because there is no room for its next call.
    pub(super) fn waits_for_budget(&self, index: usize, action: &Action, now: Timestamp) -> Option<usize> {
        // Calls do not come back.
        let Action::Record(Event::Spent {
            reason: StopReason::BudgetTokens | StopReason::BudgetUsd,
            ..
        }) = action
        else {
            return None;
        };
        self.out_of_room_for_now(index, now)
    }

    /// The end of one task of those `waiting`, each with the node within which others have to give something back, if
    /// nothing there can do so besides `actions`, which are due.
    ///
    /// Only one, so that the others get what it gives back; and the last, because the first ones have done most, and
    /// the members of a group that begin next would take it again.
    pub(super) fn end_of_waiting(
        &self,
        waiting: Vec<(usize, Action)>,
        actions: &[Action],
        now: Timestamp,
    ) -> Option<Action> {
        let mut from_last = waiting.into_iter().rev();
        from_last
            .find(|(top, _)| !self.may_get_back(*top, actions, now))
            .map(|(_, action)| action)
    }

    /// Whether something within node `top` is under way, is among the `actions` that are due, or is tried again later.
    /// What waits for people is not counted: nobody knows for how long it does.
    fn may_get_back(&self, top: usize, actions: &[Action], now: Timestamp) -> bool {
        let is_within = |index: usize| self.self_and_ancestors(index).any(|at| at == top);
        let is_due_within = |action: &Action| match action {
            Action::Stop(_) => false,
            // Others may be due once it was read.
            Action::Load(_) => true,
            action => node_of(action).is_none_or(|node| self.index(node).is_ok_and(is_within)),
        };
        let is_to_come = |(at, index): &(Timestamp, usize)| *at > now && is_within(*index) && !self.is_paused(*index);
        self.executing.iter().copied().any(is_within)
            || actions.iter().any(is_due_within)
            || self.parked.iter().any(is_to_come)
    }
}

fn node_of(action: &Action) -> Option<NodeId> {
    match action {
        Action::Record(event) => event.node(),
        Action::Call(call) => Some(call.node),
        Action::Ask(ask) => Some(ask.node),
        Action::Compact(compact) => Some(compact.node),
        Action::Verify(check) => Some(check.node),
        Action::Brief(node) | Action::Stop(node) => Some(*node),
        Action::Load(_) => None,
    }
}
