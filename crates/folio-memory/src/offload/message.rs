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
    /// Reads a list of messages, each in Folio's form, OpenAI's, Anthropic's or Google's, or an item of OpenAI's
    /// responses: a call of a tool, or its result.
    ///
    /// # Errors
    ///
    /// `messages_invalid` with the position of the first message in none of these forms, or without content.
    pub fn read_all(list: &Value) -> Result<Vec<Self>, Invalid> {
        let list = list.get("messages").unwrap_or(list);
        let Value::Array(items) = list else {
            return Err(wrong("messages", "is not a list of messages"));
        };
        let read = |(at, item): (usize, &Value)| Self::read(item, &format!("messages[{at}]"));
        items.iter().enumerate().map(read).collect()
    }

    /// Whether `value` is a message with content, or a call or a result, in one of the forms that
    /// [`Message::read_all`] reads, as far as the names of its fields tell.
    #[must_use]
    pub fn has_content(value: &Value) -> bool {
        let mut fields = ["content", "parts", "tool_calls", "tool_results"].into_iter();
        fields.any(|field| value.get(field).is_some()) || Self::is_item(value)
    }

    /// Whether `value` is a call of a tool, or its result, that is an item of its own and has no speaker.
    #[must_use]
    pub fn is_item(value: &Value) -> bool {
        let kind = value.get("type").and_then(Value::as_str);
        value.get("role").is_none() && kind.is_some_and(|kind| CALLS.contains(&kind) || RESULTS.contains(&kind))
    }

    fn of(role: Speaker, value: &Value) -> Self {
        Self {
            role,
            content: String::new(),
            calls: Vec::new(),
            results: Vec::new(),
            given: canonical(value.clone()),
        }
    }

    /// Reads an item of its own, as OpenAI's responses and the transcripts of Codex have them.
    fn read_item(value: &Value) -> Option<Self> {
        if !Self::is_item(value) {
            return None;
        }
        let kind = text_at(value, "type")?;
        let id = text_at(value, "call_id")
            .or_else(|| text_at(value, "id"))
            .unwrap_or_default();
        if RESULTS.contains(&kind.as_str()) {
            let (content, is_error) = output_of(value.get("output"));
            let mut message = Self::of(Speaker::Tool, value);
            message.content.clone_from(&content);
            message.results.push(CallResult {
                call_id: id,
                content,
                is_error,
            });
            return Some(message);
        }
        let mut message = Self::of(Speaker::Assistant, value);
        message.calls.push(Call {
            id,
            name: text_at(value, "name").unwrap_or_else(|| kind.trim_end_matches("_call").to_owned()),
            arguments: ["arguments", "input", "action"]
                .into_iter()
                .find_map(|field| value.get(field))
                .map(arguments_of)
                .unwrap_or_default(),
        });
        Some(message)
    }

    fn read(value: &Value, place: &str) -> Result<Self, Invalid> {
        let Value::Object(fields) = value else {
            return Err(wrong(place, "is not an object"));
        };
        if let Some(message) = Self::read_item(value) {
            return Ok(message);
        }
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
        if !Self::has_content(value) {
            return Err(wrong(
                place,
                "has neither `content` nor `parts`, `tool_calls` or `tool_results`",
            ));
        }
        let mut message = Self::of(role, value);
        match fields.get("parts") {
            None | Some(Value::Null) => {}
            Some(Value::Array(parts)) => parts.iter().for_each(|part| message.take_part(part)),
            Some(_) => return Err(wrong(&format!("{place}.parts"), "is not a list")),
        }
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
            let arguments = inner.get("arguments").map(arguments_of).unwrap_or_default();
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
                    self.add_text(&text);
                }
            }
        }
    }

    /// Reads one of Google's parts. Its calls have no ids in older versions: the name then stands for one.
    fn take_part(&mut self, part: &Value) {
        let field = |names: [&str; 2]| names.into_iter().find_map(|name| part.get(name));
        let id_of = |inner: &Value| {
            text_at(inner, "id")
                .or_else(|| text_at(inner, "name"))
                .unwrap_or_default()
        };
        if let Some(call) = field(["functionCall", "function_call"]) {
            self.calls.push(Call {
                id: id_of(call),
                name: text_at(call, "name").unwrap_or_default(),
                arguments: call.get("args").cloned().unwrap_or_default(),
            });
        } else if let Some(result) = field(["functionResponse", "function_response"]) {
            let response = result.get("response");
            let error = response.and_then(|response| response.get("error"));
            let told = error
                .or_else(|| response.and_then(|response| response.get("output").or_else(|| response.get("result"))));
            self.results.push(CallResult {
                call_id: id_of(result),
                content: match told.or(response) {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                },
                is_error: error.is_some(),
            });
        } else if part.get("thought").and_then(Value::as_bool) != Some(true)
            && let Some(text) = text_at(part, "text")
        {
            self.add_text(&text);
        }
    }

    fn add_text(&mut self, text: &str) {
        if !self.content.is_empty() {
            self.content.push('\n');
        }
        self.content.push_str(text);
    }
}

/// The items of their own that are calls.
const CALLS: [&str; 3] = ["function_call", "custom_tool_call", "local_shell_call"];
/// The items of their own that are results of calls.
const RESULTS: [&str; 3] = [
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
];

/// The arguments of a call, which some providers write as a string.
fn arguments_of(given: &Value) -> Value {
    match given {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| given.clone()),
        other => other.clone(),
    }
}

/// The text of an output, and whether it reports a failure: a text, a list of blocks, or an object with the text and
/// how it went. Codex writes such an object as a text as well.
fn output_of(output: Option<&Value>) -> (String, bool) {
    match output {
        Some(Value::String(text)) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ Value::Object(_)) if inner.get("metadata").is_some() => output_of(Some(&inner)),
            _ => (text.clone(), false),
        },
        Some(blocks @ Value::Array(_)) => {
            let texts = items_of(Some(blocks)).filter_map(|block| text_at(block, "text"));
            (texts.collect::<Vec<_>>().join("\n"), false)
        }
        Some(object @ Value::Object(fields)) => {
            let exit_code = object.pointer("/metadata/exit_code").and_then(Value::as_i64);
            let has_failed =
                exit_code.is_some_and(|code| code != 0) || fields.get("success") == Some(&Value::Bool(false));
            let inner = ["output", "content"].into_iter().find_map(|field| fields.get(field));
            match inner {
                Some(inner @ (Value::String(_) | Value::Array(_))) => {
                    let (text, is_error) = output_of(Some(inner));
                    (text, is_error || has_failed)
                }
                _ => (object.to_string(), has_failed),
            }
        }
        _ => (String::new(), false),
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
