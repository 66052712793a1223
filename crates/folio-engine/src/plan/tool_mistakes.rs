//! Which arguments of a call its tool does not accept. Reported to whoever wrote them before anything is called
//! (E9.13).

use folio_memory::excerpt::cut;
use serde_json::{Map, Value};

use super::KnownTool;
use super::nearest::did_you_mean;
use crate::argument::{CallArgs, ChoiceError, Fit, check_choice, coerce_to_schema, one_of};
use crate::json_schema::JsonSchema;

/// The most mistakes that are reported for one call.
const MISTAKES_MAX: usize = 8;
/// The most characters of one mistake.
const MISTAKE_CHARS: usize = 300;

impl KnownTool {
    /// Every mistake in `args`, which contain no templates. Arguments that the tool declares nothing about are
    /// accepted.
    #[must_use]
    pub fn mistakes(&self, args: &Value) -> Vec<String> {
        let none = Map::new();
        let arguments = args.as_object().unwrap_or(&none);
        let mut all = match &self.schema {
            Some(schema) => by_schema(schema, arguments),
            None => self.by_kinds(arguments),
        };
        all.truncate(MISTAKES_MAX);
        all.iter().map(|mistake| cut(mistake, MISTAKE_CHARS)).collect()
    }

    fn by_kinds(&self, arguments: &Map<String, Value>) -> Vec<String> {
        let known = || self.required.iter().chain(&self.optional).map(String::as_str);
        let missing = self.required.iter().filter(|name| !arguments.contains_key(*name));
        let mut mistakes: Vec<String> = missing.map(|name| format!("`{name}` is missing")).collect();
        if let Err(ChoiceError::Missing(why) | ChoiceError::Several(why)) =
            check_choice(&self.one_of, CallArgs::in_call(arguments))
        {
            mistakes.push(why);
        }
        let mut names: Vec<&String> = arguments.keys().collect();
        names.sort_unstable();
        for name in names {
            let value = &arguments[name];
            if !known().any(|known| known == name) {
                let hint = did_you_mean(name, known()).unwrap_or_else(|| one_of(&known().collect::<Vec<_>>()));
                mistakes.push(format!("there is no argument `{name}`: {hint}"));
                continue;
            }
            // Null counts as not given, unless the argument is required.
            let is_none = value.is_null() && !self.required.contains(name);
            let kind = self.kinds.get(name).filter(|_| !is_none);
            mistakes.extend(
                kind.filter(|kind| kind.fit(value) == Fit::Wrong)
                    .map(|kind| kind.refusal(name, value)),
            );
        }
        if mistakes.is_empty()
            && let Some(check) = &self.check
        {
            let found = check.mistakes(CallArgs::in_call(arguments));
            mistakes.extend(found.into_iter().map(|mistake| mistake.why));
        }
        mistakes
    }
}

fn by_schema(schema: &Value, arguments: &Map<String, Value>) -> Vec<String> {
    // If the schema is unusable, the tool itself has to report the mistakes.
    let Ok(checks) = JsonSchema::new(schema) else {
        return Vec::new();
    };
    let coerced = Value::Object(coerce_to_schema(schema, arguments).unwrap_or_else(|| arguments.clone()));
    checks
        .mistakes(&coerced, MISTAKES_MAX)
        .unwrap_or_else(|unbounded| vec![unbounded.to_string()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::{Known, from_value};
    use super::*;
    use crate::argument::ArgKind;

    #[test]
    fn all_mistakes_in_tool_arguments_are_reported_at_once_e9_13() {
        let kinds = [
            ("path", ArgKind::Text),
            ("max", ArgKind::Count),
            ("deep", ArgKind::Flag),
        ];
        let tool = KnownTool {
            required: vec!["path".to_owned()],
            optional: vec!["max".to_owned(), "deep".to_owned()],
            kinds: kinds.map(|(name, kind)| (name.to_owned(), kind)).into(),
            ..KnownTool::default()
        };
        let told = tool.mistakes(&json!({"max": -1, "pth": "a", "deep": null}));
        assert_eq!(
            told,
            [
                "`path` is missing",
                "`max` is a whole number that is not negative, not -1",
                "there is no argument `pth`: did you mean `path`?"
            ]
        );
        // What is meant is taken, and a text with braces is a text.
        let taken = json!({"path": "{{ a }}", "max": " 20 ", "deep": "false"});
        assert_eq!(tool.mistakes(&taken), Vec::<String>::new());
        assert_eq!(tool.mistakes(&Value::Null), ["`path` is missing"]);
    }

    #[test]
    fn schema_violation_in_tool_arguments_names_its_path_e9_13() {
        let tool = KnownTool {
            schema: Some(json!({
                "type": "object", "required": ["a"],
                "properties": {"a": {"type": "number"}, "in": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
            })),
            ..KnownTool::default()
        };
        let told = tool.mistakes(&json!({"in": {"on": "yes"}})).join("\n");
        assert!(told.contains("\"a\" is a required property"), "{told}");
        assert!(told.contains("/in/on: \"yes\" is not"), "{told}");
        assert_eq!(tool.mistakes(&json!({"a": "2", "more": 1})), Vec::<String>::new());
        let unusable = KnownTool {
            schema: Some(json!({"type": 7})),
            ..KnownTool::default()
        };
        assert_eq!(unusable.mistakes(&json!({"a": 1})), Vec::<String>::new());
    }

    #[test]
    fn exactly_one_of_alternative_tool_arguments_is_required_e9_1() {
        let tool = KnownTool {
            optional: vec!["argv".to_owned(), "command".to_owned(), "cwd".to_owned()],
            one_of: vec!["argv".to_owned(), "command".to_owned()],
            ..KnownTool::default()
        };
        let known = Known {
            tools: Some(BTreeMap::from([("sh".to_owned(), tool.clone())])),
            ..Known::default()
        };
        let told = |args| {
            let plan = json!([{"id": "a", "do": {"tool": "sh", "args": args}}]);
            let errors = from_value(&plan, &known).map_or_else(|errors| errors.listed, |_| Vec::new());
            errors
                .iter()
                .map(|error| format!("{} {}", error.code, error.message))
                .collect::<Vec<_>>()
        };
        for good in [json!({"argv": ["ls"]}), json!({"command": "{{ goal }}", "argv": null})] {
            assert_eq!(tool.mistakes(&good), Vec::<String>::new());
        }
        assert_eq!(told(json!({"argv": ["ls"], "cwd": "."})), Vec::<String>::new());
        assert_eq!(
            told(json!({"cwd": "."})),
            ["P016 the tool `sh` needs an argument: one of `argv` or `command` has to be given"]
        );
        assert_eq!(
            told(json!({"argv": ["ls"], "command": "ls"})),
            ["P029 the tool `sh` does not accept this: only one of `argv` or `command` can be given"]
        );
        // A template may evaluate to null.
        assert_eq!(
            told(json!({"argv": "{{ inputs }}", "command": "ls"})),
            Vec::<String>::new()
        );
        // A model is told the same of the calls that it writes.
        assert_eq!(
            tool.mistakes(&json!({})),
            ["one of `argv` or `command` has to be given"]
        );
    }
}
