//! How far a run is ahead of the disk: the batch that is being written, and the next one that is gathered meanwhile.

use folio_engine::run::{AskAction, CheckAction, CompactAction};
use folio_engine::{CallAction, NodeId};
use folio_memory::{EntryId, TraceNote};
use folio_store::{BlobHash, Committed, StoreError};
use tokio::task::JoinHandle;

use crate::error::RunnerError;
use crate::steps::Batch;

/// How many events are gathered while a batch is being written; beyond that the run waits for the disk. This many are
/// written in a few milliseconds, so nobody who watches notices that they arrive together.
const EVENTS_MAX: usize = 256;

/// The same limit for changes of pages: one plan may add a thousand entries.
const CHANGES_MAX: usize = 2_048;

/// The outcome of a write in the background.
type Written = JoinHandle<Result<Committed, RunnerError>>;

/// A batch that is being written.
#[derive(Debug)]
pub(crate) struct Writing<O> {
    /// Its number.
    pub(crate) batch: u64,
    /// Calls that begin when it is durable.
    pub(crate) calls: Vec<CallAction>,
    /// Questions to models that are asked then.
    pub(crate) asks: Vec<AskAction>,
    /// Compactions that begin then.
    pub(crate) compactions: Vec<CompactAction>,
    /// Checks by commands that begin then.
    pub(crate) checks: Vec<CheckAction>,
    /// Questions that are called off then, each with its executor.
    pub(crate) called_off: Vec<(Option<String>, String)>,
    /// Notes for the trace, written when the batch is durable.
    pub(crate) notes: Vec<TraceNote>,
    /// What it records, to be applied again if the write fails.
    pub(crate) outcomes: Vec<O>,
    /// Whether it changes memory beyond what follows from the journal.
    pub(crate) writes_memory: bool,
    /// Nodes that end with it.
    pub(crate) ended: Vec<NodeId>,
    /// The names of what calls of the run write from then on, if that changes (E9.15).
    pub(crate) writes: Option<Vec<String>>,
    /// Entries that it patches.
    pub(crate) patched: Vec<EntryId>,
    /// Outputs that it stores.
    pub(crate) bodies: Vec<BlobHash>,
}

/// What was applied to a run and is not durable yet.
#[derive(Debug)]
pub(crate) struct PendingWrites<O> {
    /// What is gathered for the next commit.
    pub(crate) batch: Batch,
    outcomes: Vec<O>,
    /// The number of the batch that is being gathered. Numbers are never reused.
    number: u64,
    /// The number of the last batch that is durable.
    written: u64,
    writing: Option<(Writing<O>, Written)>,
    /// Whether calls were started whose beginning is recorded in the gathered batch.
    has_calls: bool,
}

impl<O> Default for PendingWrites<O> {
    fn default() -> Self {
        Self {
            batch: Batch::default(),
            outcomes: Vec::new(),
            number: 1,
            written: 0,
            writing: None,
            has_calls: false,
        }
    }
}

