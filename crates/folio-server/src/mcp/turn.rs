//! Requests that are worked on at the same time, and those that only wait.

use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of one server that are worked on at the same time; others wait.
const AT_ONCE: usize = 64;
/// Requests that only wait for a run: each has the run in memory. Who cannot wait any more is answered at once.
const AT_ONCE_WAITING: usize = 256;

/// The places of all requests.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            working: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Arc::new(Semaphore::new(AT_ONCE_WAITING)),
        }
    }
}

/// The turn of one request: a place, from when it comes until this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Turn {
    /// One that has not come yet.
    pub(super) fn of(turns: &Turns) -> Self {
        Self {
            turns: turns.clone(),
            place: Mutex::default(),
        }
    }

    /// Waits until it has come.
    pub(super) async fn comes(&self) {
        // They are never closed.
        let place = Arc::clone(&self.turns.working).acquire_owned().await.ok();
        *self.place.lock() = place;
    }

    /// Waits for `what` somebody else does, and leaves the place to others meanwhile: they may be those who do it. Nothing if too many wait.
    pub(super) async fn left_for<T>(&self, what: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let waiting = self.turns.waiting.try_acquire().ok()?;
        drop(self.place.lock().take());
        let came = what.await;
        drop(waiting);
        self.comes().await;
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
    fn who_only_waits_leaves_the_place_to_others_and_has_one_again_afterwards() {
        let turns = Turns::default();
        let free = || turns.working.available_permits();
        let turn = Turn::of(&turns);
        assert_eq!(turn.comes().now_or_never(), Some(()));
        assert_eq!(free(), AT_ONCE - 1);
        {
            let what = pin!(pending::<()>());
            let mut waits = Box::pin(turn.left_for(what));
            assert_eq!(waits.as_mut().now_or_never(), None);
            assert_eq!(free(), AT_ONCE);
        }
        assert_eq!(turn.left_for(pin!(async { 7 })).now_or_never(), Some(Some(7)));
        assert_eq!(free(), AT_ONCE - 1);
        drop(turn);
        assert_eq!(free(), AT_ONCE);
    }

    #[test]
    fn who_cannot_wait_any_more_does_not() {
        let turns = Turns::default();
        let turn = Turn::of(&turns);
        let all = turns
            .waiting
            .try_acquire_many(u32::try_from(AT_ONCE_WAITING).unwrap())
            .unwrap();
        assert_eq!(turn.left_for(pin!(pending::<()>())).now_or_never(), Some(None));
        drop(all);
        assert_eq!(turn.left_for(pin!(pending::<()>())).now_or_never(), None);
    }
}
