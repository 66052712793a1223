//! Whole spaces on their way out and in: few at a time, on threads of their own.
//!
//! What they do takes long and waits for whoever reads or writes at the other end. On threads that are shared with what answers
//! questions, as many of them as there are such threads would wait for a thread for ever.

use std::sync::Arc;
use std::thread;

use axum::http::StatusCode;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
