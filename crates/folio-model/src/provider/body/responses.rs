//! Bodies for OpenAI's Responses. Nothing is stored there: each request contains the whole conversation.

use genai::chat::{JsonSchemaDialect, sanitize_json_schema};
use serde_json::{Value, json};

use super::{nonblank_text, put_rest, sendable, taking_turns};
use crate::model::{Message, Request, Speaker, ToolDescription};
use crate::provider::names;
use crate::provider::request::{SCHEMA_NAME, SchemaMethod, schema_method};
use crate::provider::schema::{self, SchemaForm};
use crate::provider::wire::Target;

pub(super) fn body(request: &Request, target: &Target, form: SchemaForm) -> Value {
    let mut instruction = None;
    let mut body = json!({
        "model": target.name,
        "stream": true,
        "store": false,
        "max_output_tokens": request.tokens_max,
    });
    if let Some(schema) = &request.answer_schema {
        let way = schema_method(schema, target, form);
        if way != SchemaMethod::Strict {
            instruction = Some(schema::instruction(schema));
        }
        match way {
            SchemaMethod::Strict => {
                let schema = sanitize_json_schema(schema, JsonSchemaDialect::OpenAiStrict);
                let format = json!({"type": "json_schema", "name": SCHEMA_NAME, "strict": true, "schema": schema});
                body["text"] = json!({"format": format});
            }
            SchemaMethod::JsonAndPrompt => body["text"] = json!({"format": {"type": "json_object"}}),
            SchemaMethod::Prompt => {}
        }
    }
    let turns = taking_turns(&request.messages, instruction, target.is_official);
    body["input"] = turns.iter().flat_map(|turn| items(turn)).collect();
    put_rest(&mut body, request, target, tool);
    body
}

/// The items of a message: its text, and one for each call.
fn items(message: &Message) -> Vec<Value> {
    let text = &message.text;
    match message.speaker {
        Speaker::System => vec![json!({"role": "system", "content": text})],
        Speaker::User => vec![json!({"role": "user", "content": text})],
        Speaker::Tool => {
            let id = message.answers.as_deref().unwrap_or_default();
            vec![json!({"type": "function_call_output", "call_id": id, "output": text})]
        }
        Speaker::Assistant => {
            let text_item = nonblank_text(message).map(|text| {
                let parts = json!([{"type": "output_text", "text": text}]);
                json!({"type": "message", "role": "assistant", "content": parts})
            });
            let calls = message.tool_calls.iter().map(|call| {
                let args = sendable(&call.args).to_string();
                json!({"type": "function_call", "call_id": call.id, "name": names::encode_tool_name(&call.tool), "arguments": args})
            });
            text_item.into_iter().chain(calls).collect()
        }
    }
}

fn tool(tool: &ToolDescription) -> Value {
    json!({
        "type": "function",
        "name": names::encode_tool_name(&tool.name),
        "description": tool.description,
        "parameters": tool.args_schema,
        // Without it, the schema is made strict, and arguments that may be left out come back as empty texts.
        "strict": false,
    })
}
