//! What people see of a part of a run: its result, its calls, its cost and its limits.

use crate::support::{Folio, node_at};
use insta::assert_snapshot;
use serde_json::json;

/// A plan of which a model does one part, with a call of a tool in between.
const PLAN: &str = "
title: Two parts
budget: {tool_calls: 10}
steps:
  - id: read
    title: Read it
    do: {tool: text, args: {op: echo, value: [a, b]}}
    criteria: [{id: some, text: There are words., check: result_nonempty}]
  - id: think
    title: Think about it
    description: Say what the words mean.
";

fn folio() -> Folio {
    let folio = Folio::new();
    let usage = json!({"tokens_in": 1_000, "tokens_out": 234});
    let look = json!({"decision": "execute", "reason": "it is small", "action": {"tool": "text", "args": {"op": "echo", "value": "a thought"}}});
    let cues = json!([
        {"role": "planner", "json": look, "usage": usage},
        {"role": "executor", "calls": [{"tool": "finish", "args": {"notes": "Nothing.", "output": {"meaning": "none"}}}], "usage": usage},
    ]);
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    folio.file("plan.yaml", PLAN);
    folio
}

/// The same with run r1 of the plan, which has ended.
fn folio_with_run() -> Folio {
    let folio = folio();
    let run = [
        "run",
        "--plan",
        "plan.yaml",
        "--model",
        "scripted:script.json",
        "--quiet",
    ];
    folio.ok(&[&run[..], &["--non-interactive"]].concat());
    folio
}

