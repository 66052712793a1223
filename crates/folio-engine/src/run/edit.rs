//! How people change a plan during its run (E9.1, E9.14): what may be changed, and the event that results.
//!
//! An edit lists every step, including those that stay. Steps that have begun cannot change; others may be changed,
//! dropped and moved. A step that is the same in both versions keeps its node; a changed step is another node.

use std::sync::Arc;

use folio_memory::counted::counted;
use serde_json::{Value, json};

use super::state::Run;
use super::tree::NodeKind;
use crate::event::{Event, PlanDifference};
use crate::node::{NodeId, NodeState};
use crate::plan::{self, EditTarget, Graph, Known, Part, PlanErrors, ShownStep, Step};
use crate::template::Scope;

/// Why an edit of a plan was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// There is no such node, or it has no plan.
    #[error("{path} has no plan that is being carried out")]
    NoPlan {
        /// The path of the node.
        path: String,
    },
    /// The node has ended, or is being stopped.
    #[error("{path} has ended, or is being stopped; its plan cannot be edited any more")]
    Ended {
        /// The path of the node.
        path: String,
    },
    /// The edit is based on another version.
    #[error("the plan of {path} has version {current}, but the edit {}", of_version(*given))]
    Stale {
        /// The path of the node.
        path: String,
        /// The current version of the plan.
        current: u32,
        /// The version that the edit is based on, if it says.
        given: Option<u32>,
    },
    /// The edit changes or drops steps that have begun.
    #[error("steps that have begun cannot be edited: {}", in_words(steps))]
    ReadOnly {
        /// Each of these steps, and what the edit does to it: `changed` or `dropped`.
        steps: Vec<(String, &'static str)>,
    },
    /// The edited plan has mistakes.
    #[error("the edited plan has mistakes")]
    Mistakes(PlanErrors),
    /// With the steps that the edit adds, there are more nodes than are allowed.
    #[error(
        "{} and {} exceed the limit of {}",
        counted(*more as u64, "added step"),
        counted(*used as u64, "existing node"),
        counted(u64::from(*limit), "node")
    )]
    OverNodes {
        /// The number of steps that the edit adds.
        more: usize,
        /// The number of nodes so far.
        used: usize,
        /// The most nodes allowed.
        limit: u32,
    },
}

impl EditError {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoPlan { .. } => "no_plan",
            Self::Ended { .. } => "run_ended",
            Self::Stale { .. } => "plan_stale",
            Self::ReadOnly { .. } => "step_begun",
            Self::Mistakes(_) => "plan_invalid",
            Self::OverNodes { .. } => "plan_too_large",
        }
    }
}

fn of_version(version: Option<u32>) -> String {
    version.map_or_else(
        || "does not say which version it is based on".to_owned(),
        |version| format!("is based on version {version}"),
    )
}

