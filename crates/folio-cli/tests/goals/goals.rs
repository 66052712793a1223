//! Goals, through the program: a model that answers by a script plans, works and asks; people answer, pause and
//! continue.

use crate::support::Folio;
use insta::assert_snapshot;
use serde_json::{Value, json};

fn decision_cue(task: &str, mut answer: Value) -> Value {
    answer["reason"] = json!("it is so");
    json!({"role": "planner", "contains": ["Decide how", format!("# Task\n{task}\n")], "json": answer, "times": "always"})
}

fn execute_cue(task: &str, tool: &str, args: Value) -> Value {
    decision_cue(
        task,
        json!({"decision": "execute", "action": {"tool": tool, "args": args}}),
    )
}

fn work_cue(task: &str, tool: &str, args: Value) -> Value {
    json!({"role": "executor", "contains": format!("# Task\n{task}\n"), "calls": [{"tool": tool, "args": args}], "times": "always"})
}

fn finish_claims(notes: &str) -> Value {
    json!({"notes": notes, "criteria": [{"id": "c1", "met": true}]})
}

fn folio_with(cues: Value) -> Folio {
    let folio = Folio::new();
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    folio
}

fn goal_cues() -> Value {
    json!([
        decision_cue(
            "Say what is here",
            json!({"decision": "plan", "steps": [
                [{"id": "files", "title": "list the files", "criteria": ["names are known"]},
                 {"id": "size", "title": "count letters", "criteria": ["a number"]}],
                {"id": "sum", "title": "sum it up", "criteria": ["one sentence"]}
            ]})
        ),
        execute_cue("list the files", "text", json!({"op": "count", "value": ["a"]})),
        work_cue("list the files", "finish", finish_claims("one file")),
        execute_cue("count letters", "text", json!({"op": "count", "value": ["a", "b"]})),
        work_cue("count letters", "finish", finish_claims("two letters")),
        execute_cue("sum it up", "finish", finish_claims("one file, two letters")),
        {"role": "planner", "contains": "Combine the results", "json": {"status": "ok", "notes": "One file and two letters."}}
    ])
}

