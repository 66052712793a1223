//! Which limit stopped something: that of the run, or that of a part of it, which a higher limit for the run does not
//! change (E9.10).

use std::iter::once;

use folio_memory::Timestamp;

use super::agent::PRICE_UNKNOWN;
use super::state::Run;
use crate::event::Event;
use crate::node::NodeId;
use crate::result::{NodeResult, StopReason};
use crate::spend::Dimension;

/// A limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitMet {
    /// The node whose limit it is: the root for a limit of the run.
    pub node: NodeId,
    /// What is limited.
    pub what: LimitKind,
}

/// The rule by which a task is done directly because a plan would have more nodes than are left.
pub(super) const NODES_RULE: &str = "nodes";
/// The same because fewer tokens are left than a plan and a step need.
pub(super) const TOKENS_RULE: &str = "tokens";

/// The limit for which `rule` has a task done directly, if it is one that people can raise: the depth of plans, and the
/// number of their steps, are as the plan of the run says.
pub(super) fn limit_of_rule(rule: &str) -> Option<StopReason> {
    match rule {
        NODES_RULE => Some(StopReason::BudgetNodes),
        TOKENS_RULE => Some(StopReason::BudgetTokens),
        _ => None,
    }
}

/// Something with a limit that people can raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Something that is used.
    Use(Dimension),
    /// The number of nodes.
    Nodes,
    /// Time.
    Time,
    /// Dollars, of which enough may be left: the price of a model is unknown, so nothing says what its call would cost.
    UnknownPrice,
}

impl Run {
    /// The limit that stopped something in this run for `reason`: that of the run, if it was among them, otherwise the
    /// first of a part. `None` if no limit that can be raised did.
    #[must_use]
    pub fn limit_met(&self, reason: StopReason) -> Option<LimitMet> {
        let mut met = self.limits_met.iter().filter(|(why, _)| *why == reason);
        let first = met.clone().next();
        let of_run = met.find(|(_, (index, _))| *index == 0);
        of_run.or(first).map(|(_, met)| self.as_limit_met(*met))
    }

    /// Every limit that stopped something in this run and that can be raised, in the order in which they did. All of
    /// them are in the way of a fork that begins before the first of them.
    pub fn limits_met(&self) -> impl Iterator<Item = (StopReason, LimitMet)> {
        let all = self.limits_met.iter();
        all.map(|(reason, met)| (*reason, self.as_limit_met(*met)))
    }

    /// The tasks that were done without a plan only because a limit left no room for one, in the order in which that was
    /// decided, each with the reason (E9.3).
    pub fn unplanned(&self) -> impl Iterator<Item = (NodeId, StopReason)> {
        let all = self.unplanned.iter();
        all.map(|(index, reason)| (self.nodes[*index].id, *reason))
    }

    fn as_limit_met(&self, (index, what): (usize, LimitKind)) -> LimitMet {
        LimitMet {
            node: self.nodes[index].id,
            what,
        }
    }

    /// Records whose limits stopped something.
    pub(super) fn note_limits(&mut self, reason: StopReason, met: Vec<(usize, LimitKind)>) {
        for met in met {
            if !self.limits_met.contains(&(reason, met)) {
                self.limits_met.push((reason, met));
            }
        }
    }

    /// Records that `event`, if it decides to do a task directly, does so for `reason`.
    pub(super) fn note_unplanned(&mut self, event: &Event, reason: StopReason) {
        if let Event::Decided { node, .. } = event
            && let Ok(index) = self.index(*node)
        {
            self.unplanned.push((index, reason));
        }
    }

