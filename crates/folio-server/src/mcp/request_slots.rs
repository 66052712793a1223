//! Limits the requests that are processed at the same time, and those that only wait.

use std::pin::Pin;
use std::sync::Arc;

use folio::SpaceName;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::shares::SharedPlaces;
use crate::spaces::Spaces;

/// The most requests of one server that are processed at the same time; others wait.
const MAX_ACTIVE_REQUESTS: usize = 64;
/// The most requests that only wait for a run, each of which keeps the run in memory. Requests beyond are answered at
/// once.
const MAX_WAITING_REQUESTS: usize = 256;

/// The slots for all requests of a server.
#[derive(Debug, Clone)]
pub(super) struct RequestSlots {
    working: Arc<Semaphore>,
    waiting: SharedPlaces,
}

impl RequestSlots {
    /// Creates the slots for the requests of `spaces`, all free.
    pub(super) fn of(spaces: Spaces) -> Self {
        Self {
            working: Arc::new(Semaphore::new(MAX_ACTIVE_REQUESTS)),
            waiting: SharedPlaces::new(MAX_WAITING_REQUESTS, spaces),
        }
    }
}

/// The slot of one request, which it holds from when it has acquired it until this is dropped.
#[derive(Debug)]
pub(super) struct RequestSlot {
    slots: RequestSlots,
    space: SpaceName,
    acquired: Mutex<Option<OwnedSemaphorePermit>>,
}

impl RequestSlot {
    /// Creates the slot of a request in `space`, which is not acquired yet.
    pub(super) fn of(slots: &RequestSlots, space: &SpaceName) -> Self {
        Self {
            slots: slots.clone(),
            space: space.clone(),
            acquired: Mutex::default(),
        }
    }

    /// Waits until one of the slots is free, and takes it.
    pub(super) async fn acquire(&self) {
        // The semaphores are never closed.
        let acquired = Arc::clone(&self.slots.working).acquire_owned().await.ok();
        *self.acquired.lock() = acquired;
    }

    /// Waits for `work` that others do and leaves the slot to other requests meanwhile, since they may be those who do
    /// it. Returns `None` at once if too many requests wait already, of all or of this space.
    pub(super) async fn release_while<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let waiting = self.slots.waiting.take(&self.space).ok()?;
        drop(self.acquired.lock().take());
        let output = work.await;
        drop(waiting);
        self.acquire().await;
        Some(output)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn waiting_request_frees_its_slot_and_takes_one_again_afterwards() {
        let slots = RequestSlots::of(Spaces::for_tests().await);
        let free = || slots.working.available_permits();
        let slot = RequestSlot::of(&slots, &SpaceName::main());
        assert_eq!(slot.acquire().now_or_never(), Some(()));
        assert_eq!(free(), MAX_ACTIVE_REQUESTS - 1);
        {
            let what = pin!(pending::<()>());
            let mut waits = Box::pin(slot.release_while(what));
            assert_eq!(waits.as_mut().now_or_never(), None);
            assert_eq!(free(), MAX_ACTIVE_REQUESTS);
        }
        assert_eq!(slot.release_while(pin!(async { 7 })).now_or_never(), Some(Some(7)));
        assert_eq!(free(), MAX_ACTIVE_REQUESTS - 1);
        drop(slot);
        assert_eq!(free(), MAX_ACTIVE_REQUESTS);
    }

    #[tokio::test]
    async fn request_does_not_wait_when_too_many_already_wait() {
        let slots = RequestSlots::of(Spaces::for_tests().await);
        let slot = RequestSlot::of(&slots, &SpaceName::main());
        let taken = (0..MAX_WAITING_REQUESTS).map(|_| slots.waiting.take(&SpaceName::main()).unwrap());
        let all: Vec<_> = taken.collect();
        assert_eq!(slot.release_while(pin!(pending::<()>())).now_or_never(), Some(None));
        drop(all);
        assert_eq!(slot.release_while(pin!(pending::<()>())).now_or_never(), None);
    }
}
