//! Tags: words to find entries by.

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

use crate::view::is_blank;
use crate::warning::Invalid;

/// A tag in canonical form (M7.3.28): NFC, trimmed, inner white space as `_`, case kept, 1 to 64 bytes. `/` and `:` are
/// allowed, so that people can build hierarchies; the prefix `sys:` is reserved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tag(String);

impl Tag {
    /// The maximum number of tags of an entry.
    pub const MAX_PER_ENTRY: usize = 32;

    /// Brings `text` into canonical form.
    ///
    /// # Errors
    ///
    /// `tag_invalid` if nothing is left or more than 64 bytes are, or if the tag has control characters or begins with
    /// `sys:`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let normal: String = text.nfc().collect();
        let canonical = normal.split_whitespace().collect::<Vec<_>>().join("_");
        let reason = if is_blank(&normal) {
            "is empty"
        } else if canonical.len() > 64 {
            "is longer than 64 bytes"
        } else if canonical.chars().any(char::is_control) {
            "has control characters"
        } else if canonical.starts_with("sys:") {
            "begins with the reserved sys:"
        } else {
            return Ok(Self(canonical));
        };
        Err(Invalid::new(
            "tag_invalid",
            "tags",
            format!("the tag {text:?} {reason}"),
        ))
    }

    /// Brings a list of tags into canonical form, in the order given and without duplicates.
    ///
    /// # Errors
    ///
    /// The first tag that is invalid, or `tags_too_many` at the first tag beyond the limit; the rest is not read.
    pub fn parse_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>, Invalid> {
        let mut tags = Vec::new();
        for text in texts {
            let tag = Self::parse(text)?;
            if tags.contains(&tag) {
                continue;
            }
            if tags.len() == Self::MAX_PER_ENTRY {
                return Err(Self::too_many());
            }
            tags.push(tag);
        }
        Ok(tags)
    }

    /// Parses the tags of a query. `None` if a name cannot be a tag, because then no entry has it (M7.2.13).
    #[must_use]
    pub fn parse_query_tags(names: &[String]) -> Option<Vec<Self>> {
        names.iter().map(|name| Self::parse(name).ok()).collect()
    }

    /// The error that there are more tags than an entry may carry.
    pub(crate) fn too_many() -> Invalid {
        let message = format!("there are more than {}", Self::MAX_PER_ENTRY);
        Invalid::new("tags_too_many", "tags", message)
    }

    /// The tag as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Tag;

    #[test]
    fn tag_parser_keeps_case_slashes_and_colons_m7_3_28() {
        assert_eq!(
            Tag::parse("  Area/UI: dark  mode ").unwrap().as_str(),
            "Area/UI:_dark_mode"
        );
        assert_eq!(Tag::parse("e\u{301}").unwrap().as_str(), "é");
    }

    #[test]
    fn blank_reserved_or_overlong_tags_are_refused() {
        let long = "x".repeat(65);
        let bad = ["", "   ", "\u{200b}", "\u{200b} \u{2060}", "sys:x", &long, "a\u{7}"];
        let reasons = bad.map(|bad| Tag::parse(bad).unwrap_err().message);
        insta::assert_snapshot!(reasons.join("\n"), @r#"
        the tag "" is empty
        the tag "   " is empty
        the tag "\u{200b}" is empty
        the tag "\u{200b} \u{2060}" is empty
        the tag "sys:x" begins with the reserved sys:
        the tag "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is longer than 64 bytes
        the tag "a\u{7}" has control characters
        "#);
    }

    #[test]
    fn entry_has_at_most_32_tags_of_64_bytes_m7_3_28() {
        assert!(Tag::parse(&"é".repeat(32)).is_ok(), "64 bytes");
        assert!(Tag::parse(&"é".repeat(33)).is_err(), "66 bytes");
        let many: Vec<String> = (0..33).map(|n| format!("t{n}")).collect();
        let names = |count: usize| many[..count].iter().map(String::as_str);
        assert_eq!(Tag::parse_all(names(32)).map(|tags| tags.len()), Ok(32));
        assert_eq!(Tag::parse_all(names(33)).unwrap_err().code, "tags_too_many");
        assert_eq!(
            Tag::parse_all(names(32).chain(names(32))).map(|tags| tags.len()),
            Ok(32),
            "each once"
        );
        let mut read = 0;
        let endless = names(33).cycle().take(10_000).inspect(|_| read += 1);
        assert_eq!(Tag::parse_all(endless).unwrap_err().code, "tags_too_many");
        assert_eq!(read, 33, "what follows one too many is not read");
        assert!(
            Tag::parse("Sys:x").is_ok() && Tag::parse("sys").is_ok(),
            "only sys: is ours"
        );
    }
}
