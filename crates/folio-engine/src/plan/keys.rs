//! The keys of the plan language. The published schema has the same keys; a test compares them.

pub(super) const PLAN: &[&str] = &[
    "version",
    "title",
    "goal",
    "goal_ref",
    "description",
    "inputs",
    "criteria",
    "budget",
    "steps",
    "report",
    "output",
];
pub(super) const INPUT: &[&str] = &["type", "description", "default"];
pub(super) const REPORT: &[&str] = &["title", "body"];
pub(super) const TASK: &[&str] = &[
    "id",
    "task_id",
    "taskId",
    "title",
    "description",
    "reason",
    "criteria",
    "success_criteria",
    "successCriteria",
    "satisfies",
    "needs",
    "executor",
    "tools",
    "optional",
    "atomic",
    "do",
    "plan",
    "observe",
    "retry",
    "timeout",
    "budget",
    "budget_share",
];
pub(super) const GROUP: &[&str] = &[
    "id", "task_id", "taskId", "title", "parallel", "on_hard", "join", "optional", "tools",
];
pub(super) const SEQUENCE: &[&str] = &["id", "task_id", "taskId", "title", "sequence", "optional", "tools"];
pub(super) const FOR_EACH: &[&str] = &[
    "id",
    "task_id",
    "taskId",
    "title",
    "for_each",
    "over",
    "as",
    "step",
    "body",
    "max_items",
    "on_item",
    "concurrency",
    "optional",
    "needs",
];
/// The keys of a list that is written as an object at `for_each`; what it leaves out may stand beside it.
pub(super) const FOR_EACH_LIST: &[&str] = &["over", "as", "step", "body", "max_items", "on_item", "concurrency"];
/// The keys of a task that a `for_each` may carry itself instead of a `step`.
pub(super) const FOR_EACH_INLINE: &[&str] = &[
    "description",
    "reason",
    "criteria",
    "success_criteria",
    "successCriteria",
    "satisfies",
    "executor",
    "tools",
    "atomic",
    "do",
    "plan",
    "observe",
    "retry",
    "timeout",
    "budget",
    "budget_share",
];
pub(super) const CALL: &[&str] = &["tool", "args"];
pub(super) const SUB_PLAN: &[&str] = &["steps", "output"];
pub(super) const OBSERVE: &[&str] = &[
    "type",
    "content",
    "confidence",
    "tags",
    "ttl_minutes",
    "context",
    "for_each",
    "when",
];
pub(super) const RETRY: &[&str] = &["max_attempts", "delay", "factor", "delay_max"];
pub(super) const BUDGET: &[&str] = &[
    "depth",
    "nodes",
    "children",
    "items",
    "fan_in",
    "concurrency",
    "replans",
    "deadline",
    "output_bytes",
    "tokens",
    "tokens_in",
    "tokens_cached",
    "tokens_out",
    "usd",
    "model_calls",
    "tool_calls",
    "bytes",
];
pub(super) const CRITERION: &[&str] = &["id", "text", "check", "required"];
pub(super) const CHECK: &[&str] = &["command", "file_exists", "regex", "json_schema"];
pub(super) const COMMAND: &[&str] = &["argv", "exit"];
pub(super) const FILE_EXISTS: &[&str] = &["path"];
pub(super) const REGEX: &[&str] = &["pattern", "of"];
pub(super) const JSON_SCHEMA: &[&str] = &["schema", "of"];
pub(super) const JOIN: &[&str] = &["quorum"];

/// Other spellings that are accepted for `key`.
pub(super) fn aliases(key: &str) -> impl Iterator<Item = &'static str> + use<> {
    let aliases: &[&str] = match key {
        "id" => &["task_id", "taskId"],
        "criteria" => &["success_criteria", "successCriteria"],
        "step" => &["body"],
        "for_each" => &["over"],
        "goal" => &["goal_ref"],
        _ => &[],
    };
    aliases.iter().copied()
}

/// Whether `key` is such a spelling, which is read but never recommended.
pub(super) fn is_alias(key: &str) -> bool {
    ["id", "criteria", "step", "for_each", "goal"]
        .into_iter()
        .any(|name| aliases(name).any(|alias| alias == key))
}

