//! What parts of a run may use: charged to a node and to all nodes above it, and set aside for the members of a group
//! before the first of them begins (E9.10).
//!
//! What is set aside for a member is held in every purse above it. The member uses that up first; only what it needs
//! beyond that has to fit into what is free, and the unused part is released when it ends.

use folio_memory::counted::counted;
use serde_json::Value;

use super::agent::Equipment;
use super::inherit::TakenOver;
use super::state::Run;
use super::tree::{Node, NodeKind};
use crate::event::{Event, SetAside};
use crate::node::{NodeId, NodeState};
use crate::plan::{ForEach, Graph, HUMAN, Join, Step, Work};
use crate::result::StopReason;
use crate::spend::{Allowance, Amount, Dimension, Purse, Spend, in_dollars};
use crate::talk::ModelRole;

/// The estimated number of tokens that the first call for a task reads: rules, the task, what is known.
const TASK_TOKENS_IN: u64 = 2_000;

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

/// What the members of a group that begins need at least: one amount for each member that has something to do.
pub(super) struct MinimumNeeds {
    task: Spend,
    each: Vec<Amount>,
    /// Whether the amounts leave out what an earlier version did well in groups of the list.
    rest_only: bool,
}

/// Whether a group that begins fits into the limits.
pub(super) enum Fits {
    /// Nothing has to be set aside: no limit applies.
    Freely,
    /// This is set aside for its members.
    With(SetAside),
    /// Not even one member fits, or there are not enough calls for all.
    Not(StopReason, String),
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
        let (limits, task) = (self.limits_around(parent), Amount::of(&set_aside.task));
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
    fn room_in(&self, index: usize) -> Amount {
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

    fn purses(&self, index: usize) -> impl Iterator<Item = &Purse> {
        self.self_and_ancestors(index)
            .filter_map(|at| self.nodes[at].purse.as_deref())
    }

    /// The smallest limit in each dimension, from node `index` up.
    fn limits_around(&self, index: usize) -> Allowance {
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
                return Some(reason_of(dimension));
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

    /// What the items of the list `index` need, without what an earlier version of it did well for the same items
    /// (E9.8).
    pub(super) fn needs_of_items(&self, index: usize, for_each: &ForEach, items: &[Value]) -> MinimumNeeds {
        let (task, limits) = (self.estimated_task_spend(), self.limits_around(index));
        let full_need = least_of(&for_each.body, &Amount::of(&task), &limits);
        let is_whole = self.is_taken_over_whole(index);
        let left = |earlier: Option<usize>| match earlier {
            Some(earlier) => self.minimum_need_without_done(earlier, is_whole, &Amount::of(&task), &limits),
            None => full_need,
        };
        let is_task = matches!(for_each.body, Step::Task(_));
        let all: Vec<Amount> = self.earlier_items(index, items).into_iter().map(left).collect();
        let rest_only = !is_task && all.iter().any(|left| *left != full_need);
        // An item with nothing left to do takes no lane.
        let each = all
            .into_iter()
            .filter(|left| full_need.is_nothing() || !left.is_nothing());
        MinimumNeeds {
            task,
            each: each.collect(),
            rest_only,
        }
    }

    /// The same for the members of the group `index`.
    pub(super) fn needs_of_members(&self, index: usize) -> MinimumNeeds {
        let (task, limits) = (self.estimated_task_spend(), self.limits_around(index));
        let members = self.nodes[index].children.iter().copied();
        let members = members.filter(|member| self.may_begin(*member) && !self.is_inherited(*member));
        let (mut each, mut rest_only) = (Vec::new(), false);
        for member in members {
            let left = self.least_left(member, &Amount::of(&task), &limits);
            let member_step = self.nodes[member].step.as_ref();
            let full_need = member_step.map(|step| least_of(step, &Amount::of(&task), &limits));
            rest_only |= full_need.is_some_and(|full| full != left);
            each.push(left);
        }
        MinimumNeeds { task, each, rest_only }
    }

    /// What the first call for a task may cost.
    fn estimated_task_spend(&self) -> Spend {
        self.equipment.as_deref().map(task_of).unwrap_or_default()
    }

    /// What an item needs at least, without what it takes over from the item with the root `old`, which an earlier
    /// version of its list made.
    fn minimum_need_without_done(&self, old: usize, is_whole: bool, task: &Amount, limits: &Allowance) -> Amount {
        let Some(frame) = self.nodes[old].frame else {
            return Amount::default();
        };
        let taken_over = self.taken_over(old, is_whole);
        least_in_graph(&self.frames[frame].graph, 0, &taken_over, task, limits)
    }

    /// The same for node `index`, which exists already: without what has ended in it or need not be done again.
    fn least_left(&self, index: usize, task: &Amount, limits: &Allowance) -> Amount {
        let node = &self.nodes[index];
        if node.is_terminal() || self.is_inherited(index) {
            return Amount::default();
        }
        let is_sum = match &node.step {
            Some(Step::Parallel(group)) => group.join == Join::AllSettled,
            Some(Step::Sequence(_)) => true,
            Some(Step::Task(_) | Step::ForEach(_)) | None => false,
        };
        if is_sum {
            let members = node.children.iter();
            return members.fold(Amount::default(), |sum, member| {
                sum.plus(&self.least_left(*member, task, limits))
            });
        }
        let step = node.step.as_ref();
        step.map_or_else(Amount::default, |step| least_of(step, task, limits))
    }

    /// Whether the members of the group `index`, with these needs, fit into what is free, all at once or fewer at a
    /// time.
    ///
    /// There have to be enough calls for all members, or for as many members as the group needs, so that none of them
    /// is left out. Members that need fewer tokens or less money give the rest back, so these have to suffice only for
    /// those that run at the same time.
    pub(super) fn fits_group(&self, index: usize, needs: MinimumNeeds) -> Fits {
        let MinimumNeeds { task, each, rest_only } = needs;
        let all = each.iter().fold(Amount::default(), |sum, need| sum.plus(need));
        let is_limited = |dimension: &Dimension| {
            all.get(*dimension) > 0 && self.purses(index).any(|purse| purse.limit.of(*dimension).is_some())
        };
        let limited: Vec<Dimension> = Dimension::ALL.into_iter().filter(is_limited).collect();
        if limited.is_empty() {
            return Fits::Freely;
        }
        let room = self.room_in(index);
        let mut lanes = each.len();
        for dimension in limited {
            let mut needed: Vec<u64> = each.iter().map(|amount| amount.get(dimension)).collect();
            needed.sort_unstable();
            let left = room.get(dimension);
            if matches!(dimension, Dimension::ModelCalls | Dimension::ToolCalls) {
                let enough = self.nodes[index]
                    .required_ok_count()
                    .map_or(needed.len(), |enough| enough as usize);
                let least: u64 = needed
                    .iter()
                    .take(enough)
                    .fold(0, |sum, more| sum.saturating_add(*more));
                if least > left {
                    return Fits::Not(
                        reason_of(dimension),
                        budget_too_small_message(dimension, least, left, each.len()),
                    );
                }
                continue;
            }
            let sums = needed.iter().rev().scan(0_u64, |sum, more| {
                *sum = sum.saturating_add(*more);
                Some(*sum)
            });
            let at_once = sums.take_while(|sum| *sum <= left).count();
            if at_once == 0 {
                let largest = needed.last().copied().unwrap_or(0);
                return Fits::Not(
                    reason_of(dimension),
                    budget_too_small_message(dimension, largest, left, each.len()),
                );
            }
            lanes = lanes.min(at_once);
        }
        // Lanes follow the order of the plan; members that wait for others by name may need another order.
        let members = self.nodes[index].children.iter();
        let members = members.filter(|member| self.may_begin(**member));
        let mut steps = members.filter_map(|member| self.nodes[*member].step.as_ref());
        let is_free = self.nodes[index].kind == NodeKind::ForEach || steps.all(has_no_needs);
        Fits::With(SetAside {
            task,
            lanes: (lanes < each.len() && is_free).then(|| u32::try_from(lanes).unwrap_or(u32::MAX)),
            rest_only,
        })
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
    pub(super) fn set_aside(&mut self, index: usize, set_aside: Option<SetAside>) {
        self.nodes[index].set_aside = set_aside.map(Box::new);
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

fn budget_too_small_message(dimension: Dimension, needed: u64, left: u64, members: usize) -> String {
    let (needed, left, one) = match dimension {
        Dimension::MicroUsd => (format!("{} dollars", in_dollars(needed)), in_dollars(left), false),
        _ => {
            let name = dimension.as_str().replace('_', " ");
            let needed = match name.strip_suffix('s') {
                Some(noun) => counted(needed, noun),
                None => format!("{needed} {name}"),
            };
            (needed, left.to_string(), left == 1)
        }
    };
    let are = if one { "is" } else { "are" };
    let subject = match (dimension, members) {
        (_, 1) => "its one member needs".to_owned(),
        (Dimension::ModelCalls | Dimension::ToolCalls, _) => format!("its {members} members need"),
        _ => format!("one of its {members} members needs"),
    };
    format!("{subject} at least {needed}, and {left} {are} left; none was begun")
}

/// What the first call for a task that a model does may cost.
fn task_of(equipment: &Equipment) -> Spend {
    let cost = |role: ModelRole| {
        let model = equipment.model(role);
        model.priced(Spend {
            tokens_in: TASK_TOKENS_IN.min(u64::from(model.window) / 2),
            tokens_out: u64::from(model.first_answer_tokens()),
            model_calls: 1,
            ..Spend::default()
        })
    };
    let (planner, executor) = (cost(ModelRole::Planner), cost(ModelRole::Executor));
    Spend {
        tokens_in: planner.tokens_in.max(executor.tokens_in),
        tokens_out: planner.tokens_out.max(executor.tokens_out),
        micro_usd: planner.micro_usd.max(executor.micro_usd),
        ..planner
    }
}

/// The least that the step at `at` of `graph` needs, of whose steps `taken_over` says what they take over.
fn least_in_graph(graph: &Graph, at: usize, taken_over: &[TakenOver], task: &Amount, limits: &Allowance) -> Amount {
    let planned = &graph.nodes[at];
    let is_sum = match &planned.step {
        Step::Parallel(group) => group.join == Join::AllSettled,
        Step::Sequence(_) => true,
        Step::Task(_) | Step::ForEach(_) => false,
    };
    if is_sum {
        let members = planned.children.iter();
        return members.fold(Amount::default(), |sum, member| {
            sum.plus(&least_in_graph(graph, *member, taken_over, task, limits))
        });
    }
    match taken_over.get(at) {
        Some(TakenOver::Result(_)) => Amount::default(),
        _ => least_of(&planned.step, task, limits),
    }
}

/// What `step` needs at least: its calls of tools, and `task` for each task of a model, within the limits that its
/// tasks set for themselves or have as a share of `limits`. The needs of lists are known only once the lists
/// are.
fn least_of(step: &Step, task: &Amount, limits: &Allowance) -> Amount {
    let sum = |steps: &[Step], limits: &Allowance| {
        steps
            .iter()
            .fold(Amount::default(), |sum, step| sum.plus(&least_of(step, task, limits)))
    };
    match step {
        Step::Task(own) => {
            let share = own.share.map(|share| share.of_limits(limits)).unwrap_or_default();
            let limit = own.budget.allowance().least(&share);
            let needed = match &own.work {
                Work::Do(_) => Amount::of(&Spend::TOOL_CALL),
                // No model is asked for a task that a person does.
                Work::Model if own.executor.as_deref() == Some(HUMAN) => Amount::default(),
                Work::Model => *task,
                Work::Plan(plan) => sum(&plan.steps, &limits.least(&limit)),
            };
            let cap = |needed: Amount, dimension: Dimension| match limit.of(dimension) {
                Some(limit) => needed.with(dimension, needed.get(dimension).min(limit)),
                None => needed,
            };
            Dimension::ALL.into_iter().fold(needed, cap)
        }
        Step::Parallel(group) if group.join == Join::AllSettled => sum(&group.steps, limits),
        // In a race, nobody knows how many branches begin.
        Step::Parallel(_) | Step::ForEach(_) => Amount::default(),
        Step::Sequence(sequence) => sum(&sequence.steps, limits),
    }
}

/// Whether neither `step` nor a member of it names what it waits for.
fn has_no_needs(step: &Step) -> bool {
    step.needs().is_none() && step.members().iter().all(has_no_needs)
}
