//! Why a model did not answer, in words that say what can be done. The provider's own message is included where it
//! helps.

use std::time::Duration;

use folio_memory::Timestamp;
use folio_memory::excerpt::{cut, one_line};
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;

use super::Patience;
use super::quotes::without_quotes;
use super::wire::Target;
use crate::error::{ModelError, ModelErrorKind, UsedUp};
use crate::model::Request;
use crate::reach::{host_of, unreached};

/// How many characters of a provider's message are kept.
const MESSAGE_CHARS_MAX: usize = 300;
/// The longest pause requested by a provider that is respected.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Groq's error codes for a call, or JSON, of the model that cannot be parsed.
const UNPARSABLE_CODES: [&str; 2] = ["tool_use_failed", "json_validate_failed"];

/// Creates the errors of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failures<'a> {
    pub(super) model: &'a str,
    pub(super) target: &'a Target,
    pub(super) request: &'a Request,
    pub(super) patience: Patience,
}

impl Failures<'_> {
    pub(super) fn error(self, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        ModelError::new(self.model, kind, message)
    }

    /// The answer ended early.
    pub(super) fn cut_off(self) -> ModelError {
        self.error(ModelErrorKind::Unavailable, "its answer broke off before the end")
    }

    /// A failure of the connection.
    pub(super) fn of_connection(self, error: &reqwest::Error) -> ModelError {
        if error.is_builder() {
            return self.error(ModelErrorKind::Invalid, "its address cannot be used");
        }
        if error.is_connect() {
            return self.error(ModelErrorKind::Unreached, unreached(error, &self.target.url));
        }
        if error.is_timeout() {
            let seconds = self.patience.connect_s;
            let message = format!("it could not be reached within {seconds} s (`connect_s` of `patience`)");
            return self.error(ModelErrorKind::Unavailable, message);
        }
        self.cut_off()
    }

    pub(super) fn too_slow_to_begin(self) -> ModelError {
        let seconds = self.patience.first_byte_s;
        let message = format!("it did not begin to answer within {seconds} s (`first_byte_s` of `patience`)");
        self.error(ModelErrorKind::Unavailable, message)
    }

    pub(super) fn too_slow_to_go_on(self) -> ModelError {
        let seconds = self.patience.between_s;
        let message = format!("it stopped in the middle of its answer for {seconds} s (`between_s` of `patience`)");
        self.error(ModelErrorKind::Unavailable, message)
    }

    pub(super) fn too_slow_to_end(self) -> ModelError {
        let seconds = self.patience.whole_s;
        let message = format!("it was not done after {seconds} s (`whole_s` of `patience`)");
        self.error(ModelErrorKind::Unavailable, message)
    }

    /// An error inside an answer, or instead of one.
    pub(super) fn of_event(self, body: &Value, has_begun: bool) -> ModelError {
        let problem = if has_begun {
            "it broke off its answer"
        } else {
            "it answered with an error"
        };
        let error = self.error_from_body(problem, None, ModelErrorKind::Unavailable, body);
        match has_begun {
            // This holds even for a rate limit: the pieces that came were generated.
            true => ModelError {
                used: UsedUp::Unknown,
                ..error
            },
            false => error,
        }
    }

    /// The response is not an answer in any known form. Some gateways report errors with status 200.
    pub(super) fn of_no_answer(self, bytes: &[u8]) -> ModelError {
        let body = serde_json::from_slice::<Value>(bytes);
        if let Ok(body) = &body
            && is_error(body)
        {
            return self.error_from_body("it answered with an error", None, ModelErrorKind::Malformed, body);
        }
        let url = self.printable_url();
        let (kind, message) = match bytes.trim_ascii() {
            [] => (
                ModelErrorKind::Malformed,
                format!("its answer is empty; is {url} the right address?"),
            ),
            [b'<', ..] => (ModelErrorKind::Invalid, self.web_page("it answered with a web page")),
            // It would not be different the next time.
            _ if body.is_ok() => (
                ModelErrorKind::Invalid,
                format!(
                    "it answered with JSON that is neither an answer nor a stream of events; is {url} the right address?"
                ),
            ),
            _ => (
                ModelErrorKind::Malformed,
                format!(
                    "its answer could not be read: nothing in it is a piece of an answer; is {url} the right address?"
                ),
            ),
        };
        self.error(kind, message)
    }

    fn web_page(self, problem: &str) -> String {
        let url = self.printable_url();
        format!("{problem}; is {url} the right address, or is there a proxy in front of it that requires a login?")
    }

    /// The URL that was asked, in a form that may be shown. Addresses with a name and password are refused elsewhere.
    fn printable_url(self) -> String {
        let url = &self.target.url;
        let url = url.split_once('?').map_or(url.as_str(), |(url, _)| url);
        self.without_key(url)
    }

    /// A response with an error status.
    pub(super) fn of_status(self, status: u16, headers: Option<&HeaderMap>, body: &str) -> ModelError {
        if (300..=399).contains(&status) {
            let to = headers.and_then(|headers| headers.get(LOCATION)?.to_str().ok());
            let to = to.filter(|to| to.contains("://")).map(host_of);
            let to = to.map_or_else(String::new, |host| format!(" to {}", self.without_key(host)));
            let message = format!(
                "it said {status} and redirects{to}, which is not followed because of the key; put the right address into the settings"
            );
            return self.error(ModelErrorKind::Invalid, message);
        }
        let is_page = body.trim_start().starts_with('<');
        let body: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let mut error = self.error_from_body(
            &format!("it said {status}"),
            Some(status),
            ModelErrorKind::Invalid,
            &body,
        );
        if is_page {
            error.message = self.web_page(&format!("it said {status} with a web page"));
        }
        // A server that is unavailable has not begun.
        if status == 503 && error.kind == ModelErrorKind::Unavailable {
            error.kind = ModelErrorKind::Unreached;
        }
        error.retry_after = headers.and_then(retry_after).or_else(|| retry_delay(&body));
        error
    }

    /// The error that `body` reports, classified, with what can be done; `otherwise` is its kind if nothing says.
    fn error_from_body(
        self,
        summary: &str,
        status: Option<u16>,
        otherwise: ModelErrorKind,
        body: &Value,
    ) -> ModelError {
        let (code, message) = (self.code(body), words_in(body));
        let said_status = status_of(body);
        let problem = Problem {
            status: status.or(said_status),
            code: &code,
            said: &message,
            body,
        };
        let kind = problem.kind().unwrap_or(otherwise);
        let number = said_status
            .filter(|_| status.is_none())
            .map(|status| status.to_string());
        let codes: Vec<String> = number
            .into_iter()
            .chain(Some(code.clone()).filter(|code| !code.is_empty()))
            .collect();
        let detail = self.message_for(kind, &message);
        let advice = self.advice(kind, &problem);
        let codes = in_parentheses(&codes.join(", "));
        self.error(kind, format!("{summary}{codes}{detail}{advice}"))
    }

    /// What can be done about it, if the message does not say that already.
    fn advice(self, kind: ModelErrorKind, problem: &Problem<'_>) -> String {
        match kind {
            ModelErrorKind::Unauthorised if problem.is_out_of_credit() => {
                "; there is no credit left: add some with the provider, or ask another model".to_owned()
            }
            ModelErrorKind::Unauthorised if self.target.key.is_none() => {
                "; no key was sent (docs/models.md, \"Keys\")".to_owned()
            }
            ModelErrorKind::Unauthorised => {
                "; the key is wrong or may not do this: put another one in its place (docs/models.md, \"Keys\")"
                    .to_owned()
            }
            ModelErrorKind::Invalid if problem.is_no_such_model() => {
                format!(
                    "; is {:?} the name that the provider has for the model?",
                    self.target.name
                )
            }
            ModelErrorKind::Invalid if problem.status == Some(404) => {
                format!("; nothing is at {}: is that the right address?", self.printable_url())
            }
            _ => String::new(),
        }
    }

    /// The error code, if it contains nothing else, such as the key or part of the request.
    fn code(self, body: &Value) -> String {
        let code = code_of(body);
        let has_key = self.target.key.as_ref().is_some_and(|key| key.redact(&code) != code);
        if has_key || without_quotes(&code, self.request) != code {
            String::new()
        } else {
            code
        }
    }

    /// A provider's message for a failure of that kind.
    fn message_for(self, kind: ModelErrorKind, message: &str) -> String {
        match kind {
            // A message about the key may quote it.
            ModelErrorKind::Unauthorised => String::new(),
            _ => self.safe_message(message),
        }
    }

    /// A provider's message in a form that may be shown: short, on one line, without the key and without what it quotes
    /// of the request.
    fn safe_message(self, message: &str) -> String {
        // Done before shortening, so that no part of a key or of a quote remains at the end.
        let message = without_quotes(&self.without_key(&one_line(message)), self.request);
        let message = cut(&message, MESSAGE_CHARS_MAX);
        if message.is_empty() {
            String::new()
        } else {
            format!(": {}", message.trim_end_matches('.'))
        }
    }

    /// Somebody else's text without the key.
    fn without_key(self, text: &str) -> String {
        match &self.target.key {
            Some(key) => key.redact(text),
            None => text.to_owned(),
        }
    }
}

