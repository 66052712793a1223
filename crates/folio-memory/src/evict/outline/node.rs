//! The nodes of an outline, and rendering them in less and less detail.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::Value;

/// A value, as far as it is kept.
#[derive(Debug)]
pub(in crate::evict) enum Node {
    /// A number, `true`, `false` or `null`, as it was written.
    Plain(String),
    /// A string: the part kept of its beginning, its length in bytes, and whether the part is the whole.
    Text(String, u64, bool),
    List {
        head: Vec<Self>,
        tail: VecDeque<Self>,
        len: u64,
    },
    Object {
        entries: Vec<(String, Self)>,
        len: u64,
    },
}

/// How much of a value is shown.
#[derive(Debug, Clone, Copy)]
pub(in crate::evict) struct Detail {
    pub(in crate::evict) head: usize,
    pub(in crate::evict) tail: usize,
    pub(in crate::evict) keys: usize,
    pub(in crate::evict) chars: usize,
    pub(in crate::evict) depth: usize,
}

/// All levels of detail, from the most to the least.
pub(in crate::evict) const DETAILS: [Detail; 14] = {
    const fn of(head: usize, tail: usize, keys: usize, chars: usize, depth: usize) -> Detail {
        Detail {
            head,
            tail,
            keys,
            chars,
            depth,
        }
    }
    [
        of(96, 12, 96, 400, 6),
        of(48, 8, 96, 200, 6),
        of(24, 4, 48, 200, 6),
        of(12, 3, 48, 120, 6),
        of(8, 3, 32, 120, 5),
        of(5, 2, 32, 80, 5),
        of(3, 1, 24, 60, 4),
        of(2, 1, 24, 40, 4),
        of(2, 1, 16, 32, 3),
        of(1, 1, 16, 24, 3),
        of(1, 1, 12, 16, 2),
        of(1, 0, 8, 12, 2),
        of(1, 0, 8, 12, 1),
        of(0, 0, 6, 0, 1),
    ]
};

impl Node {
    /// The value as JSON, with a note in place of what is left out: a string in a list, the key `…` in an object.
    pub(in crate::evict) fn render(&self, detail: Detail) -> String {
        let mut out = String::new();
        self.write(detail, 0, &mut out);
        out
    }

    fn write(&self, detail: Detail, depth: usize, out: &mut String) {
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::Text(start, bytes, is_whole) => {
                let cut = start.char_indices().nth(detail.chars).map(|(at, _)| at);
                match (cut, is_whole) {
                    (None, true) => quote(start, out),
                    (cut, _) => {
                        let start = &start[..cut.unwrap_or(start.len())];
                        quote(&format!("{start}… ({bytes} bytes)"), out);
                    }
                }
            }
            Self::List { head, tail, len } => {
                let (wanted_head, wanted_tail) = if depth < detail.depth {
                    (detail.head, detail.tail)
                } else {
                    (0, 0)
                };
                let shown_head = head.len().min(wanted_head);
                // What is kept of the end; for a short list, that includes the end of the kept beginning.
                let rest = head[shown_head..].iter().chain(tail);
                let shown_tail = (head.len() - shown_head + tail.len()).min(wanted_tail);
                let rest = rest.skip(head.len() - shown_head + tail.len() - shown_tail);
                let left_out = len - (shown_head + shown_tail) as u64;
                out.push('[');
                let mut separator = "";
                for item in &head[..shown_head] {
                    out.push_str(separator);
                    item.write(detail, depth + 1, out);
                    separator = ",";
                }
                if left_out > 0 {
                    // Writing to a string cannot fail.
                    let _infallible = write!(out, "{separator}\"… {left_out} items\"");
                    separator = ",";
                }
                for item in rest {
                    out.push_str(separator);
                    item.write(detail, depth + 1, out);
                    separator = ",";
                }
                out.push(']');
            }
            Self::Object { entries, len } => {
                let shown_count = entries.len().min(if depth < detail.depth { detail.keys } else { 0 });
                out.push('{');
                let mut separator = "";
                for (key, value) in &entries[..shown_count] {
                    out.push_str(separator);
                    quote(key, out);
                    out.push(':');
                    value.write(detail, depth + 1, out);
                    separator = ",";
                }
                let left_out = len - shown_count as u64;
                if left_out > 0 {
                    let _infallible = write!(out, "{separator}\"…\":\"{left_out} keys\"");
                }
                out.push('}');
            }
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}
