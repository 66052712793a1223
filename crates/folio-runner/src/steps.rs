//! One commit of a run: gathers what it writes, and names what begins once it is durable.

use std::collections::HashMap;

use folio_engine::event::FORMAT;
use folio_engine::plan::Plan;
use folio_engine::run::{AskAction, CheckAction, CompactAction, Needs};
use folio_engine::{CallAction, Event, NodeId, NodeState, Run, projection};
use folio_memory::{Change, Timestamp, TraceNote};
use folio_store::Blob;
use tokio_util::sync::CancellationToken;

use crate::bodies::Bodies;
use crate::error::RunnerError;
use crate::outputs::move_large_output;

/// How many runs of one process may take a step at the same time (derive what follows and have it written); the others
/// wait, with their outcomes. This bounds the memory for what steps gather and write, and the log can still write all
/// of them with one sync.
pub(crate) const MAX_CONCURRENT_STEPS: usize = 128;

/// Bytes of events and outputs that are gathered for one commit before it is written. A store accepts records eight
/// times as large.
const MAX_BATCH_BYTES: u64 = 32 * 1024 * 1024;

/// Changes of pages that are gathered for one commit before it is written. All steps of a plan may begin together, and
/// each takes two kilobytes of memory until it is written.
const MAX_BATCH_CHANGES: usize = 8_192;

/// The content of the next commit of a run.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Event>,
    /// The bytes that the events and their changes count as ([`Event::bytes`]).
    bytes: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) blobs: Vec<Blob>,
    /// Questions that are called off, each with the name of its executor, unless it is the default one.
    pub(crate) called_off: Vec<(Option<String>, String)>,
    /// Notes for the trace, written when the commit is durable.
    pub(crate) notes: Vec<TraceNote>,
    /// Calls that begin when the commit is durable.
    pub(crate) calls: Vec<CallAction>,
    /// Questions to models that are asked when the commit is durable.
    pub(crate) asks: Vec<AskAction>,
    /// Compactions that begin when the commit is durable.
    pub(crate) compactions: Vec<CompactAction>,
    /// Checks by commands that begin when the commit is durable.
    pub(crate) checks: Vec<CheckAction>,
    /// Whether it writes more than follows from its events: what calls want written to memory.
    pub(crate) writes_memory: bool,
    /// Nodes that end with it.
    pub(crate) ended: Vec<NodeId>,
    /// How many of its changes are included in the description of the run's pages.
    pub(crate) described_changes: usize,
    /// How many of its events were searched for results of which the plan wants something observed.
    pub(crate) searched_event_count: usize,
}

impl Batch {
    /// How many calls begin when it is durable.
    pub(crate) fn starting_call_count(&self) -> usize {
        self.calls.len() + self.asks.len() + self.compactions.len() + self.checks.len()
    }
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether it holds as much as goes into one commit.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MAX_BATCH_BYTES || self.changes.len() >= MAX_BATCH_CHANGES
    }

    /// Applies `event`, and adds what it writes to the run's pages, followed by `more`. In a journal of an older
    /// format, an event that raises the format comes first (E9.9).
    ///
    /// # Errors
    ///
    /// `Journal` if `event` cannot be applied to the run: then nothing has changed. `Store` if an output that its pages
    /// refer to cannot be read.
    pub(crate) async fn record(
        &mut self,
        run: &mut Run,
        bodies: &mut Bodies,
        at: Timestamp,
        mut event: Event,
        more: Vec<Change>,
    ) -> Result<(), RunnerError> {
        let id = run.id();
        let refused = |source| RunnerError::Journal { run: id, source };
        if run.format() < FORMAT && !matches!(event, Event::FormatRaised { .. }) {
            let raised = Event::FormatRaised { format: FORMAT };
            run.apply(at, &raised).map_err(refused)?;
            self.events.push(raised);
        }
        // What a call writes by itself does not follow from the journal, but counts all the same (E9.10).
        match &mut event {
            Event::Finished { result, .. } => result.wrote = more.iter().map(Change::bytes).sum(),
            Event::Proposed { proposal, .. } => proposal.wrote = more.iter().map(Change::bytes).sum(),
            _ => {}
        }
        if let Event::Finished { node, .. } = &event
            && let Some((executor, question)) = run.program_question(*node)
        {
            self.called_off.push((executor.map(str::to_owned), question.to_owned()));
        }
        move_large_output(run, &mut event, &mut self.blobs, bodies);
        let before = bytes_of(run);
        run.apply(at, &event).map_err(refused)?;
        self.bytes += bytes_of(run) - before;
        if let Event::Finished { node, .. } = &event {
            self.ended.push(*node);
        }
        // Titles and reports may refer to outputs.
        let changes = bodies
            .with_outputs_loaded(run, |run| projection::changes(run, &event))
            .await?;
        self.changes.extend(changes);
        self.writes_memory |= !more.is_empty();
        self.changes.extend(more);
        self.events.push(event);
        Ok(())
    }
}

