//! Tasks that wait until others give back tokens or money (E9.10).
//!
//! What is set aside for a call is the most that it may cost, and most calls cost far less. So a task whose next call
//! does not fit does without it only if nothing around it can give anything back: two tasks never wait for one another.

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::Timestamp;

use super::action::Action;
use super::state::Run;
use crate::event::Event;
use crate::node::NodeId;
use crate::spend::{Amount, Dimension};

/// What can come back: calls do not.
const COME_BACK: [Dimension; 4] = [
    Dimension::Tokens,
    Dimension::TokensIn,
    Dimension::TokensOut,
    Dimension::MicroUsd,
];

/// What is due for a node.
#[derive(Debug)]
pub(super) struct DueAction {
    /// What has to be done.
    pub(super) action: Action,
    /// The node within which others have to give something back for a call that does not fit for the moment, or whose
    /// answer has hardly room. The action does without it, so it is due only once nothing can come back.
    pub(super) waits_within: Option<usize>,
}

impl From<Action> for DueAction {
    fn from(action: Action) -> Self {
        Self {
            action,
            waits_within: None,
        }
    }
}

impl From<Event> for DueAction {
    fn from(event: Event) -> Self {
        Action::Record(event).into()
    }
}

/// A node whose next call waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) index: usize,
    /// The node within which others have to give something back.
    pub(super) within: usize,
    /// What is done if nothing comes back.
    pub(super) action: Action,
}

impl Run {
    /// The one of those `waiting` whose wait ends, if nothing can come back to it besides what `actions` bring, which
    /// are due.
    ///
    /// Only one, so that the others get what it gives back. A conversation that is offloaded without a compactor loses
    /// least, and so does a call whose answer has hardly room; otherwise it is the last one, because the first ones have
    /// done most, and the members of a group that begin next would take it again.
    pub(super) fn end_of_waiting(
        &self,
        mut waiting: Vec<Waiting>,
        actions: &[Action],
        now: Timestamp,
    ) -> Option<Waiting> {
        if waiting.is_empty() {
            return None;
        }
        let idle = self.idle_nodes(&waiting);
        let mut known = BTreeMap::new();
        let mut is_over = |one: &Waiting| {
            let may_get_back = known
                .entry(one.within)
                .or_insert_with(|| self.may_get_back(one.within, &idle, actions, now));
            !*may_get_back
        };
        let goes_on = |one: &Waiting| matches!(one.action, Action::Compact(_) | Action::Ask(_));
        let at = waiting
            .iter()
            .rposition(|one| goes_on(one) && is_over(one))
            .or_else(|| waiting.iter().rposition(is_over))?;
        Some(waiting.swap_remove(at))
    }

    /// The nodes that give nothing back as long as nobody else does something: those `waiting`, and those that wait for
    /// people, of whom nobody knows for how long they do.
    fn idle_nodes(&self, waiting: &[Waiting]) -> BTreeSet<usize> {
        let asking = self.unanswered.iter().chain(&self.gated).copied();
        let paused = self
            .ready
            .all()
            .filter(|index| self.paused > 0 && self.is_paused(*index));
        let waiting = waiting.iter().map(|one| one.index);
        waiting.chain(asking).chain(paused).collect()
    }

    /// Whether something is due within node `top`, or is under way there or tried again later and has something to give
    /// back. Calls of tools have nothing, nor have those `idle` nodes.
    fn may_get_back(&self, top: usize, idle: &BTreeSet<usize>, actions: &[Action], now: Timestamp) -> bool {
        let is_within = |index: usize| self.is_within(index, top);
        let is_due_within = |action: &Action| match action {
            Action::Stop(_) => false,
            // Others may be due once it was read.
            Action::Load(_) => true,
            action => node_of(action).is_none_or(|node| self.index(node).is_ok_and(is_within)),
        };
        let is_to_come = |(at, index): &(Timestamp, usize)| *at > now && is_within(*index) && !self.is_paused(*index);
        let is_moving = || self.executing.iter().copied().any(is_within) || self.parked.iter().any(is_to_come);
        let has_some = || {
            self.nodes[top].purse.as_deref().is_some_and(|purse| {
                let held = purse.held.minus(&self.held_for_idle(top, idle));
                let set_aside = Amount::of(&purse.reserved).plus(&held);
                COME_BACK.iter().any(|dimension| set_aside.get(*dimension) > 0)
            })
        };
        actions.iter().any(is_due_within) || (is_moving() && has_some())
    }

    /// What is set aside for members of groups below node `top` that contain one of the `idle` nodes.
    fn held_for_idle(&self, top: usize, idle: &BTreeSet<usize>) -> Amount {
        let below = idle.iter().filter(|index| self.is_within(**index, top));
        let members: BTreeSet<usize> = below
            .flat_map(|index| self.self_and_ancestors(*index).take_while(|at| *at != top))
            .collect();
        let held = members.iter().filter_map(|at| self.nodes[*at].held.as_deref());
        held.fold(Amount::default(), |sum, held| sum.plus(&held.rest()))
    }

    fn is_within(&self, index: usize, top: usize) -> bool {
        self.self_and_ancestors(index).any(|at| at == top)
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
