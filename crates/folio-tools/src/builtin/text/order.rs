//! A total order of JSON values.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Orders by kind (null, booleans, numbers, texts, lists, objects), then by value: numbers by size, texts by their
/// bytes, lists and objects element by element.
pub(super) fn order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => order_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => left
            .iter()
            .zip(right)
            .map(|(left, right)| order(left, right))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| left.len().cmp(&right.len())),
        (Value::Object(left), Value::Object(right)) => left
            .iter()
            .zip(right)
            .map(|((left_name, left), (right_name, right))| left_name.cmp(right_name).then_with(|| order(left, right)))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| left.len().cmp(&right.len())),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

fn order_numbers(left: &Number, right: &Number) -> Ordering {
    if let (Some(left), Some(right)) = (left.as_i128(), right.as_i128()) {
        return left.cmp(&right);
    }
    let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
    float(left).total_cmp(&float(right))
}

/// Whether two values are equal; `1` equals `1.0`.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order_numbers(left, right).is_eq(),
        _ => left == right,
    }
}
