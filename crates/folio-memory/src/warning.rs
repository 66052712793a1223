//! What was wrong with an input: put right and said, or refused and said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value that was put right. The answer carries it, and so does the trace (M7.1.4, M7.3.21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A stable name, such as `confidence_clamped`.
    pub code: String,
    /// What happened, in words.
    pub message: String,
    /// The value as it came, a number as a number; words where it is none that JSON has.
    pub given: Value,
    /// The value that is used instead.
    pub used: Value,
}

impl Warning {
    /// A warning that `given` became `used`.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>, given: impl Into<Value>, used: impl Into<Value>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            given: given.into(),
            used: used.into(),
        }
    }

    /// The whole in one line, for people.
    #[must_use]
    pub fn told(&self) -> String {
        let values = self.values();
        let values = values.map_or_else(String::new, |(given, used)| format!(" ({given} became {used})"));
        format!("{}{values}", self.message)
    }

    /// What was given and what is used, as people read it: a text without quotes. `None` where nothing was given.
    #[must_use]
    pub fn values(&self) -> Option<(String, String)> {
        let told = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((told(&self.given), told(&self.used))).filter(|(given, used)| !given.is_empty() && given != used)
    }
}

/// An input that cannot be used. Names the field, the rule and the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// A stable name, such as `content_empty`.
    pub code: String,
    /// The field that is wrong.
    pub field: String,
    /// Why, in words.
    pub message: String,
}

impl Invalid {
    /// An error about `field`.
    #[must_use]
    pub fn new(code: &str, field: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            field: field.to_owned(),
            message: message.into(),
        }
    }
}
