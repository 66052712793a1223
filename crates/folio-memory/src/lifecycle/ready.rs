//! Which work can be begun now, and by whom (M7.4.35).

use crate::entry::{Entry, Family, Owner, State, Status};
use crate::time::Timestamp;

/// Whether `owner` may go on or begin with `entry` as far as the entry itself says: it is open and meant for them or for anybody, they are at
/// it, or the lease of whoever is at it is over. What has to be done before it, [`holds_up`] says.
#[must_use]
pub fn is_free_for(entry: &Entry, owner: &Owner, now: Timestamp) -> bool {
    if !holds_up(entry, now) {
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

/// Whether what `blocker` blocks has to wait for it: it is work that is still to be done. What is done, was put away or replaced, or is
/// past its time, holds nothing up, and neither does what is no work.
#[must_use]
pub fn holds_up(blocker: &Entry, now: Timestamp) -> bool {
    blocker.kind.family() == Family::Work && blocker.state(now) == State::Live
}
