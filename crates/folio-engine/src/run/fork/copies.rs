//! What finished calls of the source wrote on its pages by themselves, for the pages of the fork. It does not follow from
//! the journal: the commits of the source have it.

use std::collections::HashMap;

use folio_memory::entry::EntryKind;
use folio_memory::{Change, NewEntry, NewPage, PageId, PageRole, RunId};
use serde_json::Value;

use super::ForkBuilder;
use crate::event::Event;
use crate::node::NodeId;
use crate::projection;
use crate::run::state::Run;
use crate::run::tree::Node;

/// The pages of the fork by the pages of the source in whose place they are.
#[derive(Debug)]
pub(super) struct PageMap {
    known: HashMap<PageId, PageId>,
    /// How many nodes were searched for branches.
    searched: usize,
}

impl PageMap {
    /// Of the run `old` and its fork `new`, without the branches.
    pub(super) fn of(old: RunId, new: RunId) -> Self {
        let standing = [projection::main_page, projection::plan_page, projection::workspace_page];
        Self {
            known: standing.into_iter().map(|page| (page(old), page(new))).collect(),
            searched: 0,
        }
    }
}

impl Run {
    /// The branch of this run, a fork, in place of `page`, which is the branch of a task of `origin`: that of the task
    /// that was created at the same place, since a fork creates the nodes that it keeps in the order of its source. For
    /// a task that came later in the source, it is the only branch with its path. `None` if there is none yet.
    #[must_use]
    pub fn branch_in_place_of(&self, origin: &Self, page: PageId) -> Option<PageId> {
        let is_its_branch = |node: &Node| projection::page_of_branch(origin.id(), node.id) == page;
        let at = origin.nodes.iter().position(is_its_branch)?;
        let path = &origin.nodes[at].path;
        let has_branch = |node: &&Node| node.path == *path && node.kind.is_task() && node.started_at.is_some();
        let kept = self.nodes.get(at).filter(|node| node.path == *path);
        let node = match kept {
            Some(kept) => Some(kept).filter(has_branch),
            None => {
                let mut all = self.nodes.iter().filter(has_branch);
                all.next().filter(|_| all.next().is_none())
            }
        };
        node.map(|node| projection::page_of_branch(self.id(), node.id))
    }
}

impl ForkBuilder {
    /// Those of `changes`, which a commit of the source has, that a fork repeats if it keeps the calls that made them:
    /// entries on pages of the source, and the pages that calls added for them.
    #[must_use]
    pub fn writes_of_calls(&self, changes: Vec<Change>) -> Vec<Change> {
        let is_of_call = |change: &Change| match change {
            Change::EnsurePage(page) => page.fields.role == PageRole::Note && page.fields.run == Some(self.source),
            Change::AddEntry(new) => {
                let fields = &new.fields;
                new.kind == EntryKind::Log && fields.source.run == Some(self.source) && fields.erased.is_none()
            }
            _ => false,
        };
        changes.into_iter().filter(is_of_call).collect()
    }

    /// The changes of the fork for what a call wrote when it ended with `event` of the source, which was just rewritten.
    /// Takes them from `writes`, those of the commit with the event ([`Self::writes_of_calls`]). What was written on
    /// pages that are not the source's stays the only one.
    pub fn copy_writes(&mut self, event: &Event, writes: &mut Vec<Change>) -> Vec<Change> {
        let (Event::Finished { node, .. } | Event::Proposed { node, .. } | Event::AttemptFailed { node, .. }) = event
        else {
            return Vec::new();
        };
        let is_of_node = |change: &mut Change| matches!(change, Change::AddEntry(new) if node_of(new) == Some(*node));
        let entries: Vec<Change> = writes.extract_if(.., is_of_node).collect();
        let mut copies = Vec::new();
        for change in entries {
            let Change::AddEntry(mut new) = change else { continue };
            if let Some(page) = note_page(writes, new.page) {
                let copy = self.copied_note_page(page);
                self.pages.known.insert(page.id, copy.id);
                copies.push(Change::EnsurePage(Box::new(copy)));
            }
            if let Some(page) = self.page_in_place_of(new.page) {
                new.page = page;
                self.rename_entry(&mut new, *node);
                copies.push(Change::AddEntry(new));
            }
        }
        copies
    }

    fn copied_note_page(&self, page: &NewPage) -> NewPage {
        let (id, mut fields) = (self.run.id(), page.fields.clone());
        fields.run = Some(id);
        fields.parent = Some(projection::workspace_page(id));
        NewPage {
            id: projection::note_page(id, &fields.title),
            fields,
        }
    }

    /// Makes `entry`, which a call of the node `old` wrote, one of the fork.
    fn rename_entry(&self, entry: &mut NewEntry, old: NodeId) {
        let run = self.run.id();
        entry.id = projection::copied_entry(run, entry.id);
        let source = &mut entry.fields.source;
        source.run = Some(run);
        source.node = self.names.known.get(&old).map(NodeId::to_string);
        let turn = self.run.variable().get("turn").and_then(Value::as_str);
        source.turn = turn.and_then(|turn| turn.parse().ok());
    }

    /// The page of the fork in place of the page `old` of the source; `None` if that is not a page of the source.
    fn page_in_place_of(&mut self, old: PageId) -> Option<PageId> {
        if let Some(page) = self.pages.known.get(&old) {
            return Some(*page);
        }
        let run = self.run.id();
        for (index, node) in self.run.nodes.iter().enumerate().skip(self.pages.searched) {
            if node.parent.is_some() && node.kind.is_task() {
                let before = projection::page_of_branch(self.source, self.names.old[index]);
                let page = projection::page_of_branch(run, node.id);
                self.pages.known.insert(before, page);
            }
        }
        self.pages.searched = self.run.nodes.len();
        self.pages.known.get(&old).copied()
    }
}

/// The page with the id `id`, if a call added it together with an entry.
fn note_page(writes: &[Change], id: PageId) -> Option<&NewPage> {
    writes.iter().find_map(|change| match change {
        Change::EnsurePage(page) if page.id == id => Some(&**page),
        _ => None,
    })
}

/// The node whose call wrote `entry`.
fn node_of(entry: &NewEntry) -> Option<NodeId> {
    entry.fields.source.node.as_deref()?.parse().ok()
}
