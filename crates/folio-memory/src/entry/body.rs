//! Texts that are too long to stand in an entry (M7.3.29).

use serde::{Deserialize, Serialize};

/// Bytes of text that stand in the entry itself.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Bytes of the beginning that an entry shows of a longer text.
const PREVIEW_BYTES: usize = 2 * 1024;

/// A text that is kept beside the entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyRef {
    /// The SHA-256 of the text, by which it is found.
    pub hash: String,
    /// How long it is.
    pub bytes: u64,
}

/// What an entry shows of `text` that is kept beside it; none if the text stands in the entry itself.
///
/// The beginning, up to 2 KiB and whole characters, ending with a line if one ends in the second half of that.
#[must_use]
pub fn preview_of(text: &str) -> Option<&str> {
    if text.len() <= MAX_INLINE_BYTES {
        return None;
    }
    let start = &text[..text.floor_char_boundary(PREVIEW_BYTES)];
    let end = start.rfind('\n').filter(|end| *end >= PREVIEW_BYTES / 2);
    Some(end.map_or(start, |end| &start[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_shows_its_beginning_and_a_short_one_stands_as_it_is_m7_3_29() {
        assert_eq!(preview_of(&"x".repeat(MAX_INLINE_BYTES)), None);
        assert_eq!(
            preview_of(&"x".repeat(MAX_INLINE_BYTES + 1)).unwrap().len(),
            PREVIEW_BYTES
        );
        assert_eq!(
            preview_of(&"€".repeat(MAX_INLINE_BYTES)).unwrap().len(),
            PREVIEW_BYTES / 3 * 3
        );
        assert_eq!(
            preview_of(&"line\n".repeat(MAX_INLINE_BYTES)).unwrap().len(),
            PREVIEW_BYTES / 5 * 5 - 1
        );
    }
}
