//! Who does tasks by one call of a tool: of an MCP server, or of one's own (E9.17).

use std::sync::Arc;
use std::time::Duration;

use folio_engine::run::{AskAction, ModelAnswer, ModelFailure, ModelFailureKind};
use folio_engine::talk::{Reply, Stop};
use folio_model::task_text;
use folio_tools::{FailureKind, Registry, ToolContext, ToolRequest, ToolResponse};
use serde_json::{Value, json};

use crate::models::{RunnerModel, request_of};
use crate::perform::{Ended, within};
use crate::places::Places;

/// How long a call may take whose tool has no limit of its own.
const TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Has the tool `(name, argument)` do what `action` asks for, as it may.
pub(crate) async fn work(
    model: &RunnerModel,
    all: Option<&Arc<Places>>,
    (tool, argument): (&str, &str),
    registry: &Registry,
    action: AskAction,
    mut context: ToolContext,
) -> ModelAnswer {
    context.allow();
    let node_id = action.node.to_string();
    let asked = request_of(action);
    let run_id = asked.idempotency_key.split('/').next().unwrap_or_default().to_owned();
    let request = ToolRequest {
        request_id: asked.idempotency_key.clone(),
        tool: tool.to_owned(),
        args: json!({argument: task_text(&asked)}),
        run_id,
        node_id,
        attempt: 1,
        scratch_page_context: Vec::new(),
    };
    let cancel = context.cancel.clone();
    let _place = tokio::select! {
        biased;
        () = cancel.cancelled() => return ModelAnswer::Stopped,
        place = model.place(all) => place,
    };
    match within(TIME, &cancel, registry.call(&request, &context)).await {
        Ended::Answered(response) => answer_of(*response, model),
        Ended::Stopped => ModelAnswer::Stopped,
        Ended::TimedOut => failed(model, ModelFailureKind::Unknown, "it did not answer within a day"),
    }
}

fn answer_of(response: ToolResponse, model: &RunnerModel) -> ModelAnswer {
    let Some(error) = response.error else {
        return ModelAnswer::Replied {
            reply: Reply {
                text: text_of(&response.outputs),
                calls: Vec::new(),
                stop: Stop::Done,
            },
            // It does not say.
            used: None,
            model: model.name.clone(),
        };
    };
    let kind = match error.kind {
        FailureKind::InvalidArgs | FailureKind::NotFound => ModelFailureKind::Invalid,
        FailureKind::Denied => ModelFailureKind::Denied,
        FailureKind::Unavailable => ModelFailureKind::Unavailable,
        FailureKind::Failed => ModelFailureKind::Failed,
        FailureKind::Cancelled => return ModelAnswer::Stopped,
        // Whatever it did by then, it did.
        FailureKind::TooLarge | FailureKind::TimedOut | FailureKind::Unknown => ModelFailureKind::Unknown,
    };
    failed(model, kind, &error.message)
}

fn failed(model: &RunnerModel, kind: ModelFailureKind, why: &str) -> ModelAnswer {
    ModelAnswer::Failed(ModelFailure {
        kind,
        message: format!("{} did not answer: {why}", model.name),
        retry_after: None,
    })
}

/// What a tool said, as a model would have: its text, and after it what it says in JSON.
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
