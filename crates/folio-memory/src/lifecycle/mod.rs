//! What may become of an entry: confirmed, claimed, resolved, reopened, put away and taken out again (M7.1, M7.4, M7.5).
//!
//! Every function says which fields change, and is decided from the entry as it stands. Whether somebody in a role may
//! do it is another question.

mod claim;
mod edit;
mod ready;
mod report;

pub use claim::{Taken, claim, give_up};
pub use edit::str_replace;
pub use ready::{holds_up, is_free_for};
pub use report::{Report, report};

use crate::change::FieldChange;
use crate::entry::{Entry, EntryFields, Family, Lifetime, Status};
use crate::time::Timestamp;
use crate::warning::Invalid;

/// That `entry` still holds: its time begins anew, as long as it was given at first (M7.1.6).
///
/// # Errors
///
/// `archived`.
pub fn confirm(entry: &Entry, now: Timestamp) -> Result<Vec<FieldChange>, Invalid> {
    check_not_archived(entry)?;
    let mut changes = Vec::new();
    if let Lifetime::Until(end) = entry.fields.lifetime {
        let began = entry.fields.validated_at.unwrap_or(entry.created_at);
        changes.push(FieldChange::Lifetime(Lifetime::Until(now.plus(end.since(began)))));
    }
    changes.push(FieldChange::ValidatedAt(now));
    Ok(changes)
}

/// That `entry` has done its work (M7.5.41): knowledge is resolved, work is done and all of it.
///
/// # Errors
///
/// `archived`.
pub fn complete(entry: &Entry) -> Result<Vec<FieldChange>, Invalid> {
    check_not_archived(entry)?;
    Ok(crate::scratchbook::complete(entry))
}

/// That `entry` counts again: knowledge is active, work is open and no longer all done. What is live stays as it is. That it came true, or
/// did not, is no longer said of it.
///
/// # Errors
///
/// `archived`: that is left by `restore` only (M7.5.39).
pub fn reopen(entry: &Entry) -> Result<Vec<FieldChange>, Invalid> {
    check_not_archived(entry)?;
    Ok(match entry.fields.status {
        Status::Resolved => [FieldChange::Status(Status::Active)]
            .into_iter()
            .chain(unmarked(entry, Status::Active))
            .collect(),
        Status::Done => {
            let all = entry.fields.progress.is_some().then_some(FieldChange::Progress(None));
            let lease = entry
                .fields
                .lease_until
                .is_some()
                .then_some(FieldChange::LeaseUntil(None));
            [FieldChange::Status(Status::Open)]
                .into_iter()
                .chain(all)
                .chain(lease)
                .collect()
        }
        _ => Vec::new(),
    })
}

/// What else changes of `entry` if an update sets its status to `next`: a mark belongs to what is resolved or replaced (M7.11.6), so what
/// becomes live again has none.
pub(crate) fn unmarked(entry: &Entry, next: Status) -> Option<FieldChange> {
    let fields = &entry.fields;
    let is_reopened = fields.status == Status::Resolved && matches!(next, Status::Active | Status::PendingReview);
    (is_reopened && fields.outcome.is_some() && fields.superseded_by.is_none()).then_some(FieldChange::Outcome(None))
}

/// Takes `entry` out of the archive, into the status that it had `before` or the first one of its family (M7.5.39).
/// What is not archived stays as it is.
#[must_use]
pub fn restore(entry: &Entry, before: Option<Status>) -> Vec<FieldChange> {
    if entry.fields.status != Status::Archived {
        return Vec::new();
    }
    let family = entry.kind.family();
    let first = match family {
        Family::Knowledge => Status::Active,
        Family::Work => Status::Open,
    };
    let status = before.filter(|status| status.is_of(family) && *status != Status::Archived);
    vec![FieldChange::Restored(status.unwrap_or(first))]
}

/// Takes the pin away. An entry that only its pin kept beyond its lifetime is expired from then on (M7.1.7), which is noted as a
/// revision of its own, as for any other entry (M7.1.8).
#[must_use]
pub fn unpin(entry: &Entry) -> Vec<FieldChange> {
    let pin = entry.fields.pin_rank;
    pin.map(|_| FieldChange::PinRank(None)).into_iter().collect()
}

/// When an entry of these `fields` ends and nobody has noted it yet (M7.1.8). What is pinned or archived does not end.
#[must_use]
pub fn ends_at(fields: &EntryFields) -> Option<Timestamp> {
    let end = fields.lifetime.expires_at()?;
    let ends = fields.pin_rank.is_none() && fields.status != Status::Archived && fields.expired_at != Some(end);
    ends.then_some(end)
}

/// Whether `entry` can be changed by an ordinary update.
///
/// # Errors
///
/// `archived`.
pub fn check_not_archived(entry: &Entry) -> Result<(), Invalid> {
    if entry.fields.status == Status::Archived {
        let message = format!(
            "{} is archived, which is final; only a person restores it",
            entry.handle
        );
        return Err(Invalid::new("archived", "status", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
