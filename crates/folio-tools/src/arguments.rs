//! Checks arguments against the description of a tool, and reads them into a tool's own type.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_engine::argument::{CallArgs, ChoiceError, Fit, check_choice, kind_of, one_of};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::response::ToolError;
use crate::schema;
use crate::tool::{ToolRequest, ToolSpec};

/// Checks `args` and reports everything that is wrong with them at once.
///
/// Returns `None` when the tool can take the arguments as they are, and new arguments when some had to be converted to
/// their kind: a template produces `"20"` where 20 is meant.
pub(crate) fn check(spec: &ToolSpec, args: &Value) -> Result<Option<Value>, ToolError> {
    let empty = serde_json::Map::new();
    let fields = match args {
        Value::Object(fields) => fields,
        Value::Null => &empty,
        other => {
            return Err(ToolError::invalid(format!(
                "the arguments of {} are an object, not {}",
                spec.name,
                kind_of(other)
            )));
        }
    };
    if let Some(schema) = &spec.schema {
        let converted = schema::check(&spec.name, schema, fields)?;
        return Ok(converted.or_else(|| args.is_null().then_some(Value::Object(empty))));
    }

    let mut mistakes = Vec::new();
    let mut converted = Vec::new();
    // Sorted by name, whatever the order in which they were given.
    for (name, value) in fields.iter().collect::<BTreeMap<_, _>>() {
        let Some(arg) = spec.args.iter().find(|arg| arg.name == *name) else {
            let names = spec.args.iter().map(|arg| arg.name.as_str());
            let suggestion = nearest(name, names.clone());
            mistakes.push(match suggestion {
                Some(suggestion) => format!("there is no argument `{name}`: did you mean `{suggestion}`?"),
                None => format!(
                    "there is no argument `{name}`: {}",
                    one_of(names.collect::<Vec<_>>().as_slice())
                ),
            });
            continue;
        };
        if value.is_null() && !arg.required {
            continue;
        }
        match arg.kind.fit(value) {
            Fit::AsIs => {}
            Fit::Meant(value) => converted.push((name.clone(), value)),
            Fit::Wrong => mistakes.push(arg.kind.refusal(name, value)),
        }
    }
    for arg in spec.args.iter().filter(|arg| arg.required) {
        if !fields.contains_key(&arg.name) {
            mistakes.push(format!("`{}` is missing: {}", arg.name, arg.description));
        }
    }
    if let Err(ChoiceError::Missing(reason) | ChoiceError::Several(reason)) =
        check_choice(&spec.one_of, CallArgs::in_call(fields))
    {
        mistakes.push(reason);
    }
    if !mistakes.is_empty() {
        return Err(ToolError::invalid(format!("{}: {}", spec.name, mistakes.join("; "))));
    }
    if converted.is_empty() {
        return Ok(args.is_null().then_some(Value::Object(empty)));
    }
    let mut changed = fields.clone();
    changed.extend(converted);
    Ok(Some(Value::Object(changed)))
}

/// Reads checked arguments into a tool's own type.
pub(crate) fn parse<T: DeserializeOwned>(request: &ToolRequest) -> Result<T, ToolError> {
    T::deserialize(&request.args).map_err(|error| ToolError::invalid(format!("{}: {error}", request.tool)))
}

/// The candidate that `name` was probably meant to be, if one is near enough.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A long wrong name is not a misspelling, and the cost of comparing is the product of the lengths.
    if name.len() > 64 {
        return None;
    }
    let name = name.to_lowercase();
    let allowed = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= allowed || (name.len() >= 3 && candidate.starts_with(&name)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The number of edits that turn one word into the other. Two letters that changed places count as one edit.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let width = right.len() + 1;
    let mut rows = vec![0; (left.len() + 1) * width];
    for row in 0..=left.len() {
        for column in 0..=right.len() {
            rows[row * width + column] = if row == 0 {
                column
            } else if column == 0 {
                row
            } else {
                let is_same = left[row - 1] == right[column - 1];
                let mut best = (rows[(row - 1) * width + column - 1] + usize::from(!is_same))
                    .min(rows[(row - 1) * width + column] + 1)
                    .min(rows[row * width + column - 1] + 1);
                if row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1] {
                    best = best.min(rows[(row - 2) * width + column - 2] + 1);
                }
                best
            };
        }
    }
    rows[rows.len() - 1]
}

