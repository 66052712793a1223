//! The names of what calls write, so that two calls that write the same do not run at the same time.

use serde_json::Value;

use crate::sha256::content_hash;

/// The longest argument that stands in a name unchanged, in bytes; a longer one is replaced by its hash.
const VALUE_BYTES: usize = 200;

/// `patterns` with the values of `args` in place of `{NAME}`. A missing argument is empty.
pub(crate) fn resource_names(patterns: &[String], args: &Value) -> Vec<String> {
    patterns.iter().map(|pattern| fill_pattern(pattern, args)).collect()
}

fn fill_pattern(pattern: &str, args: &Value) -> String {
    let mut name = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, after_brace)) = rest.split_once('{') {
        name.push_str(before);
        let Some((argument, after)) = after_brace.split_once('}') else {
            name.push('{');
            rest = after_brace;
            continue;
        };
        name.push_str(&value_of(args.get(argument)));
        rest = after;
    }
    name.push_str(rest);
    name
}

fn value_of(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if text.len() > VALUE_BYTES {
        content_hash(text.as_bytes())
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resource_pattern_is_filled_from_call_arguments_e9_15() {
        let args = json!({"id": "e42", "n": 7, "path": "notes/a.md", "long": "x".repeat(300)});
        for (pattern, name) in [
            ("board", "board"),
            ("board/{id}", "board/e42"),
            ("disk/{path}", "disk/notes/a.md"),
            ("{n}-{missing}", "7-"),
            ("{open", "{open"),
        ] {
            assert_eq!(fill_pattern(pattern, &args), name, "{pattern}");
        }
        assert!(fill_pattern("x/{long}", &args).starts_with("x/sha256:"));
    }
}
