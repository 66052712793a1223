//! The rules for a well-formed plan: references exist, no circles, nothing empty or too large.

mod arguments;
mod lists;
mod names;
mod satisfies;
mod steps;
mod tools;

use std::cell::Cell;
use std::collections::BTreeSet;

use super::cursor::{At, Faults};
use super::cycle::cycles;
use super::decode::{Draft, Origins};
use super::errors::code;
use super::nearest::did_you_mean;
use super::reads::{self, Segment};
use super::spanned::{Node, Tree};
use super::{Graph, Known, NODES_MAX, Plan, Step, ToolNames, count_nodes};

use names::{Frame, Reader};

/// How many unknown names get a hint about which name was meant. Each is compared with every existing name, and a model
/// may write thousands.
const GUESSES_MAX: u32 = 100;

/// How many regular expressions are compiled; a plan of a mebibyte could have tens of thousands.
const EXPRESSIONS_MAX: usize = 200;
/// The most names of earlier steps in one hint.
const NAMES_SHOWN: usize = 20;

/// Adds everything that is wrong with the draft to its mistakes.
pub(super) fn validate(draft: &mut Draft<'_>, root: &Node, known: &Known) {
    let mut ids = BTreeSet::new();
    every_step(&draft.plan.steps, &mut |step| {
        ids.extend(step.id().map(|id| id.as_str().to_owned()));
    });
    let mut validator = Validator {
        plan: &draft.plan,
        origins: &draft.origins,
        faults: std::mem::take(&mut draft.faults),
        known,
        ids,
        steps: 0,
        is_whole: matches!(root.tree, Tree::Object(_)),
        visible_criteria: known.criteria.iter().cloned().collect(),
        children: narrower_limit(known.limits.children, draft.plan.budget.children),
        deepest: narrower_limit(known.limits.depth, draft.plan.budget.depth),
        items: draft.plan.budget.items,
        tools_around: known.tools_around.clone(),
        guesses: Cell::new(GUESSES_MAX),
        expressions: EXPRESSIONS_MAX,
    };
    validator.plan(&At::root(root));
    draft.faults = validator.faults;
}

struct Validator<'a> {
    plan: &'a Plan,
    origins: &'a Origins<'a>,
    faults: Faults,
    known: &'a Known,
    /// The id of every step, including those in sub-plans.
    ids: BTreeSet<String>,
    /// The number of steps so far.
    steps: u32,
    /// Whether it is a whole plan, and not only a list of steps whose task is elsewhere.
    is_whole: bool,
    /// The ids of the criteria that steps may satisfy: those of the plan and of the tasks around.
    visible_criteria: Vec<String>,
    /// The most branches of a group, by the budgets of the plan and of the tasks around.
    children: u32,
    /// The deepest level that a nested plan may have here, by the same budgets.
    deepest: u32,
    /// The most items of a `for_each`, by the same budgets.
    items: Option<u32>,
    /// The `tools` of the steps around, the outermost first.
    tools_around: Vec<ToolNames>,
    /// How many more unknown names get a hint.
    guesses: Cell<u32>,
    /// How many more regular expressions are compiled. What comes later is compiled when its criterion is checked.
    expressions: usize,
}

