//! The loop of one run: ask what is due, record it, and when that is durable, do it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_engine::run::CheckFinding;
use folio_engine::{CallOutcome, Event, NodeId, NodeResult, Run};
use folio_memory::id::Ref;
use folio_memory::{Actor, Role, RunId, Seq};
use folio_store::commit::RECORD_FORMAT;
use folio_store::workspace::Workspace;
use folio_store::{BlobHash, Commit, Expected, Record, RunAppend, StoreError};
use folio_tools::{PageTarget, ToolContext};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::{RunnerError, store_error};
use crate::grants;
use crate::memory::{MemoryWriter, ruled, turn_of};
use crate::outputs::JournalResults;
use crate::perform::{self, Performed, Writes};
use crate::prefer::Preferences;
use crate::runner::Shared;
use crate::steps::{Batch, Outside, UnderWay, derive, status_of};

/// How often, at most, a driver looks whether somebody else wrote to its run's journal.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How often a commit is tried again when somebody else keeps writing to the journal in between.
const CONFLICTS_MAX: u32 = 100;

/// Something that was done outside and now is to be recorded.
#[derive(Debug)]
enum Done {
    /// A call ended.
    Call(Performed),
    /// The criteria of a call's answer were checked.
    CallChecked(Performed, Vec<CheckFinding>),
    /// The criteria of a node with children were checked.
    NodeChecked(NodeId, Vec<CheckFinding>),
}

type Pending = FuturesUnordered<Pin<Box<dyn Future<Output = Done> + Send>>>;

/// One run while this process drives it.
pub(crate) struct Drive {
    shared: Arc<Shared>,
    run: Run,
    /// Where the journal ends, as far as `run` knows it.
    head: Arc<AtomicU64>,
    fence: u64,
    context: ToolContext,
    memory: MemoryWriter,
    /// What comes first, if somebody waits for something.
    prefer: Option<Preferences>,
    under_way: UnderWay,
    pending: Pending,
}

impl Drive {
    /// Takes up a run that was claimed under `fence`.
    ///
    /// Calls that had begun and have no outcome are owed again, by the class of their tools.
    pub(crate) async fn open(shared: Arc<Shared>, id: RunId, fence: u64) -> Result<Self, RunnerError> {
        let (run, head) = shared.open(id).await?;
        let roots = grants::roots_of(&run)?;
        let run_folder = grants::run_folder(shared.options.run_folders.as_deref(), &run);
        let mut context = ToolContext::new(roots, run_folder);
        context.shell = Arc::new(grants::shell_of(&run));
        context.environment = Arc::new(shared.options.environment.clone());
        context.results = Arc::new(JournalResults {
            store: Arc::clone(shared.workspace.store()),
            space: shared.workspace.space().clone(),
            run: id,
            templates: Arc::clone(&shared.templates),
        });
        let memory = MemoryWriter {
            space: shared.workspace.space().clone(),
            clock: Arc::clone(shared.workspace.clock()),
            ids: Arc::clone(shared.workspace.ids()),
            turn: turn_of(&run),
            policy: Arc::default(),
        };
        let prefer = Preferences::of(&shared.workspace).await.map_err(store_error)?;
        let head = Arc::new(AtomicU64::new(head.0));
        let (under_way, pending) = (UnderWay::default(), FuturesUnordered::new());
        let mut drive = Self {
            shared,
            run,
            head,
            fence,
            context,
            memory,
            prefer,
            under_way,
            pending,
        };
        // A request to stop may come in between; what is in flight is then looked at again.
        for _ in 0..CONFLICTS_MAX {
            let in_flight = drive.run.in_flight();
            if in_flight.is_empty() {
                return Ok(drive);
            }
            let mut batch = Batch::default();
            drive.record(&mut batch, Event::Resumed { in_flight })?;
            if drive.commit(batch).await? {
                return Ok(drive);
            }
        }
        Err(drive.too_many_conflicts())
    }

    /// Drives the run to its end, and returns what it came to.
    pub(crate) async fn run(mut self) -> Result<NodeResult, RunnerError> {
        let foreign = Arc::new(Notify::new());
        let watcher = Watcher(tokio::spawn(watch_for_others(
            Arc::clone(&self.shared),
            self.run.id(),
            Arc::clone(&self.head),
            Arc::clone(&foreign),
        )));
        let mut done: Vec<Done> = Vec::new();
        loop {
            self.record_and_begin(std::mem::take(&mut done)).await?;
            if let Some(result) = self.run.result() {
                drop(watcher);
                return Ok(result.clone());
            }
            let wake = self
                .run
                .wakes_at()
                .map(|at| at.since(self.shared.workspace.clock().now()));
            tokio::select! {
                biased;
                Some(first) = self.pending.next() => done.push(first),
                () = foreign.notified() => self.catch_up().await?,
                () = tokio::time::sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() => {}
            }
            // Whatever else has ended meanwhile goes into the same commit.
            while let Some(Some(more)) = futures_util::FutureExt::now_or_never(self.pending.next()) {
                done.push(more);
            }
        }
    }

