//! Sessions over HTTP: how many may be open, which token owns each, how long it gets messages, and when it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use folio::SpaceName;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use rmcp::model::{ClientRequest, JsonRpcError, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use rmcp::transport::streamable_http_server::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pending_requests::{PendingRequests, id_of_request};
use crate::http::problem::Problem;
use crate::http::{MCP_SESSION, Permit};
use crate::shares::may_take;
use crate::spaces::Spaces;

/// The most sessions that may be open at the same time.
const MAX_SESSIONS: usize = 256;
/// How long a session stays open that nobody uses.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// The open sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Conversations {
    pub(super) sessions: Arc<LocalSessionManager>,
    spaces: Spaces,
    opened: Arc<Mutex<HashMap<String, Opened>>>,
    /// How many sessions of each space are about to begin.
    starting: Arc<Mutex<HashMap<SpaceName, usize>>>,
    /// Cancelled when the server stops, which ends all sessions.
    stopping: CancellationToken,
    /// The requests that are being answered in each session.
    pending_requests: Arc<Mutex<HashMap<String, PendingRequests>>>,
}

/// Who opened a session, and how it is used.
#[derive(Debug)]
struct Opened {
    token: Option<String>,
    space: SpaceName,
    /// The requests that are being answered, open streams included.
    uses: usize,
    /// When the last of them ended.
    last_used: Instant,
}

/// A use of a session: a request, until it is answered or nobody listens any more.
#[derive(Debug)]
struct SessionUse {
    opened: Arc<Mutex<HashMap<String, Opened>>>,
    session: String,
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        if let Some(session) = self.opened.lock().get_mut(&self.session) {
            session.uses -= 1;
            session.last_used = Instant::now();
        }
    }
}

/// A place for a session that is about to begin, until the session is recorded or has failed to begin.
#[derive(Debug)]
pub(super) struct SessionPlace {
    starting: Arc<Mutex<HashMap<SpaceName, usize>>>,
    space: SpaceName,
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        let mut starting = self.starting.lock();
        if let Some(count) = starting.get_mut(&self.space) {
            *count -= 1;
            if *count == 0 {
                starting.remove(&self.space);
            }
        }
    }
}

/// A request of a session, until it is answered or nobody listens any more.
#[derive(Debug)]
pub(super) struct RequestGuard {
    conversations: Conversations,
    session: String,
    id: RequestId,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut under_way = self.conversations.pending_requests.lock();
        if let Some(ids) = under_way.get_mut(&self.session) {
            ids.remove_answered(&self.id);
            if ids.is_empty() {
                under_way.remove(&self.session);
            }
        }
    }
}

impl Conversations {
    /// Creates the record of the sessions in `spaces`, with none yet. All end when `stopping` is cancelled.
    pub(super) fn of(spaces: Spaces, stopping: CancellationToken) -> Self {
        let mut sessions = LocalSessionManager::default();
        // It would count only messages: neither requests that wait for their answers, nor open streams.
        sessions.session_config.keep_alive = None;
        Self {
            sessions: Arc::new(sessions),
            spaces,
            opened: Arc::default(),
            starting: Arc::default(),
            stopping,
            pending_requests: Arc::default(),
        }
    }

    /// Returns whether `token_id` opened the session `id`, or nobody did.
    fn may_use_session(&self, id: &str, token_id: Option<&str>) -> bool {
        let opened = self.opened.lock();
        opened.get(id).is_none_or(|opened| opened.token.as_deref() == token_id)
    }

    /// Marks the session `id` as used until the returned use is dropped; `None` if there is no such session.
    fn begin_use(&self, id: &str) -> Option<SessionUse> {
        self.opened.lock().get_mut(id)?.uses += 1;
        Some(SessionUse {
            opened: Arc::clone(&self.opened),
            session: id.to_owned(),
        })
    }

    /// Returns when the session `id` will have been unused for [`IDLE_TIME`] if nobody uses it until then; `None` if it
    /// is forgotten.
    fn idle_until(&self, id: &str) -> Option<Instant> {
        let opened = self.opened.lock();
        let session = opened.get(id)?;
        let last_used = if session.uses > 0 {
            Instant::now()
        } else {
            session.last_used
        };
        Some(last_used + IDLE_TIME)
    }

