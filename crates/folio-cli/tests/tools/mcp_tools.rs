//! Tools of an MCP server in runs, through the program: `tests/mcp/server.sh` is the server (E9.12, E9.14, E9.17).

use crate::support::served::Served;
use crate::support::{Folio, is_gone, line_of};
use insta::assert_snapshot;
use serde_json::json;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const SCRIPT: &str = include_str!("../../../../tests/mcp/server.sh");

/// A house with the server `desk` and more settings.
fn folio_with(more: &str) -> Folio {
    let folio = Folio::new();
    folio.file("server.sh", SCRIPT);
    let script = folio.path().join("server.sh");
    let settings = format!("[mcp.desk]\ncommand = [\"sh\", {script:?}]\nfolder = \".\"\n{more}");
    folio.settings(settings);
    folio
}

fn plan(tool: &str, args: &str) -> String {
    format!("title: Ask\nsteps:\n  - {{id: ask, do: {{tool: {tool}, args: {args}}}}}\n")
}

#[test]
fn plan_step_calls_a_tool_of_an_mcp_server() {
    let folio = folio_with("allow = [\"echo\"]\n");
    folio.file("plan.yaml", plan("desk.echo", "{text: 'good day'}"));
    folio.ok(&["run", "--plan", "plan.yaml", "--quiet"]);
    let run = folio.json(&["show", "r1"]);
    assert_eq!(run["status"], "ok", "{run}");
    let asked = line_of(&folio, "asked");
    assert!(
        asked.contains("good day") && asked.contains("folio/idempotencyKey"),
        "{asked}"
    );
    is_gone(&line_of(&folio, "pid"));
}