/// The bytes that the journal and the pages of `run` count as.
fn bytes_of(run: &Run) -> u64 {
    run.purse().map_or(0, |purse| purse.bytes)
}

/// What has to be done outside before the run can continue.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// Missing outputs that the run needs to continue.
    pub(crate) load: Vec<String>,
    /// Tasks that are to be briefed from memory.
    pub(crate) brief: Vec<NodeId>,
    /// Compactions without a compactor.
    pub(crate) compact: Vec<CompactAction>,
    /// Checks without commands.
    pub(crate) verify: Vec<CheckAction>,
}

/// What is under way in this process.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// Calls that have begun, of tools, of models, and of commands that check.
    pub(crate) calls: HashMap<NodeId, Begun>,
    /// How many calls begin as soon as their beginning is durable.
    pub(crate) waiting: usize,
    /// Nodes whose criteria are being checked without commands, each with the token that cancels the check.
    pub(crate) checks: HashMap<NodeId, CancellationToken>,
}

impl UnderWay {
    /// Whether anything is under way.
    pub(crate) fn has_any(&self) -> bool {
        !self.calls.is_empty() || !self.checks.is_empty()
    }

    /// Notes that a call of `node` has begun, which `batch` records; returns the token that cancels it.
    pub(crate) fn begin(&mut self, node: NodeId, batch: u64, is_repeatable: bool) -> CancellationToken {
        let cancel = CancellationToken::new();
        let call = Begun {
            cancel: cancel.clone(),
            batch,
            is_repeatable,
        };
        self.calls.insert(node, call);
        cancel
    }

    /// Notes that the criteria of `node` are being checked without commands; returns the token that cancels the check.
    pub(crate) fn check(&mut self, node: NodeId) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.checks.insert(node, cancel.clone());
        cancel
    }

    /// Stops the checks of nodes that have ended or are being cancelled (E9.11).
    pub(crate) fn stop_checks(&self, run: &Run) {
        let is_needless = |node: &NodeId| {
            let view = run.node(*node);
            view.is_none_or(|view| view.result.is_some() || view.state == NodeState::Cancelling)
        };
        let checks = self.checks.iter().filter(|(node, _)| is_needless(node));
        checks.for_each(|(_, cancel)| cancel.cancel());
    }
}

/// A call that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The token that cancels it.
    pub(crate) cancel: CancellationToken,
    /// The batch that records its beginning.
    pub(crate) batch: u64,
    /// Whether it may simply be made again.
    pub(crate) is_repeatable: bool,
}

/// The status for the run's row: its outcome; `None` while the run goes on.
pub(crate) fn status_of(run: &Run) -> Option<String> {
    run.result().map(|result| result.status.to_string())
}

/// Whether nothing more begins in `run` at `now`: somebody cancelled it, or its deadline has passed (E9.9, E9.11).
#[must_use]
pub(crate) fn is_ending(run: &Run, now: Timestamp) -> bool {
    let root = NodeId::root(run.id());
    let is_cancelled = run.node(root).is_some_and(|view| view.state == NodeState::Cancelling);
    is_cancelled || run.passed_deadline(root, now).is_some()
}

/// Whether part of `plan` cannot be done or verified without a model: a task that needs a model, or a criterion that a
/// model judges.
#[must_use]
pub fn needs_model(plan: &Plan) -> bool {
    Needs::of_plan(plan).asks_model()
}
