//! The requests of a conversation that are being answered. A second one with the same id could not be told apart from the first: one
//! of them would get the answer to the other, or none.

use std::collections::HashSet;

use rmcp::ErrorData;
use rmcp::model::{ClientNotification, JsonRpcError, JsonRpcMessage, JsonRpcNotification, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};

/// Their ids.
#[derive(Debug, Default)]
pub(super) struct UnderWay(HashSet<RequestId>);

impl UnderWay {
    /// Notes that `id` is being answered.
    ///
    /// # Errors
    ///
    /// What is answered if it is already.
    pub(super) fn begin(&mut self, id: &RequestId) -> Result<(), Box<JsonRpcError>> {
        if self.0.insert(id.clone()) {
            return Ok(());
        }
        let message = "a request with this id is still being answered; each has an id of its own";
        let error = ErrorData::invalid_request(message, None);
        Err(Box::new(JsonRpcError::new(Some(id.clone()), error)))
    }

    /// Notes that `id` was answered.
    pub(super) fn answered(&mut self, id: &RequestId) {
        self.0.remove(id);
    }

    /// Whether nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The id under which `message` asks for something.
pub(super) fn asked_in(message: &RxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// The id of what `message` takes back: nobody waits for its answer, and it has none.
pub(super) fn taken_back_in(message: &RxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Notification(JsonRpcNotification {
            notification: ClientNotification::CancelledNotification(taken_back),
            ..
        }) => taken_back.params.request_id.as_ref(),
        _ => None,
    }
}

/// The id under which `message` answers.
pub(super) fn answered_in(message: &TxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}