    /// The limits at which `event` stops something, as they are before the event: more than one if equally little is
    /// left of them.
    pub(super) fn limits_of(&self, event: &Event) -> Option<(StopReason, Vec<(usize, LimitKind)>)> {
        let (index, reason) = self.stopped_by(event)?;
        let (at, kind) = match event {
            // What a plan needs is compared with the tokens of all kinds alone.
            Event::Decided { .. } if reason == StopReason::BudgetTokens => {
                let (at, dimension, _) = self.least_room(index, &[Dimension::Tokens])?;
                (at, LimitKind::Use(dimension))
            }
            _ => self.limit_around(index, reason)?,
        };
        // The journal says it in the notes only.
        let is_unpriced = matches!(event, Event::Finished { result, .. }
            if reason == StopReason::BudgetUsd && result.notes.contains(PRICE_UNKNOWN));
        if is_unpriced {
            return Some((reason, vec![(at, LimitKind::UnknownPrice)]));
        }
        let LimitKind::Use(dimension) = kind else {
            return Some((reason, vec![(at, kind)]));
        };
        let rooms = self.rooms(index, &[dimension]);
        let least = rooms.iter().map(|(_, _, room)| *room).min();
        let met = rooms.into_iter().filter(|(_, _, room)| Some(*room) == least);
        Some((reason, met.map(|(at, ..)| (at, kind)).collect()))
    }

    /// The node that `event` stops at a limit, and the reason. The consequences for the nodes around it do not count as
    /// another limit.
    fn stopped_by(&self, event: &Event) -> Option<(usize, StopReason)> {
        let (node, reason) = match event {
            Event::CancelRequested { node, by } if by == Self::DEADLINE => (*node, StopReason::Deadline),
            Event::Spent { node, reason } => (Some(*node), *reason),
            Event::Proposed { node, proposal } => (Some(*node), proposal.stop_reason?),
            Event::Checked {
                node,
                limit: Some(reason),
                ..
            } => (Some(*node), *reason),
            Event::Finished { node, result } => (Some(*node), result.stop_reason?),
            Event::Decided { node, by, .. } => (Some(*node), limit_of_rule(by)?),
            _ => return None,
        };
        let index = node.map_or(Some(0), |id| self.index(id).ok())?;
        let has_reason = |result: &NodeResult| result.stop_reason == Some(reason);
        let comes_from_below = || {
            let mut below = self.nodes[index].children.iter();
            below.any(|child| self.nodes[*child].result.as_ref().is_some_and(has_reason))
        };
        let was_told = || self.agent(index).is_some_and(|agent| agent.spent == Some(reason));
        let is_end = matches!(event, Event::Finished { .. } | Event::Proposed { .. });
        let is_consequence = is_end && (comes_from_below() || was_told());
        (reason.is_limit() && !is_consequence).then_some((index, reason))
    }

    /// Out of the limits around node `index` that `reason` can mean, the one that leaves the least; of equal ones, the
    /// innermost.
    pub(super) fn limit_around(&self, index: usize, reason: StopReason) -> Option<(usize, LimitKind)> {
        let use_limit = |dimensions: &[Dimension]| {
            self.least_room(index, dimensions)
                .map(|(at, dimension, _)| (at, LimitKind::Use(dimension)))
        };
        match reason {
            StopReason::BudgetTokens => use_limit(&[
                Dimension::Tokens,
                Dimension::TokensIn,
                Dimension::TokensCached,
                Dimension::TokensOut,
            ]),
            StopReason::BudgetUsd => use_limit(&[Dimension::MicroUsd]),
            StopReason::BudgetModelCalls => use_limit(&[Dimension::ModelCalls]),
            StopReason::BudgetToolCalls => use_limit(&[Dimension::ToolCalls]),
            // An output that is too large does not count against the bytes of journal and pages.
            StopReason::BudgetBytes => self
                .least_room(index, &[Dimension::Bytes])
                .filter(|(_, _, room)| *room == 0)
                .map(|(at, dimension, _)| (at, LimitKind::Use(dimension))),
            StopReason::BudgetNodes => {
                let rooms = self.rooms_for_nodes(index);
                rooms
                    .min_by_key(|(_, room)| *room)
                    .map(|(at, _)| (at, LimitKind::Nodes))
            }
            // A part with a time limit of zero never began.
            StopReason::Deadline if self.own_time(index).is_some_and(|time| time.is_zero()) => {
                Some((index, LimitKind::Time))
            }
            StopReason::Deadline => {
                let own = self.self_and_ancestors(index).map(|at| (at, self.own_deadline(at)));
                let all = own.chain(once((0, self.time.deadline)));
                let set = all.filter_map(|(at, deadline)| Some((at, deadline?)));
                let first: Option<(usize, Timestamp)> = set.min_by_key(|(_, deadline)| *deadline);
                first.map(|(at, _)| (at, LimitKind::Time))
            }
            _ => None,
        }
    }
}
