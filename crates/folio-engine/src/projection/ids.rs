//! The ids of the pages and entries of a run: each derives from the run, and from what the page or entry is about.

use folio_memory::{EntryId, PageId, RunId};

use crate::node::NodeId;
use crate::run::Run;

/// The workspace page of `run`: the root of its tree.
#[must_use]
pub fn workspace_page(run: RunId) -> PageId {
    page_of(run, &["workspace"])
}

/// The main scratchpad of `run`.
#[must_use]
pub fn main_page(run: RunId) -> PageId {
    page_of(run, &["main"])
}

/// The plan page of `run`.
#[must_use]
pub fn plan_page(run: RunId) -> PageId {
    page_of(run, &["plan"])
}

/// The report page of `run`; it exists once the run has ended, if its plan has a report.
#[must_use]
pub fn report_page(run: RunId) -> PageId {
    page_of(run, &["report"])
}

/// The summary page of the last iteration of `run` that has ended; before that, of the first. Each plan that replaces
/// another has a summary page of its own.
#[must_use]
pub fn summary_page(run: &Run) -> PageId {
    let root = NodeId::root(run.id());
    let ended = match run.node(root) {
        Some(root) if root.result.is_some() => root.plan_version,
        _ => run.replaced_plan_version(root),
    };
    iteration_summary_page(run.id(), ended.max(1))
}

/// The summary page of an iteration, counted from 1.
#[must_use]
pub fn iteration_summary_page(run: RunId, iteration: u32) -> PageId {
    page_of(run, &["summary", &iteration.to_string()])
}

/// The page that the work of `node` is written on: its branch if it is a task, otherwise the branch of the task around
/// it.
///
/// The page exists from the moment when the node begins.
#[must_use]
pub fn branch_page(run: &Run, node: NodeId) -> PageId {
    let mut at = run.node(node);
    while let Some(view) = at {
        match view.parent {
            None => break,
            Some(_) if view.kind.is_task() => return page_of_branch(run.id(), view.id),
            Some(parent) => at = run.node(parent),
        }
    }
    main_page(run.id())
}

/// The branch of the task `node` of `run`, which is not the root.
pub(crate) fn page_of_branch(run: RunId, node: NodeId) -> PageId {
    page_of(run, &["branch", &node.to_string()])
}

/// The page of `run` with the title `title`, which the calls of the run write: one, whichever call writes it first.
#[must_use]
pub fn note_page(run: RunId, title: &str) -> PageId {
    PageId::derived(&["note", &run.to_string(), title])
}

/// The id of the entry that a fork, `run`, has in place of `entry` of its source.
pub(crate) fn copied_entry(run: RunId, entry: EntryId) -> EntryId {
    entry_of(run, &["copied", &entry.to_string()])
}

/// The id of a page of `run`. It begins with the run's own time, so that a store keeps the pages of a run together; the
/// rest derives from `parts`.
fn page_of(run: RunId, parts: &[&str]) -> PageId {
    PageId::derived_at(run.made_at(), &[&[run.to_string().as_str()], parts].concat())
}

/// The entry with the answer to a question of `node`, by the name of its block.
pub(crate) fn answer_entry(run: RunId, block: &str, node: NodeId) -> EntryId {
    entry_of(run, &["log", &format!("{block}/{node}")])
}

/// The entry with the whole notes of a result of `node`, which its model gave in its `call`th answer.
pub(crate) fn notes_entry(run: RunId, call: u32, node: NodeId) -> EntryId {
    entry_of(run, &["log", &format!("{}/{node}", notes_block(call))])
}

/// The name of the block with these notes.
pub(super) fn notes_block(call: u32) -> String {
    format!("notes/{call}")
}

/// Like [`page_of`], for entries.
pub(super) fn entry_of(run: RunId, parts: &[&str]) -> EntryId {
    EntryId::derived_at(run.made_at(), &[&[run.to_string().as_str()], parts].concat())
}
