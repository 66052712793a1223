//! How a model is made to follow a JSON schema.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a model is told which JSON is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SchemaForm {
    /// By the provider's structured output, which enforces the schema. A schema that it cannot express goes into the
    /// prompt.
    #[default]
    Strict,
    /// In the prompt. For gateways that refuse strict schemas; the answer has to be checked, as always.
    Prompt,
}

/// The maximum nesting of schemas that is examined.
const DEPTH_MAX: usize = 64;

/// The instruction for a schema in the prompt.
pub(super) fn instruction(schema: &Value) -> String {
    format!(
        "Answer with one JSON value and nothing else: no words around it, no code fence. It must satisfy this JSON Schema:\n{schema}"
    )
}

/// Whether a provider that enforces `schema` strictly would still allow everything that it allows.
///
/// Strict forms know only objects whose properties are all named and present: an object for arbitrary arguments would
/// always come back empty, and an optional property would be required.
pub(super) fn is_expressible(schema: &Value, all_required: bool) -> bool {
    schema.is_object() && is_strict(schema, all_required, 0)
}

fn is_strict(schema: &Value, all_required: bool, depth: usize) -> bool {
    let Some(map) = schema.as_object() else {
        // `true` allows anything; `false` occurs only where an object is closed already.
        return schema == &Value::Bool(false);
    };
    if depth > DEPTH_MAX {
        return false;
    }
    let below = |value: &Value| is_strict(value, all_required, depth + 1);
    let says_something = ["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "properties"];
    if !says_something.iter().any(|word| map.contains_key(*word)) {
        return false;
    }
    let may_be_object = match map.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => map.contains_key("properties"),
    };
    if may_be_object {
        let Some(properties) = map.get("properties").and_then(Value::as_object) else {
            return false;
        };
        if map
            .get("additionalProperties")
            .is_some_and(|more| more != &Value::Bool(false))
        {
            return false;
        }
        let required = map.get("required").and_then(Value::as_array);
        let is_required = |name: &String| required.is_some_and(|list| list.iter().any(|item| item == name.as_str()));
        if all_required && !properties.keys().all(is_required) {
            return false;
        }
    }
    let may_be_list = match map.get("type") {
        Some(Value::String(name)) => name == "array",
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        _ => false,
    };
    if may_be_list && !map.contains_key("items") {
        return false;
    }
    [
        "patternProperties",
        "if",
        "then",
        "else",
        "not",
        "dependentSchemas",
        "prefixItems",
    ]
    .iter()
    .all(|word| !map.contains_key(*word))
        && ["properties", "$defs", "definitions"]
            .iter()
            .filter_map(|word| map.get(*word).and_then(Value::as_object))
            .all(|children| children.values().all(below))
        && ["anyOf", "oneOf", "allOf"]
            .iter()
            .filter_map(|word| map.get(*word).and_then(Value::as_array))
            .all(|list| list.iter().all(below))
        && map.get("items").is_none_or(below)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_narrowed_by_strict_mode_are_not_expressible() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        let list =
            json!({"type": "object", "properties": {"a": {"type": "array", "items": closed}}, "required": ["a"]});
        for schema in [&closed, &list] {
            assert!(is_expressible(schema, true), "{schema}");
        }
        let optional = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        assert!(!is_expressible(&optional, true) && is_expressible(&optional, false));
        let free = [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"args": {}}, "required": ["args"]}),
            json!({"type": "object", "properties": {"args": {"type": "object"}}, "required": ["args"]}),
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            json!({"type": "array"}),
            json!({}),
            json!(true),
        ];
        for schema in free {
            assert!(!is_expressible(&schema, false), "{schema}");
        }
    }
}