#[test]
fn plan_arguments_are_checked_against_the_mcp_tool_schema() {
    let folio = folio_with("");
    let text = "title: Ask\nsteps:\n  - {id: a, do: {tool: desk.echo, args: {text: true}}}\n  - {id: b, do: {tool: desk.echo, args: {texts: 'a'}}}\n  - {id: c, do: {tool: desk.ecco}}\n  - {id: d, do: {tool: desk.echo, args: {text: '{{ results.a.output.text }}'}}}\n  - {id: e, do: {tool: desk.echo, args: {text: 5}}}\n  - {id: f, do: {tool: desk.echo, args: {text: 007}}}\n";
    folio.file("plan.yaml", text);
    assert_snapshot!(folio.seen(&["plan", "check", "plan.yaml"]), @r#"
    ! plan.yaml:3:48: P029 the tool `desk.echo` does not accept this: true is not of type "string" [steps[0].do.args.text]
    ! plan.yaml:4:41: P016 the tool `desk.echo` needs the argument `text` [steps[1].do.args]
    ! plan.yaml:5:24: P004 unknown tool "desk.ecco" [steps[2].do.tool]
    !   hint: did you mean `desk.echo`?
    ! plan.yaml:8:48: P029 the tool `desk.echo` would take this as another text: `text` is written 007, and read as 7 [steps[5].do.args.text]
    !   hint: put it in quotes
    ! error[plan_invalid]: 4 mistakes in plan.yaml
    !   hint: `folio plan schema` prints the JSON Schema of plans
    = 2
    "#);
}

#[test]
fn mcp_tool_call_waits_for_approval_or_is_refused_e9_14() {
    let folio = folio_with("");
    folio.file("plan.yaml", plan("desk.send", "{}"));
    let refused = folio.call(&["run", "--plan", "plan.yaml"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("--allow-tool desk.send"), "{refused}");
    assert_eq!(folio.json(&["show", "r1"])["result"]["stop_reason"], "policy_denied");
    assert!(!folio.path().join("asked").exists());

    let mut running = folio.process(&["run", "--plan", "plan.yaml", "--attended", "--quiet"]);
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    let asked = folio.until(&["questions"], |asked| asked["items"][0]["kind"] == "call");
    assert_eq!(asked["items"][0]["call"]["tool"], "desk.send", "{asked}");
    assert!(!folio.path().join("asked").exists());
    folio.ok(&["approve", "r2"]);
    assert!(running.wait().unwrap().success());
    assert!(line_of(&folio, "asked").contains("\"send\""));

    folio.ok(&["run", "--plan", "plan.yaml", "--quiet", "--allow-tool", "desk.*"]);
}

#[test]
fn model_calls_an_mcp_tool_and_reads_its_answer() {
    let folio = folio_with("allow = [\"echo\"]\n");
    let script = json!({"version": 1, "cues": [
        {"role": "planner", "json": {"decision": "execute", "reason": "it is one step", "action": {"tool": "desk.echo", "args": {"text": "good day"}}}},
        {"role": "executor", "contains": "good day", "calls": [{"tool": "finish", "args": {"notes": "It said good day."}}]},
    ]});
    folio.file("script.json", script.to_string());
    let ran = folio.call(&[
        "run",
        "Greet the desk",
        "--model",
        "scripted:script.json",
        "--record",
        "take.json",
    ]);
    assert_eq!(ran.code, 0, "{ran}");
    let run = folio.json(&["show", "r1"]);
    assert_eq!(run["result"]["notes"], "It said good day.", "{run}");
    let asked = line_of(&folio, "asked");
    assert!(asked.contains("good day"), "{asked}");
    // What nobody may say yes to is not offered: the cassette has what the model was asked.
    let take = std::fs::read_to_string(folio.path().join("take.json")).unwrap();
    assert!(take.contains("desk.echo") && !take.contains("desk.send"), "{take}");
}

#[test]
fn kill_of_folio_ends_the_mcp_server_without_repeating_calls_e9_12() {
    let folio = folio_with("allow = [\"*\"]\n");
    folio.file("plan.yaml", plan("desk.hang", "{}"));
    let mut running = folio.process(&["run", "--plan", "plan.yaml", "--quiet"]);
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    assert!(line_of(&folio, "asked").contains("hang"));
    let pid = line_of(&folio, "pid");
    running.kill().unwrap();
    running.wait().unwrap();
    is_gone(&pid);
    let resumed = folio.call(&["resume", "r1"]);
    assert_eq!(resumed.code, 1, "{resumed}");
    assert_eq!(folio.json(&["show", "r1"])["result"]["stop_reason"], "outcome_unknown");
    assert_eq!(line_of(&folio, "asked").lines().count(), 1, "it was called once");
}

/// A house whose run `r1` was killed during a call of a tool that only reads.
fn killed_in_a_call() -> Folio {
    let folio = folio_with("allow = [\"*\"]\n");
    folio.file("plan.yaml", plan("desk.wait", "{}"));
    let mut running = folio.process(&["run", "--plan", "plan.yaml", "--quiet"]);
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    assert!(line_of(&folio, "asked").contains("wait"));
    running.kill().unwrap();
    running.wait().unwrap();
    is_gone(&line_of(&folio, "pid"));
    folio
}

#[test]
fn read_only_mcp_call_is_repeated_after_a_kill_e9_12() {
    let folio = killed_in_a_call();
    std::fs::remove_file(folio.path().join("asked")).unwrap();
    let mut resumed = folio.process(&["resume", "r1", "--quiet"]);
    let mut resumed = resumed.env("PATH", PATH).spawn().unwrap();
    assert!(line_of(&folio, "asked").contains("wait"));
    folio.ok(&["cancel", "r1"]);
    assert_eq!(resumed.wait().unwrap().code(), Some(130));
    assert_eq!(folio.json(&["show", "r1"])["status"], "cancelled");
}

#[test]
fn run_is_resumed_only_where_its_tools_are_configured_e9_17() {
    let folio = killed_in_a_call();
    let (here, away) = (folio.path().join("folio.toml"), folio.path().join("away.toml"));
    std::fs::rename(&here, &away).unwrap();
    assert_snapshot!(folio.seen(&["resume", "r1"]), @r"
    ! error[not_equipped]: steps of the run need the tool desk.wait, which this process does not have
    !   hint: name the servers and agents in folio.toml, or use the folder, or the process, in which the run was started
    = 2
    ");
    folio.file("other.yaml", plan("text", "{op: echo, value: a}"));
    let beside = folio.call(&["run", "--plan", "other.yaml"]);
    assert_eq!(beside.code, 0, "{beside}");
    assert!(
        beside
            .stderr
            .contains("r1 cannot be resumed: steps of the run need the tool desk.wait"),
        "{beside}"
    );
    assert_eq!(folio.json(&["show", "r1"])["status"], "running");
    // To stop it, nothing is needed.
    folio.ok(&["cancel", "r1"]);
    let stopped = folio.call(&["resume", "r1"]);
    assert_eq!(stopped.code, 130, "{stopped}");
    assert_eq!(folio.json(&["show", "r1"])["status"], "cancelled", "{stopped}");
}

#[test]
fn mcp_tool_executes_a_task_when_the_run_allows_it_e9_17() {
    let folio = folio_with("time_s = 600\n[agents.mender]\nform = \"tool\"\ntool = \"desk.mend\"\n");
    let run = [
        "run",
        "Mend the clock",
        "--model",
        "agent:mender",
        "--planning",
        "never",
    ];
    let refused = folio.call(&run);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(
        refused.stdout.contains("is the tool desk.mend") && refused.stdout.contains("--allow-tool agent:mender"),
        "{refused}"
    );
    assert!(!folio.path().join("asked").exists());

    folio.ok(&[&run[..], &["--allow-tool", "agent:mender"]].concat());
    let done = folio.json(&["show", "r2"]);
    assert_eq!(
        (&done["status"], &done["result"]["notes"]),
        (&json!("ok"), &json!("It ticks again."))
    );
    let asked = line_of(&folio, "asked");
    assert!(
        asked.contains("\"prompt\":") && asked.contains("# Task") && asked.contains("Mend the clock"),
        "{asked}"
    );
}

#[test]
fn failed_or_killed_agent_tool_call_is_not_repeated_e9_12() {
    let folio = folio_with(
        "[agents.failing]\nform = \"tool\"\ntool = \"desk.fail\"\n[agents.hanging]\nform = \"tool\"\ntool = \"desk.hang\"\nargument = \"task\"\n",
    );
    let run = |agent: &'static str| {
        [
            "run",
            "Mend the clock",
            "--model",
            agent,
            "--planning",
            "never",
            "--quiet",
        ]
    };
    let failed = folio.call(&[&run("agent:failing")[..], &["--allow-tool", "agent:failing"]].concat());
    assert_eq!(failed.code, 1, "{failed}");
    let shown = folio.json(&["show", "r1"]);
    assert_eq!(shown["result"]["stop_reason"], "retries_exhausted", "{shown}");
    assert!(
        shown["result"]["notes"].as_str().unwrap().contains("no such city"),
        "{shown}"
    );
    std::fs::remove_file(folio.path().join("asked")).unwrap();

    let mut running = folio.process(&[&run("agent:hanging")[..], &["--allow-tool", "agent:hanging"]].concat());
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    assert!(line_of(&folio, "asked").contains("\"task\":"));
    running.kill().unwrap();
    running.wait().unwrap();
    let resumed = folio.call(&["resume", "r2", "--model", "agent:hanging"]);
    assert_eq!(resumed.code, 1, "{resumed}");
    assert_eq!(folio.json(&["show", "r2"])["result"]["stop_reason"], "outcome_unknown");
    let asked = std::fs::read_to_string(folio.path().join("asked")).unwrap();
    assert_eq!(asked.matches("\"name\":\"hang\"").count(), 1, "it was called once");
}

#[test]
fn unavailable_mcp_server_is_reported_and_the_run_continues() {
    let folio = folio_with("[mcp.gone]\ncommand = [\"/nowhere/server\"]\n");
    folio.file("plan.yaml", plan("text", "{op: echo, value: 1}"));
    let ran = folio.call(&["run", "--plan", "plan.yaml"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("the MCP server gone cannot be used: "), "{ran}");
    folio.settings("[mcp.gone]\nurl = \"nowhere\"\n");
    assert_snapshot!(folio.seen(&["tool", "list"]), @r"
    ! error[mcp_invalid]: the MCP server gone cannot be used: `url` begins with https:// or http://
    !   hint: correct [mcp.gone] in the settings file; docs/mcp-tools.md explains how
    = 2
    ");
}

#[test]
fn tool_list_shows_effects_approvals_and_arguments() {
    let folio = folio_with("tools = [\"echo\", \"send\"]\nallow = [\"echo\"]\neffects = {send = \"idempotent\"}\n");
    let listed = folio.ok(&["tool", "list"]);
    let lines: Vec<&str> = listed
        .lines()
        .filter(|line| line.starts_with("desk.") || line.starts_with("shell"))
        .collect();
    assert_snapshot!(lines.join("\n"), @r"
    desk.echo         read              Says what it is told.
    desk.send         idempotent  asks  Changes something: send.
    shell             opaque      asks  Runs a command without input, in a granted folder. Give exactly one of `argv` o…
    ");
    assert_snapshot!(folio.ok(&["tool", "list", "desk.send", "wait"]), @"
    desk.send  idempotent, asks
      Changes something: send.
    wait  read
      Waits, for at most a minute. Returns `waited_ms`.
      ms (integer), needed: Milliseconds, up to 60000.
    ");
    let shell = folio.ok(&["tool", "list", "shell"]);
    assert!(shell.contains("Give exactly one of `argv` or `command`."), "{shell}");
    let shell = folio.json(&["tool", "list", "shell"]);
    assert_eq!(shell["items"][0]["one_of"], json!(["argv", "command"]), "{shell}");
    assert_snapshot!(folio.seen(&["tool", "list", "desk.shout"]), @"
    ! error[not_found]: there is no tool desk.shout
    !   hint: `folio tool list` lists the tools
    = 3
    ");
}

#[test]
fn kill_of_folio_ends_the_shell_commands_of_its_run() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        plan(
            "shell",
            "{command: 'sleep 1000 & echo $! > child; echo $$ > pid; wait'}",
        ),
    );
    let mut running = folio.process(&["run", "--plan", "plan.yaml", "--allow-shell", "--quiet"]);
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    let (pid, child) = (line_of(&folio, "pid"), line_of(&folio, "child"));
    running.kill().unwrap();
    running.wait().unwrap();
    is_gone(&pid);
    is_gone(&child);
}

#[test]
fn serve_shares_one_mcp_server_process_among_its_runs_e9_17() {
    let folio = folio_with("allow = [\"echo\"]\n");
    let mut command = folio.process(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("PATH", PATH);
    let serving = Served::of(command);
    let body = json!({"plan": plan("desk.echo", "{text: 'good day'}")}).to_string();
    let mut pids = Vec::new();
    for run in ["r1", "r2"] {
        let answer = serving.post("/v1/spaces/main/runs", &body);
        assert!(
            answer.starts_with("HTTP/1.0 201") || answer.starts_with("HTTP/1.1 201"),
            "{answer}"
        );
        let ended = folio.until(&["show", run], |run| run["status"] != "running");
        assert_eq!(ended["status"], "ok", "{ended}");
        pids.push(line_of(&folio, "pid"));
    }
    assert_eq!(pids[0], pids[1], "it was started once");
    assert_eq!(line_of(&folio, "asked").lines().count(), 2);
    drop(serving);
    is_gone(&pids[0]);
}

#[test]
fn doctor_checks_every_configured_mcp_server() {
    let folio = folio_with("start_s = 20\n[mcp.gone]\ncommand = [\"no-such-program\"]\n[mcp.odd]\n");
    folio.ok(&["observe", "add", "a note"]);
    let found = folio.call(&["doctor"]);
    assert_eq!(found.code, 5, "{found}");
    for said in [
        "looked at the MCP server desk: 25 tools",
        "problem the MCP server gone cannot be used: ",
        "[mcp_server_unavailable]",
        "problem the MCP server odd cannot be used: ",
        "[mcp_invalid]",
    ] {
        assert!(found.stdout.contains(said), "{said}: {found}");
    }
    assert!(!found.stdout.contains("no problems found"), "{found}");
    is_gone(&line_of(&folio, "pid"));

    let folio = folio_with("");
    folio.ok(&["observe", "add", "a note"]);
    let found = folio.json(&["doctor"]);
    assert_eq!(
        (&found["healthy"], &found["servers"][0]["reached"]),
        (&json!(true), &json!(true)),
        "{found}"
    );
}
