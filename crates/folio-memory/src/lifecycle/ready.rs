//! Which work can begin now, and who can do it (M7.4.35).

use crate::entry::{Entry, Family, Owner, State, Status};
use crate::time::Timestamp;

/// Whether `owner` may begin or continue `entry` as far as the entry itself says: it is open and meant for them or for
/// anybody, they have claimed it, or the lease of its owner is over. [`is_blocking`] says what has to be done before
/// it.
#[must_use]
pub fn is_free_for(entry: &Entry, owner: &Owner, now: Timestamp) -> bool {
    if !is_blocking(entry, now) {
        return false;
    }
    let fields = &entry.fields;
    let is_theirs = fields.owner == *owner;
    match fields.status {
        Status::Open => is_theirs || fields.owner.is_anybody(),
        Status::InProgress => is_theirs || fields.lease_until.is_some_and(|until| until <= now),
        _ => false,
    }
}

/// Whether what `blocker` blocks has to wait for it, because it is work that is still to be done. Work that is done,
/// archived, superseded or expired holds nothing up, and neither does an entry that is not work.
#[must_use]
pub fn is_blocking(blocker: &Entry, now: Timestamp) -> bool {
    blocker.kind.family() == Family::Work && blocker.state(now) == State::Live
}
