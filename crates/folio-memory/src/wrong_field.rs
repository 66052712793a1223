//! Finds the field that keeps a JSON object from being read, and says what is wrong with it.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Returns the field because of which `fields` are not a `T`, and what is wrong with it. The error of reading them all
/// does not say which field it is about. A field of an object in a field has a name with a dot: `limits.tokens`.
#[must_use]
pub fn wrong_field<T: DeserializeOwned>(fields: &Map<String, Value>) -> Option<(String, String)> {
    // Each field is read alone; an error that others are missing then says nothing.
    fields.iter().find_map(|(name, value)| {
        let error = error_of_field::<T>(name, value.clone())?;
        let inside = value
            .as_object()
            .filter(|_| error_of_field::<T>(name, Map::new().into()).is_none());
        let inner = inside.into_iter().flatten().find_map(|(inner, value)| {
            let alone = Map::from_iter([(inner.clone(), value.clone())]);
            Some((format!("{name}.{inner}"), error_of_field::<T>(name, alone.into())?))
        });
        Some(inner.unwrap_or_else(|| (name.clone(), error)))
    })
}

/// Why a `T` cannot have `value` in its field `name`.
fn error_of_field<T: DeserializeOwned>(name: &str, value: Value) -> Option<String> {
    let alone = Value::Object(Map::from_iter([(name.to_owned(), value)]));
    let error = T::deserialize(alone).err()?.to_string();
    (!error.starts_with("missing field")).then_some(error)
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
    let range = range_of(expected);
    let expected = match (expected, range) {
        ("a map" | "map", _) => object,
        ("a sequence" | "sequence", _) => "a list",
        ("f32" | "f64", _) => "a number",
        (_, Some(range)) if found.contains("invalid value: ") => {
            let (least, most) = range;
            return match most {
                Some(most) => format!("{found}, expected a whole number from {least} to {most}{suffix}"),
                None => format!("{found}, expected a whole number from {least}{suffix}"),
            };
        }
        (_, Some(_)) => "a whole number",
        (kind, _) if kind.starts_with("struct ") => object,
        (kind, _) => kind,
    };
    format!("{found}, expected {expected}{suffix}")
}

/// The least and the greatest value of a type of whole numbers; where the greatest is beyond what anybody would write,
/// only the least.
fn range_of(kind: &str) -> Option<(i64, Option<u32>)> {
    Some(match kind {
        "u8" => (0, Some(u8::MAX.into())),
        "u16" => (0, Some(u16::MAX.into())),
        "u32" => (0, Some(u32::MAX)),
        "u64" | "usize" => (0, None),
        "i8" => (i8::MIN.into(), Some(127)),
        "i16" => (i16::MIN.into(), Some(32_767)),
        "i32" => (i32::MIN.into(), Some(2_147_483_647)),
        "i64" | "isize" => (i64::MIN, None),
        _ => return None,
    })
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
                "invalid value: integer `-5`, expected a whole number from 0 at line 1 column 3",
            ),
            (
                "invalid value: integer `4294967296`, expected u32",
                "invalid value: integer `4294967296`, expected a whole number from 0 to 4294967295",
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
        // What is not a whole number has no range to be out of.
        let fraction = in_plain_words("invalid type: floating point `1.5`, expected u32", "an object");
        assert_eq!(fraction, "invalid type: floating point `1.5`, expected a whole number");
        let table = in_plain_words("invalid type: map, expected f64", "a table");
        assert_eq!(table, "invalid type: table, expected a number");
    }

    #[test]
    fn wrong_field_inside_an_object_is_named_with_its_path() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only whether it can be read counts")]
        struct Limits {
            #[serde(default)]
            tokens: Option<u32>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only whether it can be read counts")]
        struct Body {
            goal: String,
            limits: Limits,
        }
        let of = |value: Value| wrong_field::<Body>(value.as_object().unwrap()).map(|(name, _)| name);
        let named = |name: &str| Some(name.to_owned());
        let limits = |limits: Value| of(serde_json::json!({"goal": "g", "limits": limits}));
        assert_eq!(limits(serde_json::json!({"tokens": -1})), named("limits.tokens"));
        assert_eq!(limits(serde_json::json!({"token": 1})), named("limits.token"));
        assert_eq!(
            limits(serde_json::json!([])),
            None,
            "a list is read as the values in order"
        );
        assert_eq!(limits(serde_json::json!(5)), named("limits"));
        assert_eq!(of(serde_json::json!({"goal": 5})), named("goal"));
    }
}
