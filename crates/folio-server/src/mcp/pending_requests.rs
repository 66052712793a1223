//! The requests of a conversation that are being answered. A second request with the same id could not be told apart
//! from the first: one of them would get the other's answer, or none.

use std::collections::HashSet;

use rmcp::ErrorData;
use rmcp::model::{ClientNotification, JsonRpcError, JsonRpcMessage, JsonRpcNotification, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};

/// The ids of these requests.
#[derive(Debug, Default)]
pub(super) struct PendingRequests(HashSet<RequestId>);

impl PendingRequests {
    /// Records that `id` is being answered.
    ///
    /// # Errors
    ///
    /// The error to answer with if it already is.
    pub(super) fn begin(&mut self, id: &RequestId) -> Result<(), Box<JsonRpcError>> {
        if self.0.insert(id.clone()) {
            return Ok(());
        }
        let message = "a request with this id is still being answered; give each request an id of its own";
        let error = ErrorData::invalid_request(message, None);
        Err(Box::new(JsonRpcError::new(Some(id.clone()), error)))
    }

    /// Records that `id` was answered.
    pub(super) fn remove_answered(&mut self, id: &RequestId) {
        self.0.remove(id);
    }

    /// Returns whether no request is being answered.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the id of the request that `message` is.
pub(super) fn id_of_request(message: &RxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// Returns the id of the request that `message` cancels: nobody waits for its answer, and it gets none.
pub(super) fn id_of_cancelled(message: &RxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Notification(JsonRpcNotification {
            notification: ClientNotification::CancelledNotification(taken_back),
            ..
        }) => taken_back.params.request_id.as_ref(),
        _ => None,
    }
}

/// Returns the id of the request that `message` answers.
pub(super) fn id_of_answered(message: &TxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}
