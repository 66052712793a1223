//! Claiming work, so that no two do the same (M7.4.35).

use std::time::Duration;

use super::{check_is_work, check_may_change};
use crate::change::FieldChange;
use crate::entry::{Entry, Owner, Status};
use crate::time::Timestamp;
use crate::warning::Invalid;

/// Why work cannot be claimed: somebody else has claimed it, or it is meant for somebody else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{entry} is {} {owner}{}",
    if *has_begun { "taken by" } else { "meant for" },
    until.map(|until| format!(" until {until}")).unwrap_or_default()
)]
pub struct AlreadyClaimed {
    /// The handle of the entry.
    pub entry: String,
    /// Who has claimed the entry, or is meant to.
    pub owner: Owner,
    /// Whether the owner has claimed it. If not, it was delegated to them and is still open.
    pub has_begun: bool,
    /// When the claim ends; `None` if it has no end.
    pub until: Option<Timestamp>,
}

impl AlreadyClaimed {
    /// Whoever else than `owner` has `entry` at `now`: it is open and meant for them, or they have claimed it and their
    /// lease is not over. Work that was only set to a status has been claimed by nobody.
    pub(super) fn of(entry: &Entry, owner: &Owner, now: Timestamp) -> Option<Self> {
        let fields = &entry.fields;
        let is_with_them = match fields.status {
            Status::Open => !fields.owner.is_anybody(),
            Status::InProgress | Status::Blocked => {
                is_claimed(entry) && fields.lease_until.is_none_or(|until| until > now)
            }
            _ => false,
        };
        (fields.owner != *owner && is_with_them).then(|| Self {
            entry: entry.handle.to_string(),
            owner: fields.owner.clone(),
            has_begun: fields.status != Status::Open,
            until: fields.lease_until,
        })
    }
}

/// Whether somebody has claimed `entry`, which is not open.
fn is_claimed(entry: &Entry) -> bool {
    !entry.fields.owner.is_anybody() || entry.fields.lease_until.is_some()
}

/// The changes by which `owner` claims `entry` until `lease` is over, or without an end.
///
/// Open work can be claimed by whom it is meant for, and by everybody if it is meant for anybody. The same owner may
/// claim again, which renews the lease. Work whose lease is over can be claimed by anybody.
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
    check_is_work(entry)?;
    let handle = entry.handle;
    let status = entry.fields.status;
    if !matches!(status, Status::Open | Status::InProgress) {
        let message = format!("{handle} is {status}; only open work can be claimed");
        return Err(Invalid::new("not_claimable", "status", message));
    }
    if let Some(other) = AlreadyClaimed::of(entry, owner, now) {
        return Ok(Err(other));
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

/// The changes by which `owner` gives up `entry`, which they have claimed or are meant to: it is then open for anybody.
/// An entry that is neither open nor in progress, or is open and meant for others or for anybody, stays as it is.
///
/// # Errors
///
/// The other owner, as a value; `archived`; `kind_invalid` for what only a run writes.
pub fn give_up(entry: &Entry, owner: &Owner) -> Result<Result<Vec<FieldChange>, AlreadyClaimed>, Invalid> {
    check_may_change(entry)?;
    let fields = &entry.fields;
    match fields.status {
        Status::InProgress if fields.owner != *owner && is_claimed(entry) => {
            return Ok(Err(AlreadyClaimed {
                entry: entry.handle.to_string(),
                owner: fields.owner.clone(),
                has_begun: true,
                until: fields.lease_until,
            }));
        }
        Status::InProgress => {}
        Status::Open if fields.owner == *owner && !owner.is_anybody() => {}
        _ => return Ok(Ok(Vec::new())),
    }
    Ok(Ok(vec![
        FieldChange::Status(Status::Open),
        FieldChange::Owner(Owner::agent()),
        FieldChange::LeaseUntil(None),
    ]))
}
