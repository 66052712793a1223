//! What the requests of all protocols have in common.

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::schema::{self, SchemaForm};
use super::wire::{Target, Wire};
use crate::model::{Request, Speaker};

/// The name of the schema where a provider requires one.
pub(super) const SCHEMA_NAME: &str = "answer";

/// How a model is made to follow a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaMethod {
    Strict,
    /// The provider ensures that the answer is JSON, and the prompt contains the schema.
    JsonAndPrompt,
    Prompt,
}

pub(super) fn schema_method(schema: &Value, target: &Target, form: SchemaForm) -> SchemaMethod {
    let is_expressible = match target.wire {
        // OpenAI requires all properties to be required.
        Wire::Chat | Wire::Responses => schema::is_expressible(schema, true),
        Wire::Messages => schema::is_expressible(schema, false),
        // Gemini accepts any JSON schema.
        Wire::Gemini => true,
    };
    match form {
        SchemaForm::Strict if is_expressible => SchemaMethod::Strict,
        SchemaForm::Strict if matches!(target.wire, Wire::Chat | Wire::Responses) => SchemaMethod::JsonAndPrompt,
        SchemaForm::Strict | SchemaForm::Prompt => SchemaMethod::Prompt,
    }
}

/// The temperature as it was written: 0.2, and not the nearest 32-bit number.
pub(super) fn temperature(request: &Request, target: &Target) -> Option<f64> {
    let temperature = request.temperature.filter(|_| takes_temperature(target))?;
    Some(temperature.to_string().parse().unwrap_or(f64::from(temperature)))
}

/// Whether a temperature is sent at first: OpenAI's reasoning models accept none. It is sent to all other models, since
/// names say little, and left out once a model has refused it.
fn takes_temperature(target: &Target) -> bool {
    !(target.is_official && matches!(target.wire, Wire::Chat | Wire::Responses) && is_reasoning_model(&target.name))
}

/// Removes the temperature from the body of a request, and returns whether there was one.
pub(super) fn remove_temperature(body: &mut Value) -> bool {
    let settings = match body.get_mut("generationConfig") {
        Some(config) => config,
        None => body,
    };
    let settings = settings.as_object_mut();
    settings.and_then(|settings| settings.remove("temperature")).is_some()
}

/// Whether `name` is the name of a reasoning model of OpenAI.
pub(super) fn is_reasoning_model(name: &str) -> bool {
    let starts = ["gpt-5", "gpt-6", "o1", "o3", "o4"];
    starts.iter().any(|start| name.starts_with(start))
}

/// A key that is the same for requests with the same beginning, so that OpenAI routes them to where that is cached.
pub(super) fn cache_key(request: &Request) -> String {
    let mut hash = Sha256::new();
    let rules = request
        .messages
        .iter()
        .take_while(|message| message.speaker == Speaker::System);
    for text in rules
        .map(|message| &message.text)
        .chain(request.tools.iter().map(|tool| &tool.name))
    {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    HEXLOWER.encode(&hash.finalize()[..16])
}
