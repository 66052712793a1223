//! How the steps of a plan stand, and the versions that it had.

use folio::Timestamp;
use folio::engine::event::PlanDifference;
use folio::engine::plan::{PlanError, ShownStep, to_markdown};
use folio::engine::run::PlanVersion;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// A mistake of a plan, for programs: line and column from 1, the path in the plan, code, message and hint.
#[must_use]
pub fn plan_mistake(error: &PlanError) -> Value {
    json!({
        "line": error.place.line,
        "column": error.place.column,
        "path": error.path,
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    })
}

/// Where a step of a plan stands.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StepState {
    /// What the plan calls it.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// `waiting`, `running`, or how it ended.
    pub status: String,
    /// Whether an edit may change it.
    pub editable: bool,
}

impl StepState {
    /// That of all of `steps`, those in groups included, each group before its members.
    pub fn all_of(steps: &[ShownStep]) -> Vec<Self> {
        let mut states = Vec::new();
        steps.iter().for_each(|step| Self::add(step, &mut states));
        states
    }

    fn add(step: &ShownStep, states: &mut Vec<Self>) {
        let status = match (&step.outcome, step.mark) {
            (Some(outcome), _) => outcome.clone(),
            (None, ' ') => "waiting".to_owned(),
            (None, _) => "running".to_owned(),
        };
        states.push(Self {
            id: step.slug.clone(),
            title: step.title.clone(),
            status,
            editable: step.is_open,
        });
        step.members.iter().for_each(|member| Self::add(member, states));
    }
}

/// One version of a plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PlanVersionShape {
    plan_version: u32,
    /// Since when it is the plan.
    timestamp: Timestamp,
    /// The person who changed the one before; empty if it is what the plan file says, or a model.
    by: String,
    /// Why a model took the task apart like this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    /// How it differs from the one before, if a person made it: steps by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    difference: Option<PlanDifference>,
    /// In the form in which plans are written.
    steps: Value,
    /// The same steps as people edit them.
    markdown: String,
}

impl PlanVersionShape {
    /// `version` as programs read it.
    pub(crate) fn of(version: PlanVersion) -> Self {
        Self {
            plan_version: version.version,
            timestamp: version.at,
            by: version.by,
            reason: version.reason,
            difference: version.difference,
            steps: version.steps.iter().map(|shown| json!(shown.step)).collect(),
            markdown: to_markdown(&version.steps),
        }
    }
}
