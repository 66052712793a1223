//! From what is owed to one commit: applies what follows, gathers what it writes, and names what is to be begun.

use std::collections::{BTreeSet, HashMap};

use folio_engine::event::FORMAT;
use folio_engine::plan::{Check, Criterion, Plan, Step, Task, Work};
use folio_engine::run::{AskAction, CheckAction, CompactAction};
use folio_engine::{Action, CallAction, Event, NodeId, NodeState, Run, projection};
use folio_memory::{Change, Timestamp, TraceNote};
use folio_store::Blob;
use folio_tools::{Effect, Registry};
use tokio_util::sync::CancellationToken;

use crate::bodies::Bodies;
use crate::error::RunnerError;
use crate::locks::RunLocks;
use crate::lost::{LostCall, LostCalls};
use crate::outputs::move_large_output;
use crate::prefer::Preferences;

/// Runs of one process that may work out what follows and have it written at one moment; the others wait, with what ended for them. What a step
/// gathers and what is written of it are in memory so many times at most, and the log still takes all of them with one sync.
pub(crate) const STEPPING_MAX: usize = 128;

/// Bytes of events and outputs that are gathered for one commit; then it is written before more follows. A store takes records eight times
/// as large.
const BYTES_AT_ONCE: u64 = 32 * 1024 * 1024;

/// Changes of pages that are gathered for one commit; then it is written before more follows. The steps of a plan that begin together are as many as
/// it has, and each is in memory with two kilobytes until it is written.
const CHANGES_AT_ONCE: usize = 8_192;

/// What one commit of a run will hold.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Event>,
    /// What they count as, with what they write ([`Event::bytes`]).
    bytes: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) blobs: Vec<Blob>,
    /// Who waits elsewhere for an answer that does not come: the name of the executor, if it is not the usual one, and its question.
    pub(crate) called_off: Vec<(Option<String>, String)>,
    /// What is to be said in the trace when it is durable.
    pub(crate) notes: Vec<TraceNote>,
    /// Calls that begin when the commit is durable.
    pub(crate) calls: Vec<CallAction>,
    /// Models that are asked when the commit is durable.
    pub(crate) asks: Vec<AskAction>,
    /// What compactors put away when the commit is durable.
    pub(crate) compactions: Vec<CompactAction>,
    /// What commands check when the commit is durable.
    pub(crate) checks: Vec<CheckAction>,
    /// Whether it writes more than follows from its events: what calls want written to memory.
    pub(crate) writes_memory: bool,
    /// Nodes that end with it.
    pub(crate) ended: Vec<NodeId>,
    /// How many of its changes are taken into what is told of the run's pages.
    pub(crate) told: usize,
    /// How many of its events were looked at for results of which the plan wants something observed.
    pub(crate) looked_at: usize,
}

impl Batch {
    /// How many calls begin when it is durable.
    fn begins(&self) -> usize {
        self.calls.len() + self.asks.len() + self.compactions.len() + self.checks.len()
    }
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether it has as much as goes into one commit.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= BYTES_AT_ONCE || self.changes.len() >= CHANGES_AT_ONCE
    }

    /// Applies `event` and takes up what it writes to the run's pages, and `more` behind that. The first event in a journal of
    /// an older format is that it is of this one's from here on (E9.9).
    ///
    /// # Errors
    ///
    /// `Journal` if the run cannot be moved by `event`: then nothing has changed. `Store` if an output that its pages tell of cannot be read.
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
        if run.format() < FORMAT {
            let raised = Event::FormatRaised { format: FORMAT };
            run.apply(at, &raised).map_err(refused)?;
            self.events.push(raised);
        }
        // What a call writes by itself follows from nothing in the journal, and counts all the same (E9.10).
        match &mut event {
            Event::Finished { result, .. } => result.wrote = more.iter().map(Change::bytes).sum(),
            Event::Proposed { proposal, .. } => proposal.wrote = more.iter().map(Change::bytes).sum(),
            _ => {}
        }
        if let Event::Finished { node, .. } = &event
            && let Some((executor, question)) = run.left_asking(*node)
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
        // Titles and reports may tell of outputs.
        let changes = bodies.at_hand(run, |run| projection::changes(run, &event)).await?;
        self.changes.extend(changes);
        self.writes_memory |= !more.is_empty();
        self.changes.extend(more);
        self.events.push(event);
        Ok(())
    }
}

/// What the journal and the pages of `run` count as.
fn bytes_of(run: &Run) -> u64 {
    run.purse().map_or(0, |purse| purse.bytes)
}

