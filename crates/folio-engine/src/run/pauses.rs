//! What becomes of pauses when another version of a plan takes the place of the one that they are in (E9.14).
//!
//! A paused part is found again by its name: a step by its id, an item of a list by what it is. Steps of a sub-plan and
//! items do not exist before the step around them begins, so their pauses wait for that.

use std::collections::HashMap;

use serde_json::Value;

use super::state::Run;
use super::tree::NodeKind;
use crate::plan::Slug;

/// A part of a plan that is paused, or in which something is, and that another version takes the place of.
#[derive(Debug, Clone)]
pub(super) struct PausedPart {
    name: PartName,
    is_paused: bool,
    /// The names of the steps inside it, if it is a group, which stand for it if the next plan has no group of its name.
    members: Vec<Slug>,
    /// What is paused in the plan or the list that it is.
    inside: Vec<Self>,
}

/// How a part is found in what takes the place of the plan or the list around it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PartName {
    Step(Slug),
    /// The key of an item: the same item is the same child (E9.1).
    Item(String),
}

/// The keys of the items of one list. Two equal items are two children: a count tells the second apart.
#[derive(Debug, Default)]
pub(super) struct ItemKeys {
    seen: HashMap<String, u32>,
}

impl ItemKeys {
    /// The key of the next item.
    pub(super) fn key_of(&mut self, item: &Value) -> String {
        let canonical = item.to_string();
        let count = self.seen.entry(canonical.clone()).and_modify(|n| *n += 1).or_insert(0);
        if *count == 0 {
            canonical
        } else {
            format!("{canonical}#{count}")
        }
    }
}

impl Run {
    /// The paused parts of `steps`, which are steps of one plan, and of their groups.
    pub(super) fn paused_parts(&self, steps: &[usize]) -> Vec<PausedPart> {
        let (mut parts, mut rest) = (Vec::new(), steps.to_vec());
        if self.paused == 0 && self.pauses_to_come.is_empty() {
            return parts;
        }
        while let Some(at) = rest.pop() {
            let (is_paused, inside) = (self.nodes[at].paused, self.paused_inside(at));
            if is_paused || !inside.is_empty() {
                parts.push(PausedPart {
                    name: PartName::Step(Slug::of(self.view(at).slug())),
                    is_paused,
                    members: self.names_in_group(at),
                    inside,
                });
            }
            rest.extend(self.group_members(at));
        }
        parts
    }

    /// What is paused in the plan or the list that node `index` is, or will be once it begins.
    fn paused_inside(&self, index: usize) -> Vec<PausedPart> {
        let node = &self.nodes[index];
        if let Some(to_come) = self.pauses_to_come.get(&index) {
            return to_come.clone();
        }
        match (&node.plan, node.kind) {
            (Some(plan), _) => self.paused_parts(&plan.members),
            (None, NodeKind::ForEach) => self.paused_items(&node.children),
            _ => Vec::new(),
        }
    }

    /// The paused parts of the items of one list, whose roots these are.
    fn paused_items(&self, roots: &[usize]) -> Vec<PausedPart> {
        let mut keys = ItemKeys::default();
        let mut parts = Vec::new();
        for root in roots {
            let frame = self.nodes[*root].frame.map(|frame| &self.frames[frame]);
            let Some((_, item)) = frame.and_then(|frame| frame.variables.first()) else {
                continue;
            };
            let key = keys.key_of(item);
            let mut inside = self.paused_inside(*root);
            inside.extend(self.paused_parts(&self.group_members(*root)));
            let is_paused = self.nodes[*root].paused;
            if is_paused || !inside.is_empty() {
                parts.push(PausedPart {
                    name: PartName::Item(key),
                    is_paused,
                    members: Vec::new(),
                    inside,
                });
            }
        }
        parts
    }

    fn group_members(&self, index: usize) -> Vec<usize> {
        if self.nodes[index].kind.is_group() {
            self.nodes[index].children.clone()
        } else {
            Vec::new()
        }
    }

    /// The names of all steps in the group `index`, and in its groups.
    fn names_in_group(&self, index: usize) -> Vec<Slug> {
        let (mut names, mut rest) = (Vec::new(), self.group_members(index));
        while let Some(member) = rest.pop() {
            names.push(Slug::of(self.view(member).slug()));
            rest.extend(self.group_members(member));
        }
        names
    }

    /// Pauses the steps of the plan in `frame` that take the place of the paused `parts`, wherever in it they are now:
    /// whoever edits a paused step, or plans anew around it, does not let it continue (E9.14).
    pub(super) fn inherit_pauses(&mut self, frame: usize, parts: Vec<PausedPart>) {
        for part in parts {
            let by_slug = &self.frames[frame].by_slug;
            let PartName::Step(slug) = &part.name else { continue };
            match by_slug.get(slug).copied() {
                Some(step) => self.inherit_pause(step, part),
                None if part.is_paused => {
                    let members = part.members.iter().filter_map(|slug| by_slug.get(slug).copied());
                    for member in members.collect::<Vec<_>>() {
                        self.pause_if_open(member);
                    }
                }
                None => {}
            }
        }
    }

    /// Pauses node `index`, which takes the place of `part`, or what it has of it.
    fn inherit_pause(&mut self, index: usize, part: PausedPart) {
        if part.is_paused {
            self.pause_if_open(index);
        }
        if part.inside.is_empty() || self.nodes[index].is_terminal() || self.is_inherited(index) {
            return;
        }
        match self.nodes[index].frame {
            // Its members exist already.
            Some(frame) if self.nodes[index].kind.is_group() => self.inherit_pauses(frame, part.inside),
            _ => drop(self.pauses_to_come.insert(index, part.inside)),
        }
    }

    /// Pauses node `index`, unless it has ended or need not begin.
    fn pause_if_open(&mut self, index: usize) {
        if !self.nodes[index].is_terminal() && !self.is_inherited(index) {
            self.set_paused(index, true);
            self.took_over_pause.insert(index);
        }
    }

    /// The pauses that waited for node `index` to begin: its parts exist from now on.
    pub(super) fn take_pauses_to_come(&mut self, index: usize) -> Vec<PausedPart> {
        self.pauses_to_come.remove(&index).unwrap_or_default()
    }

    /// Pauses the items of the list `index` that were paused in the list that it takes the place of.
    pub(super) fn inherit_pauses_of_items(&mut self, index: usize, items: &[Value]) {
        let parts = self.take_pauses_to_come(index);
        if parts.is_empty() {
            return;
        }
        let mut keys = ItemKeys::default();
        let keys = items.iter().map(|item| keys.key_of(item));
        let roots: HashMap<String, usize> = keys.zip(self.nodes[index].children.iter().copied()).collect();
        for part in parts {
            if let PartName::Item(key) = &part.name
                && let Some(root) = roots.get(key)
            {
                self.inherit_pause(*root, part);
            }
        }
    }
}
