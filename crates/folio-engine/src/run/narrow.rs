//! Limits that a task sets for itself and everything below it: they narrow those around it (E9.10). What is used up (tokens, calls, …) is
//! counted in purses; here are the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::once;
use std::time::Duration;

use folio_memory::Timestamp;

use super::state::Run;
use super::tree::NodeKind;
use crate::event::Event;
use crate::node::NodeId;
use crate::plan::{Budget, Step};

/// Of the time that there is, what is kept for handing back what was done: a tenth (E9.10).
const KEPT_OF_TIME: u32 = 10;

/// What has to be known of the limits that tasks set for themselves.
#[derive(Debug, Default)]
pub(super) struct OwnLimits {
    /// When tasks that have begun must have ended, and have not.
    deadlines: BTreeSet<(Timestamp, usize)>,
    /// Whether some task says how much of it may be under way at one moment.
    has_concurrency: bool,
    /// How many nodes are below tasks that say how many there may be: every plan below them asks that before it begins.
    below: HashMap<usize, usize>,
    /// What people made of the time and the nodes that tasks say.
    changed: BTreeMap<usize, Changed>,
}

/// Limits of a task that people changed.
#[derive(Debug, Default, Clone, Copy)]
struct Changed {
    time: Option<Duration>,
    nodes: Option<u32>,
}

/// What one answer to what is due begins, beside what is under way.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The nodes of the calls that it begins.
    pub(super) taken: Vec<usize>,
    /// Tasks that have as much under way as they may.
    full: BTreeSet<usize>,
}

impl Run {
    fn budget_of(&self, index: usize) -> Option<&Budget> {
        match &self.nodes[index].step {
            Some(Step::Task(task)) => Some(&task.budget),
            _ => None,
        }
    }

    /// The least that `what` says of the tasks around node `index`, and of itself; at most `of_run`.
    pub(super) fn least_around<T: Ord>(&self, index: usize, of_run: T, what: impl Fn(&Budget) -> Option<T>) -> T {
        let own = self.and_around(index).filter_map(|at| what(self.budget_of(at)?));
        own.fold(of_run, T::min)
    }

    /// Bytes that the result of node `index` may have.
    pub(super) fn output_bytes_max(&self, index: usize) -> u64 {
        self.least_around(index, self.limits.output_bytes_max, |budget| budget.output_bytes)
    }

    /// The level that a plan for node `index` would be on, and the most that it may be: of models' plans at most `of_run`.
    pub(super) fn plan_level(&self, index: usize, of_run: u32) -> (u32, u32) {
        let level = self.plans_around(index).saturating_add(1);
        let own = self
            .and_around(index)
            .filter_map(|at| Some(self.plans_around(at).saturating_add(self.budget_of(at)?.depth?)));
        (level, own.fold(of_run, u32::min))
    }

    /// Whether `more` nodes for node `index` are too many: then how many there are, and how many there may be.
    pub(super) fn over_nodes_by(&self, index: usize, more: usize) -> Option<(usize, u32)> {
        let mut all = self.node_limits(index).map(|(_, used, limit)| (used, limit));
        all.find(|(used, limit)| used.saturating_add(more) > *limit as usize)
    }

    /// The limits of nodes that hold for node `index`, each with whose it is and how many there are; the run's at last.
    fn node_limits(&self, index: usize) -> impl Iterator<Item = (usize, usize, u32)> {
        let own = self.and_around(index).filter_map(|at| {
            let limit = self.own_nodes(at)?;
            Some((at, self.nodes_below(at), limit))
        });
        own.chain(once((0, self.nodes_in_plans(), self.limits.nodes_max)))
    }

    /// How many nodes more there may be by each of the limits that hold for node `index`, with whose it is.
    pub(super) fn rooms_for_nodes(&self, index: usize) -> impl Iterator<Item = (usize, usize)> {
        self.node_limits(index)
            .map(|(at, used, limit)| (at, (limit as usize).saturating_sub(used)))
    }

    /// The nodes below node `top` that stand in plans; it is none of them itself.
    pub(super) fn nodes_below(&self, top: usize) -> usize {
        if let Some(count) = self.own_limits.below.get(&top) {
            return *count;
        }
        let (mut count, mut rest) = (0, self.nodes[top].children.clone());
        while let Some(at) = rest.pop() {
            let node = &self.nodes[at];
            count += usize::from(stands_in_a_plan(node.kind));
            rest.extend(&node.children);
        }
        count
    }

    /// Node `index` was made: what it says of itself is looked for from now on, and it counts where nodes are counted.
    pub(super) fn note_own_limits(&mut self, index: usize) {
        if !self.own_limits.below.is_empty() && stands_in_a_plan(self.nodes[index].kind) {
            let mut around = self.nodes[index].parent;
            while let Some(at) = around {
                if let Some(count) = self.own_limits.below.get_mut(&at) {
                    *count += 1;
                }
                around = self.nodes[at].parent;
            }
        }
        let Some(own) = self.budget_of(index) else { return };
        let (has_one, has_nodes) = (own.concurrency.is_some(), own.nodes.is_some());
        self.own_limits.has_concurrency |= has_one;
        if has_nodes {
            self.own_limits.below.insert(index, 0);
        }
    }

    /// How many nodes may be below node `index`, as it says itself.
    pub(super) fn own_nodes(&self, index: usize) -> Option<u32> {
        let own = self.budget_of(index)?.nodes?;
        let changed = self.own_limits.changed.get(&index);
        Some(changed.and_then(|changed| changed.nodes).unwrap_or(own))
    }

