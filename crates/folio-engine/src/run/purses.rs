//! What parts of a run may use: charged to a node and to all nodes above it, and set aside for the members of a group
//! before the first of them begins (E9.10).
//!
//! What is set aside for a member is held in every purse above it. The member uses that up first; only what it needs
//! beyond that has to fit into what is free, and the unused part is released when it ends.

use serde_json::Value;

use super::group_needs::least_of;
use super::state::Run;
use super::tree::Node;
use crate::event::{Event, SetAside};
use crate::node::{NodeId, NodeState};
use crate::plan::Step;
use crate::result::StopReason;
use crate::spend::{Allowance, Amount, Dimension, Purse, Spend};

/// What was set aside for a member of a group.
#[derive(Debug)]
pub(super) struct Held {
    /// The amount that was set aside.
    aside: Amount,
    /// What it and everything below have used or set aside since; `None` while it waits, which most members of a large
    /// group do.
    used: Option<Box<Amount>>,
}

impl Held {
    /// The part that is not used yet.
    pub(super) fn rest(&self) -> Amount {
        self.used.as_deref().map_or(self.aside, |used| self.aside.minus(used))
    }

    /// Takes in a change of what is used. Returns the resulting change for the nodes above.
    fn take_in(&mut self, change: Change) -> Change {
        let before = self.rest();
        let used = self.used.get_or_insert_default();
        **used = used.plus(&change.grown).minus(&change.shrunk);
        let after = self.rest();
        // What was held and is now used was counted already.
        Change {
            grown: change.grown.plus(&after),
            shrunk: change.shrunk.plus(&before),
        }
        .settled()
    }
}

/// How much something grows and shrinks at once.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    grown: Amount,
    shrunk: Amount,
}

impl Change {
    /// The same change without the part that cancels out.
    fn settled(self) -> Self {
        Self {
            grown: self.grown.minus(&self.shrunk),
            shrunk: self.shrunk.minus(&self.grown),
        }
    }
}

impl Run {
    /// Counts `spent` as used by `index` and by all nodes above it.
    pub(super) fn spend(&mut self, index: usize, spent: &Spend) {
        self.settle(index, &Spend::default(), spent);
    }

    /// Sets `reserved` aside for a call of `index`.
    pub(super) fn reserve(&mut self, index: usize, reserved: &Spend) {
        let change = Change {
            grown: Amount::of(reserved),
            shrunk: Amount::default(),
        };
        self.charge(Some(index), change, change, |node| {
            if let Some(purse) = node.purse.as_deref_mut() {
                purse.reserved = purse.reserved.plus(reserved);
            }
        });
    }

    /// Releases what was set aside for a call of `index`, and counts what it `spent`.
    pub(super) fn settle(&mut self, index: usize, reserved: &Spend, spent: &Spend) {
        let change = Change {
            grown: Amount::of(spent),
            shrunk: Amount::of(reserved),
        };
        let change = change.settled();
        self.charge(Some(index), change, change, |node| {
            node.spent = node.spent.plus(spent);
            if let Some(purse) = node.purse.as_deref_mut() {
                purse.reserved = purse.reserved.minus(reserved);
                purse.spent = purse.spent.plus(spent);
            }
        });
    }

    /// Counts the bytes that `event` adds to the journal and the pages for its node and all nodes above it.
    pub(super) fn count_bytes(&mut self, event: &Event) {
        let bytes = event.bytes();
        let mut at = Some(event.node().and_then(|node| self.index(node).ok()).unwrap_or(0));
        while let Some(index) = at {
            let node = &mut self.nodes[index];
            if let Some(purse) = node.purse.as_deref_mut() {
                purse.bytes = purse.bytes.saturating_add(bytes);
            }
            at = node.parent;
        }
    }

    /// Calls `each` for the node at `from` and all nodes above it. `calls` is the change in what calls use or set
    /// aside, `all` the change including what is held.
    fn charge(&mut self, from: Option<usize>, calls: Change, all: Change, each: impl Fn(&mut Node)) {
        let mut all = all;
        let mut at = from;
        while let Some(index) = at {
            let node = &mut self.nodes[index];
            each(node);
            if let Some(purse) = node.purse.as_deref_mut() {
                // What a call takes from a held amount is no longer held.
                let gained = all.grown.plus(&calls.shrunk);
                let lost = all.shrunk.plus(&calls.grown);
                purse.held = purse.held.plus(&gained.minus(&lost)).minus(&lost.minus(&gained));
            }
            if let Some(own) = node.held.as_deref_mut() {
                all = own.take_in(all);
            }
            at = node.parent;
        }
    }

