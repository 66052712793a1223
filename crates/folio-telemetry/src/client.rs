//! How spans get to their collector: in the time that they have, with what belongs to its address, and with words for what fails.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use parking_lot::{Mutex, MutexGuard};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::answer::Refused;

/// Bytes of an answer that are read: a collector has little to say.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What came of the last request, of whoever asks and of whoever tells people.
#[derive(Debug, Clone, Default)]
pub(crate) struct Last(Arc<Mutex<Came>>);

#[derive(Debug, Default)]
struct Came {
    /// Why it failed.
    failure: Option<String>,
    /// What of it was refused.
    refused: Option<Refused>,
}

impl Last {
    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// What of it was refused, once.
    pub(crate) fn take_refused(&self) -> Option<Refused> {
        self.lock().refused.take()
    }

    fn lock(&self) -> MutexGuard<'_, Came> {
        self.0.lock()
    }
}

/// Sends what the exporter makes.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) inner: reqwest::Client,
    /// How long a request may take.
    pub(crate) within: Duration,
    /// Whether what `OTEL_EXPORTER_OTLP_HEADERS` says goes along. It may be a key, and is for the address that stands beside it.
    pub(crate) takes_headers: bool,
    pub(crate) last: Last,
}

impl Client {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (parts, body) = request.into_parts();
        let headers = if self.takes_headers {
            parts.headers
        } else {
            // The exporter adds what the environment says, whatever address it was given.
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))])
        };
        let asked = self.inner.post(parts.uri.to_string()).headers(headers);
        let asked = asked.timeout(self.within).body(body).send().await;
        let mut answer = asked.map_err(|error| self.in_words(error))?;
        let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
        let mut said = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| self.in_words(error))? {
            said.extend_from_slice(&piece);
            if said.len() > ANSWER_BYTES_MAX {
                return Err(format!("it answers with more than {ANSWER_BYTES_MAX} bytes"));
            }
        }
        let mut response = Response::new(Bytes::from(said));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// What is wrong, without the address: it may hold a password.
    fn in_words(&self, error: reqwest::Error) -> String {
        if error.is_timeout() {
            return late(self.within);
        }
        folio::memory::causes::innermost(&error.without_url()).to_string()
    }
}

/// What is said of an answer that did not come in time.
pub(crate) fn late(within: Duration) -> String {
    format!("it did not answer within {} s", within.as_secs_f64())
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answered = self.send(request).await;
        *self.last.lock() = match &answered {
            Ok(response) if response.status().is_success() => Came {
                failure: None,
                refused: Refused::of(response.body()),
            },
            Ok(response) => Came {
                failure: Some(format!("it answers {}", response.status())),
                refused: None,
            },
            Err(reason) => Came {
                failure: Some(reason.clone()),
                refused: None,
            },
        };
        Ok(answered?)
    }
}
