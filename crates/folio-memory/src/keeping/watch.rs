//! Where a store has to look for what may be due, so that it need not look at everything.
//!
//! What is watched follows from the entry alone. The policy of the space says how long after an instant something is due,
//! and may change at any time.

use super::due::last_sign_of;
use crate::entry::{Entry, EntryKind, Status};
use crate::time::Timestamp;

/// What an entry is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Watch {
    /// It is an observation that nobody put away; from the end of its time.
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
}

impl Watch {
    /// Every one of them.
    pub const ALL: [Self; 6] = [
        Self::Live,
        Self::Resolved,
        Self::Ending,
        Self::Personal,
        Self::Archived,
        Self::Tombstone,
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
    let fields = &entry.fields;
    let end = fields.lifetime.expires_at();
    let since = last_sign_of(entry);
    let watched = |what, at| Watched { what, at, since };
    if let Some(why) = fields.erased {
        let is_kept = why == super::ErasedFor::Forgotten;
        return (!is_kept)
            .then(|| watched(Watch::Tombstone, entry.updated_at))
            .into_iter()
            .collect();
    }
    let mut all = Vec::new();
    let is_archived = fields.status == Status::Archived;
    if entry.kind == EntryKind::Observation && !is_archived {
        // A pinned one does not end.
        let end = end.filter(|_| fields.pin_rank.is_none());
        all.push(watched(Watch::Live, end.unwrap_or(Timestamp::MAX)));
    }
    if fields.status == Status::Resolved && entry.kind == EntryKind::Observation {
        all.push(watched(Watch::Resolved, entry.updated_at));
    }
    // A live observation is found by its end already, and is put away before its content goes.
    let is_watched_live = entry.kind == EntryKind::Observation && !is_archived;
    let may_end = (!is_archived || fields.archived_for.is_some()) && !is_watched_live;
    if let Some(end) = end.filter(|_| may_end && fields.pin_rank.is_none() && entry.kind != EntryKind::Step) {
        all.push(watched(Watch::Ending, end));
    }
    if !fields.pii.is_empty() {
        all.push(watched(Watch::Personal, entry.created_at));
    }
    if is_archived && fields.body.len() > PACKED_FROM {
        all.push(watched(Watch::Archived, entry.updated_at));
    }
    all
}
