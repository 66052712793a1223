//! Bodies for Gemini's `generateContent`.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{nonblank_text, sendable};
use crate::model::{Message, Request, Speaker, ToolCall, ToolDescription};
use crate::provider::names;
use crate::provider::request::{SchemaMethod, schema_method, temperature};
use crate::provider::schema::{self, SchemaForm};
use crate::provider::wire::Target;

/// The placeholder for the signature of a call without one. Gemini 3 requires one at the first call of a turn, and
/// accepts this.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn body(request: &Request, target: &Target, form: SchemaForm) -> Value {
    let mut config = json!({"maxOutputTokens": request.tokens_max});
    let mut turns = contents(&request.messages, target.name.contains("gemini-3"));
    if let Some(schema) = &request.answer_schema {
        if schema_method(schema, target, form) == SchemaMethod::Strict {
            config["responseMimeType"] = json!("application/json");
            config["responseJsonSchema"] = Value::clone(schema);
        } else {
            turns.push(json!({"role": "user", "parts": [text(&schema::instruction(schema))]}));
        }
    }
    if let Some(temperature) = temperature(request, target) {
        config["temperature"] = temperature.into();
    }
    let mut body = json!({"contents": turns, "generationConfig": config});
    let rules = request
        .messages
        .iter()
        .filter(|message| message.speaker == Speaker::System);
    let rules: Vec<&str> = rules.map(|rule| rule.text.as_str()).collect();
    if !rules.is_empty() {
        body["systemInstruction"] = json!({"parts": [text(&rules.join("\n"))]});
    }
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(tool).collect();
        body["tools"] = json!([{"functionDeclarations": tools}]);
    }
    body
}

/// The conversation. Consecutive tool results answer one turn of the model, and are sent as one turn.
fn contents(messages: &[Message], wants_signatures: bool) -> Vec<Value> {
    let mut turns: Vec<(Speaker, Vec<Value>)> = Vec::with_capacity(messages.len());
    // By call id; the latest call counts, since ids may be reused in a later turn.
    let mut tools: HashMap<&str, &str> = HashMap::new();
    for message in messages {
        let parts = match message.speaker {
            Speaker::System => continue,
            Speaker::User => vec![text(&message.text)],
            Speaker::Assistant => {
                let calls = message.tool_calls.iter();
                tools.extend(calls.map(|call| (call.id.as_str(), call.tool.as_str())));
                assistant(message, wants_signatures)
            }
            Speaker::Tool => vec![answer(message, &tools)],
        };
        match turns.last_mut() {
            Some((Speaker::Tool, before)) if message.speaker == Speaker::Tool => before.extend(parts),
            _ if parts.is_empty() => {}
            _ => turns.push((message.speaker, parts)),
        }
    }
    let contents = turns.into_iter().map(|(speaker, parts)| {
        let role = if speaker == Speaker::Assistant { "model" } else { "user" };
        json!({"role": role, "parts": parts})
    });
    contents.collect()
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn assistant(message: &Message, wants_signatures: bool) -> Vec<Value> {
    let text_part = nonblank_text(message).map(text);
    let calls = message.tool_calls.iter().enumerate().map(|(at, tool_call)| {
        let mut part = call(tool_call);
        if wants_signatures && at == 0 {
            part["thoughtSignature"] = json!(NO_SIGNATURE);
        }
        part
    });
    text_part.into_iter().chain(calls).collect()
}

fn call(tool_call: &ToolCall) -> Value {
    let mut call = json!({"name": names::encode_tool_name(&tool_call.tool), "args": sendable(&tool_call.args)});
    if let Some(id) = provider_id(&tool_call.id) {
        call["id"] = json!(id);
    }
    json!({"functionCall": call})
}

fn answer(message: &Message, tools: &HashMap<&str, &str>) -> Value {
    let id = message.answers.as_deref().unwrap_or_default();
    let known = tools.get(id);
    let name = known.map_or(id.into(), |tool| names::encode_tool_name(tool));
    let mut answer = json!({"name": name, "response": {"name": name, "content": message.text}});
    if let Some(id) = known.and_then(|_| provider_id(id)) {
        answer["id"] = json!(id);
    }
    json!({"functionResponse": answer})
}

/// The id of a call as the provider knows it. An id that was made up for a call without one is not sent; such calls are
/// distinguished by their order.
fn provider_id(id: &str) -> Option<&str> {
    let is_counted = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
    let is_made_up = id.starts_with("call#") || id.strip_prefix("call_").is_some_and(is_counted);
    (!id.is_empty() && !is_made_up).then_some(id)
}

fn tool(tool: &ToolDescription) -> Value {
    json!({
        "name": names::encode_tool_name(&tool.name),
        "description": tool.description,
        "parametersJsonSchema": tool.args_schema,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_call_ids_are_not_sent_to_gemini() {
        for (id, is_sent) in [
            ("", false),
            ("call_1", false),
            ("call#grep#0-2", false),
            ("call_1a", true),
            ("toolu_01", true),
        ] {
            assert_eq!(provider_id(id).is_some(), is_sent, "{id}");
        }
    }
}
