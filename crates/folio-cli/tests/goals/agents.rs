//! Agent programs as executors, through the program: a script stands in for one (E9.17).

use crate::support::{Folio, is_gone, line_of};
use insta::assert_snapshot;
use serde_json::{Value, json};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A house with an agent program `mender` that is `script`, and may read the environment variable of a ticket.
fn folio_with(script: &str) -> Folio {
    let folio = Folio::new();
    folio.file("mender.sh", script);
    let command = format!("[\"sh\", \"{}/mender.sh\"]", folio.path().display());
    folio.settings(format!(
            "[models]\nexecutor = \"agent:mender\"\n\n[agents.mender]\ncommand = {command}\nform = \"claude\"\nenvironment = [\"TICKET\"]\ngrace_s = 1\n"
        ),
    );
    folio
}

/// What `claude -p --output-format json` prints for an answer.
fn printed(answer: &Value) -> String {
    let event = json!({"type": "result", "is_error": false, "result": answer.to_string(), "total_cost_usd": 0.05,
                       "usage": {"input_tokens": 1_200, "output_tokens": 34}});
    event.to_string()
}

/// A script that does something, and then prints the answer.
fn answer_script(answer: &Value) -> String {
    format!(
        "cat > task\necho \"$TICKET\" > ticket\necho \"${{OTHER-none}}\" > other\necho begun >> begun\ncat <<'END'\n{}\nEND\n",
        printed(answer)
    )
}

/// A script that begins and does not end.
const HANGING: &str = "cat > task\necho begun >> begun\nsleep 1000 &\necho $! > child\necho $$ > pid\nwait\n";

#[test]
fn agent_program_executes_a_goal_and_its_usage_is_counted() {
    let folio = folio_with(&answer_script(
        &json!({"status": "ok", "notes": "It ticks.", "output": {"wheels": 4}}),
    ));
    let ran = folio
        .command(&["run", "Mend the clock", "--allow-shell", "--json"])
        .env("PATH", PATH)
        .env("TICKET", "7")
        .env("OTHER", "not passed on")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let run = folio.json(&["show", "r1"]);
    assert_eq!(run["status"], "ok", "{run}");
    assert_eq!(line_of(&folio, "ticket"), "7");
    assert_eq!(line_of(&folio, "other"), "none");
    let task = std::fs::read_to_string(folio.path().join("task")).unwrap();
    assert!(task.contains("# Task\nMend the clock\n"), "{task}");
    assert_usage_is_counted(&folio);
}

/// Asserts that the run `r1` used as many tokens and as much money as its agent program told.
fn assert_usage_is_counted(folio: &Folio) {
    let budget = folio.json(&["budget", "r1"]);
    let used = |what: &str| {
        let mut limits = budget["limits"].as_array().unwrap().iter();
        limits.find(|limit| limit["what"] == what).map(|limit| &limit["used"])
    };
    assert_eq!(
        (used("tokens"), used("micro_usd")),
        (Some(&json!(1_234)), Some(&json!(50_000))),
        "{budget}"
    );
}

#[test]
fn secret_printed_by_an_agent_program_is_redacted() {
    let key = "correct-horse-battery";
    let told = printed(&json!({"status": "ok", "notes": "the key is TICKET"})).replace("TICKET", "'\"$MENDER_KEY\"'");
    let folio = folio_with(&format!("printf '%s\\n' '{told}'\n"));
    let settings = std::fs::read_to_string(folio.path().join("folio.toml")).unwrap();
    folio.settings(settings.replace("TICKET", "MENDER_KEY"));
    let ran = folio
        .command(&["run", "Mend the clock", "--allow-shell", "--json"])
        .env("PATH", PATH)
        .env("MENDER_KEY", key)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        said.contains("the key is [redacted:own_secret]") && !said.contains(key),
        "{said}"
    );
    // Neither here nor in any folder below: the store is in one.
    let mut left = vec![folio.path().to_owned()];
    let mut looked_at = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let has_key = bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!has_key, "{}", path.display());
        looked_at.push(path);
    }
    assert!(looked_at.iter().any(|path| path.ends_with("folio.db")), "{looked_at:?}");
}

