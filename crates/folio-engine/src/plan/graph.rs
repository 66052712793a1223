//! Which step of a plan waits for which.

use std::collections::HashMap;

use super::{Slug, Step, reads};

/// The steps of one plan, or of one sub-plan, with the steps that each waits for.
///
/// Sub-plans of tasks and bodies of `for_each` have graphs of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// The steps in plan order: a group or a sequence comes directly before its members.
    pub nodes: Vec<GraphNode>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphNode {
    /// The name of the step. A group or a sequence without an id is `group-3` or `sequence-3`, after its place in the
    /// plan.
    pub slug: Slug,
    /// The step itself.
    pub step: Step,
    /// The group or sequence that contains it.
    pub parent: Option<usize>,
    /// The members, if it is a group or a sequence.
    pub children: Vec<usize>,
    /// The steps that must have an outcome before it starts, in addition to its parent having started.
    ///
    /// With `needs`, exactly the steps named. Without, the smallest set of steps that implies everything earlier.
    pub waits: Vec<usize>,
    /// Whether another step names it, in `needs` or in a template.
    pub needed: bool,
    /// Whether the plan can succeed without it.
    pub optional: bool,
}

impl Graph {
    /// The graph of `steps`. Names in `needs` that do not exist are ignored; a checked plan has none. Of steps that
    /// wait for one another, which a checked plan does not have either, some do not wait: so a run of an older version,
    /// which accepted such plans, continues as it began.
    pub fn of(steps: &[Step]) -> Self {
        Self::build(steps, false)
    }

    /// The same graph, but steps that wait for one another keep doing so, so that they can be reported.
    pub(super) fn with_circles(steps: &[Step]) -> Self {
        Self::build(steps, true)
    }

    fn build(steps: &[Step], keeps_circles: bool) -> Self {
        let mut graph = Self { nodes: Vec::new() };
        graph.add(steps, None);
        graph.name_the_unnamed();
        let by_slug = graph.by_slug();
        let needs = graph.resolve_needs(&by_slug);
        graph.set_waits(&needs, keeps_circles);
        graph.set_needed(&needs, &by_slug);
        graph
    }

    /// The node with that name.
    pub fn index_of(&self, slug: &Slug) -> Option<usize> {
        self.nodes.iter().position(|node| node.slug == *slug)
    }

