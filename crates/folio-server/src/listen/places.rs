//! Limits how many connections may be open at once, and decides which one is closed to make room for another.
//!
//! Each connection takes a file descriptor of this process before anybody knows who connects. Without a limit,
//! strangers who only connect could take all that the process may have, and work of runs would fail for want of one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// How many connections may be open beyond the limit because they were told to end while their clients still read.
pub(super) const MAX_ENDING: usize = 32;

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
    open: HashMap<u64, Holder>,
    /// The idle connections that were not told to end, the one that has been idle for longest first.
    idle: BTreeMap<u64, u64>,
    /// The connections that were told to end, the first one first.
    ending: Vec<u64>,
}

/// An open connection.
#[derive(Debug)]
struct Holder {
    needed: Arc<Notify>,
    /// Since when it has been idle.
    idle_since: Option<u64>,
    stage: Stage,
}

/// Whether the place of a connection is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is not.
    Open,
    /// The connection has to end once the client has read what was written.
    Ending,
    /// Too many connections are ending: it has to end at once.
    Cut,
}

impl Taken {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Marks the connection `id` as idle.
    fn mark_idle(&mut self, id: u64) {
        let now = self.next();
        if let Some(connection) = self.open.get_mut(&id) {
            connection.idle_since = Some(now);
            if connection.stage == Stage::Open {
                self.idle.insert(now, id);
            }
        }
    }

    /// Marks the connection `id` as busy.
    fn mark_busy(&mut self, id: u64) {
        let since = self
            .open
            .get_mut(&id)
            .and_then(|connection| connection.idle_since.take());
        since.map(|since| self.idle.remove(&since));
    }

    /// Makes room for one more connection beyond the limit: tells the one that has been idle for longest to end.
    /// Returns whether there is room. If too many are ending already, the one of them that was told first and is idle
    /// is cut off, and there is room when it has gone.
    fn make_room(&mut self) -> bool {
        let is_full = self.ending.len() >= MAX_ENDING;
        let found = if is_full {
            let is_idle = |id: &u64| self.open.get(id).is_some_and(|known| known.idle_since.is_some());
            self.ending.iter().copied().find(is_idle)
        } else {
            self.idle.pop_first().map(|(_, id)| id)
        };
        let Some((id, connection)) = found.and_then(|id| Some((id, self.open.get_mut(&id)?))) else {
            return false;
        };
        connection.stage = if is_full { Stage::Cut } else { Stage::Ending };
        connection.needed.notify_one();
        if !is_full {
            self.ending.push(id);
        }
        !is_full
    }

    fn remove(&mut self, id: u64) {
        self.mark_busy(id);
        self.open.remove(&id);
        self.ending.retain(|ending| *ending != id);
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

    /// Takes a place for a connection, which is notified by `needed` when another one needs it. If none is left, the
    /// connection that has been idle for longest is told to end; while all are busy, waits until one is idle.
    pub(super) async fn take(&self, needed: &Arc<Notify>) -> Place {
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.try_take(needed) {
                return place;
            }
            freed.await;
        }
    }

    /// Does the same without waiting.
    pub(super) fn try_take(&self, needed: &Arc<Notify>) -> Option<Place> {
        let mut state = self.taken();
        let staying = state.open.len() - state.ending.len();
        if staying >= self.max_connections && !state.make_room() {
            return None;
        }
        let id = state.next();
        let holder = Holder {
            needed: Arc::clone(needed),
            idle_since: None,
            stage: Stage::Open,
        };
        state.open.insert(id, holder);
        state.mark_idle(id);
        Some(Place {
            id,
            places: self.clone(),
        })
    }
}

/// The place of one connection, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    id: u64,
    places: Places,
}

impl Place {
    /// Returns whether the connection has to be closed now, if it was told to end. `has_unread_output`: whether the
    /// client has not received everything that was written.
    pub(super) fn must_close(&self, has_unread_output: bool) -> bool {
        let state = self.places.taken();
        let Some(connection) = state.open.get(&self.id) else {
            return true;
        };
        connection.idle_since.is_some()
            && match connection.stage {
                Stage::Open => false,
                Stage::Ending => !has_unread_output,
                Stage::Cut => true,
            }
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
        self.places.taken().remove(self.id);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_connections_are_cut_off_when_too_many_do_not_end() {
        let (places, needed) = (Places::of(2), Arc::default());
        let mut open: Vec<_> = (0..2 + MAX_ENDING).map(|_| places.try_take(&needed).unwrap()).collect();
        let closing = |open: &[Place], unread| open.iter().filter(|place| place.must_close(unread)).count();
        assert_eq!((closing(&open, false), closing(&open, true)), (MAX_ENDING, 0));
        // One that answers is not cut off.
        let working = open[0].mark_working();
        assert!(places.try_take(&needed).is_none());
        assert!(!open[0].must_close(true) && open[1].must_close(true));
        drop(open.remove(1));
        open.push(places.try_take(&needed).unwrap());
        assert_eq!(closing(&open, true), 0);
        drop(working);
        assert!(places.try_take(&needed).is_none());
        assert!(open[0].must_close(true));
    }

    #[test]
    fn busy_connections_are_not_told_to_end() {
        let (places, needed) = (Places::of(1), Arc::default());
        let first = places.try_take(&needed).unwrap();
        let working = first.mark_working();
        assert!(places.try_take(&needed).is_none());
        assert!(!first.must_close(false));
        drop(working);
        assert!(places.try_take(&needed).is_some() && first.must_close(false));
    }
}
