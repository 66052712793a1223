//! What retention requires for one entry at an instant.

use super::policy::minutes;
use super::{ArchivedFor, ErasedFor, RetentionPolicy};
use crate::change::{Change, FieldChange};
use crate::entry::{Entry, EntryKind, Status};
use crate::time::Timestamp;

/// How long an expired entry is in the archive before its content is erased, unless the policy erases sooner: a week.
const IN_ARCHIVE_MINUTES: u64 = 7 * 24 * 60;

/// What retention requires for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// The entry is to be archived.
    Archive(ArchivedFor),
    /// The content of the entry is to be erased.
    Erase(ErasedFor),
}

/// Returns what is to be done with `entry` at `now`, apart from quotas. Doing it and asking again ends with nothing to
/// do.
///
/// An entry with personal data has had it since `personal_since`, which the log tells ([`brings_personal_data`]). Steps
/// of plans are left to their run.
///
/// An entry that hides when it last changed ([`hides_last_change`]) must have been given that time from the log.
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
                return Some(Due::Archive(archive_reason(fields.status, ArchivedFor::Pii)));
            }
        } else if is_past(
            personal_since,
            archive.zip(erase).map(|(archive, erase)| archive.saturating_add(erase)),
        ) && is_past(entry.updated_at, erase)
        {
            // However late the archiving was, a whole second period has passed since, in which anybody could have
            // missed the entry.
            return Some(Due::Erase(ErasedFor::Pii));
        }
    }
    if fields.pin_rank.is_some() {
        return None;
    }
    // An entry that a writer archived is kept; one that a rule archived may expire as it would have otherwise.
    let may_end = !is_archived || fields.archived_for.is_some();
    if may_end && expiry_counts_from(entry, policy).is_some_and(|end| is_past(end, policy.purge_after_minutes)) {
        // Nothing is erased that nobody could have missed in the archive, even if the clock was wrong when it came
        // there.
        if !is_archived {
            return Some(Due::Archive(archive_reason(fields.status, ArchivedFor::Age)));
        }
        let in_archive = policy.purge_after_minutes.map(|after| after.min(IN_ARCHIVE_MINUTES));
        if is_past(entry.updated_at, in_archive) {
            return Some(Due::Erase(ErasedFor::Expired));
        }
    }
    if is_archived || entry.kind != EntryKind::Observation {
        return None;
    }
    if fields.status == Status::Resolved && is_past(entry.updated_at, policy.archive_resolved_after_minutes) {
        return Some(Due::Archive(ArchivedFor::Resolved));
    }
    let is_over = !fields.lifetime.is_live(now);
    (is_over && is_past(last_touched_at(entry), policy.archive_after_minutes))
        .then_some(Due::Archive(archive_reason(fields.status, ArchivedFor::Age)))
}

/// The reason recorded when a `rule` archives an entry with `status`. For a settled entry that is `Resolved`, since it
/// did answer (M7.11.3).
fn archive_reason(status: Status, rule: ArchivedFor) -> ArchivedFor {
    match status {
        Status::Resolved | Status::Done => ArchivedFor::Resolved,
        _ => rule,
    }
}

/// Whether `change` brought personal data into its entry. Retention periods count from the first such change, which the
/// entry itself does not record: it may be older, or may have changed since.
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

/// From when the expiry of an entry counts, if its lifetime ends: from the end, or from a later sign that somebody
/// cared, such as a restore. For an archived entry that sign is taken to be earlier than the archiving by the period
/// after which the rule archives.
fn expiry_counts_from(entry: &Entry, policy: &RetentionPolicy) -> Option<Timestamp> {
    let fields = &entry.fields;
    let end = fields.lifetime.expires_at()?;
    let touched_at = if fields.status == Status::Archived {
        let archived_after = policy.archive_after().or(policy.purge_after());
        entry.updated_at.minus(archived_after.unwrap_or_default())
    } else {
        last_touched_at(entry)
    };
    Some(end.max(touched_at))
}

/// When somebody last changed or confirmed `entry`.
fn last_touched_at(entry: &Entry) -> Timestamp {
    entry
        .updated_at
        .max(entry.fields.validated_at.unwrap_or(Timestamp::MIN))
}

/// Whether the time of the last change of `entry` may be that of its end: earlier versions noted an end like that
/// ([`FieldChange::Expired`]). The log tells when the last change was.
#[must_use]
pub fn hides_last_change(entry: &Entry) -> bool {
    entry.version > 1 && entry.fields.expired_at == Some(entry.updated_at)
}