#[test]
fn part_of_a_run_is_shown_with_its_result_calls_and_cost() {
    let folio = folio_with_run();
    assert_snapshot!(folio.seen(&["show", "r1", "--node", "think"]), @r#"
    r1 think  Think about it
    ok · 0.0s · 2 model calls · 2468 tokens · unknown cost

    wanted
      Say what the words mean.

    notes
      Nothing.

    output
      {
        "meaning": "none"
      }

    calls
      [TIME]   0.0s ok       decide, scripted:script.json  1234 tokens · unknown cost
      [TIME]   0.0s ok       text op=echo value=a thought
      [TIME]   0.0s ok       work, scripted:script.json  1234 tokens · unknown cost

    limits
      no limits of its own; the limits of the nodes above it apply

    page
      p5

    parts
      ✓ text  think/call-1 · 9 characters
    1 of 1 done
    "#);
    let read = folio.ok(&["show", "r1", "--node", "read"]);
    assert!(read.contains("\ncriteria\n  There are words. (met)\n"), "{read}");
    assert!(read.contains(" ok       text op=echo value=[\"a\",\"b\"]\n"), "{read}");
    // The tree says what each part cost; what cost nothing says nothing.
    let tree = folio.seen(&["show", "r1"]);
    assert!(tree.contains(" · 2468 tokens  think · Nothing."), "{tree}");
    assert!(tree.contains("✓ Read it  read · "), "{tree}");
    let whole = folio.seen(&["show", "r1", "--node", "run"]);
    assert!(whole.starts_with("r1 run  Two parts\nok"), "{whole}");
    assert!(whole.contains("\nparts\n  ✓ Read it"), "{whole}");
    assert!(whole.contains("\nevidence\n  node read\n  node think\n"), "{whole}");
}

#[test]
fn part_of_a_run_as_json_is_the_node_over_http_with_its_calls_and_parts() {
    let folio = folio_with_run();
    let part = folio.json(&["show", "r1", "--node", "think"]);
    let node = node_at(&folio.json(&["show", "r1"]), "think");
    for (name, value) in node.as_object().unwrap() {
        assert_eq!(&part[name], value, "{name}");
    }
    assert_eq!(
        (&part["run"], &part["result"]["output"]),
        (&json!("r1"), &json!({"meaning": "none"}))
    );
    let calls = part["calls"].as_array().unwrap();
    let told: Vec<_> = calls
        .iter()
        .map(|call| {
            (
                call["kind"].as_str().unwrap(),
                call["what"].as_str().unwrap(),
                call["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(told.len(), 3, "{part}");
    assert_eq!((told[0], told[2]), (("model", "decide", "ok"), ("model", "work", "ok")));
    assert!(told[1].0 == "tool" && told[1].1.starts_with("text "), "{part}");
    assert_eq!(
        calls[0]["spent"],
        json!({"tokens_in": 1_000, "tokens_out": 234, "model_calls": 1, "unpriced_calls": 1})
    );
    assert!(
        calls[0]["duration_us"].is_u64() && calls[1].get("spent").is_none(),
        "{part}"
    );
    assert_eq!(
        part["parts"].as_array().unwrap().len(),
        1,
        "the call that its model wanted"
    );
    let told = folio.call(&[
        "show",
        "r1",
        "--node",
        "nothing",
        "--store",
        "sqlite:home/.local/share/folio/folio.db",
    ]);
    assert_eq!(told.code, 3, "{told}");
    let hint =
        "hint: `folio show r1 --json --store sqlite:home/.local/share/folio/folio.db` lists the paths of its nodes";
    assert!(told.stderr.contains(hint), "{told}");
}

#[test]
fn use_of_a_limit_is_pointed_out_at_half_and_at_four_fifths_e9_10() {
    let folio = Folio::new();
    // Who watches sees at once what has happened meanwhile: there is time to look in the fifth and in the eighth call.
    let call = |n: u32| match n {
        5 | 8 => "wait, args: {ms: 1000}".to_owned(),
        n => format!("text, args: {{op: echo, value: {n}}}"),
    };
    let steps: Vec<String> = (1..=10)
        .map(|n| format!("  - {{id: s{n}, do: {{tool: {}}}}}", call(n)))
        .collect();
    folio.file(
        "plan.yaml",
        format!("budget: {{tool_calls: 10}}\nsteps:\n{}\n", steps.join("\n")),
    );
    let run = folio.call(&["run", "--plan", "plan.yaml"]);
    let notes: Vec<&str> = run.stderr.lines().filter(|line| line.contains("has used")).collect();
    assert_eq!(
        notes,
        [
            "r1 has used 50 % of its tool calls (5 of 10); `folio budget r1` shows and changes its limits",
            "r1 has used 80 % of its tool calls (8 of 10); `folio budget r1` shows and changes its limits"
        ]
    );
    let quiet = folio.call(&["run", "--plan", "plan.yaml", "--quiet"]);
    assert_eq!(quiet.stderr, "");
    // The same for a part with a limit of its own.
    let steps = steps.join("\n").replace("  - ", "      - ");
    folio.file(
        "part.yaml",
        format!("steps:\n  - id: part\n    budget: {{tool_calls: 10}}\n    plan:\n{steps}\n"),
    );
    let run = folio.call(&["run", "--plan", "part.yaml"]);
    let notes: Vec<&str> = run.stderr.lines().filter(|line| line.contains("has used")).collect();
    assert_eq!(
        notes,
        [
            "r3: part has used 50 % of its tool calls (5 of 10); `folio budget r3 --node part` shows and changes its limits",
            "r3: part has used 80 % of its tool calls (8 of 10); `folio budget r3 --node part` shows and changes its limits"
        ]
    );
}

#[test]
fn offered_commands_name_the_store_space_and_thread_that_were_given() {
    let folio = Folio::new();
    let there = ["--store", "sqlite:f.db", "--space", "s", "--thread", "t"];
    folio.ok(&[&["observe", "add", "x"], &there[..]].concat());
    let options = "--store sqlite:f.db --space s";
    for (command, offered) in [
        (
            &["goals"][..],
            format!("add one with `folio goals add {options} --thread t`"),
        ),
        (
            &["goals", "done", "e1"],
            format!("`folio observe resolve e1 {options}` resolves it"),
        ),
        (
            &["book", "get", "e1"],
            format!("`folio observe get e1 {options}` shows it"),
        ),
        (
            &["token", "list"],
            format!("create one with `folio token new {options}`"),
        ),
    ] {
        let told = folio.call(&[command, &there[..]].concat());
        assert!(told.stderr.contains(&offered), "{command:?}: {told}");
    }
}

#[test]
fn command_that_prints_a_large_output_names_the_store_that_was_given() {
    let folio = Folio::new();
    let value = "long ".repeat(20_000);
    folio.file(
        "plan.yaml",
        format!("steps: [{{id: a, do: {{tool: text, args: {{op: echo, value: '{value}'}}}}}}]"),
    );
    let there = ["--store", "sqlite:f.db"];
    folio.ok(&[&["run", "--plan", "plan.yaml", "--quiet"], &there[..]].concat());
    let shown = folio.ok(&[&["show", "r1", "--node", "a"], &there[..]].concat());
    let (_, command) = shown.split_once("bytes; `folio ").expect(&shown);
    let (command, _) = command.split_once("` prints them").expect(&shown);
    let words: Vec<&str> = command.split(' ').collect();
    assert!(folio.ok(&words).contains("long long long"), "{command}");
}
