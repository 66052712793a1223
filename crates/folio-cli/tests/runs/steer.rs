//! People steer runs through the program: they change plans, approve and reject, raise limits.

use crate::support::{Folio, node_at};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// Three steps, the first of which waits until the run is paused or its deadline passes.
const SLOW_PLAN: &str = "
title: Three steps
goal: See what happens.
steps:
  - {id: wait, do: {tool: wait, args: {ms: 60000}}}
  - {id: second, title: The second, do: {tool: text, args: {op: echo, value: 2}}}
  - {id: third, title: The third, do: {tool: text, args: {op: echo, value: 3}}}
";

/// A run that no process drives: its process was killed while the first step waited.
fn leave_interrupted_run(folio: &Folio) {
    folio.file("slow.yaml", SLOW_PLAN);
    let running = folio.spawn(&["run", "--plan", "slow.yaml", "--quiet"]);
    folio.until(&["runs"], |runs| {
        !runs["items"].as_array().unwrap_or(&Vec::new()).is_empty()
    });
    folio.until(&["show", "r1"], |run| {
        let nodes = run["nodes"].as_array().unwrap();
        nodes
            .iter()
            .any(|node| node["path"] == "wait" && node["state"] == "executing")
    });
    running.kill();
}

#[test]
fn plan_of_an_undriven_run_is_shown_and_edited_e9_14() {
    let folio = Folio::new();
    leave_interrupted_run(&folio);
    assert_snapshot!(folio.seen(&["plan", "show", "r1"]), @"
    # Three steps

    <!-- folio plan edit r1, version 1 -->

    - [~] wait {#wait}
      ```yaml
      do:
        tool: wait
        args: {ms: 60000}
      ```
    - [ ] The second {#second}
      ```yaml
      do:
        tool: text
        args: {op: echo, value: 2}
      ```
    - [ ] The third {#third}
      ```yaml
      do:
        tool: text
        args: {op: echo, value: 3}
      ```
    ");
    let text = folio.ok(&["plan", "show", "r1"]);
    folio.file("plan.md", &text);
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "plan.md"]), @"
    r1 plan 1: unchanged
    ! no process drives r1; resume it with `folio resume r1`
    ");
    let text = text.replace("- [ ] The second {#second}", "- [-] The second {#second}")
        + "- [ ] Between {#between}\n  ```yaml\n  do: {tool: text, args: {op: echo, value: 9}}\n  ```\n";
    folio.file("plan.md", text.replace("60000", "1"));
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "plan.md"]), @"
    ! error[step_begun]: steps that have begun cannot be edited: wait would be changed
    !   hint: leave those steps as `folio plan show RUN` prints them; cancel one with `folio cancel RUN --node NODE`
    = 4
    ");
    folio.file("plan.md", &text);
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "plan.md"]), @"
    r1 plan 2: added between; dropped second; kept wait, third
    ! no process drives r1; resume it with `folio resume r1`
    ");
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "plan.md"]), @"
    ! error[plan_stale]: the plan of the run has version 2, but the edit is based on version 1
    !   hint: read the current plan with `folio plan show RUN`: its first line names its version; then edit again with --if-version VERSION
    = 4
    ");
    assert_snapshot!(folio.seen(&["page", "show", "p3"]), @"
    # Plan

    <!-- p3 plan · planner · open · iteration 2 -->

    - [~] wait {#wait}
    - [ ] The third {#third}
    - [ ] Between {#between}
    ");
    // What people see on the page is a plan, too: handed back, it changes nothing.
    folio.file("page.md", folio.ok(&["page", "show", "p3"]));
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "page.md"]), @"
    r1 plan 2: unchanged
    ! no process drives r1; resume it with `folio resume r1`
    ");
    let shown = folio.json(&["plan", "show", "r1"]);
    assert_eq!(shown["plan_version"], 2);
    assert_eq!(shown["steps"][2]["id"], "between");
    assert_eq!(shown["states"][0]["editable"], false);
    let trace = folio.ok(&["trace", "--run", "r1"]);
    assert!(trace.contains("plan_edited"), "{trace}");
}

#[test]
fn plan_edit_reaches_the_process_that_drives_the_run_e9_14() {
    let folio = Folio::new();
    folio.file("plan.yaml", SLOW_PLAN.replace("60000", "4000"));
    let running = folio.spawn(&["run", "--plan", "plan.yaml"]);
    folio.until(&["runs"], |runs| {
        !runs["items"].as_array().unwrap_or(&Vec::new()).is_empty()
    });
    folio.until(&["show", "r1"], |run| node_at(run, "wait")["state"] == "executing");
    let plan = folio.ok(&["plan", "show", "r1", "--yaml"]);
    folio.file("edited.yaml", plan.replace("value: 3", "value: 33"));
    folio.ok(&["plan", "edit", "r1", "--file", "edited.yaml", "--if-version", "1"]);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("edited"), "{}", ended.stderr);
    let run = folio.json(&["show", "r1"]);
    assert_eq!(run["status"], "ok");
    assert_eq!(node_at(&run, "third")["status"], "ok");
    assert_eq!(run["counts"]["replaced"], 1, "the old third step");
}