impl<'a> Validator<'a> {
    fn plan(&mut self, at: &At<'a>) {
        let plan = self.plan;
        for site in reads::heading_sites(plan) {
            self.site(&site, at, None);
        }
        self.criteria(&plan.criteria, at);
        self.visible_criteria
            .extend(plan.criteria.iter().map(|criterion| criterion.id.clone()));
        let steps_at = at.key("steps").unwrap_or_else(|| at.clone());
        self.not_empty(&plan.steps, &steps_at, "the plan");
        if let Some(to_meet) = &self.known.to_meet {
            let criteria = to_meet.iter().map(|(id, text)| (id.as_str(), text.as_str()));
            self.all_assigned(criteria, &plan.steps, &steps_at);
        }
        let graph = self.scope(&plan.steps, None, &[], 1);
        let end = Frame {
            graph: &graph,
            reader: Reader::End,
            outer: None,
            variables: &[],
        };
        for site in reads::closing_sites(plan) {
            self.site(&site, at, Some(&end));
        }
        let limit = self.known.limits.steps;
        if self.steps > limit {
            let message = format!("the plan has {} steps; at most {limit} are allowed", self.steps);
            self.faults.add(&steps_at, code::OVER_CAP, message);
        }
        let (nodes, budget) = (count_nodes(&plan.steps), plan.budget.nodes);
        if let Some(limit) = budget.filter(|limit| nodes > *limit) {
            let message = format!("{nodes} steps are written out, and the budget of the plan allows {limit} nodes");
            let nodes_at = at.follow_near(&[Segment::Key("budget"), Segment::Key("nodes")]);
            self.faults.add(&nodes_at, code::OVER_CAP, message);
        }
        if let Some(nodes) = budget.filter(|nodes| *nodes > NODES_MAX) {
            let message = format!("`nodes` is {nodes}; at most {NODES_MAX} is allowed");
            let nodes_at = at.follow_near(&[Segment::Key("budget"), Segment::Key("nodes")]);
            self.faults.add(&nodes_at, code::OVER_CAP, message);
        }
        let limit = self.known.limits.depth;
        if let Some(depth) = plan.budget.depth.filter(|depth| *depth > limit) {
            let message = format!("`depth` is {depth}; at most {limit} is allowed");
            let depth_at = at.follow_near(&[Segment::Key("budget"), Segment::Key("depth")]);
            self.faults.add(&depth_at, code::OVER_CAP, message);
        }
    }

    /// Checks the steps of one plan and the plans inside them.
    fn scope(&mut self, steps: &[Step], outer: Option<&Frame<'_>>, variables: &[String], depth: u32) -> Graph {
        let graph = Graph::with_circles(steps);
        self.unique_ids(&graph);
        self.needs(&graph);
        self.no_cycles(&graph);
        for (at, node) in graph.nodes.iter().enumerate() {
            self.steps = self.steps.saturating_add(1);
            let frame = Frame {
                graph: &graph,
                reader: Reader::Step(at),
                outer,
                variables,
            };
            let outside = self.tools_around.len();
            self.enter_groups(&graph, at);
            self.step(&node.step, &frame, depth);
            self.tools_around.truncate(outside);
        }
        graph
    }

    /// Checks a nested plan on level `depth`; the plan of the run is on level 1 (E9.10).
    fn inner_scope(&mut self, steps: &[Step], outer: &Frame<'_>, depth: u32, at: &At<'a>) -> Graph {
        let limit = self.deepest;
        // Reported only once: anything deeper is inside this plan.
        if depth == limit.max(1) {
            let message = format!("plans are nested more than {limit} levels deep here");
            self.faults.add(at, code::OVER_CAP, message);
        }
        let (count, max_children) = (steps.len(), self.children);
        if self.is_model_written() && count > max_children as usize {
            let message = format!("a plan inside the plan has {count} steps; at most {max_children} are allowed");
            let error = self.faults.add(at, code::OVER_CAP, message);
            error.with_hint("combine steps that belong together");
        }
        self.scope(steps, Some(outer), &[], depth + 1)
    }

    /// Whether a model wrote the plan. A model is told what exceeds its limits and can write another plan; a plan that
    /// a person wrote runs as far as the budgets of its tasks allow.
    fn is_model_written(&self) -> bool {
        self.known.to_meet.is_some()
    }

    fn not_empty(&mut self, steps: &[Step], at: &At<'a>, subject: &str) {
        if steps.is_empty() && at.items().is_some() {
            self.faults.add(at, code::EMPTY, format!("{subject} has no steps"));
        }
    }

