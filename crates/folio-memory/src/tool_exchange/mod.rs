//! What a tool is asked and what it answers, as far as memory is concerned (seeds 002 and 004).
//!
//! Whatever a tool sends besides is left alone: outputs are the caller's, and fields that nobody knows are no error. Its
//! observations are read strictly, one by one.

mod context;
mod item;
mod manifest;
mod sift;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use context::{ContextItem, ContextQuery, context_query, least_of};
pub use manifest::{Bound, ManifestsPolicy, ReadScope, ToolManifest};
pub use sift::{Content, Proposed, Sifted, sift};

use crate::warning::{Invalid, Warning};

/// What a tool is asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolRequest {
    /// Names the call.
    #[serde(default)]
    pub request_id: String,
    /// The tool.
    #[serde(default, alias = "tool")]
    pub tool_id: String,
    /// What it works on.
    #[serde(default, alias = "args")]
    pub inputs: Value,
    /// What it wants to know of the scratch page: filters and a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch_page_query: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolResponse {
    /// The request that it answers.
    #[serde(default)]
    pub request_id: String,
    /// How it went; everything but a word for failure counts as success.
    #[serde(default)]
    pub status: Value,
    /// The result.
    #[serde(default)]
    pub outputs: Value,
    /// What it noticed.
    #[serde(default)]
    pub observations: Value,
    /// What is worth knowing for longer.
    #[serde(default)]
    pub memory_writes: Value,
    /// What it was told to put on the scratch page.
    #[serde(default)]
    pub scratch_page_writes: Value,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl ToolResponse {
    /// Whether the call failed: then it may have noticed something, but did not do what it was told.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.status
            .as_str()
            .is_some_and(|word| ["error", "failed", "failure", "cancelled", "timed_out"].contains(&word))
    }
}

/// In which part of an answer something stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Channel {
    /// What the tool noticed.
    Observations,
    /// What it was told to put on the scratch page: the same operation (M7.3.24).
    ScratchPageWrites,
    /// What is worth knowing for longer: a note in the scratchbook.
    MemoryWrites,
    /// What a rule of a plan makes of the answer. No manifest restricts it: the plan's author said it, not the tool.
    Observe,
}

impl Channel {
    /// The name as it is written.
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

/// An item that was not taken. The others were, and the answer stands (M7.3.25).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rejection {
    /// Its place in its array, from 0.
    pub index: usize,
    /// Which array.
    pub channel: Channel,
    /// A stable name, such as `type_undeclared`.
    pub code: String,
    /// Why, in words.
    pub message: String,
}

impl Rejection {
    /// A refusal of the item at `index` of `channel`.
    #[must_use]
    pub fn new(channel: Channel, index: usize, code: &str, message: impl Into<String>) -> Self {
        Self {
            index,
            channel,
            code: code.to_owned(),
            message: message.into(),
        }
    }

    /// A refusal for a field that is wrong.
    #[must_use]
    pub fn of(channel: Channel, index: usize, invalid: &Invalid) -> Self {
        Self::new(channel, index, &invalid.code, invalid.to_string())
    }
}

/// Something of an item that was put right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Correction {
    /// Its place in its array, from 0.
    pub index: usize,
    /// Which array.
    pub channel: Channel,
    /// What was put right.
    #[serde(flatten)]
    pub warning: Warning,
}