    /// The top-level steps in order: those that are in no group or sequence.
    pub fn roots(&self) -> impl Iterator<Item = usize> + '_ {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.parent.is_none())
            .map(|(at, _)| at)
    }

    /// Whether `reader` may read the outcome of `target`, which is then settled when `reader` starts.
    ///
    /// A step with `needs` reads the steps that they name and their members; a step without reads everything earlier.
    pub fn reads(&self, reader: usize, target: usize) -> bool {
        if let Some(needs) = self.nodes[reader].step.needs() {
            return self
                .self_and_ancestors(target)
                .any(|at| needs.contains(&self.nodes[at].slug));
        }
        let above_target: Vec<usize> = self.self_and_ancestors(target).collect();
        for at in self.self_and_ancestors(reader) {
            let parent = self.nodes[at].parent;
            if let Some(&sibling) = above_target.iter().find(|&&other| self.nodes[other].parent == parent) {
                return sibling < at && self.is_ordered(parent);
            }
        }
        false
    }

    /// The steps whose outcomes `reader` may read ([`Self::reads`]), in plan order.
    pub fn readable_by(&self, reader: usize) -> Vec<usize> {
        if self.nodes[reader].step.needs().is_some() {
            return (0..self.nodes.len())
                .filter(|target| self.reads(reader, *target))
                .collect();
        }
        // The members of a group follow it directly, so what comes before a member lies between the group and the
        // member.
        let earlier = |at: usize| {
            let parent = self.nodes[at].parent;
            let first = parent.map_or(0, |group| group + 1);
            self.is_ordered(parent).then_some(first..at)
        };
        let mut ranges: Vec<_> = self.self_and_ancestors(reader).filter_map(earlier).collect();
        ranges.reverse();
        ranges.into_iter().flatten().collect()
    }

    fn add(&mut self, steps: &[Step], parent: Option<usize>) {
        for step in steps {
            let at = self.nodes.len();
            self.nodes.push(GraphNode {
                slug: step.id().cloned().unwrap_or_else(placeholder),
                step: step.clone(),
                parent,
                children: Vec::new(),
                waits: Vec::new(),
                needed: false,
                optional: step.is_optional(),
            });
            if let Some(parent) = parent {
                self.nodes[parent].children.push(at);
            }
            self.add(step.members(), Some(at));
        }
    }

    fn name_the_unnamed(&mut self) {
        let taken_slugs = self.nodes.iter().filter_map(|node| node.step.id().cloned());
        let mut taken_slugs: std::collections::HashSet<Slug> = taken_slugs.collect();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let kind = match &node.step {
                Step::Parallel(group) if group.id.is_none() => "group",
                Step::Sequence(sequence) if sequence.id.is_none() => "sequence",
                _ => continue,
            };
            let position = at + 1;
            let mut names = std::iter::once(format!("{kind}-{position}"))
                .chain((2_u32..).map(|more| format!("{kind}-{position}-{more}")))
                .filter_map(|name| Slug::parse(&name).ok());
            if let Some(free) = names.find(|name| !taken_slugs.contains(name)) {
                taken_slugs.insert(free.clone());
                node.slug = free;
            }
        }
    }

    fn by_slug(&self) -> HashMap<Slug, usize> {
        let mut by_slug = HashMap::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            by_slug.entry(node.slug.clone()).or_insert(at);
        }
        by_slug
    }

    fn resolve_needs(&self, by_slug: &HashMap<Slug, usize>) -> Vec<Option<Vec<usize>>> {
        let resolve = |needs: &[Slug]| {
            let mut found: Vec<usize> = needs.iter().filter_map(|slug| by_slug.get(slug).copied()).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        self.nodes.iter().map(|node| node.step.needs().map(resolve)).collect()
    }

    fn set_waits(&mut self, needs: &[Option<Vec<usize>>], keeps_circles: bool) {
        // For each step, the later siblings that name it: waiting for one of these implies waiting for it.
        let mut named_by: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut is_simple = true;
        for (at, targets) in needs.iter().enumerate() {
            for &target in targets.iter().flatten() {
                if target < at && self.nodes[target].parent == self.nodes[at].parent {
                    named_by[target].push(at);
                } else {
                    is_simple = false;
                }
            }
        }
        let roots: Vec<usize> = self.roots().collect();
        self.set_waits_of(&roots, true, needs, &named_by);
        for at in 0..self.nodes.len() {
            let children = std::mem::take(&mut self.nodes[at].children);
            self.set_waits_of(&children, self.is_ordered(Some(at)), needs, &named_by);
            self.nodes[at].children = children;
        }
        if !is_simple {
            self.drop_implied_waits(needs, keeps_circles);
        }
    }

    fn set_waits_of(
        &mut self,
        siblings: &[usize],
        is_ordered: bool,
        needs: &[Option<Vec<usize>>],
        named_by: &[Vec<usize>],
    ) {
        // The steps that together imply all earlier ones.
        let mut front: Vec<usize> = Vec::new();
        for &at in siblings {
            match &needs[at] {
                Some(needs) => {
                    self.nodes[at].waits.clone_from(needs);
                    front.push(at);
                }
                None if is_ordered => {
                    front.retain(|&earlier| !named_by[earlier].iter().any(|&later| later < at));
                    self.nodes[at].waits = std::mem::replace(&mut front, vec![at]);
                }
                None => {}
            }
        }
    }

    /// Where `needs` reach forward or into another group, a step can wait for one that another of its waits already
    /// implies. Such plans are rare and small, so each of these steps is examined on its own.
    fn drop_implied_waits(&mut self, needs: &[Option<Vec<usize>>], keeps_circles: bool) {
        for (at, own_needs) in needs.iter().enumerate() {
            if own_needs.is_some() || self.nodes[at].waits.len() < 2 {
                continue;
            }
            let waits = self.nodes[at].waits.clone();
            let mut implied = vec![false; self.nodes.len()];
            // Where circles are kept, a step that waits for this one implies nothing: all waits of this step stay.
            implied[at] = keeps_circles;
            let mut open: Vec<usize> = waits.iter().flat_map(|&wait| self.nodes[wait].waits.clone()).collect();
            while let Some(next) = open.pop() {
                if !std::mem::replace(&mut implied[next], true) {
                    open.extend_from_slice(&self.nodes[next].waits);
                }
            }
            self.nodes[at].waits = waits.into_iter().filter(|&wait| !implied[wait]).collect();
        }
    }

    fn set_needed(&mut self, needs: &[Option<Vec<usize>>], by_slug: &HashMap<Slug, usize>) {
        let mut needed = vec![false; self.nodes.len()];
        for (at, targets) in needs.iter().enumerate() {
            for &target in targets.iter().flatten() {
                needed[target] = true;
            }
            for name in reads::outer_results(&self.nodes[at].step) {
                if let Some(&target) = by_slug.get(name.as_str()).filter(|&&target| target != at) {
                    needed[target] = true;
                }
            }
        }
        for (node, needed) in self.nodes.iter_mut().zip(needed) {
            node.needed = needed;
        }
    }

    /// The node itself, then the groups and sequences around it, outwards.
    pub(super) fn self_and_ancestors(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(at), |&at| self.nodes[at].parent)
    }

    fn is_ordered(&self, container: Option<usize>) -> bool {
        container.is_none_or(|at| !matches!(self.nodes[at].step, Step::Parallel(_)))
    }
}

fn placeholder() -> Slug {
    Slug::parse("unnamed").expect("`unnamed` is a slug")
}
