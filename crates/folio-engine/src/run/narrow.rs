//! Limits that a task sets for itself and everything below it: they narrow those around it (E9.10). Purses count what
//! is used (tokens, calls, …); this module handles the other limits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::once;
use std::time::Duration;

use folio_memory::Timestamp;

use super::state::Run;
use super::tree::NodeKind;
use crate::event::Event;
use crate::node::NodeId;
use crate::plan::{Budget, Step};

/// The divisor for the part of the time that is kept for handing back what was done: a tenth (E9.10).
const HAND_BACK_TIME_DIVISOR: u32 = 10;

/// The state of the limits that tasks set for themselves.
#[derive(Debug, Default)]
pub(super) struct OwnLimits {
    /// The deadlines of tasks that have begun and not ended.
    deadlines: BTreeSet<(Timestamp, usize)>,
    /// How long the run had only waited for people when each of these began.
    idle_before: BTreeMap<usize, Duration>,
    /// Whether some task limits how many of its calls may be under way at the same time.
    has_concurrency: bool,
    /// The number of nodes below each task that limits them: every plan below checks it before it begins.
    below: HashMap<usize, usize>,
    /// The time and node limits of tasks that people changed.
    changed: BTreeMap<usize, Changed>,
}

/// The changed limits of a task.
#[derive(Debug, Default, Clone, Copy)]
struct Changed {
    time: Option<Duration>,
    nodes: Option<u32>,
}

/// The time that a task has.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeBeforeLate {
    /// The time without what is kept for handing back results.
    pub(super) left: Duration,
    /// What is kept for that.
    pub(super) kept: Duration,
}

/// The calls that one answer about due actions begins, in addition to those under way.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The nodes of the calls that it begins.
    pub(super) taken: Vec<usize>,
    /// Tasks that have as many calls under way as they may.
    full: BTreeSet<usize>,
}

impl Run {
    fn budget_of(&self, index: usize) -> Option<&Budget> {
        match &self.nodes[index].step {
            Some(Step::Task(task)) => Some(&task.budget),
            _ => None,
        }
    }

    /// The smallest limit that `limit_of` returns for node `index` and the tasks around it; at most `run_limit`.
    pub(super) fn least_around<T: Ord>(
        &self,
        index: usize,
        run_limit: T,
        limit_of: impl Fn(&Budget) -> Option<T>,
    ) -> T {
        let own = self
            .self_and_ancestors(index)
            .filter_map(|at| limit_of(self.budget_of(at)?));
        own.fold(run_limit, T::min)
    }

    /// The most bytes that the result of node `index` may have.
    pub(super) fn output_bytes_max(&self, index: usize) -> u64 {
        self.least_around(index, self.limits.output_bytes_max, |budget| budget.output_bytes)
    }

    /// The level that a plan for node `index` would have, and the deepest level allowed, which is at most `of_run`.
    pub(super) fn plan_level(&self, index: usize, of_run: u32) -> (u32, u32) {
        let level = self.plans_around(index).saturating_add(1);
        let own = self
            .self_and_ancestors(index)
            .filter_map(|at| Some(self.plans_around(at).saturating_add(self.budget_of(at)?.depth?)));
        (level, own.fold(of_run, u32::min))
    }

    /// Whether `added` nodes for node `index` are too many: if so, how many there are, and how many are allowed.
    pub(super) fn over_nodes_by(&self, index: usize, added: usize) -> Option<(usize, u32)> {
        let mut all = self.node_limits(index).map(|(_, used, limit)| (used, limit));
        all.find(|(used, limit)| used.saturating_add(added) > *limit as usize)
    }

    /// The limits on nodes that apply to node `index`: the node that has the limit, the number of nodes so far, and the
    /// limit; that of the run comes last.
    fn node_limits(&self, index: usize) -> impl Iterator<Item = (usize, usize, u32)> {
        let own = self.self_and_ancestors(index).filter_map(|at| {
            let limit = self.own_nodes(at)?;
            Some((at, self.nodes_below(at), limit))
        });
        own.chain(once((0, self.nodes_in_plans(), self.limits.nodes_max)))
    }

    /// How many more nodes each limit that applies to node `index` allows, with the node that has the limit.
    pub(super) fn rooms_for_nodes(&self, index: usize) -> impl Iterator<Item = (usize, usize)> {
        self.node_limits(index)
            .map(|(at, used, limit)| (at, (limit as usize).saturating_sub(used)))
    }

    /// The number of nodes below node `top` that belong to plans, without `top` itself.
    pub(super) fn nodes_below(&self, top: usize) -> usize {
        if let Some(count) = self.own_limits.below.get(&top) {
            return *count;
        }
        let (mut count, mut rest) = (0, self.nodes[top].children.clone());
        while let Some(at) = rest.pop() {
            let node = &self.nodes[at];
            count += usize::from(is_plan_step(node.kind));
            rest.extend(&node.children);
        }
        count
    }

