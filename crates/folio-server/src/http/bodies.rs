//! How much memory the bodies of requests may take together, from their arrival until their answer begins.
//!
//! Each body has a limit of its own, but many at once could take more than the machine has. The first bytes of each are
//! free, so that small requests never wait for large ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
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

/// Passes a request on whose body takes its room as it arrives, and gives it back when the answer begins. Without room,
/// the answer is a 503, whatever the handler says about the body that broke off.
pub(crate) async fn limit_bodies(State(bodies): State<Bodies>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (held, is_refused) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let request = {
        let (bodies, held, is_refused) = (bodies.clone(), Arc::clone(&held), Arc::clone(&is_refused));
        request.map(|body| with_room(body, bodies, held, is_refused))
    };
    let response = next.run(request).await;
    drop(held.lock().take());
    if is_refused.load(Ordering::Acquire) {
        return bodies.busy().into_response();
    }
    response
}

fn with_room(
    body: Body,
    bodies: Bodies,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    is_refused: Arc<AtomicBool>,
) -> Body {
    let arrived = 0_usize;
    let begin = (body.into_data_stream(), bodies, held, is_refused, arrived);
    let parts = futures_util::stream::unfold(begin, |(mut parts, bodies, held, is_refused, before)| async move {
        let next = if before > FREE_BYTES {
            let stalled = || Err(axum::Error::new(std::io::Error::from(std::io::ErrorKind::TimedOut)));
            tokio::time::timeout(STANDSTILL, parts.next())
                .await
                .unwrap_or_else(|_| Some(stalled()))?
        } else {
            parts.next().await?
        };
        let Ok(part) = next else {
            return Some((next, (parts, bodies, held, is_refused, before)));
        };
        let arrived = before + part.len();
        let counted = arrived.saturating_sub(before.max(FREE_BYTES));
        let part = match counted {
            0 => Ok(part),
            counted => match bodies.add_room(&held, counted).await {
                Some(()) => Ok(part),
                None => {
                    is_refused.store(true, Ordering::Release);
                    Err(axum::Error::new(std::io::Error::from(std::io::ErrorKind::OutOfMemory)))
                }
            },
        };
        Some((part, (parts, bodies, held, is_refused, arrived)))
    });
    Body::from_stream(parts)
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
        let parts =
            (0..bytes.div_ceil(FREE_BYTES)).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; FREE_BYTES])));
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
}
