//! Checks the arguments of a tool that comes with a JSON Schema.

use folio_engine::argument::coerce_to_schema;
use folio_engine::json_schema::JsonSchema;
use serde_json::{Map, Value};

use crate::response::ToolError;

/// How many mistakes of one call are reported.
const MISTAKES_MAX: usize = 8;
/// The longest report of one mistake, in characters.
const MISTAKE_CHARS: usize = 300;

/// Why calls cannot be checked against `schema`, if they cannot.
#[must_use]
pub fn schema_problem(schema: &Value) -> Option<String> {
    JsonSchema::new(schema).err().map(|error| error.to_string())
}

/// Checks `args` against `schema` and reports everything that is wrong with them at once.
///
/// Returns new arguments when some had to be converted to their type: a template produces `"20"` where 20 is meant.
pub(crate) fn check(tool: &str, schema: &Value, args: &Map<String, Value>) -> Result<Option<Value>, ToolError> {
    let checks = JsonSchema::new(schema)
        .map_err(|error| ToolError::invalid(format!("{tool} has a schema that cannot be used: {error}")))?;
    let coerced = coerce_to_schema(schema, args);
    let is_changed = coerced.is_some();
    let converted = Value::Object(coerced.unwrap_or_else(|| args.clone()));
    let mistakes = checks
        .mistakes(&converted, MISTAKES_MAX)
        .map_err(|unbounded| ToolError::invalid(format!("{tool}: {unbounded}")))?;
    let short = |mistake: &String| mistake.chars().take(MISTAKE_CHARS).collect();
    let mistakes: Vec<String> = mistakes.iter().map(short).collect();
    if !mistakes.is_empty() {
        return Err(ToolError::invalid(format!("{tool}: {}", mistakes.join("; "))));
    }
    Ok(is_changed.then_some(converted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(args: Value) -> Result<Option<Value>, String> {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "number"}, "n": {"type": "integer", "minimum": 1}, "text": {"type": "string"},
                           "deep": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
            "required": ["a"],
        });
        let Value::Object(args) = args else { panic!("an object") };
        check("x.sum", &schema, &args).map_err(|error| error.message)
    }

    #[test]
    fn schema_conforming_arguments_pass_unchanged() {
        assert_eq!(checked(json!({"a": 2.5, "n": 1, "other": null})), Ok(None));
    }

    #[test]
    fn numbers_and_their_texts_are_coerced_to_the_type_of_the_schema() {
        assert_eq!(
            checked(json!({"a": "2", "n": " 20 ", "text": "20"})),
            Ok(Some(json!({"a": 2.0, "n": 20, "text": "20"})))
        );
        assert_eq!(
            checked(json!({"a": 2, "text": 20})),
            Ok(Some(json!({"a": 2, "text": "20"})))
        );
    }

    #[test]
    fn all_schema_violations_are_reported_with_their_json_path() {
        let mistakes = checked(json!({"n": 0, "deep": {"on": "yes"}})).unwrap_err();
        assert!(mistakes.starts_with("x.sum: "), "{mistakes}");
        for part in [
            "\"a\" is a required property",
            "/n: 0 is less",
            "/deep/on: \"yes\" is not",
        ] {
            assert!(mistakes.contains(part), "{mistakes}");
        }
    }
}
