//! The evaluator: whether the work of a turn is complete (M7.11.2).

use std::fmt;

use super::decision::{Decision, Stage, Used};
use crate::entry::{Entry, EntryKind, Family, State, Status};
use crate::time::Timestamp;

/// The most entries that the reasons name; further ones are counted.
const MAX_NAMED: usize = 20;

/// The input of the evaluator.
#[derive(Debug, Clone, Copy)]
pub struct Finished<'a> {
    /// Observations that somebody should review.
    pub pending_review: &'a [Entry],
    /// The work of the turn or its thread, whatever its status.
    pub work: &'a [Entry],
    /// How the run of the turn ended, if the turn had one.
    pub run_status: Option<&'a str>,
    /// The current instant.
    pub now: Timestamp,
}

/// The result of the evaluator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether nothing is left to do.
    pub complete: bool,
    /// What is left to do, in words: of many entries the first, and how many more there are.
    pub reasons: Vec<String>,
    /// The entries that leave something to do.
    pub used: Vec<Used>,
}

impl Evaluation {
    /// The result as a recorded decision.
    #[must_use]
    pub fn decision(&self) -> Decision {
        let verdict = if self.complete { "complete" } else { "more_work" };
        Decision::new(Stage::Evaluator, verdict, self.reasons.clone(), self.used.clone())
    }
}

/// The interface of the evaluator. Rules are the default; [`Stages`](super::Stages) may replace them.
pub trait Evaluator: fmt::Debug + Send + Sync {
    /// Assesses whether the work is complete.
    fn assess(&self, finished: &Finished<'_>) -> Evaluation;
}

/// The evaluator without a model: the work is complete if there is nothing to review, nothing open and no failed run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleEvaluator;

impl Evaluator for RuleEvaluator {
    fn assess(&self, finished: &Finished<'_>) -> Evaluation {
        let (mut reasons, mut used) = (Vec::new(), Vec::new());
        let mut left: Vec<&Entry> = finished.pending_review.iter().chain(finished.work).collect();
        left.sort_by_key(|entry| entry.handle);
        left.dedup_by_key(|entry| entry.handle);
        for entry in left {
            if entry.state(finished.now) != State::Live {
                continue;
            }
            let reason = match (entry.kind.family(), entry.fields.status) {
                (Family::Knowledge, Status::PendingReview) => format!("{} is to be reviewed", entry.handle),
                // A goal outlives a turn; its progress shows how far it is.
                (Family::Work, _) if entry.kind == EntryKind::Goal => continue,
                (Family::Work, status) => format!("{} ({}) is {status}", entry.handle, entry.kind),
                (Family::Knowledge, _) => continue,
            };
            if used.len() < MAX_NAMED {
                reasons.push(reason);
            }
            used.push(Used::of(entry));
        }
        if let Some(more) = used.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
            reasons.push(format!("{more} more are to be reviewed or done"));
        }
        if let Some(status) = finished
            .run_status
            .filter(|status| !matches!(*status, "ok" | "running"))
        {
            reasons.push(format!("the run ended {status}"));
        }
        Evaluation {
            complete: reasons.is_empty(),
            reasons,
            used,
        }
    }
}
