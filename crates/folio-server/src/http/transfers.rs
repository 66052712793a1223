//! Whole spaces on their way out and in: few at a time, on threads of their own.
//!
//! What they do takes long and waits for whoever reads or writes at the other end. On threads that are shared with what answers
//! questions, as many of them as there are such threads would wait for a thread for ever.

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

/// Places for what is brought out and in. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Transfers {
    pub(crate) limits: TransferLimits,
    places: Arc<Semaphore>,
}

impl Transfers {
    /// As many places as `limits` say, all of them free.
    pub(crate) fn within(limits: TransferLimits) -> Self {
        Self {
            limits,
            places: Arc::new(Semaphore::new(limits.most)),
        }
    }

    /// A place for one more, as soon as there is one.
    ///
    /// # Errors
    ///
    /// A 429 if there is none for a while.
    pub(crate) async fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.places).acquire_owned();
        if let Ok(Ok(place)) = tokio::time::timeout(self.limits.wait, place).await {
            return Ok(place);
        }
        let detail = format!(
            "{} exports and imports are under way, which is as many as one server does at a time",
            self.limits.most
        );
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "transfers_busy", detail)
            .hint("wait until one of them has ended, then ask again"))
    }
}

/// What is brought in, with the place for it. The place comes first: what is read of it is held in memory until it is done.
#[derive(Debug)]
pub(crate) struct Arrived<K> {
    pub(crate) place: OwnedSemaphorePermit,
    pub(crate) text: Text<K>,
}

impl<K: Kinds> FromRequest<App> for Arrived<K> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let place = app.transfers.place().await?;
        let standstill = app.transfers.limits.standstill;
        let request = request.map(|body| moving(body, standstill));
        let text = Text::from_request(request, app).await?;
        Ok(Self { place, text })
    }
}

/// `body`, which ends with an error when nothing of it comes for so long: whoever sends nothing keeps no place from others.
fn moving(body: Body, standstill: Duration) -> Body {
    Body::from_stream(unfold(body.into_data_stream(), move |mut parts| async move {
        let part = match tokio::time::timeout(standstill, parts.next()).await {
            Ok(part) => part?,
            Err(_) => Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))),
        };
        Some((part, parts))
    }))
}

/// Does `work`, which is called `what`, on a thread of its own, and gives `place` back afterwards.
///
/// # Errors
///
/// A 503 if the system gives no thread.
pub(crate) fn on_a_thread<Work: Future<Output = ()>>(
    what: &str,
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> Work + Send + 'static,
) -> Result<(), Problem> {
    let runtime = Handle::current();
    let begun = thread::Builder::new().name(format!("folio-{what}")).spawn(move || {
        runtime.block_on(work());
        drop(place);
    });
    begun.map(drop).map_err(|error| {
        let detail = format!("the system gives no thread for the {what}: {error}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "transfers_busy", detail)
    })
}
