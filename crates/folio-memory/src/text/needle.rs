//! Searching for a literal text rather than its words, treating spellings that people consider equal as equal.

use unicode_normalization::UnicodeNormalization as _;

use super::fold::is_ignored;

/// A text to search for in others. Differences in case, composition (`é` as one character or two, `ﬁ`, full width),
/// invisible characters (soft hyphens, joiners), and the amount of white space between words are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle(String);

impl Needle {
    /// Creates a search for `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(plain(text))
    }

    /// Whether `text` contains it. An empty text is contained nowhere.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.is_in_plain(&plain(text))
    }

    /// The same for a text already converted by [`plain`], for searching one text for many.
    #[must_use]
    pub fn is_in_plain(&self, text: &str) -> bool {
        !self.0.is_empty() && text.contains(&self.0)
    }
}

/// Returns `text` in the form in which it is compared.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    if text.is_ascii() {
        push_parted(&mut plain, text.chars());
        plain.make_ascii_lowercase();
        return plain;
    }
    let seen = text.nfkc().filter(|c| !is_ignored(*c));
    // To upper case and back, because some capitals have two lower-case letters. Lower-case letters may then compose
    // anew.
    let small = seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    push_parted(&mut plain, small.nfkc());
    plain
}

/// Appends `text` with every run of white space replaced by a single space.
fn push_parted(plain: &mut String, text: impl Iterator<Item = char>) {
    let mut is_blank = false;
    for c in text {
        if !c.is_whitespace() {
            plain.push(c);
        } else if !is_blank {
            plain.push(' ');
        }
        is_blank = c.is_whitespace();
    }
}

/// The most common Unicode forms of `text`, beside its own, for searches by bytes.
#[must_use]
pub fn spellings(text: &str) -> [String; 3] {
    [text.to_owned(), text.nfc().collect(), text.nfd().collect()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sought_text_is_found_in_equivalent_spellings_m7_6_50() {
        for (text, other) in [
            ("Café Müller", "cafe\u{301}  mu\u{308}ller"),
            ("old mill", "the Old\nmill."),
            ("old mill", "old \r\n\t mill"),
            ("old mill", "old\u{a0}mill"),
            ("old mill", "o\u{ad}ld mi\u{200d}ll"),
            ("Straße", "STRASSE"),
            ("file", "ﬁle"),
            ("ＡＢＣ", "abc"),
            ("ΟΔΥΣΣΕΎΣ", "οδυσσεύς"),
            ("가나", "\u{1100}\u{1161}\u{1102}\u{1161}"),
            ("İstanbul", "i\u{307}stanbul"),
        ] {
            assert!(Needle::new(text).is_in(other), "{text:?} in {other:?}");
        }
    }

    #[test]
    fn sought_text_is_not_found_in_different_spellings_m7_6_50() {
        for (text, other) in [
            ("old mill", "oldmill"),
            ("oldmill", "old mill"),
            ("Müller", "Muller"),
            ("", "anything"),
            ("\u{ad}", "anything"),
        ] {
            assert!(!Needle::new(text).is_in(other), "{text:?} in {other:?}");
        }
    }
}
