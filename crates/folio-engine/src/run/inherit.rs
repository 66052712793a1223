//! What a list in a new plan need not do again: the items that an earlier version of it did well (E9.1, E9.8).
//!
//! A `for_each` with failed items is not among the steps that stay when a task is planned anew. Written again under the
//! same id with the same step, it is the same list, and the same item in it is the same child: what ended `ok` counts,
//! and only the rest is done. Its nodes are new, each with the result of the old one, so a reader of the tree sees both
//! versions as they were.

use std::collections::HashMap;

use serde_json::Value;

use super::due::Action;
use super::state::Run;
use super::tree::NodeKind;
use crate::event::Event;
use crate::node::NodeState;
use crate::plan::{self, Slug, Step};
use crate::result::{Evidence, NodeResult};

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
            return Some(*earlier);
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

    /// Lets node `new`, which was just created, inherit from node `old` of an earlier version: tasks in it that
    /// succeeded are not done again.
    pub(super) fn inherit(&mut self, new: usize, old: usize) {
        let mut pairs = vec![(new, old)];
        while let Some((new, old)) = pairs.pop() {
            let kind = self.nodes[new].kind;
            if kind != self.nodes[old].kind {
                continue;
            }
            match kind {
                NodeKind::Parallel | NodeKind::Sequence => {
                    let slug_of = |at: &usize| Slug::of(self.view(*at).slug());
                    for member in &self.nodes[new].children {
                        let mut others = self.nodes[old].children.iter();
                        let twin = others.find(|other| slug_of(other) == slug_of(member));
                        pairs.extend(twin.map(|twin| (*member, *twin)));
                    }
                }
                NodeKind::ForEach => drop(self.inherited.insert(new, old)),
                _ if self.nodes[old].is_ok() => {
                    self.ready.remove(&new);
                    self.inherited.insert(new, old);
                }
                _ => {}
            }
        }
    }

    /// Whether node `index` has not begun and need not, because it succeeded in an earlier version.
    pub(super) fn is_inherited(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        let is_new = node.state == NodeState::Created && node.agent.is_none() && node.cancel.is_none();
        is_new && node.kind != NodeKind::ForEach && self.inherited.contains_key(&index)
    }

    /// The events to record for nodes that need not be done again.
    pub(super) fn inheriting(&self) -> impl Iterator<Item = Action> {
        let due = self.inherited.iter().filter(|(new, _)| self.is_inherited(**new));
        due.filter_map(|(new, old)| {
            let old = &self.nodes[*old];
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
