//! Which plans of a model are carried out (E9.1, E9.3): what is wrong with a plan, and what makes it pointless.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Equipment;
use super::repair::too_deep_to_keep;
use super::similar::likeness;
use crate::node::NodeId;
use crate::plan::{self, Graph, GraphNode, Known, Slug, Step, Task, Work};
use crate::run::state::Run;
use crate::run::tree::NodeKind;
use crate::template::Breaks;

/// The default for the most steps of a model's plan (E9.10).
const CHILDREN_DEFAULT: u32 = 12;
/// A step whose text is more similar to its task than this only repeats the task.
const LIKENESS_MAX: f64 = 0.8;

/// The outcome of checking a model's plan.
pub(super) enum Draft {
    /// The plan can be carried out: its steps as they are recorded.
    Good(Value),
    /// The plan is pointless, and the task is done directly: the rule that says so, and why.
    Pointless(&'static str, String),
    /// The plan has these mistakes.
    Wrong(Vec<String>),
    /// The plan has more steps than the budget of nodes has room for, as this says.
    TooLarge(String),
    /// The plan was tried before.
    Again,
}

impl Run {
    /// Checks the steps into which a model wants to split node `index`. `kept` are steps of earlier plans whose results
    /// still count.
    pub(super) fn draft_plan(&self, index: usize, steps: &Value, kept: &[usize]) -> Draft {
        let Some(items) = steps.as_array().filter(|items| !items.is_empty()) else {
            return Draft::Wrong(vec!["steps must be a list with at least one step".to_owned()]);
        };
        let draft = json!({"version": plan::PLAN_VERSION, "title": "plan", "steps": items});
        let known = self.known_to_model(index, kept);
        let plan = match plan::from_value(&draft, &known) {
            Ok(plan) => plan,
            Err(errors) => return Draft::Wrong(errors.in_words()),
        };
        // A model that writes the whole plan again means the steps that are kept (E9.8).
        if let Some(rest) = self.without_kept(&plan.steps, kept) {
            return if rest.is_empty() {
                Draft::Again
            } else {
                self.draft_plan(index, &json!(rest), kept)
            };
        }
        if plan.steps.len() > known.limits.children as usize {
            return Draft::Wrong(vec![format!(
                "steps has {}, more than the limit of {} for one plan; group related steps into steps with plans of their own",
                plan.steps.len(),
                known.limits.children
            )]);
        }
        // The same plan again is not another one, whatever happened to its steps (E9.8).
        let hash = plan::hash_of(&plan.steps);
        let is_plan_of = |at: usize| {
            let versions = self.agent(at).map_or(&[][..], |agent| &agent.versions);
            versions.iter().any(|version| version.hashes.contains(&hash))
        };
        if is_plan_of(index) || self.is_rest_of_version(index, &plan.steps, kept) {
            return Draft::Again;
        }
        let kept_names = &self.slugs_of(kept);
        let graph = Graph::of(&plan.steps);
        let is_kept = |node: &&GraphNode| node.step.id().is_some_and(|id| kept_names.contains(id.as_str()));
        let conflicts: Vec<String> = graph.nodes.iter().filter(is_kept).map(id_taken_message).collect();
        if !conflicts.is_empty() {
            return Draft::Wrong(conflicts);
        }
        let new = plan::count_nodes(&plan.steps) as usize;
        if let Some((used, limit)) = self.over_nodes_by(index, new) {
            return Draft::TooLarge(format!(
                "{new} more steps in addition to {used} exceed the budget of {limit}"
            ));
        }
        if let Some(pointless) = self.repeats_task(index, &plan.steps, kept) {
            return pointless;
        }
        if self.self_and_ancestors(index).any(is_plan_of) {
            return Draft::Pointless("plan_again", "a parent task has the same plan".to_owned());
        }
        let steps = json!(rename_clashing_groups(kept_names, &graph, plan.steps));
        match too_deep_to_keep(&steps) {
            None => Draft::Good(steps),
            Some(problem) => Draft::Wrong(vec![problem]),
        }
    }

