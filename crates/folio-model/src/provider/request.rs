//! From a request to what the library of adapters takes; and what holds for every language.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ChatResponseFormat, ContentPart, JsonSpec, MessageContent,
    Tool, ToolCall, ToolResponse,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::body::sendable;
use super::names;
use super::schema::{self, SchemaForm};
use super::wire::{Target, Wire};
use crate::model::{Message, Request, Speaker, ToolDescription};

/// The name that a schema has where a provider wants one.
pub(super) const SCHEMA_NAME: &str = "answer";

/// The conversation and the tools.
pub(super) fn chat_request(request: &Request, target: &Target, form: SchemaForm) -> ChatRequest {
    let mut messages = messages(&request.messages);
    if let Some(schema) = &request.answer_schema
        && way(schema, target, form) != Way::Strict
    {
        messages.push(ChatMessage::user(schema::instruction(schema)));
    }
    let tools: Vec<Tool> = request.tools.iter().map(tool).collect();
    let mut chat = ChatRequest::from_messages(messages);
    if !tools.is_empty() {
        chat = chat.with_tools(tools);
    }
    chat
}

/// How the answer is to be put, and what else stands in the body.
pub(super) fn options(request: &Request, target: &Target, form: SchemaForm) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_max_tokens(request.tokens_max)
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true);
    if let Some(temperature) = temperature(request, target) {
        options = options.with_temperature(temperature);
    }
    if let Some(schema) = &request.answer_schema {
        match way(schema, target, form) {
            Way::Strict => options = options.with_response_format(JsonSpec::new(SCHEMA_NAME, Value::clone(schema))),
            Way::JsonAndPrompt => options = options.with_response_format(ChatResponseFormat::JsonMode),
            Way::Prompt => {}
        }
    }
    if target.wire != Wire::Gemini {
        // The library reads settings out of the end of a name, as in `mistral-medium`, and takes them off.
        options = options.with_extra_body(json!({"model": target.name}));
    }
    if target.wire == Wire::Responses {
        // Not sent; without it the library switches caching off for some models.
        options = options.with_cache_control(CacheControl::Ephemeral5m);
        if target.is_official {
            options = options.with_prompt_cache_key(cache_key(request));
        }
    }
    options
}

/// How a model is held to a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Strict,
    /// The provider sees to it that it is JSON, and the prompt says which.
    JsonAndPrompt,
    Prompt,
}

pub(super) fn way(schema: &Value, target: &Target, form: SchemaForm) -> Way {
    let is_expressible = match target.wire {
        // OpenAI wants all properties required.
        Wire::Chat | Wire::Responses => schema::is_expressible(schema, true),
        Wire::Messages => schema::is_expressible(schema, false),
        // Gemini takes any JSON schema.
        Wire::Gemini => true,
    };
    match form {
        SchemaForm::Strict if is_expressible => Way::Strict,
        SchemaForm::Strict if matches!(target.wire, Wire::Chat | Wire::Responses) => Way::JsonAndPrompt,
        SchemaForm::Strict | SchemaForm::Prompt => Way::Prompt,
    }
}

/// The temperature as it was written: 0.2, and not the nearest of 32 bits.
pub(super) fn temperature(request: &Request, target: &Target) -> Option<f64> {
    let temperature = request.temperature.filter(|_| takes_temperature(target))?;
    Some(temperature.to_string().parse().unwrap_or(f64::from(temperature)))
}

/// Models that think take no temperature. Others at an address of their own are told: they may have any name.
fn takes_temperature(target: &Target) -> bool {
    !(target.is_official && matches!(target.wire, Wire::Chat | Wire::Responses) && thinks(&target.name))
}

/// Whether `name` is that of a model of OpenAI's that thinks.
pub(super) fn thinks(name: &str) -> bool {
    let starts = ["gpt-5", "gpt-6", "o1", "o3", "o4"];
    starts.iter().any(|start| name.starts_with(start))
}

/// Requests that begin alike have the same key, so that OpenAI sends them where their beginning is cached.
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

fn tool(description: &ToolDescription) -> Tool {
    Tool::new(names::sent(&description.name).into_owned())
        .with_description(&*description.description)
        .with_schema((*description.args_schema).clone())
}

/// Answers of tools that follow one another become one message: they answer one turn of the model.
fn messages(messages: &[Message]) -> Vec<ChatMessage> {
    let mut made: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    // By call, the latest: ids may come again in a later turn.
    let mut tools: HashMap<&str, &str> = HashMap::new();
    let mut was_tool = false;
    for message in messages {
        match message.speaker {
            Speaker::System => made.push(ChatMessage::system(message.text.as_str())),
            Speaker::User => made.push(ChatMessage::user(message.text.as_str())),
            Speaker::Assistant => {
                tools.extend(
                    message
                        .tool_calls
                        .iter()
                        .map(|call| (call.id.as_str(), call.tool.as_str())),
                );
                made.push(ChatMessage::assistant(assistant(message)));
            }
            Speaker::Tool => {
                let id = message.answers.as_deref().unwrap_or_default();
                let mut answer = ToolResponse::new(id, message.text.as_str());
                answer.fn_name = tools.get(id).map(|name| names::sent(name).into_owned());
                match made.last_mut().filter(|_| was_tool) {
                    Some(last) => last.content.push(ContentPart::ToolResponse(answer)),
                    None => made.push(ChatMessage::tool(MessageContent::from_parts(vec![
                        ContentPart::ToolResponse(answer),
                    ]))),
                }
            }
        }
        was_tool = message.speaker == Speaker::Tool;
    }
    made
}

fn assistant(message: &Message) -> MessageContent {
    let text = (!message.text.is_empty()).then(|| ContentPart::Text(message.text.clone()));
    let calls = message.tool_calls.iter().map(|call| {
        ContentPart::ToolCall(ToolCall {
            call_id: call.id.clone(),
            fn_name: names::sent(&call.tool).into_owned(),
            fn_arguments: sendable(&call.args),
            thought_signatures: None,
        })
    });
    MessageContent::from_parts(text.into_iter().chain(calls).collect::<Vec<_>>())
}