/// Google wraps errors in lists.
fn first_of(body: &Value) -> &Value {
    match body {
        Value::Array(items) => items.first().unwrap_or(body),
        _ => body,
    }
}

/// The error object, in any provider's form.
fn error_in(body: &Value) -> &Value {
    let body = first_of(body);
    body.get("error").filter(|error| !error.is_null()).unwrap_or(body)
}

/// The error code: only letters, digits and a few signs, so that nothing else is included.
fn code_of(body: &Value) -> String {
    let error = error_in(body);
    let codes = ["code", "type", "status"]
        .iter()
        .filter_map(|name| error.get(*name)?.as_str());
    let mut codes: Vec<&str> = codes.filter(|code| *code != "error" && is_code(code)).collect();
    codes.dedup();
    codes.join(", ")
}

/// Whether `word` is an error code and nothing else.
pub(super) fn is_code(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=60).contains(&word.len()) && word.chars().all(is_plain)
}

fn words_in(body: &Value) -> String {
    let error = error_in(body);
    let message = error.get("message").or_else(|| error.get("detail")).unwrap_or(error);
    message.as_str().unwrap_or_default().to_owned()
}

fn in_parentheses(code: &str) -> String {
    if code.is_empty() {
        String::new()
    } else {
        format!(" ({code})")
    }
}

