//! A line of input as a message of the protocol. One that is none is answered, so that nobody waits for it.

use std::borrow::Cow;

use axum::body::Bytes;
use folio::memory::numbers::with_room;
use rmcp::ErrorData;
use rmcp::model::{JsonRpcError, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde::Deserialize as _;
use serde_json::Value;

use super::MAX_MESSAGE_BYTES;
use super::id_search::IdSearch;

/// A mark that some programs put before a text; readers of JSON may pass over it.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// What stands for half a character, as JSON writes it.
const REPLACEMENT: &[u8] = b"ufffd";

/// What a line comes to.
#[derive(Debug)]
pub(super) enum Line {
    /// It says something.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// It is empty, or a notification that nobody knows: those are never answered.
    Nothing,
    /// This is answered.
    Refused(Box<JsonRpcError>),
}

/// `body` as a reader of JSON takes it that is not asked here: without the mark before it, with numbers that have no room as their
/// texts, and with U+FFFD for half a character, all as in a line.
pub(super) fn whole(body: Bytes) -> Bytes {
    let begins = body.strip_prefix(BYTE_ORDER_MARK).map_or(0, |_| BYTE_ORDER_MARK.len());
    let body = body.slice(begins..);
    let mut kept = with_room(&body);
    if kept.windows(2).any(|two| two == b"\\u") {
        mend_halves(kept.to_mut());
    }
    match kept {
        Cow::Borrowed(_) => body,
        Cow::Owned(kept) => kept.into(),
    }
}

/// What `line` says, without what ends it. Half a character that is left of one that was cut (`\ud83d` alone, as JavaScript
/// writes it) is read as U+FFFD.
pub(super) fn read(line: &mut [u8]) -> Line {
    let begins = line.strip_prefix(BYTE_ORDER_MARK).map_or(0, |_| BYTE_ORDER_MARK.len());
    let line = &mut line[begins..];
    let mut rewritten = match with_room(line) {
        Cow::Borrowed(_) => None,
        Cow::Owned(line) => Some(line),
    };
    let line = rewritten.as_deref_mut().unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return Line::Nothing;
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Line::Message(Box::new(message));
    }
    if mend_halves(line)
        && let Ok(message) = serde_json::from_slice(line)
    {
        return Line::Message(Box::new(message));
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let mut search = IdSearch::default();
            search.feed(line);
            let message = format!("this is no JSON that can be read: {error}");
            return refused(search.found(), ErrorData::parse_error(message, None));
        }
    };
    let id = value.get("id");
    if value.get("method").is_none() {
        // An error with the id of an answer would be taken for the answer to another request.
        return refused(None, no_message());
    }
    match id {
        None => Line::Nothing,
        Some(id) => refused(RequestId::deserialize(id).ok(), no_message()),
    }
}

/// What is answered to a line that was too long to be kept.
pub(super) fn too_long(id: Option<RequestId>) -> Line {
    let message = format!("the message is longer than {MAX_MESSAGE_BYTES} bytes, which is the most that is read");
    refused(id, ErrorData::invalid_request(message, None))
}

fn no_message() -> ErrorData {
    ErrorData::invalid_request("this is JSON, but no message of JSON-RPC 2.0", None)
}

fn refused(id: Option<RequestId>, error: ErrorData) -> Line {
    Line::Refused(Box::new(JsonRpcError::new(id, error)))
}

/// Puts U+FFFD where `line` has half of a pair of surrogates, and says whether it did. Nothing moves: both are six bytes long.
fn mend_halves(line: &mut [u8]) -> bool {
    let mut has_mended = false;
    let mut at = 0;
    while at < line.len() {
        if line[at] != b'\\' {
            at += 1;
            continue;
        }
        let unit = unit_at(line, at);
        at += match unit {
            Some(0xD800..=0xDBFF) if matches!(unit_at(line, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                line[at + 1..at + 6].copy_from_slice(REPLACEMENT);
                has_mended = true;
                6
            }
            // What follows a backslash begins nothing of its own.
            _ => 2,
        };
    }
    has_mended
}

/// The unit of UTF-16 that is written as `\uXXXX` at `at`.
fn unit_at(line: &[u8], at: usize) -> Option<u16> {
    let digits = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(line: &str) -> Value {
        match read(&mut line.as_bytes().to_vec()) {
            Line::Refused(error) => json!(error),
            other => json!(format!("{other:?}")),
        }
    }

    #[test]
    fn half_a_character_becomes_the_character_that_stands_for_none() {
        for (written, read) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""a\uDE00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{fffd}"),
        ] {
            let mut line = written.as_bytes().to_vec();
            assert!(mend_halves(&mut line), "{written}");
            assert_eq!(serde_json::from_slice::<String>(&line).unwrap(), read, "{written}");
        }
        for whole in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\ud8"#, "\\", r"\u"] {
            assert!(!mend_halves(&mut whole.as_bytes().to_vec()), "{whole}");
        }
    }

    #[test]
    fn a_body_is_read_as_a_line_is() {
        for (sent, kept) in [
            (r#"{"n": 1, "t": "\u00e9"}"#, r#"{"n": 1, "t": "\u00e9"}"#),
            ("\u{feff}{}", "{}"),
            (r#"[18446744073709551617]"#, r#"["18446744073709551617"]"#),
            (r#"["\ud83d", 1e999]"#, r#"["\ufffd", "1e999"]"#),
            ("no JSON \\ud83d", "no JSON \\ufffd"),
            ("", ""),
        ] {
            assert_eq!(whole(Bytes::from_static(sent.as_bytes())), kept.as_bytes(), "{sent}");
        }
    }

    #[test]
    fn json_that_is_no_message_is_answered_under_the_id_of_its_request() {
        let error = answered(r#"{"id": 4, "method": "tools/list"}"#);
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32600), &json!(4)));
        // An answer is nobody's request.
        let error = answered(r#"{"id": 4, "result": {}}"#);
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32600), &Value::Null));
        let error = answered("[1]");
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32600), &Value::Null));
    }

    #[test]
    fn what_asks_for_nothing_is_not_answered() {
        for line in ["", " \t\r", "\u{feff}", r#"{"method": "$/setTrace", "params": {}}"#] {
            assert!(matches!(read(&mut line.as_bytes().to_vec()), Line::Nothing), "{line:?}");
        }
    }
}