#[test]
fn agent_program_starts_only_when_allowed_e9_14() {
    let folio = folio_with(&answer_script(&json!({"notes": "It ticks."})));
    let called = folio.call(&["run", "Mend the clock"]);
    assert_eq!(called.code, 1, "{}", called.stderr);
    assert!(called.stdout.contains("--allow-shell"), "{called}");
    assert!(!folio.path().join("begun").exists());
    assert_eq!(folio.json(&["show", "r1"])["result"]["stop_reason"], "policy_denied");
    let refused = folio.call(&["run", "Mend the clock", "--allow-tool", "agent:nope"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.stderr.contains("--allow-tool: there is no agent `agent:nope`"),
        "{refused}"
    );
    folio.ok(&["run", "Mend the clock", "--allow-tool", "agent:mender"]);
    assert_eq!(line_of(&folio, "begun"), "begun", "allowed by its name");
}

#[test]
fn agent_program_waits_for_approval_in_an_attended_run_e9_14() {
    let folio = folio_with(&answer_script(&json!({"notes": "It ticks."})));
    let mut running = folio.process(&["run", "Mend the clock", "--attended", "--quiet"]);
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    folio.until(&["questions"], |asked| asked["items"][0]["kind"] == "call");
    let asked = folio.json(&["questions", "r1"]);
    assert_eq!(asked["items"][0]["call"]["tool"], "agent:mender", "{asked}");
    assert!(!folio.path().join("begun").exists());
    folio.ok(&["approve", "r1"]);
    assert!(running.wait().unwrap().success());
    assert_eq!(line_of(&folio, "begun"), "begun");
}

#[test]
fn unusable_agent_program_is_reported_before_the_run_begins() {
    let folio = folio_with("");
    assert_snapshot!(folio.seen(&["run", "Mend the clock", "--model", "agent:painter"]), @r"
    ! error[agent_unusable]: agent:painter cannot be asked: the section [agents] has no agent of that name
    = 2
    ");
    let agents = "[agents.m]\ncommand = [\"true\"]\n";
    let models = [
        "default = { model = \"agent:m\", fallback = \"scripted:a.json\" }",
        "default = { model = \"scripted:script.json\", fallback = \"agent:m\" }",
    ];
    folio.file("script.json", r#"{"version": 1, "cues": []}"#);
    for models in models {
        folio.settings(format!("[models]\n{models}\n{agents}"));
        let refused = folio.call(&["run", "Do it"]);
        assert!(
            refused.code == 2
                && refused.stderr.contains("error[model_unusable]")
                && refused.stderr.contains("only models stand in for each other"),
            "{refused}"
        );
    }
    folio.settings("model = \"agent:m\"\n[agents.m]\ncommand = []\n");
    assert_snapshot!(folio.seen(&["run", "Mend the clock"]), @r#"
    ! error[agent_unusable]: FOLDER/folio.toml: [agents.m] cannot be used: `command` is a list with a program and its arguments
    !   hint: an agent needs `command` for a program, `form = "a2a"` and `url` for another machine, or `form = "tool"` for a tool
    = 2
    "#);
}

#[test]
fn cancelled_run_ends_its_agent_program_and_child_processes_e9_11() {
    let folio = folio_with(HANGING);
    let mut running = folio.process(&["run", "Mend the clock", "--allow-shell", "--quiet"]);
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    let (pid, child) = (line_of(&folio, "pid"), line_of(&folio, "child"));
    folio.ok(&["cancel", "r1"]);
    assert_eq!(running.wait().unwrap().code(), Some(130));
    is_gone(&pid);
    is_gone(&child);
    assert_eq!(folio.json(&["show", "r1"])["status"], "cancelled");
}

#[test]
fn kill_of_folio_ends_the_agent_program_without_a_restart_e9_12() {
    let folio = folio_with(HANGING);
    let mut running = folio.process(&["run", "Mend the clock", "--allow-shell", "--quiet"]);
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    let (pid, child) = (line_of(&folio, "pid"), line_of(&folio, "child"));
    running.kill().unwrap();
    running.wait().unwrap();
    is_gone(&pid);
    is_gone(&child);
    let resumed = folio.call(&["resume", "r1"]);
    assert_eq!(resumed.code, 1, "{resumed}");
    let run = folio.json(&["show", "r1"]);
    assert_eq!(run["result"]["stop_reason"], "outcome_unknown", "{run}");
    let begun = std::fs::read_to_string(folio.path().join("begun")).unwrap();
    assert_eq!(begun, "begun\n", "it was started once");
}

#[test]
fn acp_agent_program_executes_a_goal_e9_17() {
    let folio = Folio::new();
    folio.file("agent.sh", include_str!("../../../../tests/acp/agent.sh"));
    let answer = json!({"status": "ok", "notes": "It ticks."}).to_string();
    let script = folio.path().join("agent.sh");
    folio.settings(format!(
        "[agents.mender]\ncommand = [\"sh\", {script:?}, \"asks\", {answer:?}]\nform = \"acp\"\ngrants = [\"read\"]\n"
    ));
    folio.ok(&[
        "run",
        "Mend the clock",
        "--model",
        "agent:mender",
        "--allow-shell",
        "--quiet",
    ]);
    let run = folio.json(&["show", "r1"]);
    // Who reads the result learns what the agent was not allowed (E9.14).
    let notes = "It ticks. (it asked for permission: refused execute: wants to execute; granted read: wants to read)";
    assert_eq!(
        (&run["status"], &run["result"]["notes"]),
        (&json!("ok"), &json!(notes)),
        "{run}"
    );
    let told = std::fs::read_to_string(folio.path().join("told")).unwrap();
    assert!(
        told.contains("Mend the clock") && told.contains("\"optionId\":\"no\""),
        "{told}"
    );
    assert_usage_is_counted(&folio);
}

#[test]
fn agent_run_is_recorded_and_replayed_without_the_program_e9_17() {
    let folio = folio_with(&answer_script(
        &json!({"status": "ok", "notes": "It ticks.", "output": {"wheels": 4}}),
    ));
    let run = [
        "run",
        "Mend the clock",
        "--allow-shell",
        "--quiet",
        "--record",
        "take.json",
    ];
    let ran = folio.command(&run).env("PATH", PATH).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(line_of(&folio, "begun"), "begun");
    let found = folio.json(&["replay", "r1", "--cassette", "take.json"]);
    assert_eq!(found["differences"], json!([]), "{found}");
    assert_eq!(line_of(&folio, "begun"), "begun", "the program was not started again");
    // Its command may hold keys, and is not on the cassette.
    let take = std::fs::read_to_string(folio.path().join("take.json")).unwrap();
    assert!(take.contains("It ticks.") && !take.contains("mender.sh"), "{take}");
}

/// A house whose agent program has sessions and dies with Folio while it works; `mode` says what happens when it is
/// started again.
fn folio_killed_at_work(mode: &str) -> Folio {
    let folio = Folio::new();
    folio.file("agent.sh", include_str!("../../../../tests/acp/agent.sh"));
    let answer = json!({"status": "ok", "notes": "It ticks."}).to_string();
    let script = folio.path().join("agent.sh");
    folio.settings(format!(
            "[models]\nexecutor = \"agent:mender\"\n\n[agents.mender]\ncommand = [\"sh\", {script:?}, {mode:?}, {answer:?}]\nform = \"acp\"\n"
        ),
    );
    let mut running = folio.process(&["run", "Mend the clock", "--allow-shell", "--quiet"]);
    let mut running = running.env("PATH", PATH).spawn().unwrap();
    let (pid, child) = (line_of(&folio, "pid"), line_of(&folio, "child"));
    running.kill().unwrap();
    running.wait().unwrap();
    is_gone(&pid);
    is_gone(&child);
    folio
}

/// The methods that were called when the agent program was started again.
fn methods_after_restart(folio: &Folio) -> Vec<String> {
    let told = std::fs::read_to_string(folio.path().join("told")).unwrap();
    let told = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let methods: Vec<String> = told
        .filter_map(|line| Some(line["method"].as_str()?.to_owned()))
        .collect();
    assert_eq!(methods[..3], ["initialize", "session/new", "session/prompt"]);
    methods[3..].to_vec()
}

#[test]
fn agent_program_resumes_its_session_after_a_kill_of_folio_e9_17() {
    for (mode, methods, worked) in [
        (
            "loads",
            ["initialize", "session/load", "session/prompt"].as_slice(),
            "worked\nwent on\n",
        ),
        ("answers", &["initialize", "session/load"], "worked\n"),
        ("untold", &["initialize", "session/load", "session/prompt"], "went on\n"),
        (
            "resumes",
            &["initialize", "session/resume", "session/prompt"],
            "worked\nwent on\n",
        ),
    ] {
        let folio = folio_killed_at_work(mode);
        folio.ok(&["resume", "r1"]);
        let run = folio.json(&["show", "r1"]);
        assert_eq!(
            (&run["status"], &run["result"]["notes"]),
            (&json!("ok"), &json!("It ticks.")),
            "{mode}: {run}"
        );
        assert_eq!(methods_after_restart(&folio), methods, "{mode}");
        let done = std::fs::read_to_string(folio.path().join("worked")).unwrap();
        assert_eq!(done, worked, "{mode}");
    }
}

#[test]
fn agent_program_that_cannot_resume_leaves_outcome_unknown_e9_12() {
    for (mode, methods) in [
        ("once", ["initialize"].as_slice()),
        ("forgets", &["initialize", "session/load"]),
    ] {
        let folio = folio_killed_at_work(mode);
        assert_eq!(folio.call(&["resume", "r1"]).code, 1, "{mode}");
        let run = folio.json(&["show", "r1"]);
        assert_eq!(run["result"]["stop_reason"], "outcome_unknown", "{mode}: {run}");
        assert_eq!(methods_after_restart(&folio), methods, "{mode}");
    }
}

#[test]
fn agent_program_resumes_its_session_after_repeated_kills_e9_17() {
    let folio = folio_killed_at_work("loads");
    // It comes to an end only when there is the file that says so.
    folio.file("waits", "");
    for _ in 0..2 {
        for file in ["pid", "child"] {
            std::fs::remove_file(folio.path().join(file)).unwrap();
        }
        let mut resumed = folio.process(&["resume", "r1", "--quiet"]);
        let mut resumed = resumed.env("PATH", PATH).spawn().unwrap();
        let (pid, child) = (line_of(&folio, "pid"), line_of(&folio, "child"));
        resumed.kill().unwrap();
        resumed.wait().unwrap();
        is_gone(&pid);
        is_gone(&child);
    }
    std::fs::remove_file(folio.path().join("waits")).unwrap();
    folio.ok(&["resume", "r1"]);
    let run = folio.json(&["show", "r1"]);
    assert_eq!(run["status"], "ok", "{run}");
    let again = ["initialize", "session/load", "session/prompt"];
    assert_eq!(methods_after_restart(&folio), again.repeat(3));
}
