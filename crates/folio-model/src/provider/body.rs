//! From a request to the body that is sent.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde_json::{Value, json};

use super::request::{cache_key, temperature};
use super::schema::SchemaForm;
use super::wire::{Target, Wire};
use crate::model::{Message, Request, ToolDescription};

pub(super) fn body(request: &Request, target: &Target, form: SchemaForm) -> Value {
    match target.wire {
        Wire::Chat => chat::body(request, target, form),
        Wire::Responses => responses::body(request, target, form),
        Wire::Messages => messages::body(request, target, form),
        Wire::Gemini => gemini::body(request, target, form),
    }
}

/// What both of OpenAI's languages have besides the conversation; each has its own form of a `tool`.
fn put_rest(body: &mut Value, request: &Request, target: &Target, tool: fn(&ToolDescription) -> Value) {
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(temperature) = temperature(request, target) {
        body["temperature"] = temperature.into();
    }
    if target.is_official {
        body["prompt_cache_key"] = cache_key(request).into();
    }
}

/// What a model said in words, if it said any: several providers refuse a text of white space alone, and so all of the conversation
/// in which a model once wrote that.
fn words(message: &Message) -> Option<&str> {
    Some(message.text.as_str()).filter(|text| !text.trim().is_empty())
}

/// Arguments of a call as providers take them: they refuse what is no object, as what could not be read is not.
pub(super) fn sendable(args: &Value) -> Value {
    match args {
        Value::Object(_) => args.clone(),
        Value::Null => json!({}),
        other => json!({"unreadable": other}),
    }
}
