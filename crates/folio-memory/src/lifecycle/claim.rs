//! Taking work on, so that no two do the same (M7.4.35).

use std::time::Duration;

use super::check_not_archived;
use crate::change::FieldChange;
use crate::entry::{Entry, Family, Owner, Status};
use crate::time::Timestamp;
use crate::warning::Invalid;

/// Why work cannot be claimed: somebody else is at it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry} is taken by {owner}{}", until.map(|until| format!(" until {until}")).unwrap_or_default())]
pub struct Taken {
    /// The entry's handle.
    pub entry: String,
    /// Who is at it.
    pub owner: Owner,
    /// How long that is believed; for as long as it takes if nothing was said.
    pub until: Option<Timestamp>,
}

/// That `owner` begins with `entry` and is at it until `lease` is over, or as long as it takes.
///
/// Open work can be claimed; the same owner may claim again, which renews the lease; work whose lease is over can be
/// claimed by anybody.
///
/// # Errors
///
/// The other owner, as a value; `Invalid` if it is no work, archived, blocked or done.
pub fn claim(
    entry: &Entry,
    owner: &Owner,
    lease: Option<Duration>,
    now: Timestamp,
) -> Result<Result<Vec<FieldChange>, Taken>, Invalid> {
    check_not_archived(entry)?;
    let handle = entry.handle;
    if entry.kind.family() != Family::Work {
        let message = format!("{handle} is of kind {}, which is no work", entry.kind);
        return Err(Invalid::new("kind_invalid", "kind", message));
    }
    let fields = &entry.fields;
    match fields.status {
        Status::Open => {}
        Status::InProgress => {
            let is_over = fields.lease_until.is_some_and(|until| until <= now);
            if fields.owner != *owner && !is_over {
                return Ok(Err(Taken {
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
    Ok(Ok(if entry.already_has(&changes) {
        Vec::new()
    } else {
        changes
    }))
}

/// That `owner` is no longer at `entry`: it is open again, for anybody. What is not in progress stays as it is.
///
/// # Errors
///
/// The other owner, as a value; `archived`.
pub fn give_up(entry: &Entry, owner: &Owner) -> Result<Result<Vec<FieldChange>, Taken>, Invalid> {
    check_not_archived(entry)?;
    let fields = &entry.fields;
    if fields.status != Status::InProgress {
        return Ok(Ok(Vec::new()));
    }
    if fields.owner != *owner {
        return Ok(Err(Taken {
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
