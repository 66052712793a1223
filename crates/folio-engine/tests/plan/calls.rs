//! Calls that can never be made, and values that would not be what was written, are reported before a run.

use std::collections::BTreeMap;

use folio_engine::argument::{ArgKind, CallArgs, CallCheck, Mistake};
use folio_engine::plan::{Known, KnownTool, from_value, parse};
use serde_json::{Value, json};

fn known() -> Known {
    let kinds = [
        ("content", ArgKind::Text),
        ("argv", ArgKind::Words),
        ("glob", ArgKind::Texts),
        ("from", ArgKind::From(1)),
        ("minutes", ArgKind::Within(0, 60)),
        ("any", ArgKind::Any),
    ];
    let check = |args: CallArgs<'_>| {
        let mut found = Vec::new();
        if args.text("content") == Some("(") {
            found.push(Mistake::of("content", "`content` is not closed"));
        }
        if args.has("glob") && !args.has("from") {
            found.push(Mistake::of_call("`glob` goes with `from`"));
        }
        found
    };
    let tool = KnownTool {
        optional: kinds.iter().map(|(name, _)| (*name).to_owned()).collect(),
        kinds: kinds.map(|(name, kind)| (name.to_owned(), kind)).into(),
        check: Some(CallCheck::new(check)),
        ..KnownTool::default()
    };
    Known {
        tools: Some(BTreeMap::from([("write".to_owned(), tool)])),
        ..Known::default()
    }
}

/// The mistakes in a plan of one call with these arguments.
fn call_mistakes(args: &str) -> Vec<String> {
    plan_mistakes(&format!("- {{id: a, do: {{tool: write, args: {args}}}}}"))
}

fn plan_mistakes(plan: &str) -> Vec<String> {
    let errors = parse(plan, &known()).map_or_else(|errors| errors.listed, |_| Vec::new());
    errors
        .into_iter()
        .map(|error| format!("{} {}", error.code, error.message))
        .collect()
}

#[test]
fn number_changing_its_text_is_refused_for_text_arguments_e9_1() {
    for (args, written, read) in [
        ("{content: 007}", "007", "7"),
        ("{content: 1e3}", "1e3", "1000.0"),
        ("{content: 1.10}", "1.10", "1.1"),
        ("{content: +5}", "+5", "5"),
        ("{content: 0x1f}", "0x1f", "31"),
        ("{content: 12e4567}", "12e4567", ""),
        ("{argv: [cut, 1.10]}", "1.10", "1.1"),
        ("{\"content\": 1.10}", "1.10", "1.1"),
    ] {
        let told = call_mistakes(args);
        let is_told = told.iter().any(|one| one.contains(written) && one.contains(read));
        assert!(is_told, "{args}: {told:?}");
    }
    assert_eq!(
        call_mistakes("{content: 007}"),
        ["P029 the tool `write` would take this as another text: `content` is written 007, and read as 7"]
    );
    for good in [
        "{content: 5}",
        "{content: -3}",
        "{content: 1.5}",
        "{content: '007'}",
        "{any: 1.10}",
        "{argv: [sleep, 1]}",
    ] {
        assert_eq!(call_mistakes(good), Vec::<String>::new(), "{good}");
    }
}

#[test]
fn range_and_list_mistakes_name_the_argument_and_item_e9_1() {
    let refused = "P029 the tool `write` does not accept this: ";
    for (args, why) in [
        ("{argv: sleep}", "`argv` is a list of strings, not \"sleep\""),
        (
            "{argv: [a, [b]]}",
            "`argv` is a list of strings, and its item 2 is a list",
        ),
        (
            "{glob: [a, 1], from: 1}",
            "`glob` is a string or a list of strings, and its item 2 is 1",
        ),
        ("{from: 0}", "`from` is a whole number from 1 on, not 0"),
        ("{minutes: -5}", "`minutes` is a number from 0 to 60, not -5"),
        ("{minutes: '60.5'}", "`minutes` is a number from 0 to 60, not \"60.5\""),
    ] {
        assert_eq!(call_mistakes(args), [format!("{refused}{why}")]);
    }
    for good in [
        "{from: '1'}",
        "{minutes: 0.5}",
        "{minutes: '60'}",
        "{argv: ['{{ 1 }}', 2]}",
    ] {
        assert_eq!(call_mistakes(good), Vec::<String>::new(), "{good}");
    }
    let words = ArgKind::Words;
    assert_eq!(
        words.fit(&json!(["a", 1])),
        folio_engine::argument::Fit::Meant(json!(["a", "1"]))
    );
}