/// Whether what came instead of an answer reports an error. Most providers use the field `error`; Mistral and older
/// servers put the fields at the top level.
pub(super) fn is_error(body: &Value) -> bool {
    let body = first_of(body);
    let is_said = match &body["error"] {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    is_said || body["object"] == "error" || body["type"] == "error"
}

/// The HTTP status that an error contains in its body: gateways put the upstream status there, and Google repeats its
/// own.
fn status_of(body: &Value) -> Option<u16> {
    let code = error_in(body).get("code").or_else(|| error_in(body).get("status"))?;
    let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..=599).contains(status))
}

/// What a provider reports about a failure.
struct Problem<'a> {
    /// The status of the response, or the one inside it.
    status: Option<u16>,
    code: &'a str,
    said: &'a str,
    body: &'a Value,
}

impl Problem<'_> {
    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.code.contains(word))
    }

    fn message_has(&self, words: &[&str]) -> bool {
        let message = self.said.to_ascii_lowercase();
        words.iter().any(|word| message.contains(word))
    }

    fn is_out_of_credit(&self) -> bool {
        // Anthropic reports this with 400, in words only.
        self.status == Some(402)
            || self.has(&["insufficient_quota", "billing"])
            || self.message_has(&["credit balance"])
    }

    fn is_unauthorised(&self) -> bool {
        // Google reports this with 400, and in its details.
        let reasons = error_in(self.body).get("details").and_then(Value::as_array);
        let mut reasons = reasons
            .into_iter()
            .flatten()
            .filter_map(|detail| detail.get("reason")?.as_str());
        self.has(&[
            "authentication",
            "UNAUTHENTICATED",
            "permission",
            "PERMISSION_DENIED",
            "invalid_api_key",
        ]) || reasons.any(|reason| reason == "API_KEY_INVALID")
    }

    fn is_no_such_model(&self) -> bool {
        let is_absent = self.status == Some(404) || self.has(&["not_found", "NOT_FOUND"]);
        is_absent && (self.has(&["model_not_found", "not_found_error"]) || self.message_has(&["model"]))
    }

    /// What the caller can do; `None` if nothing here says.
    fn kind(&self) -> Option<ModelErrorKind> {
        if self.is_out_of_credit() || self.is_unauthorised() {
            return Some(ModelErrorKind::Unauthorised);
        }
        let by_status = match self.status {
            Some(401 | 403) => Some(ModelErrorKind::Unauthorised),
            Some(429 | 529) => Some(ModelErrorKind::RateLimited),
            Some(408 | 409 | 425 | 500..=599) => Some(ModelErrorKind::Unavailable),
            Some(413) => Some(ModelErrorKind::TooLong),
            _ => None,
        };
        let by_code = if self.has(&["rate_limit", "RESOURCE_EXHAUSTED"]) {
            Some(ModelErrorKind::RateLimited)
        } else if is_too_long(self.code, self.said) {
            Some(ModelErrorKind::TooLong)
        } else if is_refusal(self.code) {
            Some(ModelErrorKind::Refused)
        } else if self.has(&UNPARSABLE_CODES) {
            Some(ModelErrorKind::Malformed)
        } else {
            None
        };
        // An error code is more specific than a status.
        let by_code = by_code.or_else(|| by_status.or_else(|| self.status.map(|_| ModelErrorKind::Invalid)));
        by_code.or_else(|| self.kind_without_status())
    }

    fn kind_without_status(&self) -> Option<ModelErrorKind> {
        if self.has(&[
            "invalid_request",
            "not_found",
            "NOT_FOUND",
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
        ]) {
            Some(ModelErrorKind::Invalid)
        } else if self.has(&[
            "overloaded",
            "server_error",
            "api_error",
            "timeout",
            "UNAVAILABLE",
            "INTERNAL",
        ]) {
            Some(ModelErrorKind::Unavailable)
        } else {
            None
        }
    }
}