    /// Ends the session `id` once it has not been used for [`IDLE_TIME`].
    async fn end_when_idle(self, id: String) {
        while let Some(until) = self.idle_until(&id) {
            if until > Instant::now() {
                tokio::time::sleep_until(until).await;
                continue;
            }
            // It fails only if the session has ended already. Its owner is forgotten last: until it has ended, no other
            // token may use it.
            drop(self.sessions.close_session(&id.as_str().into()).await);
            self.opened.lock().remove(&id);
            return;
        }
    }

    /// Records the request in the session that `headers` name, if they name one.
    ///
    /// # Errors
    ///
    /// The error to answer with if a request with the same id is still being answered there.
    pub(super) fn begin_request(
        &self,
        headers: &HeaderMap,
        message: &RxJsonRpcMessage<RoleServer>,
    ) -> Result<Option<RequestGuard>, Box<JsonRpcError>> {
        let (Some(session), Some(id)) = (session_in(headers), id_of_request(message)) else {
            return Ok(None);
        };
        let mut under_way = self.pending_requests.lock();
        under_way.entry(session.to_owned()).or_default().begin(id)?;
        Ok(Some(RequestGuard {
            conversations: self.clone(),
            session: session.to_owned(),
            id: id.clone(),
        }))
    }

    /// Records that the session `id` was opened in `space` with `token`, in the place that was taken for it, and forgets
    /// the sessions that have ended.
    async fn record_session(
        &self,
        id: &str,
        token: Option<String>,
        space: SpaceName,
        place: Option<Arc<SessionPlace>>,
    ) {
        let open = self.sessions.sessions.read().await;
        let mut opened = self.opened.lock();
        opened.retain(|id, _| open.contains_key(id.as_str()));
        let session = Opened {
            token,
            space,
            uses: 0,
            last_used: Instant::now(),
        };
        opened.insert(id.to_owned(), session);
        // From here on, it counts as open.
        drop(place);
        let stopping = self.stopping.clone();
        let ending = self.clone().end_when_idle(id.to_owned());
        tokio::spawn(async move { stopping.run_until_cancelled(ending).await });
    }

    /// Takes a place for another session of `space`.
    ///
    /// # Errors
    ///
    /// A 503 if as many are open as this server allows, or as many of `space` as its share is. Those that are about to
    /// begin count as well.
    pub(super) async fn take_session_place(&self, space: &SpaceName) -> Result<SessionPlace, Problem> {
        let open = self.sessions.sessions.read().await;
        let opened = self.opened.lock();
        let mut starting = self.starting.lock();
        let still_open = opened.iter().filter(|(id, _)| open.contains_key(id.as_str()));
        let (mut all, mut here) = (
            starting.values().sum::<usize>(),
            starting.get(space).copied().unwrap_or_default(),
        );
        for (_, session) in still_open {
            all += 1;
            here += usize::from(session.space == *space);
        }
        // A session whose client went while it began is open, but nobody's.
        let free = MAX_SESSIONS.saturating_sub(all.max(open.len()));
        if may_take(here, free, self.spaces.is_only_one()) {
            *starting.entry(space.clone()).or_default() += 1;
            return Ok(SessionPlace {
                starting: Arc::clone(&self.starting),
                space: space.clone(),
            });
        }
        let detail = match free {
            0 => format!("{all} sessions are open, the most that this server allows"),
            _ => format!("{here} sessions of this space are open, its share of this server"),
        };
        let full = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "sessions_busy", detail);
        Err(full.hint("end one, or wait: a session that is not used ends after five minutes"))
    }
}

/// Returns whether `message`, sent with `headers`, begins a session: whatever version of the protocol it names.
pub(super) fn begins_session(headers: &HeaderMap, message: &RxJsonRpcMessage<RoleServer>) -> bool {
    session_in(headers).is_none() && matches!(request_in(message), Some(ClientRequest::InitializeRequest(_)))
}

/// Returns whether `message` is answered by a stream that ends only when the client has enough of it.
pub(super) fn is_subscription(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    matches!(request_in(message), Some(ClientRequest::SubscriptionsListenRequest(_)))
}

fn request_in(message: &RxJsonRpcMessage<RoleServer>) -> Option<&ClientRequest> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.request),
        _ => None,
    }
}