/// How long a call of `tool` may take: `timeout_s`, at most `longest`; `usual` if the call does not say.
pub(crate) fn parse_timeout(
    tool: &str,
    timeout_s: Option<f64>,
    usual: Duration,
    longest: Duration,
) -> Result<Duration, ToolError> {
    let Some(seconds) = timeout_s else {
        return Ok(usual);
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && time <= longest => Ok(time),
        _ => Err(ToolError::invalid(format!(
            "{tool}: `timeout_s` is more than 0 and at most {}",
            longest.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::{ArgKind, Effect};

    fn spec() -> ToolSpec {
        ToolSpec::new("list", Effect::Read, "lists")
            .required("path", ArgKind::Text, "where to look")
            .optional("max", ArgKind::Count, "how many")
            .optional("hidden", ArgKind::Flag, "also hidden files")
            .optional("glob", ArgKind::Texts, "which")
            .optional("order", ArgKind::one_of(&["up", "down"]), "which way")
    }

    #[test]
    fn all_argument_mistakes_are_reported_in_one_error() {
        let error = check(
            &spec(),
            &json!({"pth": ".", "max": -1, "hidden": "maybe", "glob": [1], "order": "left", "zzz": 1}),
        )
        .unwrap_err();
        insta::assert_snapshot!(error.message.replace("; ", "\n"), @r#"
        list: `glob` is a string or a list of strings, and its item 1 is 1
        `hidden` is true or false, not "maybe"
        `max` is a whole number that is not negative, not -1
        `order` is one of up or down, not "left"
        there is no argument `pth`: did you mean `path`?
        there is no argument `zzz`: one of path, max, hidden, glob or order
        `path` is missing: where to look
        "#);
    }

    #[test]
    fn exactly_one_of_alternative_arguments_is_required() {
        let spec = ToolSpec::new("shell", Effect::Opaque, "Runs.")
            .optional("argv", ArgKind::List, "words")
            .optional("command", ArgKind::Text, "a line")
            .one_of(&["argv", "command"]);
        assert_eq!(spec.description, "Runs. Give exactly one of `argv` or `command`.");
        assert_eq!(check(&spec, &json!({"argv": ["ls"], "command": null})).unwrap(), None);
        let why = |args: Value| check(&spec, &args).unwrap_err().message;
        assert_eq!(why(json!({})), "shell: one of `argv` or `command` has to be given");
        assert_eq!(
            why(json!({"argv": ["ls"], "command": "ls"})),
            "shell: only one of `argv` or `command` can be given"
        );
    }

    #[test]
    fn valid_arguments_pass_unchanged() {
        let args = json!({"path": "src", "max": 3, "hidden": true, "glob": ["*.rs"], "order": "up"});
        assert_eq!(check(&spec(), &args).unwrap(), None);
        assert_eq!(check(&spec(), &json!({"path": "", "max": null})).unwrap(), None);
    }

    #[test]
    fn strings_are_coerced_to_the_declared_argument_kind() {
        let args = json!({"path": 12, "max": " 20 ", "hidden": "false"});
        assert_eq!(
            check(&spec(), &args).unwrap(),
            Some(json!({"path": "12", "max": 20, "hidden": false}))
        );
        assert_eq!(
            check(&spec(), &json!({"path": "a", "max": 20.0})).unwrap(),
            Some(json!({"path": "a", "max": 20}))
        );
    }

    #[test]
    fn non_object_arguments_are_refused() {
        let error = check(&spec(), &json!([1])).unwrap_err();
        assert_eq!(error.message, "the arguments of list are an object, not a list");
    }

    #[test]
    fn nearest_suggests_the_name_closest_to_a_typo() {
        let names = ["list", "read", "result_read", "grep"];
        assert_eq!(nearest("lsit", names), Some("list"));
        assert_eq!(nearest("Grep", names), Some("grep"));
        assert_eq!(nearest("result", names), Some("result_read"));
        assert_eq!(nearest("deploy", names), None);
    }
}
