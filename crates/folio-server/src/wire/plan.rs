//! How the steps of a plan stand.

use folio::engine::plan::ShownStep;
use schemars::JsonSchema;
use serde::Serialize;

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
