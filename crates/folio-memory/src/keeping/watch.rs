//! Watches: rows that tell a store where to look for what may be due, so that it need not scan everything.
//!
//! The watches of an entry follow from the entry alone. The policy says how long after an instant something is due, and
//! may change at any time.

use super::ErasedFor;
use crate::entry::{Entry, EntryFields, EntryKind, Status};
use crate::lifecycle::ends_at;
use crate::time::Timestamp;

/// The reason for watching an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Watch {
    /// An observation that is not archived and whose end is not noted yet; from the end of its lifetime.
    Live,
    /// A resolved observation, archived or not; since it last changed.
    Resolved,
    /// An entry whose content is to be purged some time after its lifetime has ended; from that end.
    Ending,
    /// An entry with personal data; since it was added.
    Personal,
    /// An archived entry that could take less room; since it was archived.
    Archived,
    /// An entry of which only the tombstone remains; since its erasure.
    Tombstone,
    /// An entry other than a readable observation, whose lifetime ends without the end being noted; from that end.
    Unnoted,
    /// An observation that is not archived although its end is noted; since that end.
    Past,
}

impl Watch {
    /// All reasons.
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

    /// The name in its stored form.
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

/// One watch of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watched {
    /// The reason.
    pub what: Watch,
    /// The instant from or since which the reason holds.
    pub at: Timestamp,
    /// Nobody has confirmed the entry after this instant, and nobody has changed it after this instant, except where
    /// the time of the last change is the end of the lifetime: there it is the time at which the entry was made.
    pub since: Timestamp,
}

/// The size of a body, in bytes, beyond which an archived entry is compressed (M7.6.45).
pub const PACKED_FROM: usize = 512;

/// The watches of `entry`, sorted.
#[must_use]
pub fn watched(entry: &Entry) -> Vec<Watched> {
    watched_of(entry.kind, &entry.fields, entry.created_at, entry.updated_at)
}

/// The watches of an entry of `kind` with `fields`, sorted.
#[must_use]
pub fn watched_of(kind: EntryKind, fields: &EntryFields, created_at: Timestamp, updated_at: Timestamp) -> Vec<Watched> {
    let end = fields.lifetime.expires_at();
    let since = touched_since(fields, created_at, updated_at);
    let watch = |what, at| Watched { what, at, since };
    let mut all = Vec::new();
    if let Some(erased_for) = fields.erased {
        // A tombstone of forgotten content stays forever.
        if erased_for != ErasedFor::Forgotten {
            all.push(watch(Watch::Tombstone, updated_at));
        }
        all.extend(ends_at(fields).map(|end| watch(Watch::Unnoted, end)));
        return all;
    }
    let is_archived = fields.status == Status::Archived;
    let is_observation = kind == EntryKind::Observation;
    // A pinned entry does not expire.
    let end = end.filter(|_| fields.pin_rank.is_none());
    if is_observation && !is_archived {
        // An observation's content is not erased before it is archived, and its end is found here.
        match end.filter(|end| fields.expired_at == Some(*end)) {
            Some(noted_end) => all.push(watch(Watch::Past, noted_end)),
            None => all.push(watch(Watch::Live, end.unwrap_or(Timestamp::MAX))),
        }
    } else if let Some(end) = ends_at(fields) {
        all.push(watch(Watch::Unnoted, end));
    }
    if is_observation && fields.status == Status::Resolved {
        all.push(watch(Watch::Resolved, updated_at));
    }
    let may_end = if is_archived {
        fields.archived_for.is_some()
    } else {
        !is_observation
    };
    if let Some(end) = end.filter(|_| may_end && kind != EntryKind::Step) {
        all.push(watch(Watch::Ending, end));
    }
    if !fields.pii.is_empty() && kind != EntryKind::Step {
        all.push(watch(Watch::Personal, created_at));
    }
    if is_archived && fields.body.len() > PACKED_FROM {
        all.push(watch(Watch::Archived, updated_at));
    }
    all.sort_unstable();
    all
}

/// Since when an entry may have been left alone. If it seems to have changed at the very end of its lifetime, an
/// earlier version may only have noted that end, so it counts from its beginning; whoever finds it looks closer
/// ([`hides_last_change`](super::hides_last_change)).
fn touched_since(fields: &EntryFields, created_at: Timestamp, updated_at: Timestamp) -> Timestamp {
    let is_its_end = fields.lifetime.expires_at() == Some(updated_at);
    let changed = if is_its_end { created_at } else { updated_at };
    changed.max(fields.validated_at.unwrap_or(Timestamp::MIN))
}
