//! What the steps that are still to come need of the process that drives a run.

use std::collections::BTreeSet;

use super::state::Run;
use crate::plan::{Check, Criterion, HUMAN, Plan, Step, Task, Work, tasks_of};

/// What the steps of a run without a result need of the process that drives it. A process that lacks some of it can
/// only fail these steps; another one may be able to do them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// The tools that tasks call.
    pub tools: BTreeSet<String>,
    /// The executors that tasks for models name, without people.
    pub executors: BTreeSet<String>,
    /// The tasks that need a model, by name; without a plan, that is the goal.
    pub models: BTreeSet<String>,
    /// Whether a criterion is judged by a model.
    pub judge: bool,
}

impl Needs {
    /// What the tasks that are written out in `plan` need.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Self {
        let mut needs = Self::default();
        if plan.steps.is_empty() {
            needs.add_goal();
        }
        needs.add_steps(&plan.steps);
        needs.add_criteria(&plan.criteria);
        needs
    }

    /// Whether part of it cannot be done or verified without a model.
    #[must_use]
    pub fn asks_model(&self) -> bool {
        self.judge || !self.models.is_empty()
    }

    fn add_criteria(&mut self, criteria: &[Criterion]) {
        self.judge |= criteria.iter().any(|one| one.check == Check::Judge);
    }

    fn add_goal(&mut self) {
        self.models.insert("the goal".to_owned());
    }

    fn add_task(&mut self, task: &Task) {
        if task.needs_model() {
            self.models.insert(task.id.to_string());
        }
        self.add_criteria(&task.criteria);
        match &task.work {
            Work::Do(call) => {
                self.tools.insert(call.tool.clone());
            }
            Work::Model => {
                self.executors
                    .extend(task.executor.iter().filter(|name| *name != HUMAN).cloned());
            }
            Work::Plan(_) => {}
        }
    }

    /// Adds what `steps` and everything written out below them need.
    fn add_steps(&mut self, steps: &[Step]) {
        for task in tasks_of(steps) {
            self.add_task(task);
        }
    }
}

impl Run {
    /// What the steps without a result need of the process that drives the run; nothing if it has ended or is being
    /// cancelled. Each node is looked at once.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        let Some(root) = self.nodes.first() else {
            return needs;
        };
        if root.is_terminal() || root.cancel.is_some() {
            return needs;
        }
        needs.add_criteria(&self.plan().criteria);
        if root.children.is_empty() {
            needs.add_steps(&self.plan().steps);
        }
        let is_to_come = |index: &usize| {
            let node = &self.nodes[*index];
            !node.is_terminal() && node.cancel.is_none() && !node.superseded
        };
        let mut stack: Vec<usize> = root.children.iter().copied().filter(is_to_come).collect();
        while let Some(index) = stack.pop() {
            let node = &self.nodes[index];
            match &node.step {
                // What it consists of has nodes of its own once it has begun.
                Some(Step::Task(task)) if !node.children.is_empty() => needs.add_task(task),
                Some(Step::Parallel(_) | Step::Sequence(_)) if !node.children.is_empty() => {}
                Some(step) => needs.add_steps(std::slice::from_ref(step)),
                None => {}
            }
            stack.extend(node.children.iter().copied().filter(is_to_come));
        }
        // The steps of a goal are what its model made of it.
        if self.plan().steps.is_empty() {
            needs.models.clear();
            needs.add_goal();
        }
        needs
    }
}
