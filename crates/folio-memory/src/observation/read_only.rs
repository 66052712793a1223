//! The fields of an observation that answers show but nobody can change. A caller may send a whole answer back with a
//! few fields changed, so these fields are accepted as long as their values are the present ones.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::entry::Entry;
use crate::warning::Invalid;

/// The read-only fields, each group with advice on what to do instead.
pub(super) const IMMUTABLE: [(&[&str], &str); 5] = [
    (
        &[
            "id",
            "observation_id",
            "handle",
            "kind",
            "page",
            "created_at",
            "updated_at",
            "version",
            "state",
            "score",
        ],
        "it is set once or computed",
    ),
    (
        &[
            "source",
            "claimed_source",
            "trust",
            "pii",
            "content_ref",
            "erased",
            "archived_for",
            "expired_at",
        ],
        "Folio sets it itself",
    ),
    (
        &["type"],
        "add an observation of the other type that supersedes this one",
    ),
    (
        &["ttl_minutes", "expires_at", "lifetime", "validated_at"],
        "an update does not extend the lifetime; confirm the observation to begin it anew",
    ),
    (
        &["superseded_by", "outcome", "pinned", "pin"],
        "use the operation for it: supersede, resolve or pin",
    ),
];

/// Removes the read-only fields from `fields` and returns them.
pub(super) fn take_read_only_fields(fields: &mut Map<String, Value>) -> Map<String, Value> {
    let names = IMMUTABLE.iter().flat_map(|(names, _)| *names);
    names.filter_map(|name| fields.remove_entry(*name)).collect()
}

/// Checks that `patch` would not change `entry`.
///
/// # Errors
///
/// `field_immutable`, naming the first field whose value is not the present one.
pub(super) fn check_unchanged(entry: &Entry, patch: &Map<String, Value>) -> Result<(), Invalid> {
    for (name, value) in patch {
        if is_current_value(entry, name, value) {
            continue;
        }
        let instead = IMMUTABLE.iter().find(|(names, _)| names.contains(&name.as_str()));
        let instead = instead.map_or("", |(_, instead)| instead);
        let version_note = match name.as_str() {
            "version" | "updated_at" => format!("; it is now at version {}", entry.version),
            _ => String::new(),
        };
        let message = format!("cannot be changed: {instead}{version_note}");
        return Err(Invalid::new("field_immutable", name, message));
    }
    Ok(())
}

/// Whether `new_value` is the value that answers show as `name` of `entry`.
fn is_current_value(entry: &Entry, name: &str, new_value: &Value) -> bool {
    let fields = &entry.fields;
    let expires_at = fields.lifetime.expires_at();
    let current = match name {
        "id" | "observation_id" => json!(entry.id),
        "handle" => json!(entry.handle),
        "kind" => json!(entry.kind),
        "page" => json!(entry.page),
        "created_at" => json!(entry.created_at),
        "updated_at" => json!(entry.updated_at),
        "version" => json!(entry.version),
        // These values depend on when, and with which query, the answer was made.
        "state" | "score" => return true,
        "source" => json!({
            "tool": fields.source.tool,
            "turn_id": fields.source.turn,
            "run_id": fields.source.run,
            "node_id": fields.source.node,
            "channel": fields.source.channel,
            "timestamp": entry.created_at,
        }),
        "claimed_source" => json!(fields.claimed_source),
        "trust" => json!(fields.trust),
        "pii" => json!(fields.pii),
        "content_ref" => json!(fields.body_ref),
        "erased" => json!(fields.erased),
        "archived_for" => json!(fields.archived_for),
        "expired_at" => json!(fields.expired_at),
        "type" => json!(fields.type_name),
        "ttl_minutes" => json!(ttl_minutes(entry)),
        "expires_at" => json!(expires_at),
        "lifetime" => json!(fields.lifetime),
        "validated_at" => json!(fields.validated_at),
        "superseded_by" => json!(fields.superseded_by),
        "outcome" => json!(fields.outcome),
        "pinned" | "pin" => json!(fields.pin_rank),
        _ => return false,
    };
    match (new_value, &current) {
        (Value::Number(new_number), Value::Number(current_number)) => new_number.as_f64() == current_number.as_f64(),
        _ => without_empty_parts(new_value) == without_empty_parts(&current),
    }
}

/// Returns `value` without parts that are null or empty, which may be left out.
fn without_empty_parts(value: &Value) -> Value {
    match value {
        Value::Object(parts) => {
            let kept = parts.iter().filter(|(_, part)| !part.is_null());
            kept.map(|(name, part)| (name.clone(), part.clone())).collect()
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        other => other.clone(),
    }
}

/// The lifetime that `entry` was given, in minutes, rounded to a thousandth: the store shifts instants by less than
/// that to keep those of a space in order. The lifetime of a confirmed entry counts from its confirmation.
#[must_use]
pub fn ttl_minutes(entry: &Entry) -> Option<f64> {
    let started_at = entry.fields.validated_at.unwrap_or(entry.created_at);
    let minutes = |time: Duration| (time.as_secs_f64() / 60.0 * 1_000.0).round() / 1_000.0;
    entry
        .fields
        .lifetime
        .expires_at()
        .map(|end| minutes(end.since(started_at)))
}
