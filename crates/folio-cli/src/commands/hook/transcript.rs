//! The transcript of an agent program: one line of JSON per event, some of which are messages.

use std::io::{self, BufRead};

use folio::memory::offload::Message;
use folio::memory::readable::readable;
use serde_json::Value;

/// How many bytes of messages are offloaded at a time.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// The longest line that is read, in bytes: longer than any message.
pub(super) const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Fields that mark a line as not part of this conversation: it belongs to another agent, was inserted by the program,
/// or reports a server failure.
const SKIP_MARKS: [&str; 3] = ["isSidechain", "isMeta", "isApiErrorMessage"];

/// The content of a transcript.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Transcript {
    /// The messages since the last compaction, in parts that begin where somebody said something new.
    pub(super) parts: Vec<Vec<Value>>,
    /// How many lines since then were left out because they are longer than any message.
    pub(super) too_long: usize,
    /// How many lines since then were left out because they are not JSON. The last line does not count while it is
    /// incomplete.
    pub(super) unreadable: usize,
    /// Whether there are lines, but neither a message nor a compaction is recognised in any of them.
    pub(super) is_unknown: bool,
}

/// Reads `transcript`.
///
/// Messages of other agents are left out. A line that cannot be read is skipped and counted, except for the last one:
/// the program may still be writing it.
///
/// # Errors
///
/// If it cannot be read.
pub(super) fn read(mut transcript: impl BufRead) -> io::Result<Transcript> {
    let Transcript {
        mut parts,
        mut too_long,
        mut unreadable,
        ..
    } = Transcript::default();
    let (mut bytes, mut has_known, mut has_lines) = (0, false, false);
    loop {
        let mut line = Vec::new();
        let byte_count = io::Read::take(&mut transcript, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if byte_count == 0 {
            return Ok(Transcript {
                parts,
                too_long,
                unreadable,
                is_unknown: has_lines && !has_known,
            });
        }
        has_lines |= line.ends_with(b"\n") && !line.trim_ascii().is_empty();
        if byte_count as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            too_long += 1;
            transcript.skip_until(b'\n')?;
            continue;
        }
        let Ok(record) = serde_json::from_slice::<Value>(&readable(&line)) else {
            unreadable += usize::from(line.ends_with(b"\n") && !line.trim_ascii().is_empty());
            continue;
        };
        if is_compaction(&record) {
            has_known = true;
            parts.clear();
            (bytes, too_long, unreadable) = (0, 0, 0);
            continue;
        }
        if SKIP_MARKS
            .iter()
            .any(|mark| record.get(mark) == Some(&Value::Bool(true)))
        {
            continue;
        }
        let message = message_in(record);
        let has_speaker = ["user", "assistant", "system", "tool"]
            .into_iter()
            .any(|role| has_text(&message, "role", role));
        let is_message = Message::is_item(&message) || (has_speaker && Message::has_content(&message));
        has_known |= has_speaker || is_message;
        if !is_message || is_of_a_command(&message) {
            continue;
        }
        let begins = has_text(&message, "role", "user") && message.get("content").is_some_and(Value::is_string);
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

/// Whether `record` says that the conversation was compacted there: as Claude Code does, or Codex.
fn is_compaction(record: &Value) -> bool {
    has_text(record, "subtype", "compact_boundary")
        || record.get("isCompactSummary") == Some(&Value::Bool(true))
        || has_text(record, "type", "compacted")
}

/// The message of `record`: below `message` (Claude Code, Cursor) or `payload` (Codex), or the record itself. Cursor
/// has the role beside the message.
fn message_in(mut record: Value) -> Value {
    let role = record.get("role").cloned();
    for key in ["message", "payload"] {
        let Some(inner) = record.get_mut(key).filter(|inner| inner.is_object()) else {
            continue;
        };
        let mut message = inner.take();
        if let (Some(role), Some(fields)) = (role, message.as_object_mut()) {
            fields.entry("role").or_insert(role);
        }
        return message;
    }
    record
}

/// Whether `message` records one of the program's own commands: which one was called, and what it printed.
fn is_of_a_command(message: &Value) -> bool {
    let text = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.first().and_then(|block| block.get("text")),
        content => content,
    };
    let text = text.and_then(Value::as_str).unwrap_or_default().trim_start();
    ["<command-", "<local-command-"]
        .iter()
        .any(|mark| text.starts_with(mark))
}

fn has_text(value: &Value, key: &str, text: &str) -> bool {
    value.get(key).and_then(Value::as_str) == Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message_line(role: &str, text: &str) -> Value {
        json!({"type": role, "message": {"role": role, "content": text}, "uuid": "u"})
    }

    #[test]
    fn transcript_keeps_only_messages_since_the_last_compaction() {
        let lines = [
            message_line("user", "long ago"),
            json!({"type": "system", "subtype": "compact_boundary"}),
            json!({"type": "user", "isCompactSummary": true, "message": {"role": "user", "content": "a summary"}}),
            message_line("user", "do it"),
            json!({"type": "file-history-snapshot"}),
            json!({"isSidechain": true, "message": {"role": "user", "content": "aside"}}),
            json!({"isMeta": true, "message": {"role": "user", "content": "Caveat: what follows is of commands"}}),
            message_line(
                "user",
                "<command-name>/clear</command-name>\n<command-args></command-args>",
            ),
            json!({"message": {"role": "user", "content": [{"type": "text", "text": "<local-command-stdout></local-command-stdout>"}]}}),
            json!({"isApiErrorMessage": true, "message": {"role": "assistant", "content": [{"type": "text", "text": "API Error: 529"}]}}),
            message_line("assistant", "done"),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let wanted = [
            message_line("user", "do it")["message"].clone(),
            message_line("assistant", "done")["message"].clone(),
        ];
        let transcript = read(format!("{text}{{\"torn").as_bytes()).unwrap();
        assert_eq!(transcript.parts, [wanted.to_vec()]);
        assert_eq!(read("".as_bytes()).unwrap(), Transcript::default());
    }

    #[test]
    fn invalid_json_lines_are_counted_except_a_torn_last_line() {
        let of = |text: &str| read(text.as_bytes()).unwrap().unreadable;
        assert_eq!(of("junk\n\n{\"more\": junk}\n{}\n{\"torn"), 2);
        let compacted = json!({"type": "system", "subtype": "compact_boundary"});
        assert_eq!(of(&format!("junk\n{compacted}\n")), 0);
    }

    #[test]
    fn overlong_transcript_line_is_left_out_and_counted() {
        let long = message_line("assistant", &"x".repeat(usize::try_from(LINE_BYTES_MAX).unwrap()));
        // The text at the end of the long line does not count as a line of its own.
        let text = format!(
            "{}\n{long} {}\n{}\n",
            message_line("user", "a"),
            message_line("user", "b"),
            message_line("user", "c")
        );
        let wanted = ["a", "c"].map(|text| message_line("user", text)["message"].clone());
        let transcript = read(text.as_bytes()).unwrap();
        assert_eq!((transcript.parts, transcript.too_long), (vec![wanted.to_vec()], 1));
        let compacted = format!("{text}{}\n", json!({"subtype": "compact_boundary"}));
        assert_eq!(read(compacted.as_bytes()).unwrap(), Transcript::default());
    }

    #[test]
    fn transcript_line_with_lone_surrogate_or_huge_number_is_read() {
        let lines = concat!(
            r#"{"message": {"role": "user", "content": "half \ud83d x"}}"#,
            "\n",
            r#"{"message": {"role": "tool", "content": 18446744073709551617}}"#,
        );
        let wanted = [
            json!({"role": "user", "content": "half \u{fffd} x"}),
            json!({"role": "tool", "content": "18446744073709551617"}),
        ];
        assert_eq!(read(lines.as_bytes()).unwrap().parts, [wanted.to_vec()]);
    }

    #[test]
    fn transcripts_of_codex_and_cursor_are_read() {
        let codex = [
            json!({"type": "session_meta", "payload": {"id": "s"}}),
            json!({"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "old"}]}}),
            json!({"type": "compacted", "payload": {"message": "a summary"}}),
            json!({"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]}}),
            json!({"type": "response_item", "payload": {"type": "reasoning", "summary": []}}),
            json!({"type": "response_item", "payload": {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}}),
            json!({"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c1", "output": "error: no"}}),
            json!({"type": "response_item", "payload": {"type": "message", "role": "assistant"}}),
        ];
        let cursor = [
            json!({"role": "user", "message": {"content": [{"type": "text", "text": "do it"}]}}),
            json!({"role": "assistant", "message": {"content": [{"type": "text", "text": "done"}]}}),
        ];
        let of = |lines: &[Value]| {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let transcript = read(text.as_bytes()).unwrap();
            assert!(!transcript.is_unknown);
            transcript.parts
        };
        let of_codex = [3, 5, 6].map(|n: usize| codex[n]["payload"].clone());
        assert_eq!(of(&codex), [of_codex.to_vec()]);
        let of_cursor = |n: usize, role| json!({"content": cursor[n]["message"]["content"], "role": role});
        assert_eq!(of(&cursor), [vec![of_cursor(0, "user"), of_cursor(1, "assistant")]]);
    }

    #[test]
    fn transcript_without_anything_recognised_is_unknown() {
        let is_unknown = |text: &str| read(text.as_bytes()).unwrap().is_unknown;
        assert!(is_unknown("{\n  \"history\": []\n}\n"));
        assert!(is_unknown("{\"speaker\": \"ada\", \"says\": \"do it\"}\n"));
        assert!(!is_unknown(""));
        assert!(!is_unknown("{\"torn"));
        assert!(!is_unknown("{\"role\": \"user\", \"content\": \"do it\"}\n"));
        assert!(!is_unknown("{\"subtype\": \"compact_boundary\"}\n"));
    }

    #[test]
    fn long_transcript_is_split_into_parts_at_prompts() {
        let large = "x".repeat(PART_BYTES / 2);
        let lines = [
            message_line("user", &large),
            message_line("assistant", &large),
            message_line("assistant", "more"),
            message_line("user", "next"),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let counts: Vec<_> = read(text.as_bytes()).unwrap().parts.iter().map(Vec::len).collect();
        assert_eq!(counts, [3, 1]);
    }
}
