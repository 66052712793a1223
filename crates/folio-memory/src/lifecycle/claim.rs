//! Claiming work, so that no two do the same (M7.4.35).

use std::time::Duration;

use super::check_not_archived;
use crate::change::FieldChange;
use crate::entry::{Entry, Family, Owner, Status};
use crate::time::Timestamp;
use crate::warning::Invalid;

/// Why work cannot be claimed: somebody else has claimed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry} is taken by {owner}{}", until.map(|until| format!(" until {until}")).unwrap_or_default())]
pub struct AlreadyClaimed {
    /// The handle of the entry.
    pub entry: String,
    /// Who has claimed the entry.
    pub owner: Owner,
    /// When the claim ends; `None` if it has no end.
    pub until: Option<Timestamp>,
}

/// The changes by which `owner` claims `entry` until `lease` is over, or without an end.
///
/// Open work can be claimed. The same owner may claim again, which renews the lease. Work whose lease is over can be
/// claimed by anybody.
///
/// # Errors
///
/// The other owner, as a value; `Invalid` if the entry is not work, or is archived, blocked or done.
pub fn claim(
    entry: &Entry,
    owner: &Owner,
    lease: Option<Duration>,
    now: Timestamp,
) -> Result<Result<Vec<FieldChange>, AlreadyClaimed>, Invalid> {
    check_not_archived(entry)?;
    let handle = entry.handle;
    if entry.kind.family() != Family::Work {
        let message = format!("{handle} is of kind {}, which is not work", entry.kind);
        return Err(Invalid::new("kind_invalid", "kind", message));
    }
    let fields = &entry.fields;
    match fields.status {
        Status::Open => {}
        Status::InProgress => {
            let is_over = fields.lease_until.is_some_and(|until| until <= now);
            if fields.owner != *owner && !is_over {
                return Ok(Err(AlreadyClaimed {
                    entry: handle.to_string(),
                    owner: fields.owner.clone(),
                    until: fields.lease_until,
                }));
            }
        }
        status => {
            let message = format!("{handle} is {status}; only open work can be claimed");
            return Err(Invalid::new("not_claimable", "status", message));
        }
    }
    let changes = vec![
        FieldChange::Status(Status::InProgress),
        FieldChange::Owner(owner.clone()),
        FieldChange::LeaseUntil(lease.map(|lease| now.plus(lease))),
    ];
    Ok(Ok(if entry.is_unchanged_by(&changes) {
        Vec::new()
    } else {
        changes
    }))
}

/// The changes by which `owner` gives up `entry`, which is then open for anybody. An entry that is not in progress
/// stays as it is.
///
/// # Errors
///
/// The other owner, as a value; `archived`.
pub fn give_up(entry: &Entry, owner: &Owner) -> Result<Result<Vec<FieldChange>, AlreadyClaimed>, Invalid> {
    check_not_archived(entry)?;
    let fields = &entry.fields;
    if fields.status != Status::InProgress {
        return Ok(Ok(Vec::new()));
    }
    if fields.owner != *owner {
        return Ok(Err(AlreadyClaimed {
            entry: entry.handle.to_string(),
            owner: fields.owner.clone(),
            until: fields.lease_until,
        }));
    }
    Ok(Ok(vec![
        FieldChange::Status(Status::Open),
        FieldChange::Owner(Owner::agent()),
        FieldChange::LeaseUntil(None),
    ]))
}
