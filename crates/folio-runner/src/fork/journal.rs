//! The journal of a fork: that of its source, rewritten and in the names of those who wrote it, with what kept calls wrote
//! on the pages of the source.

use std::collections::HashMap;

use folio_engine::run::ForkBuilder;
use folio_engine::{Event, projection};
use folio_memory::id::Ref;
use folio_memory::{Actor, Change, RunId, Timestamp};
use folio_store::{Commit, Giving, JOURNAL_PART_BYTES, LogRow, Record, RunAppend, StoreError, Workspace};

use super::LimitsOfNode;
use crate::error::RunnerError;
use crate::journal::CommitReader;
use crate::runner::Runner;

/// Approximate size of a change in bytes.
const CHANGE_BYTES: usize = 512;

/// The limits that a fork has from its beginning, and who set them.
pub(super) struct FirstLimits<'l> {
    pub(super) limits: &'l (dyn Fn(&folio_engine::Run) -> Vec<LimitsOfNode> + Sync),
    pub(super) by: String,
}

/// The journal of a run, to be rewritten for a fork.
pub(super) struct ForkJournal<'l> {
    pub(super) source: RunId,
    pub(super) forking: ForkBuilder,
    /// The change that begins its turn.
    pub(super) begins: Option<Change>,
    pub(super) title: Option<String>,
    pub(super) key: Option<String>,
    /// Whoever forks.
    pub(super) actor: Actor,
    pub(super) now: Timestamp,
    pub(super) limits: Option<FirstLimits<'l>>,
    pub(super) paused_by: Option<String>,
    /// What the runs are called from which something is copied.
    pub(super) origins: HashMap<RunId, String>,
}

/// What goes into one commit of the fork.
struct Part {
    writer: Writer,
    events: Vec<Event>,
    changes: Vec<Change>,
    bytes: usize,
}

/// In whose name a commit of the fork is made, and in which run it was done first if it is copied.
#[derive(Debug, Clone, PartialEq)]
struct Writer {
    actor: Actor,
    copied_from: Option<RunId>,
}

impl Part {
    fn of(writer: Writer) -> Self {
        Self {
            writer,
            events: Vec::new(),
            changes: Vec::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, event: Event, changes: Vec<Change>, copies: Vec<Change>) {
        let event_bytes = usize::try_from(event.bytes()).unwrap_or(usize::MAX);
        self.bytes = self
            .bytes
            .saturating_add(event_bytes)
            .saturating_add(changes.len() * CHANGE_BYTES);
        let copied_bytes: u64 = copies.iter().map(Change::bytes).sum();
        let copied_bytes = usize::try_from(copied_bytes).unwrap_or(usize::MAX);
        self.bytes = self.bytes.saturating_add(copied_bytes);
        self.events.push(event);
        self.changes.extend(changes);
        self.changes.extend(copies);
    }
}

impl ForkJournal<'_> {
    /// Sends the rewritten journal in commits of limited size, until the receiver wants no more. Each holds what one
    /// actor did: the fork itself is the caller's, and what is copied is of whoever did it.
    pub(super) async fn send_journal(mut self, runner: &Runner, sender: Giving) -> Result<(), RunnerError> {
        let workspace = runner.workspace();
        let run = self.forking.run().id();
        let unreadable = |source| RunnerError::Journal { run, source };
        let own = Writer {
            actor: self.actor.clone(),
            copied_from: None,
        };
        let mut part = Part::of(own.clone());
        part.changes.extend(self.begins.take());
        let mut commits = CommitReader::of(workspace, self.source);
        let bodies = runner.bodies();
        while !self.forking.is_over()
            && let Some(rows) = commits.next().await?
        {
            for row in rows {
                let writer = self.writer_of(&row);
                let mut writes = self.forking.writes_of_calls(row.record.changes);
                for event in row.record.run.map(|append| append.events).unwrap_or_default() {
                    if self.forking.is_over() {
                        break;
                    }
                    // The first event is not the source's, but the fork's own.
                    let is_of_another = !self.forking.is_empty() && part.writer != writer;
                    if (is_of_another || part.bytes >= JOURNAL_PART_BYTES)
                        && !self.send(workspace, &mut part, &writer, &sender).await?
                    {
                        return Ok(());
                    }
                    let Some(rewritten) = self.forking.rewrite_event(row.at, &event).map_err(unreadable)? else {
                        continue;
                    };
                    let changes = bodies
                        .with_outputs_loaded(self.forking.run(), |run| projection::changes(run, &rewritten))
                        .await?;
                    bodies.evict_excess(self.forking.run());
                    let copies = self.forking.copy_writes(&event, &mut writes);
                    part.add(rewritten, changes, copies);
                }
            }
        }
        let mut last = Vec::new();
        if let Some(FirstLimits { limits, by }) = self.limits.take() {
            let run = self.forking.run();
            for (node, limits) in limits(run) {
                last.push(run.change_limits(node, limits, &by, self.now)?);
            }
        }
        last.extend(self.paused_by.take().map(|by| Event::Paused { node: None, by }));
        if !last.is_empty() && part.writer != own && !self.send(workspace, &mut part, &own, &sender).await? {
            return Ok(());
        }
        for event in last {
            self.forking.add(&event).map_err(unreadable)?;
            let changes = projection::changes(self.forking.run(), &event);
            part.add(event, changes, Vec::new());
        }
        if self.send(workspace, &mut part, &own, &sender).await? {
            sender.end().await;
        }
        Ok(())
    }

    /// In whose name the fork has what is in `row`, a commit of the source. What was copied there was done elsewhere.
    fn writer_of(&self, row: &LogRow) -> Writer {
        Writer {
            actor: Actor {
                turn: self.actor.turn,
                run: self.actor.run,
                ..row.actor.clone()
            },
            copied_from: row.record.copied_from.or(Some(self.source)),
        }
    }

    /// Sends `part` and begins the next one, of `next`. Returns whether the receiver wants more.
    async fn send(
        &mut self,
        workspace: &Workspace,
        part: &mut Part,
        next: &Writer,
        sender: &Giving,
    ) -> Result<bool, RunnerError> {
        let Part {
            writer,
            events,
            changes,
            ..
        } = std::mem::replace(part, Part::of(next.clone()));
        if events.is_empty() {
            return Ok(true);
        }
        let reason = match writer.copied_from {
            Some(origin) => Some(format!("copied from {}", self.name_of(workspace, origin).await?)),
            None => None,
        };
        let title = self.title.take();
        let append = RunAppend {
            run: self.forking.run().id(),
            events,
            status: title.is_some().then(|| folio_engine::Run::RUNNING.to_owned()),
            title,
            so_far: Some(self.forking.run().summary()),
        };
        let commit = Commit {
            space: workspace.space().clone(),
            at: self.now,
            actor: writer.actor,
            idempotency_key: self.key.take(),
            expected: Vec::new(),
            record: Record {
                run: Some(append),
                reason,
                copied_from: writer.copied_from,
                ..Record::of(changes)
            },
            blobs: Vec::new(),
        };
        Ok(sender.give(commit).await)
    }

    /// The handle of `run`, or its id if nothing is left of it.
    async fn name_of(&mut self, workspace: &Workspace, run: RunId) -> Result<String, RunnerError> {
        if let Some(name) = self.origins.get(&run) {
            return Ok(name.clone());
        }
        let name = match workspace.store().run(workspace.space(), Ref::Id(run)).await {
            Ok(row) => row.handle.to_string(),
            Err(StoreError::NotFound { .. }) => run.to_string(),
            Err(error) => return Err(error.into()),
        };
        self.origins.insert(run, name.clone());
        Ok(name)
    }
}
