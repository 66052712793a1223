//! One request and the frames of its answer, in order and with a limited size.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Client, Response};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer_limit;
use super::failure::Failures;
use super::{Patience, seconds};
use crate::error::{ModelError, ModelErrorKind};

/// The maximum size of an answer in bytes, as it is sent.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The maximum size of one frame in bytes. Most hold a word or two; a server that puts a whole answer into one needs
/// half a megabyte for a hundred thousand tokens.
const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many bytes outside of frames are read: of an error, or of what came instead of an answer, except for JSON.
/// Providers describe an error in a few hundred bytes, of which only the beginning is shown.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Why no answer began.
#[derive(Debug)]
pub(super) struct NotBegun {
    pub(super) error: ModelError,
    /// Whether the provider said that the request is wrong, and named its temperature.
    pub(super) names_temperature: bool,
    /// The most tokens of an answer, if the provider said that the request wanted more.
    pub(super) answer_tokens_max: Option<u32>,
}

impl From<ModelError> for NotBegun {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            names_temperature: false,
            answer_tokens_max: None,
        }
    }
}

/// The streamed answer to one request.
#[derive(Debug)]
pub(super) struct Fetched<'a> {
    response: Response,
    /// The time limit between two chunks.
    between: Duration,
    bytes: u64,
    events: Events,
    failures: Failures<'a>,
}

impl<'a> Fetched<'a> {
    /// Sends `body` under `idempotency_key`, and waits until the answer begins.
    ///
    /// # Errors
    ///
    /// Why there is no answer, in the provider's words where they help.
    pub(super) async fn begin(
        client: &Client,
        body: &Value,
        idempotency_key: &str,
        patience: Patience,
        failures: Failures<'a>,
    ) -> Result<Self, NotBegun> {
        let target = failures.target;
        let mut request = client.post(&target.url).json(body);
        for (name, value) in target.headers(idempotency_key) {
            request = request.header(name, value);
        }
        let sent = timeout(seconds(patience.first_byte_s), request.send()).await;
        let response = sent
            .map_err(|_| failures.too_slow_to_begin())?
            .map_err(|error| failures.of_connection(&error))?;
        let between = seconds(patience.between_s);
        if response.status().is_success() {
            return Ok(Self {
                response,
                between,
                bytes: 0,
                events: Events::default(),
                failures,
            });
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let body = beginning_of(response, between).await;
        let body = String::from_utf8_lossy(&body);
        let error = failures.of_status(status.as_u16(), Some(&headers), &body);
        let is_invalid = error.kind == ModelErrorKind::Invalid;
        Err(NotBegun {
            names_temperature: is_invalid && body.to_ascii_lowercase().contains("temperature"),
            answer_tokens_max: answer_limit::limit_in(&body, failures.request.tokens_max).filter(|_| is_invalid),
            error,
        })
    }

    /// The data of the next frame, if it comes `until` then; `None` at the end.
    ///
    /// # Errors
    ///
    /// Why no more can be read.
    pub(super) async fn next(&mut self, until: Option<Instant>) -> Result<Option<String>, ModelError> {
        loop {
            if let Some(frame) = self.events.ready.pop_front() {
                return Ok(Some(frame));
            }
            // Comments keep a connection alive, and do not count as something that was waited for.
            let between = Instant::now() + self.between;
            let ends = until.map_or(between, |until| until.min(between));
            let Ok(chunk) = timeout_at(ends, self.response.chunk()).await else {
                return Err(self.failures.too_slow_to_go_on());
            };
            let Some(chunk) = chunk.map_err(|error| self.failures.of_connection(&error))? else {
                return Ok(None);
            };
            self.bytes = self.bytes.saturating_add(chunk.len() as u64);
            let result = self.events.take_in(&chunk);
            let problem = match result {
                Err(problem) => problem,
                Ok(()) if self.bytes > ANSWER_BYTES_MAX => format!("its answer has more than {ANSWER_BYTES_MAX} bytes"),
                Ok(()) => continue,
            };
            return Err(self.failures.error(ModelErrorKind::Malformed, problem));
        }
    }

    /// The data of an unterminated frame. Some servers omit the empty line at the end.
    pub(super) fn take_unterminated_frame(&mut self) -> Option<String> {
        self.events.end()
    }

    /// What came outside of frames, as far as it is kept.
    pub(super) fn bytes_outside_frames(&self) -> &[u8] {
        &self.events.outside
    }
}

/// The beginning of an error response. A read error counts as its end.
async fn beginning_of(mut response: Response, between: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Ok(Some(chunk))) = timeout(between, response.chunk()).await {
        let room = ERROR_BYTES_MAX - body.len();
        if chunk.len() >= room {
            body.extend_from_slice(&chunk[..room]);
            break;
        }
        body.extend_from_slice(&chunk);
    }
    body
}

/// Parses a stream of server-sent events from arbitrary chunks. Only their data is kept: its content says what kind of
/// event it is.
#[derive(Debug, Default)]
struct Events {
    /// The data of events that are complete.
    ready: VecDeque<String>,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// The data of the event that is not complete yet, if it has any.
    data: Option<Vec<u8>>,
    /// Whether the previous line ended with a carriage return; a line feed now belongs to it.
    after_return: bool,
    /// Whether the first line was read.
    has_begun: bool,
    /// The beginning of what is not part of an event.
    outside: Vec<u8>,
}

impl Events {
    /// # Errors
    ///
    /// Why the stream cannot be read.
    fn take_in(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let buffered = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
            if buffered + end.unwrap_or(bytes.len()) > FRAME_BYTES_MAX {
                return Err(format!("a piece of its answer has more than {FRAME_BYTES_MAX} bytes"));
            }
            let Some(end) = end else {
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.line.extend_from_slice(&bytes[..end]);
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line()?;
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), String> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.has_begun, true) && line.starts_with(b"\xEF\xBB\xBF") {
            line.drain(..3);
        }
        if line.is_empty() {
            let Some(data) = self.data.take() else { return Ok(()) };
            let data = String::from_utf8(data).map_err(|_| "its answer is not text".to_owned())?;
            self.ready.push_back(data);
            return Ok(());
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        match &line[..colon] {
            b"data" => {
                let value = line.get(colon + 1..).unwrap_or_default();
                match &mut self.data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    None => self.data = Some(value.to_vec()),
                }
            }
            // A comment; some servers send these to keep the connection alive.
            b"" | b"event" | b"id" | b"retry" => {}
            _ if self.outside.len() + line.len() < self.outside_max(&line) => {
                self.outside.extend_from_slice(&line);
                self.outside.push(b'\n');
            }
            _ => {}
        }
        Ok(())
    }

    /// How much is kept outside of frames, of which `line` is the next: a JSON document may be an answer in one piece.
    fn outside_max(&self, line: &[u8]) -> usize {
        let beginning = if self.outside.is_empty() { line } else { &self.outside };
        match beginning.trim_ascii_start() {
            [b'{' | b'[', ..] => FRAME_BYTES_MAX,
            _ => ERROR_BYTES_MAX,
        }
    }

    fn end(&mut self) -> Option<String> {
        if !self.line.is_empty() {
            self.end_line().ok()?;
        }
        String::from_utf8(self.data.take()?).ok()
    }
}
