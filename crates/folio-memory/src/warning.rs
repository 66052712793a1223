//! Problems with an input: corrected with a warning, or refused with an error.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::excerpt::MORE;

/// The maximum length of an input text that a message repeats, in bytes: a misplaced value may be of any length, and
/// its sender knows it.
const SAID_BYTES: usize = 1024;
/// The maximum length of a field's name in a message, in bytes.
const FIELD_BYTES: usize = 256;

/// Returns `text`, or its beginning with the number of its bytes. It is cut between words where possible, because half
/// a word may be half a secret.
pub(crate) fn brief(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let kept = &text[..text.floor_char_boundary(bytes)];
    let words = kept.rfind(char::is_whitespace).filter(|end| *end >= bytes / 2);
    let kept = kept[..words.unwrap_or(kept.len())].trim_end();
    Cow::Owned(format!("{kept}{MORE} ({} bytes)", text.len()))
}

/// Shortens any JSON value in the same way.
fn brief_value(value: Value) -> Value {
    let text = match &value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        Value::Array(_) | Value::Object(_) => Cow::Owned(value.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) => return value,
    };
    match brief(&text, SAID_BYTES) {
        Cow::Borrowed(_) => value,
        Cow::Owned(brief) => brief.into(),
    }
}

/// A value that was corrected. The answer reports it, and so does the trace (M7.1.4, M7.3.21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A stable code, such as `confidence_clamped`.
    pub code: String,
    /// What was corrected, in words.
    pub message: String,
    /// The value as it was sent: a number as a number, or as text if JSON has no such number.
    pub given: Value,
    /// The value that is used instead.
    pub used: Value,
}

impl Warning {
    /// Creates a warning that `given` was replaced by `used`. A text of more than a kilobyte is shortened to its
    /// beginning.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>, given: impl Into<Value>, used: impl Into<Value>) -> Self {
        Self {
            code: code.to_owned(),
            message: brief(&message.into(), SAID_BYTES).into_owned(),
            given: brief_value(given.into()),
            used: brief_value(used.into()),
        }
    }

    /// The whole warning in one line, for people.
    #[must_use]
    pub fn display_line(&self) -> String {
        let values = self.values();
        let values = values.map_or_else(String::new, |(given, used)| format!(" ({given} became {used})"));
        format!("{}{values}", self.message)
    }

    /// The given and the used value for people, a text without quotes. `None` if nothing was given or nothing differs.
    #[must_use]
    pub fn values(&self) -> Option<(String, String)> {
        let as_text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((as_text(&self.given), as_text(&self.used))).filter(|(given, used)| !given.is_empty() && given != used)
    }
}

/// An input that cannot be used. It names the field, the rule and the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// A stable code, such as `content_empty`.
    pub code: String,
    /// The field that is wrong.
    pub field: String,
    /// The reason in words.
    pub message: String,
}

impl Invalid {
    /// Creates an error about `field`. A message of more than a kilobyte is shortened to its beginning.
    #[must_use]
    pub fn new(code: &str, field: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            field: brief(field, FIELD_BYTES).into_owned(),
            message: brief(&message.into(), SAID_BYTES).into_owned(),
        }
    }
}

/// A text that is not what it was parsed as, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    /// Creates an error with the reason in words.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl From<ParseError> for String {
    fn from(error: ParseError) -> Self {
        error.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_values_are_shortened_in_warnings_and_errors() {
        let long = "y".repeat(900_000);
        let warning = Warning::new("code", format!("{long:?} is none"), long.as_str(), json!([long]));
        let invalid = Invalid::new("code", &long, format!("{long:?} is none"));
        let said = serde_json::to_string(&(&warning, &invalid)).unwrap();
        assert!(said.len() < 5 * SAID_BYTES, "{}", said.len());
        assert_eq!(warning.given, format!("{}… (900000 bytes)", "y".repeat(SAID_BYTES)));
        assert!(warning.used.as_str().unwrap().starts_with("[\"yyy"));
        assert!(invalid.message.ends_with("… (900010 bytes)"));

        let words = "éin wort ".repeat(200);
        let cut = brief(&words, SAID_BYTES).into_owned();
        assert!(cut.ends_with("wort… (2000 bytes)"), "{cut}");
        for (given, used) in [(json!("a"), json!(null)), (json!({"a": [1]}), json!(0.5))] {
            let warning = Warning::new("code", "as it is", given.clone(), used.clone());
            assert_eq!((warning.given, warning.used), (given, used));
        }
    }
}
