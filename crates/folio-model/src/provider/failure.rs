//! From an error of the library to one of ours. The library's own words are never handed on: some hold the whole request.

use std::error::Error as StdError;
use std::time::Duration;

use genai::Error;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::wire::Target;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::Request;
use crate::reach::unreached;

/// Characters of a provider's words that are handed on.
const WORDS_MAX: usize = 300;
/// Characters that a provider's words may have in common with what was asked, in a row.
const COMMON_MAX: usize = 24;
/// The longest that a provider's wish to be left alone is believed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What Groq says where a model wrote a call, or JSON, that cannot be read.
const NONSENSE: [&str; 2] = ["tool_use_failed", "json_validate_failed"];

/// Makes errors of what went wrong with one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failures<'a> {
    pub(super) model: &'a str,
    pub(super) target: &'a Target,
    pub(super) request: &'a Request,
}

impl Failures<'_> {
    pub(super) fn error(self, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        ModelError {
            model: self.model.to_owned(),
            kind,
            message: message.into(),
            retry_after: None,
        }
    }

    /// What became of the whole request.
    pub(super) fn of(self, error: &Error) -> ModelError {
        // A status inside of a stream is wrapped once more.
        if let Error::WebStream { error: inner, .. } = error {
            if let Some(inner) = inner.downcast_ref::<Error>() {
                return self.of(inner);
            }
            return self.of_transport(inner.as_ref());
        }
        if let Some(status) = error.status() {
            return self.of_status(status.as_u16(), error.headers(), body_of(error));
        }
        match error {
            Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => match webc_error {
                genai::webc::Error::Reqwest(error) => self.of_transport(error),
                _ => self.error(ModelErrorKind::Malformed, "its answer is not JSON"),
            },
            Error::ChatResponse { body, .. } => self.of_event(body),
            Error::StreamParse { serde_error, .. } if serde_error.is_eof() => self.cut_off(),
            Error::StreamParse { serde_error, .. } if serde_error.line() == 0 => {
                // What the Responses say of a failure comes as the text of such an error.
                let words = self.words(&serde_error.to_string());
                self.error(ModelErrorKind::Unavailable, format!("it failed{words}"))
            }
            Error::StreamParse { .. }
            | Error::ChatResponseGeneration { .. }
            | Error::InvalidJsonResponseElement { .. }
            | Error::NoChatResponse { .. }
            | Error::JsonValueExt(_)
            | Error::SerdeJson(_) => self.error(ModelErrorKind::Malformed, "its answer could not be read"),
            _ => self.error(ModelErrorKind::Invalid, "the request cannot be put in its form"),
        }
    }

    /// The answer stopped before its end.
    pub(super) fn cut_off(self) -> ModelError {
        self.error(ModelErrorKind::Unavailable, "its answer broke off before the end")
    }

    fn of_transport(self, error: &(dyn StdError + 'static)) -> ModelError {
        if let Some(timeout) = error.downcast_ref::<genai::webc::StreamTimeout>() {
            return match timeout {
                genai::webc::StreamTimeout::Headers => self.too_slow_to_begin(),
                genai::webc::StreamTimeout::Read => self.too_slow_to_go_on(),
            };
        }
        if error.is::<std::string::FromUtf8Error>() || error.is::<std::str::Utf8Error>() {
            return self.error(ModelErrorKind::Malformed, "its answer is not text");
        }
        match error.downcast_ref::<reqwest::Error>() {
            Some(error) => self.of_connection(error),
            None => self.cut_off(),
        }
    }

    /// What became of a connection.
    pub(super) fn of_connection(self, error: &reqwest::Error) -> ModelError {
        if error.is_builder() {
            return self.error(ModelErrorKind::Invalid, "its address cannot be used");
        }
        let what = if error.is_timeout() {
            "it could not be reached in time".to_owned()
        } else if error.is_connect() {
            unreached(error, &self.target.url)
        } else {
            return self.cut_off();
        };
        self.error(ModelErrorKind::Unavailable, what)
    }

    pub(super) fn too_slow_to_begin(self) -> ModelError {
        self.error(ModelErrorKind::Unavailable, "it did not begin to answer in time")
    }

    pub(super) fn too_slow_to_go_on(self) -> ModelError {
        self.error(ModelErrorKind::Unavailable, "it stopped in the middle of its answer")
    }

    /// An error inside of an answer that began well.
    pub(super) fn of_event(self, body: &Value) -> ModelError {
        let code = self.code(body);
        let kind = kind_of(body, &code).unwrap_or(ModelErrorKind::Unavailable);
        let words = self.words_for(kind, &words_in(body));
        self.error(kind, format!("it broke off its answer{}{words}", in_parentheses(&code)))
    }

    /// What came is no answer in any form that is known.
    pub(super) fn no_answer(self) -> ModelError {
        let message = "its answer could not be read: nothing in it is a piece of an answer";
        self.error(ModelErrorKind::Malformed, message)
    }

    /// The same, with what came instead: some gateways say with status 200 what was wrong.
    pub(super) fn of_no_answer(self, came: &[u8]) -> ModelError {
        match serde_json::from_slice::<Value>(came) {
            Ok(body) if is_error(&body) => {
                let code = self.code(&body);
                let kind = kind_of(&body, &code).unwrap_or(ModelErrorKind::Malformed);
                let words = self.words_for(kind, &words_in(&body));
                self.error(
                    kind,
                    format!("it answered with an error{}{words}", in_parentheses(&code)),
                )
            }
            _ => self.no_answer(),
        }
    }

    /// An answer that is an error.
    pub(super) fn of_status(self, status: u16, headers: Option<&HeaderMap>, body: &str) -> ModelError {
        let body: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let (code, said) = (self.code(&body), words_in(&body));
        let kind = kind_of_status(status, &code, &said);
        let words = self.words_for(kind, &said);
        let mut error = self.error(kind, format!("it said {status}{}{words}", in_parentheses(&code)));
        match kind {
            ModelErrorKind::Unauthorised if self.target.key.is_none() && status != 402 => {
                error.message.push_str("; no key was sent (docs/models.md, \"Keys\")");
            }
            ModelErrorKind::Unauthorised if status == 402 || code.contains("insufficient_quota") => {
                error.message.push_str("; there is no credit left");
            }
            ModelErrorKind::Unauthorised => error.message.push_str("; the key is wrong or may not do this"),
            _ => {}
        }
        error.retry_after = headers.and_then(retry_after).or_else(|| retry_delay(&body));
        error
    }

    /// The words by which programs know what was wrong, if they are no more than that.
    fn code(self, body: &Value) -> String {
        let code = code_of(body);
        let has_key = self
            .target
            .key
            .as_ref()
            .is_some_and(|key| key.taken_out_of(&code) != code);
        if has_key || self.quotes_the_request(&code) {
            String::new()
        } else {
            code
        }
    }

    /// A provider's words of a failure of that kind.
    fn words_for(self, kind: ModelErrorKind, said: &str) -> String {
        match kind {
            // What is said of a key may quote it.
            ModelErrorKind::Unauthorised => String::new(),
            _ => self.words(said),
        }
    }

    /// A provider's words as they may be shown: short, on one line, without the key and without what was asked.
    fn words(self, said: &str) -> String {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let said: String = said.chars().take(WORDS_MAX).collect();
        let said = match &self.target.key {
            Some(key) => key.taken_out_of(&said),
            None => said,
        };
        if said.is_empty() || self.quotes_the_request(&said) {
            String::new()
        } else {
            format!(": {said}")
        }
    }

    /// Whether `said` repeats a part of what was asked.
    fn quotes_the_request(self, said: &str) -> bool {
        let chars: Vec<char> = said.chars().collect();
        let asked: Vec<String> = self
            .request
            .messages
            .iter()
            .flat_map(|message| {
                let args = message.tool_calls.iter().map(|call| call.args.to_string());
                std::iter::once(message.text.clone()).chain(args)
            })
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|text| !text.is_empty())
            .collect();
        let has_a_part = chars.windows(COMMON_MAX).any(|part| {
            let part: String = part.iter().collect();
            asked.iter().any(|text| text.contains(&part))
        });
        has_a_part
            || asked
                .iter()
                .any(|text| text.chars().count() < COMMON_MAX && text.len() > 3 && said.contains(text.as_str()))
    }
}

