//! How people change a plan during its run (E9.1, E9.14): what may be changed, the event that results, and how it is
//! folded.
//!
//! An edit lists every step, including those that stay. Steps that have begun cannot change; others may be changed,
//! dropped and moved. A step that is the same in both versions keeps its node; a changed step is another node.

use std::sync::Arc;

use folio_memory::counted::counted;
use serde_json::{Value, json};

use super::agent::read_steps;
use super::state::{JournalError, Run};
use super::tree::NodeKind;
use crate::event::{Event, PlanDifference};
use crate::node::{Move, NodeId, NodeState};
use crate::plan::{self, EditTarget, Graph, Known, Part, PlanErrors, ShownStep, Slug, Step, WAITING};
use crate::result::Outcome;
use crate::template::Scope;

/// Why an edit of a plan was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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

/// The current plan of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownPlan {
    /// The version of the plan.
    pub version: u32,
    /// The steps in order.
    pub steps: Vec<ShownStep>,
}

impl Run {
    /// The current plan of a node; `None` if it has none, or has not begun it.
    #[must_use]
    pub fn shown_plan(&self, node: NodeId) -> Option<ShownPlan> {
        let index = self.index(node).ok()?;
        match &self.nodes[index].plan {
            Some(plan) => Some(ShownPlan {
                version: plan.members_version,
                steps: plan.members.iter().map(|member| self.shown_step(*member)).collect(),
            }),
            // The run has not begun yet.
            None if index == 0 && self.nodes[0].kind == NodeKind::Plan => Some(ShownPlan {
                version: 1,
                steps: ShownStep::from_plan_steps(&self.plan.steps),
            }),
            None => None,
        }
    }

    /// Whether a model made the plan of a node, or of something around it.
    #[must_use]
    pub fn is_plan_of_model(&self, node: NodeId) -> bool {
        let index = self.index(node);
        index.is_ok_and(|index| {
            self.self_and_ancestors(index)
                .any(|at| self.nodes[at].kind == NodeKind::Model)
        })
    }

    fn shown_step(&self, index: usize) -> ShownStep {
        let node = &self.nodes[index];
        let is_group = node.kind.is_group();
        let members: Vec<ShownStep> = if is_group {
            node.children.iter().map(|child| self.shown_step(*child)).collect()
        } else {
            Vec::new()
        };
        let mark = match (node.state, node.result.as_ref().map(|result| result.status)) {
            (_, Some(Outcome::Ok | Outcome::Partial)) => 'x',
            (_, Some(Outcome::Failed)) => '!',
            // `-` would mean that the line is not part of the plan.
            (_, Some(Outcome::Skipped | Outcome::Cancelled)) | (NodeState::Created, None) => ' ',
            (_, None) => '~',
        };
        ShownStep {
            slug: self.view(index).slug().to_owned(),
            step: self.named_step(index),
            title: self.title(node.id),
            mark,
            outcome: node.result.as_ref().map(|result| result.status.to_string()),
            status: self.step_status(index),
            is_open: self.is_open(index),
            members,
        }
    }

