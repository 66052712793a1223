//! Waking those who wait for commits: the server tells every process of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_memory::Seq;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::place::SpaceId;

/// The channel on which commits are told, as `SPACE:SEQ`.
pub(super) const CHANNEL: &str = "folio";
/// How long whoever waits relies on being told. Then he looks for himself.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What was heard of commits.
#[derive(Debug)]
pub(super) struct Wake {
    signal: watch::Sender<u64>,
    heads: Mutex<HashMap<SpaceId, Seq>>,
    /// How often something may have gone unheard.
    gaps: AtomicU64,
}

impl Wake {
    /// Nothing was heard yet.
    pub(super) fn new() -> Self {
        Self {
            signal: watch::Sender::new(0),
            heads: Mutex::default(),
            gaps: AtomicU64::new(0),
        }
    }

    /// Commit `head` of `space` is there.
    pub(super) fn ring(&self, space: SpaceId, head: Seq) {
        {
            let mut heads = self.heads.lock();
            let known = heads.entry(space).or_insert(head);
            *known = head.max(*known);
        }
        self.signal.send_modify(|count| *count += 1);
    }

    /// What the server told on [`CHANNEL`].
    pub(super) fn hear(&self, told: &str) {
        let heard = told
            .split_once(':')
            .and_then(|(space, seq)| Some((SpaceId(space.parse().ok()?), Seq(seq.parse().ok()?))));
        match heard {
            Some((space, seq)) => self.ring(space, seq),
            None => self.ring_all(),
        }
    }

    /// Something may have gone unheard: everybody looks for himself.
    pub(super) fn ring_all(&self) {
        self.gaps.fetch_add(1, Ordering::AcqRel);
        self.signal.send_modify(|count| *count += 1);
    }

    /// What was heard says nothing any more: commits may have been lost, and their numbers are given again.
    pub(super) fn forget(&self) {
        self.heads.lock().clear();
        self.ring_all();
    }

    /// A way to hear of everything from now on.
    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.signal.subscribe()
    }

    /// How often something may have gone unheard so far.
    pub(super) fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Acquire)
    }

    /// The last commit of `space` that was heard of.
    pub(super) fn heard(&self, space: SpaceId) -> Option<Seq> {
        let heads = self.heads.lock();
        heads.get(&space).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_understood_makes_everybody_look() {
        let wake = Wake::new();
        wake.hear("3:7");
        wake.hear("3:5");
        assert_eq!((wake.heard(SpaceId(3)), wake.gaps()), (Some(Seq(7)), 0));
        wake.hear("what?");
        assert_eq!(wake.gaps(), 1);
    }
}
