//! How people change the limits of a run while it runs (E9.10).

use std::time::Duration;

use folio_memory::Timestamp;
use serde_json::json;

use super::agent::Stage;
use super::limit_met::LimitKind;
use super::state::{JournalError, Run};
use crate::event::{Event, NewLimits};
use crate::node::NodeId;
use crate::plan::{self, NODES_MAX, Plan};
use crate::spend::{Allowance, Dimension};

/// Why a change of a limit was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The part has no limit of its own.
    #[error("{path} has no limit of its own on {what}; change the limit of the run")]
    None {
        /// The path of the node.
        path: String,
        /// The name of the limit.
        what: &'static str,
    },
    /// The new limit is below what is used already.
    #[error(
        "the limit on {what} cannot be {wanted}: {used} {} already used or set aside",
        if *used == 1 { "is" } else { "are" }
    )]
    Used {
        /// The name of the limit.
        what: &'static str,
        /// The limit that was requested.
        wanted: u64,
        /// What is used and set aside.
        used: u64,
    },
    /// The new limit on nodes is below the number in the plan, all of which have to be created.
    #[error(
        "the limit on nodes cannot be {wanted}: the plan has {planned} {}",
        if *planned == 1 { "node" } else { "nodes" }
    )]
    Planned {
        /// The limit that was requested.
        wanted: u64,
        /// The number of nodes in the plan.
        planned: u32,
    },
    /// The new deadline is in the past.
    #[error("the deadline of {what} cannot be {deadline}, which is in the past")]
    Past {
        /// The run, or the path of its part.
        what: String,
        /// The deadline that was requested.
        deadline: Timestamp,
    },
    /// A limit is larger than any that a plan may have.
    #[error("these limits are larger than a plan may have: {0}")]
    TooLarge(String),
}

impl Run {
    /// The event by which the limits of `node`, or of the run, become `limits`.
    ///
    /// # Errors
    ///
    /// Why the change is refused: a limit is never less than what is spent and set aside, and never fewer nodes than
    /// the plan has.
    pub fn change_limits(
        &self,
        node: Option<NodeId>,
        limits: NewLimits,
        by: &str,
        now: Timestamp,
    ) -> Result<Event, LimitError> {
        let index = node.and_then(|node| self.index(node).ok()).unwrap_or(0);
        let path = || match &*self.nodes[index].path {
            "" => "the run".to_owned(),
            path => path.to_owned(),
        };
        for dimension in Dimension::ALL {
            let Some(wanted) = limits.allowance.of(dimension) else {
                continue;
            };
            let what = dimension.as_str();
            let Some(purse) = self.nodes[index].purse.as_deref() else {
                return Err(LimitError::None { path: path(), what });
            };
            let used = purse.used(dimension);
            if wanted < used {
                return Err(LimitError::Used { what, wanted, used });
            }
        }
        let is_part = index > 0;
        let own = [
            ("nodes", limits.nodes.is_some() && self.own_nodes(index).is_none()),
            ("minutes", limits.deadline.is_some() && self.own_time(index).is_none()),
        ];
        if let Some((what, _)) = own.iter().find(|(_, is_missing)| *is_missing && is_part) {
            return Err(LimitError::None { path: path(), what });
        }
        limits.nodes_allowed()?;
        if let Some(wanted) = limits.nodes {
            let used = if is_part {
                self.nodes_below(index)
            } else {
                self.nodes_in_plans()
            };
            let (used, wanted) = (used as u64, u64::from(wanted));
            let planned = if is_part {
                0
            } else {
                plan::count_nodes(&self.plan.steps)
            };
            if wanted < used {
                let what = "nodes";
                return Err(LimitError::Used { what, wanted, used });
            }
            if wanted < planned.into() {
                return Err(LimitError::Planned { wanted, planned });
            }
        }
        if let Some(deadline) = limits.deadline.filter(|deadline| *deadline <= now) {
            let what = path();
            return Err(LimitError::Past { what, deadline });
        }
        let limits = match is_part {
            true => limits.of_part(self.nodes[index].started_at.unwrap_or(now)),
            false => limits,
        };
        Ok(Event::LimitsChanged {
            node: Some(self.nodes[index].id).filter(|_| index > 0),
            limits: Box::new(limits),
            by: by.to_owned(),
        })
    }