    /// Whether `steps` only say once more what the task of node `index` is.
    fn repeats_task(&self, index: usize, steps: &[Step], kept: &[usize]) -> Option<Draft> {
        let mut tasks = Vec::new();
        collect_tasks(steps, &mut tasks);
        // A group around a single step makes it no more than one; but the body of a list counts as more than one, and a
        // single other step after a failed plan is not the task itself.
        let is_first = self.agent(index).is_none_or(|agent| agent.versions.is_empty());
        let is_single_task = is_first && matches!(tasks.as_slice(), [task] if !matches!(task.work, Work::Plan(_)));
        if kept.is_empty() && is_single_task && !has_list(steps) {
            return Some(Draft::Pointless(
                "one_step",
                "a plan of one step only repeats the task".to_owned(),
            ));
        }
        if let Ok((title, description)) = self.words_of(index, Breaks::Kept) {
            let own = format!("{title} {description}");
            let says_it_again = |task: &&&Task| {
                let alike =
                    |words: &str| likeness(words, &own) > LIKENESS_MAX || likeness(words, &title) > LIKENESS_MAX;
                alike(&format!("{} {}", task.title, task.description)) || alike(&task.title)
            };
            if let Some(task) = tasks.iter().find(says_it_again) {
                return Some(Draft::Pointless(
                    "says_it_again",
                    format!("the step {} only repeats the task", task.id),
                ));
            }
        }
        None
    }

    /// The limits of a plan that a model makes for node `index`.
    pub(super) fn limits_of_plan(&self, index: usize) -> plan::Limits {
        let known = self.equipment.as_ref().map(|equipment| equipment.known.limits.clone());
        let children = self
            .plan
            .budget
            .children
            .unwrap_or(CHILDREN_DEFAULT)
            .min(self.least_around(index, self.limits.children_max, |budget| budget.children));
        let (level, max_level) = self.plan_level(index, self.deepest_of_models());
        plan::Limits {
            children,
            steps: children.saturating_mul(4),
            // The plan itself is on `level`.
            depth: max_level.saturating_add(1).saturating_sub(level).max(1),
            ..known.unwrap_or_default()
        }
    }

    /// What a model's plan is checked against.
    fn known_to_model(&self, index: usize, kept: &[usize]) -> Known {
        let known = self
            .equipment
            .as_ref()
            .map(|equipment| equipment.known.clone())
            .unwrap_or_default();
        let criteria = self.criteria_of(index);
        let met = self.agent(index).map(super::Agent::met).unwrap_or_default();
        let open = criteria.iter().filter(|open| open.required && !met.contains(&open.id));
        Known {
            limits: self.limits_of_plan(index),
            without_person: self
                .equipment
                .as_ref()
                .is_none_or(|equipment| equipment.human.is_none()),
            before: self.slugs_of(&self.with_members(kept)),
            criteria: criteria.iter().map(|criterion| criterion.id.clone()).collect(),
            to_meet: Some(open.map(|open| (open.id.clone(), open.text.clone())).collect()),
            programs: self.equipment.as_deref().map(Equipment::programs).unwrap_or_default(),
            tools_around: self.tool_scope(index).into_lists(),
            ..known
        }
    }

    /// The steps of node `index` that succeeded and stay when it plans anew, without those named in `dropped`. For a
    /// group that did not succeed, the members that did (E9.8).
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

    /// `kept` with the members of those that are groups behind each: a plan may name these, too.
    pub(in crate::run) fn with_members(&self, kept: &[usize]) -> Vec<usize> {
        let mut all = Vec::with_capacity(kept.len());
        let mut rest: Vec<usize> = kept.iter().rev().copied().collect();
        while let Some(at) = rest.pop() {
            all.push(at);
            if self.nodes[at].kind.is_group() {
                rest.extend(self.nodes[at].children.iter().rev());
            }
        }
        all
    }

    fn slugs_of(&self, indices: &[usize]) -> BTreeSet<String> {
        indices
            .iter()
            .map(|index| self.view(*index).slug().to_owned())
            .collect()
    }

    /// The steps of the current plan of node `index`, including those kept from earlier versions.
    pub(in crate::run) fn whole_plan(&self, index: usize) -> Vec<Step> {
        let steps = self.steps_shown(index).filter_map(|at| self.nodes[at].step.as_ref());
        steps.map(Step::without_generated_ids).collect()
    }

    /// `steps` without those that are `kept` and written again word for word under the same id; `None` if none is.
    fn without_kept(&self, steps: &[Step], kept: &[usize]) -> Option<Vec<Step>> {
        let kept = kept.iter().filter_map(|at| self.nodes[*at].step.as_ref());
        let named = kept.filter(|step| step.id().is_some());
        let mut named: Vec<Step> = named.map(Step::without_generated_ids).collect();
        let all = named.len();
        let rest = remove_kept_steps(steps, &mut named);
        (named.len() < all).then_some(rest)
    }

