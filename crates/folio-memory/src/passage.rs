//! Parts of a long text: a range of bytes or lines, or the lines that contain a text.
//!
//! The text may be kept in pieces. To read a part, ask [`pieces_for`] which pieces it needs, join those in a
//! [`Window`], and cut the part out with [`cut_out`]; a search is fed piece by piece. So neither takes more memory than
//! its answer, however long the text is.

use std::borrow::Cow;
use std::ops::Range;

use schemars::JsonSchema;

use crate::entry::{BodyPiece, BodyRef};

/// The maximum number of characters of a line that a search shows.
const LINE_CHARS: usize = 300;

/// The maximum number of bytes of a line that a search examines at once; the rest is searched as if it were the next
/// line.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The maximum number of bytes of a character after its first one.
const INSIDE_MAX: u64 = 3;

/// The part to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A range of bytes, counted from 0, with an exclusive end. A character belongs to the range that its first byte is
    /// in, so that adjacent ranges together are the text.
    Bytes {
        /// The first byte.
        from: u64,
        /// The byte to stop before; `u64::MAX` means the end.
        to: u64,
    },
    /// A range of lines, counted from 1, with an inclusive end.
    Lines {
        /// The first line.
        from: u64,
        /// The last line; `u64::MAX` means the end.
        to: u64,
    },
    /// The lines that contain a text, ignoring case.
    Search {
        /// The text to search for.
        words: String,
        /// Only lines that begin at this byte or later: where an earlier search ended.
        from: u64,
    },
}

impl Part {
    /// The whole text.
    pub const WHOLE: Self = Self::Bytes { from: 0, to: u64::MAX };

    /// Parses a range of lines: `10-20`, `10:20`, `10-` or `10`. `None` for anything else, or if the range ends before
    /// it begins.
    #[must_use]
    pub fn lines(text: &str) -> Option<Self> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let (from, to) = match text.split_once(['-', ':']) {
            None => (number(text)?, number(text)?),
            Some((from, to)) if to.trim().is_empty() => (number(from)?, u64::MAX),
            Some((from, to)) => (number(from)?, number(to)?),
        };
        (from > 0 && to >= from).then_some(Self::Lines { from, to })
    }
}

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

/// A line that a search found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, JsonSchema)]
pub struct FoundLine {
    /// The number of the line, counted from 1.
    pub line: u64,
    /// The line, or about 300 characters around the match.
    pub text: String,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The matching lines, as many as were wanted.
    pub matches: Vec<FoundLine>,
    /// The number of matching lines from the start of the search.
    pub count: u64,
    /// The offset of the first matching line that is not shown.
    pub next: Option<u64>,
}

/// The result of reading a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// The part itself.
    Passage(Passage),
    /// The lines that contain a text.
    Found(SearchResult),
}

/// A part of a text, with the size of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRead {
    /// The part.
    pub reading: Reading,
    /// The length of the whole text in bytes.
    pub total_bytes: u64,
    /// The number of lines of the whole text.
    pub total_lines: u64,
}

/// Reads at most `max_bytes` of `part` from a text in memory.
#[must_use]
pub fn read(bytes: &[u8], part: &Part, max_bytes: usize) -> PartRead {
    let reading = match part {
        Part::Search { words, from } => {
            let mut search = Search::new(words, *from, max_bytes);
            search.feed(bytes);
            Reading::Found(search.finish())
        }
        part => {
            let window = Window {
                bytes,
                at: 0,
                newlines_before: 0,
                goes_on: false,
            };
            Reading::Passage(cut_out(window, part, max_bytes))
        }
    };
    PartRead {
        reading,
        total_bytes: bytes.len() as u64,
        total_lines: newlines(bytes) + u64::from(bytes.last().is_some_and(|last| *last != b'\n')),
    }
}

