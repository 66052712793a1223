//! The part of a server's answer that is kept.

use std::time::Duration;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use folio_memory::passage::whole_characters;
use folio_memory::readable::readable;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Value, json};

use super::hop::failed;
use crate::builtin::looks_binary;
use crate::response::{EvidenceRef, FailureKind, ToolError, ToolResponse, Truncated};
use crate::sha256::content_hash;
use crate::tool::ToolRequest;

/// How many characters of a body an error message repeats.
const FIRST_LINE_CHARS: usize = 200;

/// An answer, and the beginning of its body.
pub(super) struct Answer {
    status: StatusCode,
    url: Url,
    content_type: String,
    retry_after: Option<Duration>,
    kept: Vec<u8>,
    /// The size of the body in bytes, as far as it was read or the server stated it.
    bytes: u64,
    is_whole: bool,
}

impl Answer {
    /// Reads at most `max_bytes` of the body and then drops the connection.
    pub(super) async fn read(mut response: Response, max_bytes: usize) -> Result<Self, ToolError> {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let mut answer = Self {
            status: response.status(),
            url: response.url().clone(),
            content_type: header(CONTENT_TYPE).unwrap_or_default().to_owned(),
            retry_after: header(RETRY_AFTER)
                .and_then(|seconds| seconds.trim().parse().ok())
                .map(Duration::from_secs),
            kept: Vec::new(),
            // Absent for a compressed body: the library removes the header.
            bytes: response.content_length().unwrap_or_default(),
            is_whole: true,
        };
        let mut read = 0;
        while let Some(piece) = response.chunk().await.map_err(|error| failed(&answer.url, &error))? {
            let bytes_left = max_bytes - answer.kept.len();
            answer.kept.extend_from_slice(&piece[..piece.len().min(bytes_left)]);
            read += piece.len() as u64;
            if piece.len() > bytes_left {
                answer.is_whole = false;
                answer.bytes = answer.bytes.max(read);
                return Ok(answer);
            }
        }
        answer.bytes = read;
        Ok(answer)
    }

    pub(super) fn response(mut self, request: &ToolRequest) -> ToolResponse {
        let hash = self.is_whole.then(|| content_hash(&self.kept));
        let encoding = self.encoding();
        // In UTF-16, every other byte may be zero.
        let is_binary = looks_binary(&self.kept) && encoding != UTF_16LE && encoding != UTF_16BE;
        if !self.is_whole && encoding == UTF_8 && !is_binary {
            let whole_len = whole_characters(&self.kept);
            self.kept.truncate(whole_len);
        }
        let kept_bytes = if is_binary { 0 } else { self.kept.len() as u64 };
        let truncated = (!self.is_whole).then_some(Truncated {
            kept_bytes,
            total_bytes: self.bytes,
        });
        let mut outputs = json!({
            "status": self.status.as_u16(),
            "url": self.url.as_str(),
            "content_type": self.content_type,
            "bytes": self.bytes,
            "truncated": !self.is_whole,
        });
        let value = if self.is_whole && self.is_json() {
            // A number that would lose digits is kept as text.
            serde_json::from_slice::<Value>(&readable(&self.kept)).ok()
        } else {
            None
        };
        let mut first_line = String::new();
        match value {
            Some(value) => outputs["json"] = value,
            None if is_binary => {}
            None => {
                let (text, _, is_lossy) = encoding.decode(&self.kept);
                outputs["encoding_lossy"] = json!(is_lossy);
                let line = text.lines().map(str::trim).find(|line| !line.is_empty());
                first_line = line.unwrap_or_default().chars().take(FIRST_LINE_CHARS).collect();
                outputs["body"] = text.into();
            }
        }
        let amount = if self.is_whole {
            format!("{} bytes", self.bytes)
        } else {
            format!("the first {kept_bytes} bytes")
        };
        let response = if self.status.is_success() || self.status == StatusCode::NOT_MODIFIED {
            let notes = format!("{}: {}, {amount}", self.url, self.status);
            ToolResponse::ok(request, outputs, notes)
        } else {
            let error = self.error();
            let error = if first_line.is_empty() {
                error
            } else {
                error.hint(format!("the server says: {first_line}"))
            };
            ToolResponse::failed_with(request, error, outputs)
        };
        ToolResponse {
            evidence: vec![EvidenceRef {
                kind: "url".to_owned(),
                id: self.url.into(),
                hash,
                span: None,
            }],
            truncated,
            ..response
        }
    }

    /// The encoding of the body as the server states it; UTF-8 if it states none, or an unknown one.
    fn encoding(&self) -> &'static Encoding {
        let parts = self.content_type.split(';').skip(1);
        let charset = parts.filter_map(|part| part.split_once('=')).find_map(|(name, value)| {
            let is_charset = name.trim().eq_ignore_ascii_case("charset");
            is_charset.then(|| Encoding::for_label_no_replacement(value.trim().trim_matches('"').as_bytes()))
        });
        charset.flatten().unwrap_or(UTF_8)
    }

    fn is_json(&self) -> bool {
        let kind = self.content_type.split(';').next().unwrap_or_default().trim();
        let kind = kind.to_ascii_lowercase();
        kind == "application/json" || kind.ends_with("+json")
    }

    fn error(&self) -> ToolError {
        let kind = match self.status {
            StatusCode::NOT_FOUND | StatusCode::GONE => FailureKind::NotFound,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => FailureKind::Unavailable,
            status if status.is_server_error() => FailureKind::Unavailable,
            _ => FailureKind::Failed,
        };
        let message = format!("http_get: {} answers {}", self.url, self.status);
        let error = ToolError::new(kind, "http_status", message);
        match self.retry_after {
            Some(wait) => error.hint(format!("the server asks to be tried again in {} s", wait.as_secs())),
            None => error,
        }
    }
}
