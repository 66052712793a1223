//! Builds the body of a request.

mod chat;
mod gemini;
mod messages;
mod responses;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::request::{cache_key, temperature};
use super::schema::SchemaForm;
use super::wire::{Target, Wire};
use crate::model::{Message, Request, Speaker, ToolDescription};

/// The placeholder for an empty answer. Mistral refuses an empty one, and some servers refuse to have it left out: many
/// models' templates require user and assistant to alternate.
const EMPTY_PLACEHOLDER: &str = "(nothing)";

pub(super) fn body(request: &Request, target: &Target, form: SchemaForm) -> Value {
    match target.wire {
        Wire::Chat => chat::body(request, target, form),
        Wire::Responses => responses::body(request, target, form),
        Wire::Messages => messages::body(request, target, form),
        Wire::Gemini => gemini::body(request, target, form),
    }
}

/// The messages, and at the end what else the user asks for, as templates of models accept them that require user and
/// assistant to alternate (Mistral, Gemma): adjacent messages of one role are one message. Those models also refuse a
/// user after a tool, so something stands between; `is_official`, the provider itself, needs nothing there.
fn taking_turns(messages: &[Message], asked: Option<String>, is_official: bool) -> Vec<Cow<'_, Message>> {
    let of = |speaker, text| Message {
        speaker,
        text,
        tool_calls: Vec::new(),
        answers: None,
    };
    let asked = asked.map(|asked| Cow::Owned(of(Speaker::User, asked)));
    let mut turns: Vec<Cow<'_, Message>> = Vec::with_capacity(messages.len() + 1);
    for message in messages.iter().map(Cow::Borrowed).chain(asked) {
        let before = turns.last().map(|turn| turn.speaker);
        match (before, message.speaker) {
            (Some(before), Speaker::User | Speaker::System) if before == message.speaker => {
                if let Some(turn) = turns.last_mut().map(Cow::to_mut) {
                    let has_both = !turn.text.trim().is_empty() && !message.text.trim().is_empty();
                    turn.text.push_str(if has_both { "\n\n" } else { "" });
                    turn.text.push_str(&message.text);
                }
                continue;
            }
            (Some(Speaker::Tool), Speaker::User) if !is_official => {
                turns.push(Cow::Owned(of(Speaker::Assistant, EMPTY_PLACEHOLDER.to_owned())));
            }
            _ => {}
        }
        turns.push(message);
    }
    turns
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