    /// Notes that node `index` was created: its own limits apply from now on, and it counts where nodes are counted.
    pub(super) fn note_own_limits(&mut self, index: usize) {
        if !self.own_limits.below.is_empty() && is_plan_step(self.nodes[index].kind) {
            let mut ancestor = self.nodes[index].parent;
            while let Some(at) = ancestor {
                if let Some(count) = self.own_limits.below.get_mut(&at) {
                    *count += 1;
                }
                ancestor = self.nodes[at].parent;
            }
        }
        let Some(own) = self.budget_of(index) else { return };
        let (has_one, has_nodes) = (own.concurrency.is_some(), own.nodes.is_some());
        self.own_limits.has_concurrency |= has_one;
        if has_nodes {
            self.own_limits.below.insert(index, 0);
        }
    }

    /// The most nodes below node `index` by its own limit.
    pub(super) fn own_nodes(&self, index: usize) -> Option<u32> {
        let own = self.budget_of(index)?.nodes?;
        let change = self.own_limits.changed.get(&index);
        Some(change.and_then(|change| change.nodes).unwrap_or(own))
    }

    /// How long node `index` may take by its own limit.
    pub(super) fn own_time(&self, index: usize) -> Option<Duration> {
        let own = self.budget_of(index)?.deadline?;
        let change = self.own_limits.changed.get(&index);
        Some(change.and_then(|change| change.time).unwrap_or(own))
    }

    /// When node `index` must have ended by its own limit.
    pub(super) fn own_deadline(&self, index: usize) -> Option<Timestamp> {
        let own = self.own_time(index)?;
        Some(self.nodes[index].started_at?.plus(own))
    }

    /// The earliest time at which node `index` must have ended, by its own limit, those around it, or that of the run.
    pub(super) fn deadline_around(&self, index: usize) -> Option<Timestamp> {
        let own = self.self_and_ancestors(index).filter_map(|at| self.own_deadline(at));
        own.chain(self.time.deadline).min()
    }

    /// Sets the `time` that node `index` may take from its start, and the number of `nodes` below it.
    pub(super) fn change_own(&mut self, index: usize, time: Option<Duration>, nodes: Option<u32>) {
        if time.is_none() && nodes.is_none() {
            return;
        }
        let before = self.own_deadline(index);
        let is_kept = before.is_some_and(|before| self.own_limits.deadlines.remove(&(before, index)));
        let change = self.own_limits.changed.entry(index).or_default();
        change.time = time.or(change.time);
        change.nodes = nodes.or(change.nodes);
        if is_kept {
            self.begin_time(index);
        }
    }

    /// The number of nodes below `node` and the most allowed, if it is a part of the run with such a limit; for the
    /// root, those of the whole run.
    #[must_use]
    pub fn nodes_within(&self, node: NodeId) -> Option<(usize, u32)> {
        let index = self.index(node).ok()?;
        if index == 0 {
            return Some((self.nodes_in_plans(), self.limits.nodes_max));
        }
        Some((self.nodes_below(index), self.own_nodes(index)?))
    }

    /// When `node` must have ended, if it is a part of the run with such a limit, counted from its start or, if it has
    /// not begun, from `now`; for the root, when the run must have ended.
    #[must_use]
    pub fn deadline_of(&self, node: NodeId, now: Timestamp) -> Option<Timestamp> {
        let index = self.index(node).ok()?;
        if index == 0 {
            return self.time.deadline_at(now);
        }
        let started_at = self.nodes[index].started_at.unwrap_or(now);
        Some(started_at.plus(self.own_time(index)?))
    }

    /// The deadline of the run, of a task around `node` or of `node` itself that has passed at `now`, and whose it is.
    /// What follows from it is due, whether or not somebody drives the run (E9.9). A limit of the run that nobody set
    /// does not pass while nobody drives it.
    #[must_use]
    pub fn passed_deadline(&self, node: NodeId, now: Timestamp) -> Option<(NodeId, Timestamp)> {
        let index = self.index(node).ok()?;
        let own = self
            .self_and_ancestors(index)
            .filter_map(|at| Some((at, self.own_deadline(at)?)));
        let undriven = self.undriven_until(now);
        let run = self.time.deadline_at(now).map(|deadline| (0, deadline.plus(undriven)));
        let mut all = run.into_iter().chain(own);
        let (at, deadline) = all.find(|(at, deadline)| *deadline <= now && self.nodes[*at].cancel.is_none())?;
        Some((self.nodes[at].id, deadline))
    }

