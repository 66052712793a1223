//! How a tree grows: the nodes of a plan, of the items of a `for_each`, of a single call.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::pauses::ItemKeys;
use super::state::Run;
use super::tree::{Frame, Node, NodeKind, Planned};
use crate::node::{NodeId, NodeState};
use crate::plan::{self, Graph, GraphNode, Slug, Step};
use crate::spend::{Allowance, Purse, Spend};

impl Run {
    pub(super) fn add_node(
        &mut self,
        id: NodeId,
        parent: Option<usize>,
        frame: Option<usize>,
        kind: NodeKind,
        step: Option<Step>,
        path: Arc<str>,
    ) -> usize {
        let index = self.nodes.len();
        let depth = parent.map_or(0, |parent| self.nodes[parent].depth + 1);
        let optional = step.as_ref().is_some_and(Step::is_optional);
        let limit = match &step {
            Some(Step::Task(task)) => task.budget.allowance(),
            _ => Allowance::default(),
        };
        let purse = (limit != Allowance::default()).then(|| {
            Box::new(Purse {
                limit,
                ..Purse::default()
            })
        });
        self.nodes.push(Node {
            id,
            parent,
            frame,
            kind,
            step,
            path,
            depth,
            optional,
            needed: false,
            state: NodeState::Created,
            children: Vec::new(),
            children_left: 0,
            children_ok: 0,
            waits_left: 0,
            dependents: Vec::new(),
            halted: false,
            superseded: false,
            dropped_by: 0,
            plan: None,
            gathers: Box::default(),
            cancel: None,
            attempt: 0,
            retry_at: None,
            parked_for: Box::default(),
            started_at: None,
            finished_at: None,
            ended_as: 0,
            call: Box::default(),
            result: None,
            agent: None,
            tally: None,
            spent: Spend::default(),
            purse,
            shared: None,
            held: None,
            set_aside: None,
            paused: false,
            writes: OnceLock::new(),
        });
        if let Some(parent) = parent {
            self.nodes[parent].children.push(index);
            self.nodes[parent].children_left += 1;
        }
        self.by_id.insert(id, index);
        self.note_own_limits(index);
        index
    }

    /// Creates the steps of version `version` of the plan of `owner`. The results of the `kept` steps of earlier
    /// versions still count.
    pub(super) fn make_plan(&mut self, owner: usize, steps: &[Step], version: u32, kept: &[usize]) {
        self.replans += u32::from(version > 1);
        self.replanning.remove(&owner);
        // A hard failure in the version before holds back nothing in this one.
        self.forget_failures_in(owner);
        let graph = Arc::new(Graph::of(steps));
        let frame = self.add_frame(owner, &graph, Vec::new());
        for index in kept {
            let slug = Slug::of(self.view(*index).slug());
            self.frames[frame].by_slug.insert(slug, *index);
        }
        self.frames[frame].kept = kept.to_vec();
        self.make_graph(owner, frame, &graph, version, |parent, slug| {
            (parent.child(version, slug.as_str(), ""), slug.to_string())
        });
        let new_members = graph.roots().map(|root| self.frames[frame].nodes[root]);
        let members = kept.iter().copied().chain(new_members).collect();
        let before = self.nodes[owner].plan.take();
        let replaced = before.as_ref().map_or(&[][..], |plan| &plan.members);
        let mut paused = self.paused_parts(replaced);
        paused.extend(self.take_pauses_to_come(owner));
        self.nodes[owner].plan = Some(Box::new(Planned {
            version,
            members_version: version,
            frame,
            members,
            version_before: before.as_ref().map_or(0, |plan| plan.members_version),
            frame_before: before.as_ref().map(|plan| plan.frame),
            replaced_version: before.as_ref().map_or(0, |plan| plan.replaced_version),
            members_before: before.map(|plan| plan.members).unwrap_or_default(),
        }));
        self.inherit_pauses(frame, paused);
    }

    /// Puts the plan of `owner` in the place of the version before it.
    pub(super) fn replace_previous_plan(&mut self, owner: usize) {
        let Some(plan) = self.nodes[owner].plan.as_deref_mut() else {
            return;
        };
        plan.replaced_version = plan.version_before;
        let (kept, before) = (self.frames[plan.frame].kept.clone(), plan.members_before.clone());
        for member in before {
            self.mark_superseded(member, &kept);
        }
    }

    /// Restores the previous version of the plan of `owner`, because the new one was rejected. If that one was rejected
    /// too, there is none to restore, and the last one stays to be seen.
    pub(super) fn revert_plan(&mut self, owner: usize) {
        let plan = self.nodes[owner].plan.as_deref();
        let mut before = plan.map_or(&[][..], |plan| &plan.members_before).iter();
        if before.all(|member| self.nodes[*member].dropped_by > 0) {
            return;
        }
        let Some(plan) = self.nodes[owner].plan.as_deref_mut() else {
            return;
        };
        if let Some(frame) = plan.frame_before.take() {
            plan.frame = frame;
            plan.members_version = plan.version_before;
            plan.members = std::mem::take(&mut plan.members_before);
        }
    }

