//! Tasks that people do, through the program, with a kill in between (E9.17).

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::Folio;
use serde_json::json;

const PLAN: &str = "
title: Look at the cellar
steps:
  - id: visit
    executor: human
    title: Go down and look
    criteria: [{check: {regex: 'dry|wet'}}]
  - {id: report, do: {tool: text, args: {op: echo, value: 'it is {{ results.visit.output }}'}}}
output: '{{ results.report.output }}'
";

fn folio_with_plan() -> Folio {
    let folio = Folio::new();
    folio.file("plan.yaml", PLAN);
    folio
}

#[test]
fn human_task_waits_through_a_kill_and_needs_no_model_e9_17() {
    let folio = folio_with_plan();
    let running = folio.spawn(&["run", "--plan", "plan.yaml", "--attended", "--quiet"]);
    let asked = folio.until(&["questions"], |asked| asked["items"][0]["path"] == "visit");
    assert_eq!(asked["items"][0]["kind"], "question", "{asked}");
    assert!(
        asked.to_string().contains("Task for a person: Go down and look\\n"),
        "{asked}"
    );
    let main = |folio: &Folio| {
        let page = folio.json(&["show", "r1"])["pages"]["main"]
            .as_str()
            .unwrap()
            .to_owned();
        folio.ok(&["page", "show", &page])
    };
    assert!(main(&folio).contains("\n## Waiting for people\n"), "{}", main(&folio));
    running.kill();

    // What does not say whether it is dry is not what was wanted, and whoever goes on asks again.
    folio.ok(&["answer", "r1", "I was there"]);
    let running = folio.spawn(&["resume", "r1", "--attended", "--quiet"]);
    let asked = folio.until(&["questions"], |asked| asked.to_string().contains("not accepted yet"));
    assert_eq!(asked["items"].as_array().unwrap().len(), 1, "{asked}");
    let shown = folio.ok(&["questions"]);
    assert!(shown.ends_with("\n  folio answer r1 ANSWER\n"), "{shown}");
    let named = folio.ok(&["--space", "main", "questions"]);
    assert!(named.ends_with("\n  folio answer r1 ANSWER --space main\n"), "{named}");
    assert!(
        !shown.contains("Continue the work") && !shown.contains("\n  id: "),
        "{shown}"
    );
    running.kill();
    folio.ok(&["answer", "r1", "wet"]);
    folio.ok(&["resume", "r1", "--quiet"]);
    assert!(!main(&folio).contains("Waiting for people"), "{}", main(&folio));
    let run = folio.json(&["show", "r1"]);
    assert_eq!(
        (&run["status"], &run["result"]["output"]),
        (&"ok".into(), &json!({"value": "it is wet"})),
        "{run}"
    );
    let page = folio.ok(&["page", "show", "p4"]);
    assert!(page.contains("I was there") && page.contains("wet"), "{page}");
}

#[test]
fn non_interactive_human_task_fails_with_needs_input_e9_14() {
    let folio = folio_with_plan();
    assert!(!folio.ok(&["plan", "check", "plan.yaml"]).contains("model"));
    let ended = folio.call(&["run", "--plan", "plan.yaml", "--non-interactive"]);
    assert_eq!(ended.code, 1, "{ended}");
    let run = folio.json(&["show", "r1"]);
    assert_eq!(run["nodes"][1]["stop_reason"], "needs_input", "{run}");
}