/// The range of the pieces of `body` that are needed to read at most `max_bytes` of `part`.
#[must_use]
pub fn pieces_for(body: &[BodyPiece], part: &Part, max_bytes: usize) -> Range<usize> {
    // Room for one more character, which shows whether there is more, and for the rest of a character in which the part
    // may begin.
    let max_window = max_bytes as u64 + 4 + INSIDE_MAX;
    let mut piece_end = 0_u64;
    let mut lines = 0_u64;
    let (mut first, mut last) = (None, body.len());
    let mut after_first = 0_u64;
    for (index, piece) in body.iter().enumerate() {
        let piece_start = piece_end;
        piece_end += piece.bytes;
        lines += piece.newlines;
        let holds_start = match part {
            Part::Bytes { from, .. } => piece_end > *from,
            Part::Lines { from, .. } => lines + 1 >= *from,
            Part::Search { .. } => true,
        };
        match first {
            None if holds_start => first = Some(index),
            None => continue,
            Some(_) => after_first += piece.bytes,
        }
        let is_enough = match part {
            // The character that contains the first byte may end in the next piece, and then the part begins there.
            Part::Bytes { from, to } => {
                // So may the last one.
                let end = to.saturating_add(INSIDE_MAX).min(from.saturating_add(max_window));
                piece_end >= end.max(from.saturating_add(INSIDE_MAX)) && piece_start <= *to
            }
            Part::Lines { .. } => after_first >= max_window,
            Part::Search { .. } => false,
        };
        if is_enough {
            last = index + 1;
            break;
        }
    }
    let first = first.unwrap_or_else(|| body.len().saturating_sub(1));
    first..last.max(first)
}

/// The index of the piece that contains the end of the given line, counted from 1, and the number of lines that end in
/// the piece before it. `None` if no line break ends that line.
#[must_use]
pub fn piece_with_end_of(body: &[BodyPiece], line: u64) -> Option<(usize, u64)> {
    let mut lines_before = 0_u64;
    for (index, piece) in body.iter().enumerate() {
        let lines_after = lines_before + piece.newlines;
        if line <= lines_after {
            return Some((index, line.saturating_sub(lines_before).saturating_sub(1)));
        }
        lines_before = lines_after;
    }
    None
}

/// The offset at which `pieces` of `body` begin, and the number of line breaks before it.
#[must_use]
pub fn start_of(body: &BodyRef, pieces: &Range<usize>) -> (u64, u64) {
    body.pieces[..pieces.start]
        .iter()
        .fold((0, 0), |(bytes, lines), piece| {
            (bytes + piece.bytes, lines + piece.newlines)
        })
}

/// Cuts at most `max_bytes` of `part` out of `window`, up to the end of a line if one ends there, or else between two
/// characters. A search gives nothing; use [`Search`] for it.
///
/// If a range of lines is cut short within a line and its last line ends beyond the window, the part to continue with
/// reads to the end of the text; a caller with more of the text can find the actual end by [`piece_with_end_of`].
#[must_use]
pub fn cut_out(window: Window<'_>, part: &Part, max_bytes: usize) -> Passage {
    let bytes = window.bytes;
    let offset_of =
        |at: u64| usize::try_from(at.saturating_sub(window.at)).map_or(bytes.len(), |at| at.min(bytes.len()));
    let (start, end, last_line) = match part {
        // Nothing is requested, so no character has to be completed.
        Part::Bytes { from, to } if to <= from => (offset_of(*from), offset_of(*from), None),
        Part::Bytes { from, to } => {
            let end = character_start(bytes, offset_of(*to));
            (character_start(bytes, offset_of(*from)).min(end), end, None)
        }
        Part::Lines { from, to } => {
            let start = line_start(bytes, from.saturating_sub(window.newlines_before));
            let end = match to.checked_sub(*from) {
                Some(line_span) => start + line_start(&bytes[start..], line_span.saturating_add(2)),
                None => start,
            };
            (start, end, Some(*to))
        }
        Part::Search { .. } => (0, 0, None),
    };
    let (requested, from_line) = (
        &bytes[start..end.max(start)],
        window.newlines_before + newlines(&bytes[..start]) + 1,
    );
    let from = window.at + start as u64;
    if requested.len() <= max_bytes {
        return Passage {
            bytes: requested.to_vec(),
            from,
            to: from + requested.len() as u64,
            from_line,
            next: None,
        };
    }
    let kept = &requested[..max_bytes];
    let len = match kept.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => at + 1,
        // At least one character, or continuing would never end.
        None => match whole_characters(kept) {
            0 => {
                1 + requested[1..]
                    .iter()
                    .take(3)
                    .take_while(|byte| is_continuation_byte(**byte))
                    .count()
            }
            len => len,
        },
    };
    let to = from + len as u64;
    // The one character that was requested may be longer than `max_bytes`.
    let is_whole = matches!(part, Part::Bytes { to: requested_to, .. } if to >= *requested_to);
    let next = match last_line {
        Some(last) if requested[..len].ends_with(b"\n") => Part::Lines {
            from: from_line + newlines(&requested[..len]),
            to: last,
        },
        _ if end < bytes.len() => Part::Bytes {
            from: to,
            to: window.at + end as u64,
        },
        None => match part {
            Part::Bytes { to: end, .. } if window.goes_on => Part::Bytes { from: to, to: *end },
            _ => Part::Bytes { from: to, to: u64::MAX },
        },
        Some(_) => Part::Bytes { from: to, to: u64::MAX },
    };
    Passage {
        bytes: requested[..len].to_vec(),
        from,
        to,
        from_line,
        next: (!is_whole).then_some(next),
    }
}

