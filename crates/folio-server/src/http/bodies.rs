//! How much memory the bodies of requests may take together, from their arrival until their answer begins.
//!
//! Each body has a limit of its own, but many at once could take more than the machine has. The first bytes of each are
//! free, so that small requests never wait for large ones.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// The bytes of a body that are not counted. As many connections as there may be have room for that.
const FREE_BYTES: usize = 64 * 1024;
/// How long a body waits for room.
const ROOM_WITHIN: Duration = Duration::from_secs(5);
/// How long nothing may arrive of a body that holds room.
const STANDSTILL: Duration = Duration::from_secs(30);

/// Room for bodies. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    bytes_max: usize,
    room: Arc<Semaphore>,
}

impl Bodies {
    /// Creates room for `bytes_max` bytes.
    pub(crate) fn with_room_for(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(Semaphore::MAX_PERMITS);
        Self {
            bytes_max,
            room: Arc::new(Semaphore::new(bytes_max)),
        }
    }

    fn busy(&self) -> Problem {
        let detail = format!(
            "the bodies of the requests that are in progress take all of the {} bytes that they may take together",
            self.bytes_max
        );
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "bodies_busy", detail).hint("try again in a moment")
    }

    /// Takes room for `bytes` more, in addition to what `held` has.
    async fn add_room(&self, held: &Mutex<Option<OwnedSemaphorePermit>>, bytes: usize) -> Option<()> {
        let bytes = u32::try_from(bytes).ok()?;
        let room = Arc::clone(&self.room).acquire_many_owned(bytes);
        let more = tokio::time::timeout(ROOM_WITHIN, room).await.ok()?.ok()?;
        let mut held = held.lock();
        match held.as_mut() {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Some(())
    }
}

/// Passes a request on whose body takes its room once more than its free part has arrived, and gives it back when the
/// answer begins. Without room, the answer is a 503, whatever the handler says about the body that broke off.
pub(crate) async fn limit_bodies(State(bodies): State<Bodies>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let (held, is_refused) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let arriving = Arriving {
        // Room for the whole body: many that had a part of their room each would wait for one another. What a client
        // announces beyond the largest body will be refused.
        announced: length.unwrap_or_default().min(bodies.bytes_max / 4 + FREE_BYTES),
        arrived: 0,
        bytes_held: 0,
        bodies: bodies.clone(),
        held: Arc::clone(&held),
        is_refused: Arc::clone(&is_refused),
    };
    let request = request.map(|body| arriving.with_room(body));
    let response = next.run(request).await;
    drop(held.lock().take());
    if is_refused.load(Ordering::Acquire) {
        return bodies.busy().into_response();
    }
    response
}

/// A body of which a part has arrived.
struct Arriving {
    /// How long the body will be, if that is known.
    announced: usize,
    arrived: usize,
    bytes_held: usize,
    bodies: Bodies,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    is_refused: Arc<AtomicBool>,
}

impl Arriving {
    /// Returns `body` such that it breaks off if there is no room for it, or if nothing arrives while it holds some.
    fn with_room(self, body: Body) -> Body {
        Body::from_stream(unfold(
            (body.into_data_stream(), self),
            |(mut parts, mut arriving)| async move {
                let next = if arriving.bytes_held > 0 {
                    let next = tokio::time::timeout(STANDSTILL, parts.next()).await;
                    next.unwrap_or_else(|_| Some(Err(broken_off(io::ErrorKind::TimedOut))))?
                } else {
                    parts.next().await?
                };
                let part = match next {
                    Ok(part) if arriving.make_room(part.len()).await => Ok(part),
                    Ok(_) => Err(broken_off(io::ErrorKind::OutOfMemory)),
                    Err(error) => Err(error),
                };
                Some((part, (parts, arriving)))
            },
        ))
    }

