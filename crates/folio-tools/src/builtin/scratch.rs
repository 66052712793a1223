//! `scratch_*`: the scratchbook of the run's thread, as models use it.

use async_trait::async_trait;
use folio_memory::scratchbook::tools::{Definition, definitions};
use serde_json::Value;

use crate::context::ToolContext;
use crate::response::{ToolError, ToolResponse};
use crate::tool::{ArgKind, Effect, Need, Tool, ToolRequest, ToolSpec};

/// One of the six tools.
#[derive(Debug)]
pub(super) struct Scratch {
    spec: ToolSpec,
}

impl Scratch {
    /// All six tools.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        definitions().into_iter().map(Self::of)
    }

    fn of(definition: Definition) -> Self {
        let effect = if definition.only_reads {
            Effect::Read
        } else {
            Effect::Idempotent
        };
        let returns =
            "Returns `text`, for models, and the same as JSON: `handle` and what was written, or `items`, or `view`.";
        let need = match definition.name {
            "scratch_add" => Need::Always,
            "scratch_update" | "scratch_pin" | "scratch_unpin" => Need::Seldom,
            _ => Need::Often,
        };
        let mut spec = ToolSpec::new(definition.name, effect, definition.description)
            .returns(returns)
            .needed(need);
        // Two calls that change the same item must be serialized, so that the later one sees what the earlier one did.
        // An item that is added is new to everybody.
        if !definition.only_reads && definition.schema["properties"].get("id").is_some() {
            spec = spec.writes_to("scratchbook/{id}");
        }
        // Plans are checked by the name and kind of each argument, so these are listed one by one.
        let required = definition.schema["required"].as_array().cloned().unwrap_or_default();
        let properties = definition.schema["properties"].as_object().cloned().unwrap_or_default();
        let spec = properties.iter().fold(spec, |spec, (name, schema)| {
            let description = described(name);
            if required.iter().any(|known| known == name) {
                spec.required(name, kind_of(schema), description)
            } else {
                spec.optional(name, kind_of(schema), description)
            }
        });
        Self { spec }
    }
}

/// The description of an argument for people who write plans. A model gets a shorter one, because it is sent with
/// every request.
fn described(argument: &str) -> &'static str {
    match argument {
        "id" => "A handle: `e42`, or to read also `p7`.",
        "query" => "Words to look for.",
        "page" => "`p7`; to read also `book`, `observations`, `history` or `tree`.",
        "tags" => "Words to find it by; to read, it has all of them.",
        "cursor" => "What `next` of an earlier answer was.",
        "budget" => "Tokens of the answer, 2,000 unless it is said.",
        "kind" => "What it is.",
        "title" => "One line.",
        "body" => "The text.",
        "phase" => "The stage of a task.",
        "progress" => "How far a task is, from 0 to 1.",
        "type" => "The registered type of an observation.",
        "ttl_minutes" => "How long an observation holds.",
        "confidence" => "How sure an observation is, from 0 to 1.",
        "status" => "Where it stands.",
        "expected_version" => "The version that it must have.",
        _ => "As the description of the tool says.",
    }
}

fn kind_of(schema: &Value) -> ArgKind {
    let words = schema["enum"].as_array();
    match (words, schema["type"].as_str()) {
        (Some(words), _) => ArgKind::OneOf(words.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        (None, Some("string")) => ArgKind::Text,
        (None, Some("array")) => ArgKind::Texts,
        (None, Some("integer")) => ArgKind::Count,
        (None, Some("number")) => ArgKind::Number,
        _ => ArgKind::Any,
    }
}

#[async_trait]
impl Tool for Scratch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        let answered = tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(ToolError::cancelled()),
            answered = context.scratchbook.call(request) => answered,
        };
        match answered {
            Ok(outputs) => {
                let text = outputs["text"].as_str().unwrap_or_default();
                let notes = text.lines().next().unwrap_or_default().to_owned();
                ToolResponse::ok(request, outputs, notes)
            }
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}
