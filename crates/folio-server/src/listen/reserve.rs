//! Connections beyond the limit, while all others are busy: whoever asks for the health of the server is answered at
//! once, and others wait for a place, but not for ever.
//!
//! Each answers one request. Otherwise they would be further connections, and sooner or later all of them busy.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::line::{ClientStream, Flag};
use super::places::Places;
use crate::held_body::HeldBody;
use crate::http::problem::Problem;
use crate::http::{HEALTH_PATH, is_event_stream};

/// How many of these connections there are.
pub(super) const RESERVE: usize = 32;
/// How long the head of a request may take to arrive: others wait for the connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a request waits for a place.
const PLACE_WITHIN: Duration = Duration::from_secs(3);

/// Answers one request on `stream`. It is `reserved` until the request has a place, or its answer was read.
pub(super) async fn serve_one(
    stream: TcpStream,
    reserved: Option<OwnedSemaphorePermit>,
    places: Places,
    router: Router,
) {
    // Without it the answer is merely late.
    let _later = stream.set_nodelay(true);
    let (live, owed) = (Flag::default(), Flag::default());
    let line = ClientStream::new(stream, live.clone(), owed);
    let router = TowerToHyperService::new(router);
    let reserved = parking_lot::Mutex::new(reserved);
    let service = service_fn(|request: Request<Incoming>| {
        let (router, live, places, reserved) = (&router, &live, &places, &reserved);
        async move {
            if request.uri().path() == HEALTH_PATH {
                let answer = router.call(request).await?;
                return Ok::<_, std::convert::Infallible>(answer.map(|body| HeldBody::new(body, None)));
            }
            let Ok(place) = tokio::time::timeout(PLACE_WITHIN, places.take()).await else {
                return Ok(connections_busy().map(|body| HeldBody::new(body, None)));
            };
            drop(reserved.lock().take());
            let working = place.mark_working();
            let answer = router.call(request).await?;
            live.set(is_event_stream(answer.headers()));
            Ok(answer.map(|body| HeldBody::new(body, Some((working, place)))))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .half_close(true)
        .keep_alive(false)
        .serve_connection(TokioIo::new(line), service);
    // The client that broke it off knows.
    let _broken = connection.await;
}

fn connections_busy() -> Response<Body> {
    let detail = "every connection that the server may have is busy";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "connections_busy", detail)
        .hint("try again in a moment, and close streams that nobody reads")
        .into_response()
}
