//! People steer runs from outside: they change plans, say yes and no, raise limits.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod support;

use insta::assert_snapshot;
use serde_json::Value;
use support::Folio;

/// Three steps, the first of which waits until the run is paused or its time is over.
const SLOW: &str = "
title: Three steps
goal: See what happens.
steps:
  - {id: wait, do: {tool: wait, args: {ms: 60000}}}
  - {id: second, title: The second, do: {tool: text, args: {op: echo, value: 2}}}
  - {id: third, title: The third, do: {tool: text, args: {op: echo, value: 3}}}
";

/// A run that nobody drives: its process was killed while the first step waited.
fn interrupted(folio: &Folio) {
    folio.file("slow.yaml", SLOW);
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

fn path(value: &Value, path: &str) -> Value {
    let nodes = value["nodes"].as_array().unwrap();
    nodes
        .iter()
        .rfind(|node| node["path"] == path)
        .cloned()
        .unwrap_or(Value::Null)
}

#[test]
fn a_plan_is_shown_edited_and_handed_back_while_nobody_drives_it_e9_14() {
    let folio = Folio::new();
    interrupted(&folio);
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
    r1 plan 1: as it was
    ! nobody drives r1; `folio resume r1` goes on with it
    ");
    let text = text.replace("- [ ] The second {#second}", "- [-] The second {#second}")
        + "- [ ] Between {#between}\n  ```yaml\n  do: {tool: text, args: {op: echo, value: 9}}\n  ```\n";
    folio.file("plan.md", text.replace("60000", "1"));
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "plan.md"]), @"
    ! error: steps that have begun stay as they are: wait would be changed
    !   hint: leave them as `folio plan show RUN` prints them; `folio cancel RUN --node NODE` stops one
    = 4
    ");
    folio.file("plan.md", &text);
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "plan.md"]), @"
    r1 plan 2: added between; dropped second; kept wait, third
    ! nobody drives r1; `folio resume r1` goes on with it
    ");
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "plan.md"]), @"
    ! error: the plan of the run has version 2, and the edit was made of version 1
    !   hint: look at it as it is now (`folio plan show RUN`), then decide anew
    = 4
    ");
    assert_snapshot!(folio.seen(&["page", "show", "p3"]), @"
    # Plan

    <!-- p3 plan · planner · open · iteration 1 -->

    - [ ] wait {#wait}
    - [ ] The third {#third}
    - [ ] Between {#between}
    ");
    // What people see on the page is a plan, too: handed back, it changes nothing.
    folio.file("page.md", folio.ok(&["page", "show", "p3"]));
    assert_snapshot!(folio.seen(&["plan", "edit", "r1", "--file", "page.md"]), @"
    r1 plan 2: as it was
    ! nobody drives r1; `folio resume r1` goes on with it
    ");
    let shown = folio.json(&["plan", "show", "r1"]);
    assert_eq!(shown["plan_version"], 2);
    assert_eq!(shown["steps"][2]["id"], "between");
    assert_eq!(shown["states"][0]["editable"], false);
    let trace = folio.ok(&["trace", "--run", "r1"]);
    assert!(trace.contains("plan_edited"), "{trace}");
}

#[test]
fn an_edit_reaches_the_process_that_drives_the_run_e9_14() {
    let folio = Folio::new();
    folio.file("plan.yaml", SLOW.replace("60000", "4000"));
    let running = folio.spawn(&["run", "--plan", "plan.yaml"]);
    folio.until(&["runs"], |runs| {
        !runs["items"].as_array().unwrap_or(&Vec::new()).is_empty()
    });
    folio.until(&["show", "r1"], |run| path(run, "wait")["state"] == "executing");
    let plan = folio.ok(&["plan", "show", "r1", "--yaml"]);
    folio.file("edited.yaml", plan.replace("value: 3", "value: 33"));
    folio.ok(&["plan", "edit", "r1", "--file", "edited.yaml", "--if-version", "1"]);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("edited"), "{}", ended.stderr);
    let run = folio.json(&["show", "r1"]);
    assert_eq!(run["status"], "ok");
    assert_eq!(path(&run, "third")["status"], "ok");
    assert_eq!(run["counts"]["skipped"], 1, "the old third step");
}

#[test]
fn an_editor_gets_the_plan_and_what_it_leaves_is_the_edit_e9_14() {
    let folio = Folio::new();
    interrupted(&folio);
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
    nobody drives r1; `folio resume r1` goes on with it
    ");
    assert_snapshot!(edit("false"), @"error: the editor false ended with exit status: 1; nothing was changed");
}
