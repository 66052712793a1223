//! JSON as some programs write it, made such that any reader can read it, and reads what it says.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::numbers::with_room;

/// What stands for half a character, as JSON writes it.
const REPLACEMENT: &[u8] = b"ufffd";

/// `json` with numbers that have no room as their texts ([`with_room`]), and with U+FFFD for half a character, as JavaScript writes one that
/// was cut (`\ud83d` alone). So neither makes all that was sent unreadable.
#[must_use]
pub fn readable(json: &[u8]) -> Cow<'_, [u8]> {
    let mut kept = with_room(json);
    if next_half(&kept, 0).is_some() {
        mend_halves(kept.to_mut());
    }
    kept
}

/// What `json` says; made [`readable`], if it is not.
///
/// # Errors
///
/// If it cannot be read all the same.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| match readable(json) {
        Cow::Owned(mended) => serde_json::from_slice(&mended),
        Cow::Borrowed(_) => Err(error),
    })
}

/// What `json`, which a model or a tool wrote, says: every number as it is written, those that have no room as their texts. [`read`] rounds
/// whole numbers that are too long, for it looks only at what cannot be read at all.
///
/// # Errors
///
/// If it cannot be read all the same.
pub fn read_unrounded<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(&readable(json))
}

/// Puts U+FFFD where `json` has half of a pair of surrogates. Nothing moves: both are six bytes long.
fn mend_halves(json: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = next_half(json, from) {
        json[at + 1..at + 6].copy_from_slice(REPLACEMENT);
        from = at + 6;
    }
}

/// Where half of a pair of surrogates is that begins at `from` or later.
fn next_half(json: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at < json.len() {
        if json[at] != b'\\' {
            at += 1;
            continue;
        }
        at += match unit_at(json, at) {
            Some(0xD800..=0xDBFF) if matches!(unit_at(json, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => return Some(at),
            // What follows a backslash begins nothing of its own.
            _ => 2,
        };
    }
    None
}

/// The unit of UTF-16 that is written as `\uXXXX` at `at`.
fn unit_at(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_becomes_the_character_that_stands_for_none() {
        for (written, read) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""a\uDE00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{fffd}"),
        ] {
            let json = readable(written.as_bytes());
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), read, "{written}");
        }
        for whole in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\ud8"#, "\\", r"\u"] {
            assert!(matches!(readable(whole.as_bytes()), Cow::Borrowed(_)), "{whole}");
        }
        assert_eq!(read::<Vec<String>>(br#"["\ud83d", "x"]"#).unwrap(), ["\u{fffd}", "x"]);
        assert!(read::<Vec<String>>(br#"["\ud83d""#).is_err());
        let rounded: serde_json::Value = read_unrounded(br#"[123456789012345678901234567890, 1.5]"#).unwrap();
        assert_eq!(rounded, serde_json::json!(["123456789012345678901234567890", 1.5]));
        let both = readable(br#"["\ud83d", 1e999]"#);
        assert_eq!(&*both, br#"["\ufffd", "1e999"]"#);
    }
}
