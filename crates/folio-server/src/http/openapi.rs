//! The OpenAPI 3.1 document: what handlers take and return is derived from their types; what all operations have in
//! common is added here.

use std::collections::HashSet;
use std::sync::LazyLock;

use aide::openapi::{Info, License, OpenApi};
use axum::Router;
use axum::http::Method;
use folio::memory::canonical::canonical;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::app::App;
use super::caller::takes_version;
use super::problem::Problem;
use super::routes;

/// Where schemas with a name stand in the document.
const SCHEMAS: &str = "#/components/schemas/";

/// The descriptions of the path parameters.
const PATH_PARAM_DESCRIPTIONS: [(&str, &str); 12] = [
    ("space", "The space that the server serves, or that the token opens"),
    ("thread", "The thread, an opaque key"),
    ("observation", "A handle or an id: `e42` or `obs_…`"),
    ("item", "A handle or an id: `e42` or `obs_…`"),
    ("page", "A handle or an id: `p7` or `page_…`"),
    ("run", "A handle or an id: `r3` or `run_…`"),
    ("other", "The run to compare with, by its handle or id"),
    ("node", "The path of the node, made of slugs, or its id"),
    ("turn", "A handle or an id: `t3` or `turn_…`"),
    ("question", "The `id` of the question in the list of questions"),
    ("approval", "The `id` of the question in the list of questions"),
    (
        "reference",
        "A handle such as `e42`, an id, a hash, or `/large_tool_results/e42`",
    ),
];

/// The error statuses of any request below a space, and those of requests with a body.
const REFUSALS: [&str; 8] = ["400", "401", "403", "404", "409", "421", "429", "503"];
const REFUSALS_OF_BODIES: [&str; 3] = ["413", "415", "422"];

/// Returns the description of all routes except those of the web page for people. Making it takes a good part of a
/// server's start, and most servers are never asked for it, so it is made when it is first needed.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(make_document);
    &DOCUMENT
}

fn make_document() -> Value {
    aide::generate::in_context(|context| {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
        });
        context.schema = SchemaGenerator::new(settings);
        drop(context.schema.subschema_for::<Problem>());
    });
    let mut api = OpenApi {
        info: Info {
            title: "Folio".to_owned(),
            summary: Some("Durable working memory and plan execution for agents".to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            license: Some(License {
                name: "MIT OR Apache-2.0".to_owned(),
                identifier: Some("MIT OR Apache-2.0".to_owned()),
                ..License::default()
            }),
            ..Info::default()
        },
        ..OpenApi::default()
    };
    let _router: Router<App> = routes::all().finish_api(&mut api);
    complete_document(serde_json::to_value(&api).unwrap_or_default())
}

/// Adds to `document` what all operations have in common.
fn complete_document(mut document: Value) -> Value {
    let refusal = json!({
        "description": "A problem in the format of RFC 9457; docs/errors has a page for each code",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    let empty = Map::new();
    let paths = document["paths"].as_object().unwrap_or(&empty).clone();
    let mut done = Map::new();
    for (path, mut item) in paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            complete(&path, method, operation);
        }
        done.insert(path, item);
    }
    document["paths"] = Value::Object(done);
    document["components"]["responses"] = json!({ "Problem": refusal });
    document["components"]["securitySchemes"] = json!({
        "token": {"type": "http", "scheme": "bearer", "description": "A token from `folio token new`; not needed at a loopback address"},
    });
    document["security"] = json!([{}, { "token": [] }]);
    plain_formats(&mut document);
    let mut referenced = HashSet::new();
    collect_references(&document, &mut referenced);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        // Queries are described field by field, so their own schemas are not referenced.
        schemas.retain(|name, _| referenced.contains(name));
    }
    canonical(document)
}

/// Adds the names of the schemas that `value` refers to, including those that only a schema refers to.
fn collect_references(value: &Value, names: &mut HashSet<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|field| collect_references(field, names)),
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
        Value::String(text) => names.extend(text.strip_prefix(SCHEMAS).map(str::to_owned)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn complete(path: &str, method: &str, operation: &mut Value) {
    let mut parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    for name in path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    {
        let description = PATH_PARAM_DESCRIPTIONS
            .iter()
            .find(|(known, _)| *known == name)
            .map_or("", |(_, description)| description);
        let schema = json!({"type": "string", "minLength": 1});
        parameters
            .push(json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema}));
    }
    let mut header = |name: &str, description: &str| {
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 255});
        parameters.push(
            json!({"name": name, "in": "header", "required": false, "description": description, "schema": schema}),
        );
    };
    let is_below_space = path.contains("{space}");
    if is_below_space {
        header("Folio-Turn", "The turn in which the request is made: `t3` or `turn_…`");
    }
    if takes_key(method, path) {
        header(
            "Idempotency-Key",
            "A key for the request: repeating it with the same key does nothing more",
        );
    }
    if Method::from_bytes(method.to_ascii_uppercase().as_bytes()).is_ok_and(|method| takes_version(&method, path)) {
        header(
            "If-Match",
            "The version that it must have, as `ETag` returned it: `\"3\"`",
        );
    }
    if path.ends_with("/events") {
        header(
            "Last-Event-ID",
            "The last event that the client knows; the stream continues after it",
        );
    }
    for parameter in &mut parameters {
        // An optional parameter has no default value, and null is not a value of its type.
        if let Some(schema) = parameter["schema"].as_object_mut()
            && schema.get("default").is_some_and(Value::is_null)
        {
            schema.remove("default");
        }
    }
    operation["parameters"] = Value::Array(parameters);
    let problem = json!({"$ref": "#/components/responses/Problem"});
    if is_below_space || matches!(path, "/readyz" | "/metrics" | "/v1/spaces") {
        for status in REFUSALS {
            operation["responses"][status] = problem.clone();
        }
    }
    if operation.get("requestBody").is_some() {
        for status in REFUSALS_OF_BODIES {
            operation["responses"][status] = problem.clone();
        }
    }
    operation["responses"]["default"] = problem;
}

/// Removes number formats that only Rust knows.
fn plain_formats(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_foreign = fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|format| format.starts_with("uint") || format == "int" || format == "double");
            if is_foreign {
                fields.remove("format");
            }
            fields.values_mut().for_each(plain_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(plain_formats),
        _ => {}
    }
}

/// Returns whether a request can have an idempotency key. Some ignore it: they only read, or the same content twice is
/// nothing new, or the same item is claimed again.
fn takes_key(method: &str, path: &str) -> bool {
    const IGNORE_KEYS: [&str; 3] = ["/context", "/import", "/scratchbook/claim"];
    match method {
        "post" => !IGNORE_KEYS.iter().any(|end| path.ends_with(end)),
        "patch" => !path.ends_with("/limits"),
        "put" => path.ends_with("/policy"),
        _ => false,
    }
}
