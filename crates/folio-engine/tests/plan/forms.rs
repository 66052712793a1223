//! The many ways to write a plan, and their common meaning.
use std::collections::BTreeMap;
use std::time::Duration;

use folio_engine::plan::{
    Check, InputError, Join, Known, OnHard, Plan, Step, Work, check_inputs, from_value, parse, schema,
};
use serde_json::{Value, json};

#[track_caller]
fn plan(text: &str) -> Plan {
    parse(text, &Known::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

#[track_caller]
fn satisfies_the_schema(value: &Value) {
    let schema: Value = serde_json::from_str(schema()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new(), "{value:#}");
}

#[test]
fn nested_array_is_read_as_a_plan() {
    let words = plan("[t1, t2, [t3, t4], t5]");
    let tasks = json!([
        {"id": "t1", "description": "First", "reason": "to begin", "successCriteria": ["it is done"]},
        {"taskId": "t2", "description": "Second", "success_criteria": ["it too"]},
        ["t3", {"task_id": "t4", "description": "Fourth"}],
        "t5",
    ]);
    satisfies_the_schema(&tasks);
    satisfies_the_schema(&json!(["t1", "t2", ["t3", "t4"], "t5"]));
    let objects = plan(&tasks.to_string());
    for plan in [&words, &objects] {
        let ids: Vec<Option<&str>> = plan.steps.iter().map(|step| step.id().map(AsRef::as_ref)).collect();
        assert_eq!(ids, [Some("t1"), Some("t2"), None, Some("t5")]);
        let Step::Parallel(group) = &plan.steps[2] else {
            panic!("{:?}", plan.steps[2])
        };
        assert_eq!(
            (group.steps.len(), group.on_hard, group.join),
            (2, OnHard::Hold, Join::AllSettled)
        );
        let Step::Task(task) = &group.steps[1] else {
            panic!("{:?}", group.steps[1])
        };
        assert_eq!((task.id.as_str(), &task.work), ("t4", &Work::Model));
    }
    let Step::Task(first) = &objects.steps[0] else {
        panic!("{:?}", objects.steps[0])
    };
    assert_eq!(first.criteria[0].check, Check::Judge);
    assert_eq!(
        (first.criteria[0].id.as_str(), first.criteria[0].text.as_str()),
        ("c1", "it is done")
    );
}

/// The names that the language's own definition has for them.
#[test]
fn list_of_a_for_each_may_be_called_over_and_the_goal_goal_ref_e9_1() {
    let body = json!({"id": "look", "title": "Look at {{ f }}"});
    let written = |step: Value| json!({"goal": "g", "steps": [{"id": "a", "do": {"tool": "scan"}}, step]});
    // Also a list that stands in the plan, beside whose templates those of the body are.
    for list in [json!("results.a.output.files"), json!(["one", "two"])] {
        let usual = written(json!({"id": "e", "for_each": list, "as": "f", "step": body, "max_items": 9}));
        let expected = plan(&usual.to_string());
        let mut other = written(json!({"id": "e", "over": list, "as": "f", "body": body, "max_items": 9}));
        let goal = other.as_object_mut().unwrap().remove("goal").unwrap();
        other["goal_ref"] = goal;
        let whole = json!({"over": list, "as": "f", "body": body, "max_items": 9});
        let part = json!({"over": list, "as": "f"});
        for other in [
            other,
            written(json!({"id": "e", "for_each": whole})),
            written(json!({"id": "e", "for_each": part, "step": body, "max_items": 9})),
        ] {
            satisfies_the_schema(&other);
            assert_eq!(json!(plan(&other.to_string())), json!(expected), "{other}");
        }
    }
    let list = "results.a.output.files";
    let mistakes = |step: Value| {
        parse(&written(step).to_string(), &Known::default())
            .unwrap_err()
            .to_string()
    };
    let twice = mistakes(json!({"id": "e", "for_each": {"over": list, "as": "f", "body": body}, "as": "f"}));
    assert!(twice.contains("`as` is given at `for_each` and beside it"), "{twice}");
    let both = mistakes(json!({"id": "e", "for_each": list, "over": list, "step": body}));
    assert!(both.contains("`over` means the same as `for_each`"), "{both}");
}

const REVIEW: &str = include_str!("plan_support/review.yaml");

#[test]
fn review_plan_is_read_with_its_settings() {
    let plan = plan(REVIEW);
    let Step::Task(list) = &plan.steps[0] else { panic!() };
    assert_eq!(list.retry.max_attempts, 3);
    assert_eq!(list.timeout, Some(Duration::from_secs(90)));
    let Step::ForEach(look) = &plan.steps[1] else { panic!() };
    assert_eq!(
        (look.item_name.as_str(), look.max_items, look.on_item),
        ("file", 100, OnHard::Continue)
    );
    assert_eq!(look.title, "look");
    let Step::Task(body) = &look.body else { panic!() };
    assert_eq!((body.id.as_str(), body.title.as_str()), ("look", "Look at {{ file }}"));
    assert_eq!(body.observe[0].tags, ["todo"]);
    let Step::Parallel(group) = &plan.steps[2] else {
        panic!()
    };
    assert_eq!((group.on_hard, group.join), (OnHard::Cancel, Join::Quorum(1)));
    assert_eq!(plan.criteria[1].id, "c2");
    assert!(!plan.criteria[1].required);
    assert_eq!(plan.budget.deadline, Some(Duration::from_secs(1800)));
}

#[test]
fn step_criteria_are_numbered_below_the_satisfied_one_e9_6() {
    let long = "c".repeat(63);
    let text = json!({
        "goal": "a dry house", "criteria": ["no water comes in", {"id": "paid", "text": "it is paid for"}, {"id": long, "text": "it lasts"}],
        "steps": [
            {"id": "roof", "satisfies": ["c1", "paid"], "criteria": ["no tile is loose", {"id": "seen", "text": "it was seen"}, "the gutter is clear"],
             "plan": [{"id": "tiles", "satisfies": ["c1.1"], "criteria": ["each was lifted"], "do": {"tool": "list"}}]},
            {"id": "bill", "satisfies": ["paid"], "criteria": [{"id": "paid.1", "text": "it is right"}, {"check": "result_nonempty"}], "do": {"tool": "list"}},
            {"id": "oak", "satisfies": [long], "criteria": ["it is hard"], "do": {"tool": "list"}},
            {"id": "tea", "criteria": ["it is hot"], "do": {"tool": "list"}},
            {"for_each": [1], "as": "room", "id": "rooms", "satisfies": ["c1"], "criteria": ["it is dry"], "do": {"tool": "list"}}
        ]
    });
    let plan = plan(&text.to_string());
    let ids = |step: &Step| match step {
        Step::Task(task) => task
            .criteria
            .iter()
            .map(|criterion| criterion.id.clone())
            .collect::<Vec<_>>(),
        _ => panic!("{step:?}"),
    };
    assert_eq!(ids(&plan.steps[0]), ["c1.1", "seen", "c1.3"]);
    let Step::Task(roof) = &plan.steps[0] else { panic!() };
    let Work::Plan(inner) = &roof.work else { panic!() };
    assert_eq!(ids(&inner.steps[0]), ["c1.1.1"]);
    assert_eq!(ids(&plan.steps[1]), ["paid.1", "paid.2"]);
    // A name that leaves no room for a number below it is no part of another.
    assert_eq!(ids(&plan.steps[2]), ["c1"]);
    assert_eq!(ids(&plan.steps[3]), ["c1"]);
    let Step::ForEach(rooms) = &plan.steps[4] else { panic!() };
    assert_eq!(ids(&rooms.body), ["c1.1"]);
    let written = serde_json::to_value(&plan).unwrap();
    assert_eq!(from_value(&written, &Known::default()).unwrap(), plan);
}

#[test]
fn step_criterion_can_also_be_satisfied_by_its_plain_number_e9_6() {
    let by = |name: &str| {
        let text = json!({
            "goal": "a dry house", "criteria": [{"id": "paid", "text": "it is paid for"}],
            "steps": [{"id": "roof", "satisfies": ["paid"], "criteria": ["no tile is loose", "the gutter is clear"],
                       "plan": [{"id": "tiles", "satisfies": [name], "do": {"tool": "list"}}]}]
        });
        from_value(&text, &Known::default()).map(|_| ())
    };
    for name in ["paid", "paid.1", "paid.2", "c1", "c2"] {
        by(name).unwrap();
    }
    let told = by("c3").unwrap_err().to_string();
    assert!(
        told.contains("satisfies names \"c3\", which is not a criterion"),
        "{told}"
    );
}

#[test]
fn written_plan_reads_back_unchanged_and_satisfies_the_schema() {
    let first = plan(REVIEW);
    let written = serde_json::to_value(&first).unwrap();
    satisfies_the_schema(&written);
    assert_eq!(plan(&written.to_string()), first);
    assert_eq!(from_value(&written, &Known::default()).unwrap(), first);
    assert_eq!(serde_json::from_value::<Plan>(written).unwrap(), first);
}

#[test]
fn yaml_and_json_describe_the_same_plan() {
    let yaml = "steps:\n- id: a\n  do:\n    tool: list\n    args: {path: 'ä 😀', n: 1.5}\n- [b, c]\n";
    let json = "{\"steps\":\t[{\"id\": \"a\", \"do\": {\"tool\": \"list\", \"args\": {\"path\": \"\\u00e4 \\ud83d\\ude00\", \"n\": 1.5}}},\n\t[\"b\", \"c\"]]}";
    assert_eq!(plan(yaml), plan(json));
}

#[test]
fn yaml_anchors_and_flow_style_are_supported() {
    let plan = plan(
        "x: &x {tool: list, args: {}}\nsteps: []"
            .replace(
                "x: &x {tool: list, args: {}}\nsteps: []",
                "steps:\n  - {id: a, do: &call {tool: list}}\n  - {id: b, do: *call}\n",
            )
            .as_str(),
    );
    let work = |at: usize| match &plan.steps[at] {
        Step::Task(task) => task.work.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(work(0), work(1));
}

#[test]
fn step_id_is_derived_from_its_title_or_short_description() {
    let plan = plan("[{title: 'List all files!'}, {description: Count them}, {id: x, description: 'A\n\nlong one'}]");
    let both: Vec<(Option<&str>, &str)> = plan
        .steps
        .iter()
        .map(|step| (step.id().map(AsRef::as_ref), step.title()))
        .collect();
    assert_eq!(
        both,
        [
            (Some("list-all-files"), "List all files!"),
            (Some("count-them"), "Count them"),
            (Some("x"), "x")
        ]
    );
}

#[test]
fn every_check_has_a_short_and_a_long_form() {
    let text = json!([{"id": "a", "criteria": [
        "words",
        {"text": "t", "check": "human"},
        {"check": "result_nonempty"},
        {"check": {"command": ["true"]}},
        {"check": {"command": {"argv": ["false"], "exit": 1}}},
        {"check": {"file_exists": "a.md"}},
        {"check": {"file_exists": {"path": "{{ inputs.repo }}"}}},
        {"check": {"regex": "^ok"}},
        {"check": {"regex": {"pattern": "^ok", "of": "result.output.text"}}},
        {"id": "c3", "check": {"json_schema": {"schema": {"type": "object"}}}},
    ]}]);
    satisfies_the_schema(&text);
    let with_input = json!({"inputs": {"repo": null}, "steps": text});
    satisfies_the_schema(&with_input);
    let plan = plan(&with_input.to_string());
    let Step::Task(task) = &plan.steps[0] else { panic!() };
    let lines: Vec<String> = task
        .criteria
        .iter()
        .map(|criterion| format!("{}: {}", criterion.id, criterion.text))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
        c1: words
        c2: t
        c4: the result is not empty
        c5: `true` ends with exit code 0
        c6: `false` ends with exit code 1
        c7: the file a.md exists
        c8: the file {{ inputs.repo }} exists
        c9: the result matches `^ok`
        c10: result.output.text matches `^ok`
        c3: the output satisfies its schema
        "#);
}

#[test]
fn inputs_are_converted_to_their_types_and_defaults_fill_gaps() {
    let plan = plan(
        "{inputs: {repo: path, limit: {type: integer, default: 20}, deep: boolean, ratio: number, tags: list, more: object}, steps: [a]}",
    );
    let given = |pairs: &[(&str, Value)]| -> BTreeMap<String, Value> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    };
    let read = check_inputs(
        &plan,
        &given(&[
            ("repo", json!(".")),
            ("deep", json!("yes")),
            ("ratio", json!("0.5")),
            ("tags", json!("a, b")),
            ("more", json!("{\"x\": [1]}")),
        ]),
    );
    assert_eq!(
        Value::Object(read.unwrap()),
        json!({"repo": ".", "limit": 20, "deep": true, "ratio": 0.5, "tags": ["a", "b"], "more": {"x": [1]}})
    );
    let errors = check_inputs(
        &plan,
        &given(&[
            ("repos", json!(".")),
            ("limit", json!("many")),
            ("deep", json!(1)),
            ("ratio", json!(1)),
            ("tags", json!(["x"])),
            ("more", json!([])),
            ("zzz", json!(null)),
        ]),
    )
    .unwrap_err();
    insta::assert_snapshot!(errors.iter().map(InputError::to_string).collect::<Vec<_>>().join("\n"), @r#"
        the input `deep` must be a boolean, not 1
        the input `limit` must be an integer, not "many"
        the input `more` must be an object, not []
        the input `repo` is missing: a path
        the plan has no input `repos`; did you mean `repo`?
        the plan has no input `zzz`; it has deep, limit, more, ratio, repo, tags
        "#);
}

#[test]
fn tool_of_an_unnamed_server_gets_a_hint_on_the_settings() {
    let text = "steps: [{id: a, do: {tool: desk.search}}, {id: b, do: {tool: lamp.glow}}, {id: c, do: {tool: fly}}]";
    let known = Known {
        tools: Some([].into()),
        servers: Some(["lamp".to_owned()].into()),
        ..Known::default()
    };
    let told = parse(text, &known).unwrap_err().to_string();
    insta::assert_snapshot!(told, @r#"
    1:28 steps[0].do.tool: P004 unknown tool "desk.search" (the settings name no MCP server "desk"; docs/mcp-tools.md explains how to add one)
    1:62 steps[1].do.tool: P004 unknown tool "lamp.glow"
    1:94 steps[2].do.tool: P004 unknown tool "fly"
    "#);
}

#[test]
fn empty_path_input_is_refused() {
    let plan = plan("{inputs: {a: path, b: {type: path, default: ''}, c: string}, steps: [a]}");
    let given = [("a", json!(" ")), ("c", json!(""))].map(|(name, value)| (name.to_owned(), value));
    let errors = check_inputs(&plan, &given.into()).unwrap_err();
    insta::assert_snapshot!(errors.iter().map(InputError::to_string).collect::<Vec<_>>().join("\n"), @r"
        the input `a` is empty; name a file or a folder, such as `.` for this folder
        the input `b` is empty; name a file or a folder, such as `.` for this folder
        ");
}

#[test]
fn lossy_input_values_are_refused_e9_1() {
    let plan = plan("{inputs: {n: integer, x: number, o: object, l: list}, steps: [a]}");
    let given = |n: &str, x: &str, o: &str, l: &str| -> BTreeMap<String, Value> {
        let pairs = [("n", n), ("x", x), ("o", o), ("l", l)];
        pairs.map(|(name, text)| (name.to_owned(), json!(text))).into()
    };
    let errors = check_inputs(
        &plan,
        &given(
            "12345678901234567890123",
            "1e999",
            "{\"a\": 1, \"a\": 2}",
            "[{\"id\": -9223372036854775809}]",
        ),
    )
    .unwrap_err();
    insta::assert_snapshot!(errors.iter().map(InputError::to_string).collect::<Vec<_>>().join("\n"), @r"
        the input `l` would not keep what was written: `-9223372036854775809` has more digits than a number keeps; put it in quotes to keep all of them as a text
        the input `n` would not keep what was written: `12345678901234567890123` has more digits than a number keeps
        the input `o` would not keep what was written: the key `a` is already at 1:2
        the input `x` would not keep what was written: `1e999` is not a number
        ");
    let read = check_inputs(
        &plan,
        &given(
            "18446744073709551615",
            "1e3",
            "{\"a\": \"12345678901234567890123\"}",
            "1, 2",
        ),
    );
    assert_eq!(
        Value::Object(read.unwrap()),
        json!({"n": u64::MAX, "x": 1e3, "o": {"a": "12345678901234567890123"}, "l": ["1", "2"]})
    );
}

#[test]
fn mistakes_have_no_hints_that_nobody_can_follow() {
    let hints = |text: &str| -> Vec<(String, Option<String>)> {
        let errors = parse(text, &Known::default()).unwrap_err();
        errors
            .listed
            .into_iter()
            .map(|error| (error.code.to_string(), error.hint))
            .collect()
    };
    // A quorum of a group without branches could only be a number from 1 to 0.
    let of_none = hints("[{parallel: [], join: quorum(1)}]");
    assert!(of_none.iter().all(|(code, _)| code != "P027"), "{of_none:?}");
    assert_eq!(of_none.len(), 1, "{of_none:?}");
    // A task may name a criterion as the plan around it does.
    let text = "
        criteria: [{id: c1, text: it is whole}, {id: c2, text: it is dry}]
        steps:
          - id: part
            criteria: [{id: c1, text: it is done}]
            plan: [{id: a, satisfies: [nothing]}]";
    let hint = "the criteria are c1, c2".to_owned();
    assert!(
        hints(text).contains(&("P031".to_owned(), Some(hint))),
        "{:?}",
        hints(text)
    );
}
