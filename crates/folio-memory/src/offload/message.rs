//! Messages of a conversation, in one form whatever form they were given in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::canonical;
use crate::warning::Invalid;

/// The speaker of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The system prompt.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool's answer.
    Tool,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The id by which the result refers to the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments of the call.
    #[serde(default)]
    pub arguments: Value,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The id of the call.
    pub call_id: String,
    /// The text of the result.
    #[serde(default)]
    pub content: String,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
}

/// One message. It keeps the message as it was given, with sorted keys, beside what Folio understands of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The speaker of the message.
    pub role: Speaker,
    /// The text of the message.
    #[serde(default)]
    pub content: String,
    /// The tool calls in the message.
    #[serde(default, rename = "tool_calls", skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The tool results in the message.
    #[serde(default, rename = "tool_results", skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<CallResult>,
    /// The message as it was given, with sorted keys.
    #[serde(skip)]
    pub given: Value,
}

impl Message {
    /// Reads a list of messages, each in Folio's form, OpenAI's or Anthropic's.
    ///
    /// # Errors
    ///
    /// `messages_invalid` with the position of the first message in none of these forms.
    pub fn read_all(list: &Value) -> Result<Vec<Self>, Invalid> {
        let list = list.get("messages").unwrap_or(list);
        let Value::Array(items) = list else {
            return Err(wrong("messages", "is not a list of messages"));
        };
        let read = |(at, item): (usize, &Value)| Self::read(item, &format!("messages[{at}]"));
        items.iter().enumerate().map(read).collect()
    }

    fn read(value: &Value, place: &str) -> Result<Self, Invalid> {
        let Value::Object(fields) = value else {
            return Err(wrong(place, "is not an object"));
        };
        let role = match fields.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => Speaker::System,
            Some("user") => Speaker::User,
            Some("assistant" | "model") => Speaker::Assistant,
            Some("tool" | "function") => Speaker::Tool,
            _ => {
                return Err(wrong(
                    &format!("{place}.role"),
                    "is not system, user, assistant or tool",
                ));
            }
        };
        let mut message = Self {
            role,
            content: String::new(),
            calls: Vec::new(),
            results: Vec::new(),
            given: canonical(value.clone()),
        };
        match fields.get("content") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => message.content.clone_from(text),
            Some(Value::Array(blocks)) => blocks.iter().for_each(|block| message.take_block(block)),
            Some(_) => {
                return Err(wrong(
                    &format!("{place}.content"),
                    "is neither a string nor a list of blocks",
                ));
            }
        }
        if let Some(id) = text_at(value, "tool_call_id") {
            message.results.push(CallResult {
                call_id: id,
                content: message.content.clone(),
                is_error: false,
            });
        }
        for call in items_of(fields.get("tool_calls")) {
            let inner = call.get("function").unwrap_or(call);
            let arguments = match inner.get("arguments") {
                // OpenAI writes arguments as a string.
                Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())),
                Some(other) => other.clone(),
                None => Value::Null,
            };
            message.calls.push(Call {
                id: text_at(call, "id").unwrap_or_default(),
                name: text_at(inner, "name").unwrap_or_default(),
                arguments,
            });
        }
        for result in items_of(fields.get("tool_results")) {
            message.results.extend(serde_json::from_value(result.clone()).ok());
        }
        Ok(message)
    }

    /// Reads one block of a content that is a list.
    fn take_block(&mut self, block: &Value) {
        match block.get("type").and_then(Value::as_str) {
            Some("tool_use") => self.calls.push(Call {
                id: text_at(block, "id").unwrap_or_default(),
                name: text_at(block, "name").unwrap_or_default(),
                arguments: block.get("input").cloned().unwrap_or_default(),
            }),
            Some("tool_result") => self.results.push(CallResult {
                call_id: text_at(block, "tool_use_id").unwrap_or_default(),
                content: match block.get("content") {
                    Some(Value::String(text)) => text.clone(),
                    blocks => items_of(blocks)
                        .filter_map(|block| text_at(block, "text"))
                        .collect::<Vec<_>>()
                        .join("\n"),
                },
                is_error: block.get("is_error").and_then(Value::as_bool).unwrap_or_default(),
            }),
            _ => {
                if let Some(text) = text_at(block, "text") {
                    if !self.content.is_empty() {
                        self.content.push('\n');
                    }
                    self.content.push_str(&text);
                }
            }
        }
    }
}

fn wrong(place: &str, problem: &str) -> Invalid {
    Invalid::new("messages_invalid", place, problem)
}

fn text_at(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn items_of(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
