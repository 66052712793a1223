//! The arguments of a tool as models write them: numbers and lists as texts, handles and names in capitals. They are read
//! by the tool's own JSON Schema, so every tool takes the same spellings and refuses the rest in the same words.

use serde_json::{Map, Number, Value};

use crate::entry::Confidence;
use crate::view::is_blank;
use crate::warning::Invalid;

/// The arguments that name an entry, a page or a run by its handle.
const HANDLES: [&str; 7] = ["id", "ids", "after", "part_of", "superseded_by", "page", "run"];
/// The arguments that are a share of one, which a percentage states as well.
const SHARES: [&str; 3] = ["confidence", "min_confidence", "progress"];
/// What `page` may be instead of a handle.
const PAGES: [&str; 4] = ["book", "history", "observations", "tree"];
/// The lifetime of what never expires.
const NEVER: &str = "never";
/// What an argument of each name could be, as JSON and other forms that are understood.
const EXAMPLES: [(&str, &str); 21] = [
    ("query", "\"database migrations\""),
    ("content", "\"The tests need a database\""),
    ("answer", "\"yes\""),
    ("id", "\"e42\""),
    ("ids", "[\"e42\", \"e43\"]"),
    ("after", "[\"e42\", \"e43\"]"),
    ("part_of", "\"e42\""),
    ("superseded_by", "\"e43\""),
    ("page", "\"p7\""),
    ("run", "\"r3\""),
    ("tags", "[\"db\", \"tests\"]"),
    ("context", "{\"goal_id\": \"g1\"}"),
    ("inputs", "{\"folder\": \"src\"}"),
    ("limits", "{\"tokens\": 50000}"),
    ("ttl_minutes", "60, \"1h\" or \"never\""),
    ("lease_minutes", "60 or \"1h\""),
    ("wait_seconds", "30 or \"2m\""),
    ("confidence", "0.9 or \"90%\""),
    ("progress", "0.5 or \"50%\""),
    ("limit", "20"),
    ("budget", "2000"),
];

/// The names of arguments that a tool's schema does not have: refused, or left to the code that reads the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// They are refused.
    Refused,
    /// They are passed on as they are.
    Kept,
}

