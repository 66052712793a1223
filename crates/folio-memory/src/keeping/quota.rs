//! Which observations have to go when there are too many.

use crate::entry::{Entry, State};
use crate::observation::TypeRegistry;
use crate::time::Timestamp;

/// The `count` of `entries` that are put away first when the space is full (M7.6.46): what is settled before what counts,
/// then what matters less, then what is older. What is pinned is not touched.
#[must_use]
pub fn over_quota<'e>(
    entries: impl IntoIterator<Item = &'e Entry>,
    types: &TypeRegistry,
    count: usize,
    now: Timestamp,
) -> Vec<&'e Entry> {
    let mut entries: Vec<_> = entries
        .into_iter()
        .filter(|entry| entry.fields.pin_rank.is_none())
        .collect();
    entries.sort_by_cached_key(|entry| {
        let counts = entry.state(now) == State::Live;
        let class = types.class_of(entry.fields.type_name.as_deref());
        (counts, std::cmp::Reverse(class), entry.handle)
    });
    entries.truncate(count);
    entries
}
