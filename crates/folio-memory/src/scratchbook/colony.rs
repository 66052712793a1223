//! A scratchbook in the format of seed 003: one JSON file per thread, with sorted keys and instants in nanoseconds.
//!
//! Export drops what the format cannot express. Import corrects, with a warning, what a scratchbook cannot hold, and
//! keeps the original value beside the item, so that an unchanged item is exported exactly as it came.

mod file_name;
mod item;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use file_name::{MAX_THREAD_BYTES, file_name, name_of, thread_of};
pub use item::{Incoming, item_of, take_in};

use crate::entry::Entry;
use crate::transfer::without_mark;
use crate::warning::Invalid;

/// A scratchbook in the format of seed 003. The fields are declared in the order of their names, which is the order in
/// which they are written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Book {
    /// The items, in the order in which they were added.
    pub items: Vec<Item>,
    /// The ids of the pinned items, in the order of their pins.
    #[serde(rename = "pinnedItemIDs")]
    pub pinned: Vec<String>,
}

/// An item in the format of seed 003.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The text of the item.
    pub body: String,
    /// When the item was made, in nanoseconds since 1970.
    pub created_at_nanoseconds: u64,
    /// The item's id in the book: opaque and unique.
    pub id: String,
    /// `note`, `todo` or `task`.
    pub kind: String,
    /// The phase of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The progress of a task, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// `open`, `in_progress`, `blocked`, `done` or `archived`, whatever the kind.
    pub status: String,
    /// Tags to find the item by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The title, in one line.
    pub title: String,
    /// When the item last changed, in nanoseconds since 1970.
    pub updated_at_nanoseconds: u64,
}

/// The known keys of an item.
const KEYS: [&str; 10] = [
    "body",
    "createdAtNanoseconds",
    "id",
    "kind",
    "phase",
    "progress",
    "status",
    "tags",
    "title",
    "updatedAtNanoseconds",
];

/// One item of a file, as far as it could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The item's id, or its position (`#3`) if it has none.
    pub name: String,
    /// The item, or why it is invalid.
    pub item: Result<Item, Invalid>,
    /// The rank of its pin, if it is pinned.
    pub pin: Option<u32>,
    /// Keys that the format does not know.
    pub unknown: Vec<String>,
}

impl Book {
    /// The book in the form of a thread's file: JSON with sorted keys and without white space.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the file of a thread item by item, so that an invalid item does not affect the others. Also returns the
    /// pins that name no item.
    ///
    /// # Errors
    ///
    /// `book_malformed` if `text` is not JSON with a list of items.
    pub fn read(text: &str) -> Result<(Vec<Read>, Vec<String>), Invalid> {
        let malformed = |reason: String| Invalid::new("book_malformed", "items", reason);
        let book: Map<String, Value> =
            serde_json::from_str(without_mark(text)).map_err(|error| malformed(error.to_string()))?;
        let Some(Value::Array(items)) = book.get("items") else {
            return Err(malformed("there is no list of items".to_owned()));
        };
        let pinned = book.get("pinnedItemIDs").and_then(Value::as_array);
        let pinned = pinned.into_iter().flatten().filter_map(Value::as_str);
        let mut pins: BTreeMap<&str, u32> = BTreeMap::new();
        for (id, rank) in pinned.zip(0..) {
            pins.entry(id).or_insert(rank);
        }
        let mut seen = HashSet::new();
        let mut read = Vec::with_capacity(items.len());
        for (at, value) in items.iter().enumerate() {
            let id = value.get("id").and_then(Value::as_str);
            let mut item = serde_json::from_value::<Item>(value.clone())
                .map_err(|error| Invalid::new("item_malformed", "items", error.to_string()));
            if id.is_some_and(|id| !seen.insert(id)) {
                item = Err(Invalid::new("item_twice", "id", "an earlier item has the same id"));
            }
            let keys = value.as_object().into_iter().flat_map(Map::keys);
            read.push(Read {
                name: id.map_or_else(|| format!("#{}", at + 1), str::to_owned),
                pin: id.and_then(|id| pins.get(id).copied()),
                item,
                unknown: keys.filter(|key| !KEYS.contains(&key.as_str())).cloned().collect(),
            });
        }
        pins.retain(|id, _| !seen.contains(id));
        Ok((read, pins.into_keys().map(str::to_owned).collect()))
    }

    /// The book of `entries`, which have their whole texts, in the order of their handles. Entries other than notes,
    /// todos and tasks, and erased ones, are left out.
    #[must_use]
    pub fn of(entries: &[Entry], now: crate::Timestamp) -> Self {
        let mut items: Vec<(&Entry, Item)> = entries
            .iter()
            .filter(|entry| has_place(entry))
            .map(|entry| (entry, item_of(entry, now)))
            .collect();
        items.sort_by_key(|(entry, _)| entry.handle);
        let mut pinned: Vec<_> = items
            .iter()
            .filter_map(|(entry, item)| Some((entry.fields.pin_rank?, entry.handle, item.id.clone())))
            .collect();
        pinned.sort();
        Self {
            items: items.into_iter().map(|(_, item)| item).collect(),
            pinned: pinned.into_iter().map(|(.., id)| id).collect(),
        }
    }
}

/// Whether the format can represent `entry`.
#[must_use]
pub fn has_place(entry: &Entry) -> bool {
    entry.kind.is_item() && entry.fields.erased.is_none()
}