/// Returns the `arguments` of a call of `tool` as its `schema` wants them.
///
/// What is `null`, or empty where a text means nothing, counts as left out: some models have to give every argument. A
/// number or a truth value may be a text, a share of one a percentage, a time `"1h"`; a list may be one text, several
/// with commas between them, or the JSON of a list in a text; an object may be JSON in a text. Names of a choice and
/// handles may be written in capitals, names also with spaces or hyphens.
///
/// # Errors
///
/// `arguments_invalid` names the argument that is missing, unknown or cannot be read, what it has to be, and an example.
pub fn read_arguments(
    tool: &str,
    schema: &Map<String, Value>,
    others: Others,
    arguments: &Map<String, Value>,
) -> Result<Map<String, Value>, Invalid> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut read = Map::new();
    let mut unknown: Vec<&str> = Vec::new();
    for (name, value) in arguments {
        match properties.and_then(|properties| properties.get(name)) {
            Some(property) => {
                if let Some(value) = read_argument(name, property, value)? {
                    read.insert(name.clone(), value);
                }
            }
            None if value.is_null() && others == Others::Refused => {}
            None => {
                unknown.push(name);
                read.insert(name.clone(), value.clone());
            }
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    let missing = required.find(|name| !read.contains_key(*name));
    let takes = || {
        let mut known: Vec<&str> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        known.sort_unstable();
        known.join(", ")
    };
    match (missing, unknown.as_slice()) {
        (missing, [first, ..]) if others == Others::Refused => {
            let missing = missing.map_or_else(String::new, |missing| format!("; {missing} is missing"));
            let message = format!("is not an argument of {tool}; it takes {}{missing}", takes());
            Err(wrong(first, message))
        }
        (Some(missing), unknown) => {
            let property = properties.and_then(|properties| properties.get(missing));
            let mut message = format!(
                "is missing; it is {}",
                describe(missing, property.unwrap_or(&Value::Null))
            );
            if !unknown.is_empty() {
                let unknown = unknown.join(", ");
                message.push_str(&format!(
                    " ({unknown}: not an argument of {tool}, which takes {})",
                    takes()
                ));
            }
            Err(wrong(missing, message))
        }
        (None, _) => Ok(read),
    }
}

/// Returns the error for a `value` that the argument `name`, which `property` describes, cannot be.
#[must_use]
pub fn cannot_be(name: &str, property: &Value, value: &Value) -> Invalid {
    wrong(name, format!("must be {}, not {value}", describe(name, property)))
}

fn wrong(field: &str, message: String) -> Invalid {
    Invalid::new("arguments_invalid", field, message)
}

/// Returns `value` as `property` wants it, or `None` if it counts as left out.
fn read_argument(name: &str, property: &Value, value: &Value) -> Result<Option<Value>, Invalid> {
    let refused = || cannot_be(name, property, value);
    let kinds = kinds_of(property);
    let may_be = |kind: &str| kinds.contains(&kind);
    let is_number = may_be("number") || may_be("integer");
    let read = match value {
        Value::Null => return Ok(may_be("null").then_some(Value::Null)),
        _ if kinds.is_empty() => Some(value.clone()),
        Value::String(text) => {
            let means_nothing = !may_be("array") && (!may_be("string") || is_number || property.get("enum").is_some());
            if text.is_empty() && means_nothing {
                return Ok(None);
            }
            if is_number {
                read_number(name, text, &kinds)
            } else if may_be("boolean") {
                truth_of(text).map(Value::Bool)
            } else if may_be("array") {
                Some(read_list(name, text, may_be("string")))
            } else if may_be("string") {
                read_name(name, property, text)
            } else {
                parsed(text).filter(Value::is_object)
            }
        }
        Value::Number(number) if may_be("number") => Some(Value::Number(number.clone())),
        Value::Number(number) if may_be("integer") => whole(number).map(Value::Number),
        Value::Bool(_) if may_be("boolean") => Some(value.clone()),
        Value::Object(_) if may_be("object") => Some(value.clone()),
        Value::Array(items) if may_be("array") => {
            let texts = items.iter().map(|item| item.as_str().map(|text| list_item(name, text)));
            texts.collect::<Option<Vec<_>>>().map(Value::Array)
        }
        _ => None,
    };
    read.map(Some).ok_or_else(refused)
}

fn kinds_of(property: &Value) -> Vec<&str> {
    match &property["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Reads a text where a number belongs. A number that is not finite, which JSON cannot express, stays a text.
fn read_number(name: &str, text: &str, kinds: &[&str]) -> Option<Value> {
    let trimmed = text.trim();
    let number_of = |number: f64| -> Option<Value> {
        if !number.is_finite() {
            return kinds.contains(&"number").then(|| trimmed.into());
        }
        // Written as a whole number where it is one: the fields that count accept no other form.
        let number: Number = number.to_string().parse().ok()?;
        if kinds.contains(&"number") {
            return Some(Value::Number(number));
        }
        whole(&number).map(Value::Number)
    };
    if let Ok(number) = trimmed.parse::<Number>() {
        let number = if kinds.contains(&"number") {
            Some(number)
        } else {
            whole(&number)
        };
        return number.map(Value::Number);
    }
    if let Ok(number) = trimmed.parse::<f64>() {
        return number_of(number);
    }
    if SHARES.contains(&name) {
        let percent = trimmed
            .strip_suffix('%')
            .and_then(|number| number.trim_end().parse::<f64>().ok());
        return match percent {
            Some(percent) => number_of(percent / 100.0),
            None => (name != "progress" && Confidence::from_word(trimmed).is_some()).then(|| trimmed.into()),
        };
    }
    let unit = match name.rsplit('_').next() {
        Some("minutes") => 60.0,
        Some("seconds") => 1.0,
        _ => return None,
    };
    if name == "ttl_minutes" && trimmed.eq_ignore_ascii_case(NEVER) {
        return Some(NEVER.into());
    }
    seconds_of(trimmed).and_then(|seconds| number_of(seconds / unit))
}

/// Returns the seconds that a time such as `1h`, `90 s`, `2 days` or `1h30m` takes.
fn seconds_of(text: &str) -> Option<f64> {
    let (mut rest, mut seconds) = (text.trim(), 0.0);
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..unit_at].parse().ok()?;
        let unit = rest[unit_at..].trim_start();
        let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let of_unit = match unit[..end].to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            "w" | "week" | "weeks" => 604_800.0,
            _ => return None,
        };
        seconds += number * of_unit;
        rest = unit[end..].trim_start();
    }
    (!text.trim().is_empty()).then_some(seconds)
}

