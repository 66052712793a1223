//! An item in the form that programs get (seed 003).

use schemars::JsonSchema;
use serde::Serialize;

use crate::entry::{BodyRef, Entry, Status};
use crate::keeping::ErasedFor;
use crate::time::Timestamp;

/// A note, a todo or a task, as programs get it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScratchItem {
    /// The item's handle, such as `e42`.
    pub handle: String,
    /// The item's permanent id.
    pub item_id: String,
    /// `note`, `todo`, `task`.
    pub kind: &'static str,
    /// The item's status.
    pub status: &'static str,
    /// The title, in one line.
    pub title: String,
    /// The text; of a long text, the beginning.
    pub body: String,
    /// Where the whole text is kept, if `body` is only its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_ref: Option<BodyRef>,
    /// Tags to find the item by.
    pub tags: Vec<String>,
    /// Whether the item is pinned.
    pub pinned: bool,
    /// Who has claimed the work, or is meant to do it; absent if that is anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When the claim of `owner` ends: from then on, anybody may claim the work. A claim without it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// The phase of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The progress of a task, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Why the content was erased, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erased: Option<&'static str>,
    /// When the item was made, in nanoseconds since 1970. No two items of a space share this value.
    pub created_at_nanoseconds: i64,
    /// When the item last changed, in nanoseconds since 1970.
    pub updated_at_nanoseconds: i64,
    /// Counts the item's revisions, from 1.
    pub version: u32,
}

impl ScratchItem {
    /// Converts `entry` to an item.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        let fields = &entry.fields;
        Self {
            handle: entry.handle.to_string(),
            item_id: entry.id.to_string(),
            kind: entry.kind.as_str(),
            status: fields.status.as_str(),
            title: fields.title.clone(),
            body: fields.body.clone(),
            body_ref: fields.body_ref.clone(),
            tags: fields.tags.iter().map(ToString::to_string).collect(),
            pinned: fields.pin_rank.is_some(),
            owner: (fields.status == Status::InProgress || !fields.owner.is_anybody())
                .then(|| fields.owner.to_string()),
            lease_until: fields.lease_until,
            phase: fields.phase.clone(),
            progress: fields.progress,
            erased: fields.erased.map(ErasedFor::as_str),
            created_at_nanoseconds: entry.created_at.as_nanos(),
            updated_at_nanoseconds: entry.updated_at.as_nanos(),
            version: entry.version,
        }
    }
}