    /// Starts the time limit of node `index`, which has begun.
    pub(super) fn begin_time(&mut self, index: usize) {
        if let Some(deadline) = self.own_deadline(index) {
            self.own_limits.deadlines.insert((deadline, index));
            let idle = self.time.idle;
            self.own_limits.idle_before.entry(index).or_insert(idle);
        }
    }

    /// Ends the time limit of node `index`, which has ended.
    pub(super) fn end_time(&mut self, index: usize) {
        if let Some(deadline) = self.own_deadline(index) {
            self.own_limits.deadlines.remove(&(deadline, index));
            self.own_limits.idle_before.remove(&index);
        }
    }

    /// The earliest deadline of a task's own that is still pending.
    pub(super) fn next_own_deadline(&self) -> Option<Timestamp> {
        let mut open = self.open_deadlines();
        open.next().map(|(deadline, _)| deadline)
    }

    fn open_deadlines(&self) -> impl Iterator<Item = (Timestamp, usize)> {
        let deadlines = self.own_limits.deadlines.iter().copied();
        deadlines.filter(|(_, index)| self.nodes[*index].cancel.is_none())
    }

    /// The event that stops a task whose own time is over.
    pub(super) fn own_deadline_event(&self, now: Timestamp) -> Option<Event> {
        let (_, index) = self.open_deadlines().next().filter(|(deadline, _)| *deadline <= now)?;
        Some(Event::CancelRequested {
            node: Some(self.nodes[index].id),
            by: Self::DEADLINE.to_owned(),
        })
    }

    /// Whether node `index` has only the time left that is kept for handing back results.
    pub(super) fn is_late(&self, index: usize, now: Timestamp) -> bool {
        self.time_before_late(index, now)
            .is_some_and(|time| time.left == Duration::ZERO)
    }

    /// The earliest time after `now` at which a task that waits for room has only the time left that is kept for handing
    /// back: it does so then, whatever it waits for.
    pub(super) fn next_late(&self, now: Timestamp) -> Option<Timestamp> {
        let mut ready = self.ready.in_order();
        let begun = std::iter::from_fn(move || ready.next_begun()).filter(|index| !self.is_paused(*index));
        let left = begun.filter_map(|index| Some(self.time_before_late(index, now)?.left));
        left.filter(|left| !left.is_zero()).min().map(|left| now.plus(left))
    }

    /// How long node `index` may go on until only the time is left that is kept for handing back results; `None` if it
    /// has no deadline.
    pub(super) fn time_before_late(&self, index: usize, now: Timestamp) -> Option<TimeBeforeLate> {
        let idle = self.time.idle_until(now);
        // What is kept is a part of the time in which there was work: a tenth of a night of waiting for an answer may be
        // more than all that is left.
        let time_left = |started_at: Option<Timestamp>, idle_before: Duration, deadline: Option<Timestamp>| {
            let deadline = deadline?;
            let work = deadline
                .since(started_at?)
                .saturating_sub(idle.saturating_sub(idle_before));
            let kept = work / HAND_BACK_TIME_DIVISOR;
            let left = deadline.since(now).saturating_sub(kept);
            Some(TimeBeforeLate { left, kept })
        };
        let ancestors = self.self_and_ancestors(index);
        let own = ancestors.filter_map(|at| {
            let idle_before = self.own_limits.idle_before.get(&at).copied().unwrap_or_default();
            time_left(self.nodes[at].started_at, idle_before, self.own_deadline(at))
        });
        own.chain(time_left(self.started_at, Duration::ZERO, self.time.deadline_at(now)))
            .min_by_key(|time| (time.left, time.kept))
    }

    /// Whether the tasks around node `index` allow one more call under way for it, in addition to those in `lanes`.
    pub(super) fn has_lane(&self, index: usize, lanes: &mut Lanes) -> bool {
        !self.own_limits.has_concurrency || self.self_and_ancestors(index).all(|at| self.has_lane_in(at, lanes))
    }

    fn has_lane_in(&self, task: usize, lanes: &mut Lanes) -> bool {
        let Some(limit) = self.budget_of(task).and_then(|own| own.concurrency) else {
            return true;
        };
        // This is asked again and again, and a task that is full stays full until something ends.
        if lanes.full.contains(&task) {
            return false;
        }
        let is_below = |other: &&usize| self.self_and_ancestors(**other).any(|ancestor| ancestor == task);
        let under_way = self.executing.iter().chain(&lanes.taken).filter(is_below).count();
        let is_full = under_way >= limit as usize;
        if is_full {
            lanes.full.insert(task);
        }
        !is_full
    }
}

fn is_plan_step(kind: NodeKind) -> bool {
    !matches!(kind, NodeKind::Action | NodeKind::RollUp)
}