/// Returns `number` as a whole number, if it is one: `3.0` is.
fn whole(number: &Number) -> Option<Number> {
    if number.is_i64() || number.is_u64() {
        return Some(number.clone());
    }
    let double = number.as_f64()?;
    format!("{double}")
        .parse()
        .ok()
        .filter(|number: &Number| !number.is_f64())
}

fn truth_of(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// Reads a text where a list of texts belongs; with `or_text`, one text may stand there as well.
fn read_list(name: &str, text: &str, or_text: bool) -> Value {
    let list = parsed(text).filter(|value| matches!(value, Value::Array(items) if items.iter().all(Value::is_string)));
    if let Some(Value::Array(items)) = list {
        return items
            .iter()
            .filter_map(Value::as_str)
            .map(|item| list_item(name, item))
            .collect();
    }
    if or_text && !text.contains(',') {
        return list_item(name, text);
    }
    // An empty text means something else to each tool.
    if is_blank(text) {
        return text.into();
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| list_item(name, part)).collect()
}

fn list_item(name: &str, text: &str) -> Value {
    match name {
        "status" => name_of(text).into(),
        _ if HANDLES.contains(&name) => handle_of(text).into(),
        _ => text.into(),
    }
}

/// Reads a text that may have to be a handle or one of a few names. A `status` has more names than a schema lists, so one
/// that is not listed is left to the code that knows them.
fn read_name(name: &str, property: &Value, text: &str) -> Option<Value> {
    if HANDLES.contains(&name) {
        return Some(handle_of(text).into());
    }
    let Some(choices) = property.get("enum").and_then(Value::as_array) else {
        return Some(text.into());
    };
    let wanted = name_of(text);
    let choice = choices.iter().find(|choice| choice.as_str() == Some(&wanted));
    choice.cloned().or_else(|| (name == "status").then(|| text.into()))
}

/// Returns a name in the form in which schemas write it: `In Progress` and `IN-PROGRESS` are `in_progress`.
fn name_of(text: &str) -> String {
    text.trim().to_ascii_lowercase().replace(['-', ' '], "_")
}

/// Returns a handle in lower case and without blanks around it; any other text stays as it is.
fn handle_of(text: &str) -> String {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    let is_handle = lower.starts_with(['e', 'p', 'r'])
        && lower.len() > 1
        && lower.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    if is_handle || PAGES.contains(&lower.as_str()) {
        lower
    } else {
        text.to_owned()
    }
}

fn parsed(text: &str) -> Option<Value> {
    let text = text.trim();
    text.starts_with(['[', '{'])
        .then(|| serde_json::from_str(text).ok())
        .flatten()
}

/// Returns what the argument `name` has to be, in words.
fn describe(name: &str, property: &Value) -> String {
    if let Some(choices) = property.get("enum").and_then(Value::as_array) {
        let choices: Vec<_> = choices.iter().filter_map(Value::as_str).collect();
        return format!("one of {}", choices.join(", "));
    }
    let kinds = kinds_of(property);
    let may_be = |kind: &str| kinds.contains(&kind);
    let what = if may_be("integer") {
        "a non-negative integer"
    } else if may_be("number") {
        "a number"
    } else if may_be("boolean") {
        "true or false"
    } else if may_be("array") {
        "a list of strings"
    } else if may_be("object") {
        "an object"
    } else if HANDLES.contains(&name) {
        "a handle"
    } else {
        "a string"
    };
    // The description of a handle begins with one of its kind.
    let of_kind = property["description"]
        .as_str()
        .and_then(|text| text.split([' ', ':']).next());
    let of_kind =
        of_kind.filter(|handle| handle_of(handle) == *handle && handle.ends_with(|c: char| c.is_ascii_digit()));
    let base = name
        .trim_end_matches("_any")
        .trim_end_matches("_none")
        .trim_start_matches("min_");
    let example = EXAMPLES.iter().find(|(of, _)| *of == base).map(|(_, example)| *example);
    match (of_kind.filter(|_| what == "a handle"), example) {
        (Some(handle), _) => format!("{what} such as {handle:?}"),
        (None, Some(example)) => format!("{what} such as {example}"),
        (None, None) => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Map<String, Value> {
        let schema = json!({
            "properties": {
                "id": {"type": "string", "description": "p7"},
                "title": {"type": "string"},
                "status": {"type": "string", "enum": ["open", "in_progress"]},
                "order": {"type": "string", "enum": ["newest", "oldest"]},
                "type": {"type": ["string", "array"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "ids": {"type": "array", "items": {"type": "string"}},
                "confidence": {"type": "number"},
                "progress": {"type": "number"},
                "min_confidence": {"type": ["number", "string"]},
                "ttl_minutes": {"type": ["number", "string", "null"]},
                "lease_minutes": {"type": "integer"},
                "wait_seconds": {"type": "integer"},
                "limit": {"type": "integer"},
                "confirm": {"type": "boolean"},
                "context": {"type": "object"},
                "plan": {"anyOf": [{"type": "object"}, {"type": "string"}]},
            },
        });
        schema.as_object().unwrap().clone()
    }

    fn read(arguments: &Value) -> Result<Value, String> {
        let read = read_arguments("tool", &schema(), Others::Refused, arguments.as_object().unwrap());
        read.map(Value::Object).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn arguments_in_the_spellings_of_models_are_understood() {
        for (given, meant) in [
            (json!({"limit": "3"}), json!({"limit": 3})),
            (json!({"limit": 3.0}), json!({"limit": 3})),
            (json!({"limit": " 7.0 "}), json!({"limit": 7})),
            (json!({"limit": ""}), json!({})),
            (json!({"limit": null, "title": null, "colour": null}), json!({})),
            (json!({"title": ""}), json!({"title": ""})),
            (json!({"confirm": "True"}), json!({"confirm": true})),
            (json!({"confirm": "no"}), json!({"confirm": false})),
            (json!({"confidence": "0.5"}), json!({"confidence": 0.5})),
            (json!({"confidence": "90%"}), json!({"confidence": 0.9})),
            (json!({"confidence": "High"}), json!({"confidence": "High"})),
            (json!({"confidence": "Infinity"}), json!({"confidence": "Infinity"})),
            (json!({"confidence": 90}), json!({"confidence": 90})),
            (json!({"progress": "50 %"}), json!({"progress": 0.5})),
            (json!({"min_confidence": "high"}), json!({"min_confidence": "high"})),
            (json!({"ttl_minutes": "1h"}), json!({"ttl_minutes": 60})),
            (json!({"ttl_minutes": "1h30m"}), json!({"ttl_minutes": 90})),
            (json!({"ttl_minutes": "30 s"}), json!({"ttl_minutes": 0.5})),
            (json!({"ttl_minutes": "2 days"}), json!({"ttl_minutes": 2880})),
            (json!({"ttl_minutes": "Never"}), json!({"ttl_minutes": "never"})),
            (json!({"ttl_minutes": null}), json!({"ttl_minutes": null})),
            (json!({"lease_minutes": "2h"}), json!({"lease_minutes": 120})),
            (json!({"wait_seconds": "2m"}), json!({"wait_seconds": 120})),
            (json!({"tags": "db"}), json!({"tags": ["db"]})),
            (json!({"tags": "a, b,"}), json!({"tags": ["a", "b"]})),
            (json!({"tags": "[\"a\", \"b\"]"}), json!({"tags": ["a", "b"]})),
            (json!({"ids": "E2, e3 "}), json!({"ids": ["e2", "e3"]})),
            (json!({"ids": ["E2"]}), json!({"ids": ["e2"]})),
            (json!({"id": " P7 "}), json!({"id": "p7"})),
            (json!({"type": "alert"}), json!({"type": "alert"})),
            (
                json!({"type": "[\"alert\", \"fact\"]"}),
                json!({"type": ["alert", "fact"]}),
            ),
            (json!({"type": "alert, fact"}), json!({"type": ["alert", "fact"]})),
            (json!({"status": "IN-PROGRESS"}), json!({"status": "in_progress"})),
            (json!({"status": "in progress"}), json!({"status": "in_progress"})),
            (json!({"status": "completed"}), json!({"status": "completed"})),
            (json!({"order": "Newest"}), json!({"order": "newest"})),
            (
                json!({"context": "{\"goal_id\": \"g\"}"}),
                json!({"context": {"goal_id": "g"}}),
            ),
            (json!({"plan": "steps: []"}), json!({"plan": "steps: []"})),
        ] {
            assert_eq!(read(&given), Ok(meant), "{given}");
        }
    }

    #[test]
    fn argument_that_cannot_be_understood_is_refused_with_its_form_and_an_example() {
        for (given, said) in [
            (
                json!({"limit": "many"}),
                "limit: must be a non-negative integer such as 20, not \"many\"",
            ),
            (
                json!({"limit": "50%"}),
                "limit: must be a non-negative integer such as 20, not \"50%\"",
            ),
            (
                json!({"limit": 2.5}),
                "limit: must be a non-negative integer such as 20, not 2.5",
            ),
            (
                json!({"confirm": "maybe"}),
                "confirm: must be true or false, not \"maybe\"",
            ),
            (
                json!({"ttl_minutes": "soon"}),
                "ttl_minutes: must be a number such as 60, \"1h\" or \"never\", not \"soon\"",
            ),
            (
                json!({"lease_minutes": "90s"}),
                "lease_minutes: must be a non-negative integer such as 60 or \"1h\", not \"90s\"",
            ),
            (
                json!({"confidence": "sure"}),
                "confidence: must be a number such as 0.9 or \"90%\", not \"sure\"",
            ),
            (
                json!({"tags": 7}),
                "tags: must be a list of strings such as [\"db\", \"tests\"], not 7",
            ),
            (
                json!({"tags": [1]}),
                "tags: must be a list of strings such as [\"db\", \"tests\"], not [1]",
            ),
            (json!({"title": {"a": 1}}), "title: must be a string, not {\"a\":1}"),
            (
                json!({"context": "shop"}),
                "context: must be an object such as {\"goal_id\": \"g1\"}, not \"shop\"",
            ),
            (
                json!({"order": "random"}),
                "order: must be one of newest, oldest, not \"random\"",
            ),
            (json!({"id": 7}), "id: must be a handle such as \"p7\", not 7"),
        ] {
            assert_eq!(read(&given), Err(said.to_owned()));
        }
    }

    #[test]
    fn missing_argument_is_named_beside_the_unknown_one() {
        let schema = json!({"properties": {"id": {"type": "string"}, "title": {"type": "string"}}, "required": ["id"]});
        let say = |others, arguments: Value| {
            let (schema, arguments) = (schema.as_object().unwrap(), arguments.as_object().unwrap());
            let refused = read_arguments("tool", schema, others, arguments).unwrap_err();
            refused.to_string()
        };
        assert_eq!(
            say(Others::Refused, json!({"title": "x"})),
            "id: is missing; it is a handle such as \"e42\""
        );
        assert_eq!(
            say(Others::Refused, json!({"entry": "e1"})),
            "entry: is not an argument of tool; it takes id, title; id is missing"
        );
        assert_eq!(
            say(Others::Kept, json!({"entry": "e1"})),
            "id: is missing; it is a handle such as \"e42\" (entry: not an argument of tool, which takes id, title)"
        );
    }
}
