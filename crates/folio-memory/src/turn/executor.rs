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

/// Entries that a confirmation needs for the same reason.
struct Moved<'e> {
    confirmation: &'e Entry,
    by: String,
    entries: Vec<&'e Entry>,
}

impl Moved<'_> {
    /// Names at most this many of the entries. The decision has all of them among those that it used.
    const NAMED: usize = 8;

    fn reason(&self) -> String {
        let Self {
            confirmation,
            by,
            entries,
        } = self;
        let named = entries.iter().take(Self::NAMED).map(|entry| entry.handle.to_string());
        let mut names = named.collect::<Vec<_>>().join(", ");
        let others = entries.len().saturating_sub(Self::NAMED);
        if others > 0 {
            names.push_str(&format!(" and {others} more"));
        }
        let (verb, them) = if entries.len() == 1 {
            ("moves", "it")
        } else {
            ("move", "them")
        };
        format!(
            "{names} {verb} to the front: {} needs {them} ({by})",
            confirmation.handle
        )
    }
}

/// The order without a model: outstanding confirmations and what they need come first, then the most important.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleOrderer;

impl Orderer for RuleOrderer {
    fn order(&self, active: &[Entry], types: &TypeRegistry, now: Timestamp) -> WorkOrder {
        let waiting = pending_confirmations(active, types, now);
        let agent = Owner::agent();
        let mut moved: Vec<Moved<'_>> = Vec::new();
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
                        let is_same =
                            |moved: &&mut Moved<'_>| moved.by == by && moved.confirmation.id == confirmation.id;
                        match moved.iter_mut().find(is_same) {
                            Some(moved) => moved.entries.push(entry),
                            None => moved.push(Moved {
                                confirmation,
                                by,
                                entries: vec![entry],
                            }),
                        }
                        (1, entry)
                    }
                    None => (2, entry),
                }
            })
            .collect();
        ranked.sort_by(|(a_rank, a), (b_rank, b)| a_rank.cmp(b_rank).then_with(|| by_priority(types, a, b)));
        let mut used: Vec<Used> = Vec::new();
        for Moved { confirmation, .. } in &moved {
            let one = Used::of(confirmation);
            if !used.contains(&one) {
                used.push(one);
            }
        }
        WorkOrder {
            order: ranked.into_iter().map(|(_, entry)| Used::of(entry)).collect(),
            reasons: moved.iter().map(Moved::reason).collect(),
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
