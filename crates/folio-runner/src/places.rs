//! Limits how many calls of one provider are under way at once, over all runs of a runner (E9.15).
//!
//! A provider that reports a rate limit is asked less: nobody asks it before the time that it wants has passed, and
//! each call that it turned away takes its place out of use, and those that nobody uses, down to one place: what is
//! left is one less than what was too much. Each answer restores one. A call that waits for its next attempt occupies
//! none.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// The longest time that a provider's wish for no requests is respected.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The places of one provider, in first-come order.
#[derive(Debug)]
pub(crate) struct Places {
    capacity: usize,
    free: Arc<Semaphore>,
    slowed: Mutex<Slowed>,
}

/// How requests to a provider are reduced.
#[derive(Debug, Default)]
struct Slowed {
    /// Nobody asks the provider before this instant.
    quiet_until: Option<Instant>,
    /// Places that are out of use for now.
    taken_out: Vec<OwnedSemaphorePermit>,
}

/// A place, occupied until it is dropped or the outcome of the call is reported.
#[derive(Debug)]
pub(crate) struct Place {
    permit: OwnedSemaphorePermit,
    places: Arc<Places>,
}

impl Places {
    /// Creates `limit` places; at least one.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let limit = limit.max(1);
        Arc::new(Self {
            capacity: limit,
            free: Arc::new(Semaphore::new(limit)),
            slowed: Mutex::default(),
        })
    }

    /// How many places there are when nothing slows them down.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Waits for a place, and then until the provider may be asked.
    pub(crate) async fn take(self: &Arc<Self>) -> Place {
        loop {
            if let Ok(place) = self.take_within(Duration::MAX).await {
                return place;
            }
        }
    }

    /// The same, but fails if the provider wants no requests for more than `quiet_max`.
    ///
    /// # Errors
    ///
    /// How long the provider wants no requests.
    pub(crate) async fn take_within(self: &Arc<Self>, quiet_max: Duration) -> Result<Place, Duration> {
        let permit = loop {
            // The semaphore is never closed.
            if let Ok(permit) = Arc::clone(&self.free).acquire_owned().await {
                break permit;
            }
        };
        loop {
            match self.remaining_quiet_time() {
                Duration::ZERO => break,
                quiet if quiet > quiet_max => return Err(quiet),
                quiet => tokio::time::sleep(quiet).await,
            }
        }
        Ok(Place {
            permit,
            places: Arc::clone(self),
        })
    }

    fn remaining_quiet_time(&self) -> Duration {
        let until = self.slowed.lock().quiet_until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }
}

impl Place {
    /// The provider answered: one more place may be used again.
    pub(crate) fn release_answered(self) {
        let mut slowed = self.places.slowed.lock();
        drop(slowed.taken_out.pop());
    }

    /// The provider reported a rate limit; it wants no requests for `retry_after`, if it says so.
    pub(crate) fn release_rate_limited(self, retry_after: Option<Duration>) {
        let mut slowed = self.places.slowed.lock();
        if let Some(retry_after) = retry_after {
            let until = Instant::now() + retry_after.min(MAX_RETRY_AFTER);
            slowed.quiet_until = slowed.quiet_until.max(Some(until));
        }
        while let Ok(idle) = Arc::clone(&self.places.free).try_acquire_owned() {
            slowed.taken_out.push(idle);
        }
        if slowed.taken_out.len() + 1 < self.places.capacity {
            slowed.taken_out.push(self.permit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn take_all_free(places: &Arc<Places>) -> Vec<Place> {
        let mut taken = Vec::new();
        while let Ok(place) = tokio::time::timeout(Duration::from_millis(1), places.take()).await {
            taken.push(place);
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limit_reduces_places_and_answers_restore_them_e9_15() {
        let places = Places::new(4);
        let mut all = take_all_free(&places).await;
        assert_eq!(all.len(), 4);
        for _ in 0..3 {
            all.pop().unwrap().release_rate_limited(None);
        }
        all.pop().unwrap().release_rate_limited(None);
        let left = take_all_free(&places).await;
        assert_eq!(left.len(), 1, "the last place stays");
        left.into_iter().for_each(Place::release_answered);
        let left = take_all_free(&places).await;
        assert_eq!(left.len(), 2);
        left.into_iter().for_each(Place::release_answered);
        assert_eq!(take_all_free(&places).await.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limit_leaves_fewer_places_than_were_in_use_e9_15() {
        let places = Places::new(16);
        let first = places.take().await;
        let second = places.take().await;
        let third = places.take().await;
        third.release_rate_limited(None);
        assert_eq!(take_all_free(&places).await.len(), 0, "two are still in use");
        first.release_answered();
        assert_eq!(take_all_free(&places).await.len(), 2, "its own, and one more");
        second.release_rate_limited(None);
        assert_eq!(take_all_free(&places).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_place_is_given_before_retry_after_has_passed_e9_15() {
        let places = Places::new(4);
        let began = Instant::now();
        places.take().await.release_rate_limited(Some(Duration::from_secs(7)));
        // A shorter wish does not take back a longer one.
        let other = Place {
            permit: Arc::clone(&places.free).acquire_owned().await.unwrap(),
            places: Arc::clone(&places),
        };
        other.release_rate_limited(Some(Duration::from_secs(2)));
        let place = places.take().await;
        assert_eq!(began.elapsed().as_secs(), 7);
        place.release_answered();
        drop(places.take().await);
        assert_eq!(began.elapsed().as_secs(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn take_within_returns_at_once_if_retry_after_is_longer_e9_15() {
        let places = Places::new(1);
        let began = Instant::now();
        places
            .take()
            .await
            .release_rate_limited(Some(Duration::from_secs(3600)));
        let told = places.take_within(Duration::from_secs(60)).await.map(drop);
        assert_eq!((told, began.elapsed().as_secs()), (Err(Duration::from_secs(3600)), 0));
        tokio::time::advance(Duration::from_secs(3550)).await;
        assert!(places.take_within(Duration::from_secs(60)).await.is_ok());
        assert_eq!(began.elapsed().as_secs(), 3600);
    }
}
