//! A task that a model does: its conversation, its stage, and how each event changes it (E9.3, E9.6 to E9.8, E9.13,
//! E9.14).
//!
//! - `progress`: the stage and the conversation of such a task; `apply`: how each event changes it
//! - `equipment`: what a run may ask models for
//! - `offer`: which tools a model is told about, and in how much detail; `tool_scope`: which it may use for a task
//! - `due`: what is due for such a task, by its stage; `ask`: the next model call; `verify`: the checks of its result
//! - `compact`: which part of the conversation is offloaded when it outgrows the model's window
//! - `briefing`: what it is told of memory; `prompt`: what a model reads; `rules`: its instructions; `task_block`: its
//!   task, and `filled`: the words of it; `digest`: what it reads of results, and `sizes`: how much of them; `detail`:
//!   which parts get smaller if there is no room for all; `schema`: the form of its answer; `fixed`: what many prompts
//!   have in common
//! - `read`: from a reply to the event that results; `decision`: a reply that decides or plans; `wanted_calls`: one
//!   that wants calls; `fields`: what its fields say
//! - `repair`: from a text to the JSON that was meant; `object`: which part of it is accepted
//! - `roll_up`: results that are too many to be read at once are combined in parts first
//! - `people`: criteria that a person checks; `facts`: what people answered
//! - `plan`: which plans of a model are carried out; `similar` and `evidence` are two of its tests
//! - `unfinished`: the notes of a task that was stopped before it was finished; `meanwhile`: what its conversation
//!   holds besides its calls
//! - `readers`: what later steps read of an output
//! - `rejected`: what the author of an unusable answer reads; `human`: what a person is asked to do
//! - `tool_text`: what a built-in tool answered, in words
//! - `answer`: from the outcome of a call to the event that records it; `calls`: calls that ended, or whose end nobody
//!   saw

mod answer;
mod apply;
mod ask;
mod briefing;
mod calls;
mod compact;
mod decision;
mod detail;
mod digest;
mod due;
mod equipment;
mod evidence;
mod facts;
mod fields;
mod filled;
mod fixed;
mod human;
mod meanwhile;
mod object;
mod offer;
mod people;
mod plan;
mod progress;
mod prompt;
mod read;
mod readers;
mod rejected;
pub mod repair;
mod roll_up;
mod rules;
mod schema;
mod similar;
mod sizes;
mod stuck;
mod task_block;
mod tool_scope;
mod tool_text;
mod unfinished;
pub(super) mod verify;
mod wanted_calls;

use std::sync::Arc;

use serde_json::Value;

pub use answer::{FailedCallUsage, ModelAnswer, ModelFailure, ModelFailureKind};
pub use ask::AskAction;
pub(super) use ask::PRICE_UNKNOWN;
pub use compact::{COMPACTOR_CALLS, CompactAction};
pub use equipment::{AgentProgram, Equipment, Judging, ModelSpec, NamedExecutor, PlanMode, Price};
pub(super) use facts::{DEFAULT, Facts};
pub use fixed::FixedCosts;
pub use offer::OfferedTools;
use progress::TalkEntry;
pub(super) use progress::{Agent, Stage, Tally};
pub use schema::EXECUTOR_TOOLS;
pub(super) use tool_scope::ToolScope;

use super::state::{JournalError, Run};
use crate::node::{Move, NodeId, NodeState};
use crate::plan::{Criterion, Slug, Step, Task};

/// How often a model is told what is wrong with its answer before a rule decides instead (E9.13).
const REJECTIONS_MAX: u32 = 2;
/// How often a leaf is sent back, told what is missing (E9.8).
const SENT_BACK_MAX: u32 = 1;

impl Run {
    /// The task of node `index`, if a model does it: its own, or the goal of the run.
    pub(super) fn task_of_model(&self, index: usize) -> Arc<Task> {
        match &self.nodes[index].step {
            Some(Step::Task(task)) => Arc::clone(task),
            _ => Arc::new(Task {
                title: self.plan.title.clone(),
                description: self.goal.clone(),
                criteria: self.plan.criteria.clone(),
                ..Task::new(Slug::of("goal"))
            }),
        }
    }

    pub(super) fn agent(&self, index: usize) -> Option<&Agent> {
        self.nodes[index].agent.as_deref()
    }

    fn agent_at(&mut self, id: NodeId, event: &'static str) -> Result<(usize, &mut Agent), JournalError> {
        let index = self.index(id)?;
        let node = &mut self.nodes[index];
        let state = node.state.as_str();
        match node.agent.as_deref_mut() {
            Some(agent) => Ok((index, agent)),
            None => Err(JournalError::Transition { node: id, state, event }),
        }
    }

    /// Moves node `id` along the table, if a model does it or its result is checked in the same way; otherwise changes
    /// nothing.
    fn agent_steps_to(&mut self, id: NodeId, by: Move, event: &'static str) -> Result<usize, JournalError> {
        self.agent_at(id, event)?;
        self.step_to(id, by)
    }

    /// The criteria of a node's task.
    pub(super) fn criteria_of(&self, index: usize) -> Vec<Criterion> {
        match self.agent(index) {
            Some(agent) => agent.task.criteria.clone(),
            None => self.task_of_model(index).criteria.clone(),
        }
    }

    /// Drops the state of a task that a model did and that has ended.
    pub(super) fn agent_ended(&mut self, index: usize) {
        self.orphan_call(index);
        self.unanswered.remove(&index);
        self.nodes[index].tally = self.tally(index);
        self.nodes[index].agent = None;
    }

    /// The counts of whoever does, or did, node `index`; `None` if nobody was asked for it.
    pub(super) fn tally(&self, index: usize) -> Option<Tally> {
        let of_agent = |agent: &Agent| Tally {
            calls: agent.calls,
            repeated: agent.repeated,
            handed: agent.handed,
            sent_back: agent.sent_back,
        };
        self.agent(index).map(of_agent).or(self.nodes[index].tally)
    }

    /// Notes that a child of a task that a model does has ended.
    pub(super) fn child_of_agent_ended(&mut self, parent: usize) {
        let node = &self.nodes[parent];
        if node.children_left > 0 || node.cancel.is_some() {
            return;
        }
        if matches!(node.state, NodeState::Executing | NodeState::RunningChildren) {
            self.make_ready(parent);
        }
    }
}

/// The steps of a plan as they were recorded.
pub(in crate::run) fn read_steps(steps: &Value) -> Result<Vec<Step>, JournalError> {
    let plan = serde_json::json!({"version": crate::plan::PLAN_VERSION, "title": "plan", "steps": steps});
    let plan: crate::plan::Plan =
        serde_json::from_value(plan).map_err(|error| JournalError::Plan(error.to_string()))?;
    Ok(plan.steps)
}
