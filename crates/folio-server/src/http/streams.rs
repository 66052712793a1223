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
}

/// A place for one stream, until this is dropped.
#[derive(Debug)]
struct StreamPlace {
    client: Client,
    streams: Streams,
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
    /// for requests that are answered at once.
    pub(crate) fn for_connections(connections: usize) -> Self {
        Self {
            capacity: (connections - connections / 4).max(1),
            held: Arc::default(),
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
        })
    }
}

/// Returns whether an answer with these `headers` is a stream of events.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Refuses a live stream if the client has too many. Answers to other methods than GET end soon, whatever their form.
pub(crate) async fn limit_streams(State(streams): State<Streams>, request: Request, next: Next) -> Response {
    let client = request
        .extensions()
        .get::<Permit>()
        .map(|permit| permit.token_id().map(str::to_owned));
    let is_read = request.method() == Method::GET;
    let response = next.run(request).await;
    let Some(client) = client.filter(|_| is_read && is_event_stream(response.headers())) else {
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
    use super::*;

    #[test]
    fn client_takes_no_more_streams_than_it_leaves_free() {
        let streams = Streams::for_connections(16);
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
}