    fn unique_ids(&mut self, graph: &Graph) {
        let mut first: std::collections::HashMap<&str, &Step> = std::collections::HashMap::new();
        for node in &graph.nodes {
            let Some(id) = node.step.id() else { continue };
            let Some(origin) = self.origins.of(&node.step) else {
                continue;
            };
            match first.get(id.as_str()).and_then(|step| self.origins.of(step)) {
                None => {
                    first.insert(id.as_str(), &node.step);
                }
                Some(earlier) => {
                    let at = origin.follow_near(&[Segment::Key("id")]);
                    let message = format!("the step at {} already has the id `{id}`", earlier.named());
                    let error = self.faults.add(&at, code::DUPLICATE_ID, message);
                    if origin
                        .follow(&[Segment::Key("id")])
                        .is_none_or(|id| id.path == origin.path)
                    {
                        error.with_hint("the id comes from the title; write an `id`");
                    }
                }
            }
        }
    }

    /// A hint about which of `names` was most likely meant by `written`.
    fn suggest_name<'n>(&self, written: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
        let left = self.guesses.get().checked_sub(1)?;
        self.guesses.set(left);
        did_you_mean(written, names)
    }

    fn needs(&mut self, graph: &Graph) {
        let step_ids: BTreeSet<&str> = graph
            .nodes
            .iter()
            .filter_map(|node| node.step.id())
            .map(AsRef::as_ref)
            .collect();
        for node in &graph.nodes {
            let (Some(needs), Some(origin)) = (node.step.needs(), self.origins.of(&node.step)) else {
                continue;
            };
            let needs_at = origin.follow_near(&[Segment::Key("needs")]);
            for need in needs {
                if step_ids.contains(need.as_str()) || self.known.before.contains(need.as_str()) {
                    continue;
                }
                let at = needs_at
                    .find_item_equal_to(need.as_str())
                    .unwrap_or_else(|| needs_at.clone());
                if self.ids.contains(need.as_str()) {
                    let message = format!("`{need}` is a step of another plan; `needs` stays within its own");
                    let error = self.faults.add(&at, code::FOREIGN_NEED, message);
                    error.with_hint("name the step that contains it, or the one that contains this step");
                } else if !self.origins.may_mean_unreadable_id(need.as_str()) {
                    let before = self.known.before.iter().map(String::as_str);
                    let hint = self.suggest_name(need.as_str(), step_ids.iter().copied().chain(before));
                    let hint = hint.or_else(|| self.names_before());
                    let message = format!("there is no step `{need}`");
                    self.faults.add(&at, code::UNKNOWN_NEED, message).hint = hint;
                }
            }
        }
    }

    /// A hint that names the steps that were there before the plan, the first ones if there are many.
    fn names_before(&self) -> Option<String> {
        let before: Vec<&str> = self.known.before.iter().map(String::as_str).take(NAMES_SHOWN).collect();
        let more = self.known.before.len().saturating_sub(before.len());
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        (!before.is_empty()).then(|| format!("earlier steps are {}{more}", before.join(", ")))
    }

    fn no_cycles(&mut self, graph: &Graph) {
        for cycle in cycles(graph, |id| self.origins.display_name(id)) {
            // There is no circle without `needs`, so one of its steps has them.
            let with_needs = cycle
                .nodes
                .iter()
                .copied()
                .find(|&at| graph.nodes[at].step.needs().is_some());
            let step = &graph.nodes[with_needs.unwrap_or(cycle.nodes[0])].step;
            let Some(origin) = self.origins.of(step) else {
                continue;
            };
            let at = origin.follow_near(&[Segment::Key("needs")]);
            let message = format!("steps wait for each other: {}", cycle.reasons.join(", "));
            self.faults.add(&at, code::CYCLE, message);
        }
    }
}

/// The smaller of a limit and that of a budget, which can only narrow it (E9.10).
fn narrower_limit(limit: u32, own: Option<u32>) -> u32 {
    own.map_or(limit, |own| own.min(limit))
}

/// Calls `visit` for every step, including those in sub-plans and bodies.
fn every_step(steps: &[Step], visit: &mut impl FnMut(&Step)) {
    for step in steps {
        visit(step);
        every_step(step.members(), visit);
        every_step(reads::inner_steps(step), visit);
    }
}
