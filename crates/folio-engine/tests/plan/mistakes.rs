//! All mistakes in a plan are reported at once, each with its place.

use std::collections::BTreeMap;

use folio_engine::argument::ArgKind;
use folio_engine::plan::{CODES, Known, KnownTool, Limits, from_value, parse};
use serde_json::json;

fn tools() -> Known {
    let tool = |required: &[&str], optional: &[&str], writes| KnownTool {
        required: required.iter().map(ToString::to_string).collect(),
        optional: optional.iter().map(ToString::to_string).collect(),
        writes,
        ..KnownTool::default()
    };
    let tools = BTreeMap::from([
        ("grep".to_owned(), tool(&["pattern"], &["path", "limit"], false)),
        ("list".to_owned(), with_output_schema(tool(&[], &["path"], false))),
        ("write".to_owned(), tool(&["path", "text"], &[], true)),
        ("shell".to_owned(), tool(&["argv"], &[], true)),
        ("maps.route".to_owned(), of_schema()),
        ("wait".to_owned(), of_kinds()),
    ]);
    Known {
        tools: Some(tools),
        ..Known::default()
    }
}

/// `tool` with declared outputs.
fn with_output_schema(tool: KnownTool) -> KnownTool {
    let output = json!({"type": "object", "properties": {"files": {"type": "array", "items": {"type": "object",
        "properties": {"path": {"type": "string"}, "tags": {"type": ["array", "null"]}}}}, "count": {"type": "integer"}}});
    KnownTool {
        output: Some(output),
        ..tool
    }
}

/// A tool that comes with a JSON Schema, as those of MCP servers do.
fn of_schema() -> KnownTool {
    let stop = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let schema = json!({
        "type": "object",
        "properties": {"to": {"type": "string", "minLength": 2}, "stops": {"type": "array", "items": stop},
                       "by": {"enum": ["car", "train"]}},
        "required": ["to"],
        "additionalProperties": false,
    });
    KnownTool {
        schema: Some(schema),
        ..KnownTool::default()
    }
}

/// A tool that declares the kind of each argument.
fn of_kinds() -> KnownTool {
    let kinds = [
        ("ms", ArgKind::Count),
        ("quiet", ArgKind::Flag),
        ("until", ArgKind::one_of(&["dawn", "noon"])),
        ("note", ArgKind::Text),
        ("names", ArgKind::Texts),
        ("days", ArgKind::UpTo(7)),
    ];
    KnownTool {
        required: vec!["ms".to_owned()],
        optional: kinds[1..].iter().map(|(name, _)| (*name).to_owned()).collect(),
        kinds: kinds.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect(),
        ..KnownTool::default()
    }
}

#[track_caller]
fn mistakes(text: &str) -> String {
    parse(text, &tools()).expect_err("the plan has mistakes").to_string()
}

/// The codes and places only.
#[track_caller]
fn codes(text: &str) -> Vec<String> {
    let errors = parse(text, &tools()).expect_err("the plan has mistakes");
    for error in &errors.listed {
        assert!(CODES.iter().any(|(code, _)| *code == error.code), "{error}");
    }
    errors
        .listed
        .iter()
        .map(|error| format!("{} {} {}", error.code, error.place, error.path))
        .collect()
}

const TEN_MISTAKES: &str = r#"title: Review
inputs:
  repo: {type: path, default: 5}
steps:
  - id: scan
    do: {tool: grpe, args: {pattern: TODO}}
  - id: Scan 2
    do: {tool: grep, args: {patern: x}}
  - parallel:
      - id: left
        description: "{{ results.right.output }}"
      - {id: right, tiemout: 5s}
    join: quorum(3)
  - for_each: "some files"
    id: each
    do: {tool: list}
  - id: last
    needs: [lst]

"#;

