//! Operations on texts, and those that work on texts and lists alike.

use folio_memory::readable::readable;
use serde_json::{Value, json};

use super::given::Given;
use super::room::Room;
use crate::response::ToolError;
use folio_engine::argument::kind_of;

pub(super) fn count(given: &Given<'_>) -> Result<Value, ToolError> {
    Ok(json!(match given.value() {
        None => 0,
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        Some(Value::String(text)) => match given.text("of") {
            Some("words") => text.split_whitespace().count(),
            Some("lines") => text.lines().count(),
            Some("bytes") => text.len(),
            _ => text.chars().count(),
        },
        Some(other) => return Err(given.wrong_value("a text, a list or an object", other)),
    }))
}

pub(super) fn split(given: &Given<'_>) -> Result<Value, ToolError> {
    let text = given.string()?;
    match given.text("by") {
        Some("") => Err(given.wrong("`by` is empty")),
        Some(by) => parts(given, text.split(by)),
        None => parts(given, text.split_whitespace()),
    }
}

pub(super) fn lines(given: &Given<'_>) -> Result<Value, ToolError> {
    parts(given, given.string()?.lines())
}

/// A list of parts of a text. A short part takes many times its own bytes as an item of a list.
fn parts<'a>(given: &Given<'_>, parts: impl Iterator<Item = &'a str>) -> Result<Value, ToolError> {
    let mut room = given.room("list");
    let mut items = Vec::new();
    for part in parts {
        let part = Value::from(part);
        room.take_item(&part)?;
        items.push(part);
    }
    Ok(Value::Array(items))
}

/// Appends a value to a text, if there is room: a text as it is, anything else as JSON.
fn push_value(text: &mut String, value: &Value, room: &mut Room<'_>) -> Result<(), ToolError> {
    match value {
        Value::String(part) => push(text, part, room),
        other => push(text, &other.to_string(), room),
    }
}

fn push(text: &mut String, part: &str, room: &mut Room<'_>) -> Result<(), ToolError> {
    room.take(part.len())?;
    text.push_str(part);
    Ok(())
}

pub(super) fn join(given: &Given<'_>) -> Result<Value, ToolError> {
    let by = given.text("by").unwrap_or("\n");
    let mut room = given.room("text");
    let mut text = String::new();
    for (index, item) in given.list()?.iter().enumerate() {
        given.check_wanted()?;
        if index > 0 {
            push(&mut text, by, &mut room)?;
        }
        push_value(&mut text, item, &mut room)?;
    }
    Ok(Value::String(text))
}

pub(super) fn concat(given: &Given<'_>) -> Result<Value, ToolError> {
    let parts = match given.get("values") {
        Some(Value::Array(parts)) => parts,
        _ => given.list()?,
    };
    if parts.iter().any(Value::is_array) {
        let mut items = Vec::new();
        for part in parts {
            match part {
                Value::Array(part_items) => items.extend_from_slice(part_items),
                Value::Null => {}
                other => {
                    return Err(given.wrong(&format!(
                        "all parts are lists or all are texts, but one is {}",
                        kind_of(other)
                    )));
                }
            }
        }
        return Ok(Value::Array(items));
    }
    let mut room = given.room("text");
    let mut text = String::new();
    for part in parts.iter().filter(|part| !part.is_null()) {
        push_value(&mut text, part, &mut room)?;
    }
    Ok(Value::String(text))
}

pub(super) fn slice(given: &Given<'_>) -> Result<Value, ToolError> {
    let from = given.count("from").unwrap_or(0);
    let length = given.count("to").unwrap_or(usize::MAX).saturating_sub(from);
    match given.value() {
        None => Ok(Value::Null),
        Some(Value::Array(items)) => Ok(items.iter().skip(from).take(length).cloned().collect()),
        Some(Value::String(text)) => Ok(Value::String(text.chars().skip(from).take(length).collect())),
        Some(other) => Err(given.wrong_value("a text or a list", other)),
    }
}

pub(super) fn head_tail(given: &Given<'_>) -> Result<Value, ToolError> {
    let head = given.count("head").unwrap_or(20);
    let tail = given.count("tail").unwrap_or(20);
    // How many items are at the start, left out, and at the end.
    let parts = |count: usize| {
        let head = head.min(count);
        let tail = tail.min(count - head);
        (head, count - head - tail)
    };
    match given.value() {
        None => Ok(json!({"head": [], "tail": [], "left_out": 0})),
        Some(Value::Array(items)) => {
            let (head, left_out) = parts(items.len());
            Ok(json!({
                "head": items[..head],
                "tail": items[head + left_out..],
                "left_out": left_out,
            }))
        }
        Some(Value::String(text)) => {
            let lines: Vec<&str> = text.lines().collect();
            let (head, left_out) = parts(lines.len());
            if left_out == 0 {
                return Ok(Value::String(text.clone()));
            }
            let notice = format!("… {left_out} lines left out …");
            let kept = lines[..head]
                .iter()
                .copied()
                .chain([notice.as_str()])
                .chain(lines[head + left_out..].iter().copied());
            Ok(Value::String(kept.collect::<Vec<_>>().join("\n")))
        }
        Some(other) => Err(given.wrong_value("a text or a list", other)),
    }
}

pub(super) fn json_parse(given: &Given<'_>) -> Result<Value, ToolError> {
    let text = given.string()?;
    // A number that would lose digits is kept as text.
    serde_json::from_slice(&readable(text.as_bytes())).map_err(|error| {
        let error = serde_json::from_str::<Value>(text).err().unwrap_or(error);
        given.wrong(&format!("this is not JSON: {error}"))
    })
}
