//! Describes what handlers take and return: the OpenAPI document is derived from their types.

use aide::OperationInput;
use aide::OperationOutput;
use aide::generate::GenContext;
use aide::openapi::{MediaType, Operation, ReferenceOr, RequestBody, Response, SchemaObject, StatusCode};
use aide::operation::{ParamLocation, add_parameters, parameters_from_schema, set_body};
use aide::transform::TransformOperation;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::json;

use super::answer::Answer;
use super::caller::Caller;
use super::input::{Body, Kinds, MayBody, Raw, Text};
use super::problem::Problem;
use super::query::{Fields, QueryParams};
use super::transfers::Upload;

/// The media type of JSON lines.
pub(crate) const JSON_LINES: &str = "application/x-ndjson";
/// The media type of a page as markdown.
pub(crate) const MARKDOWN: &str = "text/markdown";
/// The media type of a live stream of events.
const EVENTS: &str = "text/event-stream";

/// Describes an operation: its id, its group (tag), and its summary.
pub(crate) fn describe_operation(
    name: &'static str,
    group: &'static str,
    says: &'static str,
) -> impl Fn(TransformOperation<'_>) -> TransformOperation<'_> {
    move |operation| operation.id(name).tag(group).summary(says)
}

/// The same for an operation that answers with the media type `kind` instead of JSON, or in addition to it.
pub(crate) fn describe_media_type(
    describe: impl Fn(TransformOperation<'_>) -> TransformOperation<'_>,
    kind: &'static str,
) -> impl Fn(TransformOperation<'_>) -> TransformOperation<'_> {
    move |operation| {
        let mut operation = describe(operation);
        let responses = operation.inner_mut().responses.get_or_insert_with(Default::default);
        let place = responses.responses.entry(StatusCode::Code(200)).or_insert_with(|| {
            ReferenceOr::Item(Response {
                description: "The requested content".to_owned(),
                ..Response::default()
            })
        });
        if let ReferenceOr::Item(response) = place {
            response
                .content
                .insert(kind.to_owned(), media(json_schema!({"type": "string"})));
        }
        operation
    }
}

/// The same for an operation that answers with a stream of events, each of which carries a `T`. OpenAPI 3.1 cannot
/// describe the items of a stream; they stand under `x-itemSchema`, as OpenAPI 3.2 has them under `itemSchema`.
pub(crate) fn describe_event_stream<T: JsonSchema>(
    describe: impl Fn(TransformOperation<'_>) -> TransformOperation<'_>,
) -> impl Fn(TransformOperation<'_>) -> TransformOperation<'_> {
    let describe = describe_media_type(describe, EVENTS);
    move |operation| {
        let mut operation = describe(operation);
        let data = aide::generate::in_context(|context| context.schema.subschema_for::<T>());
        let message = json!({
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The id of the event; send it in the header Last-Event-ID to continue after it"},
                "event": {"type": "string", "description": "The type of the event"},
                "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
            },
            "required": ["event", "data"],
        });
        let responses = operation.inner_mut().responses.as_mut();
        if let Some(ReferenceOr::Item(response)) =
            responses.and_then(|all| all.responses.get_mut(&StatusCode::Code(200)))
            && let Some(media) = response.content.get_mut(EVENTS)
        {
            media.extensions.insert("x-itemSchema".to_owned(), message);
        }
        operation
    }
}

fn media(json_schema: Schema) -> MediaType {
    MediaType {
        schema: Some(SchemaObject {
            json_schema,
            example: None,
            external_docs: None,
        }),
        ..MediaType::default()
    }
}

fn describe_body(context: &mut GenContext, operation: &mut Operation, kinds: &[&str], schema: &Schema, required: bool) {
    let content = kinds.iter().map(|kind| ((*kind).to_owned(), media(schema.clone())));
    let body = RequestBody {
        description: None,
        content: content.collect(),
        required,
        extensions: Default::default(),
    };
    set_body(context, operation, body);
}

impl OperationInput for Caller {}

impl<T: Fields> OperationInput for QueryParams<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        let schema = context.schema.subschema_for::<T>();
        let parameters = parameters_from_schema(context, schema, ParamLocation::Query);
        add_parameters(context, operation, parameters);
        if T::TAKES_CONTEXT {
            let description =
                "A value of the context, by its path. Valid JSON is read as JSON, anything else as a text.";
            let field = json_schema!({"type": "object", "properties": {"context.<path>": {"type": "string", "description": description}}});
            let parameters = parameters_from_schema(context, field, ParamLocation::Query);
            add_parameters(context, operation, parameters);
        }
    }
}

impl<T: JsonSchema> OperationInput for Body<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        let schema = context.schema.subschema_for::<T>();
        describe_body(context, operation, &["application/json"], &schema, true);
    }
}

impl<T: JsonSchema> OperationInput for MayBody<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        let schema = context.schema.subschema_for::<T>();
        describe_body(context, operation, &["application/json"], &schema, false);
    }
}

impl<T: JsonSchema> OperationInput for Raw<T> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        let schema = context.schema.subschema_for::<T>();
        describe_body(context, operation, &["application/json"], &schema, true);
    }
}

impl<K: Kinds> OperationInput for Text<K> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        describe_body(context, operation, K::KINDS, &json_schema!({"type": "string"}), true);
    }
}

impl<K: Kinds> OperationInput for Upload<K> {
    fn operation_input(context: &mut GenContext, operation: &mut Operation) {
        Text::<K>::operation_input(context, operation);
    }
}

impl<T: JsonSchema, const STATUS: u16> OperationOutput for Answer<T, STATUS> {
    type Inner = T;

    fn operation_response(context: &mut GenContext, _operation: &mut Operation) -> Option<Response> {
        let schema = context.schema.subschema_for::<T>();
        let description = context
            .resolve_schema(&schema)
            .get("description")
            .and_then(|value| value.as_str());
        Some(Response {
            description: description.unwrap_or("Success").to_owned(),
            content: [("application/json".to_owned(), media(schema))].into_iter().collect(),
            ..Response::default()
        })
    }

    fn inferred_responses(context: &mut GenContext, operation: &mut Operation) -> Vec<(Option<StatusCode>, Response)> {
        let response = Self::operation_response(context, operation);
        response
            .into_iter()
            .map(|response| (Some(StatusCode::Code(STATUS)), response))
            .collect()
    }
}

impl OperationOutput for Problem {
    type Inner = Self;
}
