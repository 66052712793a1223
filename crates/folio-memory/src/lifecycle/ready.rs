//! Which work can begin now, and who can do it (M7.4.35).

use super::AlreadyClaimed;
use crate::entry::{Entry, Family, Owner, State, Status};
use crate::time::Timestamp;

/// Whether `owner` may begin or continue `entry` as far as the entry itself says: it is open and meant for them or for
/// anybody, they or nobody have claimed it, or the lease of its owner is over. [`is_blocking`] says what has to be done before
/// it.
#[must_use]
pub fn is_free_for(entry: &Entry, owner: &Owner, now: Timestamp) -> bool {
    let is_to_be_done = matches!(entry.fields.status, Status::Open | Status::InProgress);
    is_to_be_done && is_blocking(entry, now) && AlreadyClaimed::of(entry, owner, now).is_none()
}

/// Whether what `blocker` blocks has to wait for it, because it is work that is still to be done. Work that is done,
/// archived, superseded or expired holds nothing up, and neither does an entry that is not work.
#[must_use]
pub fn is_blocking(blocker: &Entry, now: Timestamp) -> bool {
    blocker.kind.family() == Family::Work && blocker.state(now) == State::Live
}
