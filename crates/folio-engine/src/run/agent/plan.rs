//! Which plans of a model are carried out (E9.1, E9.3): what is wrong with one, and what makes it none.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::repair::too_deep_to_keep;
use super::similar::likeness;
use crate::node::NodeId;
use crate::plan::{self, Graph, GraphNode, Known, Slug, Step, Task, Work};
use crate::run::state::Run;
use crate::run::tree::NodeKind;

/// Steps of a model's plan, unless the plan around it says otherwise (E9.10).
const CHILDREN_DEFAULT: u32 = 12;
/// A step that is more like its task than this says the task again.
const LIKENESS_MAX: f64 = 0.8;

/// What a model's plan comes to.
pub(super) enum Draft {
    /// It can be carried out: the steps as they are recorded.
    Good(Value),
    /// It is none, and the task is done directly: which rule says so, and why.
    Pointless(&'static str, String),
    /// It is wrong: everything that is.
    Wrong(Vec<String>),
    /// It was tried before.
    Again,
}

impl Run {
    /// Looks at the steps that a model wants node `index` to be taken apart into. `kept` are steps of earlier plans whose
    /// results still count.
    pub(super) fn draft_plan(&self, index: usize, steps: &Value, kept: &[usize]) -> Draft {
        let Some(items) = steps.as_array().filter(|items| !items.is_empty()) else {
            return Draft::Wrong(vec!["steps is not a list with at least one step".to_owned()]);
        };
        let written = json!({"version": plan::PLAN_VERSION, "title": "plan", "steps": items});
        let known = self.known_to_model(index, kept);
        let plan = match plan::from_value(&written, &known) {
            Ok(plan) => plan,
            Err(errors) => {
                let words = |error: &plan::PlanError| {
                    let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                    format!("{}: {}{hint}", error.path, error.message)
                };
                return Draft::Wrong(errors.0.iter().map(words).collect());
            }
        };
        if plan.steps.len() > known.limits.children as usize {
            return Draft::Wrong(vec![format!(
                "steps has {}, more than the {} that a plan may have; put together what belongs together, each with steps of its own",
                plan.steps.len(),
                known.limits.children
            )]);
        }
        // The same plan again is no other one, whatever became of its steps (E9.8).
        let hash = plan::hash_of(&plan.steps);
        let is_plan_of = |at: usize| {
            let versions = self.agent(at).map_or(&[][..], |agent| &agent.versions);
            versions.iter().any(|version| version.hashes.contains(&hash))
        };
        if is_plan_of(index) || self.is_rest_of_version(index, &plan.steps, kept) {
            return Draft::Again;
        }
        let kept_names = &known.before;
        let graph = Graph::of(&plan.steps);
        let is_kept = |node: &&GraphNode| node.step.id().is_some_and(|id| kept_names.contains(id.as_str()));
        let taken: Vec<String> = graph.nodes.iter().filter(is_kept).map(taken).collect();
        if !taken.is_empty() {
            return Draft::Wrong(taken);
        }
        let new = plan::count_nodes(&plan.steps) as usize;
        if let Some((used, limit)) = self.over_nodes_by(index, new) {
            return Draft::Wrong(vec![format!(
                "{new} more steps beside {used} are more than the budget of {limit}; make fewer"
            )]);
        }
        let mut tasks = Vec::new();
        collect_tasks(&plan.steps, &mut tasks);
        // A group around it makes no more of it; but what is done for each of a list is more than one, and one other step after a plan
        // that failed is not the task.
        let is_first = self.agent(index).is_none_or(|agent| agent.versions.is_empty());
        let is_one = is_first && matches!(tasks.as_slice(), [task] if !matches!(task.work, Work::Plan(_)));
        if kept.is_empty() && is_one && !has_list(&plan.steps) {
            return Draft::Pointless("one_step", "a plan of one step is the task itself".to_owned());
        }
        if let Ok((title, description)) = self.words_of(index) {
            let own = format!("{title} {description}");
            let says_it_again = |task: &&&Task| {
                let alike =
                    |words: &str| likeness(words, &own) > LIKENESS_MAX || likeness(words, &title) > LIKENESS_MAX;
                alike(&format!("{} {}", task.title, task.description)) || alike(&task.title)
            };
            if let Some(task) = tasks.iter().find(says_it_again) {
                return Draft::Pointless("says_it_again", format!("the step {} is the task itself", task.id));
            }
        }
        if self.and_around(index).any(is_plan_of) {
            return Draft::Pointless("plan_again", "a task around it has the same plan".to_owned());
        }
        let steps = json!(beside(kept_names, &graph, plan.steps));
        match too_deep_to_keep(&steps) {
            None => Draft::Good(steps),
            Some(problem) => Draft::Wrong(vec![problem]),
        }
    }

    /// What a model's plan is checked against.
    fn known_to_model(&self, index: usize, kept: &[usize]) -> Known {
        let known = self
            .equipment
            .as_ref()
            .map(|equipment| equipment.known.clone())
            .unwrap_or_default();
        let children = self
            .plan
            .budget
            .children
            .unwrap_or(CHILDREN_DEFAULT)
            .min(self.least_around(index, self.limits.children_max, |budget| budget.children));
        let criteria = self.criteria_of(index);
        let met = self.agent(index).map(super::Agent::met).unwrap_or_default();
        let open = criteria.iter().filter(|open| open.required && !met.contains(&open.id));
        let (level, deepest) = self.plan_level(index, self.deepest_of_models());
        Known {
            limits: plan::Limits {
                children,
                steps: children.saturating_mul(4),
                // It is on `level` itself.
                depth: deepest.saturating_add(1).saturating_sub(level).max(1),
                ..known.limits
            },
            without_person: self
                .equipment
                .as_ref()
                .is_none_or(|equipment| equipment.human.is_none()),
            before: kept.iter().map(|index| self.view(*index).slug().to_owned()).collect(),
            criteria: criteria.iter().map(|criterion| criterion.id.clone()).collect(),
            to_meet: Some(open.map(|open| (open.id.clone(), open.text.clone())).collect()),
            ..known
        }
    }

