//! Adds values to a JSON text and keeps everything else in it, byte for byte.

use serde_json::Value;

/// Returns `text` with everything of `wanted` that it lacks: keys of objects, and elements of lists unless `is_there`
/// says that an element of the list is what is wanted. Everything else stays as it is. An empty text is an empty object.
///
/// # Errors
///
/// Why nothing can be added: the text is not JSON, or something else is where a value belongs.
pub(super) fn insert(text: &str, wanted: &Value, is_there: &dyn Fn(&Value, &Value) -> bool) -> Result<String, String> {
    let mut text = match text.trim().is_empty() {
        true => "{}\n".to_owned(),
        false => text.to_owned(),
    };
    let there: Value = serde_json::from_str(&text).map_err(|error| format!("it is not JSON: {error}"))?;
    let start = text.len() - text.trim_start().len();
    merge(&mut text, (start, 0), (&there, wanted), is_there, "its content")?;
    Ok(text)
}

/// Adds what `wanted` has beyond `there`, the value that begins in `text` at byte `at` and is `depth` levels deep. `name`
/// is what it is called in an error.
fn merge(
    text: &mut String,
    (at, depth): (usize, usize),
    (there, wanted): (&Value, &Value),
    is_there: &dyn Fn(&Value, &Value) -> bool,
    name: &str,
) -> Result<(), String> {
    match (there, wanted) {
        (Value::Object(has), Value::Object(wants)) => {
            let mut is_empty = has.is_empty();
            for (key, value) in wants {
                match has.get(key) {
                    Some(inner) => {
                        let at = member(text, at, key).ok_or_else(|| format!("{key} is not found in it"))?;
                        merge(text, (at, depth + 1), (inner, value), is_there, key)?;
                    }
                    None => {
                        add(
                            text,
                            (at, depth),
                            &format!("{}: {}", Value::from(key.as_str()), pretty(value, depth + 1)),
                            is_empty,
                        );
                        is_empty = false;
                    }
                }
            }
            Ok(())
        }
        (Value::Array(has), Value::Array(wants)) => {
            let mut is_empty = has.is_empty();
            for value in wants.iter().filter(|value| !has.iter().any(|one| is_there(one, value))) {
                add(text, (at, depth), &pretty(value, depth + 1), is_empty);
                is_empty = false;
            }
            Ok(())
        }
        (there, wanted) if there == wanted => Ok(()),
        _ => Err(format!("{name} is something else there")),
    }
}

/// Adds `item` at the beginning of the object or list that begins at byte `at`.
fn add(text: &mut String, (at, depth): (usize, usize), item: &str, is_empty: bool) {
    let inner = "  ".repeat(depth + 1);
    if is_empty {
        let end = end_of_value(text.as_bytes(), at);
        let close = text.get(end - 1..end).unwrap_or_default().to_owned();
        text.replace_range(at + 1..end, &format!("\n{inner}{item}\n{}{close}", "  ".repeat(depth)));
    } else {
        text.insert_str(at + 1, &format!("\n{inner}{item},"));
    }
}

/// `value` over several lines, for a place that is `depth` levels deep.
fn pretty(value: &Value, depth: usize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.replace('\n', &format!("\n{}", "  ".repeat(depth)))
}

/// Where the value of `key` begins in the object that begins at byte `at`. The text is known to be JSON.
fn member(text: &str, at: usize, key: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut position, mut found) = (at + 1, None);
    loop {
        position = after_space(bytes, position);
        if bytes.get(position) != Some(&b'"') {
            return found;
        }
        let end = end_of_value(bytes, position);
        let name: String = serde_json::from_str(text.get(position..end)?).ok()?;
        // Behind the colon.
        let value = after_space(bytes, after_space(bytes, end) + 1);
        if name == key {
            // Of a key that is given twice, the last one counts.
            found = Some(value);
        }
        // Behind the comma, or at the end.
        position = after_space(bytes, end_of_value(bytes, value));
        if bytes.get(position) != Some(&b',') {
            return found;
        }
        position += 1;
    }
}

fn after_space(bytes: &[u8], from: usize) -> usize {
    let space = bytes.iter().skip(from).take_while(|byte| byte.is_ascii_whitespace());
    from + space.count()
}

/// Where the value ends that begins at byte `from`.
fn end_of_value(bytes: &[u8], from: usize) -> usize {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (position, byte) in bytes.iter().enumerate().skip(from) {
        if in_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            if in_string || depth > 0 {
                continue;
            }
            return position + 1;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return if depth == 1 { position + 1 } else { position },
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return position,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inserted(text: &str, wanted: &Value) -> Result<String, String> {
        insert(text, wanted, &|one, other| one == other)
    }

    #[test]
    fn everything_that_was_there_stays_byte_for_byte() {
        let text = "{ \"a\" : [1,2 ],\n\t\"mcpServers\": {\"x}\\\"{\": {\"args\": [\"[\"]}} , \"é\":null}\n\n";
        let wanted = json!({"mcpServers": {"folio": {"command": "folio"}}, "new": true});
        let result = inserted(text, &wanted).unwrap();
        let mut value: Value = serde_json::from_str(text).unwrap();
        value["mcpServers"]["folio"] = wanted["mcpServers"]["folio"].clone();
        value["new"] = json!(true);
        assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), value);
        // Without what was added it is the same text.
        let added = [
            "\n  \"new\": true,",
            "\n    \"folio\": {\n      \"command\": \"folio\"\n    },",
        ];
        assert_eq!(added.iter().fold(result, |rest, one| rest.replacen(one, "", 1)), text);
    }

    #[test]
    fn what_is_there_already_is_not_added_again() {
        let wanted = json!({"hooks": {"Stop": [{"x": 1}, {"y": 2}]}});
        let once = inserted("", &wanted).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&once).unwrap()["hooks"]["Stop"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        assert_eq!(inserted(&once, &wanted).unwrap(), once);
        let with_others = "{\"hooks\": {\"Stop\": [{\"y\": 2}], \"Other\": []}}";
        let result: Value = serde_json::from_str(&inserted(with_others, &wanted).unwrap()).unwrap();
        assert_eq!(result, json!({"hooks": {"Stop": [{"x": 1}, {"y": 2}], "Other": []}}));
        assert_eq!(
            inserted("{\"hooks\":{ }}", &json!({"hooks": {"a": [1]}})).unwrap(),
            "{\"hooks\":{\n    \"a\": [\n      1\n    ]\n  }}"
        );
    }

    #[test]
    fn text_that_is_not_json_or_holds_something_else_is_refused() {
        let wanted = json!({"hooks": {"Stop": [1]}});
        for text in [
            "// a comment\n{}",
            "{\"hooks\": [}",
            "\u{feff}{}",
            "[]",
            "{\"hooks\": \"none\"}",
            "{\"hooks\": {\"Stop\": {}}}",
        ] {
            assert!(inserted(text, &wanted).is_err(), "{text}");
        }
    }
}
