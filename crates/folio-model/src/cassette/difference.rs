//! The differences between two JSON values.

use std::collections::BTreeSet;

use serde_json::Value;

/// How many characters of a value are shown, and how many of these before the first difference of two texts.
const SHOWN_CHARS: usize = 60;
const CONTEXT_CHARS: usize = 20;

/// How two values differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Difference {
    /// How many nested values differ.
    pub(super) count: usize,
    /// Approximately how many characters differ.
    pub(super) chars: usize,
    /// The path of the first difference, with both values.
    pub(super) first: String,
}

/// How `other` differs from `one`.
pub(super) fn between(one: &Value, other: &Value) -> Difference {
    let mut found = Difference::default();
    walk(Some(one), Some(other), "", &mut found);
    found
}

fn walk(one: Option<&Value>, other: Option<&Value>, path: &str, found: &mut Difference) {
    match (one, other) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            for name in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                let dot = if path.is_empty() { "" } else { "." };
                walk(one.get(name), other.get(name), &format!("{path}{dot}{name}"), found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for at in 0..one.len().max(other.len()) {
                walk(one.get(at), other.get(at), &format!("{path}[{at}]"), found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => {
            let (one_text, other_text) = (text_of(one), text_of(other));
            let same = one_text
                .chars()
                .zip(other_text.chars())
                .take_while(|(a, b)| a == b)
                .count();
            let same_end = one_text
                .chars()
                .rev()
                .zip(other_text.chars().rev())
                .take_while(|(a, b)| a == b)
                .count();
            let longer = one_text.chars().count().max(other_text.chars().count());
            found.chars += longer.saturating_sub(same + same_end);
            if found.count == 0 {
                let from = same.saturating_sub(CONTEXT_CHARS);
                found.first = format!(
                    "{path}: recorded is {}, asked is {}",
                    shown(one, from),
                    shown(other, from)
                );
            }
            found.count += 1;
        }
    }
}

fn text_of(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn shown(value: Option<&Value>, from: usize) -> String {
    if value.is_none() {
        return "nothing".to_owned();
    }
    let text = text_of(value);
    let part: String = text.chars().skip(from).take(SHOWN_CHARS).collect();
    let prefix = if from > 0 { "…" } else { "" };
    let end = if text.chars().count() > from + SHOWN_CHARS {
        "…"
    } else {
        ""
    };
    format!("{:?}", format!("{prefix}{part}{end}"))
}
