//! The protocol over HTTP, at `/mcp`: behind the same guard as everything else, with limits of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Json, Router};
use folio::SpaceName;
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::conversations::{self, Conversations};
use super::input::Line;
use super::tools::run::MAX_WAIT_SECONDS;
use super::{Mcp, input};
use crate::http::problem::Problem;
use crate::http::{
    BodyLimit, LiveStream, Permit, RESPONSE_TIMEOUT, declare_response_time, refuse_compressed, unreadable_body,
};
use crate::spaces::Spaces;

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// The most bytes of a message.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// The most bytes that are kept of the text with which a request is refused.
const MAX_REFUSAL_BYTES: usize = 4 * 1024;
/// What the transport says of a session that has ended meanwhile.
const SESSION_ENDED: [&str; 2] = ["Session service terminated", "Session not found"];
/// The origins of web pages that may make requests: those of this machine.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// Returns the routes of the endpoint, which answer in the space that the caller may use. When `stopping` is cancelled,
/// the open sessions end. If a token is required, the transport checks neither the host nor the origin of a request.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    mcp: Mcp,
    spaces: Spaces,
    needs_token: bool,
    stopping: CancellationToken,
) -> Router<S> {
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_origins(ORIGINS)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(stopping.clone());
    if needs_token {
        config = config.disable_allowed_hosts();
        config.allowed_origins.clear();
    }
    let open = Conversations::of(spaces.clone(), stopping);
    let services = Services {
        mcp,
        spaces,
        config,
        conversations: open.clone(),
        services: Arc::default(),
    };
    // Declared inside the layers that read the body: a body has no more time to arrive than elsewhere.
    let response_time = middleware::from_fn_with_state(
        Duration::from_secs(MAX_WAIT_SECONDS) + RESPONSE_TIMEOUT,
        declare_response_time,
    );
    Router::new()
        .route(PATH, any(answer_in_space).layer(response_time))
        .with_state(services)
        .layer(middleware::from_fn(refusals_to_problems))
        .layer(middleware::from_fn_with_state(open.clone(), normalize_request))
        .layer(Extension(BodyLimit(MAX_BODY_BYTES)))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(open, conversations::restrict_to_owner))
}

/// The service of each space. Cheap to clone.
#[derive(Clone)]
struct Services {
    mcp: Mcp,
    spaces: Spaces,
    config: StreamableHttpServerConfig,
    /// The sessions of all spaces. Each belongs to the token that opened it, and so to one space.
    conversations: Conversations,
    /// The services that were used already, at most one for each served space.
    services: Arc<Mutex<HashMap<SpaceName, Service>>>,
}

type Service = StreamableHttpService<Mcp, LocalSessionManager>;

impl Services {
    /// Returns the service of the space that `permit` opens.
    fn for_space_of(&self, permit: &Permit) -> Result<Service, Problem> {
        let runner = self.spaces.runner_in(&permit.space)?;
        let mut services = self.services.lock();
        let service = services.entry(permit.space.clone()).or_insert_with(|| {
            let mcp = match self.spaces.is_first(&permit.space) {
                true => self.mcp.for_new_conversation(),
                false => self.mcp.for_space(runner),
            };
            StreamableHttpService::new(
                move || Ok(mcp.for_new_conversation()),
                Arc::clone(&self.conversations.sessions),
                self.config.clone(),
            )
        });
        Ok(service.clone())
    }
}

/// Answers a request in the space that the caller may use.
async fn answer_in_space(
    State(services): State<Services>,
    Extension(permit): Extension<Permit>,
    request: Request,
) -> Response {
    match services.for_space_of(&permit) {
        Ok(service) => service.handle(request).await.into_response(),
        Err(problem) => problem.into_response(),
    }
}

/// Passes a message on after preparing it in the same way as a line of input, since the transport would silently round
/// large numbers. A message whose id is still being answered in its session is refused: the answers to the two could
/// not be told apart. So is one that begins a session when the limit or the share of the space is reached.
async fn normalize_request(State(open): State<Conversations>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    if let Some(problem) = refuse_compressed(&parts.headers) {
        return problem.into_response();
    }
    let limit = parts.extensions.get::<BodyLimit>().copied();
    let request = Request::from_parts(parts.clone(), body);
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => input::normalize_body(body),
        Err(error) => return unreadable_body(&error, limit).into_response(),
    };
    let line = is_json(&parts.headers).then(|| input::parse_body(&body));
    let message = match line {
        Some(Line::Refused(error)) => return (StatusCode::BAD_REQUEST, Json(error)).into_response(),
        Some(Line::Message(message)) => Some(message),
        Some(Line::Nothing) | None => None,
    };
    let (mut guard, mut place, mut is_subscription) = (None, None, false);
    if let Some(message) = message {
        if conversations::begins_session(&parts.headers, &message)
            && let Some(permit) = parts.extensions.get::<Permit>()
        {
            place = match open.take_session_place(&permit.space).await {
                Ok(place) => Some(Arc::new(place)),
                Err(full) => return full.into_response(),
            };
        }
        guard = match open.begin_request(&parts.headers, &message) {
            Ok(guard) => guard,
            Err(error) => return (StatusCode::BAD_REQUEST, Json(error)).into_response(),
        };
        is_subscription = conversations::is_subscription(&message);
    }
    parts.headers.insert(header::CONTENT_LENGTH, body.len().into());
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let mut response = conversations::hold_until_sent(response, guard);
    if let Some(place) = place {
        response.extensions_mut().insert(place);
    }
    if is_subscription {
        response.extensions_mut().insert(LiveStream);
    }
    response
}

/// Returns whether the headers say that the body is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Turns plain-text refusals of the transport into problems, the shape of every error here, and the end of a session
/// into an answer without content.
async fn refusals_to_problems(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let ends_session = method == Method::DELETE;
    let mut response = next.run(request).await;
    if ends_session && response.status() == StatusCode::ACCEPTED {
        // The transport says that it has accepted the end. Clients expect the end itself, which has no content.
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !(status.is_client_error() || status.is_server_error()) || kind.is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let words = to_bytes(body, MAX_REFUSAL_BYTES).await.unwrap_or_default();
    let words = String::from_utf8_lossy(&words).into_owned();
    // A session can end between the transport's look at it and the message to it.
    let has_ended = SESSION_ENDED.iter().any(|ended| words.contains(ended));
    let status = if has_ended { StatusCode::NOT_FOUND } else { status };
    let code = match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::FORBIDDEN => "origin_refused",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "body_not_json",
        status if status.is_client_error() => "header_invalid",
        _ => "internal",
    };
    let problem = match status {
        StatusCode::METHOD_NOT_ALLOWED => Problem::new(status, code, format!("{PATH} does not take {method}"))
            .hint("the header Allow lists the methods that it takes"),
        StatusCode::NOT_ACCEPTABLE => {
            Problem::new(status, code, words).hint("send Accept: application/json, text/event-stream")
        }
        _ => Problem::new(status, code, words),
    };
    let mut refusal = problem.into_response();
    if let Some(allowed) = parts.headers.get(header::ALLOW) {
        refusal.headers_mut().insert(header::ALLOW, allowed.clone());
    }
    refusal
}

#[cfg(test)]
mod tests;
