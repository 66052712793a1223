//! Canonical JSON: its bytes depend on the content and not on the order in which it was written.
//!
//! Whether a map of `serde_json` preserves the order of its keys is a feature that any crate can enable for the whole
//! build. So everything that is hashed, stored or compared as text is passed through here, or has its maps sorted
//! (`Value::sort_all_objects`).

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns `value` as JSON text without white space, with the keys of all maps and the fields of all structs in byte
/// order.
///
/// # Errors
///
/// If `value` cannot be expressed in JSON: a map whose keys are not texts.
pub fn canonical_json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(canonical(serde_json::to_value(value)?).to_string())
}

/// Returns `value` with the keys of all maps in byte order.
#[must_use]
pub fn canonical(mut value: Value) -> Value {
    value.sort_all_objects();
    value
}

/// The SHA-256 of `parts`. The length of each part is hashed before it, so that no two lists of parts collide.
#[must_use]
pub fn digest_of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// `bytes` as lower-case hexadecimal digits, two per byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a string cannot fail.
            let _infallible = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_writes_two_digits_for_each_byte() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
        assert_eq!(hex(&[]), "");
    }

    #[test]
    fn canonical_json_sorts_keys_at_every_depth() {
        let one: Value = serde_json::from_str(r#"{"b": [{"y": 1, "x": 2}], "a": {"d": 1, "c": 2}}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a": {"c": 2, "d": 1}, "b": [{"x": 2, "y": 1}]}"#).unwrap();
        let text = r#"{"a":{"c":2,"d":1},"b":[{"x":2,"y":1}]}"#;
        assert_eq!(canonical_json(&one).unwrap(), text);
        assert_eq!(canonical_json(&other).unwrap(), text);
    }

    #[test]
    fn digest_depends_on_the_boundaries_of_its_parts() {
        let digest = |parts: [&str; 2]| digest_of(parts.map(str::as_bytes));
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
        assert_eq!(digest(["ab", "c"]), digest(["ab", "c"]));
    }
}