#[test]
fn goal_is_planned_executed_and_combined() {
    let folio = folio_with(goal_cues());
    assert_snapshot!(folio.seen(&["run", "Say what is here", "--model", "scripted:script.json", "--concurrency", "1"]), @r"
    # Say what is here

    One file and two letters.
    ! [TIME] planned   run  plan 1, 2 steps: it is so
    ! [TIME] decided   group-1/files  execute directly: it is so
    ! [TIME] ok        group-1/files/call-1  1
    ! [TIME] ok        group-1/files  one file
    ! [TIME] decided   group-1/size  execute directly: it is so
    ! [TIME] ok        group-1/size/call-1  2
    ! [TIME] ok        group-1/size  two letters
    ! [TIME] decided   sum  execute directly: it is so
    ! [TIME] ok        sum  one file, two letters
    ! [TIME] ok        run  One file and two letters.
    ! 
    ! 
    ! r1 ok: One file and two letters.
    !   pages           folio tree --run r1
    !   steps           folio show r1
    !   trace           folio trace --run r1
    !   in the browser  folio serve
    ");
    assert_snapshot!(folio.seen(&["tree", "--run", "r1"]), @r"
    p1 Say what is here workspace ok
    ├─ p2 Main scratchpad scratchpad_root ok
    │  ├─ p4 list the files scratchpad_exec ok
    │  ├─ p5 count letters scratchpad_exec ok
    │  ├─ p6 sum it up scratchpad_exec ok
    │  └─ p7 Iteration 1 iteration_summary ok
    ├─ p3 Plan plan ok
    └─ p8 Say what is here note ok
    ");
    let shown = folio.json(&["show", "r1"]);
    assert_eq!(shown["status"], "ok", "{shown}");
}

#[test]
fn run_without_planning_shows_no_decisions() {
    let folio = folio_with(json!([work_cue(
        "Say what is here",
        "finish",
        json!({"notes": "one file"})
    )]));
    assert_snapshot!(folio.seen(&["run", "Say what is here", "--model", "scripted:script.json", "--planning", "never"]), @r"
    # Say what is here

    one file
    ! [TIME] ok        run  one file
    ! 
    ! 
    ! r1 ok: one file
    !   pages           folio tree --run r1
    !   steps           folio show r1
    !   trace           folio trace --run r1
    !   in the browser  folio serve
    ");
}

#[test]
fn unattended_run_leaves_no_open_questions() {
    let folio = folio_with(json!([
        execute_cue("Paint the door", "ask_person", json!({"question": "Which colour?"})),
        work_cue("Paint the door", "finish", json!({"notes": "painted"})),
    ]));
    folio.ok(&["run", "Paint the door", "--model", "scripted:script.json", "--quiet"]);
    assert_snapshot!(folio.seen(&["questions"]), @"no open questions");
    assert_snapshot!(folio.seen(&["answer", "r1", "blue"]), @"
    ! error[no_question]: run r1 has no open question
    = 3
    ");
    let paused = folio.call(&["pause", "r1"]);
    assert_eq!(paused.code, 4, "{paused}");
    assert!(paused.stderr.contains("run_ended"), "{paused}");
    assert_eq!(folio.json(&["show", "r1"])["status"], "ok");
}

#[test]
fn unused_script_cues_fail_the_command_but_not_the_run() {
    let folio = folio_with(json!([
        execute_cue("Paint the door", "finish", json!({"notes": "painted"})),
        {"contains": "windows", "text": "?"},
        {"contains": "nor this", "text": "?", "times": "always"},
    ]));
    let run = folio.call(&["run", "Paint the door", "--model", "scripted:script.json", "--quiet"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("painted"), "{}", run.stdout);
    assert!(
        run.stderr.contains("its script does not fit what was asked") && run.stderr.contains("unused cue 2"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("cue 3"), "{}", run.stderr);
    let page = include_str!("../../../../docs/errors/script_left.md");
    assert!(
        page.contains(run.stderr.trim()),
        "the page shows something else: {}",
        run.stderr
    );
    assert_eq!(folio.json(&["show", "r1"])["status"], "ok", "the run is what it is");
}

#[test]
fn task_of_a_plan_has_the_tools_that_the_plan_names() {
    let refused = "this task may not use the tool list; available: grep, result_read, finish";
    let folio = folio_with(json!([
        execute_cue("count the letters", "list", json!({})),
        {"role": "executor", "contains": ["# Task\ncount the letters\n", refused],
         "calls": [{"tool": "finish", "args": {"notes": "two letters"}}]},
    ]));
    folio.file(
        "plan.yaml",
        "steps:\n- {id: count, title: count the letters, tools: [grep]}\n",
    );
    let run = folio.call(&["run", "--plan", "plan.yaml", "--model", "scripted:script.json"]);
    assert!(run.stderr.contains("two letters"), "{}", run.stderr);
    assert!(folio.seen(&["show", "r1"]).contains("count"), "{}", run.stderr);
    folio.file(
        "wider.yaml",
        "steps:\n- {id: a, tools: [grep], plan: [{id: b, title: B, tools: [list]}]}\n",
    );
    let check = folio.seen(&["plan", "check", "wider.yaml"]);
    assert!(
        check.contains("P032 the step around it may not use the tool \"list\""),
        "{check}"
    );
}

#[test]
fn unexpected_model_request_fails_the_command_even_if_the_run_copes() {
    let folio = folio_with(json!([]));
    let plan = json!({"title": "Doors", "steps": [{"id": "paint", "title": "Paint the door", "optional": true}]});
    folio.file("plan.json", plan.to_string());
    let run = folio.call(&[
        "run",
        "--plan",
        "plan.json",
        "--model",
        "scripted:script.json",
        "--quiet",
    ]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("script_left") && run.stderr.contains("no cue answers"),
        "{}",
        run.stderr
    );
    assert_eq!(folio.json(&["show", "r1"])["status"], "ok", "the run is what it is");
}

#[test]
fn script_named_by_several_model_roles_is_shared() {
    let folio = folio_with(json!([
        {"role": "planner", "contains": "Decide how",
         "json": {"decision": "execute", "reason": "it is small", "action": {"tool": "text", "args": {"op": "count", "value": ["a"]}}}},
        {"role": "executor", "calls": [{"tool": "finish", "args": finish_claims("one file")}]}
    ]));
    folio.settings("[models]\nexecutor = {model = \"scripted:script.json\", at_a_time = 1}\nplanner = \"scripted:script.json\"\njudge = \"scripted:script.json\"\n",
    );
    let run = folio.call(&["run", "Count the files", "--quiet"]);
    assert_eq!(run.code, 0, "{run}");
}

#[test]
fn goal_without_a_usable_model_is_refused_with_a_reason() {
    let folio = Folio::new();
    let seen: Vec<String> = [
        &["run", "do it"][..],
        &["run", "do it", "--model", "claude"],
        &["run", "do it", "--model", "anthropic:some"],
        &["run", "do it", "--model", "scripted:nowhere.json"],
    ]
    .iter()
    .map(|arguments| folio.seen(arguments))
    .collect();
    assert_snapshot!(seen.join("----\n"), @r#"
    ! error[no_model]: only a model can make a plan for a goal, and none is configured
    !   hint: name one with --model anthropic:NAME, openai:NAME, ollama:NAME or openai+http://HOST/v1:NAME
    !   hint: or put it into FOLIO_MODEL, or into folio.toml as model = "…"
    !   hint: without a model: folio plan example | folio run --plan - --input repo=.
    = 2
    ----
    ! error[model_unknown]: "claude" does not name a model: it has no ':'; write PROVIDER:NAME or PROVIDER+http://HOST/PATH:NAME with a provider of anthropic, openai, openai-responses, gemini, ollama; or scripted:FILE, or agent:NAME
    = 2
    ----
    ! error[model_key_missing]: anthropic:some needs a key and none is set; set ANTHROPIC_API_KEY, or name a file that holds it in folio.toml
    = 2
    ----
    ! error[script_unusable]: the script nowhere.json cannot be used: No such file or directory (os error 2)
    = 3
    "#);
}

#[test]
fn provider_reads_its_key_from_the_settings_key_file() {
    let folio = Folio::new();
    folio.file("key", "not-a-key\n");
    folio.file(
        "plan.yaml",
        "steps:\n  - id: files\n    do: {tool: list, args: {path: .}}\n",
    );
    // Nothing is sent: no task of the plan is a model's, but the models are opened before it begins. A key that cannot
    // be read does not stop such a run, and is told.
    for model in ["anthropic:some", "openai:some", "openai-responses:some", "gemini:some"] {
        for (key, is_read) in [("key", true), ("nokey", false)] {
            folio.settings(format!("[models.default]\nmodel = \"{model}\"\nkey_file = \"{key}\"\n"));
            let told = folio.call(&["run", "--plan", "plan.yaml"]);
            assert_eq!(told.code, 0, "{told}");
            assert_eq!(!told.stderr.contains("cannot read the key in"), is_read, "{told}");
            assert_eq!(!told.stderr.contains("going on without a model"), is_read, "{told}");
        }
    }
}

#[test]
fn superseded_step_is_marked_wherever_the_tree_is_shown() {
    let folio = folio_with(json!([
        decision_cue(
            "Mend the clock",
            json!({"decision": "plan", "steps": [
                {"id": "open", "title": "open the case", "criteria": ["it is open"]},
                {"id": "oil", "title": "oil its wheels", "criteria": ["it ticks"]}
            ]})
        ),
        execute_cue("open the case", "finish", finish_claims("open")),
        execute_cue("oil its wheels", "finish", json!({"status": "failed", "notes": "a tooth is broken"})),
        {"role": "planner", "contains": "A plan was carried out",
         "json": {"root_cause": "a broken tooth", "changes": "another wheel", "steps": [
            {"id": "replace", "title": "replace the wheel", "criteria": ["it fits"]}]}},
        execute_cue("replace the wheel", "finish", finish_claims("it ticks")),
        {"role": "planner", "contains": "Combine the results", "json": {"status": "ok", "notes": "It ticks."}, "times": "always"}
    ]));
    folio.ok(&[
        "run",
        "Mend the clock",
        "--model",
        "scripted:script.json",
        "--concurrency",
        "1",
        "--quiet",
    ]);
    let tree = folio.ok(&["show", "r1"]);
    let line = tree.lines().find(|line| line.contains("oil its wheels")).unwrap();
    assert!(
        line.contains("↷") && line.contains("replaced by another plan, failed: criteria_unmet: a tooth is broken"),
        "{tree}"
    );
    assert!(tree.contains("2 of 3 done · 1 replaced\n"), "{tree}");
    let shown = folio.json(&["show", "r1"]);
    let superseded = |node: &Value| node["superseded"] == true;
    let paths: Vec<&str> = shown["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|node| superseded(node))
        .map(|node| node["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["oil"]);
    assert_snapshot!(folio.seen(&["tree", "--run", "r1"]), @r"
    p1 Mend the clock workspace ok
    ├─ p2 Main scratchpad scratchpad_root ok
    │  ├─ p4 open the case scratchpad_exec ok
    │  ├─ p5 oil its wheels scratchpad_exec superseded
    │  ├─ p6 Iteration 1 iteration_summary partial
    │  ├─ p7 replace the wheel scratchpad_exec ok
    │  └─ p8 Iteration 2 iteration_summary ok
    ├─ p3 Plan plan ok
    └─ p9 Mend the clock note ok
    ");
}

#[test]
fn interrupted_model_call_is_shown_as_possibly_paid_twice_e9_9() {
    let folio = folio_with(json!([execute_cue("Say hello", "finish", json!({"notes": "hello"}))]));
    // A provider that takes the question and never answers.
    let provider = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let model = format!("openai+http://{}/v1:slow", provider.local_addr().unwrap());
    let running = folio.spawn(&["run", "Say hello", "--model", &model]);
    let _asked = provider.accept().unwrap();
    running.kill();
    let resumed = folio.call(&["resume", "r1", "--model", "scripted:script.json"]);
    assert_eq!(resumed.code, 0, "{resumed}");
    let shown = folio.ok(&["show", "r1"]);
    assert!(
        shown.contains("\n1 call of models possibly paid for twice: it is unknown how the first attempt ended\n"),
        "{shown}"
    );
    assert_eq!(folio.json(&["show", "r1"])["paid_twice"], json!(1));
}

#[test]
fn long_notes_name_the_command_that_prints_the_rest() {
    let notes = format!("{}the very end", "It is long. ".repeat(400));
    let done = json!({"notes": notes, "output": {"rooms": 2}});
    let folio = folio_with(json!([
        decision_cue("Say what is here", json!({"decision": "execute"})),
        work_cue("Say what is here", "finish", done),
    ]));
    let run = ["run", "Say what is here", "--model", "scripted:script.json"];
    for shown in [folio.ok(&run), folio.ok(&["show", "r1"])] {
        let (_, pointer) = shown.split_once("characters left out; `folio blob ").expect(&shown);
        let (entry, rest) = pointer.split_once("` prints all").expect(&shown);
        assert!(rest.starts_with(']') && !shown.contains("result_read"), "{shown}");
        assert!(folio.ok(&["blob", entry]).contains("the very end"));
    }
    let there = ["--store", "sqlite:f.db"];
    folio.ok(&[&run[..], &there].concat());
    for show in [&["show", "r1"][..], &["show", "r1", "--node", "run"]] {
        let shown = folio.ok(&[show, &there].concat());
        let (_, pointer) = shown.split_once("left out; `folio blob ").expect(&shown);
        let (entry, _) = pointer.split_once(" --store sqlite:f.db` prints all").expect(&shown);
        assert!(
            folio
                .ok(&[&["blob", entry], &there[..]].concat())
                .contains("the very end")
        );
    }
}