    /// Sets aside what the member `index` needs at least, as far as it fits, if its group sets something aside.
    pub(super) fn hold_for(&mut self, index: usize) {
        let Some(parent) = self.nodes[index].parent else { return };
        let Some(set_aside) = self.nodes[parent].set_aside.as_deref() else {
            return;
        };
        let limits = self.limits_around(parent);
        let task = |executor: Option<&str>| set_aside.for_task(executor);
        let step = self.nodes[index].step.as_ref();
        let needed = match step {
            Some(_) if set_aside.rest_only => self.least_left(index, &task, &limits),
            Some(step) => least_of(step, &task, &limits),
            None => Amount::default(),
        };
        let reserved = needed.least(&self.room_in(parent));
        let node = &self.nodes[index];
        let is_to_begin = !node.is_terminal() && !self.skipped.contains(&index) && !self.is_inherited(index);
        if reserved.is_nothing() || node.held.is_some() || !is_to_begin {
            return;
        }
        self.nodes[index].held = Some(Box::new(Held {
            aside: reserved,
            used: None,
        }));
        let change = Change {
            grown: reserved,
            shrunk: Amount::default(),
        };
        self.charge(Some(parent), Change::default(), change, |_| {});
    }

    /// Releases what was set aside for the member `index` and not used.
    pub(super) fn release_set_aside(&mut self, index: usize) {
        let Some(held) = self.nodes[index].held.take() else {
            return;
        };
        let Some(parent) = self.nodes[index].parent else { return };
        let change = Change {
            grown: Amount::default(),
            shrunk: held.rest(),
        };
        self.charge(Some(parent), Change::default(), change, |_| {});
    }

    /// How much more fits into all purses from node `index` up, without what is kept for the end of each.
    pub(super) fn room_in(&self, index: usize) -> Amount {
        let (mut room, mut own) = (Amount::ALL, Amount::default());
        let mut at = Some(index);
        while let Some(index) = at {
            let node = &self.nodes[index];
            if let Some(purse) = node.purse.as_deref() {
                room = room.least(&purse.room(false).plus(&own));
            }
            if let Some(held) = node.held.as_deref() {
                own = own.plus(&held.rest());
            }
            at = node.parent;
        }
        room
    }

    /// The limit on one of `dimensions` from node `index` up that has the least room, without what is kept for the end:
    /// the node that has it, the dimension, and the room. Of equal ones, the innermost.
    pub(super) fn least_room(&self, index: usize, dimensions: &[Dimension]) -> Option<(usize, Dimension, u64)> {
        let rooms = self.rooms(index, dimensions).into_iter();
        rooms.min_by_key(|(_, _, room)| *room)
    }

    /// The limits on `dimensions` from node `index` up, innermost first, each with the node that has it and the room in
    /// it without what is kept for the end.
    pub(super) fn rooms(&self, index: usize, dimensions: &[Dimension]) -> Vec<(usize, Dimension, u64)> {
        let (mut own, mut rooms) = (Amount::default(), Vec::new());
        for at in self.self_and_ancestors(index) {
            let node = &self.nodes[at];
            if let Some(purse) = node.purse.as_deref() {
                let room = purse.room(false).plus(&own);
                let limited = dimensions.iter().filter(|one| purse.limit.of(**one).is_some());
                rooms.extend(limited.map(|dimension| (at, *dimension, room.get(*dimension))));
            }
            if let Some(held) = node.held.as_deref() {
                own = own.plus(&held.rest());
            }
        }
        rooms
    }

    pub(super) fn purses(&self, index: usize) -> impl Iterator<Item = &Purse> {
        self.self_and_ancestors(index)
            .filter_map(|at| self.nodes[at].purse.as_deref())
    }

    /// The smallest limit in each dimension, from node `index` up.
    pub(super) fn limits_around(&self, index: usize) -> Allowance {
        self.purses(index)
            .fold(Allowance::default(), |least, purse| least.least(&purse.limit))
    }

    /// What the share of the task `node` amounts to under the current limits around it, for the event that it begins
    /// with; `None` if it has no share, or has begun (E9.1).
    #[must_use]
    pub fn share_of(&self, node: NodeId) -> Option<Box<Allowance>> {
        self.index(node).ok().and_then(|index| self.share_at(index))
    }

    pub(super) fn share_at(&self, index: usize) -> Option<Box<Allowance>> {
        let node = &self.nodes[index];
        let is_new = node.kind.is_task() && node.shared.is_none();
        let Some(Step::Task(task)) = node.step.as_ref().filter(|_| is_new) else {
            return None;
        };
        let share = task.share?;
        Some(Box::new(share.of_limits(&self.limits_around(node.parent?))))
    }

    /// Limits node `index`, which begins, to its share.
    pub(super) fn take_share(&mut self, index: usize, limits: Option<&Allowance>) {
        let Some(limits) = limits else { return };
        let node = &mut self.nodes[index];
        let purse = node.purse.get_or_insert_default();
        purse.limit = purse.limit.least(limits);
        node.shared = Some(Box::new(*limits));
    }

    /// The tokens that node `index` may still use for anything but its end; `None` if no limit applies.
    pub(super) fn tokens_left(&self, index: usize) -> Option<u64> {
        let is_limited = self.purses(index).any(|purse| purse.limit.tokens.is_some());
        is_limited.then(|| self.room_in(index).get(Dimension::Tokens))
    }