    /// Adds the node of one step of a plan below `parent`.
    pub(super) fn add_step(&mut self, parent: usize, frame: usize, planned: &GraphNode, version: u32) -> usize {
        let slug = planned.slug.as_str();
        let id = self.nodes[parent].id.child(version, slug, "");
        let path = self.path_below(parent, slug);
        let kind = NodeKind::of(&planned.step);
        self.add_node(id, Some(parent), Some(frame), kind, Some(planned.step.clone()), path)
    }

    pub(super) fn path_below(&self, parent: usize, last: &str) -> Arc<str> {
        let above = &self.nodes[parent].path;
        if above.is_empty() {
            Arc::from(last)
        } else {
            Arc::from(format!("{above}/{last}"))
        }
    }

    fn add_frame(&mut self, owner: usize, graph: &Arc<Graph>, variables: Vec<(String, Arc<Value>)>) -> usize {
        self.frames.push(Frame {
            owner,
            graph: Arc::clone(graph),
            nodes: Vec::with_capacity(graph.nodes.len()),
            kept: Vec::new(),
            outer: self.nodes[owner].frame,
            by_slug: HashMap::new(),
            variables,
        });
        self.frames.len() - 1
    }

    /// Creates all nodes of `graph`. `name` returns the id and the last part of the path for a node directly below
    /// `owner`.
    fn make_graph(
        &mut self,
        owner: usize,
        frame: usize,
        graph: &Graph,
        version: u32,
        name: impl Fn(NodeId, &Slug) -> (NodeId, String),
    ) -> usize {
        let first = self.nodes.len();
        for (position, planned) in graph.nodes.iter().enumerate() {
            let parent = planned.parent.map_or(owner, |parent| first + parent);
            let parent_id = self.nodes[parent].id;
            let (id, last) = if planned.parent.is_none() {
                name(parent_id, &planned.slug)
            } else {
                (
                    parent_id.child(version, planned.slug.as_str(), ""),
                    planned.slug.to_string(),
                )
            };
            let path = self.path_below(parent, &last);
            let index = self.add_node(
                id,
                Some(parent),
                Some(frame),
                NodeKind::of(&planned.step),
                Some(planned.step.clone()),
                path,
            );
            debug_assert_eq!(index, first + position);
            self.nodes[index].needed = planned.needed;
            // A member of a group also waits for the group to begin.
            let container = u32::from(planned.parent.is_some());
            self.nodes[index].waits_left = u32::try_from(planned.waits.len()).unwrap_or(u32::MAX) + container;
            self.frames[frame].by_slug.insert(planned.slug.clone(), index);
            self.frames[frame].nodes.push(index);
        }
        for (position, planned) in graph.nodes.iter().enumerate() {
            for wait in &planned.waits {
                self.nodes[first + wait].dependents.push(first + position);
            }
        }
        for index in first..self.nodes.len() {
            if self.nodes[index].waits_left == 0 {
                self.make_ready(index);
            }
        }
        first
    }

    /// Creates a child for each of `items`, of which at most `lanes` run at the same time.
    pub(super) fn make_items(&mut self, owner: usize, for_each: &plan::ForEach, items: &[Value], lanes: Option<u32>) {
        let graph = Arc::new(Graph::of(std::slice::from_ref(&for_each.body)));
        let earlier = self.earlier_items(owner, items);
        let mut keys = ItemKeys::default();
        let mut roots: Vec<usize> = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let key = keys.key_of(item);
            let variables = vec![
                (for_each.item_name.clone(), Arc::new(item.clone())),
                ("index".to_owned(), Arc::new(Value::from(position))),
            ];
            let frame = self.add_frame(owner, &graph, variables);
            let root = self.make_graph(owner, frame, &graph, 1, |parent, slug| {
                (parent.child(1, slug.as_str(), &key), format!("{slug}[{position}]"))
            });
            roots.push(root);
        }
        let is_whole = self.is_taken_over_whole(owner);
        for (root, earlier) in roots.iter().zip(earlier) {
            if let Some(earlier) = earlier {
                self.inherit(*root, earlier, is_whole);
            }
        }
        // Lanes instead of a counter: item n waits for item n - k, so at most k run and the order is fixed.
        if let Some(lanes) = for_each.concurrency.into_iter().chain(lanes).min() {
            self.keep_lanes(&roots, lanes);
        }
    }
}
