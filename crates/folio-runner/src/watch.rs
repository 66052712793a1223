//! A run as others see it, live: the events that the driver records, read from the log.

use std::sync::Arc;

use folio_engine::run::JournalError;
use folio_engine::template::Templates;
use folio_engine::{Event, Run};
use folio_memory::{RunId, Seq, SpaceName, Timestamp};
use folio_store::{JOURNAL_PART_BYTES, Journal, Store, StoreError};

use crate::error::RunnerError;

/// The bytes that a node of a run takes in memory.
const NODE_BYTES: usize = 1024;
/// If a part of a journal goes too far, it is read again this many times smaller.
const SHRINK_FACTOR: usize = 16;

/// Follows one run from its beginning. Terminal, JSON lines and every other surface read this sequence of updates.
#[derive(Debug)]
pub struct Watch {
    store: Arc<dyn Store>,
    space: SpaceName,
    run: Run,
    head: Seq,
    /// When the last event that was read was recorded.
    at: Option<Timestamp>,
    /// How many events were read.
    events: u64,
    /// Bytes of the records that were read.
    bytes: usize,
    /// The lineage of the store that has everything that was read.
    lineage: u64,
}

impl Watch {
    /// Follows `run`, with nothing read yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, space: SpaceName, run: RunId) -> Self {
        Self::with_templates(store, space, run, Arc::new(Templates::new()))
    }

    pub(crate) fn with_templates(
        store: Arc<dyn Store>,
        space: SpaceName,
        run: RunId,
        templates: Arc<Templates>,
    ) -> Self {
        let lineage = store.lineage();
        Self {
            store,
            lineage,
            space,
            run: Run::new(run, templates),
            head: Seq(0),
            at: None,
            events: 0,
            bytes: 0,
        }
    }

    /// The run as far as it was read.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The space of the run.
    pub(crate) fn space(&self) -> &SpaceName {
        &self.space
    }

    pub(crate) fn into_run(self) -> Run {
        self.run
    }

    /// How many events were read.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// An estimate of the run's size in memory, rather too large: the bytes of the records that were read, but at least
    /// a fixed size per node, since few words can make many nodes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.max(self.run.len().saturating_mul(NODE_BYTES))
    }

    /// The last commit that was read.
    #[must_use]
    pub fn head(&self) -> Seq {
        self.head
    }

    /// When the last event that was read was recorded; `None` before the first.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.at
    }

    /// Applies `event` before it is recorded.
    pub(crate) fn apply_ahead(&mut self, at: Timestamp, event: &Event) -> Result<(), JournalError> {
        self.run.apply(at, event)
    }

    /// Notes that the last `count` events were applied ahead, and that commit `head` has recorded them at `at`.
    pub(crate) fn note_recorded(&mut self, head: Seq, at: Timestamp, count: u64) {
        self.head = head;
        self.at = Some(at);
        self.events += count;
    }

    #[cfg(test)]
    pub(crate) fn pretend_to_have_read(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Waits for new events, applies them, and returns them in order (of very many, the first part). Never empty;
    /// `None` when the run has ended and everything was read. Cancel safe.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`; `Store` of kind `Unavailable` also if what was read is lost, after a failover for example.
    /// A new watch then shows what is left.
    pub async fn next(&mut self) -> Result<Option<Vec<(Timestamp, Event)>>, RunnerError> {
        let mut seen = self.head;
        loop {
            let lineage = self.store.lineage();
            if lineage != self.lineage {
                if !has_known_end(&*self.store, &self.space, self.run.id(), self.head, self.at).await? {
                    return Err(lost_end(&*self.store).into());
                }
                self.lineage = lineage;
            }
            let (events, is_whole) = self.read_part().await?;
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if !is_whole {
                continue;
            }
            if self.run.result().is_some() {
                return Ok(None);
            }
            // The space may have grown without new events in this run.
            tokio::select! {
                head = self.store.wait(&self.space, seen.max(self.head)) => seen = head?,
                // The log may be shorter by now than it was.
                () = self.store.wait_for_other_lineage(self.lineage) => seen = self.head,
            }
        }
    }

    /// Returns everything that has happened since the last read, without waiting.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn read(&mut self) -> Result<Vec<(Timestamp, Event)>, RunnerError> {
        let mut events = Vec::new();
        self.for_each_part(|more| events.extend(more)).await?;
        Ok(events)
    }

    /// Applies everything that has happened since the last read, without waiting. Keeps only a part of it in memory at
    /// a time.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn catch_up(&mut self) -> Result<(), RunnerError> {
        self.for_each_part(drop).await
    }

    /// Like [`Watch::catch_up`], and passes each event to `visit`.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn catch_up_with(&mut self, mut visit: impl FnMut(Timestamp, &Event)) -> Result<(), RunnerError> {
        self.for_each_part(|events| events.iter().for_each(|(at, event)| visit(*at, event)))
            .await
    }

    /// Passes everything that has happened since the last read to `take`, part by part.
    async fn for_each_part(&mut self, mut take: impl FnMut(Vec<(Timestamp, Event)>)) -> Result<(), RunnerError> {
        loop {
            let (events, is_whole) = self.read_part().await?;
            take(events);
            if is_whole {
                return Ok(());
            }
        }
    }

    /// Reads the next events; returns whether these were all.
    async fn read_part(&mut self) -> Result<(Vec<(Timestamp, Event)>, bool), RunnerError> {
        let journal = self.fetch(JOURNAL_PART_BYTES).await?;
        self.apply_journal(&journal, |_, _, _| {})?;
        Ok((journal.events, journal.is_whole))
    }

    /// Applies the next events up to commit `until`, which belongs to this run (of very many, the first part), and
    /// passes each to `visit` as soon as it is applied. What was read beyond it is applied, too, unless `has_to_end`
    /// says that it must end there.
    pub(crate) async fn part_until(
        &mut self,
        until: Seq,
        has_to_end: impl Fn() -> bool,
        visit: impl FnMut(&Run, Timestamp, &Event),
    ) -> Result<(), RunnerError> {
        let mut bytes = JOURNAL_PART_BYTES;
        let mut journal = self.fetch(bytes).await?;
        // So few bytes are a single commit.
        while journal.head > until && bytes > 1 && has_to_end() {
            bytes = (bytes / SHRINK_FACTOR).max(1);
            journal = self.fetch(bytes).await?;
        }
        self.apply_journal(&journal, visit)?;
        if journal.events.is_empty() {
            self.head = self.head.max(until);
        }
        Ok(())
    }

    async fn fetch(&self, bytes: usize) -> Result<Journal, RunnerError> {
        let journal = self.store.journal_part(&self.space, self.run.id(), self.head, bytes);
        Ok(journal.await?)
    }

    fn apply_journal(
        &mut self,
        journal: &Journal,
        mut visit: impl FnMut(&Run, Timestamp, &Event),
    ) -> Result<(), RunnerError> {
        let run = self.run.id();
        for (at, event) in &journal.events {
            self.run
                .apply(*at, event)
                .map_err(|source| RunnerError::Journal { run, source })?;
            self.at = Some(*at);
            self.events += 1;
            visit(&self.run, *at, event);
        }
        self.head = self.head.max(journal.head);
        self.bytes += journal.bytes;
        Ok(())
    }
}

/// Whether `store` has the commit `head`, at which the journal of `run` ends as far as it was read; `at` is the time of
/// the last event. A server that took the place of another, or was restored from a copy, may lack the last commits and
/// have others under their numbers. Then nothing that was read counts.
pub(crate) async fn has_known_end(
    store: &dyn Store,
    space: &SpaceName,
    run: RunId,
    head: Seq,
    at: Option<Timestamp>,
) -> Result<bool, StoreError> {
    if head == Seq(0) {
        return Ok(true);
    }
    let rows = store.changes(space, Seq(head.0 - 1), 1).await?;
    Ok(rows.first().is_some_and(|row| {
        let append = row.record.run.as_ref().filter(|append| append.run == run);
        append.is_some_and(|append| {
            // The known time is that of the last event.
            let is_same = append.events.is_empty() || at.is_none_or(|at| at == row.at);
            row.seq == head && is_same
        })
    }))
}

/// The failure if `store` does not have it.
pub(crate) fn lost_end(store: &dyn Store) -> StoreError {
    StoreError::Unavailable {
        doing: "continue a run in",
        location: store.location(),
        reason: "the last commits of the run are lost: another server has taken the place of the one that had them, or it was restored from a copy".to_owned(),
        source: None,
    }
}
