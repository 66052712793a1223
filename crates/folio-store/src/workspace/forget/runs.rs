//! Forgetting whole runs: first the run is marked, so that nobody reads its journal any more, and then what the journal
//! said is erased part by part.

use std::collections::{BTreeSet, HashSet};

use folio_engine::{Event, Output, Run};
use folio_memory::entry::Status;
use folio_memory::keeping::{ErasedFor, RunTombstone};
use folio_memory::query::MAX_LIMIT;
use folio_memory::text::Needle;
use folio_memory::{Actor, Change, EntryId, EntryQuery, Order, PageId, PageQuery, RunId, Seq, Turn, TurnQuery};
use serde_json::Value;

use super::super::{Workspace, WorkspaceError, Write};
use super::said::{AllSaid, collect_value, parts_of};
use super::{BatchKey, ForgetFilter};
use crate::commit::{BlobHash, Expected, RunAppend};
use crate::error::StoreError;
use crate::store::{JOURNAL_PART_BYTES, RunQuery, RunRow};

/// How many runs are read at a time.
const RUNS_AT_A_TIME: u32 = 500;
/// How many texts of one run are searched for afterwards, and how many bytes they have together.
const TEXTS_MAX: usize = 10_000;
const TEXT_BYTES_MAX: usize = 8 << 20;
/// Texts longer than this many bytes are searched for in parts.
const WHOLE_TEXT_BYTES: usize = 16 << 10;
/// Shorter notes on a result are mostly the program's own words, which other runs have as well.
const MIN_NOTES_BYTES: usize = 40;

/// The runs that a filter names.
#[derive(Debug, Default)]
pub(super) struct NamedRuns {
    /// Those to be forgotten.
    pub(super) found: Vec<RunRow>,
    /// Those that were forgotten before: what a call left undone is completed.
    pub(super) gone: Vec<RunRow>,
}

impl NamedRuns {
    pub(super) fn ids(&self) -> Vec<RunId> {
        self.found.iter().chain(&self.gone).map(|run| run.id).collect()
    }
}

/// What a run said, as far as it is searched for once it is gone.
#[derive(Debug, Default)]
pub(super) struct RunSaid {
    pub(super) texts: BTreeSet<String>,
    /// How many texts are too many to be searched for.
    pub(super) too_many: usize,
    bytes: usize,
    events: u64,
    nodes: u64,
}

impl RunSaid {
    fn take(&mut self, text: &str) {
        let parts = match text.len() > WHOLE_TEXT_BYTES {
            true => parts_of(text),
            false => vec![text.to_owned()],
        };
        for part in parts {
            if self.texts.len() >= TEXTS_MAX || self.bytes + part.len() > TEXT_BYTES_MAX {
                self.too_many += 1;
            } else {
                self.bytes += part.len();
                self.texts.insert(part);
            }
        }
    }

    fn take_value(&mut self, value: &Value) {
        let mut texts = BTreeSet::new();
        collect_value(value, &mut texts);
        texts.iter().for_each(|text| self.take(text));
    }

    /// Takes in the words of `event` that somebody wrote for this run. Steps of plans are left out: every run of a plan
    /// has them.
    fn take_event(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::RunStarted { goal, inputs, .. } => {
                self.take(goal);
                inputs.values().for_each(|value| self.take_value(value));
            }
            Event::Finished { result, .. } => {
                self.nodes += 1;
                if result.notes.len() >= MIN_NOTES_BYTES {
                    self.take(&result.notes);
                }
                if let Some(value) = result.output.value() {
                    self.take_value(&value);
                }
            }
            Event::Replied { reply, .. } => self.take(&reply.text),
            Event::Questioned { question, .. } => self.take(&question.text),
            Event::Answered { answer, .. } => self.take(answer),
            Event::Compacted { text, .. } => self.take(text),
            _ => {}
        }
    }
}

impl Workspace {
    /// Returns the runs that [`Workspace::forget`] would forget.
    ///
    /// # Errors
    ///
    /// `Conflict` if one of them has not ended; otherwise as [`Workspace::to_forget`].
    pub async fn runs_to_forget(&self, filter: &ForgetFilter) -> Result<Vec<RunRow>, WorkspaceError> {
        self.authorise_forgetting(&self.asker)?;
        filter.check()?;
        Ok(self.named_runs(filter).await?.found)
    }

