//! An item as seed 003 writes it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::entry::{BodyRef, Entry};
use crate::keeping::ErasedFor;

/// A note, a todo or a task, as programs get it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScratchItem {
    /// `e42`.
    pub handle: String,
    /// For ever.
    pub item_id: String,
    /// `note`, `todo`, `task`.
    pub kind: &'static str,
    /// Where it stands.
    pub status: &'static str,
    /// One line.
    pub title: String,
    /// The text; of a long one the beginning.
    pub body: String,
    /// Where the whole text is, if `body` is its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_ref: Option<BodyRef>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Whether it is kept at the top.
    pub pinned: bool,
    /// The stage of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How far it is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Why its content is gone, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erased: Option<&'static str>,
    /// Since 1970. No two items of a space have the same.
    pub created_at_nanoseconds: i64,
    /// Since 1970.
    pub updated_at_nanoseconds: i64,
    /// Counts its revisions, from 1.
    pub version: u32,
}

impl ScratchItem {
    /// `entry` as an item.
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
            phase: fields.phase.clone(),
            progress: fields.progress,
            erased: fields.erased.map(ErasedFor::as_str),
            created_at_nanoseconds: entry.created_at.as_nanos(),
            updated_at_nanoseconds: entry.updated_at.as_nanos(),
            version: entry.version,
        }
    }
}
