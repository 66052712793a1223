//! Which observations have to go when there are too many.

use std::cmp::Reverse;

use crate::entry::{Entry, State};
use crate::id::EntryHandle;
use crate::observation::{Class, TypeRegistry};
use crate::time::Timestamp;

/// In which order observations go when the space is full (M7.6.46): the least key first.
///
/// What is settled goes before what counts, then what matters less, then what is older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionKey {
    counts: bool,
    class: Reverse<Class>,
    handle: EntryHandle,
}

/// Where `entry` stands in that order; nothing if it does not go, because it is pinned.
#[must_use]
pub fn eviction_key(entry: &Entry, types: &TypeRegistry, now: Timestamp) -> Option<EvictionKey> {
    let key = || EvictionKey {
        counts: entry.state(now) == State::Live,
        class: Reverse(types.class_of(entry.fields.type_name.as_deref())),
        handle: entry.handle,
    };
    entry.fields.pin_rank.is_none().then(key)
}
