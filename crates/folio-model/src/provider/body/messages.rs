//! Bodies for Anthropic's Messages.

use std::borrow::Cow;

use genai::chat::{JsonSchemaDialect, sanitize_json_schema};
use serde_json::{Value, json};

use super::{nonblank_text, sendable, taking_turns};
use crate::model::{Message, Request, Speaker, ToolDescription};
use crate::provider::names;
use crate::provider::request::{SchemaMethod, schema_method, temperature};
use crate::provider::schema::{self, SchemaForm};
use crate::provider::wire::Target;

/// A turn of one side.
struct Turn {
    role: &'static str,
    parts: Vec<Value>,
    /// Whether it holds tool results: consecutive ones answer one turn of the model.
    is_of_tools: bool,
}

pub(super) fn body(request: &Request, target: &Target, form: SchemaForm) -> Value {
    let is_rule = |message: &&Message| message.speaker == Speaker::System;
    let before_all = request.messages.iter().take_while(is_rule).count();
    let mut rules: Vec<Value> = request
        .messages
        .iter()
        .filter(is_rule)
        .map(|rule| text(&rule.text))
        .collect();
    let mut instruction = None;
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let mut body = json!({"model": target.name, "stream": true, "max_tokens": request.tokens_max});
    if let Some(schema) = &request.answer_schema {
        if schema_method(schema, target, form) == SchemaMethod::Strict {
            let schema = sanitize_json_schema(schema, JsonSchemaDialect::AnthropicStructured);
            body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
        } else {
            instruction = Some(schema::instruction(schema));
        }
    }
    // Anthropic joins turns of one side by itself, and caches up to the end of a part: there each text stays one.
    let mut conversation = match target.is_official {
        true => turns(request.messages.iter()),
        false => {
            let said = |message: &&Message| message.speaker != Speaker::System;
            let said: Vec<Message> = request.messages.iter().filter(said).cloned().collect();
            let taken = taking_turns(&said, instruction.take(), false);
            turns(taken.iter().map(Cow::as_ref))
        }
    };
    conversation.extend(instruction.map(|instruction| Turn::of_user(text(&instruction))));
    mark_for_cache(&mut rules[..before_all], &mut conversation, &mut tools);
    body["messages"] = conversation.into_iter().map(Turn::into_json).collect();
    if !rules.is_empty() {
        body["system"] = rules.into();
    }
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    if let Some(temperature) = temperature(request, target) {
        body["temperature"] = temperature.into();
    }
    body
}

impl Turn {
    fn of_user(part: Value) -> Self {
        Self {
            role: "user",
            parts: vec![part],
            is_of_tools: false,
        }
    }

    /// A single text without cache marks is sent as a string, since older gateways do not accept parts.
    fn into_json(self) -> Value {
        let content = match &self.parts[..] {
            [part] if part["type"] == "text" && part.get("cache_control").is_none() => part["text"].clone(),
            _ => self.parts.into(),
        };
        json!({"role": self.role, "content": content})
    }
}

fn turns<'m>(messages: impl Iterator<Item = &'m Message>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in messages {
        match message.speaker {
            Speaker::System => {}
            Speaker::User => turns.push(Turn::of_user(text(&message.text))),
            Speaker::Assistant => {
                let text_part = nonblank_text(message).map(text);
                let calls = message.tool_calls.iter().map(|call| {
                    let (name, input) = (names::encode_tool_name(&call.tool), sendable(&call.args));
                    json!({"type": "tool_use", "id": call.id, "name": name, "input": input})
                });
                let parts: Vec<Value> = text_part.into_iter().chain(calls).collect();
                // An empty turn is refused; the user turns around it may follow each other.
                if !parts.is_empty() {
                    turns.push(Turn {
                        role: "assistant",
                        parts,
                        is_of_tools: false,
                    });
                }
            }
            Speaker::Tool => {
                let id = message.answers.as_deref().unwrap_or_default();
                let answer = json!({"type": "tool_result", "tool_use_id": id, "content": message.text});
                match turns.last_mut().filter(|turn| turn.is_of_tools) {
                    Some(turn) => turn.parts.push(answer),
                    None => turns.push(Turn {
                        is_of_tools: true,
                        ..Turn::of_user(answer)
                    }),
                }
            }
        }
    }
    turns
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool(tool: &ToolDescription) -> Value {
    json!({"name": names::encode_tool_name(&tool.name), "description": tool.description, "input_schema": tool.args_schema})
}

/// Marks what Anthropic should cache: tools and rules, with which every request of a conversation begins; and, if there
/// are tools and so more requests to come, the whole conversation so far.
fn mark_for_cache(rules: &mut [Value], turns: &mut [Turn], tools: &mut [Value]) {
    let mark = |part: Option<&mut Value>| {
        if let Some(part) = part {
            part["cache_control"] = json!({"type": "ephemeral"});
        }
    };
    if !tools.is_empty() {
        mark(turns.last_mut().and_then(|turn| turn.parts.last_mut()));
    }
    mark(rules.last_mut().or(tools.last_mut()));
}
