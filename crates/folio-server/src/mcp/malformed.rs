//! Requests with a known method and params that it cannot take: they arrive as if the method were unknown.

use folio::memory::wrong_field::wrong_field;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, ClientRequest, CompleteRequestParams, CustomRequest,
    DiscoverRequestParams, ErrorCode, GetPromptRequestParams, GetTaskParams, InitializeRequestParams, JsonRpcError,
    JsonRpcMessage, JsonRpcRequest, PaginatedRequestParams, ReadResourceRequestParams,
    SubscriptionsListenRequestParams, UpdateTaskParams,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The method with which a conversation begins, in the generations of the protocol that have a beginning.
const INITIALIZE: &str = "initialize";
/// Where a request of the generation without a beginning names its version.
const VERSION_POINTER: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

/// Returns the error for `message`, which was read from `line`, if it is a request to begin with params that cannot be
/// read. The library would take it for a request of the generation without a beginning, and miss the fields that each of
/// those has. In that generation there is no such method.
pub(super) fn refused_beginning(message: &RxJsonRpcMessage<RoleServer>, line: &[u8]) -> Option<JsonRpcError> {
    let JsonRpcMessage::Request(JsonRpcRequest {
        id,
        request: ClientRequest::CustomRequest(request),
        ..
    }) = message
    else {
        return None;
    };
    if request.method != INITIALIZE {
        return None;
    }
    let sent: Value = serde_json::from_slice(line).ok()?;
    if sent.pointer(VERSION_POINTER).is_some() {
        return None;
    }
    let params = request.params.clone().unwrap_or_else(|| Value::Object(Map::new()));
    let reason = describe_invalid_params::<InitializeRequestParams>(params);
    Some(JsonRpcError::new(
        Some(id.clone()),
        unreadable_params(INITIALIZE, &reason),
    ))
}

/// Returns what is wrong with `request`: its params, or that the method does not exist. Tasks exist only where runs do.
pub(super) fn refusal(request: CustomRequest, has_tasks: bool) -> ErrorData {
    let CustomRequest { method, params, .. } = request;
    // `initialize` and `resources/subscribe` are missing here: not every generation of the protocol has them. Wrong
    // params for the latter are reported as an unknown method.
    let reason = match method.as_str() {
        "server/discover" => describe_invalid_params::<DiscoverRequestParams>,
        "tools/call" => describe_invalid_params::<CallToolRequestParams>,
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            describe_invalid_params::<PaginatedRequestParams>
        }
        "prompts/get" => describe_invalid_params::<GetPromptRequestParams>,
        "resources/read" => describe_invalid_params::<ReadResourceRequestParams>,
        "subscriptions/listen" => describe_invalid_params::<SubscriptionsListenRequestParams>,
        "completion/complete" => describe_invalid_params::<CompleteRequestParams>,
        "tasks/get" if has_tasks => describe_invalid_params::<GetTaskParams>,
        "tasks/update" if has_tasks => describe_invalid_params::<UpdateTaskParams>,
        "tasks/cancel" if has_tasks => describe_invalid_params::<CancelTaskParams>,
        _ => {
            let message = format!("there is no method {method} here");
            return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None);
        }
    };
    let reason = reason(params.unwrap_or_else(|| Value::Object(Map::new())));
    unreadable_params(&method, &reason)
}

fn unreadable_params(method: &str, reason: &str) -> ErrorData {
    ErrorData::invalid_params(format!("the params of {method} cannot be read: {reason}"), None)
}

/// Returns why `params` are not a `T`, with the field that is wrong.
fn describe_invalid_params<T: DeserializeOwned>(params: Value) -> String {
    let error_text = match T::deserialize(&params) {
        Ok(_) => "_meta does not have the form that the protocol requires".to_owned(),
        Err(error) => error.to_string(),
    };
    let Value::Object(fields) = params else {
        return error_text;
    };
    wrong_field::<T>(&fields).map_or(error_text, |(name, error)| format!("{name}: {error}"))
}
