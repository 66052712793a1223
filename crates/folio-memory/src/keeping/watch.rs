//! Where a store has to look for what may be due, so that it need not look at everything.
//!
//! What is watched follows from the entry alone. The policy of the space says how long after an instant something is due,
//! and may change at any time.

use super::ErasedFor;
use super::due::last_sign;
use crate::entry::{Entry, EntryFields, EntryKind, Status};
use crate::lifecycle::ends_at;
use crate::time::Timestamp;

/// What an entry is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Watch {
    /// It is an observation that nobody put away, and whose end nobody has noted; from the end of its time.
    Live,
    /// It is resolved; since then.
    Resolved,
    /// Its content ends; from the end of its time.
    Ending,
    /// It names a person; since it was added.
    Personal,
    /// It is archived, and could take less room; since then.
    Archived,
    /// Only its tombstone is left; since then.
    Tombstone,
    /// It is no observation that could be read, and its time ends without anybody having noted it; from that end.
    Unnoted,
    /// It is an observation that nobody put away although its end was noted; since that end.
    Past,
}

impl Watch {
    /// Every one of them.
    pub const ALL: [Self; 8] = [
        Self::Live,
        Self::Resolved,
        Self::Ending,
        Self::Personal,
        Self::Archived,
        Self::Tombstone,
        Self::Unnoted,
        Self::Past,
    ];

    /// The name as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Resolved => "resolved",
            Self::Ending => "ending",
            Self::Personal => "personal",
            Self::Archived => "archived",
            Self::Tombstone => "tombstone",
            Self::Unnoted => "unnoted",
            Self::Past => "past",
        }
    }
}

/// That an entry is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watched {
    /// For what.
    pub what: Watch,
    /// From or since when.
    pub at: Timestamp,
    /// When somebody last cared for it.
    pub since: Timestamp,
}

/// Bytes of a body from which on an archived entry is made smaller (M7.6.45).
pub const PACKED_FROM: usize = 512;

/// What `entry` is watched for, sorted.
#[must_use]
pub fn watched(entry: &Entry) -> Vec<Watched> {
    watched_of(entry.kind, &entry.fields, entry.created_at, entry.updated_at)
}

/// What an entry of `kind` with `fields` is watched for, sorted.
#[must_use]
pub fn watched_of(kind: EntryKind, fields: &EntryFields, created_at: Timestamp, updated_at: Timestamp) -> Vec<Watched> {
    let end = fields.lifetime.expires_at();
    let since = last_sign(fields, created_at, updated_at);
    let watched = |what, at| Watched { what, at, since };
    let mut all = Vec::new();
    if let Some(why) = fields.erased {
        // What somebody wanted forgotten leaves its tombstone for ever.
        if why != ErasedFor::Forgotten {
            all.push(watched(Watch::Tombstone, updated_at));
        }
        all.extend(ends_at(fields).map(|end| watched(Watch::Unnoted, end)));
        return all;
    }
    let is_archived = fields.status == Status::Archived;
    let is_observation = kind == EntryKind::Observation;
    // A pinned one does not end.
    let end = end.filter(|_| fields.pin_rank.is_none());
    if is_observation && !is_archived {
        // Its content does not end before it is put away, and it is found by its end here.
        match end.filter(|end| fields.expired_at == Some(*end)) {
            Some(noted) => all.push(watched(Watch::Past, noted)),
            None => all.push(watched(Watch::Live, end.unwrap_or(Timestamp::MAX))),
        }
    } else if let Some(end) = ends_at(fields) {
        all.push(watched(Watch::Unnoted, end));
    }
    if is_observation && fields.status == Status::Resolved {
        all.push(watched(Watch::Resolved, updated_at));
    }
    let may_end = if is_archived {
        fields.archived_for.is_some()
    } else {
        !is_observation
    };
    if let Some(end) = end.filter(|_| may_end && kind != EntryKind::Step) {
        all.push(watched(Watch::Ending, end));
    }
    if !fields.pii.is_empty() && kind != EntryKind::Step {
        all.push(watched(Watch::Personal, created_at));
    }
    if is_archived && fields.body.len() > PACKED_FROM {
        all.push(watched(Watch::Archived, updated_at));
    }
    all.sort_unstable();
    all
}
