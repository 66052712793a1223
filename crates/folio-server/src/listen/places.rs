//! Limits how many connections may be open at once, and decides which one is closed to make room for another.
//!
//! Each connection takes a file descriptor of this process before anybody knows who connects. Without a limit,
//! strangers who only connect could take all that the process may have, and work of runs would fail for want of one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The places for connections.
#[derive(Debug, Clone)]
pub(super) struct Places {
    max_connections: usize,
    taken: Arc<Mutex<Taken>>,
    /// Notified when a place is given back, or a connection becomes idle.
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Taken {
    /// A counter that increases with each place and each change.
    last: u64,
    /// The connections, each with the notification that tells it to end, and since when it has been idle.
    open: HashMap<u64, (Arc<Notify>, Option<u64>)>,
    /// The idle connections, the one that has been idle for longest first.
    idle: BTreeMap<u64, u64>,
}

impl Taken {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Marks the connection `id` as idle.
    fn mark_idle(&mut self, id: u64) {
        let now = self.next();
        if let Some((_, since)) = self.open.get_mut(&id) {
            *since = Some(now);
            self.idle.insert(now, id);
        }
    }

    /// Marks the connection `id` as busy.
    fn mark_busy(&mut self, id: u64) {
        let since = self.open.get_mut(&id).and_then(|(_, since)| since.take());
        since.map(|since| self.idle.remove(&since));
    }
}

impl Places {
    pub(super) fn of(limit: usize) -> Self {
        Self {
            max_connections: limit.max(1),
            taken: Arc::default(),
            freed: Arc::default(),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }

    /// Takes a place for one more connection. If none is left, the connection that has been idle for longest is told to
    /// end; while all are busy, waits until one is idle.
    pub(super) async fn take(&self) -> Place {
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.try_take() {
                return place;
            }
            freed.await;
        }
    }

    fn try_take(&self) -> Option<Place> {
        let mut state = self.taken();
        if state.open.len() >= self.max_connections {
            let (_, longest) = state.idle.pop_first()?;
            if let Some((end, _)) = state.open.get(&longest) {
                end.notify_one();
            }
        }
        let (id, end) = (state.next(), Arc::new(Notify::new()));
        state.open.insert(id, (Arc::clone(&end), None));
        state.mark_idle(id);
        Some(Place {
            id,
            end,
            places: self.clone(),
        })
    }
}

/// The place of one connection, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    end: Arc<Notify>,
    places: Places,
}

impl Place {
    /// Returns a future that is ready when another connection needs the place.
    pub(super) fn wait_until_needed(&self) -> impl Future<Output = ()> + use<> {
        let end = Arc::clone(&self.end);
        async move { end.notified().await }
    }

    /// Returns whether the connection is idle.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.places.taken();
        state.open.get(&self.id).is_some_and(|(_, since)| since.is_some())
    }

    /// Marks the connection as busy until the result is dropped.
    pub(super) fn mark_working(&self) -> Working {
        self.places.taken().mark_busy(self.id);
        Working {
            id: self.id,
            places: self.places.clone(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.taken();
        state.mark_busy(self.id);
        state.open.remove(&self.id);
        drop(state);
        self.places.freed.notify_one();
    }
}

/// Keeps a connection busy until this is dropped.
#[derive(Debug)]
pub(super) struct Working {
    id: u64,
    places: Places,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.places.taken().mark_idle(self.id);
        self.places.freed.notify_one();
    }
}
