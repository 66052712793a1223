//! Texts that are too long to be kept in an entry (M7.3.29).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::warning::{Invalid, Warning};

/// The maximum size of a text that is kept in the entry itself, in bytes.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;

/// The maximum size of a text that is kept at all, in bytes.
pub const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// The maximum size of the beginning that an entry shows of a longer text, in bytes.
const PREVIEW_BYTES: usize = 2 * 1024;

/// A reference to a text that is kept beside the entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BodyRef {
    /// The SHA-256 of the text, by which it is found; for a text in pieces, the SHA-256 of the hashes of its pieces.
    pub hash: String,
    /// The length of the text in bytes.
    pub bytes: u64,
    /// The pieces of the text, in order. Empty for a text that is kept whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<BodyPiece>,
}

impl BodyRef {
    /// The hashes under which the text is kept, in order: those of its pieces, or that of the whole.
    pub fn hashes(&self) -> impl Iterator<Item = &String> {
        let whole_hash = std::iter::once(&self.hash).filter(|_| self.pieces.is_empty());
        whole_hash.chain(self.pieces.iter().map(|piece| &piece.hash))
    }
}

/// A piece of a text that is too long to be held in memory as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BodyPiece {
    /// The SHA-256 of the piece, by which it is found.
    pub hash: String,
    /// The length of the piece in bytes.
    pub bytes: u64,
    /// The number of line breaks in the piece.
    pub newlines: u64,
}

/// Returns the part of `text` that an entry shows if the text is kept beside it; `None` if the text fits in the entry.
///
/// The beginning consists of whole characters, at most 2 KiB, and ends with a line if a line ends in its second half.
#[must_use]
pub fn preview_of(text: &str) -> Option<&str> {
    if text.len() <= MAX_INLINE_BYTES {
        return None;
    }
    let start = &text[..text.floor_char_boundary(PREVIEW_BYTES)];
    let end = start.rfind('\n').filter(|end| *end >= PREVIEW_BYTES / 2);
    Some(end.map_or(start, |end| &start[..end]))
}

/// Checks that `text` is short enough to be kept.
///
/// # Errors
///
/// `content_too_large` or `body_too_large`, according to the name of the field, for more than 16 MiB.
pub fn check_text(text: &str, field: &str) -> Result<(), Invalid> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    let message = format!(
        "{} bytes are more than {MAX_TEXT_BYTES}; store it in parts or as a file, and note where it is",
        text.len()
    );
    Err(match field {
        "content" => Invalid::new("content_too_large", field, message),
        _ => Invalid::new("body_too_large", field, message),
    })
}

/// Returns `text` without NUL characters, which databases and terminals do not keep. Adds a warning if there were any,
/// but only one for all texts of an entry (M7.3.29).
#[must_use]
pub fn without_nul(text: String, warnings: &mut Vec<Warning>) -> String {
    if !text.contains('\0') {
        return text;
    }
    let warning = Warning::new("nul_removed", "NUL characters were removed", "NUL", "nothing");
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
    text.replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_over_16_mib_is_refused_m7_3_29() {
        let text = "x".repeat(MAX_TEXT_BYTES + 1);
        assert!(check_text(&text[1..], "content").is_ok());
        assert_eq!(check_text(&text, "content").unwrap_err().code, "content_too_large");
        assert_eq!(check_text(&text, "body").unwrap_err().code, "body_too_large");
    }

    #[test]
    fn only_text_over_the_inline_limit_gets_a_preview_m7_3_29() {
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
