//! Bodies for Chat Completions.

use genai::chat::{JsonSchemaDialect, sanitize_json_schema};
use serde_json::{Value, json};

use super::{EMPTY_PLACEHOLDER, nonblank_text, put_rest, sendable, taking_turns};
use crate::model::{Message, Request, Speaker, ToolDescription};
use crate::provider::names;
use crate::provider::request::{SCHEMA_NAME, SchemaMethod, is_reasoning_model, schema_method};
use crate::provider::schema::{self, SchemaForm};
use crate::provider::wire::Target;

pub(super) fn body(request: &Request, target: &Target, form: SchemaForm) -> Value {
    let mut instruction = None;
    let mut body = json!({
        "model": target.name,
        "stream": true,
        // Without it the usage is not reported.
        "stream_options": {"include_usage": true},
        tokens_key(&target.name): request.tokens_max,
    });
    if let Some(schema) = &request.answer_schema {
        let way = schema_method(schema, target, form);
        if way != SchemaMethod::Strict {
            instruction = Some(schema::instruction(schema));
        }
        match way {
            SchemaMethod::Strict => {
                let schema = sanitize_json_schema(schema, JsonSchemaDialect::OpenAiStrict);
                let schema = json!({"name": SCHEMA_NAME, "strict": true, "schema": schema});
                body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
            }
            SchemaMethod::JsonAndPrompt => body["response_format"] = json!({"type": "json_object"}),
            SchemaMethod::Prompt => {}
        }
    }
    let turns = taking_turns(&request.messages, instruction, target.is_official);
    body["messages"] = turns.iter().map(|turn| message(turn)).collect();
    put_rest(&mut body, request, target, tool);
    body
}

/// OpenAI's reasoning models use another name for the token limit.
fn tokens_key(name: &str) -> &'static str {
    if is_reasoning_model(name) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn message(message: &Message) -> Value {
    let text = &message.text;
    match message.speaker {
        Speaker::System => json!({"role": "system", "content": text}),
        Speaker::User => json!({"role": "user", "content": text}),
        Speaker::Tool => {
            json!({"role": "tool", "content": text, "tool_call_id": message.answers.as_deref().unwrap_or_default()})
        }
        Speaker::Assistant => {
            let is_call = !message.tool_calls.is_empty();
            let otherwise = if is_call { "" } else { EMPTY_PLACEHOLDER };
            let mut entry = json!({"role": "assistant", "content": nonblank_text(message).unwrap_or(otherwise)});
            if is_call {
                let calls = message.tool_calls.iter().map(|call| {
                    let args = sendable(&call.args).to_string();
                    let function = json!({"name": names::encode_tool_name(&call.tool), "arguments": args});
                    json!({"type": "function", "id": call.id, "function": function})
                });
                entry["tool_calls"] = calls.collect();
            }
            entry
        }
    }
}

fn tool(tool: &ToolDescription) -> Value {
    json!({"type": "function", "function": {
        "name": names::encode_tool_name(&tool.name),
        "description": tool.description,
        "parameters": tool.args_schema,
        "strict": false,
    }})
}