/// A search for the lines that contain a text, fed piece by piece.
#[derive(Debug)]
pub struct Search {
    words: String,
    from: u64,
    remaining_bytes: usize,
    at: u64,
    line: u64,
    /// The beginning of a line whose end has not been fed yet.
    unfinished_line: Vec<u8>,
    found: SearchResult,
}

impl Search {
    /// Creates a search for `words`, ignoring case, in lines that begin at byte `from` or later. It shows about
    /// `max_bytes` of matching lines, but at least one.
    #[must_use]
    pub fn new(words: &str, from: u64, max_bytes: usize) -> Self {
        Self {
            words: words.to_lowercase(),
            from,
            remaining_bytes: max_bytes,
            at: 0,
            line: 1,
            unfinished_line: Vec::new(),
            found: SearchResult::default(),
        }
    }

    /// Searches the next piece.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            if self.unfinished_line.is_empty() {
                self.search_line(&bytes[..end]);
            } else {
                self.unfinished_line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.unfinished_line);
                self.search_line(&line);
            }
            self.at += 1;
            self.line += 1;
            bytes = &bytes[end + 1..];
        }
        self.unfinished_line.extend_from_slice(bytes);
        if self.unfinished_line.len() > LINE_BYTES_MAX {
            let line = std::mem::take(&mut self.unfinished_line);
            self.search_line(&line);
        }
    }

    /// Returns the result of the search.
    #[must_use]
    pub fn finish(mut self) -> SearchResult {
        let line = std::mem::take(&mut self.unfinished_line);
        if !line.is_empty() {
            self.search_line(&line);
        }
        self.found
    }

    fn search_line(&mut self, line: &[u8]) {
        let start = self.at;
        self.at += line.len() as u64;
        if start < self.from {
            return;
        }
        let line = String::from_utf8_lossy(line);
        let lower = line.to_lowercase();
        let Some(at) = lower.find(&self.words) else { return };
        self.found.count += 1;
        if self.found.next.is_some() {
            return;
        }
        let skipped = if line.chars().count() > LINE_CHARS {
            lower[..at].chars().count().saturating_sub(LINE_CHARS / 3)
        } else {
            0
        };
        let mut text: String = if skipped > 0 { "…" } else { "" }.to_owned();
        text.extend(line.chars().skip(skipped).take(LINE_CHARS));
        let cost = text.len() + 24;
        if self.found.matches.is_empty() || cost <= self.remaining_bytes {
            self.remaining_bytes = self.remaining_bytes.saturating_sub(cost);
            self.found.matches.push(FoundLine { line: self.line, text });
        } else {
            self.found.next = Some(start);
        }
    }
}

