//! What is to be done with one entry at an instant.

use super::policy::minutes;
use super::{ArchivedFor, ErasedFor, RetentionPolicy};
use crate::change::{Change, FieldChange};
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
/// If it names a person, it has done so since `personal_since`, which the log tells ([`brings_personal_data`]). Steps of plans are
/// left to their run.
#[must_use]
pub fn due(entry: &Entry, personal_since: Timestamp, policy: &RetentionPolicy, now: Timestamp) -> Option<Due> {
    let fields = &entry.fields;
    if fields.erased.is_some() || entry.kind == EntryKind::Step {
        return None;
    }
    let is_past = |since: Timestamp, after: Option<u64>| minutes(after).is_some_and(|after| since.plus(after) <= now);
    let is_archived = fields.status == Status::Archived;
    if !fields.pii.is_empty() {
        let (archive, erase) = (policy.pii_archive_after_minutes, policy.pii_erase_after_minutes);
        if !is_archived {
            if is_past(personal_since, archive) {
                return Some(Due::Archive(why(fields.status, ArchivedFor::Pii)));
            }
        } else if is_past(
            personal_since,
            archive.zip(erase).map(|(archive, erase)| archive.saturating_add(erase)),
        ) && is_past(entry.updated_at, erase)
        {
            // It was put away a whole second period ago, whoever was late with that, so anybody had the time to miss it.
            return Some(Due::Erase(ErasedFor::Pii));
        }
    }
    if fields.pin_rank.is_some() {
        return None;
    }
    // What somebody put away himself is kept; what only made room was going to end anyway.
    let may_end = !is_archived || fields.archived_for.is_some();
    if may_end && ends_since(entry, policy).is_some_and(|end| is_past(end, policy.purge_after_minutes)) {
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
    .then_some(Due::Archive(why(fields.status, ArchivedFor::Age)))
}

/// Why an entry with `status` is archived that a `rule` puts away: of what was settled before, that stays known, since it has answered (M7.11.3).
fn why(status: Status, rule: ArchivedFor) -> ArchivedFor {
    match status {
        Status::Resolved | Status::Done => ArchivedFor::Resolved,
        _ => rule,
    }
}

/// Whether `change` brought personal data into the entry that it adds or changes. The first that did is the one that the periods are
/// counted from: an entry does not say it, and may be older, or have been changed since.
#[must_use]
pub fn brings_personal_data(change: &Change) -> bool {
    match change {
        Change::AddEntry(new) => !new.fields.pii.is_empty(),
        Change::PatchEntry { fields, .. } => fields
            .iter()
            .any(|field| matches!(field, FieldChange::PiiFound(found) if !found.is_empty())),
        _ => false,
    }
}

/// From when on it counts that the time of an entry is over, if that ends: from its end, or from when somebody cared for it after that,
/// as by taking it out of the archive. Of what a rule put away that was at least so long before as the rule waits.
fn ends_since(entry: &Entry, policy: &RetentionPolicy) -> Option<Timestamp> {
    let fields = &entry.fields;
    let end = fields.lifetime.expires_at()?;
    let cared = if fields.status == Status::Archived {
        entry.updated_at.minus(policy.archive_after().unwrap_or_default())
    } else {
        last_sign(fields, entry.created_at, entry.updated_at)
    };
    Some(end.max(cared))
}

/// When somebody last changed or confirmed an entry. That its time is over may be noted in it at that very instant, and is no
/// sign that anybody cared.
pub(super) fn last_sign(fields: &EntryFields, created_at: Timestamp, updated_at: Timestamp) -> Timestamp {
    let is_its_end = fields.lifetime.expires_at() == Some(updated_at);
    let changed = if is_its_end { created_at } else { updated_at };
    changed.max(fields.validated_at.unwrap_or(Timestamp::MIN))
}
