//! What was said of a task and no longer fits: into the history of a thread of its own, as any conversation (M7.8 V8).

use std::sync::Arc;

use folio_engine::Run;
use folio_engine::run::CompactAction;
use folio_engine::spend::Spend;
use folio_engine::talk::{Message, Speaker};
use folio_memory::tokens::for_model;
use folio_memory::{Actor, ThreadKey};
use folio_store::workspace::{Compactor, Offload, Workspace, WorkspaceError};
use serde_json::{Value, json};

use crate::brief::Reader;
use crate::compactor::{COMPACTOR_TIME, ModelCompactor};
use crate::models::RunnerModel;

/// Puts the messages of `action` away and gives what stands for them, and what a compactor cost, if one was asked. The same messages again are put away once, so a crash
/// before this is recorded leaves nothing twice.
pub(crate) async fn put_away(
    workspace: &Workspace,
    actor: &Actor,
    run: &Run,
    reader: &Reader<'_>,
    action: &CompactAction,
    compactor: Option<&RunnerModel>,
) -> Result<(String, Spend), WorkspaceError> {
    let thread = thread_of(run, reader.thread, action);
    let compactor = compactor
        .filter(|_| action.may_ask)
        .map(|model| Arc::new(ModelCompactor::new(model.clone())));
    let how = Offload {
        window_tokens: action.window,
        keep_last: 0,
        summary_tokens: action.summary_tokens,
        force: true,
        tokens: Arc::new(for_model(reader.model)),
        open_work: Some(reader.thread.clone()),
        compactor: compactor
            .clone()
            .map(|compactor| (compactor as Arc<dyn Compactor>, COMPACTOR_TIME)),
        ..Offload::default()
    };
    let list: Vec<Value> = action.messages.iter().map(in_common_form).collect();
    let offloaded = workspace.offload(actor, &thread, &Value::Array(list), &how).await?;
    let stands_for = offloaded
        .messages
        .first()
        .and_then(|message| message.get("content"))
        .and_then(Value::as_str);
    let spent = compactor.map(|compactor| compactor.spent()).unwrap_or_default();
    Ok((stands_for.unwrap_or_default().to_owned(), spent))
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