    /// The steps of node `index` that ended well and stay when it plans anew, without those that are named in `dropped`. Of a group that did
    /// not, what is in it and did (E9.8).
    pub(super) fn kept_steps(&self, index: usize, dropped: &[String]) -> Vec<usize> {
        let mut rest: Vec<usize> = self.members(index).collect();
        rest.reverse();
        let mut kept = Vec::new();
        while let Some(member) = rest.pop() {
            let node = &self.nodes[member];
            if self.names_of(member).iter().any(|name| dropped.contains(name)) {
                continue;
            }
            match node.kind {
                _ if node.is_ok() => kept.push(member),
                NodeKind::Parallel | NodeKind::Sequence => rest.extend(node.children.iter().rev()),
                _ => {}
            }
        }
        kept
    }

    /// The steps of the plan that node `index` has, those that it kept of the versions before it included.
    pub(in crate::run) fn whole_plan(&self, index: usize) -> Vec<Step> {
        let steps = self.steps_shown(index).filter_map(|at| self.nodes[at].step.as_ref());
        steps.map(Step::unnamed).collect()
    }

    /// Whether `steps` and those that are `kept` are a version of the plan that node `index` had: whoever plans anew writes only what is not ok,
    /// and if that is word for word what it was, nothing is different. A list that is written again is: of its items only what did not go
    /// well is done.
    fn is_rest_of_version(&self, index: usize, steps: &[Step], kept: &[usize]) -> bool {
        let kept: Vec<Step> = kept
            .iter()
            .filter_map(|at| self.nodes[*at].step.as_ref())
            .map(Step::unnamed)
            .collect();
        let new = without(steps, &mut Vec::new());
        let is_rest = |whole: &Vec<Step>| {
            let mut left = kept.clone();
            without(whole, &mut left) == new && left.is_empty()
        };
        let versions = self.agent(index).map_or(&[][..], |agent| &agent.versions);
        !has_list(steps) && versions.iter().flat_map(|version| &version.wholes).any(is_rest)
    }

    /// How node `index` may be named by whoever plans: its slug, its path, its id.
    pub(super) fn names_of(&self, index: usize) -> [String; 3] {
        let view = self.view(index);
        [view.slug(), view.path, &*self.nodes[index].id.to_string()].map(str::to_owned)
    }

    pub(super) fn ids_of(&self, indices: &[usize]) -> Vec<NodeId> {
        indices.iter().map(|index| self.nodes[*index].id).collect()
    }
}

/// That a step has the name of one that stays.
fn taken(node: &GraphNode) -> String {
    format!(
        "the id `{}` is that of a step that is kept: choose another, or name it in `drop`",
        node.slug
    )
}

/// `steps` as they stand beside those that are kept: a group or a sequence without a name goes by its place in the plan, and gets another where
/// `kept` has that already.
fn beside(kept: &BTreeSet<String>, graph: &Graph, steps: Vec<Step>) -> Vec<Step> {
    let slugs: Vec<Slug> = graph.roots().map(|root| graph.nodes[root].slug.clone()).collect();
    let named = |(step, slug): (Step, Slug)| {
        if step.id().is_some() || !kept.contains(slug.as_str()) {
            return step;
        }
        let mut others = (2..).map(|n| Slug::of(&format!("{slug}v{n}")));
        let free = others.find(|name| !kept.contains(name.as_str()));
        let members = step.members().to_vec();
        step.named(&free.unwrap_or(slug), members)
    };
    steps.into_iter().zip(slugs).map(named).collect()
}

/// `steps` without those of `kept`, which are taken out of it as they are found. What is left of a group without a name is no group any more if
/// it is one step.
fn without(steps: &[Step], kept: &mut Vec<Step>) -> Vec<Step> {
    let mut rest = Vec::with_capacity(steps.len());
    for step in steps {
        let step = step.unnamed();
        if let Some(at) = kept.iter().position(|kept| *kept == step) {
            kept.swap_remove(at);
            continue;
        }
        if step.members().is_empty() {
            rest.push(step);
            continue;
        }
        let mut members = without(step.members(), kept);
        match members.len() {
            0 => {}
            1 if step.id().is_none() => rest.append(&mut members),
            _ => rest.push(step.with_members(members)),
        }
    }
    rest
}

/// Whether something in it is done for each item of a list.
fn has_list(steps: &[Step]) -> bool {
    let is_one = |step: &Step| matches!(step, Step::ForEach(_));
    steps.iter().any(|step| is_one(step) || has_list(step.members()))
}

fn collect_tasks<'s>(steps: &'s [Step], into: &mut Vec<&'s Task>) {
    for step in steps {
        match step {
            Step::Task(task) => into.push(task),
            Step::Parallel(group) => collect_tasks(&group.steps, into),
            Step::Sequence(sequence) => collect_tasks(&sequence.steps, into),
            Step::ForEach(for_each) => collect_tasks(std::slice::from_ref(&for_each.body), into),
        }
    }
}