#[test]
fn mistakes_found_by_a_tool_check_name_their_argument_e9_1() {
    let place = |args: &str| {
        let text = format!("- {{id: a, do: {{tool: write, args: {args}}}}}");
        let errors = parse(&text, &known()).unwrap_err().listed;
        (errors[0].path.clone(), errors[0].message.clone())
    };
    assert_eq!(
        place("{content: '('}"),
        (
            "[0].do.args.content".to_owned(),
            "the tool `write` does not accept this: `content` is not closed".to_owned()
        )
    );
    assert_eq!(place("{glob: x}").0, "[0].do.args");
    // What a template comes to nobody knows yet.
    for good in ["{content: '{{ \"(\" }}'}", "{glob: x, from: '{{ 1 }}'}"] {
        assert_eq!(call_mistakes(good), Vec::<String>::new(), "{good}");
    }
    // A model is told the same of a call, in which braces are braces.
    let tool = &known().tools.unwrap()["write"];
    assert_eq!(tool.mistakes(&json!({"content": "("})), ["`content` is not closed"]);
    assert_eq!(tool.mistakes(&json!({"content": "{{ x }}"})), Vec::<String>::new());
}

#[test]
fn literal_list_is_checked_against_the_items_budget_around_it_e9_10() {
    let list = "{id: e, for_each: [1, 2, 3], step: {id: s, do: {tool: write}}}";
    let of_plan = format!("budget: {{items: 2}}\nsteps: [{list}]");
    assert_eq!(
        plan_mistakes(&of_plan),
        ["P014 the list has 3 items, and `items` of the budget is 2"]
    );
    let of_task = format!("- {{id: t, budget: {{items: 1}}, plan: [{list}]}}\n- {list}");
    assert_eq!(
        plan_mistakes(&of_task.replace("- {id: e", "- {id: f")),
        ["P014 the list has 3 items, and `items` of the budget is 1"]
    );
    assert_eq!(
        plan_mistakes(&format!("budget: {{items: 3}}\nsteps: [{list}]")),
        Vec::<String>::new()
    );
}

#[test]
fn ineffective_retry_and_excessive_ttl_are_mistakes_e9_1() {
    let retry = plan_mistakes("- {id: a, description: look around, retry: 3}");
    assert_eq!(retry, ["P007 `retry` is of a call (`do`); this task has none"]);
    let of_person = parse("- {id: a, title: Say it, executor: human, retry: 2}", &Known::default()).unwrap_err();
    assert_eq!(
        of_person.listed[0].hint.as_deref(),
        Some("leave it out: a person is asked once")
    );
    let rule = |minutes: &str| {
        plan_mistakes(&format!(
            "- {{id: a, do: {{tool: write}}, observe: {{type: reminder, content: x, ttl_minutes: {minutes}}}}}"
        ))
    };
    assert_eq!(
        rule("525601"),
        ["P007 a lifetime is at most 525600 minutes, which is a year"]
    );
    assert_eq!(rule("525600"), Vec::<String>::new());
    // A plan that was stored before is read all the same.
    let stored: Value = json!({"version": 1, "steps": [{"id": "a", "title": "a", "do": {"tool": "write"},
        "observe": [{"type": "reminder", "content": "x", "ttl_minutes": 1e6}]}]});
    assert!(from_value(&stored, &Known::default()).is_err());
    assert!(folio_engine::plan::from_stored(&stored).is_ok());
}

#[test]
fn braces_around_an_expression_are_optional_e9_1() {
    let plan = |open: &str, close: &str| {
        format!(
            "- id: a
  do: {{tool: write}}
  criteria: [{{check: {{regex: {{pattern: x, of: '{open}result.output.text{close}'}}}}}}]
  observe: {{type: t, content: '{{{{ item }}}}', for_each: '{open}result.output.files{close}', when: '{open}index > 0{close}'}}"
        )
    };
    let read = |text: String| parse(&text, &known()).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(read(plan("{{ ", " }}")), read(plan("", "")));
}
