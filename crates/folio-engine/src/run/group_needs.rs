//! What the members of a group need at least, and whether that fits into the limits around the group before the first
//! of them begins (E9.10).

use folio_memory::counted::counted;
use serde_json::Value;

use super::agent::Equipment;
use super::first_calls::{FirstCalls, TaskCost, TaskKind, task_kinds};
use super::inherit::TakenOver;
use super::purses::reason_of;
use super::state::Run;
use super::tree::NodeKind;
use crate::event::SetAside;
use crate::plan::{ForEach, Graph, HUMAN, Join, Step, Work};
use crate::result::StopReason;
use crate::spend::{Allowance, Amount, Dimension, Spend, in_dollars};

/// What the members of a group that begins need: one amount for each member that has something to do.
pub(super) struct MinimumNeeds {
    /// What the first calls for tasks are expected to cost at most.
    task: FirstCalls,
    /// What the members need at least: if that is not there, none of them can begin.
    least: Vec<Amount>,
    /// What they are expected to need, which is set aside.
    expected: Vec<Amount>,
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
    /// What the items of the list `index` need, without what an earlier version of it did well for the same items
    /// (E9.8).
    pub(super) fn needs_of_items(&self, index: usize, for_each: &ForEach, items: &[Value]) -> MinimumNeeds {
        let (earlier, limits) = (self.earlier_items(index, items), self.limits_around(index));
        let is_whole = self.is_taken_over_whole(index);
        let is_task = matches!(for_each.body, Step::Task(_));
        let kinds = task_kinds([&for_each.body], &self.tool_scope(index));
        self.needs_with(&kinds, |task| {
            let full_need = least_of(&for_each.body, task, &limits);
            let left = |earlier: &Option<usize>| match earlier {
                Some(earlier) => self.minimum_need_without_done(*earlier, is_whole, task, &limits),
                None => full_need,
            };
            let all: Vec<Amount> = earlier.iter().map(left).collect();
            let rest_only = !is_task && all.iter().any(|left| *left != full_need);
            // An item with nothing left to do takes no lane.
            let each = all
                .into_iter()
                .filter(|left| full_need.is_nothing() || !left.is_nothing());
            (each.collect(), rest_only)
        })
    }

    /// The same for the members of the group `index`.
    pub(super) fn needs_of_members(&self, index: usize) -> MinimumNeeds {
        let limits = self.limits_around(index);
        let members = self.nodes[index].children.iter();
        let steps = members.filter_map(|member| self.nodes[*member].step.as_ref());
        let kinds = task_kinds(steps, &self.tool_scope(index));
        self.needs_with(&kinds, |task| {
            let members = self.nodes[index].children.iter().copied();
            let members = members.filter(|member| self.may_begin(*member) && !self.is_inherited(*member));
            let (mut each, mut rest_only) = (Vec::new(), false);
            for member in members {
                let left = self.least_left(member, task, &limits);
                let member_step = self.nodes[member].step.as_ref();
                let full_need = member_step.map(|step| least_of(step, task, &limits));
                rest_only |= full_need.is_some_and(|full| full != left);
                each.push(left);
            }
            (each, rest_only)
        })
    }