fn body_of(error: &Error) -> &str {
    match error {
        Error::HttpError { body, .. } => body,
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => match webc_error {
            genai::webc::Error::ResponseFailedStatus { body, .. } => body,
            _ => "",
        },
        _ => "",
    }
}

/// Google puts errors into lists.
fn first_of(body: &Value) -> &Value {
    match body {
        Value::Array(items) => items.first().unwrap_or(body),
        _ => body,
    }
}

/// The object that says what was wrong, in any provider's form.
fn error_in(body: &Value) -> &Value {
    let body = first_of(body);
    body.get("error").filter(|error| !error.is_null()).unwrap_or(body)
}

/// The words by which programs know what was wrong: of letters, digits and a few signs, so that nothing else comes along.
fn code_of(body: &Value) -> String {
    let error = error_in(body);
    let codes = ["code", "type", "status"]
        .iter()
        .filter_map(|name| error.get(*name)?.as_str());
    let fine = codes.filter(|code| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        code.len() <= 60 && *code != "error" && code.chars().all(is_plain)
    });
    let mut codes: Vec<&str> = fine.collect();
    codes.dedup();
    codes.join(", ")
}

fn words_in(body: &Value) -> String {
    let error = error_in(body);
    let words = error.get("message").unwrap_or(error);
    words.as_str().unwrap_or_default().to_owned()
}

