//! The transitions of an entry: confirmed, claimed, resolved, reopened, archived and restored (M7.1, M7.4, M7.5).
//!
//! Every function returns the fields that change, decided from the current entry alone. Permissions are checked
//! elsewhere.

mod claim;
mod edit;
mod ready;
mod report;

pub use claim::{AlreadyClaimed, claim, give_up};
pub use edit::str_replace;
pub use ready::{is_blocking, is_free_for};
pub use report::{Report, report};

use crate::actor::Trust;
use crate::change::FieldChange;
use crate::entry::{Entry, EntryFields, Family, Lifetime, Status};
use crate::time::Timestamp;
use crate::warning::Invalid;

/// Confirms that `entry` still holds: its lifetime begins anew, with its original length (M7.1.6).
///
/// # Errors
///
/// `archived`; `kind_invalid` for what only a run writes.
pub fn confirm(entry: &Entry, now: Timestamp) -> Result<Vec<FieldChange>, Invalid> {
    check_may_change(entry)?;
    let mut changes = Vec::new();
    if let Lifetime::Until(end) = entry.fields.lifetime {
        let started_at = entry.fields.validated_at.unwrap_or(entry.created_at);
        changes.push(FieldChange::Lifetime(Lifetime::Until(now.plus(end.since(started_at)))));
    }
    changes.push(FieldChange::ValidatedAt(now));
    Ok(changes)
}

/// Completes `entry` (M7.5.41): knowledge is resolved, and work is done with full progress.
///
/// # Errors
///
/// `archived`; `kind_invalid` for what only a run writes.
pub fn complete(entry: &Entry) -> Result<Vec<FieldChange>, Invalid> {
    check_may_change(entry)?;
    Ok(completion(entry))
}

fn completion(entry: &Entry) -> Vec<FieldChange> {
    match entry.kind.family() {
        Family::Knowledge => vec![FieldChange::Status(Status::Resolved)],
        Family::Work => vec![FieldChange::Status(Status::Done), FieldChange::Progress(Some(1.0))],
    }
}

/// Reopens `entry`: knowledge becomes active, and work open and no longer complete. A live entry stays as it is. An
/// observation that is reopened loses its mark, unless it is superseded.
///
/// # Errors
///
/// `archived`: only `restore` leaves the archive (M7.5.39). `kind_invalid` for what only a run writes.
pub fn reopen(entry: &Entry) -> Result<Vec<FieldChange>, Invalid> {
    check_may_change(entry)?;
    Ok(match entry.fields.status {
        Status::Resolved => [FieldChange::Status(Status::Active)]
            .into_iter()
            .chain(outcome_reset(entry, Status::Active))
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

/// The further change of `entry` when an update sets its status to `next`: the mark belongs to resolved or superseded
/// entries (M7.11.6), so an entry that becomes live again loses it.
pub(crate) fn outcome_reset(entry: &Entry, next: Status) -> Option<FieldChange> {
    let fields = &entry.fields;
    let is_reopened = fields.status == Status::Resolved && matches!(next, Status::Active | Status::PendingReview);
    (is_reopened && fields.outcome.is_some() && fields.superseded_by.is_none()).then_some(FieldChange::Outcome(None))
}

/// Restores `entry` from the archive, into the status that it had `before` or the first one of its family (M7.5.39). An
/// entry that is not archived stays as it is.
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

/// Unpins an entry. If only the pin kept it from expiring, it is expired at once (M7.1.7). That is noted in a revision
/// of its own, as for any other entry (M7.1.8).
#[must_use]
pub fn unpin(entry: &Entry) -> Vec<FieldChange> {
    let pin = entry.fields.pin_rank;
    pin.map(|_| FieldChange::PinRank(None)).into_iter().collect()
}

/// The end of an entry with these `fields`, if nobody has noted it yet (M7.1.8). A pinned or archived entry does not
/// expire.
#[must_use]
pub fn ends_at(fields: &EntryFields) -> Option<Timestamp> {
    let end = fields.lifetime.expires_at()?;
    let is_unnoted = fields.pin_rank.is_none() && fields.status != Status::Archived && fields.expired_at != Some(end);
    is_unnoted.then_some(end)
}

/// The further change of `entry` when somebody of trust `by` makes `changes`: what a model makes of a person's text is
/// not a person's text, so an entry is believed no more than the one who rewrites its title or its text. Whoever makes
/// it otherwise, for example with a tag, leaves the trust as it is.
#[must_use]
pub fn trust_after(entry: &Entry, changes: &[FieldChange], by: Trust) -> Option<FieldChange> {
    let before = &entry.fields;
    let is_text = |change: &&FieldChange| {
        matches!(
            change,
            FieldChange::Title(_) | FieldChange::Body(_) | FieldChange::BodyRef(_)
        )
    };
    if by >= before.trust || !changes.iter().any(|change| is_text(&change)) {
        return None;
    }
    let mut after = before.clone();
    after.set(changes);
    let text = |fields: &EntryFields| {
        let body = fields.body_ref.as_ref().map(|body| body.hash.clone());
        (fields.title.clone(), fields.body.clone(), body)
    };
    (text(&after) != text(before)).then_some(FieldChange::Trust(by))
}

/// Checks that `entry` may be confirmed, completed, reopened, superseded and the like. What a run writes on its pages has
/// no such life: it follows from the journal of the run, and would differ from it.
///
/// # Errors
///
/// `archived`; `kind_invalid`.
pub fn check_may_change(entry: &Entry) -> Result<(), Invalid> {
    check_not_archived(entry)?;
    if entry.kind.is_memory() {
        return Ok(());
    }
    let message = format!(
        "{} is of kind {}; this is for observations, notes, todos, tasks, goals and pending actions",
        entry.handle, entry.kind
    );
    Err(Invalid::new("kind_invalid", "kind", message))
}

/// Checks that `entry` is work that somebody may take on.
fn check_is_work(entry: &Entry) -> Result<(), Invalid> {
    check_may_change(entry)?;
    if entry.kind.family() == Family::Work {
        return Ok(());
    }
    let message = format!("{} is of kind {}, which is not work", entry.handle, entry.kind);
    Err(Invalid::new("kind_invalid", "kind", message))
}

/// Checks that an ordinary update may change `entry`.
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
