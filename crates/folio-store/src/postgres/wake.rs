//! Wakes those who wait for commits: the server notifies every process of each commit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_memory::Seq;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::place::SpaceId;

/// The channel for notifications of commits, as `SPACE:SEQ`.
pub(super) const CHANNEL: &str = "folio";
/// How long waiters rely on notifications before they look for themselves.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The commits that this process was notified of.
#[derive(Debug)]
pub(super) struct Wake {
    signal: watch::Sender<u64>,
    heads: Mutex<HashMap<SpaceId, Seq>>,
    /// How often a notification may have been missed.
    gaps: AtomicU64,
}

impl Wake {
    pub(super) fn new() -> Self {
        Self {
            signal: watch::Sender::new(0),
            heads: Mutex::default(),
            gaps: AtomicU64::new(0),
        }
    }

    /// Reports commit `head` of `space`.
    pub(super) fn ring(&self, space: SpaceId, head: Seq) {
        {
            let mut heads = self.heads.lock();
            let known = heads.entry(space).or_insert(head);
            *known = head.max(*known);
        }
        self.signal.send_modify(|count| *count += 1);
    }

    /// Takes a notification from [`CHANNEL`].
    pub(super) fn hear(&self, payload: &str) {
        let parsed = payload
            .split_once(':')
            .and_then(|(space, seq)| Some((SpaceId(space.parse().ok()?), Seq(seq.parse().ok()?))));
        match parsed {
            Some((space, seq)) => self.ring(space, seq),
            None => self.ring_all(),
        }
    }

    /// Reports that notifications may have been missed, so that all waiters look for themselves.
    pub(super) fn ring_all(&self) {
        self.gaps.fetch_add(1, Ordering::AcqRel);
        self.signal.send_modify(|count| *count += 1);
    }

    /// Drops what is known: commits may have been lost, and their numbers are assigned again.
    pub(super) fn forget(&self) {
        self.heads.lock().clear();
        self.ring_all();
    }

    /// Subscribes to all notifications from now on.
    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.signal.subscribe()
    }

    /// How often a notification may have been missed so far.
    pub(super) fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Acquire)
    }

    /// The last commit of `space` that this process was notified of.
    pub(super) fn heard(&self, space: SpaceId) -> Option<Seq> {
        let heads = self.heads.lock();
        heads.get(&space).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unparsable_notification_counts_as_a_gap() {
        let wake = Wake::new();
        wake.hear("3:7");
        wake.hear("3:5");
        assert_eq!((wake.heard(SpaceId(3)), wake.gaps()), (Some(Seq(7)), 0));
        wake.hear("what?");
        assert_eq!(wake.gaps(), 1);
    }
}