#[test]
fn plan_edit_opens_the_users_editor_e9_14() {
    let folio = Folio::new();
    leave_interrupted_run(&folio);
    let edit = |editor: &str| {
        let mut command = folio.command(&["plan", "edit", "r1"]);
        command.env("PATH", "/usr/bin:/bin").env("EDITOR", editor);
        let called = command.output().unwrap();
        folio.without_accidents(&format!(
            "{}{}",
            String::from_utf8_lossy(&called.stdout),
            String::from_utf8_lossy(&called.stderr)
        ))
    };
    assert_snapshot!(edit("sed -i s/The.third/The.last/"), @"
    r1 plan 2: changed third; kept wait, second
    no process drives r1; resume it with `folio resume r1`
    ");
    assert_snapshot!(edit("false"), @"error[no_editor]: the editor false ended with exit status: 1; nothing was changed");
}

fn goal(folio: &Folio, cues: &Value) {
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
}

fn decision_cue(task: &str, mut answer: Value) -> Value {
    answer["reason"] = json!("it is so");
    json!({"role": "planner", "contains": ["Decide how", format!("# Task\n{task}\n")], "json": answer, "times": "always"})
}

fn finish_cue(task: &str) -> Value {
    let args = json!({"notes": format!("{task}: done"), "criteria": [{"id": "c1", "met": true}]});
    decision_cue(
        task,
        json!({"decision": "execute", "action": {"tool": "finish", "args": args}}),
    )
}

#[test]
fn rejected_plan_is_replanned_and_an_edit_approves_it_e9_14() {
    let folio = Folio::new();
    let steps = |last: &str| {
        json!([{"id": "look", "title": "look around", "criteria": ["seen"]},
               {"id": "last", "title": last, "criteria": ["done"]}])
    };
    goal(
        &folio,
        &json!([
            decision_cue("Tidy the shed", json!({"decision": "plan", "steps": steps("burn it all")})),
            {"role": "planner", "contains": ["A plan was carried out", "no fire"],
             "json": {"root_cause": "no fire", "changes": "another way", "steps": steps("carry it away")}},
            finish_cue("look around"), finish_cue("carry it away"), finish_cue("lock the door"),
            {"role": "planner", "contains": "Combine the results", "json": {"status": "ok", "notes": "The shed is tidy."}}
        ]),
    );
    let nobody = folio.seen(&[
        "run",
        "Tidy the shed",
        "--model",
        "scripted:script.json",
        "--plan-gate",
        "root",
    ]);
    assert_snapshot!(nobody, @"
    ! error[nobody_to_approve]: plans need a person's approval, and nobody is there to approve them
    !   hint: pass --attended if somebody approves elsewhere with `folio approve`, or --plan-gate never to need no approval
    = 2
    ");
    let run = [
        "run",
        "Tidy the shed",
        "--model",
        "scripted:script.json",
        "--plan-gate",
        "root",
        "--attended",
        "--concurrency",
        "1",
    ];
    let running = folio.spawn(&run);
    let waiting = |version: u64| move |asked: &Value| asked["items"][0]["plan_version"] == version;
    folio.until(&["questions"], waiting(1));
    let asked = folio.seen(&["questions"]);
    let id = asked.split(' ').next().unwrap().to_owned();
    assert_snapshot!(asked.replace(&id, "ID"), @"
    ID run waits for approval: a plan of 2 steps: look around, burn it all
      folio approve ID, or folio reject ID
    ");
    assert_snapshot!(folio.seen(&["approve", &id, "--always", "tool"]), @"
    ! error[usage]: --always is for calls, and a plan waits there
    !   hint: leave --always out
    = 2
    ");
    assert_snapshot!(folio.seen(&["plan", "show", "r1"]), @"
    # Tidy the shed

    <!-- folio plan edit r1, version 1 -->

    <!-- A model made this plan: each step reports on its own criteria, and no judge verifies them. -->

    - [ ] look around {#look}
      ```yaml
      criteria:
        - {id: c1, check: judge, required: true, text: seen}
      ```
    - [ ] burn it all {#last}
      ```yaml
      criteria:
        - {id: c1, check: judge, required: true, text: done}
      ```
    ");
    let yaml = folio.ok(&["plan", "show", "r1", "--yaml"]);
    assert!(
        yaml.starts_with("# folio plan edit r1, version 1\n# A model made this plan: "),
        "{yaml}"
    );
    assert!(folio.json(&["plan", "show", "r1"])["not_judged"].is_string());
    folio.ok(&["reject", &id, "--reason", "no fire"]);
    folio.until(&["questions"], waiting(2));
    let plan = folio.ok(&["plan", "show", "r1"]) + "- [ ] lock the door {#lock}\n";
    folio.file("plan.md", plan);
    folio.ok(&["plan", "edit", "r1", "--file", "plan.md"]);
    let ended = running.wait();
    assert_snapshot!(folio.without_accidents(&ended.to_string()), @"
    # Tidy the shed

    The shed is tidy.
    ! [TIME] planned   run  plan 1, 2 steps, waits for approval: it is so
    ! r1 asks something and waits; `folio questions r1` lists it
    ! [TIME] rejected  run  plan 1, rejected by human: no fire
    ! [TIME] skipped   look  superseded: not begun, because the plan was rejected
    ! [TIME] skipped   last  superseded: not begun, because the plan was rejected
    ! [TIME] planned   run  plan 2, 2 steps, waits for approval: no fire; another way
    ! [TIME] edited    run  plan 3, edited by human: added lock; kept look, last
    ! [TIME] decided   look  execute directly: it is so
    ! [TIME] ok        look  look around: done
    ! [TIME] decided   last  execute directly: it is so
    ! [TIME] ok        last  carry it away: done
    ! [TIME] decided   lock  execute directly: it is so
    ! [TIME] ok        lock  lock the door: done
    ! [TIME] ok        run  The shed is tidy.
    ! 
    ! 
    ! r1 ok: The shed is tidy.
    !   pages           folio tree --run r1
    !   steps           folio show r1
    !   trace           folio trace --run r1
    !   in the browser  folio serve
    ");
    assert_snapshot!(folio.seen(&["approve", "r1"]), @"
    ! error[no_approval]: nothing in run r1 waits for approval
    !   hint: `folio questions` lists everything that waits for approval
    = 3
    ");
}

#[test]
fn command_waits_for_approval_that_only_a_human_may_give_e9_14() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: Two commands\nsteps:\n  - {id: one, do: {tool: shell, args: {argv: [echo, hello]}}}\n  - {id: two, do: {tool: shell, args: {argv: [echo, hello]}}}\n  - {id: three, optional: true, do: {tool: shell, args: {argv: [echo, bye]}}}\n",
    );
    let mut running = folio.process(&["run", "--plan", "plan.yaml", "--attended", "--quiet"]);
    let mut running = running.env("PATH", "/usr/bin:/bin").spawn().unwrap();
    folio.until(&["questions"], |asked| asked["items"][0]["kind"] == "call");
    let asked = folio.json(&["questions", "r1"]);
    assert_eq!(asked["items"][0]["call"]["args"], json!({"argv": ["echo", "hello"]}));
    assert_eq!((&asked["returned"], &asked["total"]), (&json!(1), &json!(1)), "{asked}");
    let states = folio.json(&["plan", "show", "r1"])["states"].take();
    let statuses: Vec<&Value> = states.as_array().unwrap().iter().map(|step| &step["status"]).collect();
    assert_eq!(statuses, ["awaiting_approval", "waiting", "waiting"]);
    assert_snapshot!(folio.seen(&["--role", "executor", "approve", "r1"]), @"
    ! error[role_denied]: only a person may do that, not the role executor
    !   hint: leave out --role and FOLIO_ROLE
    = 4
    ");
    assert_snapshot!(folio.seen(&["answer", "r1", "yes"]), @"
    ! error[no_question]: run r1 has no open question
    !   hint: it waits for approval; `folio questions r1` lists what
    = 3
    ");
    let id = asked["items"][0]["id"].as_str().unwrap();
    let (node, _) = id.rsplit_once('.').unwrap();
    // A yes that was meant for something else that was asked there.
    assert_snapshot!(folio.seen(&["approve", &format!("{node}.0123456789abcdef")]), @"
    ! error[asked_else]: one no longer waits for what was answered, but for something else
    !   hint: `folio questions` prints the current request; read it, then decide again
    = 4
    ");
    let approved = folio.ok(&["approve", id, "--always", "arguments"]);
    assert!(
        approved.starts_with("approved: shell {\"argv\":[\"echo\",\"hello\"]}\nr1 "),
        "{approved}"
    );
    folio.until(&["questions"], |asked| asked["items"][0]["path"] == "three");
    // What comes to wait later is not approved in advance.
    assert_snapshot!(folio.seen(&["approve", "r1.one"]), @"
    ! error[no_approval]: one does not wait for approval
    !   hint: `folio questions` lists everything that waits for approval
    = 3
    ");
    // Without an id, the answer shows what was decided on.
    let rejected = folio.json(&["reject", "r1", "--reason", "enough"]);
    assert_eq!(rejected["decided"]["call"]["args"], json!({"argv": ["echo", "bye"]}));
    assert!(
        rejected["decided"]["id"].as_str().unwrap().matches('.').count() == 2,
        "{rejected}"
    );
    // What was rejected is optional.
    assert!(running.wait().unwrap().success());
    let run = folio.json(&["show", "r1"]);
    assert_eq!(
        (&node_at(&run, "one")["status"], &node_at(&run, "two")["status"]),
        (&json!("ok"), &json!("ok")),
        "{run}"
    );
    assert_eq!(node_at(&run, "three")["stop_reason"], "policy_denied");
    assert!(
        node_at(&run, "three")["notes"]
            .as_str()
            .unwrap()
            .ends_with("rejected it: enough"),
        "{run}"
    );
    let timeline = folio.ok(&["trace", "--turn", "t1"]);
    for decision in ["approved", "rejected"] {
        assert!(timeline.contains(decision), "{timeline}");
    }
    // Without anybody there, it is refused as before.
    let alone = folio.call(&["run", "--plan", "plan.yaml", "--quiet"]);
    assert_eq!(alone.code, 1, "{}", alone.stderr);
    let run = folio.json(&["show", "r2"]);
    assert_eq!(node_at(&run, "one")["stop_reason"], "policy_denied", "{run}");
}

#[test]
fn limits_are_raised_but_not_lowered_below_usage_e9_10() {
    let folio = Folio::new();
    leave_interrupted_run(&folio);
    assert_snapshot!(folio.seen(&["budget", "r1"]), @"
    r1
      tokens        0 of 2,000,000
      usd           0, no limit
      model_calls   0, no limit
      tool_calls    1, no limit
      bytes         N of 4,294,967,296
      nodes         3 of 203
      deadline      TIME
    ");
    assert_snapshot!(folio.seen(&["budget", "r1", "--tokens", "+500", "--nodes", "300", "--usd", "1.5"]), @"
    r1
      tokens        0 of 2,000,500
      usd           0 of 1.500000
      model_calls   0, no limit
      tool_calls    1, no limit
      bytes         N of 4,294,967,296
      nodes         3 of 300
      deadline      TIME
    ! no process drives r1; resume it with `folio resume r1`
    ");
    assert_snapshot!(folio.seen(&["budget", "r1", "--nodes", "2"]), @"
    ! error[limit_unusable]: the limit on nodes cannot be 2: 3 are already used or set aside
    !   hint: `folio budget RUN` prints the limits and what is used
    = 4
    ");
    let cached = folio.seen(&["budget", "r1", "--tokens-cached", "700"]);
    assert!(cached.contains("\n  tokens_cached 0 of 700\n"), "{cached}");
    let added = folio.seen(&["budget", "r1", "--model-calls", "+5"]);
    assert!(added.contains("no limit in model_calls"), "{added}");
    let added = folio.seen(&["budget", "r1", "--node", "second", "--usd", "+5"]);
    assert!(added.contains("no limit in usd"), "{added}");
    assert_snapshot!(folio.seen(&["budget", "r1", "--node", "second"]), @"
    r1 second
      no limits of its own; the limits of the nodes above it apply
    ");
    assert_snapshot!(folio.seen(&["budget", "r1", "--node", "second", "--tokens", "5"]), @"
    ! error[limit_unusable]: second has no limit of its own on tokens; change the limit of the run
    !   hint: `folio budget RUN` prints the limits and what is used
    = 4
    ");
}

#[test]
fn reached_limit_suggests_a_fork_with_more_of_it_e9_10() {
    let folio = Folio::new();
    let echo = |id: &str| format!("{{id: {id}, do: {{tool: text, args: {{op: echo, value: a long answer}}}}}}");
    let (one, two, three) = (echo("one"), echo("two"), echo("three"));
    let offered = |plan: &str| {
        folio.file("plan.yaml", format!("title: Little\n{plan}"));
        let told = folio.call(&["run", "--plan", "plan.yaml"]);
        assert_eq!(told.code, 1, "{}", told.stderr);
        let lines = told.stderr.lines().map(str::trim);
        let offers = lines.filter(|line| line.contains("before-limit") || line.contains("folio budget"));
        offers.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    // A part has less than the run.
    assert_snapshot!(offered(&format!("budget: {{tool_calls: 9}}\nsteps: [{{id: s, budget: {{tool_calls: 1}}, plan: {{steps: [{one}, {two}]}}}}]")), @"go on with more folio fork r1 --before-limit --tool-calls +N");
    // A part has a limit, and it is that of the run which is reached in it.
    assert_snapshot!(offered(&format!("budget: {{tool_calls: 1}}\nsteps: [{{id: s, budget: {{tool_calls: 9}}, plan: {{steps: [{one}, {two}]}}}}]")), @"go on with more folio fork r2 --before-limit --tool-calls +N");
    // The nodes of a part, and those of the run.
    let list = "{id: each, for_each: [1, 2], step: {id: e, do: {tool: text, args: {op: echo, value: 1}}}}";
    assert_snapshot!(offered(&format!("budget: {{nodes: 9}}\nsteps: [{{id: s, budget: {{nodes: 2}}, plan: {{steps: [{list}]}}}}]")), @"go on with more folio fork r3 --before-limit --nodes +N");
    assert_snapshot!(offered(&format!("budget: {{nodes: 3}}\nsteps: [{{id: s, plan: {{steps: [{list}]}}}}]")), @"go on with more folio fork r4 --before-limit --nodes +N");
    // An output that is too large is none of the bytes that a run may write.
    assert_snapshot!(offered(&format!("budget: {{output_bytes: 5}}\nsteps: [{three}]")), @"");
}

#[test]
fn request_for_an_ended_node_is_reported_and_not_recorded_e9_11() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "steps:\n  - {id: a, do: {tool: text, args: {op: echo, value: 1}}}\n  - {id: b, do: {tool: wait, args: {ms: 60000}}}",
    );
    let running = folio.spawn(&["run", "--plan", "plan.yaml", "--quiet"]);
    folio.until(&["runs"], |runs| {
        !runs["items"].as_array().unwrap_or(&Vec::new()).is_empty()
    });
    folio.until(&["show", "r1"], |run| node_at(run, "b")["state"] == "executing");
    running.kill();
    let events = || folio.json(&["show", "r1"])["nodes"][0].clone();
    let (before, at) = (events(), folio.json(&["runs"])["items"][0]["updated_at"].clone());
    for command in ["cancel", "pause", "continue"] {
        let told = folio.call(&[command, "r1", "--node", "a"]);
        assert_eq!(told.code, 0, "{}", told.stderr);
        assert!(
            told.stderr.contains("a of r1 has already ended: ok"),
            "{command}: {}",
            told.stderr
        );
    }
    assert_eq!(
        (events(), folio.json(&["runs"])["items"][0]["updated_at"].clone()),
        (before, at)
    );
}

#[test]
fn unknown_node_of_an_ended_run_is_not_found() {
    let folio = Folio::new();
    folio.file("plan.yaml", "steps: [{id: a, do: {tool: wait, args: {ms: 1}}}]");
    folio.ok(&["run", "--plan", "plan.yaml", "--quiet"]);
    for (command, code) in [("cancel", 0), ("pause", 4), ("continue", 4)] {
        let told = folio.call(&[command, "r1", "--node", "nope"]);
        assert_eq!(told.code, 3, "{command}: {told}");
        assert!(told.stderr.contains("run r1 has no node nope"), "{command}: {told}");
        let of_run = folio.call(&[command, "r1"]);
        for told in [of_run, folio.call(&[command, "r1", "--node", "a"])] {
            assert_eq!(told.code, code, "{command}: {told}");
            assert_eq!(told.stderr.contains("run_ended"), code == 4, "{command}: {told}");
        }
    }
}

#[test]
fn paused_node_is_named_where_its_run_is_shown_e9_14() {
    let folio = Folio::new();
    leave_interrupted_run(&folio);
    folio.ok(&["pause", "r1", "--node", "second"]);
    let shown = folio.ok(&["show", "r1"]);
    assert!(
        shown.contains("r1 interrupted: paused: second; was under way: wait; no process drives it"),
        "{shown}"
    );
    folio.ok(&["pause", "r1"]);
    let shown = folio.ok(&["show", "r1"]);
    assert!(shown.contains("r1 interrupted: paused; was under way: wait"), "{shown}");
}

#[test]
fn paused_run_shows_only_begun_calls_as_under_way_e9_14() {
    let folio = Folio::new();
    leave_interrupted_run(&folio);
    folio.ok(&["pause", "r1", "--node", "wait"]);
    let shown = folio.ok(&["show", "r1"]);
    assert!(
        shown.contains("r1 interrupted: paused: wait; was under way: wait; no process drives it"),
        "{shown}"
    );
    // Who takes the run over gives the call up that nobody carries out any more, and begins it no more while it is
    // paused.
    folio.ok(&["pause", "r1"]);
    let running = folio.spawn(&["resume", "r1", "--quiet"]);
    folio.until(&["trace", "--run", "r1"], |trace| {
        let entries = trace["items"].as_array().unwrap();
        entries.iter().any(|entry| entry["operation"] == "resumed")
    });
    let shown = folio.ok(&["show", "r1"]);
    assert!(shown.contains("r1 running: paused; nothing under way"), "{shown}");
    running.kill();
}

#[test]
fn waiting_run_names_the_run_that_holds_its_resource_e9_15() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "inputs: {desk: {type: path}}\nsteps: [{id: a, do: {tool: shell, args: {command: sleep 60}}}]",
    );
    let begin = || {
        folio.spawn(&[
            "run",
            "--plan",
            "plan.yaml",
            "--allow-shell",
            "--input",
            "desk=.",
            "--quiet",
        ])
    };
    let first = begin();
    folio.until(&["runs"], |runs| {
        !runs["items"].as_array().unwrap_or(&Vec::new()).is_empty()
    });
    folio.until(&["show", "r1"], |run| node_at(run, "a")["state"] == "executing");
    let second = begin();
    folio.until(&["runs"], |runs| {
        runs["items"].as_array().is_some_and(|runs| runs.len() == 2)
    });
    folio.until(&["show", "r2"], |run| run["held_up"]["by"] == "r1");
    let shown = folio.call(&["show", "r2"]).stdout;
    assert!(shown.contains("waiting: a call of r1 is writing"), "{shown}");
    assert!(folio.json(&["show", "r1"]).get("held_up").is_none());
    second.kill();
    first.kill();
}
