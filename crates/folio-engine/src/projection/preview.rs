//! Outputs as a log shows them.

use folio_memory::excerpt::cut;
use serde_json::Value;

use crate::result::Output;

/// The most characters of an output that a log shows.
const PREVIEW_CHARS: usize = 600;

/// The beginning of an output; `None` if it is null.
pub(super) fn output_preview(output: &Output) -> Option<String> {
    match output {
        Output::Inline(inline) if inline.is_null() => None,
        Output::Inline(inline) => Some(preview(&inline.value())),
        Output::Blob { hash, bytes } => Some(format!("{bytes} bytes, kept as blob:{hash}; read it with result_read")),
    }
}

/// The beginning of a value as JSON text, made without serializing a large value first.
pub(crate) fn preview(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text, PREVIEW_CHARS),
        other => {
            let mut beginning = Beginning {
                bytes: Vec::new(),
                left: PREVIEW_CHARS * 4,
            };
            // The only error means "enough".
            let is_all = serde_json::to_writer(&mut beginning, other).is_ok();
            // The last character may be cut in the middle.
            let text = beginning.bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            let excerpt = cut(text, PREVIEW_CHARS);
            if is_all || excerpt.ends_with('…') {
                excerpt
            } else {
                format!("{excerpt}…")
            }
        }
    }
}

/// A writer that keeps the first bytes that are written to it.
struct Beginning {
    bytes: Vec<u8>,
    left: usize,
}

impl std::io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = bytes.len().min(self.left);
        self.bytes.extend_from_slice(&bytes[..count]);
        self.left -= count;
        if count < bytes.len() {
            return Err(std::io::Error::other("enough"));
        }
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn preview_shows_the_start_of_a_long_text_within_limits() {
        for text in ["long ".repeat(1_000), "ä😀".repeat(2_000)] {
            let shown = preview(&json!({"text": text}));
            let begins = format!("{{\"text\":\"{}", &text[..500]);
            assert!(text.is_char_boundary(500) && shown.starts_with(&begins), "{shown}");
            assert!(
                (PREVIEW_CHARS - 1..=PREVIEW_CHARS).contains(&shown.chars().count()),
                "{shown}"
            );
            assert!(shown.ends_with('…') && !shown.contains(char::REPLACEMENT_CHARACTER));
        }
        assert_eq!(preview(&json!({"a": [1, "ä"]})), r#"{"a":[1,"ä"]}"#);
    }
}
