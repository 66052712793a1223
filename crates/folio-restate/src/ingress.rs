//! Submits runs to Restate.

use async_trait::async_trait;
use folio::SpaceName;
use folio::memory::causes::with_causes;
use folio::memory::{RunId, Seq};
use folio::runner::{Dispatch, Fate, RunnerError};
use serde_json::Value;

use crate::object::{HANDLER, SERVICE};
use crate::place::{Place, RunKey};

/// How many characters of an error response are quoted.
const ANSWER_CHARS: usize = 300;
/// The status with which Restate answers for a request whose result is not ready.
const NOT_READY: u16 = 470;
/// The status with which a worker answers for a run that its store does not have.
pub(crate) const NO_SUCH_RUN: u16 = 404;
/// The status with which a worker answers for a run that was forgotten.
pub(crate) const RUN_GONE: u16 = 410;

/// The ingress of Restate, which takes requests. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ingress {
    place: Place,
    client: reqwest::Client,
}

/// Restate's id of the invocation that a request started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call(String);

/// The outcome of submitting a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandedIn {
    /// A worker will be called, or was already called for the same request.
    Taken(Call),
    /// Restate knows no worker: it was told of none, or has lost its data.
    NoWorkerKnown,
}

impl Ingress {
    /// A client for the ingress at `place`. Sends no request yet.
    ///
    /// # Errors
    ///
    /// `Dispatch` if no connection is possible at all, for example because this machine has no certificates.
    pub fn at(place: Place) -> Result<Self, RunnerError> {
        let client = folio::model::http_client(place.is_plain()).map_err(|reason| RunnerError::Dispatch {
            at: place.to_string(),
            reason,
        })?;
        Ok(Self { place, client })
    }

    /// What became of the call for `run`. A call that Restate has forgotten counts as taken: nobody is called for it
    /// any more.
    pub(crate) async fn fetch_call_fate(&self, call: &Call, run: RunId) -> Result<Fate, RunnerError> {
        let address = self.place.url_below(&["restate", "invocation", &call.0, "output"]);
        let sent = self.client.get(address).send().await;
        let response = sent.map_err(|error| self.unreachable_error(error))?;
        match response.status().as_u16() {
            NOT_READY => Ok(Fate::Open),
            // No answer about the call: Restate is starting, is overloaded, or cannot be reached by the proxy before
            // it.
            429 | 502..=504 => Ok(Fate::Open),
            // A worker that does not have the run names the run; Restate names the call.
            NO_SUCH_RUN => {
                let body = response.text().await.map_err(|error| self.unreachable_error(error))?;
                Ok(if body.contains(&run.to_string()) {
                    Fate::Refused {
                        at: self.place.to_string(),
                        reason: "the worker that was called has no such run: it uses another store".to_owned(),
                    }
                } else {
                    Fate::Taken
                })
            }
            _ => Ok(Fate::Taken),
        }
    }

    /// The URL is removed: the error names the address already, and the rest differs from run to run.
    fn unreachable_error(&self, error: reqwest::Error) -> RunnerError {
        self.failed(with_causes(&error.without_url()))
    }

    pub(crate) fn failed(&self, reason: String) -> RunnerError {
        RunnerError::Dispatch {
            at: self.place.to_string(),
            reason,
        }
    }

    /// Submits `key`. The same `request` starts only one call as long as Restate remembers it (a day).
    pub(crate) async fn hand_in(&self, key: &RunKey, request: &str) -> Result<HandedIn, RunnerError> {
        let address = self.place.url_below(&[SERVICE, &key.to_string(), HANDLER, "send"]);
        let sending = self.client.post(address).header("idempotency-key", request).send();
        let response = sending.await.map_err(|error| self.unreachable_error(error))?;
        let status = response.status();
        if status.is_success() {
            let accepted: Value = response.json().await.map_err(|error| self.unreachable_error(error))?;
            let call = accepted["invocationId"].as_str();
            let call = call.ok_or_else(|| self.failed(format!("its answer has no invocation id: {accepted}")))?;
            return Ok(HandedIn::Taken(Call(call.to_owned())));
        }
        if status == reqwest::StatusCode::NOT_FOUND {
            return Ok(HandedIn::NoWorkerKnown);
        }
        let body = response.text().await.unwrap_or_default();
        let body: String = body.chars().take(ANSWER_CHARS).collect();
        Err(self.failed(format!("it answers {status}: {body}")))
    }
}

#[async_trait]
impl Dispatch for Ingress {
    async fn dispatch(&self, space: &SpaceName, run: RunId, head: Seq) -> Result<(), RunnerError> {
        let key = RunKey {
            space: space.clone(),
            run,
        };
        match self.hand_in(&key, &request_at(&key, head)).await? {
            HandedIn::Taken(_) => Ok(()),
            HandedIn::NoWorkerKnown => Err(self.failed("it knows of no worker".to_owned())),
        }
    }

    async fn fate(&self, space: &SpaceName, run: RunId, head: Seq) -> Result<Fate, RunnerError> {
        let key = RunKey {
            space: space.clone(),
            run,
        };
        // The same request is the same call, unless Restate has lost it: then it is submitted anew.
        match self.hand_in(&key, &request_at(&key, head)).await? {
            HandedIn::Taken(call) => self.fetch_call_fate(&call, run).await,
            HandedIn::NoWorkerKnown => Ok(Fate::Open),
        }
    }
}

/// The idempotency key of the request to drive a run whose journal ends at `head`: all that find out that it should be
/// driven use the same.
pub(crate) fn request_at(key: &RunKey, head: Seq) -> String {
    format!("{key}@{}", head.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A fake Restate that answers each request with `status` and `body`, and passes the request to `asked`.
    pub(crate) async fn fake_restate(
        status: &'static str,
        body: &'static str,
        asked: impl Fn() + Send + 'static,
    ) -> Place {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut piece = [0; 4096];
                let _read = stream.read(&mut piece).await.unwrap();
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                asked();
            }
        });
        place.parse().unwrap()
    }

    #[tokio::test]
    async fn call_stays_open_on_not_ready_and_gateway_statuses() {
        let run: RunId = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        for (status, body, fate) in [
            ("470 Not Ready", "", Fate::Open),
            ("429 Too Many Requests", "", Fate::Open),
            ("502 Bad Gateway", "<html>", Fate::Open),
            ("503 Service Unavailable", "{}", Fate::Open),
            ("504 Gateway Timeout", "", Fate::Open),
            ("200 OK", "\"waits\"", Fate::Taken),
            ("500 Internal Server Error", "{}", Fate::Taken),
            ("404 Not Found", "{\"message\": \"no such call\"}", Fate::Taken),
        ] {
            let ingress = Ingress::at(fake_restate(status, body, || {}).await).unwrap();
            let found = ingress.fetch_call_fate(&Call("inv_1".to_owned()), run).await.unwrap();
            assert_eq!(found, fate, "{status}");
        }
    }
}
