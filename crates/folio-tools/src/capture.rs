//! The output of a program, kept within a limit.

use std::ops::ControlFlow;

use bstr::ByteSlice as _;
use folio_process::Sink;

/// Keeps the beginning and the end of an output of any length.
#[derive(Debug)]
pub(crate) struct HeadAndTail {
    half: usize,
    head: Vec<u8>,
    /// At least the last `half` bytes of what did not fit into the head.
    tail: Vec<u8>,
    total: u64,
}

impl HeadAndTail {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            half: bytes_max.div_ceil(2),
            head: Vec::new(),
            tail: Vec::new(),
            total: 0,
        }
    }

    /// The text, with a line in place of what was left out.
    pub(crate) fn finish(self) -> Captured {
        let tail_start = self.tail.len().saturating_sub(self.half);
        let tail = &self.tail[tail_start..];
        let kept = (self.head.len() + tail.len()) as u64;
        if kept == self.total {
            let mut bytes = self.head;
            bytes.extend_from_slice(tail);
            return Captured {
                text: into_text(bytes),
                kept_bytes: kept,
                total_bytes: self.total,
            };
        }
        let mut text = into_text(drop_partial_last_line(self.head));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let tail = drop_partial_first_line(tail);
        let kept_bytes = (text.len() + tail.len()) as u64;
        let left_out = self.total.saturating_sub(kept_bytes);
        text.push_str(&format!("… {left_out} bytes left out …\n"));
        text.push_str(&tail.to_str_lossy());
        Captured {
            text,
            kept_bytes,
            total_bytes: self.total,
        }
    }
}

impl Sink for HeadAndTail {
    fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
        self.total += piece.len() as u64;
        let room = self.half - self.head.len();
        let (head, rest) = piece.split_at(room.min(piece.len()));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(rest);
        // Truncating only now and then keeps the cost per byte constant, however long the output is.
        if self.tail.len() > 2 * self.half {
            let surplus = self.tail.len() - self.half;
            self.tail.drain(..surplus);
        }
        ControlFlow::Continue(())
    }
}

/// An output as it is reported.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) text: String,
    pub(crate) kept_bytes: u64,
    pub(crate) total_bytes: u64,
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Drops a line that is cut off, unless it is the only one.
fn drop_partial_last_line(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(at) = bytes.rfind_byte(b'\n') {
        bytes.truncate(at + 1);
    }
    bytes
}

fn drop_partial_first_line(bytes: &[u8]) -> &[u8] {
    match bytes.find_byte(b'\n') {
        Some(at) if at + 1 < bytes.len() => &bytes[at + 1..],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(bytes_max: usize, pieces: &[&str]) -> Captured {
        let mut sink = HeadAndTail::new(bytes_max);
        for piece in pieces {
            assert!(sink.take(piece.as_bytes()).is_continue());
        }
        sink.finish()
    }

    #[test]
    fn short_output_is_captured_completely() {
        let captured = captured(20, &["one\n", "two\n", "three\n"]);
        assert_eq!(captured.text, "one\ntwo\nthree\n");
        assert_eq!((captured.kept_bytes, captured.total_bytes), (14, 14));
    }

    #[test]
    fn long_output_keeps_whole_lines_at_both_ends() {
        let lines: Vec<String> = (0..1_000).map(|line| format!("line {line}\n")).collect();
        let pieces: Vec<&str> = lines.iter().map(String::as_str).collect();
        let captured = captured(40, &pieces);
        assert_eq!(
            captured.text,
            "line 0\nline 1\n… 8862 bytes left out …\nline 998\nline 999\n"
                .replace("8862", &(captured.total_bytes - captured.kept_bytes).to_string())
        );
    }

    #[test]
    fn long_output_without_newlines_is_cut_mid_line() {
        let captured = captured(10, &["abcdefghijklmnopqrstuvwxyz"]);
        assert_eq!(captured.text, "abcde\n… 15 bytes left out …\nvwxyz");
    }
}
