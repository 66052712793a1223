//! `observe`: observations for the scratch page.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::context::ToolContext;
use crate::response::{ToolError, ToolResponse};
use crate::tool::{ArgKind, CallArgs, Effect, Mistake, Need, Tool, ToolRequest, ToolSpec};
use folio_engine::argument::{Fit, kind_of};
use folio_memory::observation::ObservationInput;
use folio_memory::policy::MAX_TTL_MINUTES;

/// The largest number of observations in one call.
const ITEMS_MAX: usize = 1_000;

/// The type of an observation that does not state one.
const DEFAULT_TYPE: &str = "contextual_insight";

/// The range of an observation's lifetime in minutes. A longer one would be replaced by the usual lifetime of its
/// type, which is much shorter.
const LIFETIME: ArgKind = ArgKind::Within(0, MAX_TTL_MINUTES as u64);

/// The fields of an observation.
const FIELDS: [&str; 6] = ["type", "content", "confidence", "tags", "ttl_minutes", "context"];

/// Proposes observations. The caller commits them together with the outcome of the call.
#[derive(Debug)]
pub(super) struct Observe {
    spec: ToolSpec,
}

impl Default for Observe {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "observe",
                Effect::Pure,
                "Puts observations on the scratch page: one, or several as `items`, objects with the same fields or texts; \
                 the other arguments are then their defaults.",
            )
            .returns("Returns their `count`.")
            .needed(Need::Seldom)
            .writing()
            .optional("content", ArgKind::Text, "One or two sentences.")
            .optional("type", ArgKind::Text, "Default: `contextual_insight`.")
            .optional("confidence", ArgKind::Number, "From 0 to 1.")
            .optional("tags", ArgKind::Texts, "To find it by.")
            .optional("ttl_minutes", LIFETIME, "How long it is worth knowing.")
            .optional("context", ArgKind::Object, "Such as {goal_id: …}.")
            .optional("items", ArgKind::List, "Several observations.")
            .one_of(&["content", "items"]),
        }
    }
}

#[async_trait]
impl Tool for Observe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn mistakes(&self, args: CallArgs<'_>) -> Vec<Mistake> {
        let items = args.literal("items");
        let read = items.map(|items| observations(&json!({"items": items})));
        let wrong = read.and_then(Result::err);
        wrong
            .map(|error| Mistake::of("items", error.message))
            .into_iter()
            .collect()
    }

    async fn call(&self, request: &ToolRequest, _context: &ToolContext) -> ToolResponse {
        match observations(&request.args) {
            Ok(observations) => {
                let count = observations.len();
                let noun = if count == 1 { "observation" } else { "observations" };
                ToolResponse {
                    observations,
                    ..ToolResponse::ok(request, json!({"count": count}), format!("{count} {noun}"))
                }
            }
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

fn observations(args: &Value) -> Result<Vec<Value>, ToolError> {
    let mut shared = Map::new();
    for field in FIELDS {
        if let Some(value) = args.get(field)
            && !value.is_null()
        {
            shared.insert(field.to_owned(), value.clone());
        }
    }
    let Some(Value::Array(items)) = args.get("items") else {
        return Ok(vec![observation(shared, "")?]);
    };
    if items.len() > ITEMS_MAX {
        return Err(ToolError::invalid(format!(
            "observe: {} items are more than {ITEMS_MAX}",
            items.len()
        )));
    }
    items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let place = format!("item {} ", index + 1);
            let mut fields = shared.clone();
            match item {
                Value::String(content) => {
                    fields.insert("content".to_owned(), json!(content));
                }
                Value::Object(item_fields) => {
                    let item_fields = item_fields.iter().filter(|(_, value)| !value.is_null());
                    fields.extend(item_fields.map(|(name, value)| (name.clone(), value.clone())));
                }
                other => {
                    return Err(ToolError::invalid(format!(
                        "observe: {place}is an object or a string, not {}",
                        kind_of(other)
                    )));
                }
            }
            observation(fields, &place)
        })
        .collect()
}

/// Checks only that this is an observation; the scratch page checks the range and length of its fields.
fn observation(mut fields: Map<String, Value>, place: &str) -> Result<Value, ToolError> {
    match fields.get("content") {
        Some(Value::String(content)) if !content.trim().is_empty() => {}
        _ => {
            return Err(ToolError::invalid(format!("observe: {place}has no `content`")));
        }
    }
    if let Some(Value::String(tag)) = fields.get("tags") {
        let tags = json!([tag]);
        fields.insert("tags".to_owned(), tags);
    }
    if let Some(minutes) = fields.get("ttl_minutes")
        && minutes != "never"
        && LIFETIME.fit(minutes) == Fit::Wrong
    {
        let reason = LIFETIME.refusal("ttl_minutes", minutes);
        return Err(ToolError::invalid(format!("observe: {place}{reason}")));
    }
    fields
        .entry("type")
        .or_insert_with(|| Value::String(DEFAULT_TYPE.to_owned()));
    // An unknown name would make the scratch page refuse the observation, and only the trace would tell.
    match ObservationInput::from_json(&Value::Object(fields.clone())) {
        Ok(_) => Ok(Value::Object(fields)),
        Err(invalid) => {
            let reason = invalid.message.split(", expected").next().unwrap_or_default();
            Err(ToolError::invalid(format!("observe: {place}cannot be read: {reason}"))
                .hint(format!("its fields are {}", FIELDS.join(", "))))
        }
    }
}
