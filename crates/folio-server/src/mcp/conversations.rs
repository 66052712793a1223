//! Conversations over HTTP that have a session: how many there are, whose each is, and for how long they are told anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use crate::http::Permit;
use crate::http::problem::Problem;

/// Conversations of the generation with sessions that are open at the same time.
const MOST: usize = 256;
/// The header that names one.
const SESSION: &str = "mcp-session-id";

/// The conversations that are open. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Conversations {
    pub(super) sessions: Arc<LocalSessionManager>,
    /// By which token each was opened, or by none.
    owners: Arc<Mutex<HashMap<String, Option<String>>>>,
}

impl Conversations {
    /// Whether `who` opened the conversation `id`, or nobody did.
    fn is_of(&self, id: &str, who: Option<&str>) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.get(id).is_none_or(|owner| owner.as_deref() == who)
    }

    /// Notes that `who` opened the conversation `id`, and forgets those that have ended.
    async fn opened(&self, id: &str, who: Option<String>) {
        let open = self.sessions.sessions.read().await;
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|id, _| open.contains_key(id.as_str()));
        owners.insert(id.to_owned(), who);
    }
}

/// Refuses a conversation more than there may be. Requests that belong to one, or to none, pass.
pub(super) async fn not_too_many(State(open): State<Conversations>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let has_none = !headers.contains_key(SESSION);
    let needs_one = headers
        .get("mcp-protocol-version")
        .is_none_or(|version| version.as_bytes() < b"2026-07-28".as_slice());
    if has_none && needs_one && open.sessions.sessions.read().await.len() >= MOST {
        let detail = format!("{MOST} conversations are open, which is as many as this server has");
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", detail)
            .hint("end one, or wait until one that nobody uses has ended by itself after five minutes")
            .into_response();
    }
    next.run(request).await
}

/// Keeps a conversation to the token that opened it: it is in that one's role and name, and what it is told may be read by that one. To any
/// other it is none, and nothing more is told once the token is taken back.
pub(super) async fn of_their_own(State(open): State<Conversations>, request: Request, next: Next) -> Response {
    let permit = request.extensions().get::<Permit>().cloned();
    let who = permit.as_ref().and_then(Permit::token_id).map(str::to_owned);
    if let Some(id) = session_in(request.headers())
        && !open.is_of(id, who.as_deref())
    {
        return Problem::not_found("not_found", format!("there is no conversation {id}")).into_response();
    }
    let response = next.run(request).await;
    if let Some(id) = session_in(response.headers()) {
        open.opened(id, who).await;
    }
    match permit.filter(Permit::has_token) {
        Some(permit) if is_stream(&response) => response.map(|body| while_it_holds(body, permit)),
        _ => response,
    }
}

fn session_in(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION).and_then(|id| id.to_str().ok())
}

/// Whether an answer may go on for long.
fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) && !response.body().is_end_stream()
}

/// `body` until `permit` holds no longer. It is looked at before each part is sent, so also whenever the stream shows that it is alive.
fn while_it_holds(body: Body, permit: Permit) -> Body {
    let parts = body.into_data_stream().then(move |part| {
        let permit = permit.clone();
        async move { permit.still_holds().await.ok().map(|()| part) }
    });
    let parts = parts.take_while(|part| std::future::ready(part.is_some()));
    Body::from_stream(parts.filter_map(std::future::ready))
}
