//! Looking for a text as it stands, and not for its words: what people take for the same text is the same.

use unicode_normalization::UnicodeNormalization as _;

use super::fold::is_ignored;

/// A text that is looked for in others. Case makes no difference, nor does how characters are put together (`é` as one or as two,
/// `ﬁ`, full width), what is not seen (soft hyphens, joiners), or with how many blanks and ends of lines words are parted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought(String);

impl Sought {
    /// Looks for `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(plain(text))
    }

    /// Whether it stands in `text`. Nothing stands nowhere.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.is_in_plain(&plain(text))
    }

    /// The same of what [`plain`] made of a text in which many are looked for.
    #[must_use]
    pub fn is_in_plain(&self, text: &str) -> bool {
        !self.0.is_empty() && text.contains(&self.0)
    }
}

/// `text` as it is compared.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    if text.is_ascii() {
        push_parted(&mut plain, text.chars());
        plain.make_ascii_lowercase();
        return plain;
    }
    let seen = text.nfkc().filter(|c| !is_ignored(*c));
    // There and back, because some capitals have two small letters. Small letters can be put together anew.
    let small = seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    push_parted(&mut plain, small.nfkc());
    plain
}

/// Adds `text`, with one blank for every run of blanks and ends of lines.
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

/// The ways in which `text` is mostly put together, beside its own: for those who look for bytes.
#[must_use]
pub fn spellings(text: &str) -> [String; 3] {
    [text.to_owned(), text.nfc().collect(), text.nfd().collect()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_take_for_the_same_text_is_found_m7_6_50() {
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
            assert!(Sought::new(text).is_in(other), "{text:?} in {other:?}");
        }
    }

    #[test]
    fn what_reads_otherwise_is_not_found_m7_6_50() {
        for (text, other) in [
            ("old mill", "oldmill"),
            ("oldmill", "old mill"),
            ("Müller", "Muller"),
            ("", "anything"),
            ("\u{ad}", "anything"),
        ] {
            assert!(!Sought::new(text).is_in(other), "{text:?} in {other:?}");
        }
    }
}
