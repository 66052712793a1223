//! A part of a text that is cut out of it.

use std::borrow::Cow;
use std::ops::Range;

use super::Part;
use super::marks::{character_start, is_continuation_byte, line_start, newlines, whole_characters};

/// A contiguous section of a text.
#[derive(Debug, Clone, Copy)]
pub struct Window<'t> {
    /// The bytes of the section.
    pub bytes: &'t [u8],
    /// The offset of the first byte in the whole text.
    pub at: u64,
    /// The number of line breaks before that byte.
    pub newlines_before: u64,
    /// Whether the text continues after the section.
    pub goes_on: bool,
}

/// A part that was cut out: whole characters. If it was cut short, it ends with a line where possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The bytes of the part.
    pub bytes: Vec<u8>,
    /// The offset of the first byte in the whole text.
    pub from: u64,
    /// The offset after the last byte.
    pub to: u64,
    /// The line in which the part begins, counted from 1.
    pub from_line: u64,
    /// The part with which to continue, if this one was cut short.
    pub next: Option<Part>,
}

impl Passage {
    /// The part as text. Invalid UTF-8 is replaced by `U+FFFD`.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// Cuts at most `max_bytes` of `part` out of `window`, up to the end of a line if one ends there, or else between two
/// characters. A search gives nothing; use [`Search`](super::Search) for it.
///
/// If a range of lines is cut short within a line and its last line ends beyond the window, the part to continue with
/// reads to the end of the text; a caller with more of the text can find the actual end by
/// [`piece_with_end_of`](super::piece_with_end_of).
#[must_use]
pub fn cut_out(window: Window<'_>, part: &Part, max_bytes: usize) -> Passage {
    let requested = window.range_of(part);
    let bytes = &window.bytes[requested.clone()];
    let from = window.at + requested.start as u64;
    let from_line = window.newlines_before + newlines(&window.bytes[..requested.start]) + 1;
    let is_all = bytes.len() <= max_bytes;
    let len = if is_all {
        bytes.len()
    } else {
        kept_len(bytes, max_bytes)
    };
    let kept = &bytes[..len];
    let to = from + len as u64;
    // The one character that was requested may be longer than `max_bytes`.
    let is_whole = is_all || matches!(part, Part::Bytes { to: requested_to, .. } if to >= *requested_to);
    let next = (!is_whole).then(|| match part {
        Part::Lines { to: last, .. } if kept.ends_with(b"\n") => Part::Lines {
            from: from_line + newlines(kept),
            to: *last,
        },
        _ if requested.end < window.bytes.len() => Part::Bytes {
            from: to,
            to: window.at + requested.end as u64,
        },
        Part::Bytes { to: end, .. } if window.goes_on => Part::Bytes { from: to, to: *end },
        _ => Part::Bytes { from: to, to: u64::MAX },
    });
    Passage {
        bytes: kept.to_vec(),
        from,
        to,
        from_line,
        next,
    }
}

impl Window<'_> {
    /// Where `part` is in the section, as far as the section has it.
    fn range_of(&self, part: &Part) -> Range<usize> {
        let bytes = self.bytes;
        let offset_of =
            |at: u64| usize::try_from(at.saturating_sub(self.at)).map_or(bytes.len(), |at| at.min(bytes.len()));
        let (start, end) = match part {
            // Nothing is requested, so no character has to be completed.
            Part::Bytes { from, to } if to <= from => (offset_of(*from), offset_of(*from)),
            Part::Bytes { from, to } => {
                let end = character_start(bytes, offset_of(*to));
                (character_start(bytes, offset_of(*from)).min(end), end)
            }
            Part::Lines { from, to } => {
                let start = line_start(bytes, from.saturating_sub(self.newlines_before));
                let end = match to.checked_sub(*from) {
                    Some(line_span) => start + line_start(&bytes[start..], line_span.saturating_add(2)),
                    None => start,
                };
                (start, end)
            }
            Part::Search { .. } => (0, 0),
        };
        start..end.max(start)
    }
}

/// How much of `requested` is kept if no more than `max_bytes` of it may be: up to the end of a line, or else of a
/// character.
fn kept_len(requested: &[u8], max_bytes: usize) -> usize {
    let kept = &requested[..max_bytes];
    if let Some(at) = kept.iter().rposition(|byte| *byte == b'\n') {
        return at + 1;
    }
    match whole_characters(kept) {
        // At least one character, or continuing would never end.
        0 => {
            let inside = requested[1..].iter().take(3);
            1 + inside.take_while(|byte| is_continuation_byte(**byte)).count()
        }
        len => len,
    }
}
