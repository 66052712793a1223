//! Executors that do a task by one call of a tool: of an MCP server, or a custom tool (E9.17).

use std::sync::Arc;
use std::time::Duration;

use folio_engine::run::{AskAction, ModelAnswer, ModelFailure, ModelFailureKind};
use folio_memory::RunId;
use folio_model::{Reply, Request, StopCause, task_text};
use folio_tools::{Effect, FailureKind, Registry, ToolContext, ToolRequest, ToolResponse};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::models::{RunnerModel, answer_of, request_of};
use crate::perform::{Ended, grace_of, run_with_timeout};
use crate::places::Places;

/// The longest time limit of a call, and the one of a call whose task sets none.
const MAX_CALL_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What an executor that works by itself gets of a run.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) run: RunId,
    pub(crate) registry: Registry,
    pub(crate) context: ToolContext,
    /// Whether a person is there to answer questions.
    pub(crate) has_person: bool,
}

/// Has the tool do what `action` asks for; `(tool, argument)` are its name and the argument that takes the task.
pub(crate) async fn run_task_by_tool(
    model: &RunnerModel,
    all: Option<&Arc<Places>>,
    (tool, argument): (&str, &str),
    action: AskAction,
    mut worker_context: WorkerContext,
) -> ModelAnswer {
    worker_context.context.allow();
    let node_id = action.node.to_string();
    // The limit for an attempt applies to whoever does the task.
    let limit = action.attempt.unwrap_or(MAX_CALL_TIME).min(MAX_CALL_TIME);
    let model_request = request_of(action);
    let request = ToolRequest {
        args: json!({argument: task_text(&model_request)}),
        request_id: model_request.idempotency_key.clone(),
        tool: tool.to_owned(),
        run_id: worker_context.run.to_string(),
        node_id,
        attempt: 1,
        scratch_page_context: Vec::new(),
    };
    let effect = worker_context
        .registry
        .get(tool)
        .map_or(Effect::Opaque, |tool| tool.spec().effect);
    let cancel = worker_context.context.cancel.clone();
    let _place = tokio::select! {
        biased;
        () = cancel.cancelled() => return ModelAnswer::Stopped { used: None },
        place = model.place(all) => place,
    };
    let began = Instant::now();
    match run_with_timeout(
        (limit, grace_of(effect)),
        &cancel,
        worker_context.registry.call(&request, &worker_context.context),
    )
    .await
    {
        Ended::Answered(response) => {
            let is_late = began.elapsed() >= limit;
            match response.error.as_ref().filter(|_| is_late) {
                Some(error) => failed(model, ended_in_between(effect), &timeout_message(limit, &error.message)),
                None => read(*response, &model_request, model, effect),
            }
        }
        Ended::Stopped => ModelAnswer::Stopped { used: None },
        Ended::TimedOut | Ended::Dropped => failed(model, ended_in_between(effect), &timeout_message(limit, "")),
    }
}

/// The message that the tool was stopped because its time was over, with the `detail` that it gave about that.
fn timeout_message(limit: Duration, detail: &str) -> String {
    let colon = if detail.is_empty() { "" } else { ": " };
    format!("it took longer than the {limit:?} that its task allows, and was stopped{colon}{detail}")
}

fn read(response: ToolResponse, request: &Request, model: &RunnerModel, effect: Effect) -> ModelAnswer {
    let Some(error) = response.error else {
        let reply = Reply {
            text: text_of(&response.outputs),
            tool_calls: Vec::new(),
            stop: StopCause::Done,
            // The tool does not report its usage.
            usage: None,
            permissions: Vec::new(),
        };
        model.model.observe_reply(request, &reply);
        return answer_of(reply, model);
    };
    let kind = match error.kind {
        FailureKind::InvalidArgs | FailureKind::NotFound => ModelFailureKind::Invalid,
        FailureKind::Denied => ModelFailureKind::Denied,
        FailureKind::Unavailable if never_began(&error.code, effect) => ModelFailureKind::Unreached,
        FailureKind::Unavailable => ModelFailureKind::Unavailable,
        FailureKind::Failed => ModelFailureKind::Failed,
        FailureKind::Cancelled => return ModelAnswer::Stopped { used: None },
        FailureKind::TooLarge if effect.changes_nothing() => ModelFailureKind::Failed,
        FailureKind::TimedOut => ended_in_between(effect),
        // It may have had an effect by then.
        FailureKind::TooLarge | FailureKind::Unknown => ModelFailureKind::Unknown,
    };
    failed(model, kind, &error.message)
}

/// What the end of a call means that came before the tool was done: it may have had an effect by then, unless it has
/// none.
fn ended_in_between(effect: Effect) -> ModelFailureKind {
    if effect.changes_nothing() {
        ModelFailureKind::TimedOut
    } else {
        ModelFailureKind::Unknown
    }
}

/// Whether a call that failed with `code` was certainly not made, so that nothing was used up. For a tool that may not
/// be called twice, the code would otherwise say that the outcome is unknown.
fn never_began(code: &str, effect: Effect) -> bool {
    matches!(code, "mcp_server_unavailable" | "not_started") && !effect.may_be_repeated()
}

fn failed(model: &RunnerModel, kind: ModelFailureKind, reason: &str) -> ModelAnswer {
    let message = format!("{} did not answer: {reason}", model.name);
    ModelAnswer::Failed(ModelFailure::new(kind, message))
}

/// The answer of a tool in the form of a model's answer: its text, followed by its structured JSON.
fn text_of(outputs: &Value) -> String {
    let text = outputs.get("text").and_then(Value::as_str).unwrap_or_default();
    let structured = match outputs.get("structured") {
        Some(structured) => structured.to_string(),
        None if text.is_empty() => outputs.to_string(),
        None => String::new(),
    };
    let parts = [text, &structured];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}