/// The number of line breaks in `bytes`.
#[must_use]
pub fn newlines(bytes: &[u8]) -> u64 {
    // Sums of up to 255 bytes fit into a `u8`, so that many can be added in parallel.
    let in_chunk = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    bytes
        .chunks(usize::from(u8::MAX))
        .map(|chunk| u64::from(in_chunk(chunk)))
        .sum()
}

/// The offset at which the given line begins, counted from 1; the end if there is no such line.
#[must_use]
pub fn line_start(bytes: &[u8], line: u64) -> usize {
    let Some(before) = line.checked_sub(2) else { return 0 };
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let mut ends = ends.map(|(at, _)| at + 1);
    usize::try_from(before)
        .ok()
        .and_then(|before| ends.nth(before))
        .unwrap_or(bytes.len())
}

fn is_continuation_byte(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The given offset, or that of the next character if it is inside of one.
fn character_start(bytes: &[u8], from: usize) -> usize {
    (from..from + 4)
        .find(|at| !bytes.get(*at).is_some_and(|byte| is_continuation_byte(*byte)))
        .unwrap_or(from)
        .min(bytes.len())
}

/// The length of `bytes` without an incomplete character at the end.
#[must_use]
pub fn whole_characters(bytes: &[u8]) -> usize {
    // A character has at most four bytes, so an incomplete one has at most three.
    for from_end in 1..=bytes.len().min(3) {
        let at = bytes.len() - from_end;
        let char_len = match bytes[at] {
            byte if is_continuation_byte(byte) => continue,
            0xf0..=0xf7 => 4,
            0xe0..=0xef => 3,
            0xc0..=0xdf => 2,
            _ => 1,
        };
        return if char_len > from_end { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces_of(text: &[u8], size: usize) -> Vec<BodyPiece> {
        text.chunks(size.max(1))
            .map(|piece| BodyPiece {
                hash: String::new(),
                bytes: piece.len() as u64,
                newlines: newlines(piece),
            })
            .collect()
    }

    /// Reads a part of `text` as if it were kept in pieces of `size` bytes.
    fn read_in_pieces(text: &[u8], size: usize, part: &Part, max: usize) -> Passage {
        let body = BodyRef {
            hash: String::new(),
            bytes: text.len() as u64,
            pieces: pieces_of(text, size),
        };
        let range = pieces_for(&body.pieces, part, max);
        let (at, newlines_before) = start_of(&body, &range);
        let start = usize::try_from(at).unwrap();
        let len: u64 = body.pieces[range].iter().map(|piece| piece.bytes).sum();
        let end = start + usize::try_from(len).unwrap();
        let window = Window {
            bytes: &text[start..end],
            at,
            newlines_before,
            goes_on: end < text.len(),
        };
        cut_out(window, part, max)
    }

    #[test]
    fn line_range_parser_accepts_ranges_and_single_lines() {
        let lines = |from, to| Some(Part::Lines { from, to });
        assert_eq!(Part::lines("10-20"), lines(10, 20));
        assert_eq!(Part::lines("10:20"), lines(10, 20));
        assert_eq!(Part::lines("10-"), lines(10, u64::MAX));
        assert_eq!(Part::lines("7"), lines(7, 7));
        for wrong in ["", "a", "0", "3-2", "-3", "1-2-3"] {
            assert_eq!(Part::lines(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn reversed_line_range_reads_nothing_m7_8_v9() {
        let Reading::Passage(none) = read(b"one\ntwo\nthree\n", &Part::Lines { from: 3, to: 1 }, 100).reading else {
            panic!("a passage")
        };
        assert_eq!((none.bytes.len(), none.from_line, none.next), (0, 3, None));
    }

    #[test]
    fn search_continues_from_its_next_position_m7_8_v9() {
        let text = "one error\nfine\ntwo ERROR\nthree error";
        let mut shown = Vec::new();
        let mut from = 0;
        loop {
            let Reading::Found(found) = read(
                text.as_bytes(),
                &Part::Search {
                    words: "Error".to_owned(),
                    from,
                },
                40,
            )
            .reading
            else {
                panic!("a search finds lines");
            };
            assert_eq!(found.count, 3 - shown.len() as u64);
            shown.extend(found.matches.into_iter().map(|found| found.line));
            match found.next {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(shown, [1, 3, 4]);
    }

    #[test]
    fn character_split_between_pieces_is_read_whole_m7_8_v9() {
        let bytes = "a🙂é\n日b".as_bytes();
        for size in 1..bytes.len() {
            for from in 0..bytes.len() as u64 {
                let part = Part::Bytes { from, to: from + 1 };
                let Reading::Passage(whole) = read(bytes, &part, 1).reading else {
                    panic!("a passage")
                };
                let in_pieces = read_in_pieces(bytes, size, &part, 1);
                assert_eq!(
                    (&whole.bytes, whole.from),
                    (&in_pieces.bytes, in_pieces.from),
                    "{size} {from}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn adjacent_byte_ranges_join_to_the_whole_text_e9_16(
            text in "[a-c\n é日🙂]{0,60}", size in 1_usize..20, step in 1_u64..9,
        ) {
            let bytes = text.as_bytes();
            let mut read = Vec::new();
            let mut from = 0;
            while from < bytes.len() as u64 {
                let passage = read_in_pieces(bytes, size, &Part::Bytes { from, to: from + step }, 100);
                prop_assert!(std::str::from_utf8(&passage.bytes).is_ok(), "{:?}", passage);
                read.extend_from_slice(&passage.bytes);
                from += step;
            }
            prop_assert_eq!(read, bytes);
        }

        #[test]
        fn passage_of_a_body_is_independent_of_its_pieces_m7_8_v9(
            text in "[a-c\n é日🙂]{0,200}", size in 1_usize..40, from in 0_u64..80, len in 0_u64..80, max in 1_usize..60,
        ) {
            let bytes = text.as_bytes();
            for part in [
                Part::Bytes { from, to: from + len },
                Part::Bytes { from, to: u64::MAX },
                Part::Lines { from: from + 1, to: from + 1 + len },
                Part::Lines { from: from + 1, to: u64::MAX },
            ] {
                let Reading::Passage(whole) = read(bytes, &part, max).reading else { panic!("a passage") };
                let in_pieces = read_in_pieces(bytes, size, &part, max);
                prop_assert_eq!(&whole.bytes, &in_pieces.bytes, "{:?}", part);
                prop_assert_eq!(
                    (whole.from, whole.to, whole.from_line, whole.next.is_some()),
                    (in_pieces.from, in_pieces.to, in_pieces.from_line, in_pieces.next.is_some()),
                    "{:?}", part
                );
            }
        }

        #[test]
        fn continued_reading_returns_every_byte_once_m7_8_v9(
            text in "[a-c\n é日🙂]{0,200}", size in 1_usize..40, max in 1_usize..30, by_lines in any::<bool>(),
        ) {
            let bytes = text.as_bytes();
            let mut part = if by_lines { Part::Lines { from: 1, to: u64::MAX } } else { Part::WHOLE };
            let mut read = Vec::new();
            for _ in 0..=bytes.len() {
                let passage = read_in_pieces(bytes, size, &part, max);
                prop_assert!(passage.bytes.len() <= max.max(4));
                prop_assert!(std::str::from_utf8(&passage.bytes).is_ok());
                read.extend_from_slice(&passage.bytes);
                match passage.next {
                    Some(next) => part = next,
                    None => break,
                }
            }
            prop_assert_eq!(read, bytes);
        }

        #[test]
        fn search_of_a_body_is_independent_of_its_pieces_m7_8_v9(text in "[ab\n é]{0,120}", size in 1_usize..20) {
            let mut in_pieces = Search::new("a", 0, 200);
            text.as_bytes().chunks(size).for_each(|piece| in_pieces.feed(piece));
            let mut whole = Search::new("a", 0, 200);
            whole.feed(text.as_bytes());
            prop_assert_eq!(whole.finish(), in_pieces.finish());
        }
    }
}
