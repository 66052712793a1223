//! Places for live streams: each stream holds a connection for hours, so no client may have all of them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;

use super::access::Permit;
use super::metrics::{Metrics, Watcher};
use super::problem::Problem;
use crate::held_body::HeldBody;
use crate::shares::may_take;

/// A client: the id of its token, or all who come without one.
type Client = Option<String>;

/// The places for live streams. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    capacity: usize,
    held: Arc<Mutex<HashMap<Client, usize>>>,
    metrics: Metrics,
}

/// A place for one stream, until this is dropped.
#[derive(Debug)]
struct StreamPlace {
    client: Client,
    streams: Streams,
    _counted: Watcher,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut held = self.streams.held.lock();
        if let Some(count) = held.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.client);
            }
        }
    }
}

impl Streams {
    /// Creates the places of a server with so many `connections`: three quarters of them, so that there are always some
    /// for requests that are answered at once. The streams are counted in `metrics`.
    pub(crate) fn for_connections(connections: usize, metrics: Metrics) -> Self {
        Self {
            capacity: (connections - connections / 4).max(1),
            held: Arc::default(),
            metrics,
        }
    }

    /// Takes a place for a stream of `client`. One with a token may hold no more than it leaves free for others; who
    /// comes without one is whoever owns the server.
    fn take(&self, client: Client) -> Option<StreamPlace> {
        let mut held = self.held.lock();
        let free = self.capacity.saturating_sub(held.values().sum());
        let count = held.get(&client).copied().unwrap_or_default();
        if !may_take(count, free, client.is_none()) {
            return None;
        }
        held.insert(client.clone(), count + 1);
        Some(StreamPlace {
            client,
            streams: self.clone(),
            _counted: self.metrics.watcher(),
        })
    }
}

/// Marks an answer to another method than GET as a live stream. Other streams of events among these answers end soon:
/// each is the answer to one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveStream;

/// The header that names a session of the Model Context Protocol.
pub(crate) const MCP_SESSION: &str = "mcp-session-id";

/// Returns whether a request with these `headers` ends when its client closes the connection, also before the answer
/// has begun: it accepts a stream of events, and belongs to no session. Messages of a session are carried out even if
/// nobody waits for the answer.
pub(crate) fn ends_with_connection(headers: &HeaderMap) -> bool {
    accepts_event_stream(headers) && !headers.contains_key(MCP_SESSION)
}

fn accepts_event_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut ranges = accepted.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    ranges.any(|range| {
        let kind = range.split(|byte| *byte == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
    })
}

/// Returns whether an answer with these `headers` is a stream of events.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Refuses a live stream if the client has too many.
pub(crate) async fn limit_streams(State(streams): State<Streams>, request: Request, next: Next) -> Response {
    let client = request
        .extensions()
        .get::<Permit>()
        .map(|permit| permit.token_id().map(str::to_owned));
    let is_read = request.method() == Method::GET;
    let response = next.run(request).await;
    let is_live = is_read || response.extensions().get::<LiveStream>().is_some();
    let Some(client) = client.filter(|_| is_live && is_event_stream(response.headers())) else {
        return response;
    };
    match streams.take(client) {
        Some(place) => response.map(|body| Body::new(HeldBody::new(body, place))),
        None => streams_busy().into_response(),
    }
}

fn streams_busy() -> Problem {
    let detail = "this client has as many live streams open as it may have";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "streams_busy", detail)
        .hint("close one, or watch the whole space with one stream")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn client_takes_no_more_streams_than_it_leaves_free() {
        let streams = Streams::for_connections(16, Metrics::new(false, false));
        let take_all =
            |client: &str| -> Vec<_> { std::iter::from_fn(|| streams.take(Some(client.to_owned()))).collect() };
        let first = take_all("one");
        assert_eq!(first.len(), 6, "half of three quarters");
        assert_eq!(take_all("one").len(), 0);
        let second = take_all("two");
        assert_eq!(second.len(), 3);
        drop(first);
        assert_eq!(streams.held.lock().len(), 1, "nobody is kept who holds nothing");
        assert_eq!(take_all("one").len(), 5);
        drop(second);
        let of_owner: Vec<_> = std::iter::from_fn(|| streams.take(None)).collect();
        assert_eq!(of_owner.len(), 12);
    }

    #[test]
    fn request_for_events_ends_with_its_connection_unless_it_belongs_to_a_session() {
        let headers = |accept| HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        for (accept, wanted) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream;q=0.5", true),
            ("*/*", false),
            ("text/event-streams", false),
        ] {
            let mut headers = headers(accept);
            assert_eq!(ends_with_connection(&headers), wanted, "{accept}");
            headers.insert(MCP_SESSION, HeaderValue::from_static("one"));
            assert!(!ends_with_connection(&headers));
        }
        assert!(!ends_with_connection(&HeaderMap::new()));
    }
}
