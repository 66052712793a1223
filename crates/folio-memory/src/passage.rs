//! Parts of a long text: a range of bytes or lines, or the lines that contain a text.
//!
//! The text may be kept in pieces. To read a part, ask [`pieces_for`] which pieces it needs, join those in a
//! [`Window`], and cut the part out with [`cut_out`]; a search is fed piece by piece. So neither takes more memory than
//! its answer, however long the text is.

mod cut;
mod marks;
mod pieces;
mod search;

pub use cut::{Passage, Window, cut_out};
pub use marks::{line_start, newlines, whole_characters};
pub use pieces::{piece_with_end_of, pieces_for, start_of};
pub use search::{FoundLine, Search, SearchResult};

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

#[cfg(test)]
mod tests;
