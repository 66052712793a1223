//! The states of a plan's steps, and the versions of a plan.

use folio::Timestamp;
use folio::engine::event::PlanDifference;
use folio::engine::plan::{PlanError, ShownStep, to_markdown};
use folio::engine::run::PlanVersion;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Returns a mistake in a plan as JSON: line and column counted from 1, the path in the plan, code, message and hint.
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

/// The state of one step of a plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StepState {
    /// The id (slug) of the step in the plan.
    pub id: String,
    /// The title of the step, one line for people.
    pub title: String,
    /// `waiting`, `running`, `waiting_input` or `awaiting_approval` if a person is asked, `superseded` if another plan
    /// replaced it, or the outcome.
    pub status: String,
    /// Whether an edit may change it.
    pub editable: bool,
}

impl StepState {
    /// Returns the states of all `steps`, including those in groups; a group comes before its members.
    pub fn all_of(steps: &[ShownStep]) -> Vec<Self> {
        let mut states = Vec::new();
        steps.iter().for_each(|step| Self::add(step, &mut states));
        states
    }

    fn add(step: &ShownStep, states: &mut Vec<Self>) {
        states.push(Self {
            id: step.slug.clone(),
            title: step.title.clone(),
            status: step.status.to_owned(),
            editable: step.is_open,
        });
        step.members.iter().for_each(|member| Self::add(member, states));
    }
}

/// One version of a plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PlanVersionShape {
    plan_version: u32,
    /// When this version became the plan.
    timestamp: Timestamp,
    /// The person who made this version by editing; empty if it comes from the plan file or a model.
    by: String,
    /// The reason that a model gave for this plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    /// The differences from the version before, if a person made this one: the names of the steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    difference: Option<PlanDifference>,
    /// Who rejected it, and why, if somebody did: its steps never began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rejected: Option<RejectionShape>,
    /// The steps in the plan format.
    steps: Value,
    /// The same steps as markdown, the form for editing.
    markdown: String,
}

/// A person's no to a plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct RejectionShape {
    by: String,
    /// Why it was rejected; empty if the person did not say.
    reason: String,
}

impl PlanVersionShape {
    /// Returns `version` in its wire form.
    pub(crate) fn of(version: PlanVersion) -> Self {
        Self {
            plan_version: version.version,
            timestamp: version.at,
            by: version.by,
            reason: version.reason,
            difference: version.difference,
            rejected: version.rejected.map(|(by, reason)| RejectionShape { by, reason }),
            steps: version.steps.iter().map(|shown| json!(shown.step)).collect(),
            markdown: to_markdown(&version.steps),
        }
    }
}