/// What has to be done outside before more can follow.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// Outputs that are not found, and without which nothing can go on.
    pub(crate) load: Vec<String>,
    /// Tasks that are to be told what memory holds.
    pub(crate) brief: Vec<NodeId>,
    /// What was said that is to be put away without a compactor.
    pub(crate) compact: Vec<CompactAction>,
    /// What is to be checked without commands.
    pub(crate) verify: Vec<CheckAction>,
}

/// What is under way in this process.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// Calls that have begun, of tools, of models, and of commands that check.
    pub(crate) calls: HashMap<NodeId, Begun>,
    /// How many begin as soon as their beginning is durable.
    pub(crate) waiting: usize,
    /// Nodes whose criteria are being checked without commands, and what stops that.
    pub(crate) checks: HashMap<NodeId, CancellationToken>,
}

impl UnderWay {
    /// Whether there is any.
    pub(crate) fn is_any(&self) -> bool {
        !self.calls.is_empty() || !self.checks.is_empty()
    }

    /// Notes that a call of `node` has begun, which `batch` records; what stops it.
    pub(crate) fn begin(&mut self, node: NodeId, batch: u64) -> CancellationToken {
        let cancel = CancellationToken::new();
        let begun = Begun {
            cancel: cancel.clone(),
            batch,
        };
        self.calls.insert(node, begun);
        cancel
    }

    /// Notes that the criteria of `node` are being checked without commands; what stops it.
    pub(crate) fn check(&mut self, node: NodeId) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.checks.insert(node, cancel.clone());
        cancel
    }

    /// Stops the checks of nodes that have ended, or are to end, without them (E9.11).
    pub(crate) fn stop_checks(&self, run: &Run) {
        let needless = |node: &NodeId| {
            let view = run.node(*node);
            view.is_none_or(|view| view.result.is_some() || view.state == NodeState::Cancelling)
        };
        let checks = self.checks.iter().filter(|(node, _)| needless(node));
        checks.for_each(|(_, cancel)| cancel.cancel());
    }
}

/// A call that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// What stops it.
    pub(crate) cancel: CancellationToken,
    /// The batch that records its beginning.
    pub(crate) batch: u64,
}

/// Puts into `batch` everything that follows from the state of `run` until only the outside can move it, or until it is full.
///
/// # Errors
///
/// `Journal`, or `Store` if an output cannot be read that it needs.
pub(crate) async fn derive(
    (run, bodies): (&mut Run, &mut Bodies),
    registry: &Registry,
    under_way: &UnderWay,
    (prefer, lost, locks): (Option<&Preferences>, &LostCalls, &RunLocks),
    concurrency: usize,
    now: Timestamp,
    batch: &mut Batch,
) -> Result<Outside, RunnerError> {
    loop {
        let slots = concurrency.saturating_sub(under_way.calls.len() + under_way.waiting + batch.begins());
        let mut outside = Outside::default();
        let mut progress = false;
        // A record may make a later one of the same answer needless; then the table refuses it, and the next answer
        // does not name it. But the first is never needless.
        let mut first = true;
        let owed = |run: &Run| match prefer {
            Some(prefer) => prefer.due(run, slots, now),
            None => run.due(now, slots),
        };
        let due = bodies.at_hand(run, owed).await?;
        let missing = due.iter().filter_map(|action| match action {
            Action::Load(hash) => Some(hash.clone()),
            _ => None,
        });
        outside.load = missing.collect();
        if !outside.load.is_empty() {
            return Ok(outside);
        }
        for action in due {
            if batch.is_full() {
                return Ok(Outside::default());
            }
            if !first && !run.is_still_due(&action) {
                continue;
            }
            match action {
                Action::Record(event) => match batch.record(run, bodies, now, event, Vec::new()).await {
                    Ok(()) => (progress, first) = (true, false),
                    Err(RunnerError::Journal { .. }) if !first => {}
                    Err(error) => return Err(error),
                },
                Action::Call(mut call) => {
                    let effect = registry.get(&call.tool).map(|tool| tool.spec().effect);
                    let event = match lost.of(&call) {
                        Some(LostCall::AssumeDone) => run.call_assumed_done(&call),
                        Some(LostCall::Ask) => run.call_lost(&call),
                        Some(LostCall::Fail) => run.call_given_up(&call),
                        Some(LostCall::Rerun) => {
                            // Its tool is not asked what became of it either.
                            call.again = false;
                            call.started()
                        }
                        // Of a tool that is not there any more nobody knows what a second call would do.
                        None if call.again && matches!(effect, Some(Effect::Opaque | Effect::Destructive) | None) => {
                            run.call_lost(&call)
                        }
                        None => call.started(),
                    };
                    // Another run may have been quicker since the engine looked.
                    if matches!(event, Event::Started { .. }) && !locks.take(&call.writes) {
                        continue;
                    }
                    let begins = matches!(event, Event::Started { .. });
                    match batch.record(run, bodies, now, event, Vec::new()).await {
                        Ok(()) => (progress, first) = (true, false),
                        Err(RunnerError::Journal { .. }) if !first => continue,
                        Err(error) => return Err(error),
                    }
                    if begins {
                        batch.calls.push(*call);
                    }
                }
                Action::Ask(ask) => match batch.record(run, bodies, now, ask.asked(), Vec::new()).await {
                    Ok(()) => {
                        (progress, first) = (true, false);
                        batch.asks.push(*ask);
                    }
                    Err(RunnerError::Journal { .. }) if !first => {}
                    Err(error) => return Err(error),
                },
                Action::Brief(node) => outside.brief.push(node),
                Action::Compact(compact) => match compact.compacting() {
                    None => outside.compact.push(*compact),
                    Some(event) => match batch.record(run, bodies, now, event, Vec::new()).await {
                        Ok(()) => {
                            (progress, first) = (true, false);
                            batch.compactions.push(*compact);
                        }
                        Err(RunnerError::Journal { .. }) if !first => {}
                        Err(error) => return Err(error),
                    },
                },
                Action::Verify(check) => match check.begins() {
                    None => outside.verify.push(*check),
                    // Another run may have been quicker since the engine looked.
                    Some(_) if !locks.take(&check.writes) => {}
                    Some(event) => match batch.record(run, bodies, now, event, Vec::new()).await {
                        Ok(()) => {
                            (progress, first) = (true, false);
                            batch.checks.push(*check);
                        }
                        Err(RunnerError::Journal { .. }) if !first => {}
                        Err(error) => return Err(error),
                    },
                },
                // All that there is has been read.
                Action::Load(_) => {}
                Action::Stop(node) => {
                    if let Some(call) = under_way.calls.get(&node) {
                        call.cancel.cancel();
                    }
                }
            }
        }
        bodies.let_go(run);
        if !progress {
            outside
                .verify
                .retain(|check| !under_way.checks.contains_key(&check.node));
            return Ok(outside);
        }
    }
}