    /// The status of node `index` as a step of its plan, as [`ShownStep::status`] lists them.
    fn step_status(&self, index: usize) -> &'static str {
        let view = self.view(index);
        match (view.result, view.state) {
            (Some(_), _) if view.superseded => "superseded",
            (Some(result), _) => result.status.as_str(),
            (None, NodeState::Created) => WAITING,
            (None, NodeState::AwaitingApproval) => NodeState::AwaitingApproval.as_str(),
            (None, NodeState::WaitingInput) if self.asked_about.contains_key(&index) => {
                NodeState::AwaitingApproval.as_str()
            }
            (None, NodeState::WaitingInput) => NodeState::WaitingInput.as_str(),
            (None, _) => "running",
        }
    }

    /// The step of node `index`, with the ids that the node and the groups in it go by.
    fn named_step(&self, index: usize) -> Step {
        let node = &self.nodes[index];
        let slug = Slug::of(self.view(index).slug());
        let Some(step) = &node.step else {
            return Step::Task(Arc::new(plan::Task::new(slug)));
        };
        let members = match node.kind {
            NodeKind::Parallel | NodeKind::Sequence => {
                node.children.iter().map(|child| self.named_step(*child)).collect()
            }
            _ => Vec::new(),
        };
        step.named(&slug, members)
    }

    /// Whether an edit may change node `index`: it has not begun, or was skipped before it could.
    fn is_open(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        match &node.result {
            None => node.state == NodeState::Created,
            Some(result) => result.status == Outcome::Skipped,
        }
    }

    /// Whether another version of a plan superseded node `index`, or something around it, before it began.
    pub(super) fn is_dropped(&self, index: usize) -> bool {
        self.self_and_ancestors(index).any(|at| self.nodes[at].dropped_by > 0)
    }

    /// The steps of a node whose results counted in the version of its plan before the last, in plan order; the members
    /// of groups follow their group.
    #[must_use]
    pub fn steps_before(&self, id: NodeId) -> Vec<super::NodeView<'_>> {
        let plan = self.index(id).ok().and_then(|index| self.nodes[index].plan.as_deref());
        let mut rest: Vec<usize> = plan
            .map(|plan| plan.members_before.iter().rev().copied().collect())
            .unwrap_or_default();
        let mut steps = Vec::with_capacity(rest.len());
        while let Some(step) = rest.pop() {
            steps.push(self.view(step));
            if self.nodes[step].kind.is_group() {
                rest.extend(self.nodes[step].children.iter().rev());
            }
        }
        steps
    }

    /// The steps of a node's plan that its last version superseded before they began.
    #[must_use]
    pub fn steps_dropped(&self, node: NodeId) -> Vec<super::NodeView<'_>> {
        let Ok(index) = self.index(node) else { return Vec::new() };
        let version = self.nodes[index].plan.as_ref().map_or(0, |plan| plan.version);
        let children = self.nodes[index].children.iter().copied();
        children
            .filter(|child| version > 0 && self.nodes[*child].dropped_by == version)
            .map(|child| self.view(child))
            .collect()
    }

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
        let base_version = version.or(edited.version);
        let stale = || EditError::Stale {
            path: path(),
            current: plan.members_version,
            given: base_version,
        };
        if base_version.is_some_and(|base| base != plan.members_version) {
            return Err(stale());
        }
        let (steps, kept, difference) = self.compared(&plan.members, &shown_steps, edited.steps)?;
        let is_waiting = at.state == NodeState::AwaitingApproval;
        if difference.is_empty() && !is_waiting {
            return Ok(None);
        }
        if base_version.is_none() && plan.version > 1 {
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
        known
    }

    /// The node at or around `index` whose plan is not nested in another: the root, or a node with a model's plan.
    fn top_of(&self, index: usize) -> usize {
        self.self_and_ancestors(index)
            .find(|at| self.nodes[*at].kind == NodeKind::Model || self.nodes[*at].parent.is_none())
            .unwrap_or(0)
    }

    /// The plan that contains the steps of node `index`, and their place in it.
    fn edit_target<'s>(
        &'s self,
        index: usize,
        shown_steps: &'s [ShownStep],
        render_title: &'s dyn Fn(&str) -> String,
    ) -> EditTarget<'s> {
        let steps_now = |at: usize| -> Value {
            let members = self.nodes[at].plan.as_ref().map_or(&[][..], |plan| &plan.members);
            members.iter().map(|member| json!(self.named_step(*member))).collect()
        };
        let mut path = vec![Part::Key("steps")];
        let mut steps = steps_now(index);
        let mut at = index;
        loop {
            let is_top = self.nodes[at].kind == NodeKind::Model || self.nodes[at].parent.is_none();
            if is_top {
                let mut plan = json!(*self.plan);
                if self.nodes[at].kind == NodeKind::Model {
                    // A model's plan has neither a report nor criteria of its own.
                    plan = json!({"version": plan::PLAN_VERSION, "title": "plan", "inputs": plan.get("inputs")});
                    if plan["inputs"].is_null() {
                        plan["inputs"] = json!({});
                    }
                }
                plan["steps"] = steps;
                path.reverse();
                return EditTarget {
                    plan,
                    at: path,
                    steps: shown_steps,
                    run_plan: &self.plan,
                    fill_inputs: render_title,
                };
            }
            // Go up to the plan around it: through its own task, groups, and the body of a `for_each`.
            let mut value = json!(self.named_step(at));
            value["plan"]["steps"] = steps.take();
            path.push(Part::Key("plan"));
            while let Some(parent) = self.nodes[at].parent {
                let position = |among: &[usize]| among.iter().position(|child| *child == at).unwrap_or(0);
                match self.nodes[parent].kind {
                    NodeKind::Parallel | NodeKind::Sequence => {
                        let key = self.nodes[parent].kind.as_str();
                        let position = position(&self.nodes[parent].children);
                        let mut outer_step = json!(self.named_step(parent));
                        outer_step[key][position] = value;
                        value = outer_step;
                        path.extend([Part::At(position), Part::Key(key)]);
                    }
                    NodeKind::ForEach => {
                        let mut outer_step = json!(self.named_step(parent));
                        outer_step["step"] = value;
                        value = outer_step;
                        path.push(Part::Key("step"));
                    }
                    NodeKind::Plan | NodeKind::Model | NodeKind::Call | NodeKind::Action | NodeKind::RollUp => {
                        let members = self.nodes[parent].plan.as_ref().map_or(&[][..], |plan| &plan.members);
                        let position = position(members);
                        steps = steps_now(parent);
                        steps[position] = value;
                        path.extend([Part::At(position), Part::Key("steps")]);
                        at = parent;
                        break;
                    }
                }
                at = parent;
            }
        }
    }

    /// Folds [`Event::PlanEdited`] in.
    pub(super) fn edited(
        &mut self,
        node: NodeId,
        version: u32,
        steps: &Value,
        kept: &[NodeId],
    ) -> Result<(), JournalError> {
        let steps = read_steps(steps)?;
        let index = self.index(node)?;
        let kept: Vec<usize> = kept.iter().map(|id| self.index(*id)).collect::<Result<_, _>>()?;
        let state = self.nodes[index].state;
        let refused = || JournalError::Transition {
            node,
            state: state.as_str(),
            event: "plan_edited",
        };
        let plan = self.nodes[index].plan.as_ref().filter(|_| state.has_steps_to_come());
        let (frame, members) = plan
            .map(|plan| (plan.frame, plan.members.clone()))
            .ok_or_else(refused)?;
        if state == NodeState::AwaitingApproval {
            self.step_to(node, Move::Expand)?;
            self.gated.remove(&index);
            self.replace_previous_plan(index);
        }
        self.ready.remove(&index);
        self.settled.remove(&index);
        for member in members.into_iter().filter(|member| !kept.contains(member)) {
            self.supersede(member, version);
        }
        self.nodes[index].halted = false;
        self.halted.remove(&index);
        self.forget_roll_ups(index);
        let graph = Arc::new(Graph::of(&steps));
        let before = self.nodes[index]
            .plan
            .as_deref()
            .map(|plan| plan.members_before.clone());
        self.lay_out(index, frame, &graph, version, &kept);
        // A plan that waited for approval never took the place of the one before it.
        if state == NodeState::AwaitingApproval
            && let Some(plan) = self.nodes[index].plan.as_deref_mut()
        {
            plan.members_before = before.unwrap_or_default();
        }
        let whole = self.whole_plan(index);
        if let Some(agent) = self.nodes[index].agent.as_deref_mut() {
            agent.plan_was_edited(plan::hash_of(&steps), whole);
        }
        self.settle_if_done(index);
        Ok(())
    }

    /// Takes node `index` out of its plan, because of version `version`. If it has not begun, it never does.
    pub(super) fn supersede(&mut self, index: usize, version: u32) {
        if self.is_open(index) {
            self.nodes[index].dropped_by = version;
        }
        self.mark_superseded(index, &[]);
        if self.nodes[index].state == NodeState::Created {
            self.skip(index);
        }
    }

    /// Marks node `index` as superseded by another version of the plan, whatever its state, and everything in it that
    /// is not `kept`.
    pub(super) fn mark_superseded(&mut self, index: usize, kept: &[usize]) {
        let mut rest = vec![index];
        while let Some(at) = rest.pop() {
            if !kept.contains(&at) && !std::mem::replace(&mut self.nodes[at].superseded, true) {
                let node = &self.nodes[at];
                if let Some(result) = &node.result {
                    *self.superseded.entry(result.status).or_insert(0) += 1;
                }
                rest.extend(&node.children);
            }
        }
    }

    /// Makes the steps of `graph` the plan of `owner`: the `kept` steps keep their nodes, and all steps that have not
    /// begun wait for what the new plan says.
    fn lay_out(&mut self, owner: usize, frame: usize, graph: &Arc<Graph>, version: u32, kept: &[usize]) {
        let before = std::mem::take(&mut self.frames[frame].nodes);
        for at in before {
            // Members of a group with lanes wait for nothing else: which member makes room for which does not change
            // (E9.10).
            let mut dependents = std::mem::take(&mut self.nodes[at].dependents);
            dependents.retain(|member| self.has_lanes_around(*member));
            self.nodes[at].dependents = dependents;
        }
        let place = &mut self.frames[frame];
        place.graph = Arc::clone(graph);
        place.by_slug.clear();
        place.kept.clear();
        let mut nodes: Vec<usize> = Vec::with_capacity(graph.nodes.len());
        for planned in &graph.nodes {
            let slug = planned.slug.as_str();
            let (parent, candidates) = match planned.parent.map(|parent| nodes[parent]) {
                None => (owner, kept),
                Some(parent) => (parent, &*self.nodes[parent].children),
            };
            let existing = candidates.iter().copied().find(|at| self.view(*at).slug() == slug);
            let at = existing.unwrap_or_else(|| self.add_step(parent, frame, planned, version));
            self.nodes[at].needed = planned.needed;
            self.frames[frame].by_slug.insert(planned.slug.clone(), at);
            nodes.push(at);
        }
        // This includes steps that have begun or ended: they may come after something else now, and what follows them
        // waits for that, too.
        for (planned, at) in graph.nodes.iter().zip(&nodes) {
            let group = planned.parent.map(|parent| &self.nodes[nodes[parent]]);
            let container_waits = group.is_some_and(|group| group.started_at.is_none());
            // A failure in a group, or the end of the group, holds its members back whatever happens to the plan around
            // it (E9.5).
            let is_groups_own = group.is_some_and(|group| group.started_at.is_some() || group.is_terminal());
            if !self.has_lanes_around(*at) {
                let waits = u32::try_from(planned.waits.len()).unwrap_or(u32::MAX);
                self.nodes[*at].waits_left = waits.saturating_add(u32::from(container_waits));
                for wait in &planned.waits {
                    self.nodes[nodes[*wait]].dependents.push(*at);
                }
            }
            if self.nodes[*at].state == NodeState::Created {
                self.ready.remove(at);
                if !is_groups_own {
                    self.skipped.remove(at);
                }
            }
        }
        let free = nodes.iter().copied().filter(|at| self.nodes[*at].waits_left == 0);
        for at in free.collect::<Vec<_>>() {
            if self.may_begin(at) {
                self.make_ready(at);
            } else if self.nodes[at].is_terminal() {
                let mut released = Vec::new();
                self.release_dependents(at, &mut released);
                for dependent in released {
                    self.release(dependent);
                }
            }
        }
        let members = graph.roots().map(|root| nodes[root]).collect();
        self.frames[frame].nodes = nodes;
        if let Some(plan) = self.nodes[owner].plan.as_deref_mut() {
            plan.version = version;
            plan.members_version = version;
            plan.members_before = std::mem::replace(&mut plan.members, members);
        }
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
