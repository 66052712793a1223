//! The transcript of an agent program: a line of JSON for each thing that happened, some of which are messages.

use std::io::{self, BufRead};

use serde_json::Value;

/// Bytes of messages that are put away at a time.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a line that is read: more than any message has.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The messages of `transcript` since it was last compacted, in parts that begin where somebody said something new.
///
/// What other agents said aside is theirs, and a line that cannot be read is passed over: the program may be writing it.
///
/// # Errors
///
/// If it cannot be read.
pub(super) fn parts(mut transcript: impl BufRead) -> io::Result<Vec<Vec<Value>>> {
    let mut parts: Vec<Vec<Value>> = Vec::new();
    let mut bytes = 0;
    loop {
        let mut line = Vec::new();
        let read = io::Read::take(&mut transcript, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(parts);
        }
        let Ok(mut record) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        if is(&record, "subtype", "compact_boundary") || record.get("isCompactSummary") == Some(&Value::Bool(true)) {
            parts.clear();
            bytes = 0;
            continue;
        }
        if record.get("isSidechain") == Some(&Value::Bool(true)) {
            continue;
        }
        let message = match record.get_mut("message") {
            Some(message) => message.take(),
            None => record,
        };
        let speaks = ["user", "assistant", "system", "tool"]
            .into_iter()
            .any(|role| is(&message, "role", role));
        if !speaks {
            continue;
        }
        let begins = is(&message, "role", "user") && message.get("content").is_some_and(Value::is_string);
        if parts.is_empty() || (begins && bytes > PART_BYTES) {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += line.len();
        if let Some(part) = parts.last_mut() {
            part.push(message);
        }
    }
}

fn is(value: &Value, key: &str, text: &str) -> bool {
    value.get(key).and_then(Value::as_str) == Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(role: &str, text: &str) -> Value {
        json!({"type": role, "message": {"role": role, "content": text}, "uuid": "u"})
    }

    #[test]
    fn only_what_was_said_since_it_was_compacted_counts() {
        let lines = [
            said("user", "long ago"),
            json!({"type": "system", "subtype": "compact_boundary"}),
            json!({"type": "user", "isCompactSummary": true, "message": {"role": "user", "content": "a summary"}}),
            said("user", "do it"),
            json!({"type": "file-history-snapshot"}),
            json!({"isSidechain": true, "message": {"role": "user", "content": "aside"}}),
            said("assistant", "done"),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let wanted = [
            said("user", "do it")["message"].clone(),
            said("assistant", "done")["message"].clone(),
        ];
        assert_eq!(parts(format!("{text}{{\"torn").as_bytes()).unwrap(), [wanted.to_vec()]);
        assert!(parts("".as_bytes()).unwrap().is_empty());
    }

    #[test]
    fn what_is_very_long_comes_in_parts_that_begin_with_a_prompt() {
        let large = "x".repeat(PART_BYTES / 2);
        let lines = [
            said("user", &large),
            said("assistant", &large),
            said("assistant", "more"),
            said("user", "next"),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let counts: Vec<_> = parts(text.as_bytes()).unwrap().iter().map(Vec::len).collect();
        assert_eq!(counts, [3, 1]);
    }
}
