//! JSON numbers that are too large for a reader, which would round or reject them, and numbers that can be written in
//! two ways.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// The limit up to which every whole number is exact as a double (2^53).
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns `json` with each number that fits neither 64 bits nor a double replaced by its text: `18446744073709551617`
/// by `"18446744073709551617"`, `1e999` by `"1e999"`. So no number changes silently, and one such number does not make
/// the whole input unreadable. Code that expects a number there reports the text as invalid.
#[must_use]
pub fn quote_oversized_numbers(json: &[u8]) -> Cow<'_, [u8]> {
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

/// Returns `value` with each number in one form, as far as a double is exact: `1.0` and `1e0` become `1`, and `-0.0`
/// becomes `0`.
#[must_use]
pub fn normalize_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(whole(&number).map_or(number, Number::from)),
        Value::Array(items) => items.into_iter().map(normalize_numbers).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, inner)| (key, normalize_numbers(inner)))
            .collect(),
        other => other,
    }
}

/// Whether `value` is or contains a number that has another written form: see [`normalize_numbers`].
#[must_use]
pub fn needs_number_normalizing(value: &Value) -> bool {
    match value {
        Value::Number(number) => whole(number).is_some(),
        Value::Array(items) => items.iter().any(needs_number_normalizing),
        Value::Object(map) => map.values().any(needs_number_normalizing),
        _ => false,
    }
}

/// Whether the two values are equal, whatever form their numbers are written in.
#[must_use]
pub fn equal_json(one: &Value, other: &Value) -> bool {
    one == other
        || ((needs_number_normalizing(one) || needs_number_normalizing(other))
            && normalize_numbers(one.clone()) == normalize_numbers(other.clone()))
}

/// The whole number that `number` equals if it is written as a floating-point number.
fn whole(number: &Number) -> Option<i64> {
    let value = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole and in the range in which a double is exact"
    )]
    let integer = (value.fract() == 0.0 && value.abs() <= WHOLE_MAX).then_some(value as i64);
    integer
}

/// The position after the string that begins at `at`.
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

/// Whether `number` is a number that is too large. Short ones are not parsed: they fit, or are not numbers.
fn has_no_room(number: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(number) else {
        return false;
    };
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_whole {
        let is_too_long = text.len() > 18 && text.parse::<u64>().is_err() && text.parse::<i64>().is_err();
        return is_too_long && text.parse::<f64>().is_ok();
    }
    // Without an exponent, a number needs hundreds of digits to be too large.
    let has_exponent = text.contains(['e', 'E']);
    (has_exponent || text.len() > 300) && text.parse::<f64>().is_ok_and(f64::is_infinite)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_normalized_to_one_form_m7_2_18() {
        let given: Value =
            serde_json::from_str(r#"{"a": 1.0, "b": [1e2, -0.0, 2.5], "c": 9007199254740993, "d": 1e300}"#).unwrap();
        let kept = normalize_numbers(given.clone());
        assert_eq!(
            kept.to_string(),
            r#"{"a":1,"b":[100,0,2.5],"c":9007199254740993,"d":1e+300}"#
        );
        assert_eq!(normalize_numbers(kept.clone()), kept);
        assert!(equal_json(&given, &kept) && !equal_json(&json!(1.5), &json!(1)));
        assert!(!needs_number_normalizing(&kept) && needs_number_normalizing(&given));
    }

    #[test]
    fn out_of_range_numbers_become_strings_and_others_are_unchanged() {
        for (given, kept) in [
            (r#"{"n": 18446744073709551617}"#, r#"{"n": "18446744073709551617"}"#),
            ("[-9223372036854775809]", r#"["-9223372036854775809"]"#),
            ("[1e999,-1E+400, 2]", r#"["1e999","-1E+400", 2]"#),
            ("1e999", r#""1e999""#),
        ] {
            assert_eq!(quote_oversized_numbers(given.as_bytes()), kept.as_bytes());
            serde_json::from_slice::<Value>(&quote_oversized_numbers(given.as_bytes())).unwrap();
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
            assert!(
                matches!(quote_oversized_numbers(same.as_bytes()), Cow::Borrowed(_)),
                "{same}"
            );
        }
    }
}
