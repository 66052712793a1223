//! Exports and imports of whole spaces: few at a time, on threads of their own.
//!
//! They take long and wait for the client at the other end. On the threads that answer other requests, as many of them
//! as there are threads would block all of these threads, and each would wait for a free one forever.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::app::App;
use super::input::{Kinds, Text};
use super::problem::Problem;
use crate::server::TransferLimits;

/// The places for exports and imports. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Transfers {
    pub(crate) limits: TransferLimits,
    places: Arc<Semaphore>,
}

impl Transfers {
    /// Creates as many places as `limits` allow, all of them free.
    pub(crate) fn with_limits(limits: TransferLimits) -> Self {
        Self {
            limits,
            places: Arc::new(Semaphore::new(limits.most)),
        }
    }

    /// Waits for a free place.
    ///
    /// # Errors
    ///
    /// A 429 if none becomes free within the time limit.
    pub(crate) async fn acquire_place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.places).acquire_owned();
        if let Ok(Ok(place)) = tokio::time::timeout(self.limits.wait, place).await {
            return Ok(place);
        }
        let detail = format!(
            "{} exports and imports are in progress, the most that one server runs at a time",
            self.limits.most
        );
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "transfers_busy", detail)
            .hint("wait until one of them has ended, then try again"))
    }
}

/// The body of an import, with the place for it. The place is taken first, because the body is kept in memory until the
/// import is done.
#[derive(Debug)]
pub(crate) struct Upload<K> {
    pub(crate) place: OwnedSemaphorePermit,
    pub(crate) text: Text<K>,
}

impl<K: Kinds> FromRequest<App> for Upload<K> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let place = app.transfers.acquire_place().await?;
        let standstill = app.transfers.limits.standstill;
        let request = request.map(|body| with_stall_timeout(body, standstill));
        let text = Text::from_request(request, app).await?;
        Ok(Self { place, text })
    }
}

/// Returns `body` such that it fails if nothing arrives for `standstill`, so a client that sends nothing does not keep
/// a place from others.
fn with_stall_timeout(body: Body, standstill: Duration) -> Body {
    Body::from_stream(unfold(body.into_data_stream(), move |mut parts| async move {
        let part = match tokio::time::timeout(standstill, parts.next()).await {
            Ok(part) => part?,
            Err(_) => Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))),
        };
        Some((part, parts))
    }))
}

/// Does `work`, named `name`, on a thread of its own and releases `place` afterwards.
///
/// # Errors
///
/// A 503 if the system cannot start a thread.
pub(crate) fn run_on_thread<Work: Future<Output = ()>>(
    name: &str,
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> Work + Send + 'static,
) -> Result<(), Problem> {
    let runtime = Handle::current();
    let spawned = thread::Builder::new().name(format!("folio-{name}")).spawn(move || {
        runtime.block_on(work());
        drop(place);
    });
    spawned.map(drop).map_err(|error| {
        let detail = format!("the system could not start a thread for the {name}: {error}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "transfers_busy", detail)
    })
}
