//! Spaces, the boundary between tenants (M7.6.51), and the threads inside them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::warning::ParseError;

/// The name of a space: 1 to 64 of `a-z`, `0-9`, `.`, `_`, `-`, beginning with a letter or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpaceName(String);

impl SpaceName {
    /// The default space.
    #[must_use]
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// Parses the name of a space.
    ///
    /// # Errors
    ///
    /// The reason in words.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let well_formed = text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'));
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError::new(format!(
                "{text:?} is not a space name: 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit"
            )))
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SpaceName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for SpaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SpaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SpaceName {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<SpaceName> for String {
    fn from(name: SpaceName) -> Self {
        name.0
    }
}

/// The key of a thread. Opaque: `a/b`, `a_b` and any script are different keys, and none is ever used as a path
/// (M7.4.38). An empty key, and one with a zero character, are refused when something is written, and so are `.` and
/// `..` when the thread begins.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ThreadKey(pub String);

impl ThreadKey {
    /// The default thread.
    #[must_use]
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// Whether the key cannot stand in a URL: browsers and many libraries take it for a step in the path, also if it is
    /// percent-encoded.
    #[must_use]
    pub fn is_step_in_a_path(&self) -> bool {
        matches!(self.0.as_str(), "." | "..")
    }
}

impl FromStr for ThreadKey {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() || text.contains('\0') {
            return Err(ParseError::new(format!(
                "{text:?} is not the key of a thread: it is empty, or has a zero character"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl Default for ThreadKey {
    fn default() -> Self {
        Self::main()
    }
}

impl fmt::Display for ThreadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{SpaceName, ThreadKey};

    #[test]
    fn space_name_resembling_a_path_or_a_flag_is_refused() {
        for bad in ["", "-x", "a/b", "A", "..", ".hidden", "ä", &"a".repeat(65)] {
            let invalid = SpaceName::parse(bad).unwrap_err().to_string();
            assert!(invalid.contains(&format!("{bad:?}")), "{invalid}");
            assert_eq!(bad.parse::<SpaceName>().unwrap_err().to_string(), invalid);
        }
        assert_eq!(SpaceName::parse("team-1.dev_x").unwrap().as_str(), "team-1.dev_x");
    }

    #[test]
    fn thread_key_is_any_text_but_none_that_no_write_accepts() {
        for bad in ["", "a\0b"] {
            assert!(bad.parse::<ThreadKey>().is_err(), "{bad:?}");
        }
        assert_eq!("a/b ä".parse::<ThreadKey>().unwrap(), ThreadKey("a/b ä".to_owned()));
    }
}
