//! Queries about runs.

use std::time::Duration;

use folio_engine::{Run, projection};
use folio_memory::Page;
use folio_memory::id::{PageRef, Ref, RunId, RunRef};
use folio_store::workspace::{TraceEntry, TraceQuery};
use folio_store::{RunQuery, RunRow, StoreError, WorkspaceError};

use crate::error::RunnerError;
use crate::folded::Folded;
use crate::locks::{HeldUp, WAIT_FOR_RUN};
use crate::runner::Runner;
use crate::watch::Watch;

/// How many runs are queried at a time.
const RUNS_PER_QUERY: u32 = 500;
/// How many notes of a run are searched for the run that it waits for.
const MAX_NOTES: usize = 10;
/// How many parts of the trace are searched for them.
const MAX_TRACE_PARTS: usize = 20;
/// How long somebody who looks for unfinished runs waits for one that is just being given up.
const GIVE_UP_TIME_MAX: Duration = Duration::from_secs(5);

impl Runner {
    /// Follows `run` live, from its beginning, whoever drives it.
    #[must_use]
    pub fn watch(&self, run: RunId) -> Watch {
        self.shared.watch(run)
    }

    /// What a call of `run` waits for, if the run is driven here: a call of another run that writes the same resource.
    /// Returns as soon as that differs from `known`.
    pub async fn held_up(&self, run: RunId, known: Option<&HeldUp>) -> Option<HeldUp> {
        let mut waiting = self.shared.waiting.subscribe();
        loop {
            let held_up = waiting.borrow_and_update().get(&run).cloned();
            if held_up.as_ref() != known {
                return held_up;
            }
            if waiting.changed().await.is_err() {
                // The sender lives as long as the runner.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why `run`, which is driven here, waits for its store: it has something that would be lost if it were given up.
    /// `None` if it does not wait. Returns as soon as that differs from `known`.
    pub async fn store_outage(&self, run: RunId, known: Option<&str>) -> Option<String> {
        let mut outages = self.shared.outages.subscribe();
        loop {
            let outage = outages.borrow_and_update().get(&run).cloned();
            if outage.as_deref() != known {
                return outage;
            }
            if outages.changed().await.is_err() {
                // The sender lives as long as the runner.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why runs that are driven here, in whichever space, wait for their store, and how many do; `None` if none does.
    #[must_use]
    pub fn waiting_for_store(&self) -> Option<(usize, String)> {
        let outages = self.shared.outages.borrow();
        let reason = outages.values().next()?;
        Some((outages.len(), reason.clone()))
    }

    /// What a call of the run of `row` waits for, whoever drives it, and the row of the other run, whose call writes
    /// the same resource. For a run that another process drives, it is the last note in the trace, as long as nothing
    /// happened in the run since and the other run has not ended.
    ///
    /// # Errors
    ///
    /// `Store`.
    pub async fn held_up_now(&self, row: &RunRow) -> Result<Option<(HeldUp, RunRow)>, RunnerError> {
        if row.has_ended() || !row.driven {
            return Ok(None);
        }
        let workspace = &self.shared.workspace;
        if self.shared.held.is_driving(row.id) {
            let held_up = self.shared.waiting.borrow().get(&row.id).cloned();
            let Some(held_up) = held_up else { return Ok(None) };
            let by = workspace.run(Ref::Id(held_up.by)).await?;
            return Ok(Some((held_up, by)));
        }
        let query = TraceQuery {
            run: Some(RunRef::Id(row.id)),
            component: Some("run".to_owned()),
            limit: MAX_NOTES,
            ..TraceQuery::default()
        };
        let mut recent_note = None;
        // The first part is the latest; others may have written much since.
        let mut query = Some(query);
        for _ in 0..MAX_TRACE_PARTS {
            let Some(asked) = query.take() else { break };
            let part = workspace.trace_part(asked.clone()).await?;
            let is_waiting = |note: &&TraceEntry| note.operation == WAIT_FOR_RUN && note.at >= row.updated_at;
            recent_note = part.lines.iter().rfind(is_waiting).cloned();
            if part.lines.is_empty() {
                query = part.next.map(|next| TraceQuery {
                    cursor: Some(next),
                    ..asked
                });
            }
        }
        let Some(held_up) = recent_note.and_then(|note| HeldUp::from_words(note.detail.as_ref()?["text"].as_str()?))
        else {
            return Ok(None);
        };
        let by = workspace.run(Ref::Id(held_up.by)).await?;
        Ok((!by.has_ended()).then_some((held_up, by)))
    }

    /// The run as its journal describes it now. It is cached for a minute, and a repeated call in that time pays only
    /// for what happened since.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn load(&self, run: RunId) -> Result<Folded, RunnerError> {
        self.shared.folded(run).await
    }

    /// The page as markdown. The main page of a run that goes on also lists [what people are
    /// asked](Self::waiting_section).
    ///
    /// # Errors
    ///
    /// `Store`; of kind `NotFound` if there is no such page.
    pub async fn page_markdown(&self, page: PageRef) -> Result<String, RunnerError> {
        let workspace = &self.shared.workspace;
        let mut markdown = workspace.page_markdown(page).await?;
        markdown.push_str(&self.waiting_section(&workspace.page(page).await?).await?);
        Ok(markdown)
    }

    /// What people are asked at the moment in the run whose main page `page` is, as a section of markdown to follow the
    /// page; empty if nothing is asked. It is read from the run, so it is gone once it is answered. If the journal
    /// cannot be read, it is empty, too.
    ///
    /// # Errors
    ///
    /// `Store`.
    pub async fn waiting_section(&self, page: &Page) -> Result<String, RunnerError> {
        let workspace = &self.shared.workspace;
        let Some(run) = page.fields.run.filter(|run| projection::main_page(*run) == page.id) else {
            return Ok(String::new());
        };
        match workspace.run(Ref::Id(run)).await {
            Ok(row) if !row.has_ended() => {}
            Ok(_) => return Ok(String::new()),
            // The page was imported, and its run was left behind; or the run was forgotten.
            Err(WorkspaceError::Store(StoreError::NotFound { .. } | StoreError::RunForgotten { .. })) => {
                return Ok(String::new());
            }
            Err(error) => return Err(error.into()),
        }
        let section = match self.load(run).await {
            Ok(run) => projection::waiting_section(&run, workspace.now()),
            Err(RunnerError::Journal { .. }) => String::new(),
            Err(error) => return Err(error),
        };
        Ok(if section.is_empty() {
            section
        } else {
            format!("\n{section}")
        })
    }

    /// The run with its row as of one moment: what the journal changes in the row meanwhile is taken from the journal.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn seen(&self, run: RunId) -> Result<(RunRow, Folded), RunnerError> {
        let workspace = &self.shared.workspace;
        let folded = self.shared.folded(run).await?;
        let mut row = workspace.run(Ref::Id(run)).await?;
        row.head = folded.head();
        row.updated_at = folded.at().unwrap_or(row.updated_at);
        Ok((row_as_of(&folded, row), folded))
    }

    /// The runs that have not ended and that no living process drives, oldest first; [`Runner::leftovers`] also says which
    /// of them may be resumed without being asked for. First gives up the runs that this
    /// process could not give up when it stopped driving them, because the store was unavailable, or is just giving up.
    ///
    /// # Errors
    ///
    /// `Store`.
    pub async fn unfinished(&self) -> Result<Vec<RunRow>, RunnerError> {
        let workspace = &self.shared.workspace;
        let held = &self.shared.held;
        // Whoever is giving one up may belong to a runtime that stands still.
        let until = tokio::time::Instant::now() + GIVE_UP_TIME_MAX;
        for run in held.runs_to_give_up() {
            let given_up = tokio::time::timeout_at(until, held.give_up(workspace, run)).await;
            given_up.unwrap_or(Ok(()))?;
        }
        let mut query = RunQuery::running(RUNS_PER_QUERY);
        let mut rows = Vec::new();
        loop {
            let batch = workspace.store().runs(workspace.space(), &query).await?;
            let is_all = batch.len() < RUNS_PER_QUERY as usize;
            query.before = batch.last().map(|row| row.handle.0);
            rows.extend(batch.into_iter().filter(|row| !row.driven));
            if is_all {
                rows.reverse();
                return Ok(rows);
            }
        }
    }
}

/// `row` with the status that `run` has: a row and a journal that were read one after the other are of two moments, and
/// the run may have ended in between.
#[must_use]
pub fn row_as_of(run: &Run, mut row: RunRow) -> RunRow {
    let ended = run.result().map(|result| result.status.as_str());
    ended.unwrap_or(Run::RUNNING).clone_into(&mut row.status);
    row.driven &= ended.is_none();
    row
}
