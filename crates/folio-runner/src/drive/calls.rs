//! What a run has begun outside. It goes on whatever the run does meanwhile (decision 0096).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};

/// A call that is under way.
pub(super) type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The calls that are under way, and those that have ended and were not taken yet: no more than may be under way at a
/// time.
///
/// A call may hold what others wait for, such as a reader's place or an answer that is shared by all who ask the same.
/// It releases that only if it is polled. So everything that is awaited while calls are under way goes through here.
#[derive(Debug)]
pub(super) struct Calls<T> {
    going: FuturesUnordered<Call<T>>,
    ended: VecDeque<T>,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self {
            going: FuturesUnordered::new(),
            ended: VecDeque::new(),
        }
    }
}

impl<T> Calls<T> {
    /// Whether nothing is under way and everything that has ended was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.going.is_empty() && self.ended.is_empty()
    }

    /// Takes the calls that have begun. None of them was polled yet.
    pub(super) fn add_all(&mut self, new_calls: &mut Vec<Call<T>>) {
        self.going.extend(new_calls.drain(..));
    }

    /// Awaits `work`, and polls the calls while it is pending. Work that is ready at once costs nothing more.
    pub(super) async fn poll_alongside<W>(&mut self, mut work: Pin<&mut impl Future<Output = W>>) -> W {
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() {
                self.poll_pending(context);
            }
            polled
        })
        .await
    }

    /// Waits for the next call that ends, in the order in which they end; `None` if nothing is under way. If none
    /// is wanted now (`is_wanted`), ended calls are kept and this waits forever. Cancel safe.
    pub(super) async fn next(&mut self, is_wanted: bool) -> Option<T> {
        poll_fn(|context| {
            if !is_wanted {
                self.poll_pending(context);
                return Poll::Pending;
            }
            match self.ended.pop_front() {
                Some(ended) => Poll::Ready(Some(ended)),
                // One at a time: while it is written, the others read their answers.
                None => self.going.poll_next_unpin(context),
            }
        })
        .await
    }

    fn poll_pending(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(ended)) = self.going.poll_next_unpin(context) {
            self.ended.push_back(ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    /// A call that needs the only one of `places`, and says `name`.
    fn call_needing_permit(places: &Arc<Semaphore>, name: char) -> Call<char> {
        let places = Arc::clone(places);
        Box::pin(async move {
            let _place = places.acquire().await;
            name
        })
    }

    #[test]
    fn pending_calls_progress_while_other_work_waits_behind_them() {
        let places = Arc::new(Semaphore::new(1));
        let taken = places.try_acquire().unwrap();
        let mut calls = Calls::default();
        calls.add_all(&mut vec![
            call_needing_permit(&places, 'a'),
            call_needing_permit(&places, 'b'),
        ]);
        assert_eq!(calls.next(true).now_or_never(), None, "both wait");
        {
            let own = pin!(call_needing_permit(&places, 'w'));
            let mut work = pin!(calls.poll_alongside(own));
            assert_eq!(work.as_mut().now_or_never(), None, "it waits behind them");
            drop(taken);
            assert_eq!(work.as_mut().now_or_never(), None, "it is woken by the last of them");
            assert_eq!(work.now_or_never(), Some('w'));
        }
        assert!(!calls.is_empty(), "what has ended meanwhile is kept");
        let next = |calls: &mut Calls<char>| calls.next(true).now_or_never();
        assert_eq!(next(&mut calls), Some(Some('a')));
        assert_eq!(next(&mut calls), Some(Some('b')));
        assert_eq!(next(&mut calls), Some(None));
        assert!(calls.is_empty());
    }

    #[test]
    fn calls_progress_while_their_outcomes_are_not_taken() {
        let places = Arc::new(Semaphore::new(1));
        let mut calls = Calls::default();
        calls.add_all(&mut vec![
            call_needing_permit(&places, 'a'),
            call_needing_permit(&places, 'b'),
        ]);
        assert_eq!(calls.next(false).now_or_never(), None);
        assert_eq!(places.available_permits(), 1, "nobody has or waits for a place");
        assert!(places.try_acquire().is_ok());
        assert_eq!(calls.next(true).now_or_never(), Some(Some('a')));
    }
}
