//! Reporting progress on work that somebody has taken on.

use super::{AlreadyClaimed, check_is_work, completion};
use crate::change::FieldChange;
use crate::entry::{Entry, EntryKind, Owner, Status};
use crate::scratchbook;
use crate::time::Timestamp;
use crate::warning::Invalid;

/// The state of a piece of work as its owner reports it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Report {
    /// The work is done.
    Done,
    /// The owner is working on it, with the progress from 0 to 1 if reported.
    Underway(Option<f64>),
    /// The work waits for something that is nobody's task here. Whoever learns that it has come reopens the work.
    Blocked,
    /// The owner is not, or no longer, working on it: it is open for the named owner; the agent stands for anybody.
    HandedTo(Owner),
}

/// The changes by which `owner` reports on `entry`. An owner who has not claimed the entry claims it by this, as by
/// [`claim`](super::claim()).
///
/// # Errors
///
/// The other owner who has claimed it or is meant to, as a value; `not_claimable` if it is done, unless the report says the same
/// again; `kind_invalid` if it is not work; `archived`; `field_not_of_kind` and `progress_invalid` for progress that it
/// cannot have.
pub fn report(
    entry: &Entry,
    owner: &Owner,
    report: Report,
    now: Timestamp,
) -> Result<Result<Vec<FieldChange>, AlreadyClaimed>, Invalid> {
    check_is_work(entry)?;
    let (handle, fields) = (entry.handle, &entry.fields);
    let is_owner = fields.owner == *owner;
    let is_lease_over = fields.lease_until.is_some_and(|until| until <= now);
    match fields.status {
        Status::Done if is_owner && report == Report::Done => return Ok(Ok(Vec::new())),
        Status::Done => {
            let message = format!("{handle} is done; add a note for later findings");
            return Err(Invalid::new("not_claimable", "status", message));
        }
        // Whoever delegates open work may think of somebody else.
        Status::Open if matches!(report, Report::HandedTo(_)) => {}
        _ => {
            if let Some(other) = AlreadyClaimed::of(entry, owner, now) {
                return Ok(Err(other));
            }
        }
    }
    let owner_change = FieldChange::Owner(owner.clone());
    let changes = match report {
        Report::Done => {
            let mut changes = completion(entry);
            changes.extend([owner_change, FieldChange::LeaseUntil(None)]);
            changes
        }
        Report::Underway(progress) => {
            let mut changes = vec![FieldChange::Status(Status::InProgress), owner_change];
            if fields.lease_until.is_some() && (is_lease_over || !is_owner) {
                // The reporter is working on it without an end: a lease that ends would let the next one take it.
                changes.push(FieldChange::LeaseUntil(None));
            }
            if let Some(progress) = progress {
                if entry.kind != EntryKind::Task {
                    let message = format!("only a task has progress; {handle} is a {}", entry.kind);
                    return Err(Invalid::new("field_not_of_kind", "progress", message));
                }
                changes.push(FieldChange::Progress(Some(scratchbook::checked_progress(progress)?)));
            }
            changes
        }
        Report::Blocked => vec![
            FieldChange::Status(Status::Blocked),
            owner_change,
            FieldChange::LeaseUntil(None),
        ],
        Report::HandedTo(other) => vec![
            FieldChange::Status(Status::Open),
            FieldChange::Owner(other),
            FieldChange::LeaseUntil(None),
        ],
    };
    Ok(Ok(if entry.is_unchanged_by(&changes) {
        Vec::new()
    } else {
        changes
    }))
}