    /// Records what was done and all that follows, then begins what that made due.
    async fn record_and_begin(&mut self, done: Vec<Done>) -> Result<(), RunnerError> {
        let mut outcomes: Vec<Outcome> = Vec::new();
        for done in done {
            match done {
                Done::Call(performed) => {
                    let checks = match &performed.outcome {
                        CallOutcome::Answered(answer) => self.run.checks_of_call(performed.node, answer),
                        CallOutcome::Failed(_) | CallOutcome::Stopped => Vec::new(),
                    };
                    if checks.is_empty() {
                        outcomes.push(Outcome::Call(performed, Vec::new()));
                    } else {
                        let (registry, context) = (self.shared.registry.clone(), self.context.clone());
                        let (id, node) = (self.run.id(), performed.node);
                        self.pending.push(Box::pin(async move {
                            let found = perform::checks(registry, context, id, node, checks).await;
                            Done::CallChecked(performed, found)
                        }));
                    }
                }
                Done::CallChecked(performed, found) => outcomes.push(Outcome::Call(performed, found)),
                Done::NodeChecked(node, found) => outcomes.push(Outcome::Node(node, found)),
            }
        }
        for outcome in &mut outcomes {
            if let Outcome::Call(performed, _) = outcome {
                resolve_pages(&self.shared.workspace, &mut performed.writes).await?;
            }
        }
        if !outcomes.is_empty() {
            self.memory.policy = self.shared.workspace.policy().await.map_err(store_error)?;
        }
        let mut conflicts = 0;
        loop {
            let mut batch = Batch::default();
            for outcome in &outcomes {
                self.conclude(&mut batch, outcome)?;
            }
            let outside = self.derive(&mut batch)?;
            if !batch.is_empty() {
                if self.commit(batch).await? {
                    outcomes.clear();
                } else {
                    conflicts += 1;
                    if conflicts > CONFLICTS_MAX {
                        return Err(self.too_many_conflicts());
                    }
                }
                continue;
            }
            for (node, calls) in outside.verify {
                self.under_way.checks.insert(node);
                let (registry, context, id) = (self.shared.registry.clone(), self.context.clone(), self.run.id());
                self.pending.push(Box::pin(async move {
                    Done::NodeChecked(node, perform::checks(registry, context, id, node, calls).await)
                }));
            }
            if outside.load.is_empty() {
                return Ok(());
            }
            for hash in outside.load {
                self.load(&hash).await?;
            }
        }
    }

    /// Puts into `batch` all that follows from the state.
    fn derive(&mut self, batch: &mut Batch) -> Result<Outside, RunnerError> {
        let now = self.shared.workspace.clock().now();
        let concurrency = self.concurrency();
        let registry = &self.shared.registry;
        let prefer = self.prefer.as_ref();
        derive(
            &mut self.run,
            registry,
            &self.under_way,
            prefer,
            concurrency,
            now,
            batch,
        )
        .map_err(|source| self.journal_error(source))
    }

    /// Applies how a call or a check ended. One that was overtaken by a cancellation still counts: it did happen.
    fn conclude(&mut self, batch: &mut Batch, outcome: &Outcome) -> Result<(), RunnerError> {
        let now = self.shared.workspace.clock().now();
        match outcome {
            Outcome::Call(performed, found) => {
                self.under_way.calls.remove(&performed.node);
                let node = performed.node;
                let mut event = self
                    .run
                    .conclude(node, performed.outcome.clone(), found, performed.duration, now);
                let _said_in_the_event = self.shared.workspace.clean_event(&mut event);
                let (ruled, problems) = match &event {
                    Event::Finished { result, .. } => ruled(&self.run, node, result),
                    _ => (Vec::new(), Vec::new()),
                };
                let writes = performed.writes.clone();
                let more = self.memory.changes(&self.run, node, writes, ruled, problems);
                batch
                    .record(&mut self.run, now, event, more)
                    .map_err(|source| self.journal_error(source))
            }
            Outcome::Node(node, found) => {
                self.under_way.checks.remove(node);
                match self.run.verified(*node, found) {
                    Some(mut event) => {
                        let _said_in_the_event = self.shared.workspace.clean_event(&mut event);
                        self.record(batch, event)
                    }
                    None => Ok(()),
                }
            }
        }
    }

    fn record(&mut self, batch: &mut Batch, event: Event) -> Result<(), RunnerError> {
        let now = self.shared.workspace.clock().now();
        batch
            .record(&mut self.run, now, event, Vec::new())
            .map_err(|source| self.journal_error(source))
    }