#[test]
fn ten_mistakes_are_reported_together_with_their_places_e9_1() {
    insta::assert_snapshot!(mistakes(TEN_MISTAKES), @r#"
        3:31 inputs.repo.default: P026 the default is a number, the input is a path
        6:16 steps[0].do.tool: P004 unknown tool "grpe" (did you mean `grep`?)
        7:9 steps[1].id: P008 "Scan 2" is not a slug: 1 to 64 characters out of a-z, 0-9, `-` and `_`, the first of them a letter or a digit (write `scan-2`)
        8:28 steps[1].do.args: P016 the tool `grep` needs the argument `pattern`
        8:37 steps[1].do.args.patern: P017 the tool `grep` has no argument `patern` (did you mean `pattern`?)
        11:22 steps[2].parallel[0].description: P020 `right` runs at the same time as this step (write `needs: [right]`, or move this step behind the group)
        12:21 steps[2].parallel[1].tiemout: P003 a task has no key `tiemout` (did you mean `timeout`?)
        13:11 steps[2].join: P027 a quorum of 3 out of 2 branches (write a number from 1 to 2)
        14:15 steps[3].for_each: P021 "some files" is a text, not a list (write a list, a reference such as `results.scan.output.files`, or one `{{ expression }}`)
        18:13 steps[4].needs[0]: P010 there is no step `lst` (did you mean `last`?)
        "#);
}

#[test]
fn mistakes_in_one_task_do_not_hide_those_in_another() {
    let text = "steps:\n  - id: a\n    retry: {max_attempts: 0}\n  - 5\n  - id: b\n    do: {tool: grep}\n  - id: c\n    needs: [a, d]\n    description: '{{ inputs.x }}'\n";
    assert_eq!(
        codes(text),
        [
            "P007 3:12 steps[0].retry",
            "P007 3:27 steps[0].retry.max_attempts",
            "P006 4:5 steps[1]",
            "P016 6:9 steps[2].do",
            "P010 8:16 steps[3].needs[1]",
            "P019 9:18 steps[3].description"
        ]
    );
}

#[test]
fn reference_to_an_invalid_step_id_is_not_unknown() {
    let text = "steps:\n  - {id: 'Not A Slug', title: a}\n  - {id: b, needs: [not-a-slug, gone], description: '{{ results.not-a-slug.notes }}'}\n";
    assert_eq!(codes(text), ["P008 2:10 steps[0].id", "P010 3:33 steps[1].needs[1]"]);
}

#[test]
fn unquoted_template_is_reported_with_a_hint_to_quote_it() {
    let told = mistakes("steps: [{id: a, do: {tool: list, args: {path: {{ inputs.x }}}}}]");
    assert!(
        told.contains("put quotation marks around a value that begins with {{: '{{ … }}'"),
        "{told}"
    );
}

#[test]
fn unknown_keys_are_mistakes_with_a_suggestion() {
    insta::assert_snapshot!(
        mistakes("{titel: x, steps: [{id: a, description: b, maxItems: 3}, {id: c, depends_on: [a]}, {parallel: [d], onHard: hold}]}"),
        @r#"
        1:2 titel: P003 a plan has no key `titel` (did you mean `title`?)
        1:44 steps[0].maxItems: P003 a task has no key `maxItems` (its keys: id, title, description, reason, criteria, satisfies, needs, executor, tools, optional, atomic, do, plan, observe, retry, timeout, budget, budget_share)
        1:66 steps[1].depends_on: P003 a task has no key `depends_on` (write `needs`)
        1:100 steps[2].onHard: P003 a parallel group has no key `onHard` (did you mean `on_hard`?)
        "#
    );
}

#[test]
fn step_ids_are_unique_per_plan_but_reusable_in_subplans() {
    assert_eq!(
        codes("[{id: a}, {parallel: [{id: b}, {id: a}]}, List files, list files]"),
        ["P009 1:37 [1].parallel[1].id", "P009 1:55 [3]"]
    );
    assert!(
        parse(
            "[{id: a}, {id: b, plan: [{id: a}, {id: c, description: '{{ results.a.notes }}'}]}]",
            &tools()
        )
        .is_ok()
    );
}

#[test]
fn needs_must_name_steps_of_the_same_plan() {
    insta::assert_snapshot!(
        mistakes("steps:\n  - {id: a, plan: [{id: inner}, {id: other, needs: [b]}]}\n  - {id: b, needs: [inner, aa]}\n"),
        @r#"
        2:53 steps[0].plan[1].needs[0]: P011 `b` is a step of another plan; `needs` stays within its own (name the step that contains it, or the one that contains this step)
        3:21 steps[1].needs[0]: P011 `inner` is a step of another plan; `needs` stays within its own (name the step that contains it, or the one that contains this step)
        3:28 steps[1].needs[1]: P010 there is no step `aa` (did you mean `a`?)
        "#
    );
}

#[test]
fn cyclic_waits_are_reported_with_their_steps_e9_1() {
    insta::assert_snapshot!(
        [
            "[{id: a, needs: [b]}, {id: b}]",
            "[{id: a, needs: [c]}, {id: b, needs: [a]}, {id: c, needs: [b]}]",
            "[{id: a, needs: [a]}]",
            "[{id: g, parallel: [{id: x, needs: [g]}, {id: y}]}]",
            "[{parallel: [{sequence: [{id: x}, {id: y}]}, {id: z, needs: [y]}]}, {id: p, needs: [q]}, {id: q, needs: [p]}]",
            "[{id: before}, {id: a, needs: [c]}, {id: b}, {id: c}]",
            "[{parallel: [{id: l}, {id: r}]}, {id: a, needs: [c]}, {id: b}, {id: c}, {id: after}]",
        ]
        .map(mistakes)
        .join("\n"),
        @r#"
        1:17 [0].needs: P012 steps wait for each other: `a` needs `b`, `b` comes after `a`
        1:17 [0].needs: P012 steps wait for each other: `a` needs `c`, `c` needs `b`, `b` needs `a`
        1:17 [0].needs: P012 steps wait for each other: `a` needs `a`
        1:36 [0].parallel[0].needs: P012 steps wait for each other: `g` ends with `x`, `x` needs `g`
        1:84 [1].needs: P012 steps wait for each other: `p` needs `q`, `q` needs `p`
        1:31 [1].needs: P012 steps wait for each other: `a` needs `c`, `c` comes after `b`, `b` comes after `a`
        1:49 [1].needs: P012 steps wait for each other: `a` needs `c`, `c` comes after `b`, `b` comes after `a`
        "#
    );
}

#[test]
fn step_without_a_readable_id_is_named_by_its_number_e9_1() {
    insta::assert_snapshot!(mistakes("steps:
  - parallel:
      - {do: {tool: write, args: {path: a, text: b}}}
      - {id: 5x!, do: {tool: shell, args: {argv: []}}}
    join: first_ok
  - {id: a, needs: [c], title: a}
  - {needs: [a]}
  - {title: '!'}
  - {id: c, title: c}"), @r#"
    3:9 steps[0].parallel[0]: P005 `id` is missing: a task needs an id, or a title to make one from
    4:14 steps[0].parallel[1].id: P008 "5x!" is not a slug: 1 to 64 characters out of a-z, 0-9, `-` and `_`, the first of them a letter or a digit (write `5x`)
    5:11 steps[0].join: P022 several branches may write (step 1 of steps[0].parallel: write, step 2 of steps[0].parallel: shell), and the one that loses may have written already (let the branches only read, and write afterwards)
    6:20 steps[1].needs: P012 steps wait for each other: `a` needs `c`, `c` comes after step 4, step 4 comes after step 3, step 3 needs `a`
    7:5 steps[2]: P005 `id` is missing: a task needs an id, or a title to make one from
    8:5 steps[3]: P005 `id` is missing: a task needs an id, or a title to make one from
    "#);
}

#[test]
fn thousand_unknown_names_are_counted_and_the_first_100_are_listed_e9_1() {
    let step = |n: usize| json!({"id": format!("step{n}"), "title": "mix", "needs": [format!("tsep{n}")]});
    let steps: Vec<_> = (0..1_000).map(step).collect();
    let errors = parse(&json!(steps).to_string(), &Known::default()).unwrap_err();
    assert_eq!(
        (errors.listed.len(), errors.unlisted, errors.count()),
        (100, 900, 1_000)
    );
    assert!(errors.to_string().ends_with("\nand 900 more"), "{errors}");
    let found = errors.listed;
    let seventh = found.iter().find(|mistake| mistake.path == "[7].needs[0]");
    let hint = seventh.and_then(|mistake| mistake.hint.as_deref());
    assert_eq!(hint, Some("did you mean `step7`?"));
    assert_eq!(found.iter().filter(|mistake| mistake.hint.is_some()).count(), 100);
    // Where that many ids cannot be read, whoever names a step may mean one of them.
    let step = |n: usize| json!({"id": format!("Step {n}"), "title": "mix", "needs": [format!("other{n}")]});
    let steps: Vec<_> = (0..1_000).map(step).collect();
    let errors = from_value(&json!(steps), &Known::default()).unwrap_err();
    let found = &errors.listed;
    assert!(found.iter().all(|mistake| mistake.code == "P008"), "{found:?}");
    assert_eq!(errors.count(), 1_000);
}

#[test]
fn empty_plans_groups_and_sequences_are_mistakes() {
    assert_eq!(codes("steps: []"), ["P013 1:8 steps"]);
    assert_eq!(codes("[]"), ["P013 1:1 "]);
    assert_eq!(codes(""), ["P013 1:1 "]);
    assert_eq!(
        codes("[{parallel: []}, {sequence: []}, [], {id: a, plan: []}, {id: b, plan: {steps: []}}]"),
        [
            "P013 1:13 [0].parallel",
            "P013 1:29 [1].sequence",
            "P013 1:34 [2]",
            "P013 1:52 [3].plan",
            "P013 1:79 [4].plan.steps"
        ]
    );
}

#[test]
fn plan_larger_than_the_limits_is_refused() {
    let branches: Vec<String> = (0..65).map(|n| format!("b{n}")).collect();
    assert_eq!(codes(&format!("[[{}]]", branches.join(", "))), ["P014 1:2 [0]"]);
    let criteria = |count: usize| {
        format!(
            "[{{id: a, do: {{tool: list}}, criteria: [{}]}}]",
            vec!["x"; count].join(", ")
        )
    };
    assert!(parse(&criteria(1_000), &tools()).is_ok());
    assert_eq!(codes(&criteria(1_001)), ["P014 1:38 [0].criteria"]);
    let items = vec!["1"; 65].join(", ");
    assert_eq!(
        codes(&format!("[{{id: a, for_each: [{items}], do: {{tool: list}}}}]")),
        ["P014 1:20 [0].for_each"]
    );
    assert_eq!(
        codes("[{id: a, for_each: inputs.x, max_items: 10001, step: b}]"),
        ["P019 1:20 [0].for_each", "P014 1:41 [0].max_items"]
    );
    let mut deep = "[{id: x}]".to_owned();
    for level in 0..9 {
        deep = format!("[{{id: p{level}, plan: {deep}}}]");
    }
    assert_eq!(codes(&deep).len(), 1, "{}", mistakes(&deep));
    assert!(mistakes(&deep).contains("more than 8 levels deep"));
    let budget = mistakes("budget: {depth: 9}\nsteps: [{id: a, do: {tool: grep, args: {pattern: x}}}]");
    assert!(budget.contains("P014 `depth` is 9; at most 8 is allowed"), "{budget}");
    let mut deepest = "x".to_owned();
    for level in 0..31 {
        deepest = format!("[{{id: p{level}, plan: {deepest}}}]").replace("plan: x", "plan: [x]");
    }
    assert_eq!(codes(&deepest).len(), 1, "{}", mistakes(&deepest));
    assert!(parse(&format!("{}x{}", "[".repeat(63), "]".repeat(63)), &tools()).is_ok());
    let narrow = Known {
        limits: Limits {
            steps: 2,
            ..Limits::default()
        },
        ..Known::default()
    };
    assert_eq!(
        parse("[a, {id: b, plan: [c]}]", &narrow).unwrap_err().listed[0].code,
        "P014"
    );
}

#[test]
fn children_budget_of_a_plan_limits_its_group_size_e9_10() {
    let of = |children: u32| format!("{{title: t, budget: {{children: {children}}}, steps: [[a, b, c]]}}");
    assert_eq!(codes(&of(2)).len(), 1);
    assert!(codes(&of(2))[0].starts_with("P014"), "{:?}", codes(&of(2)));
    assert!(parse(&of(3), &tools()).is_ok());
}

#[test]
fn task_with_several_kinds_of_work_is_a_mistake() {
    assert_eq!(
        codes(
            "[{id: a, do: {tool: list}, plan: [b]}, {id: c, atomic: true, plan: [d]}, {id: e, parallel: [f], for_each: [1]}]"
        ),
        [
            "P015 1:34 [0].plan",
            "P015 1:68 [1].plan",
            "P015 1:74 [2]",
            "P003 1:97 [2].for_each"
        ]
    );
    assert_eq!(
        codes("[{id: a, for_each: [1], step: b, do: {tool: list}}]"),
        ["P015 1:38 [0].do"]
    );
    assert_eq!(codes("[{id: a, for_each: [1]}]"), ["P005 1:2 [0]"]);
}

#[test]
fn unknown_tools_and_arguments_are_mistakes() {
    insta::assert_snapshot!(
        mistakes("[{id: a, do: {tool: grpe}}, {id: b, do: {tool: grep, args: {pattrn: x, limit: 1}}}, {id: c, do: {tool: grep}}, {id: d, do: {tool: grep, args: [x]}}]"),
        @r#"
        1:21 [0].do.tool: P004 unknown tool "grpe" (did you mean `grep`?)
        1:60 [1].do.args: P016 the tool `grep` needs the argument `pattern`
        1:69 [1].do.args.pattrn: P017 the tool `grep` has no argument `pattrn` (did you mean `pattern`?)
        1:97 [2].do: P016 the tool `grep` needs the argument `pattern`
        1:143 [3].do.args: P006 expected an object with the tool's arguments, found a list
        "#
    );
    assert!(parse("[{id: a, do: {tool: anything, args: {x: 1}}}]", &Known::default()).is_ok());
}

#[test]
fn templates_may_only_read_results_that_exist_and_are_finished() {
    insta::assert_snapshot!(
        mistakes(
            r#"
inputs: {repo: path}
goal: "{{ results.a.notes }} {{ inputs.repo }}"
steps:
  - {id: a, description: "{{ inputs.repo }} {{ itm }} {{ inputs.repo | shout }}"}
  - {id: b, description: "{{ results.b.notes }} {{ results.d.notes }} {{ result.notes }}"}
  - id: g
    parallel:
      - {id: c, description: "{{ results.d.notes }} {{ results.a.notes }} {{ results.g.notes }}"}
      - {id: d, do: {tool: grep, args: {pattern: "{{ resluts }}", path: ["{{ unclosed"]}}}
  - {id: e, needs: [a], description: "{{ results.b.notes }} {{ results.a.notes }} {{ results.inner.notes }}"}
  - id: f
    plan:
      - {id: inner, description: "{{ results.g.output }} {{ results.later.notes }} {{ repo }} {{ results.f.notes }}"}
      - {id: after, description: "{{ results.inner.notes }}"}
  - {id: later}
report: "{{ results.later.notes }} {{ results.gone.notes }}"
"#
        ),
        @r#"
        3:7 goal: P020 `results.a` cannot be read before the plan begins
        5:26 steps[0].description: P018 `{{ inputs.repo }} {{ itm }} {{ inputs.repo | shout }}`: there is no filter `shout`
        6:26 steps[1].description: P019 there is no `result` here (a step's own `result` is known only in its `criteria` and `observe`)
        6:26 steps[1].description: P020 `b` is this step itself, which has no result yet (in `criteria` and `observe` it is called `result`)
        6:26 steps[1].description: P020 `d` comes after this step (change the order)
        9:30 steps[2].parallel[0].description: P020 `d` runs at the same time as this step (write `needs: [d]`, or move this step behind the group)
        9:30 steps[2].parallel[0].description: P020 `g` contains this step, so it has no result yet
        10:50 steps[2].parallel[1].do.args.pattern: P019 there is no `resluts` here (did you mean `results`?)
        10:74 steps[2].parallel[1].do.args.path[0]: P018 `{{ unclosed`: unexpected end of input, expected end of variable block
        11:38 steps[3].description: P019 there is no step `inner` whose result could be read (`inner` is a step inside another step; read the result of that one)
        11:38 steps[3].description: P020 `b` is not among the steps that this one needs (add `b` to `needs`)
        14:34 steps[4].plan[0].description: P019 there is no `repo` here (write `inputs.repo`)
        14:34 steps[4].plan[0].description: P020 `f` is this step itself, which has no result yet (in `criteria` and `observe` it is called `result`)
        14:34 steps[4].plan[0].description: P020 `later` comes after this step (change the order)
        17:9 report: P019 there is no step `gone` whose result could be read
        "#
    );
}

#[test]
fn unknown_fields_of_a_result_in_a_template_are_mistakes() {
    insta::assert_snapshot!(
        mistakes(
            "[{id: a, do: {tool: list}}, \
              {id: b, description: '{{ results.a.files | length }} {{ results[\"a\"].outptu }} {{ results.a.output.files }}'}, \
              {id: c, description: '{{ results.a.x | default(1) }} {{ results.a.x is defined }} {{ results.a.items() }}'}]"
        ),
        @r#"
        1:50 [1].description: P019 `results.a` has no `files`; it has task_id, status, notes, output, severity, stop_reason (the output of its tool or plan is `results.a.output`)
        1:50 [1].description: P019 `results.a` has no `outptu`; it has task_id, status, notes, output, severity, stop_reason (did you mean `output`?)
        "#
    );
}

#[test]
fn for_each_item_is_known_only_in_its_body() {
    assert_eq!(
        codes(
            "[{id: a, for_each: [1], as: file, step: {id: b, description: '{{ file }} {{ index }} {{ item }}', plan: [{id: c, description: '{{ file }}'}]}}, {id: d, description: '{{ file }}'}]"
        ),
        ["P019 1:62 [0].step.description", "P019 1:166 [1].description"]
    );
    assert!(parse("[{id: a, title: 'Look at {{ item }}', for_each: [1], do: {tool: list, args: {path: '{{ item }}'}}, observe: {type: t, content: '{{ result.output }} {{ item }}'}}]", &tools()).is_ok());
}

/// The mistakes of a `for_each` over `over`, after steps with declared outputs.
fn list_mistakes(over: &str) -> String {
    let plan = format!(
        "steps:\n  - {{id: l, do: {{tool: list}}}}\n  - id: m\n    criteria:\n      - {{id: shape, check: {{json_schema: {{schema: {{type: object, properties: {{names: {{type: array}}, who: {{type: [string, 'null']}}, any: {{}}}}, additionalProperties: false}}}}}}}}\n  - {{id: maybe, criteria: [{{check: {{json_schema: {{schema: {{type: string}}}}}}, required: false}}]}}\n  - {{id: g, parallel: [x, y]}}\n  - {{id: each, for_each: results.l.output.files, step: z}}\n  - {{id: last, for_each: \"{over}\", step: w}}\n"
    );
    let error = parse(&plan, &tools()).err().map(|errors| errors.to_string());
    let error = error.unwrap_or_default();
    error
        .split_once("P021 ")
        .map_or(error.clone(), |(_, said)| said.trim().to_owned())
}

#[test]
fn for_each_over_a_declared_non_list_is_a_mistake_e9_1() {
    for fine in [
        "results.l.output.files",
        "{{ results.l.output.files[0].tags }}",
        "results.l.output.more",
        "results.l.output.files[0].more",
        "results.m.output.names",
        "results.m.output.any",
        "results.m.output.any.thing",
        "results.maybe.output",
        "results.each.output",
        "results.g.output.x",
        "{{ results.m.output.who | default([]) }}",
    ] {
        assert_eq!(list_mistakes(fine), "", "{fine}");
    }
    for (wrong, said) in [
        (
            "results.l",
            "`results.l` is a result, not a list (its output is `results.l.output`)",
        ),
        ("results.l.notes", "`results.l.notes` is a text, not a list"),
        (
            "results.l.output",
            "the tool `list` says that this is an object, not a list (`results.l.output.files` is one)",
        ),
        (
            "{{ results.l.output.count }}",
            "the tool `list` says that this is a number, not a list",
        ),
        (
            "results.l.output.files[0].path",
            "the tool `list` says that this is a text, not a list",
        ),
        (
            "results.l.output.count.of",
            "the tool `list` says that this would be inside a number",
        ),
        (
            "results.m.output.who",
            "the criterion `shape` says that this is a text or nothing, not a list",
        ),
        (
            "results.m.output.nams",
            "the criterion `shape` says that there is no `nams` (`results.m.output.names` is one)",
        ),
        (
            "results.g.output",
            "`results.g.output` has the outputs of its steps by name; it is not a list",
        ),
    ] {
        assert_eq!(list_mistakes(wrong), said, "{wrong}");
    }
}

#[test]
fn for_each_over_a_non_list_is_a_mistake() {
    assert_eq!(
        codes(
            "{inputs: {repo: path, files: list}, steps: [{id: a, for_each: inputs.repo, step: x}, {id: b, for_each: two words, step: x}, {id: c, for_each: '{{ a }} and {{ b }}', step: x}, {id: d, for_each: 5, step: x}, {id: e, for_each: '{{ inputs.files | sort }}', step: x}, {id: f, for_each: 'results.e.output[0]', step: x}, {id: g, for_each: results.gone.output, step: x}]}"
        ),
        [
            "P021 1:63 steps[0].for_each",
            "P021 1:104 steps[1].for_each",
            "P019 1:143 steps[2].for_each",
            "P019 1:143 steps[2].for_each",
            "P021 1:143 steps[2].for_each",
            "P021 1:194 steps[3].for_each",
            "P019 1:333 steps[6].for_each",
        ]
    );
}

#[test]
fn racing_branches_that_may_write_are_a_mistake_e9_5() {
    let plan = |second: &str| {
        format!(
            "[{{join: first_ok, parallel: [{{id: a, do: {{tool: write, args: {{path: p, text: t}}}}}}, {second}]}}]"
        )
    };
    assert_eq!(
        codes(&plan("{id: b, plan: [{id: c, do: {tool: shell, args: {argv: [ls]}}}]}")),
        ["P022 1:9 [0].join"]
    );
    assert!(parse(&plan("{id: b, do: {tool: list}}"), &tools()).is_ok());
    // What a command that checks does is not known, either.
    let checked = "do: {tool: list}, criteria: [{check: {command: [make]}}]";
    for second in [
        format!("{{id: b, {checked}}}"),
        format!("{{id: b, plan: [{{id: c, {checked}}}]}}"),
    ] {
        assert_eq!(codes(&plan(&second)), ["P022 1:9 [0].join"], "{second}");
    }
}

#[test]
fn children_budget_of_a_task_limits_the_groups_inside_it_e9_10() {
    let within = |children: u32| {
        format!(
            "[{{id: t, budget: {{children: {children}}}, plan: [{{parallel: [a, b, c]}}]}}, {{parallel: [d, e, f]}}]"
        )
    };
    assert!(parse(&within(3), &tools()).is_ok());
    let found = mistakes(&within(2));
    assert_eq!(codes(&within(2)).len(), 1, "{found}");
    assert!(
        found.contains("the group has 3 branches; at most 2 are allowed"),
        "{found}"
    );
}

#[test]
fn criterion_without_text_is_a_mistake() {
    for criterion in ["''", "{text: ''}"] {
        let found = codes(&format!("[{{id: a, criteria: [{criterion}]}}]"));
        assert!(
            found.len() == 1 && found[0].starts_with("P007 "),
            "{criterion}: {found:?}"
        );
    }
}

#[test]
fn quorum_that_cannot_be_reached_is_a_mistake() {
    assert_eq!(codes("[{parallel: [a, b], join: quorum(0)}]"), ["P027 1:27 [0].join"]);
    assert_eq!(codes("[{parallel: [a, b], join: {quorum: 3}}]"), ["P027 1:27 [0].join"]);
    assert_eq!(
        codes("[{parallel: [a, b], join: quorum(many)}]"),
        ["P007 1:27 [0].join"]
    );
    assert!(parse("[{parallel: [a, b], join: quorum(2)}]", &tools()).is_ok());
}

#[test]
fn values_of_the_wrong_type_or_range_are_mistakes() {
    insta::assert_snapshot!(
        mistakes(
            r#"
version: 2
inputs:
  n: {type: integer, default: "5"}
  bad-name: string
  k: {type: strng}
budget: {depth: -1, deadline: long, nodes: 5000000000}
criteria:
  - {id: x, text: a, check: {regex: "(unclosed"}}
  - {id: x, check: {json_schema: {schema: {type: nothing}}}}
  - {check: file_exists}
  - {text: ok, check: {command: "make test"}}
  - {text: ""}
  - 7
steps:
  - {id: a, timeout: 0, retry: 0, optional: yes}
  - {id: b, retry: {delay: -1s, factor: 0.5}, description: 5}
  - {id: c, observe: {type: t, content: c, confidence: 1.5, ttl_minutes: 0, contxt: {}}}
  - {id: d, observe: [{content: c}], needs: 5, criteria: {a: b}}
  - {id: e, for_each: [1], as: results, max_items: 0, on_item: stop, step: x}
  - {}
  - true
"#
        ),
        @r#"
        2:10 version: P007 this version of the plan language is not known (write `version: 1`)
        4:31 inputs.n.default: P026 the default is a text, the input is an integer (write 5)
        5:3 inputs.bad-name: P007 `bad-name` cannot be the name of an input (use letters, digits and `_`, so that a template can say `inputs.name`)
        6:13 inputs.k.type: P007 "strng" is not one of the choices (did you mean `string`?)
        7:17 budget.depth: P007 -1 is not a whole number of 0 or more
        7:31 budget.deadline: P025 "long" is not a duration (write `500ms`, `30s`, `5m`, `2h`, or a number of seconds)
        7:44 budget.nodes: P007 5000000000 is more than 4294967295
        9:37 criteria[0].check.regex: P023 unclosed group
        10:10 criteria[1].id: P028 another criterion already has the id `x`
        10:43 criteria[1].check.json_schema.schema: P024 at /type: "nothing" is not valid under any of the schemas listed in the 'anyOf' keyword
        11:5 criteria[2]: P005 `text` is missing: what must hold, in words
        11:13 criteria[2].check: P007 the check `file_exists` needs more than its name (write `{file_exists: …}`)
        12:33 criteria[3].check.command: P006 expected a list: the program and its arguments, found a text (no shell is involved; write `["cargo", "test"]`)
        13:12 criteria[4].text: P007 `text` is empty: what must hold, in words
        14:5 criteria[5]: P006 expected a criterion: a text, or `{text, check}`, found a number
        16:22 steps[0].timeout: P007 a timeout must be longer than zero
        16:32 steps[0].retry: P007 there must be at least 1 attempt
        16:32 steps[0].retry: P007 `retry` is of a call (`do`); this task has none (leave it out: models that cannot be reached are asked again)
        16:45 steps[0].optional: P006 expected `true` or `false`, found a text
        17:20 steps[1].retry: P007 `retry` is of a call (`do`); this task has none (leave it out: models that cannot be reached are asked again)
        17:28 steps[1].retry.delay: P025 "-1s" is not a duration (write `500ms`, `30s`, `5m`, `2h`, or a number of seconds)
        17:41 steps[1].retry.factor: P007 the factor 0.5 is not between 1 and 1000
        17:60 steps[1].description: P006 expected a text, found a number (put it in quotes)
        18:56 steps[2].observe.confidence: P007 1.5 is not between 0 and 1
        18:74 steps[2].observe.ttl_minutes: P007 a lifetime must be longer than zero
        18:77 steps[2].observe.contxt: P003 an observation has no key `contxt` (did you mean `context`?)
        19:23 steps[3].observe[0]: P005 `type` is missing: what kind of observation it is
        19:45 steps[3].needs: P006 expected a list of step ids, found a number
        19:58 steps[3].criteria: P006 expected a list of criteria, found an object
        20:32 steps[4].as: P007 an item cannot be called "results" (use letters, digits and `_`, and none of inputs, results, result, run, goal, index, loop, self, true, false, none, not, in, is)
        20:52 steps[4].max_items: P007 `max_items` must be at least 1
        20:64 steps[4].on_item: P007 "stop" is not one of the choices (use one of: hold, cancel, continue)
        21:5 steps[5]: P005 `id` is missing: a task needs an id, or a title to make one from
        22:5 steps[6]: P006 expected a step: a task, a list of steps that run together, or a text, found a boolean
        "#
    );
}

#[test]
fn timeout_or_retry_beside_a_plan_is_a_mistake_e9_1() {
    let told = mistakes(
        "[{id: a, plan: [{id: b, timeout: 5s, retry: 2, do: {tool: list}}], timeout: 5s, retry: 2},
          {id: c, for_each: [1], plan: [{id: d, do: {tool: list}}], timeout: 1m}]",
    );
    insta::assert_snapshot!(told, @r"
    1:77 [0].timeout: P007 `timeout` applies to a call; this task has a plan of its own (write `budget: {deadline: …}`, which limits the task as a whole)
    1:88 [0].retry: P007 `retry` applies to a call; this task has a plan of its own (write it in the steps of the plan)
    2:78 [1].timeout: P007 `timeout` applies to a call; this task has a plan of its own (write `budget: {deadline: …}`, which limits the task as a whole)
    ");
}

#[test]
fn unparseable_plan_text_is_refused_with_its_place() {
    insta::assert_snapshot!(
        [
            "steps: [a, b",
            "{\"steps\": [\"a\" \"b\"]}",
            "steps:\n  - a\n b: c",
            "a: 1\n---\nb: 2",
            "just words",
            "{\"steps\": [\"a\"], \"steps\": [\"b\"]}",
            "steps: [a]\nsteps: [b]\ntitel: c",
            "1: 2",
        ]
        .map(mistakes)
        .join("\n"),
        @r#"
        2:1: P001 while parsing a flow sequence, expected ',' or ']'
        1:16: P001 expected `,` or `]`, found `"`
        3:2: P001 while parsing a block mapping, did not find expected key
        2:1: P001 a second document begins here; a plan is one document
        1:1: P006 expected a plan: an object with `steps`, or a list of steps, found a text
        1:18: P002 the key `steps` is already at 1:2
        2:1: P002 the key `steps` is already at 1:1
        3:1 titel: P003 a plan has no key `titel` (did you mean `title`?)
        1:1: P001 a key must be a text, not a number; put it in quotes
        "#
    );
    assert!(mistakes(&" ".repeat((1 << 20) + 1)).contains("bytes"));
    assert!(mistakes(&"[".repeat(1_000_000)).contains("nested"));
    assert!(mistakes(&"- ".repeat(500_000)).contains("nested"));
    assert!(mistakes(&"{\"a\":".repeat(100_000)).contains("nested"));
}

#[test]
fn plan_checks_tool_arguments_against_the_tool_schema() {
    let plan = |args: &str| format!("[{{id: a, do: {{tool: maps.route, args: {args}}}}}]");
    assert!(parse(&plan("{to: Rome, stops: [{city: Pisa}], by: train}"), &tools()).is_ok());
    assert_eq!(codes(&plan("{}")), ["P016 1:39 [0].do.args"]);
    assert_eq!(codes(&plan("{to: Rome, two: x}")), ["P017 1:55 [0].do.args.two"]);
    assert_eq!(
        codes(&plan("{to: R, stops: [{city: Pisa}, {town: Bari}], by: sea}")),
        [
            "P029 1:44 [0].do.args.to",
            "P029 1:69 [0].do.args.stops[1]",
            "P029 1:88 [0].do.args.by"
        ]
    );
}

#[test]
fn tool_arguments_of_the_wrong_kind_are_mistakes_e9_1() {
    let plan = |args: &str| format!("[{{id: a, do: {{tool: wait, args: {args}}}}}]");
    insta::assert_snapshot!(mistakes(&plan("{ms: abc, quiet: perhaps, until: dusk, note: [a], names: [1]}")), @r#"
    1:38 [0].do.args.ms: P029 the tool `wait` does not accept this: `ms` is a whole number that is not negative, not "abc"
    1:50 [0].do.args.quiet: P029 the tool `wait` does not accept this: `quiet` is true or false, not "perhaps"
    1:66 [0].do.args.until: P029 the tool `wait` does not accept this: `until` is one of dawn or noon, not "dusk"
    1:78 [0].do.args.note: P029 the tool `wait` does not accept this: `note` is a string, not a list
    1:90 [0].do.args.names: P029 the tool `wait` does not accept this: `names` is a string or a list of strings, and its item 1 is 1
    "#);
    insta::assert_snapshot!(mistakes(&plan("{ms: 1, days: 8}")), @"1:47 [0].do.args.days: P029 the tool `wait` does not accept this: `days` is a whole number from 0 to 7, not 8");
    for wrong in ["'8'", "-1", "7.5", "8.0"] {
        assert_eq!(
            codes(&plan(&format!("{{ms: 1, days: {wrong}}}"))),
            ["P029 1:47 [0].do.args.days"],
            "{wrong}"
        );
    }
    for wrong in ["{ms: -1}", "{ms: 2.5}", "{ms: null}", "{ms: '2e3'}", "{ms: true}"] {
        assert_eq!(codes(&plan(wrong)), ["P029 1:38 [0].do.args.ms"], "{wrong}");
    }
    // What the call takes is no mistake: texts that hold numbers, nothing where nothing is needed, and whatever a
    // template comes to.
    for good in [
        "{ms: ' 20 ', quiet: 'true', note: 1.5}",
        "{ms: 1, days: '7'}",
        "{ms: 20.0, until: null, names: one}",
        "{ms: '{{ 2 + 2 }}', until: '{{ \"dawn\" }}', names: ['{{ 1 }}']}",
        "{ms: '2{% if true %}0{% endif %}'}",
    ] {
        assert!(parse(&plan(good), &tools()).is_ok(), "{}", mistakes(&plan(good)));
    }
}

#[test]
fn numeric_text_is_accepted_for_schema_numbers_e9_1() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}, "on": {"type": "boolean"}}});
    let tool = KnownTool {
        schema: Some(schema),
        ..KnownTool::default()
    };
    let known = Known {
        tools: Some(BTreeMap::from([("x.sum".to_owned(), tool)])),
        ..Known::default()
    };
    let plan = |args| json!([{"id": "a", "do": {"tool": "x.sum", "args": args}}]);
    assert!(from_value(&plan(json!({"n": "20", "on": "false"})), &known).is_ok());
    let errors = from_value(&plan(json!({"n": "2", "on": "perhaps"})), &known)
        .unwrap_err()
        .listed;
    let paths: Vec<_> = errors.iter().map(|error| (error.code, error.path.as_str())).collect();
    assert_eq!(paths, [("P029", "[0].do.args.n"), ("P029", "[0].do.args.on")]);
}

#[test]
fn template_arguments_are_not_checked_against_the_schema() {
    let plan = "inputs: {by: {default: car}}\nsteps: [{id: a, do: {tool: maps.route, args: {to: '{{ inputs.by }}', by: '{{ inputs.by }}', stops: '{{ [] }}'}}}]";
    assert!(parse(plan, &tools()).is_ok(), "{}", mistakes(plan));
    let unknown = "[{id: a, do: {tool: maps.route, args: {x: '{{ 1 }}'}}}]";
    assert_eq!(
        codes(unknown).len(),
        2,
        "what is missing is missing, whatever the templates come to"
    );
}

#[test]
fn plan_without_text_reports_paths_as_places_e9_1() {
    let twice = json!({"steps": [{"id": "a", "title": "look"}, {"id": "a", "title": "look again"}]});
    let found = from_value(&twice, &Known::default()).unwrap_err().listed;
    assert_eq!(found[0].message, "the step at steps[0] already has the id `a`");
    let found = parse(&twice.to_string(), &Known::default()).unwrap_err().listed;
    assert_eq!(found[0].message, "the step at 1:11 already has the id `a`");
}