fn is_too_long(code: &str, message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    code.contains("context_length_exceeded")
        || code.contains("request_too_large")
        || message.contains("prompt is too long")
        || message.contains("maximum context length")
        || message.contains("context window")
        || message.contains("input token count") && message.contains("exceeds")
}

fn is_refusal(code: &str) -> bool {
    ["content_filter", "content_policy", "safety", "policy_violation"]
        .iter()
        .any(|word| code.contains(word))
}

/// Milliseconds in a header of their own, or what [`pause_in`] parses; a date counts relative to the date of the
/// response.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let millis = text("retry-after-ms").and_then(number).map(|ms| ms / 1000.0);
    millis.and_then(bounded).or_else(|| {
        let answered = text("date").and_then(date);
        let pause = pause_in(text("retry-after")?, answered)?;
        Some(pause.min(RETRY_AFTER_MAX))
    })
}

/// How long a `Retry-After` header says to wait: seconds, with or without a fraction, or a date, which counts relative
/// to `now`; `None` for a date in the past.
#[must_use]
pub fn pause_in(text: &str, now: Option<Timestamp>) -> Option<Duration> {
    let until = || Some(date(text)?.since(now?)).filter(|pause| !pause.is_zero());
    match number(text) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => until(),
    }
}

fn number(text: &str) -> Option<f64> {
    let number = text.trim().parse::<f64>().ok();
    number.filter(|number| number.is_finite() && *number >= 0.0)
}

/// Parses an HTTP date.
fn date(text: &str) -> Option<Timestamp> {
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
    Some(Timestamp::from_millis(date.timestamp().as_millisecond()))
}

/// How long Google says to wait, in the body of its response: `"retryDelay": "3.5s"`.
fn retry_delay(body: &Value) -> Option<Duration> {
    let details = error_in(body).get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    bounded(
        delay
            .strip_suffix('s')?
            .parse()
            .ok()
            .filter(|seconds| *seconds >= 0.0)?,
    )
}

fn bounded(seconds: f64) -> Option<Duration> {
    let wait = Duration::try_from_secs_f64(seconds).ok();
    wait.map(|wait| wait.min(RETRY_AFTER_MAX))
}