/// Counts of nodes by outcome, for the run's row.
pub(crate) fn status_of(run: &Run) -> Option<String> {
    run.result().map(|result| result.status.to_string())
}

/// What of a run that goes on only a model can do; nothing if it is being stopped, which anybody can do.
pub(crate) fn needed_model(run: &Run) -> Option<Vec<String>> {
    let root = run.node(NodeId::root(run.id()))?;
    if run.result().is_some() || root.state == NodeState::Cancelling {
        return None;
    }
    let tasks = model_tasks(&run.plan().steps);
    (!tasks.is_empty()).then_some(tasks)
}

/// Whether something of `plan` is left undone, or not known to hold, without a model: a task that only a model can do, or a criterion that one judges.
#[must_use]
pub fn needs_model(plan: &Plan) -> bool {
    let judged = |criteria: &[Criterion]| criteria.iter().any(|one| one.check == Check::Judge);
    !model_tasks(&plan.steps).is_empty()
        || judged(&plan.criteria)
        || tasks_of(&plan.steps).into_iter().any(|task| judged(&task.criteria))
}

/// The names of a plan's tasks that only a model can do; where there is no plan, that is the goal.
#[must_use]
pub(crate) fn model_tasks(steps: &[Step]) -> Vec<String> {
    if steps.is_empty() {
        return vec!["the goal".to_owned()];
    }
    let tasks = tasks_of(steps).into_iter();
    let found: BTreeSet<_> = tasks
        .filter(|task| matches!(task.work, Work::Model) && task.needs_model())
        .map(|task| task.id.to_string())
        .collect();
    found.into_iter().collect()
}

/// All tasks that are written out in `steps`, those of plans inside of them, too.
fn tasks_of(steps: &[Step]) -> Vec<&Task> {
    let mut found = Vec::new();
    let mut stack: Vec<&Step> = steps.iter().collect();
    while let Some(step) = stack.pop() {
        match step {
            Step::Task(task) => {
                if let Work::Plan(plan) = &task.work {
                    stack.extend(&plan.steps);
                }
                found.push(&**task);
            }
            Step::Parallel(group) => stack.extend(&group.steps),
            Step::Sequence(sequence) => stack.extend(&sequence.steps),
            Step::ForEach(for_each) => stack.push(&for_each.body),
        }
    }
    found
}