/// A hint for a key that people know from other plan languages.
pub(super) fn advice(key: &str, subject: &str) -> Option<&'static str> {
    Some(match key {
        "required" if subject == "an input" => "an input without a `default` is required",
        "tool" | "args" if subject == "a task" => "a call is written `do: {tool: …, args: …}`",
        "depends_on" | "dependencies" | "after" => "write `needs`",
        "if" | "when" if subject == "a for_each" => {
            "give it a list that is filtered: `text` with `op: filter` makes one"
        }
        "if" | "when" => "a step is not conditional; let a model decide, or filter a `for_each`",
        "steps" if subject == "a task" => "a sub-plan is written `plan: {steps: […]}`, a sequence `sequence: […]`",
        "tasks" => "write `steps`",
        "items" | "in" if subject == "a for_each" => "the list itself stands at `for_each`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn plan_schema_has_exactly_the_keys_the_reader_accepts() {
        let schema: Value = serde_json::from_str(super::super::schema()).unwrap();
        let tables: &[(&str, &[&[&str]])] = &[
            ("plan", &[PLAN]),
            ("inputSpec", &[INPUT]),
            ("reportSpec", &[REPORT]),
            ("task", &[TASK]),
            ("group", &[GROUP]),
            ("sequence", &[SEQUENCE]),
            ("forEach", &[FOR_EACH, FOR_EACH_INLINE]),
            ("forEachList", &[FOR_EACH_LIST]),
            ("call", &[CALL]),
            ("subPlanSpec", &[SUB_PLAN]),
            ("observe", &[OBSERVE]),
            ("retrySpec", &[RETRY]),
            ("budget", &[BUDGET]),
            ("criterionSpec", &[CRITERION]),
            ("machineCheck", &[CHECK]),
            ("commandSpec", &[COMMAND]),
            ("fileExistsSpec", &[FILE_EXISTS]),
            ("regexSpec", &[REGEX]),
            ("jsonSchemaSpec", &[JSON_SCHEMA]),
            ("quorum", &[JOIN]),
        ];
        let definitions = schema["$defs"].as_object().unwrap();
        for (name, keys) in tables {
            let read: BTreeSet<&str> = keys.iter().flat_map(|keys| keys.iter().copied()).collect();
            let published: BTreeSet<&str> = definitions[*name]["properties"]
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(read, published, "{name}");
            assert_eq!(definitions[*name]["additionalProperties"], false, "{name}");
        }
        for (name, definition) in definitions {
            let is_listed = tables.iter().any(|(listed, _)| listed == name);
            assert!(
                is_listed || definition.get("properties").is_none(),
                "{name} has keys that nothing compares"
            );
        }
    }

    #[test]
    fn example_plan_satisfies_the_plan_schema() {
        let schema: Value = serde_json::from_str(super::super::schema()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let written = include_str!("../../tests/plan/plan_support/review.yaml");
        let value = super::super::spanned::read(written).unwrap().root.to_json();
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
    }

    #[test]
    fn plan_schema_refuses_what_the_reader_refuses_without_a_run() {
        let schema: Value = serde_json::from_str(super::super::schema()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let with_step = |step: &str| format!("title: t\nsteps:\n- {step}\n");
        let with_budget = |budget: &str| format!("title: t\nbudget: {{{budget}}}\nsteps: [a]\n");
        let many = format!("parallel: [{}]", ["a"; 65].join(", "));
        let wrong = [
            with_budget("concurrency: 0"),
            with_budget("fan_in: 1"),
            with_budget("depth: 9"),
            with_budget("nodes: 200001"),
            with_step(&many),
            with_step("{id: a, for_each: [1]}"),
            with_step("{id: a, for_each: [1], step: b, do: {tool: wait}}"),
            with_step("{id: a, for_each: [1], step: b, criteria: [c]}"),
            with_step("{id: a, for_each: [1], body: b, observe: {type: t, content: c}}"),
            with_step("{id: a, over: [1]}"),
            with_step("{id: a, over: [1], for_each: [1], body: b}"),
            with_step("{id: a, for_each: {over: [1]}}"),
            with_step("{id: a, for_each: {as: f, body: b}}"),
            with_step("{id: a, for_each: {over: [1], body: b, optional: true}}"),
            with_step("{id: a, for_each: {over: [1], body: b}, step: b}"),
            with_step("{id: a, for_each: {over: [1], as: f, body: b}, as: g}"),
            with_step("{id: a, for_each: {over: [1], body: b}, do: {tool: wait}}"),
            with_step("{id: a, title: t, criteria: [{check: judge}]}"),
            with_step("{id: a, title: t, criteria: [{check: human}]}"),
        ];
        let right = [
            with_budget("concurrency: 1, fan_in: 2, depth: 8, nodes: 200000"),
            with_step("{id: a, for_each: [1], step: b}"),
            with_step("{id: a, for_each: [1], body: b}"),
            with_step("{id: a, over: [1], as: f, body: b}"),
            with_step("{id: a, over: [1], do: {tool: wait}}"),
            with_step("{id: a, for_each: {over: [1], as: f, body: b, max_items: 3}}"),
            with_step("{id: a, for_each: {over: [1]}, as: f, do: {tool: wait}}"),
            "goal_ref: g\nsteps: [a]".to_owned(),
            with_step("{id: a, for_each: [1], do: {tool: wait}}"),
            with_step("{id: a, for_each: [1], description: b, criteria: [c]}"),
            with_step("{id: a, title: t, criteria: [{check: result_nonempty}, {check: judge, text: b}]}"),
        ];
        let read = |text: &String| crate::plan::parse(text, &crate::plan::Known::default());
        let value = |text: &String| super::super::spanned::read(text).unwrap().root.to_json();
        for text in &wrong {
            assert!(read(text).is_err(), "the reader accepts {text}");
            assert!(!validator.is_valid(&value(text)), "the schema accepts {text}");
        }
        for text in &right {
            assert!(read(text).is_ok(), "the reader refuses {text}");
            assert!(validator.is_valid(&value(text)), "the schema refuses {text}");
        }
    }

    #[test]
    fn plan_schema_describes_every_key() {
        let schema: Value = serde_json::from_str(super::super::schema()).unwrap();
        let definitions = schema["$defs"].as_object().unwrap();
        for (name, definition) in definitions {
            for (key, property) in definition["properties"].as_object().into_iter().flatten() {
                let target = property["$ref"]
                    .as_str()
                    .and_then(|target| definitions.get(&target["#/$defs/".len()..]));
                let is_described = property
                    .get("description")
                    .or_else(|| target.and_then(|target| target.get("description")));
                assert!(is_described.is_some(), "{name}.{key}");
            }
        }
    }
}
