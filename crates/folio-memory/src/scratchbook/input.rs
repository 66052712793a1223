//! What callers say of an item: one to be added, or what to change.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::read_only::take_read_only_fields;
use crate::entry::EntryKind;
use crate::observation::null_field_names;
use crate::wrong_field::wrong_field;

/// An item to be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemInput {
    /// `note`, `todo` or `task`.
    #[serde(deserialize_with = "item_kind")]
    #[schemars(with = "ItemKind")]
    pub kind: EntryKind,
    /// The title, in one line. If left out, the first line of the body is the title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text of the item.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Tags to find the item by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The phase of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The progress of a task, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
}

impl ItemInput {
    /// Creates the input for an item of `kind` with a title and nothing else.
    #[must_use]
    pub fn new(kind: EntryKind, title: impl Into<String>) -> Self {
        Self {
            kind,
            title: Some(title.into()),
            body: String::new(),
            tags: Vec::new(),
            phase: None,
            progress: None,
        }
    }
}

const ITEM_KINDS: [&str; 3] = ["note", "todo", "task"];

/// The kind of an item.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its description is used")]
enum ItemKind {
    Note,
    Todo,
    Task,
}

/// Deserializes the kind of an item. The error for an unknown word lists only the kinds that an item may have.
fn item_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EntryKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    EntryKind::parse(&name).ok_or_else(|| D::Error::unknown_variant(&name, &ITEM_KINDS))
}

/// The fields of an item to change; a field that is left out stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemPatch {
    /// The new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The new text. The beginning that answers show of a longer text stands for that text and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The new status or one of its synonyms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The new tags, which replace all old ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The new phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The new progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Read-only fields that were sent as well, as by a caller that sends a whole item back. Their values must be the
    /// present ones.
    #[serde(skip)]
    pub said_again: Map<String, Value>,
    /// The fields to clear: those that were sent as `null`.
    #[serde(skip)]
    pub cleared: Vec<String>,
}

impl ItemPatch {
    /// Parses a patch of an item: only the fields to change, or a whole item as an answer showed it. A field that is
    /// `null` is to be cleared.
    ///
    /// # Errors
    ///
    /// The reason if `value` cannot be parsed or is empty.
    pub fn from_json(mut value: Value) -> Result<Self, serde_json::Error> {
        if value.as_object().is_some_and(Map::is_empty) {
            return Err(serde::de::Error::custom("it contains nothing to change"));
        }
        let said_again = value.as_object_mut().map(take_read_only_fields).unwrap_or_default();
        let cleared = value.as_object().map(null_field_names).unwrap_or_default();
        let patch =
            Self::deserialize(&value).map_err(|error| match value.as_object().and_then(wrong_field::<Self>) {
                Some((name, error)) => serde_json::Error::custom(format!("{name}: {error}")),
                None => error,
            })?;
        Ok(Self {
            said_again,
            cleared,
            ..patch
        })
    }
}