fn in_parentheses(code: &str) -> String {
    if code.is_empty() {
        String::new()
    } else {
        format!(" ({code})")
    }
}

/// Whether what came in the place of an answer says that something is wrong. Most put it into `error`; Mistral and older servers put
/// all of it side by side.
pub(super) fn is_error(body: &Value) -> bool {
    let body = first_of(body);
    let is_said = match &body["error"] {
        Value::Null | Value::Bool(false) => false,
        Value::String(words) => !words.is_empty(),
        _ => true,
    };
    is_said || body["object"] == "error" || body["type"] == "error"
}

/// What to do next after a failure inside of an answer, or of one that came with a good status; `None` if it does not say.
fn kind_of(body: &Value, code: &str) -> Option<ModelErrorKind> {
    let said = words_in(body);
    let has = |words: &[&str]| words.iter().any(|word| code.contains(word));
    // Gateways that came so far and no further put the status that they had from behind them there.
    let status = error_in(body).get("code").and_then(Value::as_u64);
    let status = status.and_then(|status| u16::try_from(status).ok().filter(|status| (400..=599).contains(status)));
    Some(match status {
        _ if has(&["insufficient_quota", "billing", "authentication", "permission"]) => ModelErrorKind::Unauthorised,
        _ if has(&["rate_limit", "RESOURCE_EXHAUSTED"]) => ModelErrorKind::RateLimited,
        _ if is_too_long(code, &said) => ModelErrorKind::TooLong,
        _ if has(&NONSENSE) => ModelErrorKind::Malformed,
        Some(status) => kind_of_status(status, code, &said),
        None if is_refusal(code) => ModelErrorKind::Refused,
        None if has(&["invalid_request", "not_found"]) => ModelErrorKind::Invalid,
        None if has(&[
            "overloaded",
            "server_error",
            "api_error",
            "timeout",
            "UNAVAILABLE",
            "INTERNAL",
        ]) =>
        {
            ModelErrorKind::Unavailable
        }
        None => return None,
    })
}

fn kind_of_status(status: u16, code: &str, said: &str) -> ModelErrorKind {
    match status {
        401..=403 => ModelErrorKind::Unauthorised,
        429 if code.contains("insufficient_quota") => ModelErrorKind::Unauthorised,
        429 | 529 => ModelErrorKind::RateLimited,
        408 | 409 | 425 | 500..=599 => ModelErrorKind::Unavailable,
        413 => ModelErrorKind::TooLong,
        _ if is_too_long(code, said) => ModelErrorKind::TooLong,
        _ if is_refusal(code) => ModelErrorKind::Refused,
        _ if NONSENSE.iter().any(|word| code.contains(word)) => ModelErrorKind::Malformed,
        _ => ModelErrorKind::Invalid,
    }
}

fn is_too_long(code: &str, said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    code.contains("context_length_exceeded")
        || code.contains("request_too_large")
        || said.contains("prompt is too long")
        || said.contains("maximum context length")
        || said.contains("context window")
        || said.contains("input token count") && said.contains("exceeds")
}

fn is_refusal(code: &str) -> bool {
    ["content_filter", "content_policy", "safety", "policy_violation"]
        .iter()
        .any(|word| code.contains(word))
}

/// Whole or broken seconds, or milliseconds in a header of their own; or a date, which is as far away as it is from that of the answer.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| {
        let text = headers.get(name)?.to_str().ok()?;
        text.trim()
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number >= 0.0)
    };
    let date = |name: &str| {
        let date = jiff::fmt::rfc2822::parse(headers.get(name)?.to_str().ok()?).ok()?;
        Some(date.timestamp().as_second())
    };
    let until = || {
        let seconds = date("retry-after")?.saturating_sub(date("date")?);
        u32::try_from(seconds)
            .ok()
            .filter(|seconds| *seconds > 0)
            .map(f64::from)
    };
    let seconds = number("retry-after-ms")
        .map(|ms| ms / 1000.0)
        .or_else(|| number("retry-after"))
        .or_else(until)?;
    bounded(seconds)
}

/// How long Google says to wait, in the body of its answer: `"retryDelay": "3.5s"`.
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
