//! The nesting depth of JSON values.

use serde_json::Value;

/// Whether the lists and objects in `value` are nested more than `levels` deep; a text or a number has depth zero. Does
/// not recurse any deeper.
#[must_use]
pub fn depth_exceeds(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| depth_exceeds(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|item| depth_exceeds(item, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nesting_depth_counts_each_list_and_object() {
        for (value, levels) in [
            (json!("x"), 0),
            (json!([]), 1),
            (json!({"a": 1}), 1),
            (json!([1, {"a": [2]}]), 3),
        ] {
            assert!(!depth_exceeds(&value, levels), "{value}");
            assert!(levels == 0 || depth_exceeds(&value, levels - 1), "{value}");
        }
    }
}