    /// Folds [`Event::LimitsChanged`] in. Tasks that this limit had stopped, and that have not handed back what they
    /// have, continue if it was raised.
    pub(super) fn limits_changed(&mut self, node: Option<NodeId>, limits: &NewLimits) -> Result<(), JournalError> {
        let index = node.map_or(Ok(0), |id| self.index(id))?;
        let before = self.limits_at(index);
        if let Some(purse) = self.nodes[index].purse.as_deref_mut() {
            purse.limit = limits.allowance.or(&purse.limit);
            if index == 0 {
                self.limits.allowance = purse.limit;
            }
        }
        self.change_own(index, limits.part_ms.map(Duration::from_millis), limits.part_nodes);
        self.limits.nodes_max = limits.nodes.unwrap_or(self.limits.nodes_max);
        if let Some(deadline) = limits.deadline {
            self.time.set(deadline);
        }
        let after = self.limits_at(index);
        let is_raised = |(at, kind): (usize, LimitKind)| {
            let is_higher = match kind {
                LimitKind::Use(dimension) => is_more(before.0.of(dimension), after.0.of(dimension)),
                LimitKind::Time => is_more(before.1, after.1),
                // Neither stops a task that could hand back what it has.
                LimitKind::Nodes | LimitKind::UnknownPrice => false,
            };
            at == index && is_higher
        };
        let mut below = vec![index];
        while let Some(at) = below.pop() {
            below.extend(&self.nodes[at].children);
            let node = &mut self.nodes[at];
            let Some(agent) = node
                .agent
                .as_deref_mut()
                .filter(|_| node.result.is_none() && node.cancel.is_none())
            else {
                continue;
            };
            if agent.spent_at.is_some_and(is_raised) && agent.stage == Stage::HandingBack {
                agent.goes_on();
            }
        }
        Ok(())
    }

    /// What node `index` may use, and when it must have ended, by its own limits; for the root, by those of the run.
    fn limits_at(&self, index: usize) -> (Allowance, Option<Timestamp>) {
        let purse = self.nodes[index].purse.as_deref();
        let deadline = if index == 0 {
            self.time.deadline
        } else {
            self.own_deadline(index)
        };
        (purse.map(|purse| purse.limit).unwrap_or_default(), deadline)
    }
}

impl NewLimits {
    /// Refuses more nodes than a run may have.
    fn nodes_allowed(&self) -> Result<(), LimitError> {
        let nodes = self.nodes.filter(|nodes| *nodes > NODES_MAX);
        nodes.map_or(Ok(()), |nodes| {
            let message = format!("`nodes` is {nodes}; at most {NODES_MAX} is allowed");
            Err(LimitError::TooLarge(message))
        })
    }
}

impl Plan {
    /// Sets `limits` for a run of this plan that begins at `now`. They take the place of those in its budget.
    ///
    /// # Errors
    ///
    /// Why they cannot be used: fewer nodes than the plan has, or more than a run may have, a deadline in the past, or in
    /// more than ten years, more than a billion dollars.
    pub fn set_limits(&mut self, limits: &NewLimits, now: Timestamp) -> Result<(), LimitError> {
        limits.nodes_allowed()?;
        let planned = plan::count_nodes(&self.steps);
        if let Some(wanted) = limits.nodes.filter(|wanted| *wanted < planned).map(u64::from) {
            return Err(LimitError::Planned { wanted, planned });
        }
        if let Some(deadline) = limits.deadline.filter(|deadline| *deadline <= now) {
            let what = "the run".to_owned();
            return Err(LimitError::Past { what, deadline });
        }
        let (mut budget, new) = (self.budget.clone(), &limits.allowance);
        budget.tokens = new.tokens.or(budget.tokens);
        budget.tokens_in = new.tokens_in.or(budget.tokens_in);
        budget.tokens_cached = new.tokens_cached.or(budget.tokens_cached);
        budget.tokens_out = new.tokens_out.or(budget.tokens_out);
        budget.micro_usd = new.micro_usd.or(budget.micro_usd);
        budget.model_calls = new.model_calls.or(budget.model_calls);
        budget.tool_calls = new.tool_calls.or(budget.tool_calls);
        budget.bytes = new.bytes.or(budget.bytes);
        budget.nodes = limits.nodes.or(budget.nodes);
        // Plans have whole milliseconds. The one that has begun counts, so that no time is taken away.
        let whole = |time: Duration| time + Duration::from_millis(1);
        let time = limits.deadline.map(|deadline| whole(deadline.since(now)));
        budget.deadline = time.or(budget.deadline);
        // What the journal would hold has to be readable there.
        let probe = Self {
            budget,
            ..Self::of_goal("limits")
        };
        let read = plan::from_stored(&json!(probe)).map_err(|errors| LimitError::TooLarge(errors.to_string()))?;
        self.budget = read.budget;
        Ok(())
    }
}

/// Whether the limit `after` allows more than the limit `before`.
fn is_more<T: Ord>(before: Option<T>, after: Option<T>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => after > before,
        (before, None) => before.is_some(),
        (None, Some(_)) => false,
    }
}
