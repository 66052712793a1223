//! Requests whose method there is, and whose params it cannot take: they arrive as if nobody knew the method.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, CompleteRequestParams, CustomRequest, DiscoverRequestParams, ErrorCode,
    GetPromptRequestParams, GetTaskParams, PaginatedRequestParams, ReadResourceRequestParams,
    SubscriptionsListenRequestParams, UpdateTaskParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What is wrong with `request`: its params, or that there is no such method. Tasks there are only where there are runs.
pub(super) fn refusal(request: CustomRequest, has_tasks: bool) -> ErrorData {
    let CustomRequest { method, params, .. } = request;
    // Not every generation of the protocol has `initialize` and `resources/subscribe`: where it has, and their params are wrong, nobody
    // is told which.
    let reason = match method.as_str() {
        "server/discover" => wrong_in::<DiscoverRequestParams>,
        "tools/call" => wrong_in::<CallToolRequestParams>,
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            wrong_in::<PaginatedRequestParams>
        }
        "prompts/get" => wrong_in::<GetPromptRequestParams>,
        "resources/read" => wrong_in::<ReadResourceRequestParams>,
        "subscriptions/listen" => wrong_in::<SubscriptionsListenRequestParams>,
        "completion/complete" => wrong_in::<CompleteRequestParams>,
        "tasks/get" if has_tasks => wrong_in::<GetTaskParams>,
        "tasks/update" if has_tasks => wrong_in::<UpdateTaskParams>,
        "tasks/cancel" if has_tasks => wrong_in::<CancelTaskParams>,
        _ => {
            let message = format!("there is no method {method} here");
            return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None);
        }
    };
    let reason = reason(params.unwrap_or_else(|| Value::Object(Map::new())));
    ErrorData::invalid_params(format!("the params of {method} cannot be read: {reason}"), None)
}

/// Why `params` are none of these, with the field that it is about.
fn wrong_in<T: DeserializeOwned>(params: Value) -> String {
    let whole = match T::deserialize(&params) {
        Ok(_) => "_meta is not as the protocol has it".to_owned(),
        Err(error) => error.to_string(),
    };
    let Value::Object(fields) = params else { return whole };
    field_in::<T>(&fields).map_or(whole, |(name, error)| format!("{name}: {error}"))
}

/// The field because of which `fields` are no `T`, and what is wrong with it. What reads them all says what it found and not where.
pub(super) fn field_in<T: DeserializeOwned>(fields: &Map<String, Value>) -> Option<(String, String)> {
    // Each by itself says it; that others are missing then is no news.
    fields.iter().find_map(|(name, value)| {
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        let error = T::deserialize(alone).err()?.to_string();
        (!error.starts_with("missing field")).then(|| (name.clone(), error))
    })
}
