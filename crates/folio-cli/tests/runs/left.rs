//! Runs that were left before they had ended, and the processes that resume them.

use crate::support::{Folio, Running};
use serde_json::{Value, json};

/// A plan of one step that is done immediately.
const QUICK_PLAN: &str = "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
/// A plan that takes a while.
const SLOW_PLAN: &str =
    "steps: [{id: w, do: {tool: wait, args: {ms: 5000}}}, {id: after, do: {tool: text, args: {op: echo, value: 1}}}]";
/// A plan that waits for approval before it does anything.
const ASKING_PLAN: &str = "steps: [{id: s, do: {tool: shell, args: {command: 'true'}}}]";

/// A plan that waits for approval after a while.
const LATE_ASKING_PLAN: &str =
    "steps: [{id: w, do: {tool: wait, args: {ms: 2000}}}, {id: s, do: {tool: shell, args: {command: 'true'}}}]";

fn folio() -> Folio {
    let folio = Folio::new();
    for (name, plan) in [
        ("quick.yaml", QUICK_PLAN),
        ("slow.yaml", SLOW_PLAN),
        ("asks.yaml", ASKING_PLAN),
        ("later.yaml", LATE_ASKING_PLAN),
    ] {
        folio.file(name, plan);
    }
    folio
}

/// Starts to drive `plan`, as the run `handle`.
fn start_run(folio: &Folio, handle: &str, plan: &str) -> Running {
    let running = folio.spawn(&["run", "--plan", plan, "--attended", "--quiet"]);
    folio.until(&["runs"], |seen| {
        let runs = seen["items"].as_array().unwrap();
        runs.iter().any(|run| run["handle"] == handle && run["driven"] == true)
    });
    running
}

fn status(folio: &Folio, run: &str) -> Value {
    folio.json(&["show", run])["status"].clone()
}

/// Whether `run` can be resumed: it has not ended, and no process drives it.
fn is_resumable(folio: &Folio, run: &str) -> bool {
    let runs = folio.json(&["runs"]);
    let runs = runs["items"].as_array().unwrap();
    runs.iter()
        .any(|line| line["handle"] == run && line["status"] == "running" && line["driven"] == false)
}

#[test]
fn paused_leftover_run_does_not_delay_another_run() {
    let folio = folio();
    let running = start_run(&folio, "r1", "slow.yaml");
    folio.ok(&["pause", "r1"]);
    running.kill();
    let told = folio.call(&["run", "--plan", "quick.yaml"]);
    assert_eq!(told.code, 0, "{told}");
    assert!(told.stderr.contains("r1 waits"), "{told}");
    assert_eq!(status(&folio, "r2"), "ok");
}

#[test]
fn elapsed_time_of_an_undriven_run_stands_still() {
    let folio = folio();
    start_run(&folio, "r1", "slow.yaml").kill();
    // That takes some seconds to be known.
    folio.until(&["runs"], |seen| seen["items"][0]["driven"] == false);
    let told = folio.ok(&["show", "r1"]);
    let counts = told.lines().find(|line| line.contains("0 of 2 done")).unwrap();
    assert!(counts.trim_start().starts_with("0."), "{told}");
}

#[test]
fn runs_are_filtered_by_status_and_paged() {
    let folio = folio();
    start_run(&folio, "r1", "slow.yaml").kill();
    let paused = start_run(&folio, "r2", "slow.yaml");
    folio.ok(&["pause", "r2"]);
    paused.kill();
    folio.ok(&["run", "--plan", "quick.yaml", "--no-resume"]);
    folio.until(&["runs"], |seen| {
        let runs = seen["items"].as_array().unwrap();
        runs.iter().all(|run| run["driven"] == false)
    });
    let of = |filter: &[&str]| {
        let list = folio.json(&[&["runs"], filter].concat());
        let runs = list["items"].as_array().unwrap().clone();
        let handles = runs.iter().map(|run| run["handle"].as_str().unwrap().to_owned());
        (handles.collect::<Vec<_>>().join(" "), list["next"].clone())
    };
    for (filter, runs, next) in [
        (&["--status", "interrupted"][..], "r2 r1", Value::Null),
        (&["--status", "interrupted", "--limit", "1"], "r2", json!("r2")),
        (
            &["--status", "interrupted", "--cursor", "r2", "--limit", "1"],
            "r1",
            Value::Null,
        ),
        (&["--status", "paused"], "r2", Value::Null),
        (&["--status", "paused", "--status", "ok"], "r3 r2", Value::Null),
        (&["--status", "running"], "r2 r1", Value::Null),
        (&["--status", "failed"], "", Value::Null),
        (&["--status", "gone"], "", Value::Null),
    ] {
        assert_eq!(of(filter), (runs.to_owned(), next), "{filter:?}");
    }
}