impl<O> PendingWrites<O> {
    /// Whether everything that was applied is durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.writing.is_none() && self.batch.is_empty()
    }

    /// Whether more may be gathered.
    pub(crate) fn has_room(&self) -> bool {
        let batch = &self.batch;
        let is_few = batch.events.len() < EVENTS_MAX && batch.changes.len() < CHANGES_MAX;
        let is_small = is_few && batch.blobs.is_empty() && !batch.is_full();
        self.writing.is_none() || is_small
    }

    /// Whether there is something to write and no write in progress.
    pub(crate) fn may_write(&self) -> bool {
        self.writing.is_none() && !self.batch.is_empty()
    }

    /// Whether a write is in progress.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether something that is not durable yet changes memory beyond what follows from the journal.
    pub(crate) fn writes_memory(&self) -> bool {
        self.batch.writes_memory || self.writing.as_ref().is_some_and(|(writing, _)| writing.writes_memory)
    }

    /// Whether `node` has ended by an event that is not durable yet.
    pub(crate) fn has_ended(&self, node: NodeId) -> bool {
        let writing = self.writing.iter().flat_map(|(writing, _)| &writing.ended);
        self.batch.ended.iter().chain(writing).any(|ended| *ended == node)
    }

    /// Whether calls were started whose beginning is recorded in the gathered batch.
    pub(crate) fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Whether batch `number` is durable.
    pub(crate) fn has_written(&self, number: u64) -> bool {
        number <= self.written
    }

    /// The number of the batch that is being gathered.
    pub(crate) fn batch_number(&self) -> u64 {
        self.number
    }

    /// How many calls begin when the batch that is being written is durable.
    pub(crate) fn waiting_calls(&self) -> usize {
        self.writing.as_ref().map_or(0, |(writing, _)| {
            writing.calls.len() + writing.asks.len() + writing.compactions.len() + writing.checks.len()
        })
    }

    /// The outcomes that are applied and not durable yet.
    pub(crate) fn undurable_outcomes(&self) -> impl Iterator<Item = &O> {
        let writing = self.writing.iter().flat_map(|(writing, _)| &writing.outcomes);
        self.outcomes.iter().chain(writing)
    }

    /// Keeps `outcome`, which the gathered batch records, until it is durable.
    pub(crate) fn keep(&mut self, outcome: O) {
        self.outcomes.push(outcome);
    }

    /// Takes the gathered batch for writing, and starts the next one.
    pub(crate) fn take(&mut self) -> (Batch, Writing<O>) {
        let mut batch = std::mem::take(&mut self.batch);
        let writing = Writing {
            batch: self.number,
            calls: std::mem::take(&mut batch.calls),
            asks: std::mem::take(&mut batch.asks),
            compactions: std::mem::take(&mut batch.compactions),
            checks: std::mem::take(&mut batch.checks),
            called_off: std::mem::take(&mut batch.called_off),
            notes: std::mem::take(&mut batch.notes),
            outcomes: std::mem::take(&mut self.outcomes),
            writes_memory: batch.writes_memory,
            ended: std::mem::take(&mut batch.ended),
            writes: None,
            patched: Vec::new(),
            bodies: batch.blobs.iter().map(|blob| blob.hash().clone()).collect(),
        };
        self.number += 1;
        self.has_calls = false;
        (batch, writing)
    }

    /// Notes that a call was started whose beginning is in the gathered batch.
    pub(crate) fn note_call_started(&mut self) {
        self.has_calls = true;
    }

    /// Notes that `writing` is being written, and by which task.
    pub(crate) fn write(&mut self, writing: Writing<O>, written: Written) {
        self.writing = Some((writing, written));
    }

    /// Waits for the batch that is being written; forever if there is none. Cancel safe.
    pub(crate) async fn wait_for_write(&mut self) -> (Writing<O>, Result<Committed, RunnerError>) {
        let Some((_, handle)) = &mut self.writing else {
            return std::future::pending().await;
        };
        let written = handle.await.unwrap_or_else(|error| {
            Err(RunnerError::Store(StoreError::Unavailable {
                doing: "write to",
                location: "the run's journal".to_owned(),
                reason: "the writer stopped".to_owned(),
                source: Some(Box::new(error)),
            }))
        });
        match self.writing.take() {
            Some((writing, _)) => (writing, written),
            None => std::future::pending().await,
        }
    }

    /// Notes that batch `number` and all before it are durable.
    pub(crate) fn mark_written(&mut self, number: u64) {
        self.written = self.written.max(number);
    }

    /// Drops everything that is not durable, and returns the outcomes that it recorded, those of `writing` first.
    pub(crate) fn discard_pending(&mut self, writing: Writing<O>) -> Vec<O> {
        self.batch = Batch::default();
        self.number += 1;
        self.has_calls = false;
        let mut outcomes = writing.outcomes;
        outcomes.append(&mut self.outcomes);
        outcomes
    }
}
