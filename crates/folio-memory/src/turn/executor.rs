//! The order of the work of a turn (M7.11.2).

use std::fmt;

use super::decision::{Decision, Stage, Used};
use super::words::{common, subjects, subjects_of};
use crate::entry::{Entry, Owner, State};
use crate::goals::spellings;
use crate::observation::{Class, TypeRegistry, by_priority};
use crate::query::at_path;
use crate::time::Timestamp;

/// The order in which the agent should do the work before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkOrder {
    /// The entries that the agent is to act on, in order.
    pub order: Vec<Used>,
    /// What was moved, and why.
    pub reasons: Vec<String>,
    /// The confirmations that moved something.
    pub used: Vec<Used>,
}

impl WorkOrder {
    /// The order as a recorded decision.
    #[must_use]
    pub fn decision(&self) -> Decision {
        let verdict = match self.order.first() {
            Some(first) => format!("{} first of {}", first.handle, self.order.len()),
            None => "nothing to act on".to_owned(),
        };
        let used = self.used.iter().chain(&self.order).copied().collect();
        Decision::new(Stage::Executor, verdict, self.reasons.clone(), used)
    }
}

/// The interface that orders the work. Rules are the default; [`Stages`](super::Stages) may replace them.
pub trait Orderer: fmt::Debug + Send + Sync {
    /// Orders the entries of `active` that the agent owns.
    fn order(&self, active: &[Entry], types: &TypeRegistry, now: Timestamp) -> WorkOrder;

    /// Orders work that is described only by words. Returns indexes into `candidates`, first things first.
    fn prefer(&self, candidates: &[String], active: &[Entry], types: &TypeRegistry, now: Timestamp) -> Vec<usize>;
}

/// The order without a model: outstanding confirmations and what they need come first, then the most important.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleOrderer;

impl Orderer for RuleOrderer {
    fn order(&self, active: &[Entry], types: &TypeRegistry, now: Timestamp) -> WorkOrder {
        let waiting = pending_confirmations(active, types, now);
        let agent = Owner::agent();
        let (mut reasons, mut used) = (Vec::new(), Vec::new());
        let mut ranked: Vec<(u8, &Entry)> = active
            .iter()
            .filter(|entry| entry.fields.owner == agent && entry.state(now) == State::Live)
            .map(|entry| {
                if waiting.iter().any(|confirmation| confirmation.id == entry.id) {
                    return (0, entry);
                }
                match waiting
                    .iter()
                    .find_map(|confirmation| Some((confirmation, dependency_reason(confirmation, entry)?)))
                {
                    Some((confirmation, by)) => {
                        reasons.push(format!(
                            "{} moves to the front: {} needs it ({by})",
                            entry.handle, confirmation.handle
                        ));
                        used.push(Used::of(confirmation));
                        (1, entry)
                    }
                    None => (2, entry),
                }
            })
            .collect();
        ranked.sort_by(|(a_rank, a), (b_rank, b)| a_rank.cmp(b_rank).then_with(|| by_priority(types, a, b)));
        WorkOrder {
            order: ranked.into_iter().map(|(_, entry)| Used::of(entry)).collect(),
            reasons,
            used,
        }
    }

    fn prefer(&self, candidates: &[String], active: &[Entry], types: &TypeRegistry, now: Timestamp) -> Vec<usize> {
        let waiting = pending_confirmations(active, types, now);
        let needs: Vec<_> = waiting.into_iter().map(subjects_of).collect();
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        // The sort is stable: what no confirmation needs keeps its planned order.
        order.sort_by_cached_key(|index| {
            let candidate_subjects = subjects(&candidates[*index]);
            let is_verification = ["check", "confirm", "validate", "verification", "verify"]
                .iter()
                .any(|word| candidate_subjects.contains(*word));
            let is_needed = needs
                .iter()
                .any(|subjects| !common(&candidate_subjects, subjects).is_empty());
            match (is_needed, is_verification) {
                (true, true) => 0,
                (true, false) => 1,
                (false, _) => 2,
            }
        });
        order
    }
}

fn pending_confirmations<'e>(active: &'e [Entry], types: &TypeRegistry, now: Timestamp) -> Vec<&'e Entry> {
    let mut found: Vec<_> = active
        .iter()
        .filter(|entry| {
            entry.fields.type_name.is_some()
                && types.class_of(entry.fields.type_name.as_deref()) == Class::PendingConfirmation
                && entry.state(now) == State::Live
        })
        .collect();
    found.sort_by(|a, b| by_priority(types, a, b));
    found
}

/// Why `confirmation` needs `entry`, if it does: the same pending action, the same goal, or a common tag.
fn dependency_reason(confirmation: &Entry, entry: &Entry) -> Option<String> {
    for path in ["pending_action_id", "goal_id"] {
        let value_at = |entry: &Entry| at_path(entry.fields.context.as_ref(), path).cloned();
        if let (Some(a), Some(b)) = (value_at(confirmation), value_at(entry))
            && spellings(&a).contains(&b)
        {
            return Some(format!("{path} {a}"));
        }
    }
    let tag = confirmation
        .fields
        .tags
        .iter()
        .find(|tag| entry.fields.tags.contains(tag))?;
    Some(format!("tag {tag}"))
}
