//! Takes the values out of an answer, so that none is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::canonical::canonical;
use serde_json::{Map, Value};

/// An object whose fields are taken out one by one.
pub(super) struct Fields<'v> {
    map: &'v Map<String, Value>,
    taken: BTreeSet<&'static str>,
}

impl<'v> Fields<'v> {
    pub(super) fn new(map: &'v Map<String, Value>) -> Self {
        Self {
            map,
            taken: BTreeSet::new(),
        }
    }

    /// The value of `name` without taking it; `None` if it was taken.
    pub(super) fn get(&self, name: &str) -> Option<&'v Value> {
        let value = self.map.get(name).filter(|value| !value.is_null());
        value.filter(|_| !self.taken.contains(name))
    }

    /// Takes `name` if it is a text.
    pub(super) fn text(&mut self, name: &'static str) -> Option<&'v str> {
        let text = self.get(name)?.as_str()?;
        self.taken.insert(name);
        Some(text)
    }

    /// Takes `name` if it is a number that counts.
    pub(super) fn number(&mut self, name: &'static str) -> Option<u64> {
        let number = self.get(name)?.as_u64()?;
        self.taken.insert(name);
        Some(number)
    }

    /// Takes `name` if it is true or false; whether it is true.
    pub(super) fn flag(&mut self, name: &'static str) -> bool {
        match self.get(name).and_then(Value::as_bool) {
            Some(flag) => {
                self.taken.insert(name);
                flag
            }
            None => false,
        }
    }

    /// Takes `name` if it is a list of objects.
    pub(super) fn rows(&mut self, name: &'static str) -> Option<Vec<&'v Map<String, Value>>> {
        let rows = self.get(name)?.as_array()?.iter().map(Value::as_object).collect();
        self.taken.extend(Option::is_some(&rows).then_some(name));
        rows
    }

    /// Leaves `names` out.
    pub(super) fn skip(&mut self, names: &[&'static str]) {
        self.taken.extend(names);
    }

    /// A line for each field that was not taken and says something, in the order of their names.
    pub(super) fn rest(&self) -> impl Iterator<Item = String> {
        let says_nothing = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        let all: BTreeMap<&String, &Value> = self.map.iter().collect();
        all.into_iter()
            .filter(move |(name, value)| !self.taken.contains(name.as_str()) && !says_nothing(value))
            .map(|(name, value)| format!("{name}: {}", json_of(value)))
    }
}

/// A value as JSON in one line.
pub(super) fn json_of(value: &Value) -> String {
    canonical(value.clone()).to_string()
}

/// A value in one cell of a table, or in a hint: a text as it is if it has no control characters.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if !text.chars().any(char::is_control) => text.clone(),
        other => json_of(other),
    }
}

/// `rows` as lines with tabs between the cells, after a line with the names of the columns: those of `order` that any
/// row has, in that order, after all others.
pub(super) fn table(rows: &[&Map<String, Value>], order: &[&str]) -> Vec<String> {
    let all: BTreeSet<&str> = rows.iter().flat_map(|row| row.keys()).map(String::as_str).collect();
    let others = all.iter().copied().filter(|name| !order.contains(name));
    let columns: Vec<&str> = others
        .chain(order.iter().copied().filter(|name| all.contains(name)))
        .collect();
    let line = |row: &&Map<String, Value>| {
        let cells = columns.iter().map(|name| row.get(*name).map(cell).unwrap_or_default());
        cells.collect::<Vec<_>>().join("\t")
    };
    std::iter::once(columns.join("\t"))
        .chain(rows.iter().map(line))
        .collect()
}

/// The arguments of a call that goes on, in words, in the order of their names.
pub(super) fn args_in_words(args: &Map<String, Value>) -> String {
    let args: BTreeMap<&String, &Value> = args.iter().collect();
    let words = args.into_iter().map(|(name, value)| format!("{name}={}", word(value)));
    words.collect::<Vec<_>>().join(" ")
}

/// A value as one word: a text with anything but usual characters is quoted.
pub(super) fn word(value: &Value) -> String {
    match value {
        Value::String(text)
            if !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "._-/:@+,".contains(c)) =>
        {
            text.clone()
        }
        other => json_of(other),
    }
}
