//! Runs that go on in another run: from a step, or from where a limit stopped them.

use crate::support::{Folio, node_at};
use insta::assert_snapshot;
use serde_json::json;

#[test]
fn run_that_a_limit_left_no_plan_says_so_and_its_fork_may_plan_e9_10() {
    let folio = Folio::new();
    let cues = json!([
        {"role": "planner", "json": {"decision": "execute", "reason": "it is small"}, "times": "always"},
        {"role": "executor", "calls": [{"tool": "finish", "args": {"notes": "done"}}], "times": "always"},
    ]);
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    let model = ["--model", "scripted:script.json", "--non-interactive"];
    let run = folio.call(&[&["run", "Say what is here", "--nodes", "1"], &model[..]].concat());
    assert_eq!(run.code, 0, "{run}");
    let lines: Vec<&str> = run.stderr.lines().map(str::trim).collect();
    let unplanned = "without a plan, because a limit left no room for one: the goal (budget_nodes)";
    assert!(lines.contains(&unplanned), "{run}");
    assert!(
        lines.contains(&"go on with more folio fork r1 --before-limit --nodes +N"),
        "{run}"
    );
    let forked = folio.call(&[&["fork", "r1", "--before-limit", "--nodes", "+9"], &model[..]].concat());
    assert_eq!(forked.code, 0, "{forked}");
    assert!(!forked.stderr.contains("without a plan"), "{forked}");
    let decided = folio.ok(&["trace", "--run", "r2"]);
    assert!(
        !decided.contains("(nodes)") && decided.contains("it is small"),
        "{decided}"
    );
    // Nobody paused it only to set its limits.
    assert!(
        decided.contains("limits_changed") && !decided.contains("paused"),
        "{decided}"
    );
}

