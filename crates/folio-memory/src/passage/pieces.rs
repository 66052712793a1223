//! Which pieces of a text are needed for a part of it.

use std::ops::Range;

use super::Part;
use crate::entry::{BodyPiece, BodyRef};

/// The maximum number of bytes of a character after its first one.
const INSIDE_MAX: u64 = 3;

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
