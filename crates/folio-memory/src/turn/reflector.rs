//! The reflector: what is archived when a turn ends (M7.11.2), after it was exported (M7.5.42).

use std::fmt;

use super::decision::{Decision, Stage, Used};
use crate::entry::{Entry, EntryKind, State, Status};
use crate::goals::Proposal;
use crate::patterns::FoundPattern;
use crate::time::Timestamp;

/// The input of the reflector.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// Settled observations.
    pub resolved: &'a [Entry],
    /// The current patterns.
    pub patterns: &'a [FoundPattern],
    /// Observations that could become goals.
    pub proposals: &'a [Proposal],
    /// The current instant.
    pub now: Timestamp,
}

/// The result of the reflector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reflection {
    /// The entries to archive.
    pub archive: Vec<Used>,
    /// What happened, in words.
    pub reasons: Vec<String>,
    /// The members of patterns, and the entries to archive.
    pub used: Vec<Used>,
}

impl Reflection {
    /// The result as a recorded decision.
    #[must_use]
    pub fn decision(&self) -> Decision {
        let verdict = format!("archives {}", self.archive.len());
        Decision::new(Stage::Reflector, verdict, self.reasons.clone(), self.used.clone())
    }
}

/// The interface of the reflector. Rules are the default; [`Stages`](super::Stages) may replace them.
pub trait Reflector: fmt::Debug + Send + Sync {
    /// Decides what is archived, and why.
    fn reflect(&self, ending: &Ending<'_>) -> Reflection;
}

/// The reflector without a model: it archives every resolved observation that is not pinned.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleReflector;

impl Reflector for RuleReflector {
    fn reflect(&self, ending: &Ending<'_>) -> Reflection {
        let archive: Vec<Used> = ending
            .resolved
            .iter()
            .filter(|entry| {
                entry.kind == EntryKind::Observation
                    && entry.fields.status == Status::Resolved
                    && entry.fields.pin_rank.is_none()
                    && entry.state(ending.now) != State::Expired
            })
            .map(Used::of)
            .collect();
        let (mut reasons, mut used) = (Vec::new(), archive.clone());
        if !archive.is_empty() {
            let handles: Vec<_> = archive.iter().take(20).map(|used| used.handle.to_string()).collect();
            reasons.push(format!("{} resolved: {}", archive.len(), handles.join(", ")));
        }
        for found in ending.patterns.iter().filter(|found| found.is_news) {
            let members: Vec<_> = found
                .members
                .iter()
                .take(20)
                .map(|used| used.handle.to_string())
                .collect();
            reasons.push(format!("a pattern in {} turns: {}", found.turns, members.join(", ")));
            used.extend(found.members.iter().copied());
        }
        for proposal in ending.proposals {
            reasons.push(format!("{} could be a goal", proposal.entry.handle));
            used.push(proposal.entry);
        }
        Reflection { archive, reasons, used }
    }
}
