//! Finds the field that keeps a JSON object from being read, and says what is wrong with it.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Returns the field because of which `fields` are not a `T`, and what is wrong with it. The error of reading them all
/// does not say which field it is about.
#[must_use]
pub fn wrong_field<T: DeserializeOwned>(fields: &Map<String, Value>) -> Option<(String, String)> {
    // Each field is read alone; an error that others are missing then says nothing.
    fields.iter().find_map(|(name, value)| {
        let single_field = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        let error = T::deserialize(single_field).err()?.to_string();
        (!error.starts_with("missing field")).then(|| (name.clone(), error))
    })
}

/// Returns the message of a deserializer, without the vocabulary of Rust; `object` is the word for something with fields: `a
/// table`.
#[must_use]
pub fn in_plain_words(error: &(impl fmt::Display + ?Sized), object: &str) -> String {
    let message = error.to_string();
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message;
    };
    let found = found.replace("invalid type: sequence", "invalid type: list");
    let noun = object.rsplit(' ').next().unwrap_or(object);
    let found = found.replace("invalid type: map", &format!("invalid type: {noun}"));
    let at = expected.find(" at line ").unwrap_or(expected.len());
    let (expected, suffix) = expected.split_at(at);
    let is_width = |kind: &str| kind.trim_start_matches(['u', 'i', 'f']).parse::<u8>().is_ok() || kind == "usize";
    let expected = match expected {
        "a map" | "map" => object,
        "a sequence" | "sequence" => "a list",
        kind if kind.starts_with("struct ") => object,
        kind if kind.starts_with('f') && is_width(kind) => "a number",
        // The value is a number that is out of range.
        kind if is_width(kind) && found.contains("invalid value: integer") => "a whole number in its range",
        kind if is_width(kind) => "a whole number",
        kind => kind,
    };
    format!("{found}, expected {expected}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deserialization_errors_are_reworded_in_plain_terms() {
        for (said, told) in [
            (
                "invalid type: string \"abc\", expected u64",
                "invalid type: string \"abc\", expected a whole number",
            ),
            (
                "invalid value: integer `-5`, expected u64 at line 1 column 3",
                "invalid value: integer `-5`, expected a whole number in its range at line 1 column 3",
            ),
            (
                "invalid type: null, expected struct ToolResponse at line 1 column 4",
                "invalid type: null, expected an object at line 1 column 4",
            ),
            (
                "invalid type: map, expected a sequence",
                "invalid type: object, expected a list",
            ),
            ("unknown field `x`", "unknown field `x`"),
        ] {
            assert_eq!(in_plain_words(said, "an object"), told);
        }
        let table = in_plain_words("invalid type: map, expected f64", "a table");
        assert_eq!(table, "invalid type: table, expected a number");
    }
}
