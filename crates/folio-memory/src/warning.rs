//! What was wrong with an input: put right and said, or refused and said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value that was put right. The answer carries it, and so does the trace (M7.1.4, M7.3.21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A stable name, such as `confidence_clamped`.
    pub code: String,
    /// What happened, in words.
    pub message: String,
    /// The value as it came.
    pub given: String,
    /// The value that is used instead.
    pub used: String,
}

impl Warning {
    /// A warning that `given` became `used`.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>, given: impl ToString, used: impl ToString) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            given: given.to_string(),
            used: used.to_string(),
        }
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
