//! The HTTP client that sends spans to their collector: within a time limit, with the headers that are meant for its
//! address, and with readable reasons for failures.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use parking_lot::{Mutex, MutexGuard};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::answer::Refused;

/// The most bytes of an answer that are read: a collector has little to say.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The outcome of the last request, shared by the client and those who report it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Last(Arc<Mutex<ResponseOutcome>>);

#[derive(Debug, Default)]
struct ResponseOutcome {
    /// Why the request failed.
    failure: Option<String>,
    /// The spans in it that were refused.
    refused: Option<Refused>,
}

impl Last {
    /// Returns why the last request failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Takes what the collector refused in the last request, so that it is reported once.
    pub(crate) fn take_refused(&self) -> Option<Refused> {
        self.lock().refused.take()
    }

    fn lock(&self) -> MutexGuard<'_, ResponseOutcome> {
        self.0.lock()
    }
}

/// Sends the requests of the exporter.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) inner: reqwest::Client,
    /// How long one request may take.
    pub(crate) within: Duration,
    /// Whether the headers in `OTEL_EXPORTER_OTLP_HEADERS` are sent. They may contain a key, and belong to the address
    /// that the environment names.
    pub(crate) takes_headers: bool,
    pub(crate) last: Last,
}

impl Client {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (parts, body) = request.into_parts();
        let headers = if self.takes_headers {
            parts.headers
        } else {
            // The exporter adds the headers of the environment, whatever address it was given.
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))])
        };
        let outgoing = self.inner.post(parts.uri.to_string()).headers(headers);
        let sent = outgoing.timeout(self.within).body(body).send().await;
        let mut answer = sent.map_err(|error| self.error_text(error))?;
        let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
        let mut response_body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.error_text(error))? {
            response_body.extend_from_slice(&chunk);
            if response_body.len() > ANSWER_BYTES_MAX {
                return Err(format!("it answers with more than {ANSWER_BYTES_MAX} bytes"));
            }
        }
        let mut response = Response::new(Bytes::from(response_body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// Returns what is wrong, without the address, which may contain a password.
    fn error_text(&self, error: reqwest::Error) -> String {
        if error.is_timeout() {
            return timeout_message(self.within);
        }
        folio::memory::causes::innermost(&error.without_url()).to_string()
    }
}

/// Returns the reason for an answer that did not come in time.
pub(crate) fn timeout_message(within: Duration) -> String {
    format!("it did not answer within {} s", within.as_secs_f64())
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let outcome = self.send(request).await;
        *self.last.lock() = match &outcome {
            Ok(response) if response.status().is_success() => ResponseOutcome {
                failure: None,
                refused: Refused::of(response.body()),
            },
            Ok(response) => ResponseOutcome {
                failure: Some(format!("it answers {}", response.status())),
                refused: None,
            },
            Err(reason) => ResponseOutcome {
                failure: Some(reason.clone()),
                refused: None,
            },
        };
        Ok(outcome?)
    }
}
