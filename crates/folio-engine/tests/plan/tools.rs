//! The tools that steps may use: mistakes in `tools`, and calls of other tools (E9.1).

use std::collections::BTreeMap;

use folio_engine::plan::{Known, KnownTool, parse};

fn known() -> Known {
    let of = |name: &str, required: &[&str]| {
        let tool = KnownTool {
            required: required.iter().map(ToString::to_string).collect(),
            ..KnownTool::default()
        };
        (name.to_owned(), tool)
    };
    Known {
        tools: Some(BTreeMap::from([
            of("grep", &["pattern"]),
            of("list", &[]),
            of("result_read", &[]),
            of("shell", &["argv"]),
            of("maps.route", &[]),
        ])),
        ..Known::default()
    }
}

#[track_caller]
fn mistakes(text: &str) -> String {
    parse(text, &known()).expect_err("the plan has mistakes").to_string()
}

#[test]
fn unknown_and_wider_tools_of_steps_are_mistakes_e9_1() {
    insta::assert_snapshot!(
        mistakes(
            r#"
steps:
  - {id: a, title: look, tools: [grpe, grep, "", desk.*, maps.*, finish, "*", 7]}
  - {id: b, do: {tool: grep, args: {pattern: x}}, tools: [grep]}
  - id: c
    tools: [grep, maps.*]
    plan:
      - {id: d, title: look, tools: [list, maps.route]}
      - parallel:
          - {id: e, title: look, tools: [grep, maps.*]}
          - {id: f, do: {tool: list}}
          - {id: g, tools: [], plan: [{id: h, do: {tool: grep, args: {pattern: x}}}]}
        tools: [maps.route]
      - {id: i, for_each: [1], step: {sequence: [{id: j, do: {tool: shell, args: {argv: [ls]}}}], tools: [shell]}}
      - {id: k, title: look, tools: [grep, result_read]}
      - {id: l, tools: [maps.*], plan: [{id: m, do: {tool: result_read}}, {id: n, title: look, tools: [result_read]}]}
      - {id: o, tools: [], plan: [{id: p, do: {tool: result_read}}, {id: q, title: look, tools: [result_read]}]}
"#
        ),
        @r#"
        3:34 steps[0].tools[0]: P004 unknown tool "grpe" (did you mean `grep`?)
        3:46 steps[0].tools[2]: P004 unknown tool ""
        3:50 steps[0].tools[3]: P004 unknown tool "desk.*"
        3:74 steps[0].tools[6]: P004 unknown tool "*" (write the names of tools, or `SERVER.*` for all tools of a server)
        3:79 steps[0].tools[7]: P006 expected a text, found a number (put it in quotes)
        4:58 steps[1].tools: P007 `tools` is for tasks of models; this task calls a tool itself (leave it out, or write it at the step around it)
        8:38 steps[2].plan[0].tools[0]: P032 the step around it may not use the tool "list" (it has grep, maps.*)
        10:42 steps[2].plan[1].parallel[0].tools[0]: P032 the step around it may not use the tool "grep" (it has maps.route)
        11:32 steps[2].plan[1].parallel[1].do.tool: P032 the step around it may not use the tool "list" (it has maps.route)
        12:58 steps[2].plan[1].parallel[2].plan[0].do.tool: P032 the step around it may not use the tool "grep" (it has no tools)
        14:69 steps[2].plan[2].step.sequence[0].do.tool: P032 the step around it may not use the tool "shell" (it has grep, maps.*)
        14:107 steps[2].plan[2].step.tools[0]: P032 the step around it may not use the tool "shell" (it has grep, maps.*)
        17:54 steps[2].plan[5].plan[0].do.tool: P032 the step around it may not use the tool "result_read" (it has no tools)
        17:98 steps[2].plan[5].plan[1].tools[0]: P032 the step around it may not use the tool "result_read" (it has no tools)
        "#
    );
    // Without a list of tools, only widening is a mistake.
    let unchecked = |text: &str| parse(text, &Known::default()).map_err(|errors| errors.to_string());
    assert!(unchecked("[{id: a, title: look, tools: [anything, desk.*]}]").is_ok());
    assert_eq!(
        unchecked(
            "[{id: a, tools: [desk.*], plan: [{id: b, title: look, tools: [desk.find]}, {id: c, do: {tool: mail.send}}]}]"
        ),
        Err(
            r#"1:95 [0].plan[1].do.tool: P032 the step around it may not use the tool "mail.send" (it has desk.*)"#
                .to_owned()
        )
    );
    let many = vec!["grep"; 257].join(", ");
    assert_eq!(
        mistakes(&format!("[{{id: a, title: look, tools: [{many}]}}]")),
        "1:30 [0].tools: P014 `tools` names 257; at most 256 are allowed"
    );
}
