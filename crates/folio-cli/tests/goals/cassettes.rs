//! Cassettes, through the program: a run is recorded, and replayed without its models.

use crate::support::Folio;
use insta::assert_snapshot;
use serde_json::{Value, json};

/// A text that looks like a provider's API key.
fn fake_api_key() -> String {
    ["AKIA", "IOSFODNN7EXAMPLE"].concat()
}

/// A script that plans a goal, does its parts in parallel and combines them. One answer has to be repeated.
fn goal_cues() -> Value {
    let deciding = |task: &str, answer: Value| json!({"role": "planner", "contains": ["Decide how", format!("# Task\n{task}\n")], "json": answer});
    let doing = |task: &str, value: Value| {
        deciding(
            task,
            json!({"decision": "execute", "reason": "it is small", "action": {"tool": "text", "args": {"op": "count", "value": value}}}),
        )
    };
    let working = |task: &str, notes: &str| {
        json!({"role": "executor", "contains": format!("# Task\n{task}\n"), "times": "always",
               "calls": [{"tool": "finish", "args": {"notes": notes, "criteria": [{"id": "c1", "met": true}]}}]})
    };
    json!([
        {"role": "planner", "contains": ["Decide how", "# Task\nSay what is here\n"], "text": "I think that"},
        deciding("Say what is here", json!({"decision": "plan", "reason": "two things", "steps": [
            [{"id": "files", "title": "list the files", "criteria": ["names are known"]},
             {"id": "size", "title": "count letters", "criteria": ["a number"]}]
        ]})),
        doing("list the files", json!(["a"])),
        working("list the files", &format!("one file, opened with {}", fake_api_key())),
        doing("count letters", json!(["a", "b"])),
        working("count letters", "two letters"),
        {"role": "planner", "contains": "Combine the results", "json": {"status": "ok", "notes": "One file and two letters."}}
    ])
}

/// A folder with a run recorded in `take.json`, whose model is gone.
fn recorded() -> Folio {
    let folio = Folio::new();
    let script = json!({"version": 1, "cues": goal_cues()});
    folio.file("script.json", script.to_string());
    // What memory holds is a part of what is asked.
    folio.ok(&["observe", "add", "The house has two doors.", "--type", "learning"]);
    let run = [
        "run",
        "Say what is here",
        "--model",
        "scripted:script.json",
        "--quiet",
        "--record",
        "take.json",
    ];
    let called = folio.call(&run);
    assert_eq!(called.code, 0, "{called}");
    std::fs::remove_file(folio.path().join("script.json")).unwrap();
    folio
}

fn events_of(folio: &Folio) -> Value {
    folio.json(&["replay", "r1"])["events"].clone()
}

#[test]
fn replay_with_a_cassette_matches_and_repeats_no_calls() {
    let folio = recorded();
    let before = events_of(&folio);
    assert_snapshot!(folio.seen(&["replay", "r1", "--cassette", "take.json"]), @"r1: 7 answers: requests and results as on the cassette");
    let found = folio.json(&["replay", "r1", "--cassette", "take.json"]);
    assert_eq!(found["differences"], json!([]), "{found}");
    assert_eq!(events_of(&folio), before);
    assert_eq!(folio.json(&["runs"])["items"].as_array().unwrap().len(), 1);
    // A list says what it cost without reading its journal.
    assert_eq!(
        folio.json(&["runs"])["items"][0]["spent"],
        folio.json(&["show", "r1"])["spent"]
    );
    let runs = folio.ok(&["runs"]);
    assert!(
        runs.starts_with("r1 ok Say what is here ") && runs.contains(" tokens · unknown cost "),
        "{runs}"
    );
}

#[test]
fn cassette_holds_no_secret_and_names_its_model() {
    let folio = recorded();
    let take = std::fs::read_to_string(folio.path().join("take.json")).unwrap();
    assert!(
        take.contains("one file, opened with [redacted:") && !take.contains(&fake_api_key()),
        "{take}"
    );
    assert!(take.contains("\"name\": \"scripted:script.json\""), "{take}");
}

#[test]
fn replay_reports_unrecorded_requests_and_changed_answers() {
    let folio = recorded();
    let take = std::fs::read_to_string(folio.path().join("take.json")).unwrap();
    // One answer is lost.
    let mut lost: Value = serde_json::from_str(&take).unwrap();
    let takes = lost["takes"].as_object_mut().unwrap();
    let summed_up = |take: &Value| take["request"].to_string().contains("Combine the results");
    let key = takes.iter().find(|(_, take)| summed_up(take)).unwrap().0.clone();
    takes.remove(&key);
    folio.file("lost.json", lost.to_string());
    let called = folio.call(&["replay", "r1", "--cassette", "lost.json"]);
    assert_eq!(called.code, 1, "{called}");
    assert!(
        called
            .stdout
            .contains("run: call 3: this request is not recorded; the nearest one is"),
        "{called}"
    );
    // Another answer leads elsewhere.
    let mut other: Value = serde_json::from_str(&take).unwrap();
    for take in other["takes"].as_object_mut().unwrap().values_mut() {
        let replies = take["replies"].to_string().replace("two letters", "three letters");
        take["replies"] = serde_json::from_str(&replies).unwrap();
    }
    folio.file("other.json", other.to_string());
    let other = folio.call(&["replay", "r1", "--cassette", "other.json"]);
    assert_eq!(other.code, 1, "{other}");
    let differences = other.stdout;
    assert!(differences.contains("size: call 2 has another answer"), "{differences}");
}