#[test]
fn executor_name_human_is_reserved_for_people_e9_17() {
    let folio = folio_with_plan();
    folio.file("script.json", "{\"version\": 1, \"cues\": []}");
    folio.settings(
        "[models]\ndefault = \"scripted:script.json\"\n[models.executors.human]\nmodel = \"scripted:script.json\"\n",
    );
    let refused = folio.call(&["run", "Look"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("only people can be"),
        "{refused}"
    );
}

#[test]
fn waiting_and_paused_states_of_a_run_are_shown_e9_14() {
    let folio = folio_with_plan();
    let running = folio.spawn(&["run", "--plan", "plan.yaml", "--attended", "--quiet"]);
    folio.until(&["questions"], |asked| asked["items"][0]["path"] == "visit");
    let shown = folio.ok(&["show", "r1"]);
    assert!(
        shown.contains("? Go down and look") && shown.contains("waits for an answer (`folio questions`): "),
        "{shown}"
    );
    let shown = folio.ok(&["show", "r1"]);
    assert!(
        shown.ends_with("r1 running: nothing under way; waits for a person (`folio questions`)\n"),
        "{shown}"
    );
    let told = folio.call(&["pause", "r1"]);
    let words = "r1 is paused and starts no new calls until `folio continue r1`; no calls are under way";
    assert!(told.stderr.contains(words), "{told}");
    assert!(told.stdout.starts_with("r1 paused, asks 1 "), "{told}");
    let shown = folio.ok(&["show", "r1"]);
    assert!(shown.contains("r1 running: paused; "), "{shown}");
    let runs = folio.ok(&["runs"]);
    assert!(runs.starts_with("r1 paused, asks 1 "), "{runs}");
    let told = folio.json(&["runs"])["items"][0].clone();
    assert_eq!((&told["paused"], &told["asks"]), (&true.into(), &1.into()));
    let shown = folio.json(&["show", "r1"]);
    assert_eq!(told["spent"], shown["spent"]);
    assert_eq!(
        (&shown["paused"], &shown["nodes"][0]["paused"]),
        (&true.into(), &true.into())
    );
    // What is nothing is left out.
    assert!(shown["spent"].is_object(), "{shown}");
    running.kill();
}

#[test]
fn task_whose_only_call_waits_for_approval_is_not_under_way_e9_14() {
    let folio = Folio::new();
    let cues = json!([
        {"role": "planner", "json": {"decision": "execute", "reason": "it is small"}},
        {"role": "executor", "calls": [{"tool": "shell", "args": {"command": "true"}}]}
    ]);
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    folio.file("plan.yaml", "steps: [{id: think, title: Think}]");
    let arguments = [
        "run",
        "--plan",
        "plan.yaml",
        "--model",
        "scripted:script.json",
        "--attended",
        "--quiet",
    ];
    let running = folio.spawn(&arguments);
    folio.until(&["questions"], |asked| asked["items"][0]["kind"] == "call");
    let shown = folio.ok(&["show", "r1"]);
    let task = shown.lines().find(|line| line.contains("Think")).unwrap();
    assert!(
        task.contains("▾ Think") && task.ends_with("waits for approval"),
        "{shown}"
    );
    assert!(!shown.contains(" · 1 running"), "{shown}");
    assert!(
        shown.ends_with("r1 running: nothing under way; waits for a person (`folio questions`)\n"),
        "{shown}"
    );
    running.kill();
}

#[test]
fn run_in_a_memory_store_suggests_no_later_commands() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: One\nsteps:\n  - {id: one, do: {tool: text, args: {op: echo, value: 1}}}\n",
    );
    let told = folio.call(&["run", "--plan", "plan.yaml", "--store", "memory:"]);
    assert_eq!(told.code, 0, "{told}");
    assert!(!told.stderr.contains("folio show"), "{told}");
    assert!(told.stderr.contains("nothing of the run is kept"), "{told}");
}

#[test]
fn bidi_controls_are_hidden_from_people_but_kept_in_json() {
    let folio = Folio::new();
    folio.ok(&[
        "observe",
        "add",
        "--type",
        "note",
        "left\u{202e}thgir \u{2066}x\u{1b}[2J",
    ]);
    let shown = folio.ok(&["observe", "list"]);
    assert!(shown.contains("leftthgir x[2J"), "{shown}");
    assert!(folio.json(&["observe", "list"]).to_string().contains('\u{202e}'));
}