    /// Whether `steps` together with the `kept` ones are a version of the plan that node `index` had: a model that
    /// plans anew writes only what is not ok, and if that is word for word the same, nothing has changed. A list that
    /// is written again is a change: only those of its items are done that did not succeed.
    fn is_rest_of_version(&self, index: usize, steps: &[Step], kept: &[usize]) -> bool {
        let kept: Vec<Step> = kept
            .iter()
            .filter_map(|at| self.nodes[*at].step.as_ref())
            .map(Step::without_generated_ids)
            .collect();
        let new = remove_kept_steps(steps, &mut Vec::new());
        let is_rest = |whole: &Vec<Step>| {
            let mut left = kept.clone();
            remove_kept_steps(whole, &mut left) == new && left.is_empty()
        };
        let versions = self.agent(index).map_or(&[][..], |agent| &agent.versions);
        !has_list(steps) && versions.iter().flat_map(|version| &version.wholes).any(is_rest)
    }

    /// The names that a model may use for node `index`: its slug, its path, its id.
    pub(super) fn names_of(&self, index: usize) -> [String; 3] {
        let view = self.view(index);
        [view.slug(), view.path, &*self.nodes[index].id.to_string()].map(str::to_owned)
    }

    pub(super) fn ids_of(&self, indices: &[usize]) -> Vec<NodeId> {
        indices.iter().map(|index| self.nodes[*index].id).collect()
    }
}

/// The message that a step has the id of a step that is kept.
fn id_taken_message(node: &GraphNode) -> String {
    format!(
        "the id `{}` belongs to a step that is kept: choose another, or list it in `drop`",
        node.slug
    )
}

/// `steps` as they go beside the kept ones: an unnamed group or sequence is named by its place in the plan, and gets
/// another name if `kept` contains that one.
fn rename_clashing_groups(kept: &BTreeSet<String>, graph: &Graph, steps: Vec<Step>) -> Vec<Step> {
    let slugs: Vec<Slug> = graph.roots().map(|root| graph.nodes[root].slug.clone()).collect();
    let with_free_name = |(step, slug): (Step, Slug)| {
        if step.id().is_some() || !kept.contains(slug.as_str()) {
            return step;
        }
        let mut others = (2..).map(|n| Slug::of(&format!("{slug}v{n}")));
        let free = others.find(|name| !kept.contains(name.as_str()));
        let members = step.members().to_vec();
        step.named(&free.unwrap_or(slug), members)
    };
    steps.into_iter().zip(slugs).map(with_free_name).collect()
}

/// `steps` without those in `kept`, which are removed from it as they are found. If a single step is left of an unnamed
/// group, that step replaces the group.
fn remove_kept_steps(steps: &[Step], kept: &mut Vec<Step>) -> Vec<Step> {
    let mut rest = Vec::with_capacity(steps.len());
    for step in steps {
        let step = step.without_generated_ids();
        if let Some(at) = kept.iter().position(|kept| *kept == step) {
            kept.swap_remove(at);
            continue;
        }
        if step.members().is_empty() {
            rest.push(step);
            continue;
        }
        let mut members = remove_kept_steps(step.members(), kept);
        match members.len() {
            0 => {}
            1 if step.id().is_none() => rest.append(&mut members),
            _ => rest.push(step.with_members(members)),
        }
    }
    rest
}

/// Whether something in `steps` is done for each item of a list.
fn has_list(steps: &[Step]) -> bool {
    let is_for_each = |step: &Step| matches!(step, Step::ForEach(_));
    steps.iter().any(|step| is_for_each(step) || has_list(step.members()))
}

fn collect_tasks<'s>(steps: &'s [Step], tasks: &mut Vec<&'s Task>) {
    for step in steps {
        match step {
            Step::Task(task) => tasks.push(task),
            Step::Parallel(group) => collect_tasks(&group.steps, tasks),
            Step::Sequence(sequence) => collect_tasks(&sequence.steps, tasks),
            Step::ForEach(for_each) => collect_tasks(std::slice::from_ref(&for_each.body), tasks),
        }
    }
}
