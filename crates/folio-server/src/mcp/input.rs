//! Parses a line of input as a message of the protocol. A line that is not a message is answered with an error, so that
//! nobody waits for its answer.

use std::borrow::Cow;

use axum::body::Bytes;
use folio::memory::readable::readable;
use rmcp::ErrorData;
use rmcp::model::{JsonRpcError, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use serde_json::{Number, Value};

use super::id_search::IdSearch;
use super::{MAX_MESSAGE_BYTES, malformed};

/// The byte order mark, which some programs put before a text and readers of JSON may skip.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The outcome of reading a line.
#[derive(Debug)]
pub(super) enum Line {
    /// A message.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// An empty line or an unknown notification: those are never answered.
    Nothing,
    /// An error to answer with.
    Refused(Box<JsonRpcError>),
}

/// Prepares `body` for the transport's own JSON parser in the same way as a line: without the byte order mark, with
/// numbers that do not fit as texts, and with U+FFFD for half a character.
pub(super) fn normalize_body(body: Bytes) -> Bytes {
    let start = body.strip_prefix(BYTE_ORDER_MARK).map_or(0, |_| BYTE_ORDER_MARK.len());
    let body = body.slice(start..);
    match readable(&body) {
        Cow::Borrowed(_) => body,
        Cow::Owned(kept) => kept.into(),
    }
}

/// Parses `line`, which comes without its line ending.
pub(super) fn parse_line(line: &[u8]) -> Line {
    let sent = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    let line = readable(sent);
    if line.trim_ascii().is_empty() {
        return Line::Nothing;
    }
    if line.trim_ascii_start().starts_with(b"[") && serde_json::from_slice::<IgnoredAny>(&line).is_ok() {
        return refused(None, batch_error());
    }
    // An id that was turned into a text would be answered under that text, for which nobody waits.
    let may_be_another = matches!(line, Cow::Owned(_));
    if may_be_another && let Some(id) = oversized_id(sent) {
        return refused(None, id_refused(&id));
    }
    let line = &*line;
    if let Ok(message) = serde_json::from_slice(line) {
        return match malformed::refused_beginning(&message, line) {
            Some(error) => Line::Refused(Box::new(error)),
            None => Line::Message(Box::new(message)),
        };
    }
    if let Some(id) = oversized_id(sent) {
        return refused(None, id_refused(&id));
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let mut search = IdSearch::default();
            search.feed(line);
            let message = format!("the message is not valid JSON: {error}");
            return refused(search.into_id(), ErrorData::parse_error(message, None));
        }
    };
    let id = value.get("id");
    if value.get("method").is_none() {
        // An error with the id of a response would be taken for the answer to another request.
        return refused(None, not_a_message_error());
    }
    match id {
        None => Line::Nothing,
        Some(id) => refused(RequestId::deserialize(id).ok(), not_a_message_error()),
    }
}

/// Returns the id in `line` if it is a number that does not fit: an answer under another id would not be found.
fn oversized_id(line: &[u8]) -> Option<Number> {
    #[derive(serde::Deserialize)]
    struct Head {
        id: Option<Number>,
        #[serde(rename = "method")]
        _method: String,
    }
    let head: Head = serde_json::from_slice(line).ok()?;
    head.id.filter(|id| !id.is_i64())
}

fn id_refused(id: &Number) -> ErrorData {
    let message = format!("the id of a request must be a text or a signed 64-bit integer, not {id}");
    ErrorData::invalid_request(message, None)
}

/// Parses a whole body in the same way. An empty body is an error, since there is no message to answer.
pub(super) fn parse_body(body: &[u8]) -> Line {
    match parse_line(body) {
        Line::Nothing if body.trim_ascii().is_empty() => {
            refused(None, ErrorData::parse_error("the body is empty", None))
        }
        line => line,
    }
}

/// Returns the error for a line that was too long to be kept.
pub(super) fn line_too_long(id: Option<RequestId>) -> Line {
    let message = format!("the message is longer than the limit of {MAX_MESSAGE_BYTES} bytes");
    refused(id, ErrorData::invalid_request(message, None))
}

