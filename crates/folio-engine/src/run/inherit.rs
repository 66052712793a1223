//! What a list in a new plan need not do again: the items that an earlier version of it did well (E9.1, E9.8).
//!
//! A `for_each` with failed items is not among the steps that stay when a task is planned anew. Written again under the
//! same id with the same step, it is the same list, and the same item in it is the same child: what ended `ok` counts,
//! and only the rest is done. Its nodes are new, each with the result of the old one, so a reader of the tree sees both
//! versions as they were.

use std::collections::HashMap;

use serde_json::Value;

use super::action::Action;
use super::state::Run;
use super::tree::NodeKind;
use crate::event::Event;
use crate::node::{NodeId, NodeState};
use crate::plan::{self, Slug, Step};
use crate::result::{Evidence, NodeResult};

/// What a node takes over from the node that an earlier version made for the same item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inherited {
    /// That node.
    from: usize,
    /// Whether everything that ended in it counts, not only what succeeded.
    is_whole: bool,
}

/// What a step of an item takes over.
#[derive(Debug, Clone, Copy)]
pub(super) enum TakenOver {
    /// Nothing: it is done, or it is a group, whose members say what they take over.
    Nothing,
    /// The result.
    Result(Inherited),
    /// The results of the same items.
    Items(Inherited),
}

impl Run {
    /// For each of `items` of the list `index`, the child that the previous version of the list made for the same item;
    /// `None` if there is no such version.
    pub(super) fn earlier_items(&self, index: usize, items: &[Value]) -> Vec<Option<usize>> {
        let Some(earlier) = self.earlier_list(index) else {
            return vec![None; items.len()];
        };
        // Among equal items, the second one corresponds to the second one before.
        let mut known: HashMap<String, Vec<usize>> = HashMap::new();
        for child in self.nodes[earlier].children.iter().rev() {
            let frame = self.nodes[*child].frame;
            if let Some((_, item)) = frame.and_then(|frame| self.frames[frame].variables.first()) {
                known.entry(item.to_string()).or_default().push(*child);
            }
        }
        let take_earlier = |item: &Value| known.get_mut(&item.to_string()).and_then(Vec::pop);
        items.iter().map(take_earlier).collect()
    }

    /// The list `index` in the version of its plan that last began it, if it did not succeed and is the same list.
    fn earlier_list(&self, index: usize) -> Option<usize> {
        // A list inside the body of another list.
        if let Some(earlier) = self.inherited.get(&index) {
            return Some(earlier.from);
        }
        let frame = self.nodes[index].frame?;
        let owner = self.frames[frame].owner;
        self.nodes[owner].plan.as_ref().filter(|plan| plan.version > 1)?;
        let slug = Slug::of(self.view(index).slug());
        let earlier = self.frames[..frame].iter().enumerate().rev();
        let mut begun_lists = earlier
            .filter(|(_, earlier)| earlier.owner == owner)
            .filter_map(|(at, earlier)| {
                let list = *earlier.by_slug.get(&slug)?;
                self.nodes[list].started_at.is_some().then_some((at, list))
            });
        let (before, earlier) = begun_lists.next()?;
        // A list that succeeded stays without being written again: a plan that writes it again wants it done again.
        (!self.nodes[earlier].is_ok() && self.is_same_list(index, frame, earlier, before)).then_some(earlier)
    }

    /// Whether the lists `new` in `frame` and `old` in the frame `before` do the same for each item and read the same
    /// results for it.
    fn is_same_list(&self, new: usize, frame: usize, old: usize, before: usize) -> bool {
        let (Some(Step::ForEach(new)), Some(Step::ForEach(old))) = (&self.nodes[new].step, &self.nodes[old].step)
        else {
            return false;
        };
        let find_step = |frame: usize, name: &str| {
            let slug = Slug::parse(name).ok()?;
            self.frames[frame].by_slug.get(&slug).copied()
        };
        let reads = plan::results_read_by_body(new);
        new.body == old.body
            && new.item_name == old.item_name
            && reads
                .iter()
                .all(|name| find_step(frame, name) == find_step(before, name))
    }

    /// What the steps of an item take over from the item whose root is `old`, by their places in its graph.
    ///
    /// In a group that succeeded, everything that ended counts, also what failed or was stopped without harm. Otherwise
    /// a task that succeeded counts unless it waited for something that is done again: it may have read that.
    pub(super) fn taken_over(&self, old: usize, is_whole: bool) -> Vec<TakenOver> {
        let Some(frame) = self.nodes[old].frame.map(|frame| &self.frames[frame]) else {
            return Vec::new();
        };
        let steps = || frame.graph.nodes.iter().zip(&frame.nodes);
        let mut is_in_success: Vec<bool> = Vec::with_capacity(frame.nodes.len());
        for (planned, old) in steps() {
            let is_around = planned.parent.map_or(is_whole, |parent| is_in_success[parent]);
            let is_group = self.nodes[*old].kind.is_group();
            is_in_success.push(is_around || is_group && self.nodes[*old].is_ok());
        }
        let counts = |at: usize| {
            let node = &self.nodes[frame.nodes[at]];
            node.is_ok() || is_in_success[at] && node.result.is_some()
        };
        // What waits for a step that is done again is done again, and so on. A step may wait for a later one.
        let mut is_kept: Vec<bool> = (0..frame.nodes.len()).map(counts).collect();
        let mut is_free = vec![true; frame.nodes.len()];
        loop {
            let mut changes = false;
            for (at, (planned, _)) in steps().enumerate() {
                let parent = planned.parent;
                let is_in_whole = parent.map_or(is_whole, |parent| is_in_success[parent]);
                let waits_for_kept = || planned.waits.iter().all(|wait| is_kept[*wait]);
                let may = parent.is_none_or(|parent| is_free[parent]) && (is_in_whole || waits_for_kept());
                changes |= is_free[at] && !may;
                is_free[at] &= may;
                is_kept[at] &= may;
            }
            if !changes {
                break;
            }
        }
        let take = |(at, old): (usize, &usize)| match self.nodes[*old].kind {
            _ if !is_free[at] => TakenOver::Nothing,
            NodeKind::Parallel | NodeKind::Sequence => TakenOver::Nothing,
            NodeKind::ForEach => TakenOver::Items(Inherited {
                from: *old,
                is_whole: is_kept[at],
            }),
            _ if is_kept[at] => TakenOver::Result(Inherited {
                from: *old,
                is_whole: true,
            }),
            _ => TakenOver::Nothing,
        };
        frame.nodes.iter().enumerate().map(take).collect()
    }

