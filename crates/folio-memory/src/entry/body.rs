//! Texts that are too long to stand in an entry (M7.3.29).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::warning::{Invalid, Warning};

/// Bytes of text that stand in the entry itself.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Bytes of the longest text that is kept at all.
pub const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of the beginning that an entry shows of a longer text.
const PREVIEW_BYTES: usize = 2 * 1024;

/// A text that is kept beside the entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BodyRef {
    /// The SHA-256 of the text, by which it is found; of one in pieces the SHA-256 of the hashes of its pieces.
    pub hash: String,
    /// How long it is.
    pub bytes: u64,
    /// The pieces that it is kept in, in order. Empty for a text that is kept as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<BodyPiece>,
}

impl BodyRef {
    /// The hashes of what it is kept as, in order: of its pieces, or of the whole.
    pub fn hashes(&self) -> impl Iterator<Item = &String> {
        let whole = std::iter::once(&self.hash).filter(|_| self.pieces.is_empty());
        whole.chain(self.pieces.iter().map(|piece| &piece.hash))
    }
}

/// A piece of a text that is too long to be held in memory as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BodyPiece {
    /// The SHA-256 of the piece, by which it is found.
    pub hash: String,
    /// How long it is.
    pub bytes: u64,
    /// Ends of lines in it.
    pub newlines: u64,
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

/// Whether `text` is short enough to be kept.
///
/// # Errors
///
/// `content_too_large` or `body_too_large`, as the field is called, for more than 16 MiB.
pub fn check_text(text: &str, field: &str) -> Result<(), Invalid> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    let message = format!(
        "{} bytes are more than {MAX_TEXT_BYTES}; keep it in parts, or as a file, and write down where it is",
        text.len()
    );
    Err(match field {
        "content" => Invalid::new("content_too_large", field, message),
        _ => Invalid::new("body_too_large", field, message),
    })
}

/// `text` without the characters NUL, which databases and terminals do not keep, and that there were some; said once for all texts of
/// an entry (M7.3.29).
#[must_use]
pub fn without_nul(text: String, warnings: &mut Vec<Warning>) -> String {
    if !text.contains('\0') {
        return text;
    }
    let warning = Warning::new("nul_removed", "NUL characters were taken out", "NUL", "nothing");
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
    text.replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_16_mib_is_kept_and_one_byte_more_is_refused_m7_3_29() {
        let text = "x".repeat(MAX_TEXT_BYTES + 1);
        assert!(check_text(&text[1..], "content").is_ok());
        assert_eq!(check_text(&text, "content").unwrap_err().code, "content_too_large");
        assert_eq!(check_text(&text, "body").unwrap_err().code, "body_too_large");
    }

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
