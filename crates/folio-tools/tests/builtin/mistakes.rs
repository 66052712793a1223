//! Mistakes in calls of the built-in tools, found before they are made.

use crate::support::World;
use folio_tools::{CallArgs, Registry};
use serde_json::{Map, Value, json};

fn object(args: Value) -> Map<String, Value> {
    match args {
        Value::Object(args) => args,
        other => panic!("no arguments: {other}"),
    }
}

/// The mistakes of a call in a plan, where some arguments may be templates.
fn in_plan(tool: &str, args: Value) -> Vec<String> {
    let registry = Registry::with_builtins();
    let found = registry
        .get(tool)
        .expect("it comes with Folio")
        .mistakes(CallArgs::in_plan(&object(args)));
    found.into_iter().map(|mistake| mistake.why).collect()
}

#[tokio::test]
async fn impossible_tool_calls_are_reported_as_plan_mistakes() {
    let world = World::new();
    for (tool, args, why) in [
        (
            "grep",
            json!({"pattern": "("}),
            "cannot read the pattern `(`: unclosed group",
        ),
        (
            "grep",
            json!({"patterns": [{"pattern": "x"}]}),
            "item 1: missing field `name`",
        ),
        ("grep", json!({"patterns": []}), "`patterns` is empty"),
        (
            "grep",
            json!({"patterns": [{"name": "a", "pattern": "["}]}),
            "cannot read the pattern `[`",
        ),
        (
            "grep",
            json!({"pattern": "x", "path": "a", "paths": ["b"]}),
            "give `path` or `paths`, not both",
        ),
        (
            "grep",
            json!({"pattern": "x", "glob": "a["}),
            "unclosed character class",
        ),
        (
            "list",
            json!({"glob": ["*.rs", "!a["]}),
            "cannot read the pattern `!a[`",
        ),
        (
            "git",
            json!({"command": "log", "max": 3}),
            "git log: `max` is not for git's own commands",
        ),
        (
            "git",
            json!({"command": "file_history"}),
            "git file_history: `path` is missing",
        ),
        ("git", json!({"command": "log", "args": ["--exec=x"]}), "--exec"),
        (
            "git",
            json!({"command": "summary", "args": "x"}),
            "`args` is for git's own commands",
        ),
        ("git", json!({"command": "summary", "since": "soon"}), "not `soon`"),
        (
            "git",
            json!({"command": "file_history", "path": "/etc/x"}),
            "must name something inside the repository",
        ),
        ("shell", json!({"argv": []}), "`argv` is empty"),
        ("shell", json!({"command": " "}), "`command` is empty"),
        (
            "shell",
            json!({"command": "true", "timeout_s": 0}),
            "`timeout_s` is more than 0",
        ),
        (
            "shell",
            json!({"command": "true", "timeout_s": 7201}),
            "`timeout_s` is more than 0 and at most 7200",
        ),
        (
            "text",
            json!({"op": "template", "data": {"a": 1}}),
            "`template` is missing",
        ),
        (
            "text",
            json!({"op": "map", "value": [1], "where": "x"}),
            "give one of `field`",
        ),
        ("text", json!({"op": "filter", "value": []}), "give one of `where`"),
        (
            "text",
            json!({"op": "filter", "field": "a", "matches": "("}),
            "cannot read the pattern `(`",
        ),
        ("text", json!({"op": "split", "by": ""}), "`by` is empty"),
        (
            "observe",
            json!({"items": ["a", {"content": "a", "tpye": "x"}]}),
            "item 2 cannot be read: unknown field `tpye`",
        ),
    ] {
        let told = in_plan(tool, args.clone());
        assert!(
            told.len() == 1 && told[0].contains(why),
            "{tool} {args}: {told:?}, not {why:?}"
        );
        let failed = world.call(tool, args.clone()).await;
        assert!(!failed.is_ok(), "{tool} {args} can be made: {failed:?}");
    }
}

#[test]
fn templated_arguments_are_not_reported_as_plan_mistakes() {
    for (tool, args) in [
        ("grep", json!({"pattern": "{{ x }}("})),
        ("grep", json!({"pattern": "(", "fixed": true})),
        ("grep", json!({"pattern": "(", "fixed": "{{ x }}"})),
        ("grep", json!({"patterns": [{"name": "{{ x }}", "pattern": "("}]})),
        // What comes to null is as good as nothing.
        ("grep", json!({"pattern": "x", "path": "{{ x }}", "paths": "{{ y }}"})),
        ("grep", json!({"pattern": "x", "path": "a", "paths": "{{ y }}"})),
        ("git", json!({"command": "log", "max": "{{ x }}"})),
        ("git", json!({"command": "summary", "args": "{{ x }}"})),
        (
            "text",
            json!({"op": "map", "field": "{{ x }}", "template": "{{ none }}"}),
        ),
        (
            "text",
            json!({"op": "filter", "field": "a", "equals": "{{ x }}", "in": "{{ y }}"}),
        ),
        ("list", json!({"glob": ["*.rs", "{{ x }}["]})),
        ("git", json!({"command": "{{ x }}", "max": 3})),
        ("git", json!({"command": "log", "args": ["--exec={{ x }}"]})),
        ("git", json!({"command": "file_history", "path": "{{ x }}"})),
        ("shell", json!({"argv": ["{{ x }}"]})),
        ("shell", json!({"command": "x", "timeout_s": "{{ 0 }}"})),
        ("text", json!({"op": "{{ x }}"})),
        ("observe", json!({"items": [{"content": "{{ x }}", "tpye": "x"}]})),
        ("text", json!({"op": "template", "template": "{{ x }}"})),
        ("text", json!({"op": "filter", "field": "a", "equals": null})),
    ] {
        assert_eq!(in_plan(tool, args.clone()), Vec::<String>::new(), "{tool} {args}");
    }
}

#[test]
fn plan_check_parses_regexes_without_compiling_them() {
    // To make this one would take more memory than a pattern may have, and its time.
    let large = json!({"pattern": "(((a{1000}){1000}){1000}){1000}"});
    assert_eq!(in_plan("grep", large), Vec::<String>::new());
}
