//! Requests to tools and their answers, as far as memory is concerned (seeds 002 and 004).
//!
//! Anything else in an answer is left alone: outputs belong to the caller, and unknown fields are not errors. The
//! observations are parsed strictly, one by one.

mod context;
mod item;
mod known_tools;
mod manifest;
mod misspelt;
mod sift;

use std::fmt;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

pub use context::{ContextItem, ContextQuery, context_query, least_of};
pub use manifest::{Bound, ManifestsPolicy, ReadScope, ToolManifest};
pub use sift::{Content, Proposed, Sifted, sift};

use crate::warning::{Invalid, Warning};

/// A request to a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolRequest {
    /// The id of the request.
    #[serde(default, deserialize_with = "text_or_number")]
    pub request_id: String,
    /// The name of the tool.
    #[serde(default, alias = "tool")]
    pub tool_id: String,
    /// The inputs of the tool.
    #[serde(default, alias = "args")]
    pub inputs: Value,
    /// The query for the scratch page: filters and a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch_page_query: Option<Value>,
    /// All other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A tool's answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = describe_tool_id)]
pub struct ToolResponse {
    /// The id of the request that it answers.
    #[serde(default, deserialize_with = "text_or_number")]
    pub request_id: String,
    /// The status of the call. Everything but a word for failure, in any case, counts as success.
    #[serde(default)]
    pub status: Value,
    /// The result of the call.
    #[serde(default)]
    pub outputs: Value,
    /// The observations of the tool.
    #[serde(default)]
    pub observations: Value,
    /// What the tool considers worth remembering for longer.
    #[serde(default)]
    pub memory_writes: Value,
    /// What the tool was told to put on the scratch page.
    #[serde(default)]
    pub scratch_page_writes: Value,
    /// All other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Describes the field by which an answer may name its tool. It is one of the other fields, so that a value which is no
/// text keeps nothing out.
fn describe_tool_id(schema: &mut schemars::Schema) {
    let properties = schema.ensure_object().get_mut("properties");
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        let described = json!({"description": "The tool that answers. Also accepted as `tool`.", "type": "string"});
        properties.insert("tool_id".to_owned(), described);
    }
}

/// Reads an id that may be a number: many programs count their calls.
fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(D::Error::custom(format!("{other} is not a text or a number"))),
    }
}

impl ToolResponse {
    /// Warnings about fields that are not read although they have items, because their names are misspelt.
    #[must_use]
    pub fn misspelt_channels(&self) -> Vec<Correction> {
        misspelt::misspelt_channels(&self.rest)
    }

    /// Whether the call failed. A failed call may have observed something, but did not do what it was told.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let words = ["error", "failed", "failure", "cancelled", "timed_out"];
        let status = self.status.as_str().unwrap_or_default().trim();
        words.iter().any(|word| status.eq_ignore_ascii_case(word))
    }
}

/// The part of an answer that an item was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Channel {
    /// Observations of the tool.
    Observations,
    /// What the tool was told to put on the scratch page: treated the same (M7.3.24).
    ScratchPageWrites,
    /// What is worth remembering for longer: a note in the scratchbook.
    MemoryWrites,
    /// What a rule of a plan derives from the answer. No manifest restricts it, because the plan's author wrote the
    /// rule, not the tool.
    Observe,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_for_a_failure_are_read_in_any_case() {
        let has_failed = |status: Value| {
            let response = ToolResponse {
                status,
                ..ToolResponse::default()
            };
            response.has_failed()
        };
        for word in ["error", "ERROR", "Failed", "FAILURE", "Cancelled", " timed_out "] {
            assert!(has_failed(json!(word)), "{word}");
        }
        for other in [json!("ok"), json!("OK"), json!("errors"), json!(500), json!(null)] {
            assert!(!has_failed(other.clone()), "{other}");
        }
    }
}

impl Channel {
    /// The name in its written form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observations => "observations",
            Self::ScratchPageWrites => "scratch_page_writes",
            Self::MemoryWrites => "memory_writes",
            Self::Observe => "observe",
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An item that was refused. The other items were accepted, and the answer stands (M7.3.25).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rejection {
    /// The index of the item in its array, from 0.
    pub index: usize,
    /// The array of the item.
    pub channel: Channel,
    /// A stable code, such as `type_undeclared`.
    pub code: String,
    /// The reason in words.
    pub message: String,
}

impl Rejection {
    /// Creates a rejection of the item at `index` of `channel`.
    #[must_use]
    pub fn new(channel: Channel, index: usize, code: &str, message: impl Into<String>) -> Self {
        Self {
            index,
            channel,
            code: code.to_owned(),
            message: message.into(),
        }
    }

    /// Creates a rejection for an invalid field.
    #[must_use]
    pub fn of(channel: Channel, index: usize, invalid: &Invalid) -> Self {
        Self::new(channel, index, &invalid.code, invalid.to_string())
    }
}

/// A correction of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Correction {
    /// The index of the item in its array, from 0.
    pub index: usize,
    /// The array of the item.
    pub channel: Channel,
    /// The warning about the corrected value.
    #[serde(flatten)]
    pub warning: Warning,
}