    /// Makes `batch` durable and begins its calls.
    ///
    /// `false` if somebody else wrote to the journal in between (a request to stop): nothing of the batch was written, and
    /// the run was folded anew with that in it.
    async fn commit(&mut self, mut batch: Batch) -> Result<bool, RunnerError> {
        let calls = std::mem::take(&mut batch.calls);
        match self.write(batch).await {
            Ok(()) => {
                calls.into_iter().for_each(|call| self.begin(call));
                Ok(true)
            }
            Err(StoreError::StaleRun { .. }) => {
                let (run, head) = self.shared.fold(self.run.id()).await?;
                self.run = run;
                self.head.store(head.0, Ordering::Release);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn too_many_conflicts(&self) -> RunnerError {
        RunnerError::Store(StoreError::Unavailable {
            doing: "write to",
            location: self.shared.workspace.store().location(),
            reason: format!("others wrote to the run's journal {CONFLICTS_MAX} times in a row"),
            source: None,
        })
    }

    async fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        let workspace = &self.shared.workspace;
        let (id, head) = (self.run.id(), Seq(self.head.load(Ordering::Acquire)));
        let append = RunAppend {
            run: id,
            events: batch.events,
            status: status_of(&self.run),
            title: None,
        };
        let commit = Commit {
            space: workspace.space().clone(),
            at: workspace.clock().now(),
            actor: Actor {
                turn: self.memory.turn,
                ..Actor::new(Role::Planner, "runner").in_run(id)
            },
            idempotency_key: None,
            expected: vec![Expected::RunHead {
                run: id,
                head,
                fence: Some(self.fence),
            }],
            record: Record {
                format: RECORD_FORMAT,
                changes: batch.changes,
                run: Some(append),
                reason: None,
                folded: None,
            },
            blobs: batch.blobs,
        };
        let committed = workspace.commit(commit).await.map_err(store_error)?;
        self.head.store(committed.seq.0, Ordering::Release);
        Ok(())
    }

    fn begin(&mut self, call: folio_engine::CallAction) {
        let cancel = CancellationToken::new();
        self.under_way.calls.insert(call.node, cancel.clone());
        let context = ToolContext {
            cancel,
            ..self.context.clone()
        };
        let (registry, id) = (self.shared.registry.clone(), self.run.id());
        self.pending.push(Box::pin(async move {
            Done::Call(perform::call(registry, context, id, call).await)
        }));
    }

    fn concurrency(&self) -> usize {
        self.shared
            .options
            .concurrency
            .unwrap_or(self.run.limits().concurrency)
            .max(1) as usize
    }

    /// Takes in what others wrote to the journal.
    async fn catch_up(&mut self) -> Result<(), RunnerError> {
        let since = Seq(self.head.load(Ordering::Acquire));
        let journal = self
            .shared
            .workspace
            .store()
            .journal(self.shared.workspace.space(), self.run.id(), since)
            .await?;
        for (at, event) in &journal.events {
            self.run
                .apply(*at, event)
                .map_err(|source| self.journal_error(source))?;
        }
        self.head.fetch_max(journal.head.0, Ordering::AcqRel);
        Ok(())
    }

    /// Reads an output that is kept beside the journal.
    async fn load(&mut self, hash: &str) -> Result<(), RunnerError> {
        let workspace = &self.shared.workspace;
        let bytes = workspace
            .store()
            .blob(workspace.space(), &BlobHash(hash.to_owned()))
            .await?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| StoreError::Corrupt {
            location: workspace.store().location(),
            reason: format!("the body {hash} is not JSON"),
            source: Some(Box::new(error)),
        })?;
        self.run.supply(hash, Arc::new(value));
        Ok(())
    }

    fn journal_error(&self, source: folio_engine::run::JournalError) -> RunnerError {
        RunnerError::Journal {
            run: self.run.id(),
            source,
        }
    }
}

/// Replaces handles of pages by their ids. A page that is not there stays a handle, and is rejected later.
async fn resolve_pages(workspace: &Workspace, writes: &mut Writes) -> Result<(), RunnerError> {
    for append in &mut writes.page_appends {
        let PageTarget::Handle(handle) = &append.page else {
            continue;
        };
        let Ok(reference) = handle.parse() else { continue };
        match workspace.store().page(workspace.space(), reference).await {
            Ok(page) => append.page = PageTarget::Handle(page.id.to_string()),
            Err(StoreError::NotFound { .. }) => append.page = PageTarget::Handle(format!("{handle} (not found)")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Something that was done, kept until it is durable.
enum Outcome {
    Call(Performed, Vec<CheckFinding>),
    Node(NodeId, Vec<CheckFinding>),
}

/// Ends its task when the drive ends.
struct Watcher(tokio::task::JoinHandle<()>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Rings when somebody else wrote to the journal of `run`. A missed ring costs nothing but time: every commit checks.
async fn watch_for_others(shared: Arc<Shared>, run: RunId, own_head: Arc<AtomicU64>, ring: Arc<Notify>) {
    let workspace = &shared.workspace;
    let mut seen = Seq(own_head.load(Ordering::Acquire));
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        match workspace.store().wait(workspace.space(), seen).await {
            Ok(head) => seen = head,
            // The driver's own next commit reports what is wrong with the store.
            Err(_) => continue,
        }
        if let Ok(row) = workspace.store().run(workspace.space(), Ref::Id(run)).await
            && row.head.0 > own_head.load(Ordering::Acquire)
        {
            ring.notify_one();
        }
    }
}