    /// The needs of members, where `each_with` says what each of them needs if the first calls for tasks cost that
    /// much, and whether that leaves something out. The tasks are of these `kinds`.
    fn needs_with(
        &self,
        kinds: &[TaskKind<'_>],
        each_with: impl Fn(TaskCost<'_>) -> (Vec<Amount>, bool),
    ) -> MinimumNeeds {
        let calls = |of: fn(&Equipment, &[TaskKind<'_>]) -> FirstCalls| {
            let equipment = self.equipment.as_deref();
            equipment.map(|equipment| of(equipment, kinds)).unwrap_or_default()
        };
        let (least_task, task) = (calls(FirstCalls::least), calls(FirstCalls::expected));
        let (least, _) = each_with(&|executor| least_task.of(executor));
        let (expected, rest_only) = each_with(&|executor| task.of(executor));
        MinimumNeeds {
            task,
            least,
            expected,
            rest_only,
        }
    }

    /// Whether the members of the group `index`, with these needs, fit into what is free, all at once or fewer at a
    /// time.
    ///
    /// There have to be enough calls for all members, or for as many members as the group needs, so that none of them
    /// is left out. Members that need fewer tokens or less money give the rest back, so these have to suffice only for
    /// those that run at the same time. If what one of them is expected to need is not there, it may still fit: they
    /// run one at a time, and each gets what there is.
    pub(super) fn fits_group(&self, index: usize, needs: MinimumNeeds) -> Fits {
        let MinimumNeeds {
            task,
            least,
            expected,
            rest_only,
        } = needs;
        let count = least.len();
        let all = least.iter().fold(Amount::default(), |sum, need| sum.plus(need));
        let is_limited = |dimension: &Dimension| {
            all.get(*dimension) > 0 && self.purses(index).any(|purse| purse.limit.of(*dimension).is_some())
        };
        let limited: Vec<Dimension> = Dimension::ALL.into_iter().filter(is_limited).collect();
        if limited.is_empty() {
            return Fits::Freely;
        }
        let room = self.room_in(index);
        let enough = self.nodes[index]
            .required_ok_count()
            .map_or(count, |enough| enough as usize);
        let mut lanes = count;
        for dimension in limited {
            let sorted = |needs: &[Amount]| {
                let mut needed: Vec<u64> = needs.iter().map(|amount| amount.get(dimension)).collect();
                needed.sort_unstable();
                needed
            };
            let left = room.get(dimension);
            let at_once = match dimension {
                Dimension::ModelCalls | Dimension::ToolCalls => fit_together(&sorted(&least), enough, left),
                _ => fit_at_once(&sorted(&least), left).map(|_| fit_at_once(&sorted(&expected), left).unwrap_or(1)),
            };
            match at_once {
                Ok(at_once) => lanes = lanes.min(at_once),
                Err(least) => {
                    let notes = budget_too_small_message(dimension, least, left, count);
                    return Fits::Not(reason_of(dimension), notes);
                }
            }
        }
        Fits::With(SetAside {
            task: task.usual,
            named: task.named,
            lanes: (lanes < count && self.may_have_lanes(index)).then(|| u32::try_from(lanes).unwrap_or(u32::MAX)),
            rest_only,
        })
    }

    /// Whether the members of the group `index` may run fewer at a time. Lanes follow the order of the plan; members
    /// that wait for others by name may need another order.
    fn may_have_lanes(&self, index: usize) -> bool {
        let members = self.nodes[index].children.iter();
        let members = members.filter(|member| self.may_begin(**member));
        let mut steps = members.filter_map(|member| self.nodes[*member].step.as_ref());
        self.nodes[index].kind == NodeKind::ForEach || steps.all(has_no_needs)
    }

    /// What an item needs at least, without what it takes over from the item with the root `old`, which an earlier
    /// version of its list made.
    fn minimum_need_without_done(&self, old: usize, is_whole: bool, task: TaskCost<'_>, limits: &Allowance) -> Amount {
        let Some(frame) = self.nodes[old].frame else {
            return Amount::default();
        };
        let taken_over = self.taken_over(old, is_whole);
        least_in_graph(&self.frames[frame].graph, 0, &taken_over, task, limits)
    }

    /// The same for node `index`, which exists already: without what has ended in it or need not be done again.
    pub(super) fn least_left(&self, index: usize, task: TaskCost<'_>, limits: &Allowance) -> Amount {
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
}

/// How many members run at once if the `enough` of them that need the least have to fit into `left` together: all; or
/// if they do not fit, how much they need. `needed` is in ascending order.
fn fit_together(needed: &[u64], enough: usize, left: u64) -> Result<usize, u64> {
    let least = needed
        .iter()
        .take(enough)
        .fold(0_u64, |sum, more| sum.saturating_add(*more));
    if least > left { Err(least) } else { Ok(needed.len()) }
}

/// How many members fit into `left` at the same time, whichever they are; or if not even one does, how much the largest
/// needs. `needed` is in ascending order.
fn fit_at_once(needed: &[u64], left: u64) -> Result<usize, u64> {
    let sums = needed.iter().rev().scan(0_u64, |sum, more| {
        *sum = sum.saturating_add(*more);
        Some(*sum)
    });
    match sums.take_while(|sum| *sum <= left).count() {
        0 => Err(needed.last().copied().unwrap_or(0)),
        at_once => Ok(at_once),
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

/// The least that the step at `at` of `graph` needs, of whose steps `taken_over` says what they take over.
fn least_in_graph(
    graph: &Graph,
    at: usize,
    taken_over: &[TakenOver],
    task: TaskCost<'_>,
    limits: &Allowance,
) -> Amount {
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
pub(super) fn least_of(step: &Step, task: TaskCost<'_>, limits: &Allowance) -> Amount {
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
                Work::Model => task(own.executor.as_deref()),
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