#[test]
fn resume_leaves_a_driven_run_alone() {
    let folio = folio();
    let running = start_run(&folio, "r1", "slow.yaml");
    let told = folio.call(&["resume"]);
    assert_eq!((told.code, &*told.stdout), (0, ""), "{told}");
    assert!(told.stderr.contains("other processes drive r1"), "{told}");
    running.kill();
}

#[test]
fn interrupt_while_resuming_a_leftover_does_not_cancel_it() {
    let folio = folio();
    start_run(&folio, "r1", "slow.yaml").kill();
    let running = folio.spawn(&["run", "--plan", "quick.yaml"]);
    folio.until(&["runs"], |seen| {
        seen["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run["handle"] == "r2" && run["status"] == "ok")
    });
    running.interrupt();
    let told = running.wait();
    assert_eq!(told.code, 0, "{told}");
    assert!(is_resumable(&folio, "r1"), "it is not cancelled");
}

#[test]
fn run_that_is_answered_elsewhere_names_the_list_of_its_questions_once() {
    let folio = folio();
    let shell = "do: {tool: shell, args: {command: 'true'}}";
    folio.file("twice.yaml", format!("steps: [{{id: a, {shell}}}, {{id: b, {shell}}}]"));
    // Without the line, nobody would know what a quiet run waits for.
    for (run, quiet) in [("r1", &[][..]), ("r2", &["--quiet"])] {
        let running = folio.spawn(&[&["run", "--plan", "twice.yaml", "--attended"], quiet].concat());
        for step in ["a", "b"] {
            folio.until(&["questions"], |seen| seen["items"][0]["path"] == step);
            folio.ok(&["approve", run]);
        }
        let told = running.wait();
        assert_eq!(told.code, 0, "{told}");
        let line = format!("{run} asks something and waits; `folio questions {run}` lists it\n");
        assert_eq!(told.stderr.matches(&line).count(), 1, "{told}");
    }
}

#[test]
fn questions_beyond_the_limit_are_counted() {
    let folio = folio();
    let shell = |id: &str| format!("{{id: {id}, do: {{tool: shell, args: {{command: 'true'}}}}}}");
    let steps = ["a", "b", "c"].map(shell).join(", ");
    folio.file("three.yaml", format!("steps: [{{parallel: [{steps}]}}]"));
    let running = start_run(&folio, "r1", "three.yaml");
    folio.until(&["questions"], |seen| seen["total"] == json!(3));
    let cut = folio.json(&["questions", "--limit", "1"]);
    assert_eq!((&cut["returned"], &cut["total"]), (&json!(1), &json!(3)));
    let shown = folio.ok(&["questions", "--limit", "1"]);
    assert!(shown.ends_with("… 2 more; --limit 3 lists all\n"), "{shown}");
    // The one that is listed is not the only one that `folio approve r1` could mean.
    assert!(!shown.contains("folio approve r1,"), "{shown}");
    running.kill();
}

#[test]
fn resume_needs_a_model_only_for_what_is_still_to_be_done() {
    let folio = folio();
    let cues = json!([
        {"role": "planner", "json": {"decision": "execute", "reason": "it is small"}},
        {"role": "executor", "calls": [{"tool": "finish", "args": {"notes": "done"}}]}
    ]);
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    folio.file(
        "mixed.yaml",
        "steps: [{id: think, title: Think}, {id: w, do: {tool: wait, args: {ms: 3000}}}]",
    );
    let running = folio.spawn(&[
        "run",
        "--plan",
        "mixed.yaml",
        "--model",
        "scripted:script.json",
        "--quiet",
    ]);
    folio.until(&["runs"], |seen| seen["items"][0]["driven"] == true);
    folio.until(&["show", "r1"], |seen| {
        let nodes = seen["nodes"].as_array().unwrap();
        nodes
            .iter()
            .any(|node| node["path"] == "w" && node["state"] == "executing")
    });
    running.kill();
    folio.settings("model = \"gpt\"");
    let told = folio.call(&["resume", "r1"]);
    assert_eq!(told.code, 0, "{told}");
    assert!(told.stderr.contains("\"gpt\" does not name a model"), "{told}");
    assert_eq!(status(&folio, "r1"), "ok");
    // Nor does a fork need a model in which only a call is due. What else is wrong with it is told before.
    for (at, code, noted) in [
        ("nothing", 3, "run r1 has no node nothing"),
        ("think", 2, "\"gpt\" does not name a model"),
        ("w", 0, "going on without a model, which this run does not need"),
    ] {
        let told = folio.call(&["fork", "r1", "--at", at]);
        assert_eq!(told.code, code, "{told}");
        assert!(told.stderr.contains(noted), "{told}");
    }
    assert_eq!(folio.json(&["runs"])["returned"], 2);
}

#[test]
fn unattended_process_leaves_a_run_that_waits_for_an_answer() {
    let folio = folio();
    let running = start_run(&folio, "r1", "asks.yaml");
    folio.until(&["questions"], |seen| seen["returned"] == json!(1));
    running.kill();
    for again in [&["run", "--plan", "quick.yaml"][..], &["resume"]] {
        let told = folio.call(again);
        assert_eq!(told.code, 0, "{told}");
        assert!(
            told.stderr
                .contains("r1 waits for approval, and there is nobody to ask; `folio questions r1` lists it"),
            "{told}"
        );
    }
    assert!(is_resumable(&folio, "r1"));
    // Nobody is missed as long as only an answer is.
    let listed = folio.ok(&["runs", "--status", "interrupted", "--status", "running"]);
    assert!(listed.contains("r1 running, asks 1"), "{listed}");
    assert_eq!(folio.json(&["runs", "--status", "interrupted"])["items"], json!([]));
    let shown = folio.ok(&["show", "r1"]);
    assert!(
        shown.contains("r1 running: nothing under way; waits for a person (`folio questions`)\n"),
        "{shown}"
    );
    folio.ok(&["approve", "r1"]);
    assert!(folio.ok(&["runs"]).contains("r1 interrupted"));
    folio.ok(&["resume", "r1"]);
    assert_eq!(status(&folio, "r1"), "ok");
}

#[test]
fn question_of_an_attended_run_stays_open_when_resumed_unattended_e9_14() {
    for (again, said) in [
        (&["run", "--plan", "quick.yaml", "--non-interactive"][..], "r1 waits; "),
        (
            &["resume", "--non-interactive"],
            "r1 waits for approval, and there is nobody to ask; `folio questions r1` lists it",
        ),
    ] {
        let folio = folio();
        start_run(&folio, "r1", "later.yaml").kill();
        let told = folio.call(again);
        assert_eq!(told.code, 0, "{told}");
        assert!(told.stderr.contains(said), "{told}");
        assert_eq!(folio.json(&["questions"])["returned"], json!(1));
        assert!(is_resumable(&folio, "r1"));
        folio.ok(&["approve", "r1"]);
        folio.ok(&["resume", "r1"]);
        assert_eq!(status(&folio, "r1"), "ok");
    }
}

#[test]
fn attended_run_that_is_resumed_by_name_without_a_terminal_goes_on_waiting_e9_14() {
    for plan in ["asks.yaml", "later.yaml"] {
        let folio = folio();
        let running = start_run(&folio, "r1", plan);
        if plan == "asks.yaml" {
            folio.until(&["questions"], |seen| seen["returned"] == json!(1));
        }
        running.kill();
        let told = folio.call(&["resume", "r1", "--quiet"]);
        assert_eq!(told.code, 1, "{told}");
        let waits = "r1 waits for approval, and there is nobody to ask; `folio questions r1` lists it\n";
        assert_eq!(told.stderr, waits);
        assert_eq!(folio.json(&["questions"])["returned"], json!(1));
        assert!(is_resumable(&folio, "r1"));
        // Who says that nobody answers is believed.
        let told = folio.call(&["resume", "r1", "--non-interactive"]);
        assert_eq!(told.code, 1, "{told}");
        assert_ne!(status(&folio, "r1"), "running");
    }
}

#[test]
fn ended_resume_of_a_run_that_asks_and_works_names_the_command_that_resumes_it() {
    let folio = folio();
    folio.file(
        "both.yaml",
        "steps: [{parallel: [{id: s, do: {tool: shell, args: {command: 'true'}}}, {id: w, do: {tool: wait, args: {ms: 60000}}}]}]",
    );
    let running = start_run(&folio, "r1", "both.yaml");
    folio.until(&["questions"], |seen| seen["returned"] == json!(1));
    running.kill();
    let running = folio.spawn(&["resume", "r1", "--quiet"]);
    folio.until(&["runs"], |seen| seen["items"][0]["driven"] == true);
    running.terminate();
    let told = running.wait();
    assert_eq!(told.code, 130, "{told}");
    assert!(told.stderr.contains("resume it with `folio resume r1`"), "{told}");
    assert!(is_resumable(&folio, "r1"));
}

#[test]
fn answer_after_the_question_timeout_is_refused_e9_9() {
    let folio = folio();
    folio.file(
        "look.yaml",
        "steps: [{id: q, title: look at it, executor: human, timeout: 3s}]",
    );
    let running = start_run(&folio, "r1", "look.yaml");
    folio.until(&["questions"], |seen| seen["returned"] == json!(1));
    running.kill();
    folio.until(&["questions"], |seen| seen["returned"] == json!(0));
    let told = folio.call(&["answer", "r1", "it is fine"]);
    assert_eq!(told.code, 3, "{told}");
    assert!(told.stderr.contains("the time for an answer ended at"), "{told}");
}

#[test]
fn terminated_process_leaves_its_run_interrupted() {
    let folio = folio();
    let running = start_run(&folio, "r1", "slow.yaml");
    running.terminate();
    let told = running.wait();
    assert_eq!(told.code, 130, "{told}");
    assert!(told.stderr.contains("resume it with `folio resume r1`"), "{told}");
    assert!(is_resumable(&folio, "r1"));
}

#[test]
fn resume_drives_every_leftover_run_that_it_can() {
    let folio = folio();
    folio.file("short.yaml", SLOW_PLAN.replace("5000", "1500"));
    let cue = json!({"role": "planner", "latency_ms": 60_000, "text": "never"});
    folio.file("script.json", json!({"version": 1, "cues": [cue]}).to_string());
    let goal = ["run", "Say hello", "--model", "scripted:script.json", "--quiet"];
    let running = folio.spawn(&goal);
    folio.until(&["runs"], |seen| seen["items"][0]["driven"] == true);
    running.kill();
    let running = start_run(&folio, "r2", "slow.yaml");
    folio.ok(&["pause", "r2"]);
    running.kill();
    start_run(&folio, "r3", "short.yaml").kill();
    let told = folio.call(&["resume"]);
    assert!(told.stderr.contains("r1 was not resumed"), "{told}");
    assert!(
        told.stderr
            .contains("r2 is paused; continue it with `folio continue r2`"),
        "{told}"
    );
    assert_eq!(told.code, 2, "one could not be gone on with: {told}");
    assert_eq!(status(&folio, "r3"), "ok");
    // Where there should be a model, that it cannot be had is what is wrong.
    folio.settings("model = \"gpt\"");
    start_run(&folio, "r4", "short.yaml").kill();
    for arguments in [&["resume", "--json"][..], &["resume", "r1"]] {
        let told = folio.call(arguments);
        assert_eq!(told.code, 2, "{told}");
        assert!(told.stderr.contains("does not name a model"), "{told}");
    }
    // Nor is what could be done without one done without its judge.
    assert!(is_resumable(&folio, "r4"));
}

/// Programs learn from the lines why a run was left, and which.
#[test]
fn resume_json_has_a_line_for_each_run_that_it_leaves() {
    let folio = folio();
    let cue = json!({"role": "planner", "latency_ms": 60_000, "text": "never"});
    folio.file("script.json", json!({"version": 1, "cues": [cue]}).to_string());
    let running = folio.spawn(&["run", "Say hello", "--model", "scripted:script.json", "--quiet"]);
    folio.until(&["runs"], |seen| seen["items"][0]["driven"] == true);
    running.kill();
    let running = start_run(&folio, "r2", "slow.yaml");
    folio.ok(&["pause", "r2"]);
    running.kill();
    let running = start_run(&folio, "r3", "asks.yaml");
    folio.until(&["questions"], |seen| seen["returned"] == json!(1));
    running.kill();
    let told = folio.call(&["resume", "--json"]);
    assert_eq!((told.code, told.stderr.as_str()), (2, ""), "{told}");
    let lines = told
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let left = lines.filter(|line| line["event"] == "run_not_resumed");
    let left: Vec<_> = left.map(|line| json!([line["handle"], line["code"]])).collect();
    let wanted = json!([["r1", "needs_model"], ["r2", "paused"], ["r3", "waits_for_person"]]);
    assert_eq!(Value::from(left), wanted, "{told}");
}

#[test]
fn resume_exits_with_the_worst_code_of_its_runs() {
    let folio = folio();
    // It waits a while, and then does not find what it is to read.
    folio.file(
        "fails.yaml",
        "steps: [{id: w, do: {tool: wait, args: {ms: 1500}}}, {id: r, do: {tool: read, args: {path: gone.txt}}}]",
    );
    let cue = json!({"role": "planner", "latency_ms": 60_000, "text": "never"});
    folio.file("script.json", json!({"version": 1, "cues": [cue]}).to_string());
    let running = folio.spawn(&["run", "Say hello", "--model", "scripted:script.json", "--quiet"]);
    folio.until(&["runs"], |seen| seen["items"][0]["driven"] == true);
    running.kill();
    start_run(&folio, "r2", "fails.yaml").kill();
    // The first cannot be gone on with, and the second, after it, ends badly, which is less.
    let told = folio.call(&["resume"]);
    assert!(told.stderr.contains("r1 was not resumed"), "{told}");
    assert_eq!(status(&folio, "r2"), "partial");
    assert_eq!(told.code, 2, "{told}");
}

#[test]
fn interrupted_recording_keeps_the_previous_cassette() {
    let folio = folio();
    let decision = json!({"decision": "execute", "reason": "it is small"});
    let cues = json!([
        {"role": "planner", "json": decision},
        {"role": "executor", "calls": [{"tool": "finish", "args": {"notes": "done", "output": {}}}]},
    ]);
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    let slow = json!([{"role": "planner", "latency_ms": 60_000, "json": decision}]);
    folio.file("slow.json", json!({"version": 1, "cues": slow}).to_string());
    let record = |model: &str| {
        let model = format!("scripted:{model}");
        let call = [
            "run",
            "Say hello",
            "--model",
            &model,
            "--record",
            "take.json",
            "--force",
            "--quiet",
            "--no-resume",
        ];
        folio.spawn(&call)
    };
    let kept = || std::fs::read_to_string(folio.path().join("take.json")).unwrap();
    let told = record("script.json").wait();
    assert_eq!(told.code, 0, "{told}");
    let before = kept();
    assert!(before.contains("it is small"), "{before}");
    let running = record("slow.json");
    folio.until(&["runs"], |seen| seen["items"][0]["driven"] == true);
    running.kill();
    assert_eq!(kept(), before);
}

#[test]
fn recording_that_cannot_be_written_does_not_hide_how_the_run_ended() {
    let folio = folio();
    // It answers once the process has been told to end, so that the process need not wait for it in vain.
    let cues = json!([
        {"role": "planner", "json": {"decision": "execute", "reason": "it is small"}},
        {"role": "executor", "latency_ms": 5_000, "text": "too late"},
    ]);
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    folio.file("takes/.keep", "");
    let call = [
        "run",
        "Say hello",
        "--model",
        "scripted:script.json",
        "--record",
        "takes/take.json",
    ];
    let running = folio.spawn(&[&call[..], &["--quiet"]].concat());
    let take = folio.path().join("takes/take.json");
    folio.until(&["runs"], |_| {
        std::fs::read_to_string(&take).is_ok_and(|text| text.contains("it is small"))
    });
    std::fs::remove_dir_all(folio.path().join("takes")).unwrap();
    running.terminate();
    let told = running.wait();
    assert_eq!(told.code, 130, "{told}");
    assert!(told.stderr.contains("left r1 before it ended"), "{told}");
    assert!(told.stderr.contains("takes/take.json"), "{told}");
}

#[test]
fn only_humans_may_issue_tokens_back_up_or_migrate_m7_7() {
    let folio = folio();
    folio.ok(&["observe", "add", "x"]);
    for call in [
        &["token", "new", "--role", "human", "--name", "n"][..],
        &["token", "list"],
        &["backup", "copy.db"],
        &["migrate", "--to", "sqlite:other.db"],
    ] {
        for role in ["tool", "client", "planner"] {
            let told = folio.call(&[&["--role", role], call].concat());
            assert_eq!(told.code, 4, "{told}");
            assert!(
                told.stderr.contains(&format!("a caller in the role {role} may not")),
                "{told}"
            );
        }
        folio.ok(call);
    }
}

#[test]
fn commands_that_read_a_run_refuse_the_roles_that_may_not_see_it_m7_7() {
    let folio = folio();
    folio.ok(&["run", "--plan", "quick.yaml"]);
    let roles = [
        ("tool", 4),
        ("executor", 4),
        ("planner", 4),
        ("compactor", 4),
        ("router", 0),
        ("clarifier", 0),
        ("evaluator", 0),
        ("reflector", 0),
        ("cleaner", 0),
        ("client", 0),
        ("human", 0),
    ];
    for call in [
        &["show", "r1"][..],
        &["runs"],
        &["watch", "r1"],
        &["plan", "show", "r1"],
        &["budget", "r1"],
        &["diff", "r1", "r1"],
        &["questions"],
        &["questions", "r1"],
        &["resume", "r1"],
    ] {
        for (role, code) in roles {
            let told = folio.call(&[&["--role", role], call].concat());
            assert_eq!(told.code, code, "{role} {call:?}: {told}");
            let is_refused = told.stderr.contains("error[role_denied]");
            assert_eq!(is_refused, code != 0, "{role} {call:?}: {told}");
            assert!(!is_refused || told.stdout.is_empty(), "{told}");
        }
    }
}

#[test]
fn leftover_run_of_another_user_is_resumed_only_by_name() {
    let folio = folio();
    start_run(&folio, "r1", "slow.yaml").kill();
    let store = folio.path().join("home/.local/share/folio/folio.db");
    // Only who may do everything can give a file away. The run of anybody else belongs to themselves and is resumed.
    let is_given_away = std::os::unix::fs::chown(&store, Some(65_534), None).is_ok();
    let told = folio.call(&["run", "--plan", "quick.yaml"]);
    assert_eq!(told.code, 0, "{told}");
    if !is_given_away {
        assert!(!told.stderr.contains("belongs to another user"), "{told}");
        assert_eq!(status(&folio, "r1"), "ok");
        return;
    }
    assert!(
        told.stderr.contains("belongs to another user") && told.stderr.contains("r1; `folio resume RUN`"),
        "{told}"
    );
    assert!(is_resumable(&folio, "r1"));
    assert_eq!(folio.call(&["resume", "r1"]).code, 0);
    assert_eq!(status(&folio, "r1"), "ok");
}
