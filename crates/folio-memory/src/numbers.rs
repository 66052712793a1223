//! Numbers in JSON for which there is no room: a reader would round them, or read nothing at all.

use std::borrow::Cow;

/// `json` with each number that is kept neither in 64 bits nor as a double as its text: `18446744073709551617` as
/// `"18446744073709551617"`, `1e999` as `"1e999"`. So nothing changes silently, and one such number does not make all that was sent unreadable.
/// Whatever takes a number there says what is wrong with a text.
#[must_use]
pub fn with_room(json: &[u8]) -> Cow<'_, [u8]> {
    let mut kept: Vec<u8> = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(&byte) = json.get(at) {
        if byte == b'"' {
            at = end_of_text(json, at);
        } else if byte == b'-' || byte.is_ascii_digit() {
            let rest = &json[at..];
            let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
            let number = &rest[..rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len())];
            if has_no_room(number) {
                kept.extend_from_slice(&json[copied..at]);
                kept.push(b'"');
                kept.extend_from_slice(number);
                kept.push(b'"');
                copied = at + number.len();
            }
            at += number.len();
        } else {
            at += 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    kept.extend_from_slice(&json[copied..]);
    Cow::Owned(kept)
}

/// Behind the text that begins at `at`.
fn end_of_text(json: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

/// Whether it is a number, and too large. Short ones are not looked at: they have room, or are none.
fn has_no_room(number: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(number) else {
        return false;
    };
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_whole {
        let is_too_long = text.len() > 18 && text.parse::<u64>().is_err() && text.parse::<i64>().is_err();
        return is_too_long && text.parse::<f64>().is_ok();
    }
    // Without an exponent it has hundreds of digits before it is too large.
    let has_exponent = text.contains(['e', 'E']);
    (has_exponent || text.len() > 300) && text.parse::<f64>().is_ok_and(f64::is_infinite)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_number_without_room_stays_what_it_says_and_all_others_stay_numbers() {
        for (given, kept) in [
            (r#"{"n": 18446744073709551617}"#, r#"{"n": "18446744073709551617"}"#),
            ("[-9223372036854775809]", r#"["-9223372036854775809"]"#),
            ("[1e999,-1E+400, 2]", r#"["1e999","-1E+400", 2]"#),
            ("1e999", r#""1e999""#),
        ] {
            assert_eq!(with_room(given.as_bytes()), kept.as_bytes());
            serde_json::from_slice::<Value>(&with_room(given.as_bytes())).unwrap();
        }
        for same in [
            "18446744073709551615",
            "-9223372036854775808",
            r#"{"a": 1e308, "b": 0.12345678901234567890, "c": 1e-999}"#,
            r#"["18446744073709551617", "1e999 \" 1e999", "\\"]"#,
            "not JSON: 1e9e9, 99999999999999999999-1",
            "\"1e999",
            "",
        ] {
            assert!(matches!(with_room(same.as_bytes()), Cow::Borrowed(_)), "{same}");
        }
    }
}