    /// Returns whether there is room for `bytes` more.
    async fn make_room(&mut self, bytes: usize) -> bool {
        self.arrived += bytes;
        if self.arrived.saturating_sub(FREE_BYTES) <= self.bytes_held {
            return true;
        }
        let wanted = self.arrived.max(self.announced) - FREE_BYTES;
        let has_room = self
            .bodies
            .add_room(&self.held, wanted - self.bytes_held)
            .await
            .is_some();
        self.bytes_held = wanted;
        self.is_refused.fetch_or(!has_room, Ordering::AcqRel);
        has_room
    }
}

fn broken_off(kind: io::ErrorKind) -> axum::Error {
    axum::Error::new(io::Error::from(kind))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Bytes;
    use axum::middleware::from_fn_with_state;
    use axum::routing::post;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use tokio::sync::Notify;

    use super::*;

    async fn status(router: &TowerToHyperService<Router>, bytes: usize) -> StatusCode {
        let parts = (0..bytes.div_ceil(FREE_BYTES)).map(|_| Ok::<_, io::Error>(Bytes::from(vec![b'x'; FREE_BYTES])));
        let body = Body::from_stream(futures_util::stream::iter(parts));
        let request = axum::http::Request::post("/").body(body).expect("a request");
        router.call(request).await.expect("an answer").status()
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_room_and_small_ones_need_none() {
        let (go_on, taken) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (until, tell) = (Arc::clone(&go_on), Arc::clone(&taken));
        let answer = move |body: Result<Bytes, axum::extract::rejection::BytesRejection>| async move {
            let Ok(body) = body else { return StatusCode::BAD_REQUEST };
            if body.len() > 3 * FREE_BYTES {
                tell.notify_one();
                until.notified().await;
            }
            StatusCode::OK
        };
        let bodies = Bodies::with_room_for(4 * FREE_BYTES);
        let router = Router::new()
            .route("/", post(answer))
            .layer(from_fn_with_state(bodies.clone(), limit_bodies));
        let router = TowerToHyperService::new(router.with_state(()));
        let large = {
            let router = router.clone();
            tokio::spawn(async move { status(&router, 5 * FREE_BYTES).await })
        };
        taken.notified().await;
        assert_eq!(bodies.room.available_permits(), 0);
        assert_eq!(status(&router, FREE_BYTES).await, StatusCode::OK, "it needs no room");
        assert_eq!(status(&router, 2 * FREE_BYTES).await, StatusCode::SERVICE_UNAVAILABLE);
        go_on.notify_one();
        assert_eq!(large.await.expect("a task"), StatusCode::OK);
        assert_eq!(
            status(&router, 2 * FREE_BYTES).await,
            StatusCode::OK,
            "there is room again"
        );
        assert_eq!(bodies.room.available_permits(), 4 * FREE_BYTES);
    }

    #[tokio::test]
    async fn body_of_a_known_length_takes_all_of_its_room_at_once() {
        let bodies = Bodies::with_room_for(16 * FREE_BYTES);
        let router = Router::new()
            .route("/", post(async |_: Bytes| StatusCode::OK))
            .layer(from_fn_with_state(bodies.clone(), limit_bodies));
        let router = TowerToHyperService::new(router.with_state(()));
        let parts = [Bytes::from(vec![b'x'; FREE_BYTES + 1])].map(Ok::<_, io::Error>);
        let body = futures_util::stream::iter(parts).chain(futures_util::stream::pending());
        let request = axum::http::Request::post("/")
            .header(header::CONTENT_LENGTH, 3 * FREE_BYTES)
            .body(Body::from_stream(body))
            .expect("a request");
        let arriving = tokio::spawn(async move { router.call(request).await });
        while bodies.room.available_permits() == 16 * FREE_BYTES {
            tokio::task::yield_now().await;
        }
        assert_eq!(bodies.room.available_permits(), 14 * FREE_BYTES);
        arriving.abort();
        assert!(arriving.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(bodies.room.available_permits(), 16 * FREE_BYTES);
    }
}
