//! Which part of a result is wanted, and cutting it out.

use bstr::ByteSlice as _;
use serde_json::{Value, json};

use super::super::{newlines, whole_characters};
use crate::response::ToolError;

/// Bytes of one line that a search shows.
const LINE_CHARS: usize = 300;

pub(super) enum Part {
    Bytes {
        from: usize,
        to: usize,
    },
    Lines {
        from: usize,
        to: usize,
    },
    /// A text in lower case.
    Search(String),
}

impl Part {
    /// Reads `10-20`, `10-` or `10`.
    pub(super) fn lines(text: &str) -> Result<Self, ToolError> {
        let wrong = || {
            ToolError::invalid(format!(
                "result_read: `lines` is as `10-20`, `10-` or `10`, not `{text}`"
            ))
        };
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let (from, to) = match text.split_once('-') {
            None => {
                let line = number(text)?;
                (line, line)
            }
            Some((from, to)) if to.trim().is_empty() => (number(from)?, usize::MAX),
            Some((from, to)) => (number(from)?, number(to)?),
        };
        if from == 0 || to < from {
            return Err(wrong());
        }
        Ok(Self::Lines { from, to })
    }
}

/// A range of bytes that begins and ends between characters.
pub(super) struct Taken {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) from_line: u64,
    /// The arguments that read on.
    pub(super) next: Option<Value>,
}

/// Cuts out a part, at most `max_bytes` of it: at the end of a line if there is one, else between two
/// characters.
pub(super) fn taken(bytes: &[u8], part: &Part, max_bytes: usize) -> Taken {
    let (start, end, last_line) = match part {
        Part::Bytes { from, to } => {
            let end = (*to).min(bytes.len());
            (character_start(bytes, (*from).min(end)), end, None)
        }
        Part::Lines { from, to } => {
            let start = line_start(bytes, *from);
            let end = start + line_start(&bytes[start..], (to - from).saturating_add(2));
            (start, end, Some(*to))
        }
        Part::Search(_) => (0, bytes.len(), None),
    };
    let whole = &bytes[start..end];
    let from_line = newlines(&bytes[..start]) + 1;
    if whole.len() <= max_bytes {
        return Taken {
            from: start,
            to: end,
            from_line,
            next: None,
        };
    }
    let kept = &whole[..max_bytes];
    let to = start
        + match kept.rfind_byte(b'\n') {
            Some(at) => at + 1,
            // At least one character, or reading on would never end.
            None => whole_characters(kept).max(1),
        };
    let next = match last_line {
        Some(last) if bytes[..to].ends_with(b"\n") => {
            let line = newlines(&bytes[..to]) + 1;
            let last = if last == usize::MAX {
                String::new()
            } else {
                last.to_string()
            };
            json!({"lines": format!("{line}-{last}")})
        }
        _ if end < bytes.len() => json!({"from": to, "to": end}),
        _ => json!({"from": to}),
    };
    Taken {
        from: start,
        to,
        from_line,
        next: Some(next),
    }
}

/// Where the line with this number begins, counted from 1; the end if there is none.
fn line_start(bytes: &[u8], line: usize) -> usize {
    if line <= 1 {
        return 0;
    }
    bytes.find_iter(b"\n").nth(line - 2).map_or(bytes.len(), |at| at + 1)
}

/// The place itself, or that of the next character if it is inside of one.
fn character_start(bytes: &[u8], from: usize) -> usize {
    let inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    (from..from + 4).find(|at| !inside(at)).unwrap_or(from).min(bytes.len())
}

pub(super) fn lines_of(bytes: &[u8]) -> u64 {
    newlines(bytes) + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

/// The lines that hold `words`, as many as fit, and how many there are.
pub(super) fn search(bytes: &[u8], words: &str, max_bytes: usize) -> (Vec<Value>, u64) {
    let mut matches = Vec::new();
    let mut count = 0;
    let mut used = 0;
    for (index, line) in bytes.lines().enumerate() {
        let line = line.to_str_lossy();
        let lower = line.to_lowercase();
        let Some(at) = lower.find(words) else {
            continue;
        };
        count += 1;
        let skipped = if line.chars().count() > LINE_CHARS {
            lower[..at].chars().count().saturating_sub(LINE_CHARS / 3)
        } else {
            0
        };
        let mut text: String = if skipped > 0 { "…" } else { "" }.to_owned();
        text.extend(line.chars().skip(skipped).take(LINE_CHARS));
        used += text.len() + 24;
        if used <= max_bytes || matches.is_empty() {
            matches.push(json!({"line": index + 1, "text": text}));
        }
    }
    (matches, count)
}
