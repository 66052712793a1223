//! The seam of a compactor: whoever puts a summary better than it can be found without a model.

use std::fmt;

use async_trait::async_trait;
use folio_memory::ThreadKey;
use folio_memory::id::Ref;
use folio_memory::passage::{Part, PartRead};
use folio_memory::scratchbook::colony::name_of;

use super::{Block, Said, Workspace};
use crate::workspace::WorkspaceError;

/// Puts into words what was said. It has a [`Desk`] and nothing else: it cannot offload, write or start anything.
#[async_trait]
pub trait Compactor: Send + Sync + fmt::Debug {
    /// What the messages at the desk come to.
    ///
    /// It may fail, panic or take too long: then what was found without it stays.
    ///
    /// # Errors
    ///
    /// One line that says why not; it stands in the trace.
    async fn compact(&self, desk: &Desk) -> Result<Compacted, String>;
}

/// What a compactor says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// What the messages come to.
    pub summary: String,
    /// What is to be done next, a line for each.
    pub next_actions: Vec<String>,
}

/// What a compactor may read: the messages that were put away, and what stands for them so far.
#[derive(Debug)]
pub struct Desk {
    workspace: Workspace,
    thread: ThreadKey,
    block: Block,
}

impl Desk {
    pub(super) fn new(workspace: Workspace, thread: ThreadKey, block: Block) -> Self {
        Self {
            workspace,
            thread,
            block,
        }
    }

    /// What was put away just now.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Messages of the thread's history, by their numbers.
    ///
    /// # Errors
    ///
    /// As [`Workspace::said`].
    pub async fn said(&self, from: u64, to: u64) -> Result<Said, WorkspaceError> {
        self.workspace.said(&self.thread, from, to).await
    }

    /// The paths of what was put away just now, and of the thread's scratchbook, for [`Desk::read`].
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn paths(&self) -> Result<[String; 2], WorkspaceError> {
        let name = name_of(&self.thread).unwrap_or_else(|| self.thread.0.clone());
        let policy = self.workspace.policy().await?;
        let prefix = &policy.scratchbook.path_prefix;
        let block = format!("/conversation_history/{name}/{}-{}", self.block.from, self.block.to);
        Ok([block, format!("{prefix}/{name}.md")])
    }

    /// A part of one of the files of the space that a compactor may read: histories, scratchbooks, results, pages. At most
    /// `max_bytes` of it.
    ///
    /// # Errors
    ///
    /// As [`Workspace::read_file`].
    pub async fn read(&self, path: &str, part: &Part, max_bytes: usize) -> Result<PartRead, WorkspaceError> {
        self.workspace.read_file(path, part, max_bytes).await
    }

    /// The summary and the next actions that were found without a compactor.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn found(&self) -> Result<[String; 2], WorkspaceError> {
        let read = |handle| self.workspace.entry(Ref::Handle(handle));
        let (summary, next) = (read(self.block.summary).await?, read(self.block.next_actions).await?);
        Ok([summary.fields.body, next.fields.body])
    }
}
