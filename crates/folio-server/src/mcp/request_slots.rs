//! Limits the requests that are processed at the same time, and those that only wait.

use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most requests of one server that are processed at the same time; others wait.
const AT_ONCE: usize = 64;
/// The most requests that only wait for a run, each of which keeps the run in memory. Requests beyond are answered at
/// once.
const AT_ONCE_WAITING: usize = 256;

/// The places for all requests of a server.
#[derive(Debug, Clone)]
pub(super) struct RequestSlots {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for RequestSlots {
    fn default() -> Self {
        Self {
            working: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Arc::new(Semaphore::new(AT_ONCE_WAITING)),
        }
    }
}

/// The turn of one request: it holds a place from when its turn comes until it is dropped.
#[derive(Debug)]
pub(super) struct RequestSlot {
    turns: RequestSlots,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl RequestSlot {
    /// Creates a turn that has not come yet.
    pub(super) fn of(turns: &RequestSlots) -> Self {
        Self {
            turns: turns.clone(),
            place: Mutex::default(),
        }
    }

    /// Waits until the turn comes.
    pub(super) async fn acquire(&self) {
        // The semaphores are never closed.
        let place = Arc::clone(&self.turns.working).acquire_owned().await.ok();
        *self.place.lock() = place;
    }

    /// Waits for `what` others do and leaves the place to other requests meanwhile, since they may be those who do it.
    /// Returns `None` at once if too many requests wait already.
    pub(super) async fn release_while<T>(&self, what: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let waiting = self.turns.waiting.try_acquire().ok()?;
        drop(self.place.lock().take());
        let came = what.await;
        drop(waiting);
        self.acquire().await;
        Some(came)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn waiting_request_frees_its_slot_and_takes_one_again_afterwards() {
        let turns = RequestSlots::default();
        let free = || turns.working.available_permits();
        let turn = RequestSlot::of(&turns);
        assert_eq!(turn.acquire().now_or_never(), Some(()));
        assert_eq!(free(), AT_ONCE - 1);
        {
            let what = pin!(pending::<()>());
            let mut waits = Box::pin(turn.release_while(what));
            assert_eq!(waits.as_mut().now_or_never(), None);
            assert_eq!(free(), AT_ONCE);
        }
        assert_eq!(turn.release_while(pin!(async { 7 })).now_or_never(), Some(Some(7)));
        assert_eq!(free(), AT_ONCE - 1);
        drop(turn);
        assert_eq!(free(), AT_ONCE);
    }

    #[test]
    fn request_does_not_wait_when_too_many_already_wait() {
        let turns = RequestSlots::default();
        let turn = RequestSlot::of(&turns);
        let all = turns
            .waiting
            .try_acquire_many(u32::try_from(AT_ONCE_WAITING).unwrap())
            .unwrap();
        assert_eq!(turn.release_while(pin!(pending::<()>())).now_or_never(), Some(None));
        drop(all);
        assert_eq!(turn.release_while(pin!(pending::<()>())).now_or_never(), None);
    }
}
