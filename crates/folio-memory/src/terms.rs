//! Exact-match index terms of an entry: its tags and the values in its context.
//!
//! Stores keep these terms in one index for both: a tag is its own term, and a value in the context has a term that no
//! tag can be.

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::entry::EntryFields;
use crate::numbers::needs_number_normalizing;
use crate::query::keys_of;

/// The prefix of terms that are not tags: tags have no control characters.
const MARK: char = '\u{1}';
/// The maximum number of values of one context that have terms of their own.
const VALUES_MAX: usize = 64;
/// The length in bytes beyond which a term is replaced by its digest.
const WORD_MAX: usize = 128;

/// The term of entries whose context has more values than can have terms: only the entry itself shows whether it
/// matches.
pub const MORE: &str = "\u{1}";

/// The terms of an entry, without duplicates.
#[must_use]
pub fn terms_of(fields: &EntryFields) -> Vec<String> {
    let mut terms: Vec<String> = Vec::with_capacity(fields.tags.len());
    for tag in &fields.tags {
        if !terms.iter().any(|term| term == tag.as_str()) {
            terms.push(tag.as_str().to_owned());
        }
    }
    if let Some(context) = &fields.context {
        let first = terms.len();
        walk(context, &mut String::new(), &mut terms, first + VALUES_MAX + 1);
        if terms.len() > first + VALUES_MAX {
            terms.truncate(first + VALUES_MAX);
            terms.push(MORE.to_owned());
        }
    }
    terms
}

/// The term for a value at a dotted path, or `None` if there is none. A list or an object is compared as a whole, and a
/// value below an empty key or a key with a dot is looked up in the entries themselves. So is a whole number written
/// with a decimal point or exponent: contexts store it in one form, but those of an earlier version may have it in this
/// one.
#[must_use]
pub fn context_term(path: &str, value: &Value) -> Option<String> {
    if needs_number_normalizing(value) {
        return None;
    }
    if !path.contains('\\') && !path.split('.').any(has_no_word) {
        return term_at(path, value);
    }
    let keys: Vec<_> = keys_of(path).collect();
    if keys.iter().any(|key| has_no_word(key)) {
        return None;
    }
    term_at(&keys.join("."), value)
}

/// Whether values below `key` have no term: in a joined path, a key with a dot would look like two keys, and an empty
/// key like none.
fn has_no_word(key: &str) -> bool {
    key.is_empty() || key.contains('.')
}

/// The term for a value at `path`, whose keys are already joined with dots.
fn term_at(path: &str, value: &Value) -> Option<String> {
    let value_text = match value {
        Value::Array(_) | Value::Object(_) => return None,
        // One number that can be written in two ways: zero with and without a sign.
        Value::Number(number) if number.as_f64() == Some(0.0) && number.is_f64() => "0.0".to_owned(),
        value => value.to_string(),
    };
    let term = format!("{MARK}{path}{MARK}{value_text}");
    if term.len() <= WORD_MAX {
        return Some(term);
    }
    let digest = HEXLOWER.encode(&Sha256::digest(term.as_bytes())[..16]);
    Some(format!("{MARK}{MARK}{digest}"))
}

/// Adds the terms of the values in `value`, which stands at `path`, until there are `max_terms`.
fn walk(value: &Value, path: &mut String, terms: &mut Vec<String>, max_terms: usize) {
    let Value::Object(map) = value else {
        // A context that is not an object has no paths.
        if !path.is_empty() && terms.len() < max_terms {
            terms.extend(term_at(path, value));
        }
        return;
    };
    for (key, inner) in map {
        if has_no_word(key) || terms.len() >= max_terms {
            continue;
        }
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(key);
        walk(inner, path, terms, max_terms);
        path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::actor::Trust;
    use crate::entry::{EntryKind, Owner, Tag};
    use crate::query::at_path;

    fn fields(tags: &[&str], context: Value) -> EntryFields {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.tags = tags.iter().map(|tag| Tag::parse(tag).unwrap()).collect();
        fields.context = Some(context);
        fields
    }

    #[test]
    fn every_context_value_on_a_path_has_an_index_term_m7_2_18() {
        let context = json!({"goal_id": "g", "user": {"id": 7, "name": null}, "list": [1], "a.b": 1, "zero": -0.0});
        let terms = terms_of(&fields(&["wine", "wine"], context.clone()));
        assert_eq!(terms.len(), 1 + 4);
        assert_eq!(terms[0], "wine");
        for (path, wanted) in [
            ("goal_id", json!("g")),
            ("user.id", json!(7)),
            ("user.name", Value::Null),
        ] {
            assert_eq!(at_path(Some(&context), path), Some(&wanted));
            assert!(
                terms.contains(&context_term(path, &wanted).unwrap()),
                "{path} is not found"
            );
        }
        assert_eq!(context_term("list", &json!([1])), None);
        assert_eq!(context_term("zero", &json!(0.0)), None);
    }

    #[test]
    fn long_context_values_get_short_distinct_index_terms() {
        let long = json!("x".repeat(10_000));
        let term = context_term("path", &long).unwrap();
        assert!(term.len() <= WORD_MAX);
        assert_ne!(term, context_term("path", &json!("x".repeat(10_001))).unwrap());
    }

    #[test]
    fn context_with_too_many_values_gets_an_overflow_term() {
        let many: serde_json::Map<_, _> = (0..100).map(|n| (format!("k{n}"), json!(n))).collect();
        let terms = terms_of(&fields(&[], Value::Object(many)));
        assert_eq!(terms.len(), VALUES_MAX + 1);
        assert_eq!(terms.last().map(String::as_str), Some(MORE));
    }
}
