//! What is said of memory and cannot be read leaves a line in the trace, as everything does that is refused (decision 0083).

use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use folio::memory::trace::FAILED;
use serde_json::json;

use super::app::App;
use super::caller::Caller;

/// Beside an answer that refuses what could not be read: why.
#[derive(Debug, Clone)]
pub(crate) struct Unread {
    pub(crate) code: String,
    pub(crate) detail: String,
}

impl Unread {
    /// Whether a problem with this code says that a request could not be read. Nothing below the routes has heard of it then.
    pub(crate) fn is_code(code: &str) -> bool {
        matches!(
            code,
            "body_invalid" | "body_not_json" | "body_encoded" | "body_too_large" | "observation_malformed"
        )
    }
}

/// Notes what was to be done to memory, and by whom, if that could not be read.
pub(crate) async fn noted(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let Some((component, operation)) = path.and_then(|path| wanted(request.method(), path.as_str())) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let mut head = parts.clone();
    let answer = next.run(Request::from_parts(parts, body)).await;
    if let Some(unread) = answer.extensions().get::<Unread>()
        && let Ok(caller) = Caller::from_request_parts(&mut head, &app).await
    {
        let workspace = &caller.workspace;
        let note = workspace.noted(component, &operation).with_status(FAILED);
        workspace.note(note.with_detail(json!({"code": unread.code, "error": unread.detail})));
    }
    answer
}

/// The part of the program that a request is for, and what it is to do there: only what changes memory.
fn wanted(method: &Method, path: &str) -> Option<(&'static str, String)> {
    let path = path.strip_prefix("/v1/spaces/{space}/")?;
    let told = |component, operation: &str| Some((component, operation.to_owned()));
    match (method.as_str(), path) {
        ("POST", "observations") => told("scratch_page", "add_observation"),
        ("PATCH", "observations/{observation}") => told("scratch_page", "update_observation"),
        ("POST", "threads/{thread}/scratchbook/items") => told("scratchbook", "add_item"),
        ("PATCH", "threads/{thread}/scratchbook/items/{item}") => told("scratchbook", "update_item"),
        ("POST", "pages") => told("page", "add_page"),
        ("POST", "pages/{page}/entries") => told("page", "append"),
        ("POST", "turns") => told("turn", "begin_turn"),
        ("POST", "turns/{turn}/end") => told("turn", "end_turn"),
        ("POST", "tool-responses") => told("scratch_page", "ingest"),
        ("POST", "threads/{thread}/history") => told("history", "offload"),
        ("POST", "threads/{thread}/evict") => told("memory", "evict"),
        ("POST", "forget") => told("memory", "forget"),
        ("POST", path) => {
            let verb = path.strip_prefix("observations/{observation}/")?;
            Some(("scratch_page", format!("{verb}_observation")))
        }
        _ => None,
    }
}