    /// How long node `index` may take, as it says itself.
    pub(super) fn own_time(&self, index: usize) -> Option<Duration> {
        let own = self.budget_of(index)?.deadline?;
        let changed = self.own_limits.changed.get(&index);
        Some(changed.and_then(|changed| changed.time).unwrap_or(own))
    }

    /// When node `index` must have ended, as it says itself.
    pub(super) fn own_deadline(&self, index: usize) -> Option<Timestamp> {
        let own = self.own_time(index)?;
        Some(self.nodes[index].started_at?.plus(own))
    }

    /// The first moment at which node `index` must have ended: as it says itself, what it is in, or the run.
    pub(super) fn deadline_around(&self, index: usize) -> Option<Timestamp> {
        let own = self.and_around(index).filter_map(|at| self.own_deadline(at));
        own.chain(self.deadline).min()
    }

    /// Node `index` may take `time` from when it began, and have so many `nodes` below it, from now on.
    pub(super) fn change_own(&mut self, index: usize, time: Option<Duration>, nodes: Option<u32>) {
        if time.is_none() && nodes.is_none() {
            return;
        }
        let before = self.own_deadline(index);
        let is_kept = before.is_some_and(|before| self.own_limits.deadlines.remove(&(before, index)));
        let changed = self.own_limits.changed.entry(index).or_default();
        changed.time = time.or(changed.time);
        changed.nodes = nodes.or(changed.nodes);
        if is_kept {
            self.begin_time(index);
        }
    }

    /// How many nodes are below `node`, and how many may be, if it is a part of the run that says so itself; of the run, those of all of it.
    #[must_use]
    pub fn nodes_within(&self, node: NodeId) -> Option<(usize, u32)> {
        let index = self.index(node).ok()?;
        if index == 0 {
            return Some((self.nodes_in_plans(), self.limits.nodes_max));
        }
        Some((self.nodes_below(index), self.own_nodes(index)?))
    }

    /// When `node` must have ended, if it is a part of the run that says so itself and has begun, or begins at `now`; of the run, when all of
    /// it must.
    #[must_use]
    pub fn deadline_of(&self, node: NodeId, now: Timestamp) -> Option<Timestamp> {
        let index = self.index(node).ok()?;
        if index == 0 {
            return self.deadline;
        }
        let began = self.nodes[index].started_at.unwrap_or(now);
        Some(began.plus(self.own_time(index)?))
    }

    /// Node `index` has begun: its own time runs.
    pub(super) fn begin_time(&mut self, index: usize) {
        if let Some(deadline) = self.own_deadline(index) {
            self.own_limits.deadlines.insert((deadline, index));
        }
    }

    /// Node `index` has ended: it needs no more time.
    pub(super) fn end_time(&mut self, index: usize) {
        if let Some(deadline) = self.own_deadline(index) {
            self.own_limits.deadlines.remove(&(deadline, index));
        }
    }

    /// The first of the deadlines that tasks have of their own which is still to be kept.
    pub(super) fn next_own_deadline(&self) -> Option<Timestamp> {
        let mut open = self.open_deadlines();
        open.next().map(|(deadline, _)| deadline)
    }

    fn open_deadlines(&self) -> impl Iterator<Item = (Timestamp, usize)> {
        let deadlines = self.own_limits.deadlines.iter().copied();
        deadlines.filter(|(_, index)| self.nodes[*index].cancel.is_none())
    }

    /// The event that stops a task whose own time is over.
    pub(super) fn out_of_time(&self, now: Timestamp) -> Option<Event> {
        let (_, index) = self.open_deadlines().next().filter(|(deadline, _)| *deadline <= now)?;
        Some(Event::CancelRequested {
            node: Some(self.nodes[index].id),
            by: Self::DEADLINE.to_owned(),
        })
    }

    /// Whether only the time is left for node `index` that is kept for handing back what there is.
    pub(super) fn is_late(&self, index: usize, now: Timestamp) -> bool {
        self.time_before_late(index, now) == Some(Duration::ZERO)
    }

    /// How long node `index` may go on before only the time is left that is kept for handing back; `None` if nothing says when it must have
    /// ended.
    pub(super) fn time_before_late(&self, index: usize, now: Timestamp) -> Option<Duration> {
        let before = |began: Option<Timestamp>, deadline: Option<Timestamp>| {
            let (began, deadline) = (began?, deadline?);
            let kept = deadline.since(began) / KEPT_OF_TIME;
            Some(deadline.since(now).saturating_sub(kept))
        };
        let around = self.and_around(index);
        let own = around.filter_map(|at| before(self.nodes[at].started_at, self.own_deadline(at)));
        own.chain(before(self.started_at, self.deadline)).min()
    }

    /// Whether one more call for node `index` may be under way, by what the tasks around it say, beside those that `lanes` has already.
    pub(super) fn has_lane(&self, index: usize, lanes: &mut Lanes) -> bool {
        !self.own_limits.has_concurrency || self.and_around(index).all(|at| self.has_lane_in(at, lanes))
    }

    fn has_lane_in(&self, task: usize, lanes: &mut Lanes) -> bool {
        let Some(most) = self.budget_of(task).and_then(|own| own.concurrency) else {
            return true;
        };
        // Who waits for a lane is asked about again and again, and what is full stays full until something ends.
        if lanes.full.contains(&task) {
            return false;
        }
        let is_below = |other: &&usize| self.and_around(**other).any(|around| around == task);
        let under_way = self.executing.iter().chain(&lanes.taken).filter(is_below).count();
        let is_full = under_way >= most as usize;
        if is_full {
            lanes.full.insert(task);
        }
        !is_full
    }
}

fn stands_in_a_plan(kind: NodeKind) -> bool {
    !matches!(kind, NodeKind::Action | NodeKind::RollUp)
}