/// Restricts a session to the token that opened it, since it has the role and name of that token, and its messages are
/// meant for that token's holder. For any other token the session does not exist. Once the token is revoked, nothing
/// more is sent.
pub(super) async fn restrict_to_owner(State(open): State<Conversations>, request: Request, next: Next) -> Response {
    let permit = request.extensions().get::<Permit>().cloned();
    let token_id = permit.as_ref().and_then(Permit::token_id).map(str::to_owned);
    if let Some(id) = session_in(request.headers())
        && !open.may_use_session(id, token_id.as_deref())
    {
        return Problem::not_found("not_found", format!("there is no session {id}")).into_response();
    }
    let used = session_in(request.headers()).and_then(|id| open.begin_use(id));
    let mut response = next.run(request).await;
    let place = response.extensions_mut().remove::<Arc<SessionPlace>>();
    // The transport names the session in its answers to later requests as well.
    if used.is_none()
        && let Some((id, permit)) = session_in(response.headers()).zip(permit.as_ref())
    {
        open.record_session(id, token_id, permit.space.clone(), place).await;
    }
    let response = hold_until_sent(response, used);
    match permit.filter(Permit::has_token) {
        Some(permit) if is_stream(&response) => response.map(|body| cut_off_when_invalid(body, permit)),
        _ => response,
    }
}

/// Returns `response`, keeping `guard` until all of it was sent or nobody reads it any more.
pub(super) fn hold_until_sent<G: Send + 'static>(response: Response, guard: Option<G>) -> Response {
    match guard {
        Some(guard) if is_stream(&response) => response.map(|body| {
            let parts = body.into_data_stream().inspect(move |_| {
                let _until_then = &guard;
            });
            Body::from_stream(parts)
        }),
        _ => response,
    }
}

fn session_in(headers: &HeaderMap) -> Option<&str> {
    headers.get(MCP_SESSION).and_then(|id| id.to_str().ok())
}

/// Returns whether an answer is a stream, which may go on for long.
fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) && !response.body().is_end_stream()
}

/// Returns `body`, cut off when `permit` no longer holds. The permit is checked before each part is sent, keep-alives
/// included.
fn cut_off_when_invalid(body: Body, permit: Permit) -> Body {
    let parts = body.into_data_stream().then(move |part| {
        let permit = permit.clone();
        async move { permit.check_still_valid().await.ok().map(|()| part) }
    });
    let parts = parts.take_while(|part| std::future::ready(part.is_some()));
    Body::from_stream(parts.filter_map(std::future::ready))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use futures_util::StreamExt as _;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn request_id_is_reserved_until_its_response_ends() {
        let open = Conversations::of(Spaces::for_tests().await, CancellationToken::new());
        let asked: RxJsonRpcMessage<RoleServer> =
            serde_json::from_str(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#).unwrap();
        let of = |session: &'static str| {
            HeaderMap::from_iter([(
                axum::http::HeaderName::from_static(MCP_SESSION),
                HeaderValue::from_static(session),
            )])
        };
        let stream = || {
            let mut response = Response::new(Body::from_stream(futures_util::stream::pending::<
                std::io::Result<String>,
            >()));
            let kind = HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        };
        let begun = open.begin_request(&of("one"), &asked).unwrap();
        let assert_in_use = || {
            let error = open.begin_request(&of("one"), &asked).unwrap_err();
            assert_eq!((error.error.code.0, json!(error.id)), (-32600, json!(5)));
        };
        assert_in_use();
        assert!(
            open.begin_request(&of("two"), &asked).is_ok() && open.begin_request(&HeaderMap::new(), &asked).is_ok()
        );
        let answering = hold_until_sent(stream(), begun);
        // It is on its way.
        assert_in_use();
        drop(answering);
        let begun = open.begin_request(&of("one"), &asked).unwrap();
        let mut whole = Response::new(Body::from("data: all of it"));
        whole
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        let mut parts = hold_until_sent(whole, begun).into_body().into_data_stream();
        while parts.next().await.is_some() {}
        drop(parts);
        assert!(open.begin_request(&of("one"), &asked).is_ok());
        assert!(
            open.pending_requests.lock().is_empty(),
            "nothing is left of what was answered"
        );
    }
}