#[test]
fn unusable_cassette_is_refused_before_anything_runs() {
    let folio = recorded();
    folio.file("plan.yaml", "steps: [{id: wait, do: {tool: wait, args: {ms: 1}}}]");
    folio.file("none.json", "{\"version\": 1, \"takes\": {}}");
    let seen = [
        folio.seen(&["replay", "r1", "--cassette", "missing.json"]),
        folio.seen(&["replay", "r1", "--cassette", "none.json"]),
        folio.seen(&["run", "--plan", "plan.yaml", "--record", "take2.json"]),
    ];
    assert_snapshot!(seen.join("----\n"), @"
    ! error[cassette_unusable]: the cassette FOLDER/missing.json cannot be used: No such file or directory (os error 2)
    = 3
    ----
    ! error[cassette_unusable]: the cassette FOLDER/none.json does not say which models it is of
    !   hint: record one that does with `folio run --record`
    = 2
    ----
    ! error[no_model]: there is no model whose replies could be recorded
    !   hint: set one with --model, FOLIO_MODEL or in folio.toml
    = 2
    ");
}

#[test]
fn recording_run_does_not_resume_an_interrupted_run() {
    let folio = Folio::new();
    folio.file(
        "slow.yaml",
        "title: Slow\nsteps: [{id: a, do: {tool: observe, args: {content: once}}}, {id: b, do: {tool: wait, args: {ms: 800}}}]\n",
    );
    folio.file("script.json", json!({"version": 1, "cues": goal_cues()}).to_string());
    let running = folio.spawn(&["run", "--plan", "slow.yaml"]);
    folio.until(&["observe", "list"], |list| list["total"] == 1);
    running.kill();
    let run = [
        "run",
        "Say what is here",
        "--model",
        "scripted:script.json",
        "--record",
        "take.json",
    ];
    let called = folio.call(&run);
    assert_eq!(called.code, 0, "{called}");
    assert!(!called.stderr.contains("resuming"), "{called}");
    let runs = folio.ok(&["runs"]);
    assert!(
        runs.lines()
            .any(|line| line.contains("r1") && line.contains("interrupted")),
        "{runs}"
    );
}

#[test]
fn recording_with_a_restate_runner_is_refused() {
    let folio = Folio::new();
    folio.file("script.json", json!({"version": 1, "cues": goal_cues()}).to_string());
    let run = [
        "run",
        "Say what is here",
        "--model",
        "scripted:script.json",
        "--record",
        "take.json",
    ];
    let refused = folio.call(&[&run[..], &["--runner", "restate=http://127.0.0.1:1"]].concat());
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.stderr.contains("--record records the models of this process"),
        "{refused}"
    );
    assert!(!folio.path().join("take.json").exists());
}

#[test]
fn recording_over_a_cassette_of_another_run_needs_force() {
    let folio = recorded();
    let before = std::fs::read_to_string(folio.path().join("take.json")).unwrap();
    let script = json!({"version": 1, "cues": [
        {"role": "planner", "json": {"decision": "execute", "reason": "it is small"}},
        {"role": "executor", "calls": [{"tool": "finish", "args": {"notes": "done"}}]}
    ]});
    folio.file("other.json", script.to_string());
    let run = ["run", "Wait", "--model", "scripted:other.json", "--record", "take.json"];
    let refused = folio.call(&run);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("has replies of another run"), "{refused}");
    assert!(refused.stderr.contains("--force"), "{refused}");
    let kept = || std::fs::read_to_string(folio.path().join("take.json")).unwrap();
    assert_eq!(kept(), before);
    let forced = folio.call(&[&run[..], &["--force"]].concat());
    assert_eq!(forced.code, 0, "{forced}");
    let after = kept();
    assert!(
        after.contains("scripted:other.json") && !after.contains("scripted:script.json"),
        "{after}"
    );
}

#[test]
fn recording_refuses_to_overwrite_a_file_that_is_no_cassette() {
    let folio = Folio::new();
    folio.file("script.json", json!({"version": 1, "cues": goal_cues()}).to_string());
    folio.file(
        "plan.yaml",
        "title: T\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]\n",
    );
    folio.file("letter.txt", "Dear Ada,\n");
    let refused = folio.call(&[
        "run",
        "--plan",
        "plan.yaml",
        "--model",
        "scripted:script.json",
        "--record",
        "letter.txt",
    ]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("letter.txt") && refused.stderr.contains("is not a cassette"),
        "{}",
        refused.stderr
    );
    let letter = std::fs::read_to_string(folio.path().join("letter.txt"));
    assert_eq!(letter.unwrap(), "Dear Ada,\n");
}

#[test]
fn killed_recording_keeps_the_replies_that_came_before() {
    let folio = Folio::new();
    let first = json!({"decision": "execute", "reason": "it is small"});
    let script = json!({"version": 1, "cues": [
        {"role": "planner", "json": first},
        {"role": "executor", "latency_ms": 600_000, "text": "never heard"}
    ]});
    folio.file("script.json", script.to_string());
    let running = folio.spawn(&[
        "run",
        "Say what is here",
        "--model",
        "scripted:script.json",
        "--quiet",
        "--record",
        "take.json",
    ]);
    let take = || std::fs::read_to_string(folio.path().join("take.json")).unwrap_or_default();
    folio.until(&["runs"], |_| take().contains("it is small"));
    running.kill();
    let replayed = folio.call(&["replay", "r1", "--cassette", "take.json"]);
    assert_eq!(replayed.code, 0, "{replayed}");
    assert!(replayed.stdout.starts_with("r1: 1 answer: "), "{replayed}");
}
