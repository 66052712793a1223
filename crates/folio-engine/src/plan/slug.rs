//! The short names of steps.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The most characters of a slug (each is one byte).
pub const SLUG_CHARS_MAX: usize = 64;

/// A step's short name, unique within its plan: `^[a-z0-9][a-z0-9_-]{0,63}$`.
///
/// Templates name a step's result by its slug. A `-` is an operator there, so `results.list-files` cannot be written;
/// `results.list_files` and `results["list-files"]` both find it. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(Arc<str>);

/// A text that is not a slug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a slug: 1 to 64 characters out of a-z, 0-9, `-` and `_`, the first of them a letter or a digit"
)]
pub struct SlugError {
    /// The text that was given.
    pub given: String,
}

impl Slug {
    /// Takes `text` unchanged.
    ///
    /// # Errors
    ///
    /// [`SlugError`] if it is empty, too long, or has a character that a slug may not have.
    pub fn parse(text: &str) -> Result<Self, SlugError> {
        let is_word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let well_formed = text.len() <= SLUG_CHARS_MAX
            && text.bytes().next().is_some_and(is_word)
            && text.bytes().all(|c| is_word(c) || c == b'-' || c == b'_');
        if well_formed {
            Ok(Self(text.into()))
        } else {
            Err(SlugError { given: text.to_owned() })
        }
    }

    /// The slug made from a name that is known to give one; `step` for anything else.
    pub(crate) fn of(name: &str) -> Self {
        Self::from_title(name).unwrap_or_else(|| Self("step".into()))
    }

    /// Makes a slug from words: in lower case, without apostrophes, and with one `-` for each run of other characters
    /// that are not letters, digits or `_`.
    ///
    /// A title without any Latin letter or digit gets a derived name such as `step-1a2b3c4d`, always the same for the
    /// same title. Returns `None` for a title without any letter or digit.
    pub fn from_title(title: &str) -> Option<Self> {
        let mut slug = String::with_capacity(title.len().min(SLUG_CHARS_MAX));
        for c in title.chars() {
            if slug.len() == SLUG_CHARS_MAX {
                break;
            }
            match c.to_ascii_lowercase() {
                c if c.is_ascii_lowercase() || c.is_ascii_digit() => slug.push(c),
                '_' if !slug.is_empty() => slug.push('_'),
                // An apostrophe is dropped: "dont" reads better than "don-t".
                '\'' | '’' => {}
                _ if slug.is_empty() || slug.ends_with('-') => {}
                _ => slug.push('-'),
            }
        }
        slug.truncate(slug.trim_end_matches(['-', '_']).len());
        if slug.is_empty() && title.chars().any(char::is_alphanumeric) {
            let digest = Sha256::digest(title.trim().as_bytes());
            let word = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
            slug = format!("step-{word:08x}");
        }
        (!slug.is_empty()).then(|| Self(slug.into()))
    }

    /// The text of the slug.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Slug {
    type Error = SlugError;

    fn try_from(text: String) -> Result<Self, SlugError> {
        Self::parse(&text)
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.as_str().to_owned()
    }
}

impl AsRef<str> for Slug {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Slug {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slug_starts_alphanumeric_and_has_at_most_64_characters() {
        for good in ["a", "0", "list-files", "a_b-c", &"a".repeat(64)] {
            assert_eq!(Slug::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", "_a", "A", "a b", "ä", "a.b", &"a".repeat(65)] {
            assert!(Slug::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn slug_is_derived_from_a_title() {
        let slug = |title: &str| Slug::from_title(title).map(String::from);
        assert_eq!(slug("List the files!").as_deref(), Some("list-the-files"));
        assert_eq!(slug("  Don't -- panic ").as_deref(), Some("dont-panic"));
        assert_eq!(slug("t1").as_deref(), Some("t1"));
        assert_eq!(slug("日本語"), slug(" 日本語 "));
        assert_ne!(slug("日本語"), slug("日本"));
        assert!(slug("日本語").is_some_and(|slug| slug.starts_with("step-") && slug.len() == 13));
        assert_eq!(slug("!?"), None);
        assert_eq!(slug(&format!("{}--b", "a".repeat(63))).map(|s| s.len()), Some(63));
    }
}
