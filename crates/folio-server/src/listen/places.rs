//! How many connections may be open at once, and which of them goes when there is no place for another.
//!
//! Whoever connects takes a file of this process before anybody knows who it is. Without a bound, strangers who only connect would take all that
//! it may have open, and work of runs would fail for want of one.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The places for connections.
#[derive(Debug, Clone)]
pub(super) struct Places {
    most: usize,
    taken: Arc<Mutex<Taken>>,
    /// Rings when one is given back, or a connection has nothing to answer any more.
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Counts up with each place and each change.
    last: u64,
    /// The connections, with how each is told to end, and since when nothing is answered on it.
    open: HashMap<u64, (Arc<Notify>, Option<u64>)>,
    /// Those on which nothing is answered, the one that has been so for longest first.
    idle: BTreeMap<u64, u64>,
}

impl Taken {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// From now on nothing is answered on the connection `id`.
    fn rests(&mut self, id: u64) {
        let now = self.next();
        if let Some((_, since)) = self.open.get_mut(&id) {
            *since = Some(now);
            self.idle.insert(now, id);
        }
    }

    /// From now on something is.
    fn works(&mut self, id: u64) {
        let since = self.open.get_mut(&id).and_then(|(_, since)| since.take());
        since.map(|since| self.idle.remove(&since));
    }
}

impl Places {
    pub(super) fn of(most: usize) -> Self {
        Self {
            most: most.max(1),
            taken: Arc::default(),
            freed: Arc::default(),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }

    /// A place for one more connection. If there is none left, the one goes on which nothing has been answered for longest; while something is
    /// answered on all of them, it is waited for.
    pub(super) async fn take(&self) -> Place {
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.take_now() {
                return place;
            }
            freed.await;
        }
    }

    fn take_now(&self) -> Option<Place> {
        let mut taken = self.taken();
        if taken.open.len() >= self.most {
            let (_, longest) = taken.idle.pop_first()?;
            if let Some((end, _)) = taken.open.get(&longest) {
                end.notify_one();
            }
        }
        let (id, end) = (taken.next(), Arc::new(Notify::new()));
        taken.open.insert(id, (Arc::clone(&end), None));
        taken.rests(id);
        Some(Place {
            id,
            end,
            places: self.clone(),
        })
    }
}

/// The place of one connection, as long as it is kept.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    end: Arc<Notify>,
    places: Places,
}

impl Place {
    /// Is there when another connection needs the place.
    pub(super) fn is_needed(&self) -> impl Future<Output = ()> + use<> {
        let end = Arc::clone(&self.end);
        async move { end.notified().await }
    }

    /// Whether nothing is answered on the connection.
    pub(super) fn is_idle(&self) -> bool {
        let taken = self.places.taken();
        taken.open.get(&self.id).is_some_and(|(_, since)| since.is_some())
    }

    /// Something is answered on the connection, until the result is dropped.
    pub(super) fn working(&self) -> Working {
        self.places.taken().works(self.id);
        Working {
            id: self.id,
            places: self.places.clone(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.works(self.id);
        taken.open.remove(&self.id);
        drop(taken);
        self.places.freed.notify_one();
    }
}

/// Something is answered on a connection.
#[derive(Debug)]
pub(super) struct Working {
    id: u64,
    places: Places,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.places.taken().rests(self.id);
        self.places.freed.notify_one();
    }
}

/// What is answered, which is work for as long as it is not handed on.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Body,
    pub(super) _working: Working,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
