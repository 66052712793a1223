//! Puts away the part of a task's conversation that no longer fits, in the history of a thread of its own, like any
//! conversation (M7.8 V8).

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use folio_engine::event::BookView;
use folio_engine::run::CompactAction;
use folio_engine::spend::Spend;
use folio_engine::talk::{Message, Speaker};
use folio_engine::{Event, NodeId, Run};
use folio_memory::tokens::for_model;
use folio_memory::trace::FAILED;
use folio_memory::{Actor, ThreadKey, Timestamp, TraceNote};
use folio_store::ErrorKind;
use folio_store::workspace::{Compacted, Compactor, Desk, Offload, Workspace, WorkspaceError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::brief::BriefReader;
use crate::compactor::{COMPACTOR_TIME, ModelCompactor};

/// What is to be put away, with all that is needed for it, so that the run is not accessed meanwhile.
#[derive(Debug)]
pub(crate) struct Compaction {
    workspace: Workspace,
    actor: Actor,
    reader: BriefReader,
    /// What the task was told of memory.
    memory: String,
    /// The thread that keeps the conversation.
    thread: ThreadKey,
    action: CompactAction,
    compactor: Option<Arc<AskedOnce>>,
}

/// A compactor that is paid for once, also if the store fails and the messages are put away once more: its answer is
/// kept, and if it was given up before it answered, it is not asked again.
#[derive(Debug)]
struct AskedOnce {
    compactor: ModelCompactor,
    answer: OnceLock<Result<Compacted, String>>,
}

#[async_trait]
impl Compactor for AskedOnce {
    async fn compact(&self, desk: &Desk) -> Result<Compacted, String> {
        let has_asked = || self.compactor.spent().model_calls > 0;
        if let Some(answer) = self.answer.get() {
            return answer.clone();
        }
        if has_asked() {
            return Err("the compactor was asked and given up before it answered".to_owned());
        }
        let answer = self.compactor.compact(desk).await;
        // If the store failed before anything was asked, the next try asks.
        if has_asked() {
            return self.answer.get_or_init(|| answer).clone();
        }
        answer
    }
}

/// The result of putting away. Kept until it is durable, and recorded again if somebody else wrote to the journal
/// first.
#[derive(Debug, Clone)]
pub(crate) struct CompactionResult {
    pub(crate) node: NodeId,
    outcome: Became,
}

#[derive(Debug, Clone)]
enum Became {
    /// It was put away, and this takes its place.
    Done(Done),
    /// It was cancelled.
    Stopped,
    /// It cannot be put away, for this reason.
    Failed(String),
}

#[derive(Debug, Clone)]
struct Done {
    pieces: u32,
    text: String,
    book: Option<Box<BookView>>,
    spent: Spend,
}

impl Compaction {
    /// Prepares what `action` wants put away of `run`, for `reader`. The compactor is asked if something was set aside
    /// for it.
    pub(crate) fn of(
        workspace: &Workspace,
        actor: Actor,
        run: &Run,
        reader: BriefReader,
        compactor: Option<ModelCompactor>,
        action: CompactAction,
    ) -> Self {
        Self {
            workspace: workspace.clone(),
            actor,
            thread: thread_of(run, &reader.thread, &action),
            reader,
            memory: run.memory_told_to(action.node).to_owned(),
            compactor: compactor.filter(|_| action.reserved.is_some()).map(|compactor| {
                Arc::new(AskedOnce {
                    compactor,
                    answer: OnceLock::new(),
                })
            }),
            action,
        }
    }

    /// Puts the messages away, unless `cancel` comes first. The same messages are put away only once, so stopping or
    /// crashing before this is recorded leaves no duplicates.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`: then the run cannot be written to either. Any other refusal would recur on every
    /// try, so it becomes the result.
    pub(crate) async fn run_unless_cancelled(
        &self,
        cancel: &CancellationToken,
    ) -> Result<CompactionResult, WorkspaceError> {
        let node = self.action.node;
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => Became::Stopped,
            result = self.offload_messages() => match result {
                Ok(compaction) => Became::Done(compaction),
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Corrupt) => return Err(error),
                Err(error) => Became::Failed(error.to_string()),
            },
        };
        Ok(CompactionResult { node, outcome })
    }

    async fn offload_messages(&self) -> Result<Done, WorkspaceError> {
        let options = Offload {
            window_tokens: self.action.window,
            keep_last: 0,
            summary_tokens: self.action.summary_tokens,
            force: true,
            tokens: Arc::new(for_model(&self.reader.model)),
            has_view: false,
            task: Some(self.action.task.clone()),
            compactor: self
                .compactor
                .clone()
                .map(|compactor| (compactor as Arc<dyn Compactor>, COMPACTOR_TIME)),
            ..Offload::default()
        };
        let list: Vec<Value> = self.action.messages.iter().map(to_offload_message).collect();
        let offloaded = self
            .workspace
            .offload(&self.actor, &self.thread, &Value::Array(list), &options)
            .await?;
        let stands_for = offloaded
            .messages
            .first()
            .and_then(|message| message.get("content"))
            .and_then(Value::as_str);
        Ok(Done {
            pieces: self.action.pieces,
            text: stands_for.unwrap_or_default().to_owned(),
            book: self
                .reader
                .book(&self.workspace, self.workspace.moment().await?, &self.memory)
                .await?,
            spent: match (&self.compactor, &self.action.reserved) {
                (Some(asked), Some(reserved)) => asked.compactor.spent_of(reserved),
                _ => Spend::default(),
            },
        })
    }
}

impl CompactionResult {
    /// The note for the trace if it failed, with the reason.
    pub(crate) fn note(&self, at: Timestamp, actor: &Actor) -> Option<TraceNote> {
        let Became::Failed(reason) = &self.outcome else {
            return None;
        };
        let note = TraceNote::new(at, actor, "history", "offload").with_status(FAILED);
        Some(TraceNote {
            node: Some(self.node.to_string()),
            ..note.with_detail(json!({ "error": reason }))
        })
    }

    /// The event that records it in `run`; `None` if nothing follows.
    pub(crate) fn event(self, run: &Run) -> Option<Event> {
        let node = self.node;
        let compaction = match self.outcome {
            Became::Done(compaction) => compaction,
            Became::Stopped => return run.compaction_stopped(node),
            Became::Failed(_) => return run.compaction_failed(node),
        };
        Some(Event::Compacted {
            node,
            pieces: compaction.pieces,
            text: compaction.text,
            book: compaction.book,
            spent: compaction.spent,
        })
    }
}

/// The thread of a task's conversation. A run may hold many at a time, and each has a history and a summary of its own.
fn thread_of(run: &Run, thread: &ThreadKey, action: &CompactAction) -> ThreadKey {
    let path = run.node(action.node).map_or("", |view| view.path);
    let path = if path.is_empty() { "goal" } else { path };
    ThreadKey(format!("{thread}/{}/{path}", run.id()))
}

/// A message in the form that offloads read. Leading rules and the task are not included: every request repeats them.
fn to_offload_message(message: &Message) -> Value {
    let role = match message.speaker {
        Speaker::System => "system",
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tool => "tool",
    };
    let mut form = json!({"role": role, "content": message.text});
    if let Some(id) = &message.answers {
        form["tool_call_id"] = json!(id);
    }
    if !message.calls.is_empty() {
        let calls = message
            .calls
            .iter()
            .map(|call| json!({"id": call.id, "name": call.tool, "arguments": call.args}));
        form["tool_calls"] = calls.collect();
    }
    form
}
