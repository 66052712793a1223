//! What is to be done with one entry at an instant.

use super::policy::minutes;
use super::{ArchivedFor, ErasedFor, RetentionPolicy};
use crate::entry::{Entry, EntryFields, EntryKind, Status};
use crate::time::Timestamp;

/// What is to be done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// It is put away.
    Archive(ArchivedFor),
    /// Its content is taken out.
    Erase(ErasedFor),
}

/// What is to be done with `entry` at `now`, quota aside. Doing it and asking again ends with nothing to do.
///
/// Steps of plans are left to their run.
#[must_use]
pub fn due(entry: &Entry, policy: &RetentionPolicy, now: Timestamp) -> Option<Due> {
    let fields = &entry.fields;
    if fields.erased.is_some() || entry.kind == EntryKind::Step {
        return None;
    }
    let is_past = |since: Timestamp, after: Option<u64>| minutes(after).is_some_and(|after| since.plus(after) <= now);
    let is_archived = fields.status == Status::Archived;
    if !fields.pii.is_empty() {
        let both = policy
            .pii_archive_after_minutes
            .zip(policy.pii_erase_after_minutes)
            .map(|(archive, erase)| archive.saturating_add(erase));
        if is_past(entry.created_at, both) {
            return Some(Due::Erase(ErasedFor::Pii));
        }
        if !is_archived && is_past(entry.created_at, policy.pii_archive_after_minutes) {
            return Some(Due::Archive(ArchivedFor::Pii));
        }
    }
    if fields.pin_rank.is_some() {
        return None;
    }
    // What somebody put away himself is kept; what only made room was going to end anyway.
    let may_end = !is_archived || fields.archived_for.is_some();
    let end = fields.lifetime.expires_at();
    if may_end && end.is_some_and(|end| is_past(end, policy.purge_after_minutes)) {
        return Some(Due::Erase(ErasedFor::Expired));
    }
    if is_archived || entry.kind != EntryKind::Observation {
        return None;
    }
    if fields.status == Status::Resolved && is_past(entry.updated_at, policy.archive_resolved_after_minutes) {
        return Some(Due::Archive(ArchivedFor::Resolved));
    }
    let is_over = !fields.lifetime.is_live(now);
    (is_over
        && is_past(
            last_sign(fields, entry.created_at, entry.updated_at),
            policy.archive_after_minutes,
        ))
    .then_some(Due::Archive(ArchivedFor::Age))
}

/// When somebody last changed or confirmed an entry. That its time is over may be noted in it at that very instant, and is no
/// sign that anybody cared.
pub(super) fn last_sign(fields: &EntryFields, created_at: Timestamp, updated_at: Timestamp) -> Timestamp {
    let is_its_end = fields.lifetime.expires_at() == Some(updated_at);
    let changed = if is_its_end { created_at } else { updated_at };
    changed.max(fields.validated_at.unwrap_or(Timestamp::MIN))
}
