//! Operations on lists.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Number, Value, json};

use super::given::{FILTER_ARGS, Given, field};
use super::order::{order, same};
use super::room::Room;
use super::template;
use crate::response::ToolError;
use folio_engine::argument::kind_of;

pub(super) fn sort(given: &Given<'_>) -> Result<Value, ToolError> {
    sorted(given, given.flag("desc"), usize::MAX)
}

pub(super) fn top(given: &Given<'_>) -> Result<Value, ToolError> {
    sorted(given, true, given.count("n").unwrap_or(10))
}

/// Sorts stably, also when the largest come first. Items without the field come last.
fn sorted(given: &Given<'_>, desc: bool, n: usize) -> Result<Value, ToolError> {
    let by = given.text("by");
    let mut items: Vec<&Value> = given.list()?.iter().collect();
    items.sort_by(|left, right| match (field(left, by), field(right, by)) {
        (Some(left), Some(right)) if desc => order(right, left),
        (Some(left), Some(right)) => order(left, right),
        (left, right) => left.is_none().cmp(&right.is_none()),
    });
    Ok(items.into_iter().take(n).cloned().collect())
}

pub(super) fn unique(given: &Given<'_>) -> Result<Value, ToolError> {
    let by = given.text("by");
    let mut seen = std::collections::HashSet::new();
    Ok(given
        .list()?
        .iter()
        .filter(|item| seen.insert(field(item, by).unwrap_or(&Value::Null).to_string()))
        .cloned()
        .collect())
}

pub(super) fn filter(given: &Given<'_>) -> Result<Value, ToolError> {
    let items = given.list()?;
    let name = given.text("field");
    let tests = FILTER_ARGS.iter().filter(|test| given.get(test).is_some()).count();
    // Elsewhere null counts as missing; here it is the value to compare with, if no other test is given.
    let is_for_null = tests == 0 && given.is_named("equals");
    if tests != 1 && !is_for_null {
        return Err(given.wrong("give one of `where`, `equals`, `in` and `matches`"));
    }
    let kept = |keep: &dyn Fn(&Value) -> bool| -> Result<Value, ToolError> {
        let mut kept = Vec::new();
        for item in items {
            given.check_wanted()?;
            if field(item, name).is_some_and(keep) {
                kept.push(item.clone());
            }
        }
        Ok(Value::Array(kept))
    };
    if let Some(expression) = given.text("where") {
        return template::filter_items(given, items, expression);
    }
    if let Some(expected) = given.get("equals").or(is_for_null.then_some(&Value::Null)) {
        return kept(&|found| same(found, expected));
    }
    if let Some(Value::Array(values)) = given.get("in") {
        return kept(&|found| values.iter().any(|value| same(found, value)));
    }
    let pattern = given.text("matches").unwrap_or_default();
    let regex = Regex::new(pattern).map_err(|error| {
        let error_text = error.to_string();
        let reason = error_text.lines().last().unwrap_or_default().to_owned();
        given.wrong(&format!("cannot read the pattern `{pattern}`: {reason}"))
    })?;
    kept(&|found| match found {
        Value::String(text) => regex.is_match(text),
        Value::Number(_) | Value::Bool(_) => regex.is_match(&found.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    })
}

pub(super) fn map(given: &Given<'_>) -> Result<Value, ToolError> {
    let items = given.list()?;
    match (given.text("field"), given.get("fields"), given.text("template")) {
        (Some(name), None, None) => mapped(given, items, |item, room| {
            let value = field(item, Some(name)).unwrap_or(&Value::Null);
            room.take_item(value)?;
            Ok(value.clone())
        }),
        (None, Some(names), None) => {
            let names: Vec<&str> = match names {
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                one => one.as_str().into_iter().collect(),
            };
            mapped(given, items, |item, room| picked(item, &names, room))
        }
        (None, None, Some(text)) => template::fill_in_each(given, items, text),
        _ => Err(given.wrong("give one of `field`, `fields` and `template`")),
    }
}

/// One new item for each, made within the room that there is for all.
fn mapped(
    given: &Given<'_>,
    items: &[Value],
    make: impl Fn(&Value, &mut Room<'_>) -> Result<Value, ToolError>,
) -> Result<Value, ToolError> {
    let mut room = given.room("list");
    let mut made = Vec::new();
    for item in items {
        given.check_wanted()?;
        made.push(make(item, &mut room)?);
    }
    Ok(Value::Array(made))
}

fn picked(item: &Value, names: &[&str], room: &mut Room<'_>) -> Result<Value, ToolError> {
    let mut fields = Map::new();
    for name in names {
        let value = field(item, Some(name)).unwrap_or(&Value::Null);
        room.take(name.len())?;
        room.take_item(value)?;
        fields.insert((*name).to_owned(), value.clone());
    }
    Ok(Value::Object(fields))
}

pub(super) fn group_count(given: &Given<'_>) -> Result<Value, ToolError> {
    let by = given.text("by");
    let mut counts: BTreeMap<String, (&Value, u64)> = BTreeMap::new();
    for item in given.list()? {
        let key = field(item, by).unwrap_or(&Value::Null);
        counts.entry(key.to_string()).or_insert((key, 0)).1 += 1;
    }
    let mut groups: Vec<(&Value, u64)> = counts.into_values().collect();
    groups.sort_by(|left, right| {
        Reverse(left.1)
            .cmp(&Reverse(right.1))
            .then_with(|| order(left.0, right.0))
    });
    Ok(groups
        .into_iter()
        .map(|(key, count)| json!({"key": key, "count": count}))
        .collect())
}

/// The sum, which is a whole number if all items are.
pub(super) fn sum(given: &Given<'_>) -> Result<Value, ToolError> {
    let by = given.text("by");
    let mut integer_sum: i128 = 0;
    let mut float_sum: f64 = 0.0;
    let mut is_integer_sum = true;
    for (index, item) in given.list()?.iter().enumerate() {
        let number = match field(item, by) {
            None | Some(Value::Null) => continue,
            Some(Value::Number(number)) => number,
            Some(other) => {
                return Err(given.wrong(&format!("item {} holds {}, not a number", index + 1, kind_of(other))));
            }
        };
        match number.as_i128() {
            Some(number) => integer_sum += number,
            None => {
                is_integer_sum = false;
                float_sum += number.as_f64().unwrap_or(0.0);
            }
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a sum with fractions is not exact anyway")]
    let sum = if is_integer_sum {
        Number::from_i128(integer_sum)
    } else {
        Number::from_f64(integer_sum as f64 + float_sum)
    };
    sum.map(Value::Number)
        .ok_or_else(|| given.wrong("the sum is too large for a number"))
}
