//! Which observations are archived when there are too many.

use std::cmp::Reverse;

use crate::entry::{Entry, State};
use crate::id::EntryHandle;
use crate::observation::{Class, TypeRegistry};
use crate::time::Timestamp;

/// The order in which observations are archived when the space is full (M7.6.46): the least key first.
///
/// Settled ones go before live ones, then less important ones, then older ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionKey {
    counts: bool,
    class: Reverse<Class>,
    handle: EntryHandle,
}

/// The key of `entry` in that order; `None` if it is pinned, because then it stays.
#[must_use]
pub fn eviction_key(entry: &Entry, types: &TypeRegistry, now: Timestamp) -> Option<EvictionKey> {
    let key = || EvictionKey {
        counts: entry.state(now) == State::Live,
        class: Reverse(types.class_of(entry.fields.type_name.as_deref())),
        handle: entry.handle,
    };
    entry.fields.pin_rank.is_none().then(key)
}
