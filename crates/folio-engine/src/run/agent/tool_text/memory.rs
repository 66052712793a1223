//! Answers of the memory's tools.

use folio_memory::Timestamp;
use serde_json::{Map, Value};

use super::fields::{Fields, json_of};
use super::page::{Page, Rest};

/// What an item of a list has beside its line in the text, which says all but the version.
const IN_LINE: [&str; 8] = ["handle", "kind", "status", "version", "role", "depth", "number", "text"];

/// The text, which is there once, and what it does not say: the version that `expected_version` takes, the instant,
/// whose words it is. The id is left out because the handle names the entry, and the number of tokens because the
/// answer is there.
pub(super) fn scratch(fields: &mut Fields<'_>, page: &mut Page, _: &Value) -> Option<()> {
    let text = fields.text("text")?;
    if text.starts_with(page.notes()) {
        page.replace_notes();
    }
    page.quote("", text, Rest::OfResult("text"));
    let is_in_text = |value: &Value| match value {
        Value::String(value) => text.contains(value.trim_end()),
        Value::Array(items) => items
            .iter()
            .all(|item| item.as_str().is_some_and(|item| text.contains(&format!("#{item}")))),
        _ => false,
    };
    for name in [
        "view", "title", "body", "content", "kind", "type", "status", "state", "handle", "tags",
    ] {
        if fields.get(name).is_some_and(is_in_text) {
            fields.skip(&[name]);
        }
    }
    if text.contains("(pinned)") {
        fields.skip(&["pinned"]);
    }
    if text.contains("\nwarning: ") {
        fields.skip(&["warnings"]);
    }
    if text.contains("% sure)") {
        fields.skip(&["confidence"]);
    }
    fields.skip(&["item_id", "observation_id", "tokens", "hash", "returned"]);
    let mut said = Vec::new();
    if let Some(version) = fields.number("version") {
        said.push(format!("version {version}"));
    }
    if let Some(items) = fields.rows("items") {
        versions(&items, &mut said);
        for item in &items {
            let mut others = (*item).clone();
            others.retain(|name, value| !IN_LINE.contains(&name.as_str()) && !value.is_null());
            if !others.is_empty() {
                others.extend(item.get("handle").map(|handle| ("handle".to_owned(), handle.clone())));
                page.line(json_of(&Value::Object(others)));
            }
        }
    }
    if let Some(total) = fields.number("total")
        && !text.contains(&format!("{total} in all"))
        && !text.contains(&format!("of {total}"))
    {
        said.push(format!("{total} in all"));
    }
    if let Some(next) = fields.get("next") {
        fields.skip(&["next"]);
        if !text.contains("go on with cursor") {
            said.push(format!("go on with cursor {}", json_of(next)));
        }
    }
    if let Some(omitted) = fields.number("omitted").filter(|omitted| *omitted > 0) {
        said.push(format!("{omitted} omitted"));
    }
    if let Some(as_of) = fields.number("as_of") {
        said.push(format!("as_of {as_of}"));
    }
    // What a model adds is its own.
    if let Some(trust) = fields.text("trust").filter(|trust| *trust != "model") {
        said.push(format!("trust {trust}"));
    }
    if fields.get("replayed").is_some() {
        // It was written just now.
        fields.skip(&["created_at_nanoseconds", "updated_at_nanoseconds"]);
    }
    instants(fields, &mut said);
    if !said.is_empty() {
        page.line(said.join(", "));
    }
    Some(())
}

/// The versions of the items of a list.
fn versions(items: &[&Map<String, Value>], said: &mut Vec<String>) {
    let versions: Vec<(&str, u64)> = items
        .iter()
        .filter_map(|item| Some((item.get("handle")?.as_str()?, item.get("version")?.as_u64()?)))
        .collect();
    if versions.is_empty() {
        return;
    }
    let later = versions.iter().filter(|(_, version)| *version != 1);
    let later: Vec<String> = later.map(|(handle, version)| format!("{handle} {version}")).collect();
    said.push(match later.is_empty() {
        true => "version 1".to_owned(),
        false if later.len() == versions.len() => format!("versions: {}", later.join(" ")),
        false => format!("version 1 but: {}", later.join(" ")),
    });
}

/// When it was changed, and when it was made if that is another instant.
fn instants(fields: &mut Fields<'_>, said: &mut Vec<String>) {
    let mut instant = |name: &'static str| {
        let nanos = i64::try_from(fields.number(name)?).ok()?;
        let text = Timestamp::from_nanos(nanos).to_string();
        // To the second, as `2026-12-01T13:00:00Z`.
        Some(text.get(..19).map_or(text.clone(), |text| format!("{text}Z")))
    };
    let (made, changed) = (instant("created_at_nanoseconds"), instant("updated_at_nanoseconds"));
    if made != changed {
        said.extend(made.map(|made| format!("made {made}")));
    }
    said.extend(changed.map(|changed| format!("changed {changed}")));
}

/// How many there are is in the notes.
pub(super) fn observe(fields: &mut Fields<'_>, _: &mut Page, _: &Value) -> Option<()> {
    fields.number("count").map(drop)
}

/// The size is in the notes.
pub(super) fn page_append(fields: &mut Fields<'_>, _: &mut Page, _: &Value) -> Option<()> {
    fields.number("bytes").map(drop)
}
