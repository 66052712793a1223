//! The arguments of one operation, read in place: a large value is not copied to look at it.

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::room::Room;
use crate::patterns::pattern_error;
use crate::response::ToolError;
use crate::tool::{CallArgs, Mistake};
use folio_engine::argument::kind_of;

pub(super) struct Given<'a> {
    pub(super) op: &'a str,
    args: &'a Value,
    /// The most bytes that the operation may make.
    pub(super) bytes_max: usize,
    cancel: &'a CancellationToken,
}

impl<'a> Given<'a> {
    pub(super) fn new(args: &'a Value, bytes_max: usize, cancel: &'a CancellationToken) -> Self {
        let op = args.get("op").and_then(Value::as_str).unwrap_or_default();
        Self {
            op,
            args,
            bytes_max,
            cancel,
        }
    }

    /// The room for what the operation makes, `what` being its name in the error.
    pub(super) fn room(&self, what: &'static str) -> Room<'a> {
        Room::new(self.op, what, self.bytes_max)
    }

    /// An error once nobody waits for the operation any more. An operation asks before each item.
    pub(super) fn check_wanted(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() {
            return Err(ToolError::cancelled());
        }
        Ok(())
    }

    /// An argument that is present and not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.args.get(name).filter(|value| !value.is_null())
    }

    /// Whether an argument is present, even if it is null.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.args.get(name).is_some()
    }

    pub(super) fn value(&self) -> Option<&'a Value> {
        self.get("value")
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(Value::as_str)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn count(&self, name: &str) -> Option<usize> {
        let count = self.get(name).and_then(Value::as_u64)?;
        Some(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// `value` as a list. A missing value is an empty list, so that a step without results needs no special case.
    pub(super) fn list(&self) -> Result<&'a [Value], ToolError> {
        match self.value() {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(self.wrong_value("a list", other)),
        }
    }

    /// `value` as a text. A missing value is an empty text.
    pub(super) fn string(&self) -> Result<&'a str, ToolError> {
        match self.value() {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(self.wrong_value("a text", other)),
        }
    }

    pub(super) fn wrong_value(&self, expected: &str, found: &Value) -> ToolError {
        self.wrong(&format!("`value` is {expected}, not {}", kind_of(found)))
    }

    pub(super) fn wrong(&self, reason: &str) -> ToolError {
        ToolError::invalid(format!("text {}: {reason}", self.op))
    }
}

/// The arguments that select items to keep, one of which is given.
pub(super) const FILTER_ARGS: [&str; 4] = ["where", "equals", "in", "matches"];

/// What an operation lacks or cannot read, whatever its templates evaluate to.
pub(super) fn mistakes(args: CallArgs<'_>) -> Vec<Mistake> {
    let op = args.text("op").unwrap_or_default();
    // A template may evaluate to null, which counts as missing.
    let is_one = |names: &[&str]| names.iter().any(|name| args.has(name)) && !args.gives_several(names);
    let is_for_null = || args.is_named("equals") && !FILTER_ARGS.iter().any(|name| args.has(name));
    let reason = match op {
        "template" if !args.has("template") => "`template` is missing",
        "map" if !is_one(&["field", "fields", "template"]) => "give one of `field`, `fields` and `template`",
        "filter" if !is_one(&FILTER_ARGS) && !is_for_null() => "give one of `where`, `equals`, `in` and `matches`",
        "split" if args.text("by") == Some("") => "`by` is empty",
        _ => {
            let pattern = args.text("matches").filter(|_| op == "filter");
            let reason = pattern.and_then(pattern_error);
            return reason
                .map(|reason| Mistake::of("matches", reason))
                .into_iter()
                .collect();
        }
    };
    vec![Mistake::of_call(format!("{op}: {reason}"))]
}

/// The value at a path such as `a.b.0`; the value itself if there is no path.
pub(super) fn field<'a>(value: &'a Value, path: Option<&str>) -> Option<&'a Value> {
    let Some(path) = path else {
        return Some(value);
    };
    // A name may contain dots (`by: "Cargo.toml"`).
    if let Some(found) = value.get(path) {
        return Some(found);
    }
    let mut at = value;
    for name in path.split('.') {
        at = match at {
            Value::Object(fields) => fields.get(name)?,
            Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
    }
    Some(at)
}
