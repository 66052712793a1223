//! The fields of an item that answers show but an update cannot change. A caller may send a whole item back with a few
//! fields changed, so these fields are accepted as long as their values are the present ones.

use serde_json::{Map, Value, json};

use super::ScratchItem;
use crate::entry::Entry;
use crate::warning::Invalid;

const FIELDS: [&str; 11] = [
    "handle",
    "item_id",
    "kind",
    "body_ref",
    "pinned",
    "owner",
    "lease_until",
    "erased",
    "created_at_nanoseconds",
    "updated_at_nanoseconds",
    "version",
];

/// Removes the read-only fields from `fields` and returns them.
pub(super) fn take_read_only_fields(fields: &mut Map<String, Value>) -> Map<String, Value> {
    FIELDS
        .into_iter()
        .filter_map(|name| fields.remove_entry(name))
        .collect()
}

/// Checks that the values of `patch` are those that answers show of `item`.
///
/// # Errors
///
/// `field_immutable`, naming the first field whose value is not the present one.
pub(super) fn check_unchanged(item: &Entry, patch: &Map<String, Value>) -> Result<(), Invalid> {
    if patch.is_empty() {
        return Ok(());
    }
    let shown = json!(ScratchItem::of(item));
    let Some((name, _)) = patch
        .iter()
        .find(|(name, value)| shown.get(name).unwrap_or(&Value::Null) != *value)
    else {
        return Ok(());
    };
    let instead = match name.as_str() {
        "pinned" => "use the operation for it: pin or unpin".to_owned(),
        "owner" | "lease_until" => "use the operation for it: claim or release".to_owned(),
        "version" | "updated_at_nanoseconds" => format!("it is now at version {}", item.version),
        _ => "it is set once or computed".to_owned(),
    };
    let message = format!("cannot be changed: {instead}");
    Err(Invalid::new("field_immutable", name, message))
}