#[test]
fn questions_say_until_when_a_task_waits_and_the_default_time_does_not_count_e9_10() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        PLAN.replace("title: Go down", "timeout: 2h\n    title: Go down"),
    );
    let waiting = folio.spawn(&["run", "--plan", "plan.yaml", "--attended", "--quiet"]);
    let asked = folio.until(&["questions"], |asked| asked["items"][0]["run"] == "r1");
    let until = asked["items"][0]["until"].as_str().unwrap().to_owned();
    let deadline = folio.json(&["budget", "r1"])["deadline"].as_str().unwrap().to_owned();
    assert!(until > deadline, "{until} {deadline}");
    assert!(folio.ok(&["questions"]).contains("\n  waits until "));
    assert!(folio.ok(&["show", "r1"]).contains("waits for an answer until "));
    waiting.kill();
    // A time that somebody sets holds.
    let waiting = folio.spawn(&[
        "run",
        "--plan",
        "plan.yaml",
        "--attended",
        "--quiet",
        "--no-resume",
        "--minutes",
        "5",
    ]);
    let asked = folio.until(&["questions"], |asked| asked["items"][0]["run"] == "r2");
    let deadline = folio.json(&["budget", "r2"])["deadline"].clone();
    assert_eq!(asked["items"][0]["until"], deadline);
    waiting.kill();
}

#[test]
fn limits_are_given_to_a_run_when_it_starts_e9_10() {
    let folio = Folio::new();
    let script = json!({"version": 1, "cues": [
        {"role": "planner", "json": {"decision": "execute", "reason": "it is small"}},
        {"role": "executor", "calls": [{"tool": "finish", "args": {"notes": "done"}}]}
    ]});
    folio.file("script.json", script.to_string());
    let limits = [
        "--tokens",
        "90000",
        "--usd",
        "0.5",
        "--model-calls",
        "7",
        "--nodes",
        "20",
        "--allow-unpriced",
    ];
    let goal = ["run", "Say what is here", "--model", "scripted:script.json", "--quiet"];
    folio.ok(&[&goal[..], &limits[..]].concat());
    let budget = folio.json(&["budget", "r1"]);
    let limit = |what: &str| {
        let limits = budget["limits"].as_array().unwrap();
        limits.iter().find(|limit| limit["what"] == what).unwrap()["limit"].clone()
    };
    assert_eq!(
        (
            limit("tokens"),
            limit("micro_usd"),
            limit("model_calls"),
            &budget["nodes"]["limit"]
        ),
        (90_000.into(), 500_000.into(), 7.into(), &20.into()),
        "{budget}"
    );
    folio.file("plan.yaml", PLAN);
    let refused = folio.call(&["run", "--plan", "plan.yaml", "--attended", "--nodes", "1"]);
    assert!(refused.stderr.contains("error[limit_unusable]"), "{refused}");
}

/// The run `r2` of two steps, the second of which is paused, that no process drives.
fn leave_paused_node(folio: &Folio) {
    let step = |id: &str| format!("  - {{id: {id}, do: {{tool: text, args: {{op: echo, value: 1}}}}}}\n");
    folio.file(
        "plan.yaml",
        format!("title: Two\nsteps:\n{}{}", step("one"), step("two")),
    );
    folio.ok(&["run", "--plan", "plan.yaml", "--quiet"]);
    folio.ok(&["fork", "r1", "--at", "one", "--paused"]);
    folio.ok(&["pause", "r2", "--node", "two"]);
    folio.ok(&["continue", "r2"]);
}

#[test]
fn run_that_waits_at_a_paused_node_says_how_to_continue_it_e9_14() {
    let folio = Folio::new();
    leave_paused_node(&folio);
    let mut resuming = folio.process(&["resume", "r2"]);
    let mut resuming = resuming.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut told = BufReader::new(resuming.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let line = told.find(|line| line.contains("is paused;"));
    assert_eq!(
        line.as_deref(),
        Some("two is paused; continue it with `folio continue r2 --node two`")
    );
    // Nothing of it goes on, so lists show it so, too.
    let listed = folio.ok(&["runs"]);
    let line = listed.lines().find(|line| line.starts_with("r2 ")).unwrap_or_default();
    assert!(line.contains("paused"), "{listed}");
    assert_eq!(folio.json(&["runs", "--status", "paused"])["items"][0]["handle"], "r2");
    folio.ok(&["continue", "r2", "--node", "two"]);
    let rest: Vec<String> = told.collect();
    assert!(!rest.iter().any(|line| line.contains("paused;")), "once: {rest:?}");
    assert!(resuming.wait().unwrap().success(), "{rest:?}");
}
