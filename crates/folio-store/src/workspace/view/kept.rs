//! The views rendered last, and when they are still true.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use folio_memory::id::EntryHandle;
use folio_memory::view::{Render, Rendered};
use folio_memory::{Actor, Seq, ThreadKey, Timestamp, TurnId};
use parking_lot::Mutex;

/// How many views are cached.
const MAX_CACHED_VIEWS: usize = 32;

/// What a view depends on apart from the content of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) thread: ThreadKey,
    pub(super) render: Render,
    pub(super) besides: Vec<EntryHandle>,
    /// The lines of the text above that an entry of the view can have: no others make a difference.
    pub(super) above: String,
    pub(super) counted: String,
    /// The asker, in whatever turn, and the thread it reads from: what it may not read is left out (M7.7).
    pub(super) asker: Actor,
    pub(super) seen_from: ThreadKey,
}

impl Key {
    /// Whether `other` differs at most in the text above.
    fn is_beside(&self, other: &Self) -> bool {
        let Self {
            thread,
            render,
            besides,
            above: _,
            counted,
            asker,
            seen_from,
        } = self;
        (thread, render, besides) == (&other.thread, &other.render, &other.besides)
            && (counted, asker, seen_from) == (&other.counted, &other.asker, &other.seen_from)
    }
}

/// What must be unchanged for a cached view to be still true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// The mark of lists of memory. Only for a view without pages: a mark does not cover the blocks of their logs.
    At(u64),
    /// The last commit, and the expiries since.
    AsOf(Seq),
}

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) key: Key,
    pub(super) stands: Stands,
    pub(super) at: Timestamp,
    pub(super) rendered: Arc<Rendered>,
    pub(super) noted: Noted,
    /// The lines that entries in its sections can have; `None` if nobody has asked for them.
    pub(super) lines: Option<Arc<Lines>>,
}

/// Hashes of the lines that the entries of a view can have.
#[derive(Debug, Default)]
pub(super) struct Lines(HashSet<u64>);

impl Lines {
    pub(super) fn add(&mut self, line: &str) {
        self.0.insert(hash_of(line));
    }

    /// The lines of `text` that an entry can have. One more may be among them, but none is missing.
    pub(super) fn said_in(&self, text: &str) -> String {
        let said = text.lines().filter(|line| self.0.contains(&hash_of(line)));
        said.collect::<Vec<_>>().join("\n")
    }
}

fn hash_of(line: &str) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    STATE.hash_one(line)
}

/// Where the receipt of a view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    /// In no trace: nobody has read the view, it was only looked at for changes.
    Nowhere,
    /// In the trace, as of this turn or of none.
    In(Option<TurnId>),
}

/// A cached view, as it was found.
pub(super) struct Known {
    pub(super) stands: Stands,
    pub(super) at: Timestamp,
    pub(super) rendered: Arc<Rendered>,
    /// Whether the turn that asks has its receipt.
    pub(super) is_noted: bool,
    pub(super) lines: Option<Arc<Lines>>,
}

/// The views rendered last, the latest at the end.
#[derive(Debug, Default)]
pub(in super::super) struct KeptViews(Mutex<VecDeque<Kept>>);

impl KeptViews {
    /// The cached view for `key` that is true at one of `stands`, for `turn`.
    pub(super) fn get(&self, key: &Key, stands: &[Stands], turn: Option<TurnId>) -> Option<Known> {
        let kept = self.0.lock();
        let kept = kept
            .iter()
            .find(|kept| stands.contains(&kept.stands) && kept.key == *key)?;
        Some(Known {
            stands: kept.stands,
            at: kept.at,
            rendered: Arc::clone(&kept.rendered),
            is_noted: kept.noted == Noted::In(turn),
            lines: kept.lines.clone(),
        })
    }

    /// The lines that entries can have in the views for `key`, whatever text is above, that are true at one of `stands`;
    /// `None` if that is not known.
    pub(super) fn lines(&self, key: &Key, stands: &[Stands]) -> Option<Arc<Lines>> {
        let kept = self.0.lock();
        let mut beside = kept
            .iter()
            .filter(|kept| stands.contains(&kept.stands) && kept.key.is_beside(key));
        beside.find_map(|kept| kept.lines.clone())
    }

    pub(in super::super) fn forget(&self) {
        self.0.lock().clear();
    }

    pub(super) fn put(&self, new: Kept) {
        let mut kept = self.0.lock();
        kept.retain(|kept| kept.key != new.key);
        kept.push_back(new);
        while kept.len() > MAX_CACHED_VIEWS {
            kept.pop_front();
        }
    }
}
