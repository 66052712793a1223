//! Requests to memory that cannot be read leave a line in the trace, as every refusal does (decision 0083).

use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use folio::memory::trace::FAILED;
use serde_json::json;

use super::app::App;
use super::caller::Caller;

/// Attached to the response that refuses an unreadable request: why it was refused.
#[derive(Debug, Clone)]
pub(crate) struct UnreadableInput {
    pub(crate) code: String,
    pub(crate) detail: String,
}

impl UnreadableInput {
    /// Returns whether a problem with this code means that the request could not be read, so nothing below the routes
    /// knows of it.
    pub(crate) fn is_code(code: &str) -> bool {
        matches!(
            code,
            "body_invalid" | "body_not_json" | "body_encoded" | "body_too_large" | "observation_malformed"
        )
    }
}

/// Adds a note to the trace if a request that would change memory could not be read: the operation, and who requested
/// it.
pub(crate) async fn record_unreadable_change(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let Some((component, operation)) = path.and_then(|path| memory_operation(request.method(), path.as_str())) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let mut head = parts.clone();
    let answer = next.run(Request::from_parts(parts, body)).await;
    if let Some(unread) = answer.extensions().get::<UnreadableInput>()
        && let Ok(caller) = Caller::from_request_parts(&mut head, &app).await
    {
        let workspace = &caller.workspace;
        let note = workspace.noted(component, &operation).with_status(FAILED);
        workspace.note(note.with_detail(json!({"code": unread.code, "error": unread.detail})));
    }
    answer
}

/// Returns the component and the operation of a request that would change memory.
fn memory_operation(method: &Method, path: &str) -> Option<(&'static str, String)> {
    let path = path.strip_prefix("/v1/spaces/{space}/")?;
    let pair = |component, operation: &str| Some((component, operation.to_owned()));
    match (method.as_str(), path) {
        ("POST", "observations") => pair("scratch_page", "add_observation"),
        ("PATCH", "observations/{observation}") => pair("scratch_page", "update_observation"),
        ("POST", "threads/{thread}/scratchbook/items") => pair("scratchbook", "add_item"),
        ("PATCH", "threads/{thread}/scratchbook/items/{item}") => pair("scratchbook", "update_item"),
        ("POST", "pages") => pair("page", "add_page"),
        ("POST", "pages/{page}/entries") => pair("page", "append"),
        ("POST", "turns") => pair("turn", "begin_turn"),
        ("POST", "turns/{turn}/end") => pair("turn", "end_turn"),
        ("POST", "tool-responses") => pair("scratch_page", "ingest"),
        ("POST", "threads/{thread}/history") => pair("history", "offload"),
        ("POST", "threads/{thread}/evict") => pair("memory", "evict"),
        ("POST", "forget") => pair("memory", "forget"),
        ("POST", path) => {
            let verb = path.strip_prefix("observations/{observation}/")?;
            Some(("scratch_page", format!("{verb}_observation")))
        }
        _ => None,
    }
}
