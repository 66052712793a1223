//! The versions that the plan of a node had, read from the journal.

use std::sync::Arc;

use folio_memory::{RunId, Timestamp};

use super::state::{JournalError, Run};
use crate::event::{Event, PlanDifference};
use crate::node::NodeId;
use crate::plan::{ShownStep, Step};
use crate::template::Templates;

/// One version of a plan, as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanVersion {
    /// The number of the version, from 1.
    pub version: u32,
    /// When it became the plan.
    pub at: Timestamp,
    /// The person who changed the previous version; empty if the version is that of the plan file or a model's.
    pub by: String,
    /// Why a model split the task up like this; empty if no model did, or it did not say.
    pub reason: String,
    /// How it differs from the previous version, if a person made it.
    pub difference: Option<PlanDifference>,
    /// Who rejected it, and why, if it waited for approval and was rejected.
    pub rejected: Option<(String, String)>,
    /// The steps, without their state.
    pub steps: Vec<ShownStep>,
}

/// All versions that the plan of `node` had, in order; empty if it never had one. Folds the whole `journal` of `run`.
///
/// # Errors
///
/// If the journal cannot be folded.
pub fn plan_versions(
    run: RunId,
    node: NodeId,
    journal: &[(Timestamp, Event)],
) -> Result<Vec<PlanVersion>, JournalError> {
    let mut folded = Run::new(run, Arc::new(Templates::new()));
    let mut versions: Vec<PlanVersion> = Vec::new();
    for (at, event) in journal {
        folded.apply(*at, event)?;
        let (by, reason, difference) = match event {
            Event::PlanEdited { by, difference, .. } => (by.clone(), String::new(), Some((**difference).clone())),
            Event::Planned { reason, .. } => (String::new(), reason.clone(), None),
            Event::PlanRejected {
                node: of,
                version,
                reason,
                by,
            } if *of == node => {
                let rejected = versions.iter_mut().rfind(|known| known.version == *version);
                if let Some(rejected) = rejected {
                    rejected.rejected = Some((by.clone(), reason.clone()));
                }
                continue;
            }
            Event::RunStarted { .. } | Event::Expanded { .. } => (String::new(), String::new(), None),
            _ => continue,
        };
        let is_of_it = event.node().unwrap_or(NodeId::root(run)) == node;
        let Some(plan) = folded.shown_plan(node).filter(|_| is_of_it) else {
            continue;
        };
        // A plan is there before the node begins it, and still there afterwards.
        if versions.last().is_some_and(|last| last.version == plan.version) {
            continue;
        }
        let steps: Vec<Step> = plan.steps.into_iter().map(|shown| shown.step).collect();
        versions.push(PlanVersion {
            version: plan.version,
            at: *at,
            by,
            reason,
            difference,
            rejected: None,
            steps: ShownStep::from_plan_steps(&steps),
        });
    }
    Ok(versions)
}
