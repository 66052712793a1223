//! A client of HTTP in whose answers an event that is too long is replaced by an error that says so. The library would
//! end the connection at such an event, as if the server had ended, and the call would be made again.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::incoming::{TOO_LONG, error_response, longer_than};

type Failure = StreamableHttpError<reqwest::Error>;

/// The client, for answers whose events have a limit.
#[derive(Debug, Clone)]
pub(crate) struct Bounded(pub(crate) reqwest::Client);

impl StreamableHttpClient for Bounded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.0
            .post_message(uri, message, session_id, auth_header, custom_headers)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        bytes_max: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let posting = self.0.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            bytes_max,
        );
        Ok(match (posting.await?, request) {
            (StreamableHttpPostResponse::Sse(events, session), Some(request)) => {
                let events = events.map(move |event| event.or_else(|error| refused(error, &request, bytes_max)));
                StreamableHttpPostResponse::Sse(events.boxed(), session)
            }
            (response, _) => response,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.0
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.0
            .get_stream(uri, session_id, last_event_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        bytes_max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.0
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, custom_headers, bytes_max)
            .await
    }
}

/// Returns the answer to `request` in the place of an event that is too long, or the error if it is another one. Only
/// its text tells which it is: the library does not publish its type.
fn refused(error: SseError, request: &RequestId, bytes_max: usize) -> Result<Sse, SseError> {
    let is_too_long =
        matches!(&error, SseError::Body(error) if error.to_string().starts_with("SSE event exceeded the maximum size"));
    if !is_too_long {
        return Err(error);
    }
    let answer = error_response(request, TOO_LONG, &longer_than(bytes_max));
    Ok(Sse::default().data(answer))
}
