//! What the first call for a task that a model does costs, before anything else is known of the task (E9.10): whoever
//! does it has a model with a window and a price of its own.

use std::collections::BTreeMap;

use super::agent::{Equipment, ModelSpec, NamedExecutor, PlanMode, ToolScope};
use crate::event::SetAside;
use crate::plan::{Step, Work};
use crate::spend::{Amount, Spend};
use crate::talk::{ModelRole, Purpose};

/// The tokens that the first call for a task reads at least: a group for which not even these are left does not begin.
const TASK_TOKENS_MIN: u64 = 2_000;
/// The estimated tokens of a task in its first call, with what is known, besides what all requests have in common.
const TASK_TOKENS: u64 = 1_000;

/// What the first call for a task costs that names this executor, or none.
pub(super) type TaskCost<'c> = &'c dyn Fn(Option<&str>) -> Amount;

/// The costs of first calls, for each executor that does tasks.
#[derive(Debug, Default)]
pub(super) struct FirstCalls {
    /// Of tasks that the usual executor does.
    pub(super) usual: Spend,
    /// Of those that name another one.
    pub(super) named: BTreeMap<String, Spend>,
}

/// Tasks of models that have the same executor and the same tools.
#[derive(Debug, PartialEq)]
pub(super) struct TaskKind<'s> {
    executor: Option<&'s str>,
    scope: ToolScope,
}

impl FirstCalls {
    /// What the calls for tasks of these `kinds` may cost at least.
    pub(super) fn least(equipment: &Equipment, kinds: &[TaskKind<'_>]) -> Self {
        Self::with(equipment, kinds, |executor, _| least(equipment, executor))
    }

    /// What the calls for usual tasks of these `kinds` cost at most, with the rules and the tools that they read.
    pub(super) fn expected(equipment: &Equipment, kinds: &[TaskKind<'_>]) -> Self {
        Self::with(equipment, kinds, |executor, scopes| {
            expected(equipment, executor, scopes)
        })
    }

    fn with(
        equipment: &Equipment,
        kinds: &[TaskKind<'_>],
        cost: impl Fn(Option<&NamedExecutor>, &[&ToolScope]) -> Spend,
    ) -> Self {
        let scopes_of = |executor: Option<&str>| -> Vec<&ToolScope> {
            let same = kinds.iter().filter(|kind| kind.executor == executor);
            same.map(|kind| &kind.scope).collect()
        };
        let named = equipment.executors.iter().filter_map(|(name, executor)| {
            let scopes = scopes_of(Some(name));
            (!scopes.is_empty()).then(|| (name.clone(), cost(Some(executor), &scopes)))
        });
        Self {
            usual: cost(None, &scopes_of(None)),
            named: named.collect(),
        }
    }

    /// The cost for a task that names `executor`, or none.
    pub(super) fn of(&self, executor: Option<&str>) -> Amount {
        cost_for(executor, &self.usual, &self.named)
    }
}

impl SetAside {
    /// What is set aside for a task that names `executor`, or none.
    pub(super) fn for_task(&self, executor: Option<&str>) -> Amount {
        cost_for(executor, &self.task, &self.named)
    }
}

fn cost_for(executor: Option<&str>, usual: &Spend, named: &BTreeMap<String, Spend>) -> Amount {
    Amount::of(executor.and_then(|name| named.get(name)).unwrap_or(usual))
}

/// The kinds of the tasks of models in `steps`, where the tools in `around` may be used; one without an executor of its
/// own and with these tools if there is no such task.
pub(super) fn task_kinds<'s>(steps: impl IntoIterator<Item = &'s Step>, around: &ToolScope) -> Vec<TaskKind<'s>> {
    let mut kinds: Vec<TaskKind<'s>> = Vec::new();
    let mut rest: Vec<(&Step, ToolScope)> = steps.into_iter().map(|step| (step, around.clone())).collect();
    while let Some((step, around)) = rest.pop() {
        let scope = around.within(step.tools());
        let below = match step {
            Step::Task(task) => match &task.work {
                Work::Plan(plan) => &*plan.steps,
                Work::Model if task.needs_model() => {
                    let executor = task.executor.as_deref();
                    let kind = TaskKind { executor, scope };
                    if !kinds.contains(&kind) {
                        kinds.push(kind);
                    }
                    continue;
                }
                Work::Model | Work::Do(_) => &[],
            },
            Step::Parallel(_) | Step::Sequence(_) => step.members(),
            // What lists need is known only once they are.
            Step::ForEach(_) => &[],
        };
        rest.extend(below.iter().map(|step| (step, scope.clone())));
    }
    if kinds.is_empty() {
        kinds.push(TaskKind {
            executor: None,
            scope: around.clone(),
        });
    }
    kinds
}

/// The least that the first call for a task of `executor` may cost.
fn least(equipment: &Equipment, executor: Option<&NamedExecutor>) -> Spend {
    let cost = |role| {
        let model = equipment.model_of(executor, role);
        first_call(model, TASK_TOKENS_MIN.min(u64::from(model.window) / 2))
    };
    let work = cost(ModelRole::Executor);
    match is_decided_on(equipment, executor) {
        true => most_of(cost(ModelRole::Planner), work),
        false => work,
    }
}

/// The most that the first call for a usual task of `executor` costs, with the rules and the tools that it reads: those
/// in whichever of `scopes` has the most.
fn expected(equipment: &Equipment, executor: Option<&NamedExecutor>, scopes: &[&ToolScope]) -> Spend {
    let cost = |purpose: Purpose| {
        let model = equipment.model_of(executor, purpose.role());
        let room = u64::from(model.window.saturating_sub(model.first_answer_tokens()));
        let fixed = scopes
            .iter()
            .map(|scope| equipment.fixed_tokens(purpose, executor, scope));
        first_call(model, (fixed.max().unwrap_or_default() + TASK_TOKENS).min(room))
    };
    let work = most_of(cost(Purpose::Work), least(equipment, executor));
    match is_decided_on(equipment, executor) {
        true => most_of(cost(Purpose::Decide), work),
        false => work,
    }
}

/// Whether a model is asked how a task of `executor` is done before it is done: a program splits work by itself (E9.3).
fn is_decided_on(equipment: &Equipment, executor: Option<&NamedExecutor>) -> bool {
    let works_alone = |role| equipment.model_of(executor, role).program.is_some();
    match equipment.plan {
        PlanMode::Never => false,
        PlanMode::Auto => !works_alone(ModelRole::Executor),
        PlanMode::Always => !works_alone(ModelRole::Executor) || !works_alone(ModelRole::Planner),
    }
}

/// What a call of `model` may cost that reads so many tokens.
fn first_call(model: &ModelSpec, tokens_in: u64) -> Spend {
    model.priced(Spend {
        tokens_in,
        tokens_out: u64::from(model.first_answer_tokens()),
        model_calls: 1,
        ..Spend::default()
    })
}

/// The larger of each.
fn most_of(one: Spend, other: Spend) -> Spend {
    Spend {
        tokens_in: one.tokens_in.max(other.tokens_in),
        tokens_out: one.tokens_out.max(other.tokens_out),
        micro_usd: one.micro_usd.max(other.micro_usd),
        ..one
    }
}
