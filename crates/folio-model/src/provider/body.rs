//! Builds the body of a request.

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

/// Adds what both of OpenAI's protocols have besides the conversation; `tool` builds the protocol's form of a tool.
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

/// The text of a message, if it is not blank: several providers refuse a blank text, and then every conversation that
/// contains one.
fn nonblank_text(message: &Message) -> Option<&str> {
    Some(message.text.as_str()).filter(|text| !text.trim().is_empty())
}

/// The arguments of a call in a form that providers accept: they refuse anything but objects, such as arguments that
/// could not be parsed.
pub(super) fn sendable(args: &Value) -> Value {
    match args {
        Value::Object(_) => args.clone(),
        Value::Null => json!({}),
        other => json!({"unreadable": other}),
    }
}