    /// Lets the item with the root `new`, which was just created, inherit from the item with the root `old` of an
    /// earlier version: what succeeded is not done again.
    pub(super) fn inherit(&mut self, new: usize, old: usize, is_whole: bool) {
        let Some(frame) = self.nodes[new].frame else { return };
        let nodes = self.frames[frame].nodes.clone();
        for (new, taken_over) in nodes.into_iter().zip(self.taken_over(old, is_whole)) {
            match taken_over {
                TakenOver::Nothing => {}
                TakenOver::Items(inherited) => drop(self.inherited.insert(new, inherited)),
                TakenOver::Result(inherited) => {
                    self.ready.remove(&new);
                    self.inherited.insert(new, inherited);
                }
            }
        }
    }

    /// Whether everything in the list `index` counts that ended in the version before.
    pub(super) fn is_taken_over_whole(&self, index: usize) -> bool {
        self.inherited.get(&index).is_some_and(|inherited| inherited.is_whole)
    }

    /// Whether node `index` has not begun and need not, because it succeeded in an earlier version.
    pub(super) fn is_inherited(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        let is_new = node.state == NodeState::Created && node.agent.is_none() && node.cancel.is_none();
        is_new && node.kind != NodeKind::ForEach && self.inherited.contains_key(&index)
    }

    /// The node of an earlier version of its plan that did node `id`, which takes over everything from there, maybe by
    /// way of versions in between; `None` if something of it is still to be done.
    pub(super) fn took_over(&self, id: NodeId) -> Option<NodeId> {
        let index = self.index(id).ok()?;
        let did_it = self.source_of(index);
        (did_it != index).then(|| self.nodes[did_it].id)
    }

    /// The node that did what node `index` has: itself, unless it took over everything from an earlier version of its
    /// plan.
    pub(super) fn source_of(&self, index: usize) -> usize {
        let sources = std::iter::successors(Some(index), |at| self.taken_over_from(*at));
        sources.last().unwrap_or(index)
    }

    /// Notes that node `index` ended: what it took over is known from then on only to whoever asks who did it.
    pub(super) fn end_inheriting(&mut self, index: usize) {
        if let Some(inherited) = self.inherited.remove(&index).filter(|inherited| inherited.is_whole) {
            self.ended_inherited.insert(index, inherited.from);
        }
    }

    fn taken_over_from(&self, index: usize) -> Option<usize> {
        if let Some(from) = self.ended_inherited.get(&index) {
            return Some(*from);
        }
        let node = &self.nodes[index];
        if let Some(inherited) = self.inherited.get(&index) {
            return inherited.is_whole.then_some(inherited.from);
        }
        // A group takes over what all of its members do.
        let mut members = node.children.iter().map(|member| self.taken_over_from(*member));
        let first = members.next().filter(|_| node.kind.is_group())??;
        members.all(|from| from.is_some()).then(|| self.nodes[first].parent)?
    }

    /// The events to record for nodes that need not be done again.
    pub(super) fn inheriting(&self) -> impl Iterator<Item = Action> {
        // What failed comes last: before anything has succeeded, its group would stop the rest.
        let succeeded = |inherited: &Inherited| self.nodes[inherited.from].is_ok();
        let all = self.inherited.iter();
        let first = all.clone().filter(move |(_, inherited)| succeeded(inherited));
        let last = all.filter(move |(_, inherited)| !succeeded(inherited));
        let due = first.chain(last).filter(|(new, _)| self.is_inherited(**new));
        due.filter_map(|(new, inherited)| {
            let old = &self.nodes[inherited.from];
            let result = old.result.as_ref()?;
            let from = Evidence {
                kind: "node".to_owned(),
                id: old.id.to_string(),
                hash: None,
                span: None,
            };
            let is_other = |evidence: &&Evidence| **evidence != from;
            let evidence = result.evidence.iter().filter(is_other).cloned();
            Some(Action::Record(Event::Finished {
                node: self.nodes[*new].id,
                result: Box::new(NodeResult {
                    evidence: std::iter::once(from.clone()).chain(evidence).collect(),
                    attempts: 0,
                    duration_us: 0,
                    ..result.clone()
                }),
            }))
        })
    }
}
