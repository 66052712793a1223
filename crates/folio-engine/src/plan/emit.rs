//! Writes a value as YAML that people like to edit. Reading it back gives an equal value.

use serde_json::{Map, Value};

/// Words that YAML reads as something other than a text.
const YAML_KEYWORDS: [&str; 7] = ["true", "false", "yes", "no", "on", "off", "null"];
/// Keys that come first, in this order; the others follow by name.
const FIRST: [&str; 17] = [
    "id",
    "title",
    "description",
    "reason",
    "for_each",
    "as",
    "needs",
    "satisfies",
    "criteria",
    "do",
    "tool",
    "args",
    "plan",
    "step",
    "steps",
    "parallel",
    "sequence",
];
/// The most characters of a list or an object on one line.
const LINE_CHARS: usize = 100;

/// `value` as YAML: objects and lists in block form, short ones on one line; ends with a newline.
pub(super) fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut out, value, 0),
        Value::Array(items) if !items.is_empty() => block(&mut out, value, 0),
        other => {
            out.push_str(&flow(other));
            out.push('\n');
        }
    }
    out
}

fn block(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) => {
            for (position, (key, value)) in ordered(map).into_iter().enumerate() {
                // The first key of an item follows its dash.
                if position > 0 || !out.ends_with("- ") {
                    indent(out, depth);
                }
                out.push_str(&scalar_text(key));
                out.push(':');
                push_value_after_key(out, value, depth + 1);
            }
        }
        Value::Array(items) => {
            for item in items {
                indent(out, depth);
                out.push('-');
                after_dash(out, item, depth + 1);
            }
        }
        other => {
            out.push_str(&flow(other));
            out.push('\n');
        }
    }
}

/// Writes what follows `key:`.
fn push_value_after_key(out: &mut String, value: &Value, depth: usize) {
    if is_short(value) {
        out.push(' ');
        out.push_str(&flow(value));
        out.push('\n');
    } else {
        out.push('\n');
        block(out, value, depth);
    }
}

fn after_dash(out: &mut String, value: &Value, depth: usize) {
    out.push(' ');
    match value {
        Value::Object(_) if !is_short(value) => block(out, value, depth),
        Value::Array(_) if !is_short(value) => {
            out.pop();
            out.push('\n');
            block(out, value, depth);
        }
        other => {
            out.push_str(&flow(other));
            out.push('\n');
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    (0..depth).for_each(|_| out.push_str("  "));
}

/// Whether the value goes on one line: it is not long and holds no nested objects.
fn is_short(value: &Value) -> bool {
    match value {
        Value::Object(map) if map.is_empty() => true,
        Value::Array(items) if items.is_empty() => true,
        Value::Array(items) => !items.iter().any(Value::is_object) && flow(value).chars().count() <= LINE_CHARS,
        Value::Object(map) => {
            !map.values().any(|v| v.is_object() || v.is_array()) && flow(value).chars().count() <= LINE_CHARS
        }
        _ => true,
    }
}

/// The entries in the order in which people like to read them, whatever order the map has.
fn ordered(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    let rank = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
    entries.sort_by(|(one, _), (other, _)| (rank(one), one).cmp(&(rank(other), other)));
    entries
}

/// The value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entries = ordered(map)
                .into_iter()
                .map(|(key, value)| format!("{}: {}", scalar_text(key), flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::String(text) => scalar_text(text),
        other => other.to_string(),
    }
}

/// The text without quotes, if nothing can mistake it for something else.
fn scalar_text(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " _-./()".contains(c))
        && !text.ends_with(' ')
        && !YAML_KEYWORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// The text in double quotes, with everything escaped that might not survive.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control()
                || matches!(
                    c,
                    '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}'
                ) =>
            {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
