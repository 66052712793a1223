//! Reads what an answer has left unread of the body of its request.
//!
//! A request can be refused before its body is read. Over HTTP/1, its connection can then carry no further request: the
//! rest of the body would be taken for it. So the rest is read and dropped, or the answer says that the connection
//! closes. Otherwise a client would send its next request into a connection that is just being closed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt as _;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;

/// The most bytes that are read to be dropped: those of the longest body that most routes accept.
const DROPPED_BYTES_MAX: u64 = super::MAX_BODY_BYTES as u64;
/// How long dropping them may take. The answer waits for it: a client that still sends when its connection closes may
/// never read why it was refused.
const DROPPED_WITHIN: Duration = Duration::from_secs(10);
/// How long the rest may stand still. A client that sends nothing has nothing to lose from an answer.
const STALLED_WITHIN: Duration = Duration::from_millis(500);

/// Passes a request on, and then reads the rest of its body or announces that the connection closes.
pub(crate) async fn read_leftover(request: Request, next: Next) -> Response {
    // HTTP/2 has a stream for each request, and a client may want no further request on the connection.
    if request.body().is_end_stream() || request.version() > Version::HTTP_11 || closes(request.headers()) {
        return next.run(request).await;
    }
    // The client sends the body only when it is read, and need not send it if it is refused.
    let waits = request.headers().contains_key(header::EXPECT);
    let announced = announced_bytes(request.headers());
    let left = Leftover::default();
    let request = request.map(|body| {
        Body::new(Lent {
            body: Some(body),
            left: Arc::clone(&left),
        })
    });
    let mut response = next.run(request).await;
    let Some(rest) = left.lock().take() else {
        return response;
    };
    // A server that is too busy, or has waited for the body in vain, has no time for it now.
    let is_worth_it = !waits && !is_busy(response.status()) && announced.is_none_or(|bytes| bytes <= DROPPED_BYTES_MAX);
    if !(is_worth_it && drop_all(rest).await) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

fn closes(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONNECTION).iter();
    values.any(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}

fn announced_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_busy(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT
    )
}

/// Reads `body` to its end, keeping nothing of it; returns whether it ended.
async fn drop_all(body: Body) -> bool {
    let reading = async {
        let mut parts = body.into_data_stream();
        let mut dropped = 0;
        loop {
            let Ok(part) = tokio::time::timeout(STALLED_WITHIN, parts.next()).await else {
                return false;
            };
            let Some(part) = part else { return true };
            dropped += part
                .map_or(u64::MAX, |part| part.len() as u64)
                .min(DROPPED_BYTES_MAX + 1);
            if dropped > DROPPED_BYTES_MAX {
                return false;
            }
        }
    };
    tokio::time::timeout(DROPPED_WITHIN, reading).await.unwrap_or(false)
}

/// A body that its reader dropped before its end.
type Leftover = Arc<Mutex<Option<Body>>>;

/// A body that is kept when its reader drops it before its end.
struct Lent {
    body: Option<Body>,
    left: Leftover,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !body.is_end_stream());
        *self.left.lock() = rest;
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use axum::Router;
    use axum::middleware::from_fn;
    use axum::routing::post;
    use futures_util::stream;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    const PART_BYTES: usize = 1024 * 1024;

    /// The answer to `path` of a body with `parts` parts that then ends, or stands still; and how much was read of it.
    async fn answer(path: &str, parts: usize, ends: bool, expect: bool) -> (Option<String>, usize) {
        let routes = Router::new()
            .route("/refused", post(async || StatusCode::NOT_FOUND))
            .route("/busy", post(async || StatusCode::SERVICE_UNAVAILABLE))
            .route("/read", post(async |body: Bytes| body.len().to_string()))
            .layer(from_fn(read_leftover));
        let read = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&read);
        let body = stream::iter(0..parts).map(move |_| {
            *counted.lock() += 1;
            Ok::<_, io::Error>(Bytes::from(vec![b'x'; PART_BYTES]))
        });
        let body = match ends {
            true => Body::from_stream(body),
            false => Body::from_stream(body.chain(stream::pending())),
        };
        let mut request = axum::http::Request::post(path).body(body).expect("a request");
        if expect {
            let value = HeaderValue::from_static("100-continue");
            request.headers_mut().insert(header::EXPECT, value);
        }
        let service = TowerToHyperService::new(routes.with_state(()));
        let response: Response = service.call(request).await.expect("an answer");
        let connection = response.headers().get(header::CONNECTION);
        let connection = connection.map(|value| value.to_str().expect("a text").to_owned());
        let read = *read.lock();
        (connection, read)
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_does_not_wait_for_a_body_that_stands_still() {
        let from = tokio::time::Instant::now();
        let close = Some("close".to_owned());
        assert_eq!(answer("/refused", 3, false, false).await, (close, 3));
        assert!(from.elapsed() < Duration::from_secs(1), "{:?}", from.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_answer_leaves_unread_is_read_or_the_connection_closes() {
        let close = Some("close".to_owned());
        assert_eq!(answer("/refused", 3, true, false).await, (None, 3));
        assert_eq!(answer("/read", 1, true, false).await, (None, 1));
        assert_eq!(
            answer("/refused", 3, false, false).await,
            (close.clone(), 3),
            "it stands still"
        );
        assert_eq!(
            answer("/refused", 30, true, false).await,
            (close.clone(), 21),
            "it is too large"
        );
        assert_eq!(answer("/busy", 3, true, false).await, (close.clone(), 0));
        assert_eq!(
            answer("/refused", 3, true, true).await,
            (close, 0),
            "it need not be sent"
        );
    }
}