/// More dollars would not help: nothing says what a call costs.
#[test]
fn unknown_price_is_followed_by_a_fork_that_can_go_on_e9_10() {
    let folio = Folio::new();
    let finish =
        json!({"decision": "execute", "reason": "so", "action": {"tool": "finish", "args": {"notes": "done"}}});
    let cues = json!([{"role": "planner", "json": finish, "times": "always"}]);
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    folio.file("plan.yaml", "budget: {usd: 1}\nsteps: [{id: think, title: Think}]");
    let stopped = folio.seen(&[
        "run",
        "--plan",
        "plan.yaml",
        "--model",
        "scripted:script.json",
        "--non-interactive",
    ]);
    assert_snapshot!(stopped, @"
    ! [TIME] failed    think  budget_usd: its budget limits dollars, but the price of the model is unknown: add it to a price file, or start the run…
    ! [TIME] failed    run  budget_usd: 1 failed; think: its budget limits dollars, but the price of the model is unknown: add it to a price file,…
    ! 
    ! r1 failed (budget_usd): 1 failed; think: its budget limits dollars, but the price of the model is unknown: add it to a price file, or start the run with `folio run --allow-unpriced` (`NewRun.allow_unpriced`)
    !   put the price of the model into a price file (docs/models.md), or leave its cost unknown:
    !   with a price    folio fork r1 --before-limit
    !   cost unknown    folio fork r1 --before-limit --allow-unpriced
    !   pages           folio tree --run r1
    !   steps           folio show r1
    !   trace           folio trace --run r1
    !   in the browser  folio serve
    = 1
    ");
    folio.ok(&[
        "fork",
        "r1",
        "--before-limit",
        "--allow-unpriced",
        "--model",
        "scripted:script.json",
        "--quiet",
    ]);
    assert_eq!(folio.json(&["show", "r2"])["status"], "ok");
}

#[test]
fn fork_raises_the_limit_of_the_node_that_it_stopped_e9_10() {
    let folio = Folio::new();
    let steps = "[{id: w, do: {tool: wait, args: {ms: 2000}}}, {id: e, do: {tool: text, args: {op: echo, value: 1}}}]";
    folio.file(
        "plan.yaml",
        format!("title: Slow\nsteps: [{{id: s, budget: {{deadline: 1s, nodes: 5}}, plan: {{steps: {steps}}}}}]"),
    );
    let stopped = folio.call(&["run", "--plan", "plan.yaml"]);
    assert_eq!(stopped.code, 1, "{stopped}");
    assert!(
        stopped.stderr.contains("fork r1 --before-limit --minutes N"),
        "{stopped}"
    );
    let part = folio.json(&["budget", "r1", "--node", "s"]);
    assert_eq!(
        (&part["nodes"]["limit"], &part["nodes"]["used"]),
        (&json!(5), &json!(2))
    );
    assert!(part["deadline"].is_string(), "{part}");
    folio.ok(&["fork", "r1", "--before-limit", "--minutes", "5", "--quiet"]);
    assert_eq!(folio.json(&["show", "r2"])["status"], "ok");
}

#[test]
fn fork_raises_the_limits_of_the_run_and_of_the_part_that_stopped_it_e9_10() {
    let folio = Folio::new();
    let echo = |id: &str| format!("{{id: {id}, do: {{tool: text, args: {{op: echo, value: 1}}}}}}");
    let (a, b, c, d) = (echo("a"), echo("b"), echo("c"), echo("d"));
    let part = format!("{{id: s, budget: {{tool_calls: 1}}, plan: {{steps: [{a}, {b}]}}}}");
    let slow = "{id: w, budget: {deadline: 0}, do: {tool: wait, args: {ms: 1}}}";
    let steps = format!("[{part}, {c}, {slow}, {d}]");
    folio.file(
        "plan.yaml",
        format!("title: Two\nbudget: {{tool_calls: 2}}\nsteps: {steps}"),
    );
    let stopped = folio.call(&["run", "--plan", "plan.yaml"]);
    assert_eq!(stopped.code, 1, "{stopped}");
    let forked = folio.call(&["fork", "r1", "--before-limit", "--tool-calls", "+2"]);
    let told = "w also stopped at a limit that is as it was: --minutes N";
    assert!(forked.stderr.contains(told), "{forked}");
    let counts = &folio.json(&["show", "r2"])["counts"];
    assert_eq!(counts["ok"], json!(5), "all but w: {forked}");
}

#[test]
fn fork_with_a_raised_limit_completes_a_stopped_run_e9_10() {
    let folio = Folio::new();
    let step = |n: u32| format!("  - {{id: s{n}, do: {{tool: text, args: {{op: echo, value: {n}}}}}}}\n");
    let steps: String = (1..=3).map(step).collect();
    folio.file(
        "plan.yaml",
        format!("title: Three\nbudget: {{tool_calls: 2}}\nsteps:\n{steps}"),
    );
    let stopped = folio.call(&["run", "--plan", "plan.yaml"]);
    assert_eq!(stopped.code, 1, "{}", stopped.stderr);
    let way = "fork r1 --before-limit --tool-calls +N";
    assert!(stopped.stderr.contains(way), "{}", stopped.stderr);
    assert_snapshot!(folio.seen(&["budget", "r1", "--tool-calls", "+5"]), @"
    ! error[run_ended]: the run has ended
    !   hint: `folio fork RUN --at NODE` starts a new run from a node of it; with --before-limit, from just before a limit stopped it
    = 4
    ");
    assert_snapshot!(folio.seen(&["fork", "r1", "--before-limit", "--model-calls", "+5"]), @"
    ! error[limit_unusable]: there is no limit in model_calls to add to
    !   hint: use a number without + to set a limit; the limits of the run also apply to its nodes
    = 4
    ");
    folio.ok(&["fork", "r1", "--before-limit", "--tool-calls", "+1", "--quiet"]);
    let more = folio.json(&["show", "r2"]);
    assert_eq!(
        (&more["status"], &more["result"]["notes"]),
        (&json!("ok"), &json!("3 ok"))
    );
    let budget = folio.json(&["budget", "r2"]);
    let calls = budget["limits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|limit| limit["what"] == "tool_calls");
    let calls = calls.unwrap();
    assert_eq!(
        (&calls["limit"], &calls["used"]),
        (&json!(3), &json!(3)),
        "what was done counts, and is not done again"
    );
    assert_snapshot!(folio.seen(&["fork", "r2", "--before-limit"]), @"
    ! error[fork_unusable]: no limit stopped anything in that run
    !   hint: name the node to do again: --at NODE; `folio show RUN --json` lists them
    = 4
    ");
}

#[test]
fn fork_begins_at_a_node_without_repeating_earlier_ones() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: Three\nsteps:\n  - {id: one, do: {tool: text, args: {op: echo, value: 1}}}\n  - parallel:\n      - {id: two, title: 'After {{ results.one.output.value }}', do: {tool: text, args: {op: echo, value: '{{ results.one.output.value }}'}}}\n      - {id: beside, do: {tool: text, args: {op: echo, value: 5}}}\n  - {id: three, do: {tool: text, args: {op: echo, value: '{{ results.two.output.value }}'}}}\n",
    );
    folio.ok(&["run", "--plan", "plan.yaml", "--quiet"]);
    assert_snapshot!(folio.seen(&["replay", "r1"]), @"r1: 13 events make 8 pages with 13 entries: as they are stored");
    assert_snapshot!(folio.seen(&["fork", "r1", "--at", "three", "--paused"]), @"
    r2 paused Three fork of r1 at three 0.0s TIME
    ! r2 is paused; to carry on, use `folio continue r2` and `folio resume r2`
    ");
    let forked = folio.json(&["show", "r2"]);
    assert_eq!(node_at(&forked, "group-2/two")["status"], "ok");
    let first = folio.json(&["show", "r1"]);
    let origin = json!({"run_id": first["run_id"], "path": "three"});
    assert_eq!((first.get("forked_from"), &forked["forked_from"]), (None, &origin));
    let shown = folio.ok(&["show", "r2"]);
    assert!(shown.contains("\nforked from r1 at three\n"), "{shown}");
    assert_eq!(node_at(&forked, "three")["state"], "created");
    assert_ne!(
        node_at(&forked, "one")["node_id"],
        node_at(&folio.json(&["show", "r1"]), "one")["node_id"]
    );
    assert_snapshot!(folio.seen(&["fork", "r2", "--at", "three"]), @"
    ! error[fork_unusable]: three has not begun in that run
    !   hint: `folio show RUN --json` lists the nodes of a run and their states
    = 4
    ");
    let plan = folio.ok(&["plan", "show", "r2"]);
    let (before, after) = plan.rsplit_once("{{ results.two.output.value }}").unwrap();
    folio.file("plan.md", format!("{before}changed{after}"));
    folio.ok(&["plan", "edit", "r2", "--file", "plan.md"]);
    folio.ok(&["continue", "r2"]);
    folio.ok(&["resume", "r2", "--quiet"]);
    assert_snapshot!(folio.seen(&["diff", "r1", "r2"]), @r#"
    r1 ok: 6 nodes, 4 tool calls
    r2 ok: 7 nodes, 4 tool calls

    three
      - notes: 1
      + notes: 7 characters
      - call: text op=echo value=1
      + call: text op=echo value=changed
      - output: {"value":1}
      + output: {"value":"changed"}
    three (replaced)
      + skipped (superseded): not begun, because the plan was changed
    5 nodes are the same
    "#);
    assert_eq!(folio.json(&["diff", "r1", "r1"])["nodes"], json!([]));
    assert_snapshot!(folio.seen(&["replay", "r2"]), @"r2: 17 events make 9 pages with 19 entries: as they are stored");
    assert_snapshot!(folio.seen(&["fork", "r1", "--at", "nothing"]), @"
    ! error[not_found]: run r1 has no node nothing
    !   hint: `folio show r1 --json` lists the paths of its nodes
    = 3
    ");
    let whole = folio.call(&["fork", "r1", "--at", "one", "--quiet"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert_eq!(folio.json(&["show", "r3"])["status"], "ok");
}

#[test]
fn fork_before_a_limit_repeats_nothing_done_after_another_limit_e9_10() {
    let folio = Folio::new();
    let step = |id: &str| format!("  - {{id: {id}, do: {{tool: text, args: {{op: echo, value: 1}}}}}}\n");
    let early =
        "  - {id: early, optional: true, for_each: '{{ range(65) }}', do: {tool: text, args: {op: echo, value: 1}}}\n";
    let steps: String = ["a", "b", "c"].map(step).concat();
    folio.file(
        "plan.yaml",
        format!("title: Four\nbudget: {{tool_calls: 2}}\nsteps:\n{early}{steps}"),
    );
    let stopped = folio.call(&["run", "--plan", "plan.yaml"]);
    assert!(
        stopped.stderr.contains("fork r1 --before-limit --tool-calls +N"),
        "{stopped}"
    );
    folio.ok(&["fork", "r1", "--before-limit", "--tool-calls", "+1", "--quiet"]);
    assert_eq!(folio.json(&["show", "r2"])["forked_from"]["path"], "c");
    assert_eq!(node_at(&folio.json(&["show", "r2"]), "c")["status"], "ok");
}

#[test]
fn forks_are_listed_with_the_run_that_they_come_from() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: Twice\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]",
    );
    folio.ok(&["run", "--plan", "plan.yaml", "--quiet"]);
    folio.ok(&["fork", "r1", "--at", "a", "--quiet"]);
    let paused = folio.ok(&["fork", "r2", "--at", "a", "--paused"]);
    assert!(paused.contains("Twice fork of r2 at a "), "{paused}");
    let listed = folio.ok(&["runs"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].contains("r3 paused Twice fork of r2 at a "), "{listed}");
    assert!(lines[1].contains("r2 ok Twice fork of r1 at a "), "{listed}");
    assert!(lines[2].starts_with("r1 ok Twice 0."), "{listed}");
    // One of them alone is told the same.
    let first = folio.json(&["runs", "--limit", "1"]);
    let origin = (&first["items"][0]["fork_of"], &first["items"][0]["fork_at"]);
    assert_eq!(origin, (&json!("r2"), &json!("a")), "{first}");
    folio.ok(&["replay", "r2"]);
}
