//! The matches of a search.

use folio::Timestamp;
use folio::memory::text::{Snippet, snippet};
use folio::memory::{Entry, TextQuery};
use schemars::JsonSchema;
use serde::Serialize;

use super::observation::state_name;

/// The number of characters shown of a title.
const TITLE_CHARS: usize = 80;
/// The number of characters shown of a text.
const TEXT_CHARS: usize = 120;

/// An entry that a search found, and where it contains the words searched for.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Found {
    /// The entry's handle, such as `e42`.
    pub handle: String,
    /// The entry's permanent id.
    pub entry_id: String,
    /// The id of the page that holds it.
    pub page_id: String,
    /// The entry's kind.
    pub kind: &'static str,
    /// The registered type of the observation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The status that its writers gave it.
    pub status: &'static str,
    /// The state that Folio computes for readers: `live`, `settled`, `archived` or `expired`.
    pub state: &'static str,
    /// Whether another entry superseded it.
    #[serde(skip)]
    pub is_replaced: bool,
    /// How well it matches the search. Higher is better; comparable only within one answer.
    pub score: Option<f64>,
    /// The entry's title.
    pub title: String,
    /// The title in pieces, with the matching words marked.
    #[serde(skip)]
    pub marked_title: Snippet,
    /// The part of its text with most of the words searched for, in pieces.
    pub snippet: Snippet,
    /// The entry's tags.
    pub tags: Vec<String>,
    /// When the entry was added.
    pub created_at: Timestamp,
    /// When the entry last changed.
    pub updated_at: Timestamp,
}

impl Found {
    /// Returns the wire form of `entry`, which the search for `words` found, with its state at `now`.
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
