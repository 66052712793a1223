//! Begins calls of tools, models and compactors once their beginning is durable; calls that only compute begin earlier.

use std::sync::Arc;

use folio_engine::CallAction;
use folio_engine::run::{AskAction, CheckAction, CompactAction, GrantedApproval};
use folio_tools::{Effect, ToolContext};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Done, Drive};
use crate::brief::BriefReader;
use crate::compact::{Compaction, CompactionResult};
use crate::compactor::ModelCompactor;
use crate::error::RunnerError;
use crate::sessions::{self, First};
use crate::tool_executor::WorkerContext;
use crate::{grants, models, perform};

impl Drive {
    /// Begins the gathered calls that only compute: it makes no difference to anybody whether they began.
    pub(super) fn begin_ahead(&mut self) {
        let registry = self.shared.registry.clone();
        let computes = |call: &CallAction| {
            // A call that reads memory does more than compute.
            let spec = registry.get(&call.tool).map(|tool| tool.spec());
            spec.is_some_and(|spec| spec.effect == Effect::Pure && spec.scratch_page_query.is_none())
        };
        let batch = self.pending_writes.batch_number();
        let calls: Vec<_> = self
            .pending_writes
            .batch
            .calls
            .extract_if(.., |call| computes(call))
            .collect();
        for call in calls {
            self.pending_writes.note_call_started();
            self.begin(call, batch);
        }
    }

    /// Begins `call`, whose beginning is recorded in `batch`.
    pub(super) fn begin(&mut self, call: CallAction, batch: u64) {
        let is_repeatable = perform::is_repeatable(&call.tool, &self.shared.registry);
        let cancel = self.under_way.begin(call.node, batch, is_repeatable);
        let mut context = ToolContext {
            cancel,
            ..self.context.clone()
        };
        match call.granted {
            GrantedApproval::Nothing => {}
            GrantedApproval::Tool => context.allow_tool(),
            GrantedApproval::Call => context.allow(),
        }
        context.allowed |= grants::allows_tool(&self.allowed_tools, &call.tool);
        let (registry, memory) = (self.shared.registry.clone(), self.shared.workspace.clone());
        let caller = self.actor();
        self.unpolled_calls.push(Box::pin(async move {
            let performed = perform::call(registry, context, memory, caller, call).await;
            Ok(Done::Call(Box::new(performed), batch))
        }));
    }

    /// Begins `check`. A check by commands is recorded in `batch`.
    pub(super) fn begin_checking(&mut self, check: CheckAction, batch: Option<u64>) {
        let CheckAction { node, calls, .. } = check;
        let cancel = match batch {
            Some(batch) => self.under_way.begin(node, batch, true),
            None => self.under_way.check(node),
        };
        let context = ToolContext {
            cancel,
            ..self.context.clone()
        };
        let (registry, id) = (self.shared.registry.clone(), self.run.id());
        self.unpolled_calls.push(Box::pin(async move {
            let found = perform::perform_checks(registry, context, id, node, calls).await;
            Ok(Done::Checked(node, batch, found))
        }));
    }

    /// Asks a model. The question is recorded in `batch`.
    pub(super) fn begin_asking(&mut self, ask: AskAction, batch: u64) {
        let Some(models) = &self.shared.options.models else {
            return;
        };
        let model = models.model_for_ask(&ask).clone();
        let all = self.shared.model_places.clone();
        // Its answer is paid for.
        let cancel = self.under_way.begin(ask.node, batch, false);
        let mut context = ToolContext {
            cancel,
            ..self.context.clone()
        };
        context.allowed |= grants::allows_tool(&self.allowed_tools, &model.worker_name());
        let worker_context = WorkerContext {
            run: self.run.id(),
            registry: self.shared.registry.clone(),
            context,
            has_person: self.has_person,
        };
        self.unpolled_calls.push(Box::pin(async move {
            let (session_sender, sessions) = mpsc::channel(1);
            let id = (ask.node, ask.call);
            let ask_future = Box::pin(models::ask(model, all, ask, worker_context, session_sender));
            match sessions::next_session_or_end(id, ask_future, sessions).await {
                First::Ended(ended) => Ok(Done::Asked(ended, batch)),
                First::Session(session) => Ok(Done::Session(session, batch)),
            }
        }));
    }

    /// Tells the executor that waits elsewhere for an answer to `question` that none will come. Only giving up the run
    /// waits for that.
    pub(super) fn call_off(&mut self, executor: Option<&str>, question: String) {
        let Some(models) = &self.shared.options.models else {
            return;
        };
        let model = Arc::clone(&models.executor_named(executor).model);
        self.pending_cancellations
            .0
            .spawn(async move { model.call_off(&question).await });
    }

    /// Has a compactor put away part of a task's conversation, which is recorded in `batch`.
    pub(super) fn begin_compacting(&mut self, action: CompactAction, batch: u64) {
        let node = action.node;
        let Some(compaction) = self.putting_away(action) else {
            return;
        };
        let cancel = self.under_way.begin(node, batch, true);
        let patience = self.patience.clone();
        self.unpolled_calls.push(Box::pin(async move {
            let put_away = || Box::pin(compaction.run_unless_cancelled(&cancel));
            let result = patience.outlast(put_away).await?;
            Ok(Done::PutAway(Box::new(result), batch))
        }));
    }

    /// Puts away part of a task's conversation without asking a model, and records what takes its place.
    pub(super) async fn compact(&mut self, action: CompactAction) -> Result<(), RunnerError> {
        let Some(compaction) = self.putting_away(action) else {
            return Ok(());
        };
        let never = CancellationToken::new();
        let put_away = || Box::pin(compaction.run_unless_cancelled(&never));
        let result = self.patience.outlast(put_away).await?;
        self.put_away_ended(result).await
    }

    /// Records the result of putting away.
    pub(super) async fn put_away_ended(&mut self, result: CompactionResult) -> Result<(), RunnerError> {
        let note = result.note(self.shared.workspace.now(), &self.actor());
        self.pending_writes.batch.notes.extend(note);
        let event = result.event(&self.run);
        self.record_if_some(event).await
    }

    fn putting_away(&self, action: CompactAction) -> Option<Compaction> {
        let models = self.shared.options.models.as_ref()?;
        let reader = BriefReader::of(models, &self.memory, self.run.executor_name(action.node));
        let workspace = &self.shared.workspace;
        let compactor = models.compactor.clone();
        let compactor =
            compactor.map(|model| ModelCompactor::new(model).with_shared_places(self.shared.model_places.clone()));
        Some(Compaction::of(
            workspace,
            self.actor(),
            &self.run,
            reader,
            compactor,
            action,
        ))
    }
}