    /// Whether the cost of node `index` has to be known: money is limited, and the run's submitter did not allow asking
    /// models without a price.
    pub(super) fn needs_price(&self, index: usize) -> bool {
        let allows_unpriced = || self.run_variable.get("unpriced").and_then(Value::as_bool) == Some(true);
        self.purses(index).any(|purse| purse.limit.micro_usd.is_some()) && !allows_unpriced()
    }

    /// The first limit, from node `index` up, that `spend` does not fit into.
    pub(super) fn refused_by_budget(&self, index: usize, spend: &Spend, is_last: bool) -> Option<StopReason> {
        let refused = self.refused_by_purse(index, spend, is_last);
        refused.map(|(_, dimension)| reason_of(dimension))
    }

    /// The node whose limit on tokens or money `spend` of node `index` does not fit into, if it would fit into all of
    /// them as soon as everything came back that is only set aside. Calls do not come back.
    pub(super) fn refused_for_now(&self, index: usize, spend: &Spend, is_last: bool) -> Option<usize> {
        let (top, dimension) = self.refused_by_purse(index, spend, is_last)?;
        if !matches!(reason_of(dimension), StopReason::BudgetTokens | StopReason::BudgetUsd) {
            return None;
        }
        let fits_unless_spent = |purse: &Purse| {
            let used_only = Purse {
                reserved: Spend::default(),
                held: Amount::default(),
                ..*purse
            };
            let is_used_up = || used_only.used_up_dimension(spend.model_calls > 0, is_last);
            let exceeded = used_only.first_exceeded(&Amount::of(spend), is_last);
            exceeded.or_else(is_used_up).is_none()
        };
        self.purses(index).all(fits_unless_spent).then_some(top)
    }

    /// The first node, from node `index` up, whose limit `spend` does not fit into, and what it limits.
    fn refused_by_purse(&self, index: usize, spend: &Spend, is_last: bool) -> Option<(usize, Dimension)> {
        let asks_a_model = spend.model_calls > 0;
        let mut needed = Amount::of(spend);
        let mut at = Some(index);
        while let Some(index) = at {
            let node = &self.nodes[index];
            let exceeded_dimension = |purse: &Purse| {
                let used_up = || purse.used_up_dimension(asks_a_model, is_last);
                purse.first_exceeded(&needed, is_last).or_else(used_up)
            };
            if let Some(dimension) = node.purse.as_deref().and_then(exceeded_dimension) {
                return Some((index, dimension));
            }
            if let Some(held) = node.held.as_deref() {
                needed = needed.minus(&held.rest());
            }
            at = node.parent;
        }
        None
    }

    /// How full the fullest budget around node `index` is, in per cent.
    pub(super) fn per_cent_spent(&self, index: usize) -> u64 {
        self.purses(index).map(Purse::percent_used).max().unwrap_or(0)
    }

    /// Whether node `index` has not begun, and only what it waits for keeps it from beginning.
    pub(super) fn may_begin(&self, index: usize) -> bool {
        self.nodes[index].state == NodeState::Created && !self.skipped.contains(&index)
    }

    /// Whether the amount for node `index` is set aside only when its turn comes.
    pub(super) fn has_lanes_around(&self, index: usize) -> bool {
        let parent_set_aside = self.nodes[index]
            .parent
            .and_then(|parent| self.nodes[parent].set_aside.as_deref());
        parent_set_aside.is_some_and(|set_aside| set_aside.lanes.is_some())
    }

    /// Makes at most `lanes` of the `members` of a group run at the same time: member n waits for member n - lanes.
    pub(super) fn keep_lanes(&mut self, members: &[usize], lanes: u32) {
        let lanes = lanes.max(1) as usize;
        for (position, member) in members.iter().enumerate().skip(lanes) {
            self.nodes[*member].waits_left += 1;
            self.nodes[members[position - lanes]].dependents.push(*member);
            self.ready.remove(member);
        }
    }

    /// Sets aside what the members of the group `index` need, or, if they run in lanes, leaves that to the moment when
    /// each one's turn comes.
    pub(super) fn set_aside(&mut self, index: usize, set_aside: Option<&SetAside>) {
        self.nodes[index].set_aside = set_aside.cloned().map(Box::new);
        if set_aside.is_some_and(|set_aside| set_aside.lanes.is_none()) {
            for child in self.nodes[index].children.clone() {
                self.hold_for(child);
            }
        }
    }
}

pub(super) fn reason_of(dimension: Dimension) -> StopReason {
    match dimension {
        Dimension::Tokens | Dimension::TokensIn | Dimension::TokensCached | Dimension::TokensOut => {
            StopReason::BudgetTokens
        }
        Dimension::MicroUsd => StopReason::BudgetUsd,
        Dimension::ModelCalls => StopReason::BudgetModelCalls,
        Dimension::ToolCalls => StopReason::BudgetToolCalls,
        Dimension::Bytes => StopReason::BudgetBytes,
    }
}
