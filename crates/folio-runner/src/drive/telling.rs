//! What tasks that models do are told from memory before they begin, and when it is known; and what others are told of
//! a run that waits.

use std::sync::Arc;

use folio_engine::{Event, NodeId, Run};
use folio_memory::trace::WARNING;
use folio_memory::{Actor, Role, TraceNote};
use folio_store::workspace::Moment;

use super::Drive;
use crate::brief::{BriefReader, is_near};
use crate::error::RunnerError;
use crate::locks::WAIT_FOR_RUN;
use crate::outage::{Patience, is_outage};
use crate::pages::RunPages;

impl Drive {
    /// Reports that a call waits because another run writes the same, or that none waits any more: to whoever watches,
    /// and once to the trace.
    pub(super) fn report_held_up(&mut self, is_waiting: bool) {
        if !is_waiting && self.held_up.is_empty() {
            return;
        }
        let held_up = if is_waiting { self.locks.held_up() } else { None };
        let run = self.run.id();
        if let Some(held_up) = &held_up
            && self.held_up.insert(held_up.clone())
        {
            let workspace = &self.shared.workspace;
            let actor = Actor::new(Role::Planner, "runner").in_run(run);
            let note = TraceNote::new(workspace.now(), &actor, "run", WAIT_FOR_RUN);
            workspace.note(note.with_status(WARNING).with_detail(held_up.words()));
        }
        self.shared.waiting.send_if_modified(|waiting| match held_up {
            Some(held_up) => waiting.insert(run, held_up.clone()) != Some(held_up),
            None => waiting.remove(&run).is_some(),
        });
    }

    /// Briefs tasks in the commit that makes them due, if that can be. While the store is away it cannot: what was
    /// gathered is written first, and waits for the store.
    pub(super) async fn brief_ahead(&mut self, nodes: &[NodeId]) -> Result<bool, RunnerError> {
        match self.brief_all(nodes).await {
            Err(error) if is_outage(&error) && !self.pending_writes.batch.is_empty() => Ok(false),
            briefed => briefed,
        }
    }

    /// How long what is read to brief a task waits for the store: not at all if something was gathered that can be
    /// written first.
    fn patience_to_brief(&self) -> Patience {
        let is_ahead = !self.pending_writes.batch.is_empty();
        if is_ahead {
            self.patience.none()
        } else {
            self.patience.clone()
        }
    }

    /// Briefs tasks with what memory holds for them. Returns false if that is only known once the gathered batch is
    /// durable; then no task is briefed.
    pub(super) async fn brief_all(&mut self, nodes: &[NodeId]) -> Result<bool, RunnerError> {
        let shared = Arc::clone(&self.shared);
        // People are handed their task, and read memory themselves.
        let (person_nodes, nodes): (Vec<_>, Vec<_>) =
            nodes.iter().copied().partition(|node| self.run.is_for_person(*node));
        let make_event = |run: &Run, node, memory, book| Event::Briefed {
            node,
            memory,
            book,
            limits: run.share_of(node),
        };
        let mut briefed: Vec<Event> = person_nodes
            .into_iter()
            .map(|node| make_event(&self.run, node, String::new(), None))
            .collect();
        let Some(models) = shared.options.models.as_ref().filter(|_| !nodes.is_empty()) else {
            let is_all = nodes.is_empty();
            for event in briefed {
                self.record(event).await?;
            }
            return Ok(is_all);
        };
        let workspace = &shared.workspace;
        let is_near = nodes.iter().any(|node| is_near(&self.run, *node));
        if self.pending_writes.writes_memory() {
            return Ok(false);
        }
        let patience = self.patience_to_brief();
        let moment = patience.outlast(|| workspace.moment()).await?;
        if is_near && !self.has_pages(moment).await? {
            return Ok(false);
        }
        for node in nodes {
            let reader = BriefReader::of(models, &self.memory, self.run.executor_name(node));
            let Ok(pages) = reader.pages(self.pages.as_ref(), &self.run, node) else {
                return Ok(false);
            };
            let title = self
                .bodies
                .with_outputs_loaded(&self.run, |run| run.title(node))
                .await?;
            let read = || reader.memory(workspace, moment, &title, &pages);
            let memory = patience.outlast(read).await?;
            let read = || reader.book(workspace, moment, &memory);
            let book = patience.outlast(read).await?;
            briefed.push(make_event(&self.run, node, memory, book));
        }
        for event in briefed {
            self.record(event).await?;
        }
        Ok(true)
    }

    /// Ensures that the text about the run's pages is known with everything applied; false if that has to be durable
    /// first.
    async fn has_pages(&mut self, moment: Moment) -> Result<bool, RunnerError> {
        let shared = Arc::clone(&self.shared);
        let workspace = &shared.workspace;
        self.pages.take_if(|pages| !pages.is_current(moment));
        if self.pages.is_none() {
            if self.pending_writes.is_writing() {
                return Ok(false);
            }
            self.pending_writes.batch.described_changes = 0;
            let patience = self.patience_to_brief();
            let read = || RunPages::read(workspace, moment, &self.run);
            self.pages = patience.outlast(read).await?;
        }
        self.update_pages_text().await;
        Ok(self.pages.is_some() || self.pending_writes.batch.is_empty())
    }

    /// Adds the gathered changes to the text about the run's pages.
    pub(super) async fn update_pages_text(&mut self) {
        let batch = &mut self.pending_writes.batch;
        let Some(pages) = &mut self.pages else { return };
        let mut is_known = !batch.writes_memory;
        for change in batch.changes.iter().skip(batch.described_changes) {
            is_known = is_known
                && pages
                    .apply_change(&self.shared.workspace, &self.run, change)
                    .await
                    .is_ok();
        }
        batch.described_changes = batch.changes.len();
        if !is_known {
            self.pages = None;
        }
    }
}
