//! From a request to the body that is sent.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde_json::{Value, json};

use super::schema::SchemaForm;
use super::wire::{Target, Wire};
use crate::model::Request;

pub(super) fn body(request: &Request, target: &Target, form: SchemaForm) -> Value {
    match target.wire {
        Wire::Chat => chat::body(request, target, form),
        Wire::Responses => responses::body(request, target, form),
        Wire::Messages => messages::body(request, target, form),
        Wire::Gemini => gemini::body(request, target, form),
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
