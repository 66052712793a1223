//! Pages: the nodes of the tree that people read (seed 000).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::{ImportedTimes, Owner, Tag};
use crate::id::{PageHandle, PageId, RunId, Seq};
use crate::space::{SpaceName, ThreadKey};
use crate::time::Timestamp;
use crate::{evict, observation, offload, scratchbook};

/// What a page is for. Seed 000 calls it `doc_role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PageRole {
    /// The root of a run's tree.
    Workspace,
    /// The main scratchpad: the planner's log and roll-ups.
    ScratchpadRoot,
    /// The branch of one task: what its executor does and finds.
    ScratchpadExec,
    /// The steps of the plan.
    Plan,
    /// The summary of one iteration.
    IterationSummary,
    /// The observations of the space (seed 002).
    ScratchPage,
    /// Notes, todos, tasks and pins of one thread (seed 003).
    Scratchbook,
    /// Tool results that were too large for a prompt (M7.8 V9).
    ToolResults,
    /// The messages of a thread that are no longer in its prompt (M7.8 V8).
    History,
    /// Anything else that somebody wrote down: findings, a report.
    Note,
}

impl PageRole {
    /// Every role, in the order of the data model.
    pub const ALL: [Self; 10] = [
        Self::Workspace,
        Self::ScratchpadRoot,
        Self::ScratchpadExec,
        Self::Plan,
        Self::IterationSummary,
        Self::ScratchPage,
        Self::Scratchbook,
        Self::ToolResults,
        Self::History,
        Self::Note,
    ];

    /// Whether each space or thread has exactly one such page, which comes into being with its first entry.
    #[must_use]
    pub fn is_standing(self) -> bool {
        matches!(
            self,
            Self::ScratchPage | Self::Scratchbook | Self::ToolResults | Self::History
        )
    }

    /// The role's name in its written and stored form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::ScratchpadRoot => "scratchpad_root",
            Self::ScratchpadExec => "scratchpad_exec",
            Self::Plan => "plan",
            Self::IterationSummary => "iteration_summary",
            Self::ScratchPage => "scratch_page",
            Self::Scratchbook => "scratchbook",
            Self::ToolResults => "tool_results",
            Self::History => "history",
            Self::Note => "note",
        }
    }

    /// Parses a name that [`Self::as_str`] returns.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// The type key of seed 000. Roles that the seed does not know follow its pattern.
    #[must_use]
    pub fn type_key(self) -> &'static str {
        match self {
            Self::Workspace => "document.homework.workspace",
            Self::ScratchpadRoot => "document.homework.scratchpad.root",
            Self::ScratchpadExec => "document.homework.scratchpad.exec",
            Self::Plan => "document.homework.plan",
            Self::IterationSummary => "document.homework.summary.iteration",
            Self::ScratchPage => "document.scratch_page",
            Self::Scratchbook => "document.scratchbook",
            Self::ToolResults => "document.tool_results",
            Self::History => "document.history",
            Self::Note => "document.homework.note",
        }
    }
}

impl fmt::Display for PageRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The only page of `role` in `space` or in its thread `thread`; `None` for roles that can have any number of pages.
#[must_use]
pub fn standing(space: &SpaceName, role: PageRole, thread: Option<&ThreadKey>) -> Option<(PageId, PageFields)> {
    let of_thread = || thread.cloned().unwrap_or_default();
    match role {
        PageRole::ScratchPage => Some(observation::page_of(space)),
        PageRole::Scratchbook => Some(scratchbook::page_of(space, &of_thread())),
        PageRole::ToolResults => Some(evict::page_of(space)),
        PageRole::History => Some(offload::page_of(space, &of_thread())),
        _ => None,
    }
}

/// What a page carries besides its identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageFields {
    /// What the page is for.
    pub role: PageRole,
    /// The page's title.
    pub title: String,
    /// The page that contains this one (`document_has_document`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<PageId>,
    /// The thread that the page belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadKey>,
    /// The run that the page belongs to (`homework_run_id`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The branch, as the path of task slugs from the root: `survey/hot-files/look-inside`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<String>,
    /// The iteration of the plan in which the page was made, from 1. The main scratchpad and the plan page of a run stay
    /// from one iteration to the next: theirs is the one that is being carried out, or was last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// Who writes the page.
    pub owner: Owner,
    /// Tags to find the page by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// `open` while the page is written to; afterwards the outcome of the work (`ok`, `failed` …).
    pub status: String,
    /// Any other properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub props: Option<Value>,
    /// The page's original times if it was brought in; `None` if it was made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<ImportedTimes>,
}

impl PageFields {
    /// Creates the fields of a page of `role` with the given title, without parent, run or thread.
    #[must_use]
    pub fn new(role: PageRole, title: impl Into<String>, owner: Owner) -> Self {
        Self {
            role,
            title: title.into(),
            parent: None,
            thread: None,
            run: None,
            branch_id: None,
            iteration: None,
            owner,
            tags: Vec::new(),
            status: "open".to_owned(),
            props: None,
            brought: None,
        }
    }

    /// Whether ensuring such a page begins a further iteration on a page that stays from one to the next.
    #[must_use]
    pub fn names_next_iteration(&self) -> bool {
        let stays = matches!(self.role, PageRole::ScratchpadRoot | PageRole::Plan);
        stays && self.run.is_some() && self.iteration.is_some_and(|iteration| iteration > 1)
    }
}

/// A page in its current form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page {
    /// The page's permanent id.
    pub id: PageId,
    /// The page's handle in its space.
    pub handle: PageHandle,
    /// Counts the changes to the page's own fields, from 1. Changes of its entries do not count.
    pub version: u32,
    /// When the page was added.
    pub created_at: Timestamp,
    /// When the page's own fields last changed.
    pub updated_at: Timestamp,
    /// The commit that added the page.
    pub created_seq: Seq,
    /// What the page carries.
    pub fields: PageFields,
}