fn in_words(steps: &[(String, &'static str)]) -> String {
    let phrases: Vec<String> = steps
        .iter()
        .map(|(slug, change)| format!("{slug} would be {change}"))
        .collect();
    phrases.join(", ")
}

impl Run {
    /// The event by which `text` becomes the plan of `node`; `None` if the plan says the same already.
    ///
    /// `version` is the version that the edit is based on; the text may name it, too. An edit that names none counts as
    /// based on version 1, so nobody undoes changes that they have not seen (E9.14).
    ///
    /// # Errors
    ///
    /// Why the edit is refused; for a text with mistakes, all of them.
    pub fn edit_plan(
        &self,
        node: NodeId,
        text: &str,
        version: Option<u32>,
        known: &Known,
        by: &str,
    ) -> Result<Option<Event>, EditError> {
        let path = || {
            let view = self.node(node);
            view.map_or_else(|| node.to_string(), |view| self.name_of(&view))
        };
        let index = self.index(node).map_err(|_| EditError::NoPlan { path: path() })?;
        let at = &self.nodes[index];
        if at.result.is_some() || at.cancel.is_some() {
            return Err(EditError::Ended { path: path() });
        }
        let Some(plan) = at.plan.as_ref().filter(|_| at.state.has_steps_to_come()) else {
            return Err(EditError::NoPlan { path: path() });
        };
        let base_version = version.or_else(|| plan::version_in(text));
        let stale = || EditError::Stale {
            path: path(),
            current: plan.members_version,
            given: base_version,
        };
        // First, because what was written for another version cannot be compared with this one.
        if base_version.is_some_and(|base| base != plan.members_version) {
            return Err(stale());
        }
        let shown_steps: Vec<ShownStep> = plan.members.iter().map(|member| self.shown_step(*member)).collect();
        let scope = Scope {
            inputs: Arc::clone(&self.inputs),
            ..Scope::default()
        };
        let render_title = |title: &str| {
            let title = self.templates.render_text(title, &scope);
            title.unwrap_or_default()
        };
        let target = self.edit_target(index, &shown_steps, &render_title);
        let edited = plan::read_edit(text, target, &self.known_to_editor(index, known)).map_err(EditError::Mistakes)?;
        let is_unaware = base_version.is_none() && plan.version > 1;
        let (steps, kept, difference) = match self.compared(&plan.members, &shown_steps, edited) {
            // Whoever has not seen the plan as it is now cannot know which of its steps have begun.
            Err(EditError::ReadOnly { .. }) if is_unaware => return Err(stale()),
            compared => compared?,
        };
        let is_waiting = at.state == NodeState::AwaitingApproval;
        if difference.is_empty() && !is_waiting {
            return Ok(None);
        }
        if is_unaware {
            return Err(stale());
        }
        let more = plan::count_nodes(&steps).saturating_sub(kept.iter().map(|at| self.nodes_of(*at)).sum());
        let more = more as usize;
        if let Some((used, limit)) = self.over_nodes_by(index, more) {
            return Err(EditError::OverNodes { more, used, limit });
        }
        Ok(Some(Event::PlanEdited {
            node,
            version: plan.version.saturating_add(1),
            steps: json!(steps),
            kept: kept.iter().map(|at| self.nodes[*at].id).collect(),
            difference: Box::new(difference),
            by: by.to_owned(),
        }))
    }

    fn name_of(&self, view: &super::NodeView<'_>) -> String {
        if view.path.is_empty() {
            "the run".to_owned()
        } else {
            view.path.to_owned()
        }
    }

    /// The number of nodes in the plan of node `index`, counting the node itself.
    fn nodes_of(&self, index: usize) -> u32 {
        self.nodes[index]
            .step
            .as_ref()
            .map_or(0, |step| plan::count_nodes(std::slice::from_ref(step)))
    }

    /// The new steps with the ids that they go by, the old steps that continue, and how the versions differ.
    fn compared(
        &self,
        members: &[usize],
        shown_steps: &[ShownStep],
        new: Vec<Step>,
    ) -> Result<(Vec<Step>, Vec<usize>, PlanDifference), EditError> {
        let steps = adopt_names(new, shown_steps);
        let graph = Graph::of(&steps);
        let roots: Vec<usize> = graph.roots().collect();
        let mut difference = PlanDifference::default();
        let mut kept = Vec::new();
        let mut read_only = Vec::new();
        let mut order = Vec::new();
        for root in &roots {
            let slug = graph.nodes[*root].slug.as_str();
            let old = shown_steps.iter().position(|old| old.slug == slug);
            let Some(old) = old else {
                difference.added.push(slug.to_owned());
                continue;
            };
            order.push(old);
            let is_same = shown_steps[old].step == graph.nodes[*root].step;
            let was_skipped = self.nodes[members[old]].result.is_some() && shown_steps[old].is_open;
            if is_same && !was_skipped {
                kept.push(members[old]);
                difference.kept.push(slug.to_owned());
            } else if shown_steps[old].is_open {
                difference.changed.push(slug.to_owned());
            } else {
                read_only.push((slug.to_owned(), "changed"));
            }
        }
        for old in shown_steps {
            if roots.iter().any(|root| graph.nodes[*root].slug.as_str() == old.slug) {
                continue;
            }
            if old.is_open {
                difference.dropped.push(old.slug.clone());
            } else {
                read_only.push((old.slug.clone(), "dropped"));
            }
        }
        difference.reordered = !order.is_sorted();
        if !read_only.is_empty() {
            return Err(EditError::ReadOnly { steps: read_only });
        }
        Ok((steps, kept, difference))
    }

    /// What an edited plan of node `index` is checked against.
    fn known_to_editor(&self, index: usize, known: &Known) -> Known {
        let mut known = known.clone();
        known.limits.children = known.limits.children.min(self.limits.children_max);
        // A model's plan is not nested in another one; besides its own steps it may read those around the node.
        let mut at = self.top_of(index);
        while let Some(frame) = self.nodes[at].frame {
            let frame = &self.frames[frame];
            known.before.extend(frame.by_slug.keys().map(ToString::to_string));
            at = frame.owner;
        }
        for at in self.self_and_ancestors(index) {
            known
                .criteria
                .extend(self.criteria_of(at).into_iter().map(|criterion| criterion.id));
        }
        known.tools_around = self.tool_scope(self.top_of(index)).into_lists();
        known
    }

    /// The node at or around `index` whose plan is not nested in another: the root, or a node with a model's plan.
    fn top_of(&self, index: usize) -> usize {
        self.self_and_ancestors(index).find(|at| self.is_top(*at)).unwrap_or(0)
    }

    fn is_top(&self, index: usize) -> bool {
        self.nodes[index].kind == NodeKind::Model || self.nodes[index].parent.is_none()
    }

    /// The plan that contains the steps of node `index`, and their place in it.
    fn edit_target<'s>(
        &'s self,
        index: usize,
        shown_steps: &'s [ShownStep],
        render_title: &'s dyn Fn(&str) -> String,
    ) -> EditTarget<'s> {
        // From the inside out.
        let mut path = vec![Part::Key("steps")];
        let mut steps = self.steps_now(index);
        let mut at = index;
        while !self.is_top(at) {
            let mut own = json!(self.named_step(at));
            own["plan"]["steps"] = steps;
            path.push(Part::Key("plan"));
            (at, steps) = self.steps_around(at, own, &mut path);
        }
        path.reverse();
        EditTarget {
            plan: self.top_plan(at, steps),
            at: path,
            steps: shown_steps,
            run_plan: &self.plan,
            fill_inputs: render_title,
        }
    }

    /// The steps of the plan of node `index`, as they are now.
    fn steps_now(&self, index: usize) -> Value {
        let members = self.nodes[index].plan.as_ref().map_or(&[][..], |plan| &plan.members);
        members.iter().map(|member| json!(self.named_step(*member))).collect()
    }

    /// The steps of the plan that node `at` is in, with `step` in its place, and the node whose plan that is. Adds to
    /// `path` how the step is reached, through groups and the body of a `for_each`.
    fn steps_around(&self, mut at: usize, mut step: Value, path: &mut Vec<Part>) -> (usize, Value) {
        while let Some(parent) = self.nodes[at].parent {
            let position = |among: &[usize]| among.iter().position(|child| *child == at).unwrap_or(0);
            match self.nodes[parent].kind {
                NodeKind::Parallel | NodeKind::Sequence => {
                    let key = self.nodes[parent].kind.as_str();
                    let position = position(&self.nodes[parent].children);
                    let mut outer_step = json!(self.named_step(parent));
                    outer_step[key][position] = step;
                    step = outer_step;
                    path.extend([Part::At(position), Part::Key(key)]);
                }
                NodeKind::ForEach => {
                    let mut outer_step = json!(self.named_step(parent));
                    outer_step["step"] = step;
                    step = outer_step;
                    path.push(Part::Key("step"));
                }
                NodeKind::Plan | NodeKind::Model | NodeKind::Call | NodeKind::Action | NodeKind::RollUp => {
                    let members = self.nodes[parent].plan.as_ref().map_or(&[][..], |plan| &plan.members);
                    let position = position(members);
                    let mut steps = self.steps_now(parent);
                    steps[position] = step;
                    path.extend([Part::At(position), Part::Key("steps")]);
                    return (parent, steps);
                }
            }
            at = parent;
        }
        (at, Value::Null)
    }

    /// The plan of node `at`, which is not nested in another, with these steps. A model's plan has neither a report nor
    /// criteria of its own.
    fn top_plan(&self, at: usize, steps: Value) -> Value {
        let mut plan = json!(*self.plan);
        if self.nodes[at].kind == NodeKind::Model {
            plan = json!({"version": plan::PLAN_VERSION, "title": "plan", "inputs": plan.get("inputs")});
            if plan["inputs"].is_null() {
                plan["inputs"] = json!({});
            }
        }
        plan["steps"] = steps;
        plan
    }
}

/// Gives unnamed groups the ids of the groups that they were before, so that they stay the same wherever they are
/// moved.
fn adopt_names(new: Vec<Step>, shown_steps: &[ShownStep]) -> Vec<Step> {
    let mut free: Vec<&ShownStep> = shown_steps
        .iter()
        .filter(|old| matches!(old.step, Step::Parallel(_) | Step::Sequence(_)))
        .filter(|old| {
            !new.iter()
                .any(|step| step.id().is_some_and(|id| id.as_str() == old.slug))
        })
        .collect();
    let adopt = |step: Step| {
        let bare = step.without_generated_ids();
        let is_group = matches!(step, Step::Parallel(_) | Step::Sequence(_));
        let matching = free
            .iter()
            .position(|old| is_group && old.step.without_generated_ids() == bare);
        match matching {
            Some(matching) if step.id().is_none() => free.remove(matching).step.clone(),
            _ => step,
        }
    };
    new.into_iter().map(adopt).collect()
}