    /// Returns the runs that have ended and whose title or journal contains the text of `filter`, newest first; none if
    /// the filter requires anything else. [`Workspace::forget`] leaves them, because one text in it is no reason to
    /// forget a whole run: a person decides that by naming the run. Reads every journal.
    ///
    /// # Errors
    ///
    /// As [`Workspace::to_forget`].
    pub async fn runs_saying(&self, filter: &ForgetFilter) -> Result<Vec<RunRow>, WorkspaceError> {
        self.authorise_forgetting(&self.asker)?;
        filter.check()?;
        let Some(text) = filter.text_alone().map(Needle::new) else {
            return Ok(Vec::new());
        };
        let ended = Run::STATUSES
            .iter()
            .filter(|status| ![Run::RUNNING, Run::FORGOTTEN].contains(*status));
        let mut query = RunQuery {
            status: ended.map(|status| (*status).to_owned()).collect(),
            before: None,
            limit: RUNS_AT_A_TIME,
        };
        let mut found = Vec::new();
        loop {
            let rows = self.inner.store.runs(self.space(), &query).await?;
            let is_last = rows.len() < RUNS_AT_A_TIME as usize;
            query.before = rows.last().map(|row| row.handle.0);
            for row in rows {
                if text.is_in(&row.title) || self.journal_contains(row.id, &text).await? {
                    found.push(row);
                }
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Whether any event of `run` contains `text`. What is damaged, or of a newer version, contains nothing that
    /// could be found.
    async fn journal_contains(&self, run: RunId, text: &Needle) -> Result<bool, WorkspaceError> {
        let mut since = Seq(0);
        loop {
            let part = self
                .inner
                .store
                .journal_part(self.space(), run, since, JOURNAL_PART_BYTES);
            let part = match part.await {
                Err(StoreError::RunForgotten { .. } | StoreError::RunTooNew { .. } | StoreError::Corrupt { .. }) => {
                    return Ok(false);
                }
                part => part?,
            };
            let mut texts = BTreeSet::new();
            for (_, event) in &part.events {
                collect_value(&serde_json::to_value(event).unwrap_or_default(), &mut texts);
            }
            if texts.iter().any(|candidate| text.is_in(candidate)) {
                return Ok(true);
            }
            if part.is_whole {
                return Ok(false);
            }
            since = part.head;
        }
    }

    /// The runs that `filter` names, each once.
    pub(super) async fn named_runs(&self, filter: &ForgetFilter) -> Result<NamedRuns, WorkspaceError> {
        let (mut named, mut seen) = (NamedRuns::default(), HashSet::new());
        for run in &filter.runs {
            let row = self.inner.store.run(self.space(), *run).await?;
            if !seen.insert(row.id) {
                continue;
            }
            if !row.has_ended() {
                let run = row.handle.to_string();
                return Err(StoreError::RunNotEnded { run }.into());
            }
            match row.is_forgotten() {
                true => named.gone.push(row),
                false => named.found.push(row),
            }
        }
        Ok(named)
    }

    /// The entries on the pages of `runs` that were not forgotten yet. What they say is added to `said`: there may be
    /// very many.
    pub(super) async fn entries_of_runs(
        &self,
        runs: &[RunId],
        said: &mut AllSaid,
    ) -> Result<Vec<EntryId>, WorkspaceError> {
        let mut found = Vec::new();
        for run in runs {
            let mut query = PageQuery {
                run: Some(*run),
                limit: MAX_LIMIT,
                ..PageQuery::default()
            };
            loop {
                let pages = self.inner.store.pages(self.space(), &query).await?;
                let is_last = pages.len() < query.limit() as usize;
                query.after = pages.last().map(|page| page.handle.0);
                for page in pages {
                    self.add_entries_of(page.id, &mut found, said).await?;
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(found)
    }

    async fn add_entries_of(
        &self,
        page: PageId,
        found: &mut Vec<EntryId>,
        said: &mut AllSaid,
    ) -> Result<(), WorkspaceError> {
        let mut query = EntryQuery {
            page: Some(page),
            status: Status::ALL.to_vec(),
            include_expired: true,
            include_superseded: true,
            order: Order::Newest,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        loop {
            let answer = self.inner.store.entries(self.space(), &query, self.now()).await?;
            for entry in &answer.items {
                if entry.fields.erased != Some(ErasedFor::Forgotten) {
                    said.take_entry_of_run(entry);
                    found.push(entry.id);
                }
            }
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// The turns of `runs` of which it is still known what was said.
    pub(super) async fn turns_of_runs(&self, runs: &[RunId]) -> Result<Vec<Turn>, WorkspaceError> {
        let mut found = Vec::new();
        for run in runs {
            let mut query = TurnQuery {
                run: Some(*run),
                limit: MAX_LIMIT,
                ..TurnQuery::default()
            };
            loop {
                let turns = self.inner.store.turns(self.space(), &query).await?;
                let is_last = turns.len() < query.limit() as usize;
                query.before = turns.last().map(|turn| turn.handle.0);
                found.extend(turns.into_iter().filter(|turn| turn.clone().erase()));
                if is_last {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// What the run of `row` said.
    pub(super) async fn said_by_run(&self, row: &RunRow) -> Result<RunSaid, WorkspaceError> {
        let mut said = RunSaid::default();
        said.take(&row.title);
        let (mut since, mut bodies) = (Seq(0), BTreeSet::new());
        loop {
            let part = self
                .inner
                .store
                .journal_part(self.space(), row.id, since, JOURNAL_PART_BYTES);
            let part = part.await?;
            for (_, event) in &part.events {
                said.take_event(event);
                if let Event::Finished { result, .. } = event
                    && let Output::Blob { hash, .. } = &result.output
                {
                    bodies.insert(hash.clone());
                }
            }
            if part.is_whole {
                break;
            }
            since = part.head;
        }
        for hash in bodies {
            if said.bytes < TEXT_BYTES_MAX
                && let Ok(bytes) = self.inner.store.blob(self.space(), &BlobHash(hash)).await
            {
                match serde_json::from_slice(&bytes) {
                    Ok(value) => said.take_value(&value),
                    Err(_) => said.take(&String::from_utf8_lossy(&bytes)),
                }
            } else {
                said.too_many += 1;
            }
        }
        Ok(said)
    }

    /// Marks the run of `row`, which said `said`, as forgotten: from then on nobody reads its journal.
    pub(super) async fn mark_as_forgotten(
        &self,
        actor: &Actor,
        row: &RunRow,
        said: &RunSaid,
        (reason, key): (&str, Option<&mut BatchKey>),
    ) -> Result<(), WorkspaceError> {
        let left = RunTombstone {
            status: row.status.clone(),
            ended_at: row.updated_at,
            events: said.events,
            nodes: said.nodes,
        };
        let so_far = self.inner.store.runs_so_far(self.space(), vec![row.id]).await?;
        let append = RunAppend {
            run: row.id,
            events: Vec::new(),
            status: Some(Run::FORGOTTEN.to_owned()),
            title: None,
            so_far: Some(
                so_far
                    .into_iter()
                    .next()
                    .map(|(_, so_far)| so_far.without_words())
                    .unwrap_or_default(),
            ),
        };
        let write = Write {
            run: Some(append),
            expected: vec![Expected::RunHead {
                run: row.id,
                head: row.head,
                fence: None,
            }],
            reason: Some(reason.to_owned()),
            idempotency_key: key.map(BatchKey::next),
            ..Write::of(vec![Change::EraseRun { run: row.id, left }])
        };
        self.record(actor, write).await.map(drop)
    }

    /// Erases what the journal of the forgotten `run` says. What was erased already is passed over.
    pub(super) async fn erase_journal(&self, run: RunId) -> Result<(), StoreError> {
        let mut after = Seq(0);
        while let Some(next) = self.inner.store.erase_run_part(self.space(), run, after).await? {
            after = next;
        }
        Ok(())
    }
}