fn not_a_message_error() -> ErrorData {
    ErrorData::invalid_request("the message is JSON, but not a JSON-RPC 2.0 message", None)
}

/// Returns the error for a list of messages. It has no id, as JSON-RPC wants it for a batch that is not accepted.
fn batch_error() -> ErrorData {
    ErrorData::invalid_request(
        "a list of messages (a JSON-RPC batch) is not accepted, and none of them was read: send each message by itself",
        None,
    )
}

fn refused(id: Option<RequestId>, error: ErrorData) -> Line {
    Line::Refused(Box::new(JsonRpcError::new(id, error)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(line: &str) -> Value {
        match parse_line(line.as_bytes()) {
            Line::Refused(error) => json!(error),
            other => json!(format!("{other:?}")),
        }
    }

    #[test]
    fn request_body_is_normalized_like_a_stdio_line() {
        for (sent, kept) in [
            (r#"{"n": 1, "t": "\u00e9"}"#, r#"{"n": 1, "t": "\u00e9"}"#),
            ("\u{feff}{}", "{}"),
            (r#"[18446744073709551617]"#, r#"["18446744073709551617"]"#),
            (r#"["\ud83d", 1e999]"#, r#"["\ufffd", "1e999"]"#),
            ("no JSON \\ud83d", "no JSON \\ufffd"),
            ("", ""),
        ] {
            assert_eq!(
                normalize_body(Bytes::from_static(sent.as_bytes())),
                kept.as_bytes(),
                "{sent}"
            );
        }
    }

    #[test]
    fn json_without_a_valid_message_is_refused_under_its_id() {
        let error = answered(r#"{"id": 4, "method": "tools/list"}"#);
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32600), &json!(4)));
        // An answer is nobody's request.
        let error = answered(r#"{"id": 4, "result": {}}"#);
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32600), &Value::Null));
        let error = answered("1");
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32600), &Value::Null));
    }

    #[test]
    fn batch_of_messages_is_refused_as_such_whatever_is_in_it() {
        let ping = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;
        for batch in [
            "[]",
            "[1]",
            &format!("[{ping}]"),
            &format!(" [{ping}, {ping}]"),
            r#"["2.0", 1, {"code": 1, "message": ""}]"#,
        ] {
            let error = answered(batch);
            assert_eq!(
                (&error["error"]["code"], &error["id"]),
                (&json!(-32600), &Value::Null),
                "{batch}"
            );
            let said = error["error"]["message"].as_str().unwrap_or_default();
            assert!(said.contains("send each message by itself"), "{batch}: {said}");
        }
        // What is cut off is no batch.
        assert_eq!(answered("[{\"jsonrpc\": \"2.0\"")["error"]["code"], json!(-32700));
    }

    #[test]
    fn beginning_with_wrong_params_is_refused_for_the_field_that_is_wrong() {
        let begin = |params: Value| {
            answered(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string())
        };
        let client = json!({"name": "raw", "version": "1"});
        for (params, field) in [
            (
                json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
                "clientInfo",
            ),
            (
                json!({"protocolVersion": 1, "capabilities": {}, "clientInfo": client}),
                "protocolVersion: ",
            ),
            (
                json!({"protocolVersion": "2025-11-25", "capabilities": [], "clientInfo": client}),
                "capabilities: ",
            ),
        ] {
            let error = begin(params);
            assert_eq!(
                (&error["error"]["code"], &error["id"]),
                (&json!(-32602), &json!(1)),
                "{error}"
            );
            let said = error["error"]["message"].as_str().unwrap_or_default();
            assert!(
                said.contains("the params of initialize cannot be read: ") && said.contains(field),
                "{said}"
            );
        }
        let good = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        assert!(begin(good).is_string(), "it is a message");
        // In the generation that names its version in each request there is no such method.
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        assert!(begin(json!({"_meta": meta})).is_string());
    }

    #[test]
    fn blank_lines_and_unknown_notifications_get_no_response() {
        for line in ["", " \t\r", "\u{feff}", r#"{"method": "$/setTrace", "params": {}}"#] {
            assert!(matches!(parse_line(line.as_bytes()), Line::Nothing), "{line:?}");
        }
    }
}
