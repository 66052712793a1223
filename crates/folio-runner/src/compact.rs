//! What was said of a task and no longer fits: into the history of a thread of its own, as any conversation (M7.8 V8).

use std::sync::Arc;

use folio_engine::event::BookView;
use folio_engine::run::CompactAction;
use folio_engine::spend::Spend;
use folio_engine::talk::{Message, Speaker};
use folio_engine::{Event, NodeId, Run};
use folio_memory::tokens::for_model;
use folio_memory::trace::FAILED;
use folio_memory::{Actor, ThreadKey, Timestamp, TraceNote};
use folio_store::ErrorKind;
use folio_store::workspace::{Compactor, Offload, Workspace, WorkspaceError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::brief::Reader;
use crate::compactor::{COMPACTOR_TIME, ModelCompactor};

/// What is to be put away, with all that is needed for it: nothing of the run is looked at meanwhile.
#[derive(Debug)]
pub(crate) struct PuttingAway {
    workspace: Workspace,
    actor: Actor,
    reader: Reader,
    /// Where the conversation is kept.
    thread: ThreadKey,
    action: CompactAction,
    compactor: Option<Arc<ModelCompactor>>,
}

/// What came of it. Kept until it is durable, and said again if somebody else was quicker.
#[derive(Debug, Clone)]
pub(crate) struct PutAway {
    pub(crate) node: NodeId,
    became: Became,
}

#[derive(Debug, Clone)]
enum Became {
    /// This stands for what was put away.
    Done(Done),
    /// It was stopped.
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

impl PuttingAway {
    /// What `action` wants put away of `run`, for those who read it: `reader`. The compactor is asked if something was set aside for it.
    pub(crate) fn of(
        workspace: &Workspace,
        actor: Actor,
        run: &Run,
        reader: Reader,
        compactor: Option<ModelCompactor>,
        action: CompactAction,
    ) -> Self {
        Self {
            workspace: workspace.clone(),
            actor,
            thread: thread_of(run, &reader.thread, &action),
            reader,
            compactor: compactor.filter(|_| action.reserved.is_some()).map(Arc::new),
            action,
        }
    }

    /// Does it, unless `cancel` comes first. The same messages again are put away once, so who is stopped, or dies before this is recorded,
    /// leaves nothing twice.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`: then nobody writes on. What is refused for another reason is refused as often as it is tried, and is what
    /// became of it.
    pub(crate) async fn unless(self, cancel: CancellationToken) -> Result<PutAway, WorkspaceError> {
        let node = self.action.node;
        let became = tokio::select! {
            biased;
            () = cancel.cancelled() => Became::Stopped,
            done = self.put_away() => match done {
                Ok(done) => Became::Done(done),
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Corrupt) => return Err(error),
                Err(error) => Became::Failed(error.to_string()),
            },
        };
        Ok(PutAway { node, became })
    }

    async fn put_away(self) -> Result<Done, WorkspaceError> {
        let compactor = self.compactor;
        let how = Offload {
            window_tokens: self.action.window,
            keep_last: 0,
            summary_tokens: self.action.summary_tokens,
            force: true,
            tokens: Arc::new(for_model(&self.reader.model)),
            open_work: Some(self.reader.thread.clone()),
            compactor: compactor
                .clone()
                .map(|compactor| (compactor as Arc<dyn Compactor>, COMPACTOR_TIME)),
            ..Offload::default()
        };
        let list: Vec<Value> = self.action.messages.iter().map(in_common_form).collect();
        let offloaded = self
            .workspace
            .offload(&self.actor, &self.thread, &Value::Array(list), &how)
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
                .book(&self.workspace, self.workspace.moment().await?)
                .await?,
            spent: match (compactor, &self.action.reserved) {
                (Some(compactor), Some(reserved)) => compactor.spent_of(reserved),
                _ => Spend::default(),
            },
        })
    }
}

impl PutAway {
    /// What the trace is told of it: that it failed, and why.
    pub(crate) fn note(&self, at: Timestamp, actor: &Actor) -> Option<TraceNote> {
        let Became::Failed(why) = &self.became else { return None };
        let note = TraceNote::new(at, actor, "history", "offload").with_status(FAILED);
        Some(TraceNote {
            node: Some(self.node.to_string()),
            ..note.with_detail(json!({ "error": why }))
        })
    }

    /// The event that records it in `run`; none if nothing follows.
    pub(crate) fn event(self, run: &Run) -> Option<Event> {
        let node = self.node;
        let done = match self.became {
            Became::Done(done) => done,
            Became::Stopped => return run.compaction_stopped(node),
            Became::Failed(_) => return run.compaction_failed(node),
        };
        Some(Event::Compacted {
            node,
            pieces: done.pieces,
            text: done.text,
            book: done.book,
            spent: done.spent,
        })
    }
}

/// The thread of a task's conversation: the run may hold many at a time, and each has a history and a summary of its own.
fn thread_of(run: &Run, thread: &ThreadKey, action: &CompactAction) -> ThreadKey {
    let path = run.node(action.node).map_or("", |view| view.path);
    let path = if path.is_empty() { "goal" } else { path };
    ThreadKey(format!("{thread}/{}/{path}", run.id()))
}

/// A message as offloads read it. Leading rules and the task are not among them: they are said anew with every request.
fn in_common_form(message: &Message) -> Value {
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
