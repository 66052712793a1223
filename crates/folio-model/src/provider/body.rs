//! From a request to the body that is sent, in the languages whose answers are read here as well.

mod chat;
mod messages;

use serde_json::{Value, json};

use super::schema::SchemaForm;
use super::wire::{Target, Wire};
use crate::model::Request;

/// The body; `None` where the library of adapters puts it.
pub(super) fn body(request: &Request, target: &Target, form: SchemaForm) -> Option<Value> {
    match target.wire {
        Wire::Chat => Some(chat::body(request, target, form)),
        Wire::Messages => Some(messages::body(request, target, form)),
        Wire::Responses | Wire::Gemini => None,
    }
}

/// Arguments of a call as providers take them: they refuse what is no object, as what could not be read is not.
pub(super) fn sendable(args: &Value) -> Value {
    match args {
        Value::Object(_) => args.clone(),
        Value::Null => json!({}),
        other => json!({"unreadable": other}),
    }
}
