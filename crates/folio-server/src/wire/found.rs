//! What a search has found.

use folio::Timestamp;
use folio::memory::text::{Snippet, snippet};
use folio::memory::{Entry, TextQuery};
use schemars::JsonSchema;
use serde::Serialize;

use super::observation::state_name;

/// Characters of a title that are shown.
const TITLE_CHARS: usize = 80;
/// Characters of a text that are shown.
const TEXT_CHARS: usize = 120;

/// An entry, and where it has what was searched for.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Found {
    /// For people and models: `e42`, `p7`, `r3`, `t5`.
    pub handle: String,
    /// For ever.
    pub entry_id: String,
    /// The page that it stands on.
    pub page_id: String,
    /// What sort of content it holds.
    pub kind: &'static str,
    /// The registered type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// Where it stands, as its writers say.
    pub status: &'static str,
    /// Where it stands as a reader cares: `live`, `settled`, `archived`, `expired`.
    pub state: &'static str,
    /// Whether another one took its place.
    #[serde(skip)]
    pub is_replaced: bool,
    /// Higher is better; comparable within one answer.
    pub score: Option<f64>,
    /// One line above it.
    pub title: String,
    /// The title in pieces.
    #[serde(skip)]
    pub marked_title: Snippet,
    /// The part of its text with most of the words, in pieces.
    pub snippet: Snippet,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Found {
    /// `entry`, which was found by `words`, as it stands at `now`.
    pub fn of(entry: &Entry, score: Option<f64>, words: &TextQuery, now: Timestamp) -> Self {
        let fields = &entry.fields;
        Self {
            handle: entry.handle.to_string(),
            entry_id: entry.id.to_string(),
            page_id: entry.page.to_string(),
            kind: entry.kind.as_str(),
            type_name: fields.type_name.clone(),
            status: fields.status.as_str(),
            state: state_name(entry.state(now)),
            is_replaced: fields.superseded_by.is_some(),
            score,
            title: fields.title.clone(),
            marked_title: snippet(&fields.title, words, TITLE_CHARS),
            snippet: snippet(&fields.body, words, TEXT_CHARS),
            tags: fields.tags.iter().map(ToString::to_string).collect(),
            created_at: entry.created_at,
            updated_at: entry.updated_at,
        }
    }
}
