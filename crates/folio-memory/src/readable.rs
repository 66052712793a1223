//! Reading JSON as some programs write it, with values that ordinary readers reject.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::numbers::quote_oversized_numbers;

/// The escape of U+FFFD, which replaces a lone surrogate, without its backslash.
const REPLACEMENT: &[u8] = b"ufffd";

/// Returns `json` with numbers that are too large replaced by their texts ([`quote_oversized_numbers`]), and with lone
/// surrogates, which JavaScript writes when it cuts a pair (`\ud83d` alone), replaced by U+FFFD. So neither makes the
/// whole input unreadable.
#[must_use]
pub fn readable(json: &[u8]) -> Cow<'_, [u8]> {
    let mut kept = quote_oversized_numbers(json);
    if next_lone_surrogate(&kept, 0).is_some() {
        replace_lone_surrogates(kept.to_mut());
    }
    kept
}

/// Parses `json`, after making it [`readable`] if it cannot be parsed as it is.
///
/// # Errors
///
/// If it cannot be parsed even then.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| match readable(json) {
        Cow::Owned(repaired) => serde_json::from_slice(&repaired),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Parses `json` that a model or a tool wrote, with every number as it is written and numbers that are too large as
/// texts. [`read`] rounds whole numbers that are too long, because it only makes readable what cannot be parsed at all.
///
/// # Errors
///
/// If it cannot be parsed even then.
pub fn read_unrounded<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(&readable(json))
}

/// Replaces lone surrogates in `json` by U+FFFD in place: both are written in six bytes.
fn replace_lone_surrogates(json: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = next_lone_surrogate(json, from) {
        json[at + 1..at + 6].copy_from_slice(REPLACEMENT);
        from = at + 6;
    }
}

/// The offset of the first lone surrogate at `from` or later.
fn next_lone_surrogate(json: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at < json.len() {
        if json[at] != b'\\' {
            at += 1;
            continue;
        }
        at += match unit_at(json, at) {
            Some(0xD800..=0xDBFF) if matches!(unit_at(json, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => return Some(at),
            // The character after a backslash does not begin anything.
            _ => 2,
        };
    }
    None
}

/// The UTF-16 code unit that is written as `\uXXXX` at `at`.
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
    fn lone_surrogate_escapes_become_the_replacement_character() {
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
