//! Any file name as text, and back.
//!
//! A name on disk is bytes; an argument and a result are text. [`shown`] writes bytes that are not text, and control
//! characters, as `\xNN`, and a backslash as `\\`; [`named`] reads that again. Names of everyday files are the same in
//! both forms.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use bstr::ByteSlice as _;

/// Writes a name as one line of text that [`named`] reads back to the same bytes.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                character if character.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in character.encode_utf8(&mut bytes).bytes() {
                        push_escaped(&mut text, byte);
                    }
                }
                character => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            push_escaped(&mut text, *byte);
        }
    }
    text
}

fn push_escaped(text: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(text, "\\x{byte:02x}");
}

/// Reads a name that [`shown`] wrote.
///
/// A backslash that begins neither `\\` nor `\xNN` stands for itself, so that a name typed by hand
/// needs no care unless it looks like an escape.
pub fn named(text: &str) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(at) = rest.find_byte(b'\\') {
        name.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        match rest {
            [b'\\', b'\\', ..] => {
                name.push(b'\\');
                rest = &rest[2..];
            }
            [b'\\', b'x', high, low, ..] if let Some(byte) = from_hex(*high, *low) => {
                name.push(byte);
                rest = &rest[4..];
            }
            _ => {
                name.push(b'\\');
                rest = &rest[1..];
            }
        }
    }
    name.extend_from_slice(rest);
    name
}

fn from_hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_file_names_are_shown_unescaped() {
        for name in ["src/main.rs", "Über uns.md", "日本/語.txt", "a:b", "x y"] {
            assert_eq!(shown(name.as_bytes()), name);
            assert_eq!(named(name), name.as_bytes());
        }
    }

    #[test]
    fn non_utf8_and_control_bytes_in_paths_are_escaped() {
        assert_eq!(shown(b"caf\xe9.txt"), "caf\\xe9.txt");
        assert_eq!(shown(b"two\nlines"), "two\\x0alines");
        assert_eq!(shown(b"back\\slash"), "back\\\\slash");
    }

    #[test]
    fn backslash_without_valid_escape_is_literal() {
        assert_eq!(named("a\\b"), b"a\\b");
        assert_eq!(named("a\\xzz"), b"a\\xzz");
        assert_eq!(named("end\\"), b"end\\");
    }

    proptest! {
        #[test]
        fn path_escaping_round_trips_arbitrary_bytes(name in any::<Vec<u8>>()) {
            prop_assert_eq!(named(&shown(&name)), name);
        }
    }
}
