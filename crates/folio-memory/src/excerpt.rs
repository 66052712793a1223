//! Texts in one line, and texts cut to a bounded length with a mark.

use unicode_segmentation::UnicodeSegmentation;

/// The mark at the end of a text that was cut.
pub const MORE: char = '…';

/// Whether `text` has at most `chars` characters.
#[must_use]
pub fn fits(text: &str, chars: usize) -> bool {
    // No text has more characters than bytes.
    text.len() <= chars || text.char_indices().nth(chars).is_none()
}

/// Returns `text`, or its beginning followed by [`MORE`], with at most `chars` characters together. Grapheme clusters
/// are not split.
#[must_use]
pub fn cut(text: &str, chars: usize) -> String {
    if fits(text, chars) {
        return text.to_owned();
    }
    let Some(max_chars) = chars.checked_sub(1) else {
        return String::new();
    };
    let end = text.char_indices().nth(max_chars).map_or(text.len(), |(at, _)| at);
    let boundaries = text.grapheme_indices(true).map(|(at, _)| at);
    let end = boundaries.take_while(|at| *at <= end).last().unwrap_or(0);
    let mut kept = text[..end].trim_end().to_owned();
    kept.push(MORE);
    kept
}

/// Returns the words of `text`, separated by single spaces.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Returns the words of `text`, separated by single spaces and [cut] to `chars` characters.
#[must_use]
pub fn short_line(text: &str, chars: usize) -> String {
    let line = one_line(text);
    if fits(&line, chars) { line } else { cut(&line, chars) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_text_ends_with_an_ellipsis_within_its_limit() {
        let cases = [
            ("", 0, ""),
            ("a", 0, ""),
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("ab cd", 4, "ab…"),
            ("äöüß", 4, "äöüß"),
            ("äöüßé", 4, "äöü…"),
            // A family of four is seven characters that are seen as one.
            ("x👨\u{200d}👩\u{200d}👧\u{200d}👦 y", 5, "x…"),
            ("👨\u{200d}👩\u{200d}👧\u{200d}👦 y", 5, "…"),
        ];
        for (text, chars, kept) in cases {
            assert_eq!(cut(text, chars), kept, "{text:?} to {chars}");
        }
    }

    #[test]
    fn line_breaks_and_repeated_spaces_become_single_spaces() {
        assert_eq!(one_line("  a\n\tb\u{a0}c  "), "a b c");
        assert_eq!(short_line(" one\n two  three ", 8), "one two…");
        assert_eq!(short_line(" one\n two ", 7), "one two");
    }
}
