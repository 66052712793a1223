//! The spaces of which lists are requested, and how far the index of each has come. Every store keeps its indexes here;
//! it only reads what belongs in them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use folio_memory::{Seq, SpaceName, Timestamp};
use parking_lot::{Mutex, RwLock};

use super::index::LiveIndex;
use super::memory_limit::{Held, indexes_to_drop};
use super::options::LiveOptions;

/// The indexes of a store's spaces.
#[derive(Debug)]
pub(crate) struct Spaces {
    pub(crate) options: LiveOptions,
    known: Mutex<HashMap<SpaceName, Arc<Space>>>,
    /// The number of queries so far.
    queries: AtomicU64,
}

/// A space of which a list was requested.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// How many queries found no index since the last one was built or dropped.
    asked: AtomicU32,
    /// The number of the last query.
    asked_at: AtomicU64,
    pub(crate) state: RwLock<State>,
}

/// Whether a space has an index.
#[derive(Debug, Default)]
pub(crate) enum State {
    #[default]
    None,
    /// Somebody is building the index.
    InTheMaking,
    /// The index would need more memory than allowed.
    TooLarge,
    Ready(Box<Ready>),
}

/// An index, and the state of the space that it has.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) index: LiveIndex,
    /// The index is up to date to this commit.
    pub(crate) seq: Seq,
    /// The highest number of an entry at that commit, memory or not.
    pub(crate) last: u64,
}

/// What is missing for an answer as of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The index.
    Index,
    /// What has changed after the commit `since`, when the last entry had the number `last`.
    News { since: Seq, last: u64 },
    /// Only the time of the query.
    Time,
    /// What cannot be had: the index is being built, would be too large, or contains later commits.
    Unattainable,
}

/// Who builds an index that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builder {
    /// The caller, who must [settle](Space::settle) the state.
    Caller,
    /// Somebody else, or it cannot be built.
    Other,
    /// Nobody: somebody has just built it.
    Done,
}

impl Spaces {
    pub(crate) fn new(options: LiveOptions) -> Self {
        Self {
            options,
            known: Mutex::default(),
            queries: AtomicU64::new(0),
        }
    }

    /// The space `name`, of which a list is requested now.
    pub(crate) fn space_for_query(&self, name: &SpaceName) -> Arc<Space> {
        let mut spaces = self.known.lock();
        let space = match spaces.get(name) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(spaces.entry(name.clone()).or_default()),
        };
        let now = self.queries.fetch_add(1, Ordering::Relaxed);
        space.asked_at.store(now, Ordering::Relaxed);
        space
    }

    /// The space `name`, if a list of it was requested before.
    pub(crate) fn space(&self, name: &SpaceName) -> Option<Arc<Space>> {
        self.known.lock().get(name).map(Arc::clone)
    }

    /// Drops indexes until the others take no more than they may together. The caller must not hold any of them.
    pub(crate) fn make_room(&self) {
        let spaces: Vec<_> = {
            let spaces = self.known.lock();
            spaces.values().map(Arc::clone).collect()
        };
        let indexes = spaces.into_iter().filter_map(|space| {
            let bytes = match &*space.state.read() {
                State::Ready(ready) => ready.index.bytes(),
                _ => return None,
            };
            let asked_at = space.asked_at.load(Ordering::Relaxed);
            Some(Held { asked_at, bytes, space })
        });
        for space in indexes_to_drop(indexes.collect(), self.options.bytes_of_all_max) {
            space.settle(State::None);
        }
    }

    /// Drops all indexes: commits that they contain may have been lost.
    pub(crate) fn forget(&self) {
        self.known.lock().clear();
    }
}

impl Space {
    /// Counts a query that found no index; returns whether there were more than `after` of them.
    pub(crate) fn is_asked_beyond(&self, after: u32) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= after
    }

    /// Decides who builds the index.
    pub(crate) fn begin_making(&self) -> Builder {
        let mut state = self.state.write();
        match *state {
            State::None => {
                *state = State::InTheMaking;
                Builder::Caller
            }
            State::Ready(_) => Builder::Done,
            State::InTheMaking | State::TooLarge => Builder::Other,
        }
    }

    /// Sets whether there is an index, and counts queries from here on.
    pub(crate) fn settle(&self, new: State) {
        self.asked.store(0, Ordering::Relaxed);
        *self.state.write() = new;
    }

    /// Sets what building an index came to; returns whether there is one now.
    pub(crate) fn settle_built<E>(&self, built: Result<State, E>) -> Result<bool, E> {
        let (state, outcome) = match built {
            Ok(state) => {
                let is_ready = matches!(state, State::Ready(_));
                (state, Ok(is_ready))
            }
            Err(failure) => (State::None, Err(failure)),
        };
        self.settle(state);
        outcome
    }

    /// Drops the index in `state`. It is built anew after as many queries as the first one was.
    pub(crate) fn drop_index(&self, state: &mut State) {
        *state = State::None;
        self.asked.store(0, Ordering::Relaxed);
    }

    /// Drops an index in `state` that is too far behind. It is built anew with the next query, as an index for which
    /// `after` queries have been waiting.
    pub(crate) fn drop_outdated(&self, state: &mut State, after: u32) {
        *state = State::None;
        self.asked.store(after, Ordering::Relaxed);
    }

    /// The index in `state`, which has the commit asked for, with its time set to `now`; `None` if it cannot answer. One
    /// that has outgrown `bytes_max` is dropped.
    pub(crate) fn advanced<'s>(&self, state: &'s mut State, now: Timestamp, bytes_max: usize) -> Option<&'s LiveIndex> {
        if matches!(state, State::Ready(ready) if ready.index.has_outgrown(bytes_max)) {
            self.drop_index(state);
        }
        match state {
            State::Ready(ready) => ready.index.advance(now).then_some(&ready.index),
            State::None | State::InTheMaking | State::TooLarge => None,
        }
    }
}

impl State {
    /// The index, if it can answer for the commit `head` at `now` as it is.
    pub(crate) fn index_for(&self, head: Seq, now: Timestamp) -> Option<&LiveIndex> {
        match self {
            Self::Ready(ready) if ready.seq == head && ready.index.is_at(now) => Some(&ready.index),
            _ => None,
        }
    }

    /// What is missing for an answer as of the commit `head`, if the index cannot give it as it is.
    pub(crate) fn missing(&self, head: Seq) -> Missing {
        match self {
            Self::None => Missing::Index,
            Self::Ready(ready) if ready.seq == head => Missing::Time,
            Self::Ready(ready) if ready.seq < head => Missing::News {
                since: ready.seq,
                last: ready.last,
            },
            // For example if the transaction sees less than the index contains.
            Self::Ready(_) | Self::InTheMaking | Self::TooLarge => Missing::Unattainable,
        }
    }

    /// Whether it is time to check the size of all indexes.
    pub(crate) fn is_size_check_due(&self) -> bool {
        matches!(self, Self::Ready(ready) if ready.index.is_looked_at())
    }
}
