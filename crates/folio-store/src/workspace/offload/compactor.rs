//! The interface of a compactor, which writes a better summary than can be made without a model.

use std::fmt;

use async_trait::async_trait;
use folio_memory::ThreadKey;
use folio_memory::id::Ref;
use folio_memory::offload::without_carried;
use folio_memory::passage::{Part, PartRead};
use folio_memory::scratchbook::colony::name_of;

use super::{Block, Said, Workspace};
use crate::workspace::WorkspaceError;

/// Summarizes messages. It has a [`Desk`] and nothing else: it cannot offload, write or start anything.
#[async_trait]
pub trait Compactor: Send + Sync + fmt::Debug {
    /// Summarizes the messages at the desk.
    ///
    /// It may fail, panic or take too long: then the summary made without it stays.
    ///
    /// # Errors
    ///
    /// One line that says why not; it is kept in the trace.
    async fn compact(&self, desk: &Desk) -> Result<Compacted, String>;
}

/// What a compactor returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The summary of the messages.
    pub summary: String,
    /// The next actions, one line for each.
    pub next_actions: Vec<String>,
}

/// What a compactor may read: the messages that were put away, and their present summary.
#[derive(Debug)]
pub struct Desk {
    workspace: Workspace,
    thread: ThreadKey,
    block: Block,
    before: String,
    summary_tokens: u32,
    task: Option<String>,
}

impl Desk {
    /// The short name of the file with the messages that were just put away, for [`Desk::read`].
    pub const MESSAGES: &'static str = "messages";
    /// The short name of the file with the thread's scratchbook.
    pub const SCRATCHBOOK: &'static str = "scratchbook";

    pub(super) fn new(workspace: Workspace, thread: ThreadKey, block: Block) -> Self {
        Self {
            workspace,
            thread,
            block,
            before: String::new(),
            summary_tokens: u32::MAX,
            task: None,
        }
    }

    pub(super) fn with(self, before: String, summary_tokens: u32, task: Option<String>) -> Self {
        Self {
            before,
            summary_tokens,
            task,
            ..self
        }
    }

    /// What a compactor wrote about the messages before these; empty if none did. The new summary takes its place, so
    /// it has to say what still holds of it.
    #[must_use]
    pub fn before(&self) -> &str {
        &self.before
    }

    /// How many tokens of the summary the message has room for that stands in for the messages. What is longer is kept,
    /// but shown shortened. The rules that the user said are added to the summary, and are not counted here.
    #[must_use]
    pub fn summary_tokens(&self) -> u32 {
        self.summary_tokens
    }

    /// The task that the conversation is about, if its messages do not say it.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// The block that was just put away.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Returns messages of the thread's history, by their numbers.
    ///
    /// # Errors
    ///
    /// As [`Workspace::said`].
    pub async fn said(&self, from: u64, to: u64) -> Result<Said, WorkspaceError> {
        self.workspace.said(&self.thread, from, to).await
    }

    /// The paths of the block that was just put away and of the thread's scratchbook, for [`Desk::read`].
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

    /// Reads a part of one of the files of the space that a compactor may read: histories, scratchbooks, results,
    /// pages. At most `max_bytes` of it. [`Desk::MESSAGES`] and [`Desk::SCRATCHBOOK`] are the names of two of them.
    ///
    /// # Errors
    ///
    /// As [`Workspace::read_file`].
    pub async fn read(&self, path: &str, part: &Part, max_bytes: usize) -> Result<PartRead, WorkspaceError> {
        let [messages, scratchbook] = self.paths().await?;
        let path = match path.trim().trim_start_matches('/') {
            Self::MESSAGES => &messages,
            Self::SCRATCHBOOK => &scratchbook,
            _ => path,
        };
        self.workspace.read_file(path, part, max_bytes).await
    }

    /// The summary of these messages and the next actions that were made without a compactor; the latter are empty if
    /// there are none.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn found(&self) -> Result<[String; 2], WorkspaceError> {
        let read = |handle| self.workspace.entry(Ref::Handle(handle));
        let summary = without_carried(&read(self.block.summary).await?.fields.body);
        let next = match self.block.next_actions {
            Some(next) => read(next).await?.fields.body,
            None => String::new(),
        };
        Ok([summary, next])
    }
}
